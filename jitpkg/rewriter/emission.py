"""One code object in the making: the original instructions, and behind them what hooks need."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import CodeType
from typing import NamedTuple

from jitpkg.code.analysis import is_generator, own_cell_slots, slot_names
from jitpkg.code.effects import (
    BOUND,
    CELL_VALUE,
    LASTI,
    MAYBE_BOUND,
    MAYBE_NULL,
    NULL,
    SAVED_EXCEPTION,
    UNBOUND_SLOT,
    slots_used,
)
from jitpkg.code.instructions import Covered
from jitpkg.code.verify import verify, verify_like
from jitpkg.code.versions import (
    COMPARE_EQUAL,
    LOAD_CELL,
)
from jitpkg.rewriter.assemble import Handler, Label, Layout, assemble
from jitpkg.rewriter.door import RETURN, UNBOUND, Door, drop_frame, stay
from jitpkg.rewriter.points import Points, StackValue
from jitpkg.rewriter.writer import Writer

RUN = "run"
"""The attribute of a region that a hook calls."""


_SPARE = 3
"""Temporaries that hold no stack value: a region's answer while the stack is taken down."""

_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

RESUME_AFTER_YIELD_FROM = 2
"""The argument of RESUME at which CPython does not look for signals."""

_CALL_DEPTH = 8
"""Stack that a hook needs beside the original's and the slots: a callable and a call in it."""


class _OwnOffset:
    """In the constants: the place of a lasti, which in a resume function is its entry point."""


_LASTI_CONSTANT = _OwnOffset()


class Entrance(NamedTuple):
    """How a resume function is entered."""

    p: int
    base: int
    called: bool


class Hook:
    """What stands at a point: the door to its region, and the exits that the code knows."""

    __slots__ = ("door", "exits")

    def __init__(self, door: Door, exits: Iterable[int]) -> None:
        self.door = door
        self.exits = tuple(exits)


class _Frame(NamedTuple):
    """What is in a frame that is left, and the line where it stays while the call goes on."""

    kept: str
    """Kinds of the kept stack."""
    slots: str
    line: int | None


