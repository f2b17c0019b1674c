"""What a hook hands over, as the tracer and the generated code see it."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.code.analysis import slot_names
from jitpkg.code.effects import MAYBE_BOUND, MAYBE_NULL, NULL
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from jitpkg.dataclass import dataclass
from jitpkg.guards.kinds import Guard, Is, IsNot
from jitpkg.guards.sources import CellInput, Globals, Input, Source
from jitpkg.guards.text import Text
from jitpkg.rewriter.door import UNBOUND as UNBOUND_OBJECT
from jitpkg.rewriter.points import Points
from jitpkg.tracer import values as traced
from jitpkg.tracer.trace import Start
from jitpkg.tracer.values import Cell, Kept, Lazy, Value


@dataclass(frozen=True, slots=True)
class Handover:
    """The layout of a hook's arguments: locals, stack, cells, globals."""

    points: Points
    h: int

    @property
    def base(self) -> int:
        """How many stack values stay on the stack while the region runs."""
        return self.points.analysis.kept(self.h)

    def sources(self) -> tuple[Source, ...]:
        """The path to each argument, in order."""
        names = slot_names(self.points.code)
        found: list[Source] = []
        for slot in self.points.locals_at(self.h):
            found.append(Input(len(found), names[slot]))
        for value in self.points.stack_above(self.h, self.base):
            if value.passed:
                found.append(Input(len(found), f"stack_{value.depth}"))
        for slot in (*self.points.cells_at(self.h), *self.points.free):
            found.append(CellInput(len(found), names[slot]))
        if self.points.uses_globals:
            found.append(Globals())
        return tuple(found)

    def parameters(self) -> dict[Source, str]:
        """A name for each argument."""
        text = Text({}, reserved=["otherwise", "error"])
        return {
            source: text.variable("globals_" if isinstance(source, Globals) else source.name)
            for source in self.sources()
            if isinstance(source, Input | CellInput | Globals)
        }

    def start(self, arguments: Sequence[object]) -> Start:
        """Where the trace of a region begins, with the real values of one call."""
        points, h = self.points, self.h
        paths = iter(zip(self.sources(), arguments, strict=True))
        guards: list[Guard] = []
        kinds = points.analysis.slots(h)
        slots: list[Value] = [traced.UNBOUND] * len(slot_names(points.code))
        for slot in points.locals_at(h):
            source, obj = next(paths)
            slots[slot] = _value(source, obj, guards, sure=kinds[slot] != MAYBE_BOUND)
        stack: list[Value] = [Kept(depth) for depth in range(self.base)]
        above: list[Value] = []
        for place in points.stack_above(h, self.base):
            if place.kind == NULL:
                above.append(traced.NULL)
                continue
            source, obj = next(paths)
            value = _value(source, obj, guards, sure=place.kind != MAYBE_NULL)
            above.append(traced.NULL if value is traced.UNBOUND else value)
        stack.extend(reversed(above))
        cells: list[tuple[Cell, object]] = []
        for slot in (*points.cells_at(h), *points.free):
            source, obj = next(paths)
            cell = Cell(source)
            slots[slot] = cell
            cells.append((cell, obj))
        namespace: dict[str, object] = {}
        for _, obj in paths:
            assert isinstance(obj, dict)
            namespace = obj
        own = points.cells_at(h) if h == points.first else ()
        return Start(
            code=points.code,
            point=h,
            locals=tuple(slots),
            stack=tuple(stack),
            namespace=namespace,
            guards=tuple(guards),
            cells=tuple(cells),
            private=frozenset(cell for cell, _ in cells[: len(own)]),
        )

    def output_places(self, p: int) -> tuple[list[int], list[int]]:
        """The slots and stack depths that an exit to `p` takes, in order."""
        stack = self.points.stack_above(p, self.base)
        return list(self.points.restored_at(p)), [v.depth for v in stack if v.passed]


def called_depth(points: Points, point: int, stack: Sequence[Value]) -> int | None:
    """The stack depth of what the next instruction calls, or None where it is no call."""
    instructions = points.instructions[point:][:3]
    call = next((ins for ins in instructions if ins.opname not in ("KW_NAMES", "PRECALL")), None)
    match call.opname if call else "":
        case "CALL":
            bottom = len(stack) - call.arg - 2 if call else 0
        case "CALL_KW":
            bottom = len(stack) - call.arg - 3 if call else 0
        case "CALL_FUNCTION_EX":
            bottom = len(stack) - 3 - (call.arg & 1) if call else 0
        case _:
            return None
    if NULL_BELOW_CALLABLE and stack[bottom] is traced.NULL:
        return bottom + 1
    return bottom


def _value(source: Source, obj: object, guards: list[Guard], *, sure: bool) -> Value:
    if sure:
        return Lazy(source, obj)
    if obj is UNBOUND_OBJECT:
        guards.append(Is(source, obj))
        return traced.UNBOUND
    guards.append(IsNot(source, UNBOUND_OBJECT))
    return Lazy(source, obj)
