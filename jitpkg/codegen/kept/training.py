"""Graphs that were differentiated: kept, and made again without AOTAutograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from torch import fx

from jitpkg import events
from jitpkg.codegen.compiler import Report
from jitpkg.codegen.differentiated import Plan, differentiated
from jitpkg.codegen.halves import Function, compiled_half, in_parts, part_of
from jitpkg.codegen.kept.entry import Kept, keep, kept
from jitpkg.codegen.kept.graphs import graph_of, graph_text
from jitpkg.codegen.kept.key import derived
from jitpkg.codegen.kept.plain import NotPlain, Plain
from jitpkg.codegen.launch import CpuKernels
from jitpkg.codegen.options import Options


class Parts:
    """Makes parts of a backward graph: of what is on disk, or now."""

    def __init__(
        self,
        gm: fx.GraphModule,
        whole: fx.GraphModule | Plain,
        key: str | None,
        maker: CpuKernels,
        options: Options,
    ) -> None:
        self._gm = gm
        self._whole = whole
        self._key = key
        self._maker = maker
        self._options = options

    def make(self, undefined: frozenset[int]) -> Function:
        """The part that is left where these gradients are undefined."""
        name = type(self._gm).__name__
        key = None if self._key is None else derived(self._key, sorted(undefined))
        found = None if key is None else kept(key, name, self._gm)
        if found is not None:
            return found.functions[0]

        def compiled(part: fx.GraphModule) -> Function:
            title = f"{name}.backward"
            function, report = compiled_half(title, part, self._maker, self._options)
            if key is not None and _is_whole(report):
                keep(key, name, self._gm, [function], self._maker.made, _events(report))
            return function

        if not isinstance(self._whole, fx.GraphModule):
            self._whole = graph_of(self._whole)
        return part_of(self._whole, undefined, compiled)


def keep_training(
    key: str,
    gm: fx.GraphModule,
    plan: Plan,
    halves: Sequence[tuple[Function, Report | None]],
    backward: fx.GraphModule,
    maker: CpuKernels,
) -> bool:
    """Keep a graph that was differentiated, where it can be; says whether it can.

    Args:
        halves: what was compiled, forward and backward.
        backward: the graph of the backward half, of which a part may be asked for.
    """
    (forward, first), (whole, second) = halves
    if not _is_whole(first) or not _is_whole(second):
        return False
    try:
        text = graph_text(backward.graph) if len(plan.differentiable) > 1 else None
    except NotPlain:
        return False
    rest = [asdict(plan), text]
    reports = [*_events(first), *_events(second)]
    return keep(key, type(gm).__name__, gm, [forward, whole], maker.made, reports, rest)


def again(
    found: Kept, key: str, gm: fx.GraphModule, maker: CpuKernels, options: Options
) -> Function:
    """The function of a graph that was kept by `keep_training`."""
    plain: dict[str, Any]
    plain, whole = found.rest
    layouts = tuple((tuple(size), tuple(stride)) for size, stride in plain.pop("layouts"))
    others: dict[str, Any] = {k: tuple(v) if type(v) is list else v for k, v in plain.items()}
    forward, backward = found.functions
    parts = Parts(gm, whole, key, maker, options)
    run = in_parts({frozenset(): backward}, parts.make)
    return differentiated(Plan(layouts=layouts, **others), gm, forward, run)


def _is_whole(report: Report | None) -> bool:
    return report is not None and not report.left


def _events(report: Report | None) -> list[events.Fused]:
    return [] if report is None else [report.event]
