"""Where the states of chunks are, which threads fold apart and one thread folds then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitpkg.codegen.cpu.folds import Fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.fusion.kernel import Loop
from jitpkg.dataclass import dataclass

ALIGNED = 64


@dataclass(eq=False, slots=True)
class ChunkStates:
    """The states of all chunks of a kernel's outermost loops."""

    places: dict[Loop, tuple[int, int]] = field(default_factory=dict)
    """Where the states of a loop's first chunk begin, and how many bytes each chunk has."""
    room: int = 0
    """Bytes of all states."""

    def keep(
        self,
        frame: Frame,
        loop: Loop,
        folds: Sequence[Fold],
        states: Sequence[Sequence[str]],
    ) -> None:
        """Store what `%chunk` has folded."""
        size = sum(_bytes(fold) for fold in folds)
        self.places[loop] = self.room, size
        self.room += size * loop.iterations
        for place, kind, text in zip(
            self._pointers(frame, loop, folds, "%chunk"), _types(folds), _flat(states), strict=True
        ):
            frame.w.do(f"store {kind} {text}, ptr {place}, align {ALIGNED}")

    def folded(self, frame: Frame, loop: Loop, folds: Sequence[Fold]) -> list[list[str]]:
        """The states of all chunks together."""

        def states(chunk: str) -> list[list[str]]:
            places = iter(self._pointers(frame, loop, folds, chunk))
            return [
                [frame.w.op(f"load {kind}, ptr {next(places)}, align {ALIGNED}")]
                for fold in folds
                for kind in fold.types
            ]

        def more(chunk: str, before: list[str]) -> list[str]:
            pairs = zip(folds, before, states(chunk), strict=True)
            return [fold.merge([one], other)[0] for fold, one, other in pairs]

        found = _flat(states("0"))
        if loop.iterations > 1:
            state = list(zip(_types(folds), found, strict=True))
            found = frame.repeat("1", str(loop.iterations), 1, state, more, surely=True)
        return [[text] for text in found]

    def _pointers(self, frame: Frame, loop: Loop, folds: Sequence[Fold], chunk: str) -> list[str]:
        start, size = self.places[loop]
        w = frame.w
        at = w.op(f"add i64 {w.op(f'mul i64 {chunk}, {size}')}, {start}")
        pointers = []
        for fold in folds:
            pointers.append(w.op(f"getelementptr i8, ptr %states, i64 {at}"))
            at = w.op(f"add i64 {at}, {_bytes(fold)}")
        return pointers


def _bytes(fold: Fold) -> int:
    size = fold.a.lanes * fold.a.dtype.itemsize
    return -(-size // ALIGNED) * ALIGNED


def _types(folds: Sequence[Fold]) -> list[str]:
    return [kind for fold in folds for kind in fold.types]


def _flat(states: Sequence[Sequence[str]]) -> list[str]:
    return [text for state in states for text in state]
