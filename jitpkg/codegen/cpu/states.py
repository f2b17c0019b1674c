"""What folds and scans have come by at each position of the loop in lanes, in memory of ours."""

from __future__ import annotations

from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.folds import Fold, fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.scans import Running
from jitpkg.codegen.ir.nodes import Reduce, Scan
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class State:
    each: Fold | Running
    """What steps: in registers."""
    kept: Fold | Running
    """What that goes into between blocks."""
    places: list[str]
    """Where the vectors of all lanes are, for each value of a state."""


class States:
    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._known: dict[Reduce | Scan, State] = {}

    def __contains__(self, node: object) -> bool:
        return node in self._known

    def begin(self, node: Reduce | Scan) -> None:
        """Nothing has come by at these lanes."""
        frame = self._frame
        if node not in self._known:
            lanes = frame.width
            each: Fold | Running
            if isinstance(node, Reduce):
                each = fold(frame.arithmetic(node.value.dtype, lanes), node.op, False)
            else:
                each = Running(frame, node.dtype, node.op, lanes, False)
            kept = each.between_blocks()
            places = [self._room(kind) for kind in kept.types]
            self._known[node] = State(each, kept, places)
        state = self._known[node]
        self._store(state, state.kept.start())

    def gather(self, node: Reduce | Scan, part: list[str]) -> None:
        """Add what a block has come by."""
        state = self._known[node]
        kept = state.kept
        if isinstance(kept, Fold):
            if kept is not state.each:
                part = [cast(state.each.a, part[0], kept.a.dtype)]
            part = kept.merge(self.of(node), part)
        self._store(state, part)

    def of(self, node: Reduce | Scan) -> list[str]:
        state = self._known[node]
        return [
            self._frame.w.op(f"load {kind}, ptr {self._vector(place, kind)}, align 64")
            for place, kind in zip(state.places, state.kept.types, strict=True)
        ]

    def take(self, node: Reduce) -> None:
        """The fold's results become known."""
        state = self._known[node]
        text = self.of(node)[-1]
        if state.kept is not state.each:
            text = cast(state.kept.a, text, state.each.a.dtype)
        self._frame.define(node, text, self._frame.width)

    def _store(self, state: State, texts: list[str]) -> None:
        for place, kind, text in zip(state.places, state.kept.types, texts, strict=True):
            where = self._vector(place, kind)
            self._frame.w.do(f"store {kind} {text}, ptr {where}, align 64")

    def _room(self, kind: str) -> str:
        """Memory for a vector of this type for each step of the lanes."""
        loop = self._frame.loop
        assert loop is not None
        count = self._frame.rounded(loop.extent, loop.lanes, up=True)
        return self._frame.room_for(self._frame.divided(count, loop.lanes), kind)

    def _vector(self, place: str, kind: str) -> str:
        """A pointer to the vector of this step."""
        frame = self._frame
        assert frame.loop is not None
        at, _ = frame.positions[frame.loop.axis]
        step = frame.w.op(f"sdiv exact i64 {at}, {frame.width}")
        return frame.w.op(f"getelementptr {kind}, ptr {place}, i64 {step}")
