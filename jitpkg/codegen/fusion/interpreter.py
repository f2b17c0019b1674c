"""The slow, obvious meaning of a schedule: its loops run one statement and one element at a time.

The oracle of passes: whatever a pass makes, running it does the same. Iterations in lanes go
through each statement together, in order, as they do in registers. Programs of a grid come last
one first, for a kernel may not depend on their order, and find nothing that another one has kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from operator import itemgetter
from typing import Any

import torch

from jitpkg.codegen.fusion.kernel import (
    Begin,
    Blocks,
    Chunks,
    Compute,
    Finish,
    Gather,
    Grid,
    Keep,
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
from jitpkg.codegen.fusion.statements import offset, scans, uses_of_pair
from jitpkg.codegen.fusion.states import State, carried, finished
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import value_of
from jitpkg.codegen.ir.interpreter import reduced
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Checked,
    Const,
    Extent,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    Store,
)
from jitpkg.dataclass import dataclass

BLOCK = 4
"""Iterations of a block where nothing says how many there are."""

Folded = list[tuple[int, torch.Tensor]]
"""What a fold takes: the position and the value of each iteration."""


def run_schedule(
    schedule: Schedule,
    memory: Mapping[Buffer, torch.Tensor],
    symbols: Mapping[str, int] | None = None,
) -> None:
    """Run a schedule; it reads and writes `memory`, tensors with the strides of their buffers.

    Args:
        symbols: their values, where sizes vary.

    Raises:
        IndexError: an index out of data lies outside of its extent.
        AssertionError: a value is used before it is known, or taken where none was kept.
    """
    _Run(memory, symbols or {}).block(schedule.body, [_Lane()])


@dataclass(eq=False, slots=True)
class _Lane:
    """What one of the iterations that go together knows."""

    positions: dict[Axis, int] = field(default_factory=dict)
    values: dict[Node, torch.Tensor] = field(default_factory=dict)
    folded: dict[Reduce, Folded] = field(default_factory=dict)
    """What inner loops have folded for the outer loops that carry the same folds."""
    scanned: dict[Scan, list[torch.Tensor]] = field(default_factory=dict)
    """What the scans have come by; lanes along an axis share it."""
    states: dict[Reduce, State] = field(default_factory=dict)
    """Of pairs that a loop has carried, by their second folds."""


class _Run:
    def __init__(self, memory: Mapping[Buffer, torch.Tensor], symbols: Mapping[str, int]) -> None:
        self._memory = memory
        self._symbols = symbols
        self._kept: dict[_Place, torch.Tensor] = {}
        self._columns: dict[_Place, torch.Tensor] = {}
        """The same of columns: kept whichever loops end."""
        self._open: list[Loop] = []
        self._blocks: dict[Axis, range] = {}
        """The positions that loops have inside of blocks."""
        self._states: dict[tuple[Node, int], Any] = {}
        """What folds and scans have come by at the positions of a loop around them."""
        self._turned: dict[Load, tuple[Turn, dict[tuple[int, int], torch.Tensor]]] = {}

    def _number(self, extent: Extent) -> int:
        return value_of(extent, self._symbols)

    # Statements

    def block(self, body: Sequence[Statement], lanes: Sequence[_Lane]) -> None:
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    for node in nodes:
                        for lane in lanes:
                            lane.values[node] = self._computed(node, lane)
                case Write(store=store):
                    for lane in lanes:
                        self._write(store, lane)
                case Keep(node=node, along=along):
                    kept = self._kept if along is None else self._columns
                    for lane in lanes:
                        kept[_place(node, lane)] = self._of(node, lane)
                case Take(node=node, along=along):
                    kept = self._kept if along is None else self._columns
                    for lane in lanes:
                        lane.values[node] = self._taken(node, lane, kept)
                case Begin(node=node):
                    for lane in lanes:
                        self._states[node, self._position(lane)] = []
                case Gather(node=Reduce() as node):
                    for lane in lanes:
                        self._states[node, self._position(lane)] += lane.folded.pop(node)
                case Gather():
                    pass  # a scan has gone on with the list itself
                case Turn():
                    self._turn(statement, lanes)
                case Finish(pair=pair):
                    (given,) = uses_of_pair(pair)
                    for lane in lanes:
                        state = lane.states[pair.second]
                        lane.values[pair.second] = finished(pair, state, self._of(given, lane))
                case Loop():
                    self._loop(statement, lanes)

    def _taken(self, node: Node, lane: _Lane, kept: Mapping[_Place, torch.Tensor]) -> torch.Tensor:
        if isinstance(node, Reduce) and (node, at := self._position(lane)) in self._states:
            return _reduced(node, self._states[node, at])
        place = _place(node, lane)
        assert place in kept, f"{node} was not kept"
        return kept[place]

    def _range(self, axis: Axis) -> range:
        return self._blocks.get(axis, range(self._number(axis.extent)))

    def _turn(self, turn: Turn, lanes: Sequence[_Lane]) -> None:
        (lane,) = lanes
        inside = {}
        for i in self._range(turn.outer):
            for j in self._range(turn.lanes):
                here = _Lane({**lane.positions, turn.outer: i, turn.lanes: j}, lane.values)
                inside[i, j] = self._at(turn.load.buffer, turn.load.index, here).clone()
        self._turned[turn.load] = turn, inside

    def _position(self, lane: _Lane) -> int:
        return lane.positions[self._open[-1].axis]

    def _write(self, store: Store, lane: _Lane) -> None:
        at = self._at(store.buffer, store.index, lane)
        value = self._of(store.value, lane)
        if store.combine is not None:
            combine: Any = ops.OPS[ops.REDUCTIONS[store.combine].combine or ""].reference
            value = combine(at, value)
        at.copy_(value)

    # Loops

    def _loop(self, loop: Loop, lanes: Sequence[_Lane]) -> None:
        around = {each.axis for each in self._open if each.is_split}
        self._open.append(loop)
        for lane in lanes:
            for scan in scans(loop):
                if self._open[:-1] and (scan, at := self._outside(lane)) in self._states:
                    lane.scanned[scan] = self._states[scan, at]
                elif loop.axis not in around:
                    lane.scanned[scan] = []
        folded: list[dict[Reduce, Folded]] = [{fold: [] for fold in loop.folds} for _ in lanes]
        known = [dict(lane.values) for lane in lanes]
        whole, kept = self._range(loop.axis), self._kept
        blocks = self._iterations(loop, whole)
        for positions in reversed(blocks) if isinstance(loop.kind, Grid) else blocks:
            if not _keeps(loop):
                self._kept = {} if isinstance(loop.kind, Grid) else dict(kept)
            beside: list[_Lane] = []
            takers: list[dict[Reduce, Folded]] = []
            for lane, before, into in zip(lanes, known, folded, strict=True):
                lane.values = dict(before)
                together = [lane] if loop.is_split else _beside(lane, loop, positions)
                beside += together
                takers += [into] * len(together)
            if loop.is_split:
                self._blocks[loop.axis] = positions
            self.block(loop.body, beside)
            for lane, into in zip(beside, takers, strict=True):
                self._take_in(loop, lane, into)
        self._open.pop()
        self._kept = self._kept if _keeps(loop) else kept
        if loop.is_split:
            self._blocks[loop.axis] = whole
        for statement in loop.body:
            if isinstance(statement, Turn):
                self._turned.pop(statement.load, None)
        outside = self._carried_on()
        for lane, before, into in zip(lanes, known, folded, strict=True):
            lane.values = before
            for fold, found in into.items():
                if fold in outside:
                    lane.folded[fold] = found
                else:
                    lane.values[fold] = _reduced(fold, found)
            for pair in loop.pairs:
                if pair.first not in outside:
                    values = [value for _, value in into[pair.first]]
                    lane.states[pair.second] = carried(pair, values)

    def _outside(self, lane: _Lane) -> int:
        """The position of the loop around the innermost one; -1 where it has none."""
        return lane.positions.get(self._open[-2].axis, -1)

    def _iterations(self, loop: Loop, whole: range) -> list[range]:
        """The positions of each iteration of a loop."""
        count = _width(loop, len(whole))
        return [whole[first : first + count] for first in range(0, len(whole), count)]

    def _carried_on(self) -> set[Node]:
        """The folds that a loop around goes on with."""
        found: set[Node] = {fold for each in self._open for fold in each.folds}
        if self._open:
            found.update(x.node for x in self._open[-1].body if isinstance(x, Gather))
        return found

    def _take_in(self, loop: Loop, lane: _Lane, into: Mapping[Reduce, Folded]) -> None:
        """Give the folds what an iteration has for them."""
        for fold, found in into.items():
            inner = lane.folded.pop(fold, None)
            if inner is None:
                inner = [(lane.positions[loop.axis], self._of(fold.value, lane))]
            found.extend(inner)

    # Values

    def _of(self, node: Node, lane: _Lane) -> torch.Tensor:
        match node:
            case Const(value=value):
                return torch.tensor(value, dtype=node.dtype)
            case Given(value=value):
                return torch.tensor(self._number(value))
            case Axis():
                return torch.tensor(lane.positions[node])
            case _:
                assert node in lane.values, f"{node} is used before it is known"
                return lane.values[node]

    def _computed(self, node: Node, lane: _Lane) -> torch.Tensor:
        match node:
            case Load(buffer=buffer, index=index, mask=mask):
                if mask is not None and not self._of(mask, lane):
                    return torch.zeros((), dtype=buffer.dtype)
                turn, turned = self._turned.get(node, (None, {}))
                if turn is not None:
                    return turned[lane.positions[turn.outer], lane.positions[turn.lanes]]
                return self._at(buffer, index, lane).clone()
            case Apply(op=ops.CAST, args=(value,)):
                return self._of(value, lane).to(node.dtype)
            case Apply(op=op, args=args):
                given: Any = ops.OPS[op].reference(*(self._of(arg, lane) for arg in args))
                return torch.as_tensor(given)
            case Checked(index=index, extent=extent):
                at, size = int(self._of(index, lane)), self._number(extent)
                at = at + size if at < 0 else at
                if not 0 <= at < size:
                    raise IndexError(f"an index is out of range for {size} elements")
                return torch.tensor(at)
            case Scan(op=op, value=value):
                passed = lane.scanned[node]
                passed.append(self._of(value, lane))
                return reduced(op, torch.stack(passed), [0], node.dtype)[0]
            case _:
                raise AssertionError(node)

    def _at(self, buffer: Buffer, index: Sequence[Node], lane: _Lane) -> torch.Tensor:
        """An element of memory, found as printers find it."""
        whole = offset(buffer, index)
        place = self._number(whole.constant)
        for atom, factor in whole.terms:
            place += int(self._of(atom, lane)) * self._number(factor)
        tensor = self._memory[buffer]
        return torch.as_strided(tensor, (), (), tensor.storage_offset() + place)


_Place = tuple[Node, frozenset[tuple[Axis, int]]]


def _place(node: Node, lane: _Lane) -> _Place:
    """What tells a value from those of other positions."""
    return node, frozenset((axis, lane.positions[axis]) for axis in node.axes)


def _keeps(loop: Loop) -> bool:
    """Whether what is kept in a loop is there behind it, and not only in the same iteration."""
    match loop.kind:
        case Tile(whole=whole):
            return whole
        case Serial() | Grid() | Chunks() | Parts():
            return False
        case _:
            return True


def _width(loop: Loop, extent: int) -> int:
    """How many positions an iteration goes through."""
    match loop.kind:
        case Lanes(count=count) | Blocks(count=count):
            return count
        case Parts(count=count):  # as two threads share them
            return count * max(1, extent // 2 // count)
        case Tile(whole=whole):
            return max(extent, 1) if whole else BLOCK
        case Grid(dim=dim):
            return BLOCK if dim else 1
        case Serial():
            return 1


def _beside(lane: _Lane, loop: Loop, positions: range) -> list[_Lane]:
    """The iterations of a lane's loop that go together."""
    if len(positions) == 1:
        lane.positions[loop.axis] = positions[0]
        return [lane]
    return [
        _Lane({**lane.positions, loop.axis: at}, dict(lane.values), {}, dict(lane.scanned))
        for at in positions
    ]


def _reduced(fold: Reduce, found: Folded) -> torch.Tensor:
    """What a fold makes of what it took."""
    if not found:
        identity = ops.REDUCTIONS[fold.op].identity
        assert identity is not None, f"{fold.op} of nothing"
        return torch.tensor(identity(fold.dtype), dtype=fold.dtype)
    found = sorted(found, key=itemgetter(0))
    values = torch.stack([value for _, value in found])
    result = reduced(fold.op, values, [0], fold.dtype)[0]
    if ops.REDUCTIONS[fold.op].combine is None:
        return torch.tensor(found[int(result)][0])
    return result
