"""Folds of everything, by several threads: outermost loops in chunks, whose states are folded then.

How many chunks there are depends on the sizes alone, so results do not depend on the threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitpkg.codegen.cpu.folds import Fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Write
from jitpkg.codegen.fusion.passes.hoist_rows import keeps_only
from jitpkg.codegen.fusion.statements import loops, offset, scans, statements
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import same, varies
from jitpkg.codegen.ir.nodes import Axis, Store
from jitpkg.dataclass import dataclass

MOST = 64
"""Chunks of a loop: enough for as many threads, few enough to be folded by one of them."""

ALIGNED = 64


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop in chunks."""

    chunks: int
    each: int
    """Steps of a chunk."""
    steps: int


@dataclass(eq=False, slots=True)
class Chunks:
    """The outermost loops of a kernel, in order, and where their chunks' states are."""

    cuts: dict[Loop, Cut]
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
        self.room += size * self.cuts[loop].chunks
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

        first = _flat(states("0"))
        kinds = _types(folds)
        count = self.cuts[loop].chunks
        if count == 1:
            return [[text] for text in first]
        frame.enter()
        found = frame.counted(
            "1", str(count), 1, list(zip(kinds, first, strict=True)), more, surely=True
        )
        frame.leave()
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


def parted(schedule: Schedule, host: Host) -> Loop | None:
    """The loop whose iterations go to the threads: the only outermost one, if it carries nothing
    and each iteration writes elements of its own. Each thread does what comes before it."""
    outer = [
        each
        for each in schedule.body
        if not (isinstance(each, Compute) or (isinstance(each, Loop) and keeps_only(each)))
    ]
    if len(outer) != 1 or not isinstance(outer[0], Loop) or not host.parallel:
        return None
    loop = outer[0]
    if loop.folds or scans(loop):
        return None
    stores = schedule.kernel.stores
    if any(s.combine is not None or not _is_apart(s, loop) for s in stores):
        return None
    return loop


def chunks(schedule: Schedule, host: Host) -> Chunks | None:
    """How the outermost loops are cut, where there are several or they fold; None where that is
    not worth it, or cannot be done."""
    if not host.parallel or parted(schedule, host) is not None:
        return None
    if any(store.combine is not None for store in schedule.kernel.stores):
        return None
    outer = [each for each in schedule.body if isinstance(each, Loop)]
    if not all(_is_apart(write.store, loop) for loop in outer for write in _writes(loop)):
        return None
    if not any(loop.folds for loop in outer) or not all(map(_can_be_cut, outer)):
        return None
    cuts = {}
    for loop in outer:
        steps = -(-loop.extent // loop.lanes)
        wanted = max(1, min(MOST, steps, elements(loop) // host.grain))
        each = -(-steps // wanted)
        cuts[loop] = Cut(-(-steps // each), each, steps)
    return Chunks(cuts) if any(cut.chunks > 1 for cut in cuts.values()) else None


def elements(loop: Loop) -> int:
    """How often the innermost statements run."""
    return loop.extent * max(1, inside(loop))


def inside(loop: Loop) -> int:
    """The same in one iteration; it may vary."""
    inner = [each for each in loop.body if isinstance(each, Loop)]
    total = sum(each.extent * inside(each) for each in inner)
    return total if inner else 1


def _can_be_cut(loop: Loop) -> bool:
    inside = [loop, *loops(loop.body)]
    return (
        not any(varies(each.extent) for each in inside)
        and loop.extent > 0
        and not any(map(scans, inside))
        and all(ops.REDUCTIONS[fold.op].combine is not None for fold in loop.folds)
    )


def _writes(loop: Loop) -> list[Write]:
    return [each for each in statements(loop.body) if isinstance(each, Write)]


def _is_apart(store: Store, loop: Loop) -> bool:
    """Whether different iterations write different elements."""
    whole = offset(store.buffer, store.index)
    affine = all(isinstance(atom, Axis) for atom, _ in whole.terms)
    return affine and not same(whole.factor(loop.axis), 0)


def _bytes(fold: Fold) -> int:
    size = fold.a.lanes * fold.a.dtype.itemsize
    return -(-size // ALIGNED) * ALIGNED


def _types(folds: Sequence[Fold]) -> list[str]:
    return [kind for fold in folds for kind in fold.types]


def _flat(states: Sequence[Sequence[str]]) -> list[str]:
    return [text for state in states for text in state]
