"""Emitted instructions in the making: their constants, names, labels and private handlers."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

from jitpkg.code.instructions import Position
from jitpkg.code.versions import (
    ATTRIBUTE_SHIFT,
    DYNAMO_PASSES_JUMPS,
    HAS_PRECALL,
    JUMP_IF,
    JUMPS_ON_BOOLS,
    LOAD_CHECKED,
    MOVES,
    NULL_BELOW_CALLABLE,
)
from jitpkg.rewriter.assemble import GOTO, Emitted, Handler, Label
from jitpkg.rewriter.door import UNBOUND


class Writer:
    """The list of emitted instructions, its constants and its labels."""

    def __init__(self, code: CodeType) -> None:
        self.out: list[Emitted] = []
        self.consts: list[object] = list(code.co_consts)
        self._const_at = {id(const): k for k, const in enumerate(self.consts)}
        self._int_at = {const: k for k, const in enumerate(self.consts) if type(const) is int}
        self.names: list[str] = list(code.co_names)
        self.position: Position = (None, None, None, None)
        self.covered: Handler | None = None
        self._late: list[tuple[Label, Label, Position, Handler | None]] = []

    def emit(self, opname: str, arg: int = 0, to: Label | None = None) -> None:
        self.out.append(Emitted(opname, arg, self.position, to, self.covered))

    def goto(self, to: Label) -> None:
        self.emit(GOTO, to=to)

    def go_back(self, to: Label) -> None:
        """Jump to an earlier instruction."""
        self.goto(to)
        if DYNAMO_PASSES_JUMPS:
            self.emit("RETURN_VALUE")  # never reached

    def jump_if(self, condition: str, to: Label) -> None:
        self.emit(JUMP_IF + condition, to=to)

    def jump_if_transparent(self, door: object, to: Label) -> None:
        """Jump if Dynamo traces this code: see `Door`."""
        self.const(door)
        if JUMPS_ON_BOOLS:
            self.emit("TO_BOOL")
        self.jump_if("FALSE", to)

    def place(self, label: Label) -> None:
        label.index = len(self.out)

    def const(self, value: object) -> None:
        self.emit("LOAD_CONST", self._const_index(value))

    def const_int(self, value: int) -> None:
        if value not in self._int_at:
            self._int_at[value] = self._const_index(value)
        self.emit("LOAD_CONST", self._int_at[value])

    def _const_index(self, value: object) -> int:
        index = self._const_at.get(id(value))
        if index is None:
            index = self._const_at[id(value)] = len(self.consts)
            self.consts.append(value)
        return index

    def attribute(self, name: str) -> None:
        if name not in self.names:
            self.names.append(name)
        self.emit("LOAD_ATTR", self.names.index(name) << ATTRIBUTE_SHIFT)

    def callee(self, push: Callable[[], None]) -> None:
        """Push a callable and the NULL that belongs to it."""
        if NULL_BELOW_CALLABLE:
            self.emit("PUSH_NULL")
        push()
        if not NULL_BELOW_CALLABLE:
            self.emit("PUSH_NULL")

    def make_callee(self) -> None:
        """Give the value on top the NULL of a callable."""
        self.emit("PUSH_NULL")
        if NULL_BELOW_CALLABLE:
            self.emit("SWAP", 2)

    def call(self, arguments: int) -> None:
        if HAS_PRECALL:
            self.emit("PRECALL", arguments)
        self.emit("CALL", arguments)

    def call_const(self, function: object) -> None:
        """Push what `function()` returns."""
        self.callee(lambda: self.const(function))
        self.call(0)

    def move(self, slot: int) -> None:
        """Push a slot that is bound, and unbind it: objects die where they did before."""
        if MOVES:
            self.emit("LOAD_FAST_AND_CLEAR", slot)
            return
        self.emit("LOAD_FAST", slot)
        self.emit("DELETE_FAST", slot)

    def load_or_unbound(self, slot: int, depth: int, *, keep: bool = True) -> None:
        """Push a slot, or UNBOUND by way of a private handler; `depth` is the stack's here.

        The slot is unbound then, unless `keep`.
        """
        unbound, behind, outer = Label(), Label(), self.covered
        self.covered = Handler(unbound, depth, lasti=False)
        self.emit(LOAD_CHECKED, slot)
        self.covered = outer
        if not keep:
            self.emit("DELETE_FAST", slot)
        self.place(behind)
        self._late.append((unbound, behind, self.position, outer))

    def unbind_if_unbound(self, slot: int) -> None:
        """Unbind a slot that holds UNBOUND."""
        bound = Label()
        self.emit("LOAD_FAST", slot)
        self.const(UNBOUND)
        self.emit("IS_OP")
        self.jump_if("FALSE", bound)
        self.emit("DELETE_FAST", slot)
        self.place(bound)

    def late(self) -> None:
        """Emit the private handlers; last, so that nothing falls into them."""
        for unbound, behind, position, covered in self._late:
            self.position, self.covered = position, covered
            self.place(unbound)
            self.emit("POP_TOP")
            self.const(UNBOUND)
            self.go_back(behind)

    def clear(self, slot: int) -> None:
        """Unbind a slot that may be unbound already."""
        self.const(None)
        self.emit("STORE_FAST", slot)
        self.emit("DELETE_FAST", slot)

    def push_moved(self, kind: str, temp: int) -> None:
        """Push a stack value of this kind; leaves the temporary unbound."""
        match kind:
            case "N":
                self.emit("PUSH_NULL")
            case "M":
                is_null, behind = Label(), Label()
                self.emit("LOAD_FAST", temp)
                self.const(UNBOUND)
                self.emit("IS_OP")
                self.jump_if("TRUE", is_null)
                self.move(temp)
                self.goto(behind)
                self.place(is_null)
                self.emit("DELETE_FAST", temp)
                self.emit("PUSH_NULL")
                self.place(behind)
            case "p":
                self.move(temp)
                self.emit("PUSH_EXC_INFO")
                self.emit("POP_TOP")
            case _:
                self.move(temp)
