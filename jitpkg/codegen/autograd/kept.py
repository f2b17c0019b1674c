"""Graphs that went through AOTAutograd: kept, and made again without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import fx

from jitpkg import config
from jitpkg.attempts import Attempts, words
from jitpkg.codegen.autograd.function import Layout, Plan, Run, boxed, differentiated
from jitpkg.codegen.autograd.halves import Function, compiled_half, relied_on, with_facts
from jitpkg.codegen.autograd.partial import Halves
from jitpkg.codegen.autograd.taken_views import Shown, of_plain, plain, taken_again
from jitpkg.codegen.autograd.twice import RANDOM, Original, Values
from jitpkg.codegen.cache.entry import Kept, keep, kept_or_claimed
from jitpkg.codegen.cache.graph_key import derived
from jitpkg.codegen.cache.graphs import graph_of, graph_text
from jitpkg.codegen.cache.plain import NotPlain, Plain, read, written
from jitpkg.codegen.kernels.compile import Report
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError
from jitpkg.facts.random_streams import RandomStreams
from jitpkg.interrupts import from_outside, lost


@dataclass(frozen=True, slots=True)
class Half:
    """A compiled graph."""

    function: Function
    """As it is called where it is not launched as a whole."""
    report: Report | None
    """None for what was kept, and where the graph runs op by op."""
    obstacle: str | None
    """To that, and below how many of its results others may keep: see `compiler.Maker`."""
    shown: int | None


class Compilation:
    """Compiles the halves of one graph, and keeps them.

    Args:
        key: of the graph; None where nothing is to be kept.
    """

    def __init__(self, gm: fx.GraphModule, maker: Maker, options: Options, key: str | None) -> None:
        self._gm = gm
        self._name = type(gm).__name__
        self._maker = maker
        self._options = options
        self._key = key if maker.keeps else None
        self._forward: Half | None = None
        self._backward: Half | None = None
        self._text: Plain = None
        """The backward graph: parts of it, or all op by op, may be asked for in another process."""
        self._handed: set[int] = set()

    def forward(self, aten: fx.GraphModule, shown: int | None = None) -> Function:
        """
        Args:
            shown: how many of its results are not only for the other half, the first ones.
        """
        self._forward = self._compiled("forward", aten, shown)
        return self._called("forward", self._forward)

    def backward(self, aten: fx.GraphModule) -> Run:
        """The whole half."""
        self._backward = self._compiled("backward", aten)
        if self._key is not None:
            try:
                self._text = graph_text(with_facts(aten))
            except (NotPlain, NotLowered):  # of sizes that its data decide
                self._key = None
        return boxed(self._called("backward", self._backward))

    def part(self, aten: fx.GraphModule) -> Run:
        """A part of the backward half, of what is on disk, or compiled now."""
        try:
            text = None if self._key is None else graph_text(with_facts(aten))
        except (NotPlain, NotLowered):
            text = None
        key = None if self._key is None or text is None else derived(self._key, text)
        with kept_or_claimed(key, self._name, self._gm) as found:
            if found is None:
                return self._new_part(aten, key)
            (half,) = _halves(found)
            return boxed(self._called("backward", half))

    def _new_part(self, aten: fx.GraphModule, key: str | None) -> Run:
        before = relied_on(aten)
        half = self._compiled("backward", aten)
        if relied_on(aten) != before:
            raise NotLowered("a part of a backward graph holds for fewer sizes")
        if key is not None:
            self._keep(key, [half])
        self._maker.made.clear()
        return boxed(self._called("backward", half))

    def keep(
        self,
        plan: Plan | None,
        streams: Sequence[torch.device],
        views: Mapping[int, Shown],
        results: Function | None = None,
    ) -> None:
        """Keep the halves of a graph.

        Args:
            plan: None for a graph that is not differentiated.
            streams: the devices on which random numbers are drawn.
            views: which results are views.
            results: what makes the graph's results of those of the halves, where it is kept, too.
        """
        if self._key is None or self._forward is None:
            return
        random, shown = written(tuple(streams)), plain(views)
        if plan is None:
            self._keep(self._key, [self._forward], shown, None, [], random, None)
            return
        if self._backward is None or plan.layouts is None:
            return
        layouts = [_layout_text(layout) for layout in plan.layouts]
        about = asdict(replace(plan, layouts=()))
        halves = [self._forward, self._backward]
        rest = shown, about, layouts, random, self._text
        self._keep(self._key, halves, *rest, others=() if results is None else (results,))

    def again(self, found: Kept) -> Function:
        """The function of a graph that was kept."""
        shown, *rest = found.rest[1:]
        function, views = self._again(found, *rest), of_plain(shown)
        return taken_again(function, views) if views else function

    def _again(
        self, found: Kept, about: dict[str, Any] | None, layouts: Any, random: Plain, text: Plain
    ) -> Function:
        original, streams, halves = self._gm.forward, read(random, {}), _halves(found)
        forward = self._called("forward", halves[0])
        if about is None:
            return guarded(self._name, forward, original, streams)
        others: dict[str, Any] = {
            name: tuple(v) if type(v) is list else v for name, v in about.items()
        }
        others["layouts"] = tuple(_layout_of(*layout) for layout in layouts)
        backward = boxed(self._called("backward", halves[1]))
        parts = Halves.again(backward, lambda: graph_of(text), self.part).part
        others_kept = found.functions[len(halves) :]
        again = RANDOM if streams else Values(self._gm) if others_kept else Original(self._gm)
        function = differentiated(Plan(**others), forward, parts, original, again)
        for results in others_kept:
            found.later.run = function
            return results
        return guarded(self._name, function, original, streams)

    def _compiled(self, half: str, aten: fx.GraphModule, shown: int | None = None) -> Half:
        name = f"{self._name}.{half}"
        function, report = compiled_half(name, aten, self._maker, self._options)
        obstacle = self._maker.obstacle(aten.graph) if report is not None else "it runs op by op"
        return Half(function, report, obstacle, shown)

    def _called(self, name: str, half: Half) -> Function:
        """What is called: launched as a whole, where that was asked for."""
        return self._maker.replayed(
            f"{self._name}.{name}",
            half.obstacle,
            half.function,
            shown=half.shown,
            handed=self._handed,
        )

    def _keep(
        self, key: str, halves: Sequence[Half], *rest: Plain, others: Sequence[Function] = ()
    ) -> None:
        reports = [half.report for half in halves if half.report is not None]
        if len(reports) < len(halves) or any(report.left for report in reports):
            return
        said = [report.event for report in reports]
        how = [[half.obstacle, half.shown] for half in halves]
        functions = [*(half.function for half in halves), *others]
        keep(key, self._name, self._gm, functions, self._maker.made, said, [how, *rest])


def _halves(found: Kept) -> list[Half]:
    return [Half(f, None, *how) for f, how in zip(found.functions, found.rest[0], strict=False)]


def guarded(
    name: str, function: Function, original: Function, devices: Sequence[torch.device]
) -> Function:
    """The function, or the original where that fails. It writes to nothing.

    Args:
        devices: on which it draws random numbers.
    """
    streams = RandomStreams(devices) if devices else None
    attempts = Attempts(name)

    def run(*inputs: torch.Tensor) -> Any:
        if attempts.given_up:
            return original(*inputs)
        states = () if streams is None else streams.save()
        try:
            return function(*inputs)
        except Exception as error:  # nothing has happened yet: if an op is to blame it fails again
            taken = lost(error)
            if taken is None and (
                from_outside(error) or (isinstance(error, BackendError) and config.current().raises)
            ):
                raise
            if streams is not None:
                streams.restore(states)
            why = words(error)
        if taken is not None:
            raise taken
        results = original(*inputs)
        attempts.note(why)
        return results

    return run


def _layout_text(layout: Layout) -> Plain:
    kind = written(layout.dtype), written(layout.device)
    return [list(layout.size), list(layout.stride), *kind]


def _layout_of(size: list[int], stride: list[int], dtype: Plain, device: Plain) -> Layout:
    return Layout(tuple(size), tuple(stride), read(dtype, {}), read(device, {}))
