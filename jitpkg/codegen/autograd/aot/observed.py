"""What a graph does in eager code, besides computing its results: it runs once, without data."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import torch
from torch import fx

from jitpkg import forks
from jitpkg.codegen.autograd.aot.layouts import Laid
from jitpkg.codegen.autograd.taken_views import Views, views_of
from jitpkg.codegen.graph import writing
from jitpkg.codegen.graph.writing import name_of
from jitpkg.dataclass import dataclass
from jitpkg.errors import JitpkgWarning
from jitpkg.facts import fake
from jitpkg.facts.outcome import is_random
from jitpkg.facts.refused import is_differentiated_in_vain
from jitpkg.facts.shared import may_be_refused
from jitpkg.facts.thread_state import snapshot
from jitpkg.internals import dispatch, fake_tensors, tensors
from jitpkg.internals.ops import OpOverload, op_name


@dataclass(frozen=True, slots=True)
class Observed:
    """What a graph does, besides computing its results."""

    random: int = 0
    """How many of its ops draw from a random stream."""
    checks: int = 0
    """How many of its ops only raise, for some data."""
    obstacle: str | None = None
    """Why an op cannot be one of a graph that writes to nothing."""
    views: Views = field(default_factory=Views)
    """What autograd knows of its results."""
    trained: tuple[bool | None, ...] = ()
    """Which of its results require grad; None for what is no tensor."""
    laid: tuple[Laid | None, ...] = ()
    """How its results lie in memory; None for what is no tensor."""


def observed(gm: fx.GraphModule, inputs: Sequence[Any]) -> Observed:
    """What eager code does, whether or not anything uses the numbers."""
    mode, given = stand_ins(inputs)
    seen = _Observer()
    with unnoticed(), mode:
        with dispatch.mode(seen.see):
            results = gm.forward(*given)
        laid = _laid(given, results)
        views = views_of(given, results)
    one_hots = sum(name_of(node) == "one_hot" for node in gm.graph.nodes)
    checks = seen.checks + _OF_ONE_HOT * one_hots
    trained = tuple(x.requires_grad if isinstance(x, torch.Tensor) else None for x in results)
    obstacle = seen.obstacle
    if torch.is_inference_mode_enabled() and _shows_what_requires_grad(given, results):
        obstacle = "a view of a tensor that requires grad, in inference mode"
    return Observed(seen.random, checks, obstacle, views, trained, laid)


def _shows_what_requires_grad(given: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether a result is a view of an input that requires grad: in inference mode it does, too,
    which is lost where torch takes the op apart that makes it."""
    inputs = [x for x in tensors_of(given) if x.requires_grad and not x.is_inference()]
    shown = {tensors.memory(x) for x in inputs}
    return any(
        tensors.memory(x) in shown and not any(x is other for other in inputs)
        for x in tensors_of(results)
    )


class _Observer:
    """Counts the ops that draw from a random stream, and those that raise for some data."""

    def __init__(self) -> None:
        self.random = self.checks = 0
        self.obstacle: str | None = None

    def see(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        self.random += is_random(func, args, kwargs)
        self.checks += is_check(func)
        if may_be_refused(func, args, kwargs):
            self.obstacle = "memory that an op reads or writes to: eager code may refuse it"
        elif is_differentiated_in_vain(func, args, kwargs):
            self.obstacle = "gradients that eager code may refuse to compute"
        elif writing.is_lost(func):
            self.obstacle = "a result that is written to `out=` by an op of which that is not known"
        return func(*args, **kwargs)


def is_check(op: object) -> bool:
    """Whether an op only raises, for some data."""
    return isinstance(op, OpOverload) and op_name(op) in _CHECKS


_CHECKS = frozenset({"aten::_linalg_check_errors", "aten::_assert_async"})
_OF_ONE_HOT = 2
"""So many checks are in what AOTAutograd makes of `one_hot`; PyTorch 2.11 makes something else
where there are no data, and checks nothing."""


def _laid(given: Sequence[Any], results: Sequence[Any]) -> tuple[Laid | None, ...]:
    counts = Counter(map(tensors.memory, tensors_of((*given, *results))))
    return tuple(
        Laid.of(x, alone=counts[tensors.memory(x)] == 1) if isinstance(x, torch.Tensor) else None
        for x in results
    )


def tensors_of(values: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among values."""
    return [x for x in values if isinstance(x, torch.Tensor)]


def stand_ins(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Tensors without data for those among a graph's inputs, and the mode that they belong to."""
    fakes = fake.fakes(tensors_of(inputs))
    made = iter(fakes.values)
    return fakes.mode, [next(made) if isinstance(x, torch.Tensor) else x for x in inputs]


_LOG = logging.getLogger(fake_tensors.LOGGER)


@contextmanager
def unnoticed() -> Iterator[None]:
    """To trace a graph is to run what it has of changes to grad mode and autocast; and it warns."""
    restore, quiet, filters = snapshot(), _LOG.disabled, warnings.filters

    def be_heard() -> None:
        _LOG.disabled, warnings.filters = quiet, filters

    with forks.changing(be_heard):
        try:
            _LOG.disabled = True  # it logs what it raises
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("default", JitpkgWarning)
                yield
        finally:
            _LOG.disabled = quiet
            restore()
