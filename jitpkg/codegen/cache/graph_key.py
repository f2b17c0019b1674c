"""The key of a graph: a hash of all that its compilation depends on.

Where some of that cannot be told, there is no key, and nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.cache.plain import NotPlain, Plain, written
from jitpkg.codegen.options import Options
from jitpkg.facts.outcome import Outcome
from jitpkg.facts.tensor import TensorFacts, facts_of, why_not_plain
from jitpkg.internals import Missing, modes, settings, trees
from jitpkg.internals.tensors import memory
from jitpkg.marks import BODIES, BODY, OUTCOME, RECOMPUTED, TRANSFORMED, WARNS, varies

FORMAT = "1"
"""Of what is kept."""

_BEGAN = time.time()


def graph_key(
    gm: fx.GraphModule, inputs: Sequence[Any], options: Options, depends: Plain
) -> str | None:
    """The key of a graph of torch functions with such inputs, in the state torch is in now.

    Args:
        depends: what else the result depends on: see `compiler.Maker`.
    """
    try:
        made = [
            *(FORMAT, _nodes(gm), [_input(x) for x in inputs], _sharing(inputs)),
            *(asdict(options), _state(), _process(), depends),
        ]
    except (NotPlain, Missing):
        return None
    return digest(json.dumps(made))


def derived(key: str, *what: Plain) -> str:
    """The key of something else that is made of the same."""
    return digest(json.dumps([key, *what]))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# The graph


def _nodes(gm: fx.GraphModule) -> Plain:
    if varies(gm.meta):
        raise NotPlain("sizes that vary")
    return [_node(node) for node in gm.graph.nodes]


def _node(node: fx.Node) -> Plain:
    if node.op == "get_attr" or hasattr(node.target, WARNS):
        raise NotPlain(f"{node.op} {node.target}")
    if TRANSFORMED in node.meta:
        return [node.op, node.name, _transform(node), written(node.args)]
    if BODIES in node.meta:
        return [node.op, node.name, _control_flow(node), written(node.args)]
    inner = node.meta.get(RECOMPUTED, node.meta.get(BODY))
    if inner is not None:
        what = "recomputed" if RECOMPUTED in node.meta else _outcome_text(node.meta[OUTCOME])
        target: Plain = [what, [_node(each) for each in inner.nodes]]
        return [node.op, node.name, target, written(node.args), written(node.kwargs)]
    return [node.op, node.name, written(node.target), written(node.args), written(node.kwargs)]


def _transform(node: fx.Node) -> Plain:
    return ["transform", getattr(node.target, "__name__", None), _part(node.meta[TRANSFORMED])]


def _control_flow(node: fx.Node) -> Plain:
    run, of = getattr(node.target, "__name__", None), _outcome_text(node.meta[OUTCOME])
    return ["control flow", run, of, *map(_part, node.meta[BODIES])]


def _part(part: Any) -> Plain:
    inner = [_node(each) for each in part.module.graph.nodes]
    return [part.captured, part.given, written(part.options), inner]


def _input(given: Any) -> Plain:
    if not isinstance(given, torch.Tensor):
        raise NotPlain("an input that is no tensor")
    why = why_not_plain(given)
    if why is not None:
        raise NotPlain(why)
    return facts_text(facts_of(given))


def facts_text(facts: TensorFacts) -> Plain:
    """Facts as JSON."""
    lengths = (*facts.size, *facts.stride)
    if any(type(length) is not int for length in lengths):
        raise NotPlain("sizes that vary")
    if facts.device.type not in ("cpu", "cuda"):
        raise NotPlain(f"a tensor on {facts.device}")
    return [
        facts.cls.__name__,
        *(written(facts.dtype), written(facts.device)),
        list(facts.size),
        list(facts.stride),
        [facts.requires_grad, facts.is_leaf, facts.is_inference],
    ]


def _outcome_text(outcome: Outcome) -> Plain:
    """What an autograd function returns: which of it has gradients, and what shows an argument."""
    leaves = trees.leaves_of(outcome.result)
    facts = [facts_text(each) if isinstance(each, TensorFacts) else None for each in leaves]
    return [facts, list(outcome.shares), outcome.random]


def _sharing(inputs: Sequence[torch.Tensor]) -> Plain:
    """For each input, the first one that lies in the same memory, and the first that it is."""
    memories = list(map(memory, inputs))
    objects = [id(x) for x in inputs]
    return [[memories.index(m), objects.index(o)] for m, o in zip(memories, objects, strict=True)]


# Torch's state


def _state() -> Plain:
    if modes.ANY_AUTOCAST.get()() or modes.FORWARD_LEVEL.get()() >= 0:
        raise NotPlain("autocast, or forward-mode differentiation")
    if modes.SAVED_TENSOR_HOOKS.get()(True) is not None:
        raise NotPlain("hooks for saved tensors")
    return [
        *(torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        *(str(torch.get_default_dtype()), torch.get_num_threads()),
        *(str(torch.get_autocast_dtype("cpu")), torch.is_autocast_cache_enabled()),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        _fills_memory(),
        torch.get_float32_matmul_precision(),
        *(torch.backends.mha.get_fastpath_enabled(), torch.backends.quantized.engine),
        settings.all_switches(),
        settings.changed_for_aot(),
        sorted((name, os.environ[name]) for name in filter(_matters, os.environ)),
    ]


def _has_mkldnn() -> bool:
    mkldnn: Any = torch.backends.mkldnn
    return bool(mkldnn.is_available())


def _fills_memory() -> bool:
    settings: Any = torch.utils.deterministic
    return bool(settings.fill_uninitialized_memory)


def _matters(variable: str) -> bool:
    """Whether torch reads an environment variable; those of Inductor it sets itself."""
    return variable.startswith(_VARIABLES) and not variable.startswith("TORCHINDUCTOR")


_VARIABLES = ("TORCH", "PYTORCH", "FUNCTORCH", "AOT", "PARTITIONER", "ATEN", "JITPKG_DEBUG")
"""What the names of variables that torch reads begin with."""


# The process


@cache
def _process() -> Plain:
    """What stays the same for as long as a process lives."""
    return [
        *(sys.version, sys.implementation.cache_tag, platform.platform()),
        *(torch.__version__, torch.version.git_version, torch.version.cuda),
        torch.backends.cpu.get_cpu_capability(),
        _has_mkldnn(),
        source(),
    ]


@cache
def source() -> str:
    """A hash of the package's own source.

    Raises:
        NotPlain: it has changed since the process has begun: that is not what runs here.
    """
    made = hashlib.sha256()
    for file in _files():
        if file.stat().st_mtime > _BEGAN:
            raise NotPlain(f"{file} has changed")
        content = file.read_bytes()
        made.update(f"{file.name} {len(content)}\n".encode())
        made.update(content)
    return made.hexdigest()


def _files() -> Iterator[Path]:
    """All that has a part in what a graph becomes: the tracer's part is the graph."""
    package = Path(__file__).parents[2]
    for room in ("codegen", "facts", "native"):
        yield from sorted((package / room).rglob("*.py"))
