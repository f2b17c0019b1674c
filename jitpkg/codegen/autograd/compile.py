"""A graph that is trained, as kernels: both halves, and what joins them at each call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg import events
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.purity import is_random
from jitpkg.codegen.aten.runtime import Later, runtime
from jitpkg.codegen.aten.traced import Declined
from jitpkg.codegen.autograd.function import Layout, Plan, differentiated
from jitpkg.codegen.autograd.kept import Compilation, guarded
from jitpkg.codegen.autograd.partial import Halves
from jitpkg.codegen.autograd.partition import parted
from jitpkg.codegen.autograd.record import Joint, joint
from jitpkg.codegen.autograd.twice import Again, again_of
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.options import Options
from jitpkg.codegen.sizes.symbols import Symbols
from jitpkg.facts.tensor import TensorFacts, size_of, stride_of

Function = Callable[..., Any]


def trained(
    gm: fx.GraphModule,
    inputs: list[Any],
    maker: Maker,
    options: Options,
    key: str | None = None,
    symbols: Symbols | None = None,
) -> Function | str:
    """The function of a graph whose results have gradients; or why this is not the way to it.

    Args:
        key: under which the result is kept on disk, where it can be.
        symbols: what stands for sizes and numbers that vary: the function takes their values, too.
    """
    name = type(gm).__name__
    with events.timed(name, "preparing"):
        prepared = prepare(gm, inputs, symbols, trains=True)
        if isinstance(prepared, str):
            return prepared
        recorded = joint(prepared, inputs, None if symbols is None else symbols.decisions)
        if isinstance(recorded, str):
            return recorded
        try:
            halves = parted(recorded)
        except Declined as error:
            return str(error)
    of = Compilation(gm, maker, options, key)
    both = Halves()
    results = len(prepared.values)
    forward = of.forward(_module(name, halves.forward), results)
    both.runs(_module(name, halves.backward), of.backward, of.part, all_apart=False)
    plan = _plan(recorded, inputs, results, symbols, both.shared)
    devices = (torch.device("cpu"),) if any(map(is_random, halves.forward.nodes)) else ()
    again = again_of(prepared, plan.ints)
    if symbols is not None:
        function = _with_ints(plan, forward, both, gm.forward, again)
        maker.made.clear()
        return runtime(prepared, Later(function))
    function = differentiated(plan, forward, both.part, gm.forward, again)
    if prepared.is_whole:
        of.keep(plan, devices, {})
        function = guarded(name, function, gm.forward, devices)
    else:
        later = Later(function)
        function = runtime(prepared, later)
        of.keep(plan, devices, {}, function)
    maker.made.clear()
    return function


def _module(name: str, graph: fx.Graph) -> fx.GraphModule:
    return fx.GraphModule(torch.nn.Module(), graph, class_name=name)


def _with_ints(
    plan: Plan, forward: Function, both: Halves, original: Function, again: Again | str
) -> Function:
    """The function of a graph's inputs and of its symbols, whose values the backward half gets."""

    def with_saved(*given: Any) -> tuple[Any, ...]:
        return (*forward(*given), *given[-plan.ints :])

    def without(*given: Any) -> Any:
        return original(*given[: -plan.ints])

    return differentiated(plan, with_saved, both.part, without, again)


def _plan(
    recorded: Joint,
    inputs: Sequence[Any],
    results: int,
    symbols: Symbols | None,
    shared: tuple[int, ...],
) -> Plan:
    facts = [recorded.values[k].meta["facts"] for k in recorded.differentiable]
    tensors = [k for k, given in enumerate(inputs) if isinstance(given, torch.Tensor)]
    return Plan(
        results=results,
        differentiable=recorded.differentiable,
        layouts=tuple(map(_layout, facts)) if symbols is None else None,
        views=(),
        unused=tuple(k for k in tensors if recorded.gradients[k] is None),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        ints=0 if symbols is None else len(symbols.names),
        shared=shared,
    )


def _layout(facts: TensorFacts) -> Layout:
    return Layout(size_of(facts), stride_of(facts), facts.dtype, facts.device)
