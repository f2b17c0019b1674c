"""Original code with hooks, entered anywhere.

`hooked` gives a code object that asks a region at each hook; `resume` gives the same code,
entered at an instruction with the whole frame as arguments. Everything that is emitted lies
behind the original instructions; in their midst there is one jump for each hook.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import CodeType

from jitpkg.code.effects import (
    BOUND,
    MAYBE_BOUND,
    MAYBE_NULL,
    NULL,
    SAVED_EXCEPTION,
    UNBOUND_SLOT,
    slots_used,
)
from jitpkg.code.instructions import Covered, Position
from jitpkg.code.verify import verify
from jitpkg.code.versions import (
    ATTRIBUTE_SHIFT,
    COMPARE_EQUAL,
    HAS_PRECALL,
    JUMP_IF,
    LOAD_CELL,
    LOAD_CHECKED,
    NULL_BELOW_CALLABLE,
)
from jitpkg.rewriter.assemble import GOTO, Emitted, Handler, Label, Layout, assemble
from jitpkg.rewriter.door import RETURN, UNBOUND, Door, drop_frame
from jitpkg.rewriter.points import Points, StackValue

RUN = "run"
"""The attribute of a region that a hook calls."""


_SPARE = 3


class _OwnOffset:
    """In the constants: the place of a lasti, which in a resume function is its entry point."""


_LASTI_CONSTANT = _OwnOffset()


class Emitter:
    """Emits the code objects of one version: one set of hooks, with the exits that each knows."""

    def __init__(self, points: Points, hooks: Mapping[int, Hook]) -> None:
        self.points = points
        self.hooks = dict(hooks)

    def hooked(self) -> CodeType:
        """The original code, with its hooks.

        Raises:
            Unverified: the result would not be safe to run.
        """
        return _Emission(self.points, self.hooks, entry=None).code()

    def resume(self, p: int, base: int) -> CodeType:
        """The same, entered at point `p` by a frame that kept `base` stack values.

        It takes every slot before the free variables (a cell as a cell, UNBOUND for what is
        unbound), the kept stack values, and the tuple of values that an exit to `p` restores.

        Raises:
            Unverified: the result would not be safe to run.
        """
        return _Emission(self.points, self.hooks, entry=(p, base)).code()


class Hook:
    """What stands at a point: the door to its region, and the exits that the code knows."""

    __slots__ = ("door", "exits")

    def __init__(self, door: Door, exits: Iterable[int]) -> None:
        self.door = door
        self.exits = tuple(exits)


class _Writer:
    """The list of emitted instructions, its constants and its labels."""

    def __init__(self, code: CodeType) -> None:
        self.out: list[Emitted] = []
        self.consts: list[object] = list(code.co_consts)
        self.names: list[str] = list(code.co_names)
        self.position: Position = (None, None, None, None)
        self.covered: Handler | None = None
        self._late: list[tuple[Label, Label, Position, Handler | None]] = []

    def emit(self, opname: str, arg: int = 0, to: Label | None = None) -> None:
        self.out.append(Emitted(opname, arg, self.position, to, self.covered))

    def goto(self, to: Label) -> None:
        self.emit(GOTO, to=to)

    def jump_if(self, condition: str, to: Label) -> None:
        self.emit(JUMP_IF + condition, to=to)

    def place(self, label: Label) -> None:
        label.index = len(self.out)

    def const(self, value: object) -> None:
        index = next((k for k, c in enumerate(self.consts) if c is value), None)
        if index is None:
            index = len(self.consts)
            self.consts.append(value)
        self.emit("LOAD_CONST", index)

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
        self.emit("LOAD_FAST", slot)
        self.emit("DELETE_FAST", slot)

    def load_or_unbound(self, slot: int, depth: int) -> None:
        """Push a slot, or UNBOUND by way of a private handler; `depth` is the stack's here."""
        unbound, behind, outer = Label(), Label(), self.covered
        self.covered = Handler(unbound, depth, lasti=False)
        self.emit(LOAD_CHECKED, slot)
        self.covered = outer
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
            self.goto(behind)