class Emission(Writer):
    """One code object in the making."""

    def __init__(self, points: Points, hooks: Mapping[int, Hook], entry: Entrance | None) -> None:
        code = points.code
        super().__init__(code)
        self.points = points
        self.original = code
        self.entry = entry
        self._runs = self._reached(hooks)
        """Which of the original instructions are emitted."""
        self.hooks = {h: hook for h, hook in hooks.items() if self._runs[h]}
        self.first_temp = points.slot_count
        self.temps = self._temps()
        self.own_cells = own_cell_slots(points.instructions)
        count = len(points.instructions)
        self.at_point = [Label() for _ in range(count)]
        """Where ways to the point lead: to its hook, if it has one."""
        self.behind_hook = [Label() for _ in range(count)]
        """The instruction itself."""
        self.restores: dict[tuple[int, int], Label] = {}
        """(exit, base) -> where the values lie on the stack as one tuple."""
        self.returns: dict[_Frame, Label] = {}
        """Where the function returns what a region has returned."""
        self.leaves: dict[_Frame, Label] = {}
        """Where the frame is left, by what is in it."""

    def code(self) -> CodeType:
        suspends = {h: Label() for h in self.hooks}
        self._original(suspends)
        for h, label in suspends.items():
            self._suspend(h, label)
        for (p, base), label in list(self.restores.items()):
            self._restore(p, base, label)
        for frame, label in self.returns.items():
            self._return(frame, label)
        for frame, label in self.leaves.items():
            self._leave(frame, label)
        self.late()
        return self._assembled()

    def _reached(self, hooks: Mapping[int, Hook]) -> Sequence[bool]:
        """All instructions, or those to which ways lead from where a resume function is entered:
        the others, and their hooks, would only make it longer."""
        points = self.points
        if self.entry is None:
            return [True] * len(points.instructions)
        found = [i <= points.start for i in range(len(points.instructions))]
        todo = [self.entry.p]
        while todo:
            i = todo.pop()
            if found[i]:
                continue
            found[i] = True
            todo += points.analysis.successors(i)
            covered = points.instructions[i].covered
            if covered is not None:
                todo.append(covered.handler)
            if i in hooks:
                todo += hooks[i].exits
        return found

    def _temps(self) -> int:
        """How many temporaries are needed: for a stack's values, and for what is spare.

        Every call has them to set up and to tear down, even one that uses no hook.
        """
        states = self.points.analysis
        places = {*self.hooks, *(p for hook in self.hooks.values() for p in hook.exits)}
        deepest = max((len(states.stack(i)) for i in places), default=0)
        if self.entry is not None:
            p, base, called = self.entry
            deepest = max(deepest, len(states.stack(p)), 3 if called else base + 1)
        return deepest + _SPARE if self.hooks else deepest

    def temp(self, depth: int) -> int:
        return self.first_temp + depth

    # The original instructions, with a jump at each hook

    def _original(self, suspends: Mapping[int, Label]) -> None:
        if self.state_names and not self.original.co_freevars:
            self._stand_at(0)
            self.emit("COPY_FREE_VARS", len(self.state_names))
        for i, ins in enumerate(self.points.instructions):
            if not self._runs[i]:
                continue
            self._stand_at(i)
            if i and not self._runs[i - 1]:
                self.emit("NOP")  # Python 3.13 may look for a handler one unit before what raises
            self.place(self.at_point[i])
            if i in suspends:
                self.goto(suspends[i])
            self.place(self.behind_hook[i])
            to = None if ins.target is None else self.at_point[ins.target]
            if ins.opname == "COPY_FREE_VARS":
                self.emit("COPY_FREE_VARS", ins.arg + len(self.state_names))
            elif i == self.points.start:
                self.emit("RESUME", self._resume_kind(ins.arg))
            else:
                self.emit(ins.opname, self._shifted(i), to)
            if i == self.points.start and self.entry is not None:
                if self.entry.called:
                    self._enter_called(self.entry.p)
                else:
                    self._enter(self.entry.p, self.entry.base)

    def _resume_kind(self, original: int) -> int:
        """The argument of RESUME. No signal comes to a resume function before it has entered a
        block: as little as to one that goes on after a `yield from`, which is what it says."""
        if self.entry is None or self.points.instructions[self.entry.p].covered is None:
            return original
        return RESUME_AFTER_YIELD_FROM

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
        gone, transparent = Label(), Label()
        self.jump_if_transparent(hook.door, transparent)
        self.call_const(hook.door)
        self.emit("COPY", 1)
        self.jump_if("NONE", gone)
        self.attribute(RUN)
        stack = self.points.stack_above(h, base)
        if stack:
            self.emit("STORE_FAST", self._spare)
            for value in stack:
                self.emit("STORE_FAST", self.temp(value.depth))  # of a NULL: it unbinds
            self.callee(lambda: self.move(self._spare))
        else:
            self.make_callee()
        self.call(self._push_inputs(h, base, stack))
        self._dispatch(h, base, hook.exits)
        self.place(gone)
        self.emit("POP_TOP")
        self.place(transparent)
        self.go_back(self.behind_hook[h])

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
                self.load_or_unbound(temp, bottom + count, keep=False)
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

    def _dispatch(self, h: int, base: int, exits: tuple[int, ...]) -> None:
        """The region's `(exit, leave, values)`: return, go on at a known exit, or leave.

        A generator cannot be left: its regions know only the exits that its code knows.
        """
        frame = self._frame(h, base)
        self.emit("UNPACK_SEQUENCE", 3)  # the exit is on top
        ways = [(RETURN, self.returns.setdefault(frame._replace(slots=""), Label()))]
        ways += [(p, self.restores.setdefault((p, base), Label())) for p in exits]
        if is_generator(self.original):
            *ways, (_, otherwise) = ways
        else:
            otherwise = self.leaves.setdefault(frame, Label())
        for p, way in ways:
            self.emit("COPY", 1)
            self.const_int(p)
            self.emit("COMPARE_OP", COMPARE_EQUAL)
            self.jump_if("TRUE", way)
        self.goto(otherwise)

    def _frame(self, h: int, base: int) -> _Frame:
        states, line = self.points.analysis, self.points.instructions[h].line
        return _Frame(states.stack(h)[:base], states.slots(h), line)

    # An exit: values -> locals and stack. Covered by nothing: it cannot raise, and a handler
    # of the exit could read a local that is not stored yet.

    def _restore(self, p: int, base: int, label: Label) -> None:
        self._stand_at(p)
        self.covered = None
        self.place(label)
        self.emit("POP_TOP")
        self.emit("POP_TOP")
        for slot in self._bound_at_hooks(p, base):
            self.clear(slot)
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
        self.go_back(self.behind_hook[p])

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
                self.push_moved(value.kind, self.temp(value.depth))

    # Leaving the frame. Covered by nothing.

    def _return(self, frame: _Frame, label: Label) -> None:
        self.position = (frame.line, None, None, None)
        self.covered = None
        self.place(label)
        self.emit("POP_TOP")
        self.emit("POP_TOP")
        if frame.kept:
            self.emit("STORE_FAST", self._spare)
            self._drop_kept(frame.kept, keep=False)
            self.move(self._spare)
        self.emit("RETURN_VALUE")

    def _leave(self, frame: _Frame, label: Label) -> None:
        """return leave(exit, globals(), free cells)(*slots, *kept, values)

        A signal may come in any call before the last; see `door.stay`.
        """
        self.position = (frame.line, None, None, None)
        self.covered = None
        self.place(label)
        values, leave, exit_ = self._spare, self._spare + 1, self._spare + 2
        self.emit("STORE_FAST", exit_)
        self.emit("STORE_FAST", leave)
        self.emit("STORE_FAST", values)
        self._drop_kept(frame.kept, keep=True)
        stays = Label()
        self.covered = Handler(stays, 0, lasti=False)
        self.callee(lambda: self._resume_function(exit_, leave))
        self.covered = None
        self.emit("DELETE_FAST", leave)
        count = 0
        for slot in range(self.points.slot_count):
            self._slot_out(frame.slots[slot], slot, 2 + count)
            count += 1
        for depth, kind in enumerate(frame.kept):
            if kind == NULL:
                self.const(None)
            elif kind == MAYBE_NULL:
                self.load_or_unbound(self.temp(depth), 2 + count, keep=False)
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
        self.place(stays)
        self._stay(leave)

    def _stay(self, leave: int) -> None:
        """Undo what an entry has done for those who enter the resume function."""
        self.callee(lambda: self.const(stay))
        self.emit("LOAD_FAST", leave)
        self.call(1)
        self.emit("POP_TOP")
        self.emit("RERAISE", 0)

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
        self.callee(lambda: self.emit("LOAD_FAST", leave))
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
                self.load_or_unbound(slot, depth, keep=False)

    def _drop_kept(self, kinds: str, *, keep: bool) -> None:
        """Pop the kept stack, ending what is being handled; `keep` saves it in temporaries."""
        for depth in range(len(kinds) - 1, -1, -1):
            kind, temp = kinds[depth], self.temp(depth)
            if kind == SAVED_EXCEPTION:
                if keep:
                    self.call_const(sys.exception)
                    self.emit("STORE_FAST", temp)
                self.emit("POP_EXCEPT")
            elif keep:
                self.emit("STORE_FAST", temp)
            elif kind in (NULL, MAYBE_NULL):
                self.emit("STORE_FAST", temp)  # a NULL cannot be popped
                self.clear(temp)
            else:
                self.emit("POP_TOP")

    # Entering in the middle

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Free variables that bring the state of a resume function that is called."""
        if self.entry is None or not self.entry.called:
            return ()
        return (*(f".c{slot}" for slot in self.points.cells_at(self.entry.p)), ".state")

    @property
    def _first_state(self) -> int:
        return self.first_temp + self.temps + len(self.points.free)

    def _enter_called(self, p: int) -> None:
        """What came as arguments is dropped, and the state taken out of its cells."""
        self._stand_at(p)
        self.covered = None
        points = self.points
        cells = points.cells_at(p)
        for slot in (0, 1, 2):  # the first argument, and the tuple and dict of all others
            if slot not in cells:
                self.clear(slot)
        for k, slot in enumerate(cells):
            self.emit("LOAD_DEREF", self._first_state + k)
            self.emit("DELETE_DEREF", self._first_state + k)
            self.emit("STORE_FAST", slot)
        self.emit("LOAD_DEREF", self._first_state + len(cells))
        self.emit("DELETE_DEREF", self._first_state + len(cells))
        slots = points.only_handed_over(p)
        self.emit("UNPACK_SEQUENCE", len(slots) + 1)
        kinds = points.analysis.slots(p)
        for slot in slots:
            self.emit("STORE_FAST", slot)
            if kinds[slot] == MAYBE_BOUND:
                self.unbind_if_unbound(slot)
        self._restore_values(p, 0)

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
                self.clear(slot)
        values = self.temp(base)
        stack = points.analysis.stack(p)
        for depth in range(base):
            temp = self.temp(depth)
            if depth >= len(stack):
                self.clear(temp)
            elif stack[depth] == NULL:
                self.emit("PUSH_NULL")
                self.emit("DELETE_FAST", temp)
            elif stack[depth] == LASTI:
                self.const(_LASTI_CONSTANT)
                self.emit("DELETE_FAST", temp)
            else:
                self.push_moved(stack[depth], temp)
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
            freevars=(*original.co_freevars, *self.state_names),
            stacksize=original.co_stacksize + len(slot_names(original)) + _CALL_DEPTH,
            argcount=original.co_argcount,
            posonlyargcount=original.co_posonlyargcount,
            kwonlyargcount=original.co_kwonlyargcount,
            flags=original.co_flags,
        )
        if self.entry is not None:
            layout.argcount = layout.posonlyargcount = layout.kwonlyargcount = 0
            if self.entry.called:
                layout.flags |= _REST
                layout.argcount = layout.posonlyargcount = 1  # super() asks for one
            else:
                layout.argcount = points.slot_count + self.entry.base + 1
                layout.flags &= ~_REST
        code, offsets = assemble(self.out, layout)
        if self.entry is not None and any(c is _LASTI_CONSTANT for c in self.consts):
            own = offsets[self.behind_hook[self.entry.p].index] // 2
            consts = tuple(own if c is _LASTI_CONSTANT else c for c in code.co_consts)
            code = code.replace(co_consts=consts)
        emitted = verify(code, self._cell_arguments())
        first = 0 if self.entry is None else points.start + 1
        places = {
            i: label.index
            for i, label in enumerate(self.behind_hook)
            if i >= first and self._runs[i]
        }
        verify_like(emitted, points.analysis, places)
        return code

    def _cell_arguments(self) -> list[int]:
        """The parameters of a resume function that take cells."""
        if self.entry is None:
            return []
        p, base, called = self.entry
        if called:
            return [self._first_state + k for k in range(len(self.state_names) - 1)]
        kept = self.points.analysis.stack(p)[:base]
        borrowed = [self.temp(depth) for depth, kind in enumerate(kept) if kind == CELL_VALUE]
        return [*self.points.cells_at(p), *borrowed]
