"""PyTorch's own op database: ops, and the same sample inputs as often as they are asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from types import FunctionType
from typing import Any

import numpy
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from tests.opinfo.modules import modules, state_of

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
SEED = 20260101

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of an op, by position and by name."""


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """Samples of an op in one dtype, in one context, compiled by one backend."""

    op: str
    dtype: str
    context: str
    backend: str = "jitpkg"
    device: str = "cpu"

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        on = "" if self.device == "cpu" else f" {self.device}"
        return f"{self.op} {self.dtype} {self.context} {self.backend}{on}"


def traceable(function: Any) -> Any:
    """An op's function, as if a program had written it: torch's own tests are not traced."""
    if not isinstance(function, FunctionType) or not _is_of_tests(function):
        return function
    known = function.__globals__
    globals_ = {**known, "__name__": "samples", "wrapper_set_seed": _called}
    copy = FunctionType(
        function.__code__, globals_, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = "samples"
    return copy


def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """In place of a call that seeds first: each run starts from a known random state."""
    return function(*args, **kwargs)


def _is_of_tests(function: FunctionType) -> bool:
    return function.__globals__.get("__name__", "").startswith("torch.testing.")


def database() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import (  # noqa: PLC0415  # seconds
        op_db,
    )

    return list(op_db)


def everything() -> list[Any]:
    """The ops of the database, and the modules of the other one."""
    return [*database(), *modules()]


def function_of(name: str, *, in_place: bool = False) -> Any:
    """An op's function, or its in-place variant."""
    (op,) = (op for op in everything() if op.formatted_name == name)
    return traceable(op.inplace_variant if in_place else op.op)


def tasks(
    ops: list[Any],
    pattern: str,
    dtypes: Callable[[Any, str], Iterable[torch.dtype]],
    contexts: Mapping[str, bool],
    backends: Iterable[str],
    once: Collection[str] = (),
    device: str = "cpu",
) -> Iterator[Task]:
    """All tasks, those of an op after each other.

    Args:
        pattern: a regular expression for the ops' names.
        dtypes: those of an op in a context; what it does not support is left out.
        contexts: names, and whether gradients are compared.
        once: backends that are asked only in the first dtype that an op supports.
    """
    for op in ops:
        if not re.search(pattern, op.formatted_name):
            continue
        supported = op.supported_dtypes(device)
        for context, grad in contexts.items():
            if context not in getattr(op, "contexts", contexts):
                continue
            fit = [
                str(dtype).removeprefix("torch.")
                for dtype in dtypes(op, context)
                if (differentiable(op, dtype, device) if grad else dtype in supported)
            ]
            for k, name in enumerate(fit):
                for backend in backends:
                    if not k or backend not in once:
                        yield Task(op.formatted_name, name, context, backend, device)


def differentiable(op: Any, dtype: torch.dtype, device: str = "cpu") -> bool:
    return bool(op.supports_autograd and dtype in op.supported_backward_dtypes(device))


def seed(device: str) -> None:
    """Start from the known random state; `torch.manual_seed` looks for devices each time."""
    torch.default_generator.manual_seed(SEED)
    if device != "cpu":
        torch.manual_seed(SEED)


def samples(op: Any, dtype: torch.dtype, *, grad: bool, device: str = "cpu") -> Iterator[Call]:
    """Equal ones each time, and no tensor twice; none where the database cannot make them."""
    seed(device)
    random.seed(SEED)
    numpy.random.seed(SEED)
    try:
        # `op.sample_inputs` seeds for each of them, which takes 2 ms
        for sample in op.sample_inputs_func(op, device, dtype, grad):
            yield (sample.input, *sample.args), dict(sample.kwargs)
    except (RuntimeError, NotImplementedError, ImportError):
        return


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def kind(call: Call) -> object:
    """Equal for samples that have tensors of the same dims, and the same other arguments."""
    leaves, spec = tree_flatten(call)
    return str(spec), tuple(map(_kind, leaves))


def _kind(leaf: Any) -> object:
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, leaf.layout, tuple(min(n, 2) for n in _shape(leaf))
    if isinstance(leaf, int):
        leaf = min(max(leaf, -1), 2)
    return type(leaf), leaf if isinstance(leaf, int | str | torch.dtype) else None


def _shape(x: torch.Tensor) -> tuple[int, ...]:
    return () if x.is_nested else tuple(x.shape)


_WIDER = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
}


def wider(value: Any) -> Any:
    """The same values as float64; one tensor for one, also where samples share it, or a module
    has it."""
    known: dict[int, torch.Tensor] = {}

    def of(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return deepcopy(leaf, {id(x): of(x) for x in state_of(leaf)})
        if not isinstance(leaf, torch.Tensor) or leaf.dtype not in _WIDER:
            return leaf
        if id(leaf) not in known:
            copy = leaf.detach().to(_WIDER[leaf.dtype]).requires_grad_(leaf.requires_grad)
            if isinstance(leaf, torch.nn.Parameter):
                copy = torch.nn.Parameter(copy, copy.requires_grad)
            known[id(leaf)] = copy if leaf.is_leaf else copy.view_as(copy)
        return known[id(leaf)]

    return tree_map(of, value)


def backward(results: Any, given: Any, *, again: bool = False) -> list[torch.Tensor | None]:
    """Gradients of all results together, by each tensor that was given.

    Args:
        again: whether gradients of these follow.
    """
    ends = [x for x in tensors(results) if x.requires_grad]
    unique = {id(x): x for x in tensors(given) if x.requires_grad and x.is_leaf}
    if not ends or not unique:
        return []
    generator = torch.Generator().manual_seed(SEED)
    leaves = list(unique.values())

    def of(every: list[torch.Tensor]) -> list[torch.Tensor | None]:
        tangents = [_gradient(x, generator) for x in every]
        return list(
            torch.autograd.grad(every, leaves, tangents, allow_unused=True, create_graph=again)
        )

    found = of(ends)
    followed = [x for x in found if x is not None and x.requires_grad] if again else []
    return [*found, *(of(followed) if followed else ())]


def _gradient(of: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if of.layout is not torch.strided or of.is_nested:
        return torch.ones_like(of)
    numbers = torch.randint(-4, 5, of.shape, generator=generator) / 4
    return numbers.to(of.device, of.dtype)
