"""The backend that `torch.compile` finds as `backend="jitpkg"`.

A graph of torch.compile's is a Python function with more in it than graphs of ours have: sizes as
inputs, higher-order ops, modules as attributes, ops that no facts are known of. So it is compiled
like any other function, and what our tracer cannot do with is run by Python, between our graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

from jitpkg import api, config, events
from jitpkg.codegen.graph.copies import copied
from jitpkg.internals import library
from jitpkg.interrupts import from_outside, uninterrupted
from jitpkg.messages import warn

_NAME = "jitpkg"


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph for `torch.compile(…, backend="jitpkg")`.

    Args:
        mode: as `jitpkg.compile` takes it.
        options: those of `jitpkg.list_options()`; not together with `mode`.

    Raises:
        InvalidArgument: there is no such mode or option.
    """
    settings = api.Settings(backend=_NAME, mode=mode, options=options)
    settings.compiler()
    name = _name(gm)
    why = "the setting disable" if config.current().disable else _obstacle(gm)
    if why is not None:
        events.STREAM.emit(events.Declined(name, _NAME, why))
        return gm.forward
    try:
        return uninterrupted(
            lambda: api.compiled_graph(_as_python(gm), settings, name, _varying(gm))
        )
    except Exception as error:
        if config.current().raises or from_outside(error):
            raise
        warn(f"{name} runs op by op: jitpkg failed ({type(error).__name__}: {error}).")
        return gm.forward


def _name(gm: fx.GraphModule) -> str:
    """As torch's own logs name it: 2/1 is the second compilation of the third function."""
    return f"torch.compile {gm.meta.get('dynamo_compile_id', 'graph')}"


def _varying(gm: fx.GraphModule) -> Mapping[str, frozenset[int] | None]:
    """For each input the dims of which the size varies; None for a number that varies."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    made = {str(node.target): node.meta.get("example_value") for node in placeholders}
    found = {
        name: _dims(value) if isinstance(value, torch.Tensor) else None
        for name, value in made.items()
        if isinstance(value, torch.Tensor | torch.SymInt)
    }
    return MappingProxyType(found)


def _dims(value: torch.Tensor) -> frozenset[int]:
    size: tuple[Any, ...] = value.shape
    return frozenset(k for k, n in enumerate(size) if isinstance(n, torch.SymInt))


def _obstacle(gm: fx.GraphModule) -> str | None:
    for node in gm.graph.nodes:
        module = getattr(node.target, "__module__", None) or ""
        if node.op == "call_function" and module.startswith(library.TRANSFORMS):
            return "a function transform (vmap, grad): what runs under one is not traced"
    return None


def _as_python(gm: fx.GraphModule) -> fx.GraphModule:
    """A module of its own, which is Python code, with real calls of `torch.utils.checkpoint`.

    In their place torch.compile puts an op for AOTAutograd's partitioners, which draws other random
    numbers when it is run, and run again, by itself.
    """
    graph = copied(gm.graph)
    for node in graph.find_nodes(op="call_function", target=_MARKED):
        (body, *_) = node.args
        assert isinstance(body, fx.Node)
        marked: Any = gm.get_submodule(str(body.target))
        context = marked.meta.get("_checkpoint_context_fn")
        node.target = checkpoint if context is None else _with_context(context)
        node.kwargs = {**node.kwargs, "use_reentrant": False}
    return fx.GraphModule(gm, graph)


_MARKED = torch.ops.higher_order.tag_activation_checkpoint


def _with_context(context: Callable[[], Any]) -> Callable[..., Any]:
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(*args, context_fn=context, **kwargs)

    return checkpointed
