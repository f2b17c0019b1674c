"""A frame of the symbolic interpreter."""

from __future__ import annotations

from dataclasses import field

from jitpkg.code.dialect import Op, Program
from jitpkg.dataclass import dataclass
from jitpkg.errors import Location
from jitpkg.guards.sources import Source
from jitpkg.tracer.values import Value


@dataclass(eq=False, slots=True)
class Frame:
    """One activation of a code object."""

    program: Program
    locals: list[Value]
    """By slot; a Cell where the slot holds one."""
    globals: Source
    namespace: dict[str, object]
    """The globals themselves."""
    stack: list[Value] = field(default_factory=list)
    at: int = 0
    """The operation that is executed next."""
    trusted: bool = False
    """Of jitpkg's own polyfills: what it reads needs no guard."""
    direct: bool = False
    """Whether an instruction of its caller does nothing but call it."""
    handled: list[Value] = field(default_factory=list)
    """Exceptions whose handlers this frame is in, innermost last."""

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        return self.stack.pop()

    def popn(self, count: int) -> tuple[Value, ...]:
        """The topmost values, the deepest first."""
        if count == 0:
            return ()
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        return values

    def jump(self, op: Op) -> None:
        assert op.target is not None
        self.at = op.target

    def location(self, op: Op) -> Location:
        """Where `op` stands in the source."""
        code = self.program.code
        line, last_line, column, last_column = self.program.instruction(op).position
        return Location(code.co_filename, code.co_name, line, last_line, column, last_column)


@dataclass(frozen=True, eq=False, slots=True)
class Return:
    """A frame is finished."""

    value: Value


@dataclass(frozen=True, eq=False, slots=True)
class Yield:
    """A generator's frame is suspended."""

    value: Value


Finished = Return | Yield