class _Emission(_Writer):
    """One code object in the making."""

    def __init__(
        self, points: Points, hooks: Mapping[int, Hook], entry: tuple[int, int] | None
    ) -> None:
        code = points.code
        super().__init__(code)
        self.points = points
        self.original = code
        self.hooks = hooks
        self.entry = entry
        self.first_temp = points.slot_count
        self.temps = code.co_stacksize + 1 + _SPARE
        self.own_cells = {
            ins.arg for ins in points.instructions[: points.start] if ins.opname == "MAKE_CELL"
        }
        count = len(points.instructions)
        self.at_point = [Label() for _ in range(count)]
        """Where ways to the point lead: to its hook, if it has one."""
        self.behind_hook = [Label() for _ in range(count)]
        """The instruction itself."""
        self.restores: dict[tuple[int, int], Label] = {}
        """(exit, base) -> where the values lie on the stack as one tuple."""

    def code(self) -> CodeType:
        suspends = {h: Label() for h in self.hooks}
        self._original(suspends)
        for h, label in suspends.items():
            self._suspend(h, label)
        for (p, base), label in list(self.restores.items()):
            self._restore(p, base, label)
        self.late()
        return self._assembled()

    def temp(self, depth: int) -> int:
        return self.first_temp + depth

    # The original instructions, with a jump at each hook

    def _original(self, suspends: Mapping[int, Label]) -> None:
        for i, ins in enumerate(self.points.instructions):
            self._stand_at(i)
            self.place(self.at_point[i])
            if i in suspends:
                self.goto(suspends[i])
            self.place(self.behind_hook[i])
            to = None if ins.target is None else self.at_point[ins.target]
            self.emit(ins.opname, self._shifted(i), to)
            if i == self.points.start and self.entry is not None:
                self._enter(*self.entry)

    def _shifted(self, i: int) -> int:
        """The instruction's argument; free variables lie behind the temporaries."""
        ins = self.points.instructions[i]
        if any(slot >= self.points.slot_count for slot in slots_used(ins)):
            return ins.arg + self.temps
        return ins.arg

    def _stand_at(self, i: int) -> None:
        """Give what follows the position and the coverage of point `i`."""
        ins = self.points.instructions[i]
        self.position = ins.position
        self.covered = self._handler(ins.covered)

    def _handler(self, covered: Covered | None) -> Handler | None:
        if covered is None:
            return None
        return Handler(self.at_point[covered.handler], covered.depth, covered.lasti)

    # A hook: stack and locals -> region -> dispatch. Covered as the point is.

    def _suspend(self, h: int, label: Label) -> None:
        hook, base = self.hooks[h], self.points.analysis.kept(h)
        self._stand_at(h)
        self.place(label)
        gone = Label()
        self.call_const(hook.door)
        self.emit("COPY", 1)
        self.jump_if("NONE", gone)
        self.attribute(RUN)
        self.emit("STORE_FAST", self._spare)
        stack = self.points.stack_above(h, base)
        for value in stack:
            self.emit("STORE_FAST", self.temp(value.depth))  # of a NULL: it unbinds
        self.callee(lambda: self.move(self._spare))
        self.call(self._push_inputs(h, base, stack))
        self._dispatch(h, base, hook.exits)

        self.place(gone)
        self.emit("POP_TOP")
        self.goto(self.behind_hook[h])

    def _push_inputs(self, h: int, base: int, stack: tuple[StackValue, ...]) -> int:
        kinds = self.points.analysis.slots(h)
        bottom = base + 2
        count = 0
        for slot in self.points.locals_at(h):
            if kinds[slot] == BOUND:
                self.emit("LOAD_FAST", slot)
            else:
                self.load_or_unbound(slot, bottom + count)
            count += 1
        for value in stack:
            if not value.passed:
                continue
            temp = self.temp(value.depth)
            if value.kind == MAYBE_NULL:
                self.load_or_unbound(temp, bottom + count)
                self._clear(temp)
            else:
                self.move(temp)
            count += 1
        for slot in self.points.cells_at(h):
            self.emit(LOAD_CELL, slot)
            count += 1
        for slot in self.points.free:
            self.emit(LOAD_CELL, slot + self.temps)
            count += 1
        if self.points.uses_globals:
            self.call_const(builtins.globals)
            count += 1
        return count

    def _clear(self, slot: int) -> None:
        """Unbind a slot that may be unbound already."""
        self.const(None)
        self.emit("STORE_FAST", slot)
        self.emit("DELETE_FAST", slot)

    def _dispatch(self, h: int, base: int, exits: tuple[int, ...]) -> None:
        """The region's `(exit, leave, values)`: return, go on at a known exit, or leave."""
        returns = Label()
        self.emit("UNPACK_SEQUENCE", 3)  # the exit is on top
        for p in (RETURN, *exits):
            self.emit("COPY", 1)
            self.const_int(p)
            self.emit("COMPARE_OP", COMPARE_EQUAL)
            self.jump_if("TRUE", returns if p == RETURN else self._taking(p, base))
        self._leave(h, base)
        self.place(returns)
        self._return(h, base)

    def const_int(self, value: int) -> None:
        for k, const in enumerate(self.consts):
            if type(const) is int and const == value:
                self.emit("LOAD_CONST", k)
                return
        self.const(value)

    def _taking(self, p: int, base: int) -> Label:
        return self.restores.setdefault((p, base), Label())

    # An exit: values -> locals and stack. Covered by nothing: it cannot raise, and a handler
    # of the exit could read a local that is not stored yet.

    def _restore(self, p: int, base: int, label: Label) -> None:
        self._stand_at(p)
        self.covered = None
        self.place(label)
        self.emit("POP_TOP")
        self.emit("POP_TOP")
        for slot in self._bound_at_hooks(p, base):
            self._clear(slot)
        self._restore_values(p, base)

    def _bound_at_hooks(self, p: int, base: int) -> list[int]:
        """Slots that are unbound at `p` and may be bound at a hook that is left for it."""
        analysis = self.points.analysis
        hooks = [
            h for h, hook in self.hooks.items() if p in hook.exits and analysis.kept(h) == base
        ]
        return [
            slot
            for slot in self.points.unbound_at(p)
            if any(analysis.slots(h)[slot] != UNBOUND_SLOT for h in hooks)
        ]

    def _restore_values(self, p: int, base: int) -> None:
        """From the tuple of values, which lies on the stack above the kept part, to point `p`."""
        points = self.points
        there = points.analysis.stack(p)
        for _ in range(base - len(there)):
            self.emit("SWAP", 2)
            self.emit("POP_TOP")
        slots, stack = points.restored_at(p), points.stack_above(p, base)
        real = [value for value in stack if value.passed]
        self.emit("UNPACK_SEQUENCE", len(slots) + len(real))
        kinds = points.analysis.slots(p)
        for slot in slots:
            self.emit("STORE_FAST", slot)
            if kinds[slot] == MAYBE_BOUND:
                self.unbind_if_unbound(slot)
        self._rebuild_nulls(stack, real)
        self.goto(self.behind_hook[p])

    def _rebuild_nulls(self, stack: tuple[StackValue, ...], real: list[StackValue]) -> None:
        """From the lowest NULL on, the stack goes by way of temporaries."""
        nulls = [value.depth for value in stack if value.kind in (NULL, MAYBE_NULL)]
        if not nulls:
            return
        lowest = min(nulls)
        for value in real:
            if value.depth >= lowest:
                self.emit("STORE_FAST", self.temp(value.depth))
        for value in reversed(stack):
            if value.depth >= lowest:
                self._push_from_temp(value.kind, self.temp(value.depth))

    def _push_from_temp(self, kind: str, temp: int) -> None:
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
            case "L":
                self.const(_LASTI_CONSTANT)
                self.emit("DELETE_FAST", temp)
            case "p":
                self.move(temp)
                self.emit("PUSH_EXC_INFO")
                self.emit("POP_TOP")
            case _:
                self.move(temp)

    # Leaving the frame. Covered by nothing.

    def _return(self, h: int, base: int) -> None:
        self.covered = None
        self.emit("POP_TOP")
        self.emit("POP_TOP")
        if base:
            self.emit("STORE_FAST", self._spare)
            self._drop_kept(h, base, keep=False)
            self.move(self._spare)
        self.emit("RETURN_VALUE")

    def _leave(self, h: int, base: int) -> None:
        """return leave(exit, globals(), free cells)(*slots, *kept, values)"""
        points = self.points
        self.covered = None
        values, leave, exit_ = self._spare, self._spare + 1, self._spare + 2
        self.emit("STORE_FAST", exit_)
        self.emit("STORE_FAST", leave)
        self.emit("STORE_FAST", values)
        self._drop_kept(h, base, keep=True)
        self.callee(lambda: self._resume_function(exit_, leave))
        count = 0
        kinds = points.analysis.slots(h)
        for slot in range(points.slot_count):
            self._slot_out(kinds[slot], slot, 2 + count)
            count += 1
        for depth, kind in enumerate(points.analysis.stack(h)[:base]):
            if kind == NULL:
                self.const(None)
            elif kind == MAYBE_NULL:
                self.load_or_unbound(self.temp(depth), 2 + count)
            else:
                self.move(self.temp(depth))
            count += 1
        raised = Label()
        # Python 3.13 looks for the handler of a call one unit before the call.
        self.covered = Handler(raised, 0, lasti=False)
        self.move(values)
        self.call(count + 1)
        self.covered = None
        self.emit("RETURN_VALUE")
        self.place(raised)
        self._drop_own_frame()

    def _drop_own_frame(self) -> None:
        """Let an exception go on as if it had been raised in this frame, not in one below it."""
        temp = self._spare
        self.emit("STORE_FAST", temp)
        self.callee(lambda: self.const(drop_frame))
        self.emit("LOAD_FAST", temp)
        self.call(1)
        self.emit("POP_TOP")
        self.move(temp)
        self.emit("RERAISE", 0)

    def _resume_function(self, exit_: int, leave: int) -> None:
        self.callee(lambda: self.move(leave))
        self.move(exit_)
        self.call_const(builtins.globals)
        for slot in self.points.free:
            self.emit(LOAD_CELL, slot + self.temps)
        self.emit("BUILD_TUPLE", len(self.points.free))
        self.call(3)

    def _slot_out(self, kind: str, slot: int, depth: int) -> None:
        """Move a slot into the arguments of a resume function: this frame keeps nothing alive."""
        match kind:
            case "U":
                self.const(UNBOUND)
            case "B":
                self.move(slot)
            case "C":
                self.emit(LOAD_CELL, slot)
            case _:
                self.load_or_unbound(slot, depth)
                self._clear(slot)

    def _drop_kept(self, h: int, base: int, *, keep: bool) -> None:
        """Pop the kept stack, ending what is handled; `keep` puts the values into temporaries."""
        kinds = self.points.analysis.stack(h)
        for depth in range(base - 1, -1, -1):
            if kinds[depth] == SAVED_EXCEPTION:
                if keep:
                    self.call_const(sys.exception)
                    self.emit("STORE_FAST", self.temp(depth))
                self.emit("POP_EXCEPT")
            else:
                self.emit("STORE_FAST", self.temp(depth))
                if not keep:
                    self._clear(self.temp(depth))

    # Entering in the middle

    def _enter(self, p: int, base: int) -> None:
        """The arguments are raw slots, kept stack values and the exit's values."""
        points = self.points
        self._stand_at(p)
        self.covered = None
        kinds = points.analysis.slots(p)
        for slot in range(points.slot_count):
            if slot in self.own_cells:
                self.emit("LOAD_DEREF", slot)  # MAKE_CELL wrapped what came as the argument
                self.emit("STORE_FAST", slot)
            if kinds[slot] == UNBOUND_SLOT:
                self._clear(slot)
        values = self.temp(base)
        stack = points.analysis.stack(p)
        for depth in range(base):
            if depth >= len(stack):
                self._clear(self.temp(depth))
                continue
            self._push_from_temp(stack[depth], self.temp(depth))
            if stack[depth] == NULL:
                self.emit("DELETE_FAST", self.temp(depth))
        self.move(values)
        self._restore_values(p, min(base, len(stack)))

    # The product

    @property
    def _spare(self) -> int:
        """The first of the temporaries that hold no stack value."""
        return self.first_temp + self.temps - _SPARE

    def _assembled(self) -> CodeType:
        original, points = self.original, self.points
        cells = tuple(c for c in original.co_cellvars if c not in original.co_varnames)
        varnames = (
            *original.co_varnames,
            *cells,
            *(f".t{k}" for k in range(self.temps)),
        )
        layout = Layout(
            like=original,
            consts=self.consts,
            names=tuple(self.names),
            varnames=varnames,
            stacksize=original.co_stacksize + points.slot_count + self.temps + 8,
            argcount=original.co_argcount,
            posonlyargcount=original.co_posonlyargcount,
            kwonlyargcount=original.co_kwonlyargcount,
            flags=original.co_flags,
        )
        if self.entry is not None:
            layout.argcount = points.slot_count + self.entry[1] + 1
            layout.posonlyargcount = layout.kwonlyargcount = 0
            layout.flags &= ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        code, offsets = assemble(self.out, layout)
        if self.entry is not None and any(c is _LASTI_CONSTANT for c in self.consts):
            own = offsets[self.behind_hook[self.entry[0]].index] // 2
            consts = tuple(own if c is _LASTI_CONSTANT else c for c in code.co_consts)
            code = code.replace(co_consts=consts)
        return verify(code)
