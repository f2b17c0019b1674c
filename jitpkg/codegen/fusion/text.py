"""A schedule as text that a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from jitpkg.codegen.fusion.kernel import (
    Begin,
    Blocks,
    Chunks,
    Compute,
    Finish,
    Gather,
    Grid,
    Keep,
    Kind,
    Lanes,
    Loop,
    Parts,
    Schedule,
    Serial,
    Statement,
    Take,
    Tile,
    Turn,
    Write,
)
from jitpkg.codegen.fusion.online import Powers
from jitpkg.codegen.fusion.statements import loops, uses_of_pair
from jitpkg.codegen.ir.nodes import Axis, Node, Reduce, written
from jitpkg.codegen.ir.text import all_axes, axis_names, inline, target_of_store


def text_of_schedule(schedule: Schedule) -> str:
    """Its loops and what they do, a line for each statement and each value."""
    axes = all_axes(schedule.kernel.axes, written(schedule.kernel.stores))
    axes += [loop.axis for loop in loops(schedule.body) if loop.axis not in axes]
    return "\n".join(_Text(axis_names(axes)).lines(schedule.body))


class _Text:
    def __init__(self, axes: Mapping[Axis, str]) -> None:
        self._axes = axes
        self._known: dict[Node, str] = {}
        self._count = {"r": count(), "v": count()}

    def _name(self, node: Node) -> str:
        """A name that only this node has: folds are `r0`, `r1`, and all others `v0`, `v1`."""
        letter = "r" if isinstance(node, Reduce) else "v"
        if node not in self._known:
            self._known[node] = f"{letter}{next(self._count[letter])}"
        return self._known[node]

    def _of(self, node: Node) -> str:
        return inline(node, self._axes, self._known)

    def lines(self, body: Sequence[Statement]) -> Iterator[str]:
        for statement in body:
            match statement:
                case Compute(nodes=nodes, again=again, ahead=ahead):
                    for node in nodes:
                        name = self._name(node)
                        del self._known[node]  # it is shown here as what it is made of
                        text = self._of(node)
                        self._known[node] = name
                        notes = ", read again" if node in again else ""
                        notes += ", asked for ahead" if node in ahead else ""
                        yield f"{name} = {text}{notes}"
                case Write(store=store):
                    target = target_of_store(store, self._axes, self._known)
                    yield f"{target} {self._of(store.value)}"
                case Keep(node=node):
                    yield f"keep {self._name(node)}"
                case Take(node=node):
                    yield f"take {self._name(node)}"
                case Begin(node=node):
                    yield f"begin {self._name(node)}"
                case Gather(node=node):
                    yield f"gather {self._name(node)}"
                case Turn(load=load, outer=outer):
                    yield f"turn {self._of(load)} along {self._axes[outer]}"
                case Finish(pair=pair):
                    (given,) = uses_of_pair(pair)
                    yield f"finish {self._name(pair.second)} with {self._of(given)}"
                case Loop():
                    yield from self._loop(statement)

    def _loop(self, loop: Loop) -> Iterator[str]:
        yield f"for {self._axes[loop.axis]} < {loop.extent}{_runs(loop.kind)}:"
        for line in self.lines(loop.body):
            yield f"    {line}"
        for fold in loop.folds:
            if fold.over[-1] is loop.axis and not loop.is_split:
                name = self._name(fold)
                yield f"    {name} = {fold.op}({name}, {self._of(fold.value)})"
        for pair in loop.pairs:
            if pair.first.over[-1] is loop.axis:
                name = self._name(pair.second)
                op = "powers" if isinstance(pair, Powers) else "distances"
                yield f"    {name} = {op}({name}, {self._of(pair.first.value)})"


def _runs(kind: Kind) -> str:
    """How a loop's iterations run."""
    match kind:
        case Lanes(count=count):
            return f", {count} side by side"
        case Chunks(count=count):
            return f", {count} for each thread"
        case Blocks(count=count):
            return f", {count} at a time"
        case Parts(count=count):
            return f", threads share them by {count}"
        case Grid(dim=dim):
            return f", programs by {dim}" if dim else ", a program each"
        case Tile(dim=dim, whole=whole):
            return f", {dim} at once" if whole else f", {dim} in blocks"
        case Serial():
            return ""
