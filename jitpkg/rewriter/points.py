"""Where a code object can be hooked or left, and which values are handed over there."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache, wraps
from types import CodeType
from typing import Any, TypeVar

from jitpkg.code.analysis import Analysis, analyse, slot_names, stored_slots
from jitpkg.code.effects import (
    BOUND,
    CELL,
    CELL_VALUE,
    LASTI,
    MAYBE_BOUND,
    MAYBE_NULL,
    MIXED,
    NULL,
    SAVED_EXCEPTION,
    UNBOUND_SLOT,
    VALUE,
)
from jitpkg.code.versions import END_FOR_POPS_ONE, FOR_ITER_SKIPS_END
from jitpkg.dataclass import dataclass
from jitpkg.endings import dropping

T = TypeVar("T")

_USES_GLOBALS = frozenset(
    {
        "LOAD_GLOBAL",
        "STORE_GLOBAL",
        "DELETE_GLOBAL",
        "LOAD_NAME",
        "LOAD_FROM_DICT_OR_GLOBALS",
        "MAKE_FUNCTION",
        "IMPORT_NAME",
    }
)
_DELEGATING = frozenset({"SEND", "JUMP_BACKWARD_NO_INTERRUPT"})
_REBUILDABLE = frozenset({VALUE, NULL, MAYBE_NULL, LASTI})
"""Kinds that an exit can put on the stack; a lasti above the kept part is only ever dropped."""


LOOK_AT_FRAMES = frozenset(
    """
    _getframe _getframemodulename currentframe extract_stack format_stack getouterframes
    print_stack stacklevel walk_stack warn
    """.split()
)
"""Names in code that would notice the frame of a resume function."""


@dataclass(frozen=True, slots=True)
class StackValue:
    """One value on the stack at a point."""

    depth: int
    kind: str

    @property
    def passed(self) -> bool:
        """Whether the value is handed over; a NULL is only remembered."""
        return self.kind != NULL


def _once(method: Callable[..., T]) -> Callable[..., T]:
    """A method of `Points` that is asked again by each dispatcher of such code."""
    name = method.__name__

    @wraps(method)
    def found(self: Points, *at: int) -> T:
        return self.once(name, lambda: method(self, *at), *at)

    return found


class Points:
    """The points of one code object.

    A *point* is the place before an instruction, by its index. At a hook the frame hands over
    the locals that may be bound and the stack above what the exception table keeps (`inputs`);
    at an exit it takes back the locals that some instruction stores to, and the stack above the
    hook's kept part (`outputs`).
    """

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.code: CodeType = analysis.code
        self.instructions = analysis.instructions
        self.start = next(i for i, ins in enumerate(self.instructions) if ins.opname == "RESUME")
        """The RESUME behind the prologue (MAKE_CELL, COPY_FREE_VARS, RETURN_GENERATOR)."""
        self.slot_count = len(slot_names(self.code)) - len(self.code.co_freevars)
        """Slots before the free variables."""
        self.stored = stored_slots(analysis)
        self._known: dict[tuple[str | int, ...], Any] = {}

    @classmethod
    def of(cls, code: CodeType) -> Points:
        """Analyse `code`, unless somebody has and still needs it: as for each module that one
        function of torch's calls."""
        return _LIVING.of(code)

    def for_equal(self, code: CodeType) -> Points:
        """The points of another code object that is equal to this one."""
        if code is self.code:
            return self
        points = copy.copy(self)
        points.code, points.analysis = code, replace(self.analysis, code=code)
        return points

    def once(self, what: str, make: Callable[[], T], *at: int) -> T:
        """What is made of the code, or of points in it, once for all code that is equal to it."""
        key: tuple[str | int, ...] = (what, *at)
        if key not in self._known:
            self._known[key] = make()
        made: T = self._known[key]
        return made

    # What is handed over

    def locals_at(self, i: int) -> tuple[int, ...]:
        """Slots that are, or may be, bound at a point; cells are handed over apart."""
        kinds = self.analysis.slots(i)
        return tuple(s for s in range(self.slot_count) if kinds[s] in (BOUND, MAYBE_BOUND))

    def restored_at(self, i: int) -> tuple[int, ...]:
        """Slots that an exit to `i` stores: those of `locals_at` that can have changed."""
        return tuple(s for s in self.locals_at(i) if s in self.stored)

    def only_handed_over(self, i: int) -> tuple[int, ...]:
        """Slots of `locals_at` that nothing stores to, so that an exit need not restore them."""
        return tuple(s for s in self.locals_at(i) if s not in self.stored)

    def unbound_at(self, i: int) -> tuple[int, ...]:
        """Slots that an exit to `i` unbinds, for they may have been bound at the hook."""
        kinds = self.analysis.slots(i)
        return tuple(
            s for s in range(self.slot_count) if kinds[s] == UNBOUND_SLOT and s in self.stored
        )

    def cells_at(self, i: int) -> tuple[int, ...]:
        """Slots of the function's own cells. An inlined comprehension may borrow a cell's slot."""
        kinds = self.analysis.slots(i)
        return tuple(s for s in range(self.slot_count) if kinds[s] == CELL)

    @cached_property
    def free(self) -> tuple[int, ...]:
        """Slots of the free variables."""
        return tuple(range(self.slot_count, self.slot_count + len(self.code.co_freevars)))

    def stack_above(self, i: int, base: int) -> tuple[StackValue, ...]:
        """The stack at a point, from the top down to depth `base`."""
        kinds = self.analysis.stack(i)
        return tuple(StackValue(d, kinds[d]) for d in range(len(kinds) - 1, base - 1, -1))

    @cached_property
    def uses_globals(self) -> bool:
        """Whether the code reads or writes its globals, or makes functions that do."""
        return any(ins.opname in _USES_GLOBALS for ins in self.instructions)

    @cached_property
    def looks_at_frames(self) -> bool:
        """Whether the code seems to look at the frames that it runs in.

        `super()` does, and says whether there are no arguments; a resume function always has some.
        """
        if not self.code.co_argcount and "super" in self.code.co_names:
            return True
        return _names(self.code, LOOK_AT_FRAMES)

    @_once
    def input_count(self, h: int) -> int:
        """How many values a hook at `h` hands over, before cells and globals."""
        stack = self.stack_above(h, self.analysis.kept(h))
        return len(self.locals_at(h)) + sum(v.passed for v in stack)

    @_once
    def unchanged(self, h: int) -> tuple[int, ...]:
        """Positions among the inputs at `h` of the outputs of an exit to `h` itself."""
        slots = self.locals_at(h)
        kept = [k for k, slot in enumerate(slots) if slot in self.stored]
        return (*kept, *range(len(slots), self.input_count(h)))

    # Which points

    @_once
    def refusal(self, i: int) -> str | None:
        """Why point `i` can be neither a hook nor an exit, or None where it can."""
        if i <= self.start:
            return "prologue"
        if not self.analysis.reachable(i):
            return "unreachable"
        ins, before = self.instructions[i], self.instructions[i - 1]
        if ins.opname == "RESUME":
            return "RESUME after a yield"
        if ins.line is None:
            return "no line: made by the compiler"
        if ins.opname == "PUSH_EXC_INFO":
            return "PUSH_EXC_INFO: its handler expects what it pushes"
        if before.opname in ("KW_NAMES", "PRECALL"):
            return "inside KW_NAMES, PRECALL, CALL"
        if FOR_ITER_SKIPS_END and ins.opname == "END_FOR":
            return "END_FOR, which FOR_ITER skips"
        if END_FOR_POPS_ONE and before.opname == "END_FOR":
            return "POP_TOP after END_FOR, which FOR_ITER skips"
        if ins.opname in _DELEGATING or before.opname == "SEND":
            return "inside yield from or await, where no signal is handled"
        stack = self.analysis.stack(i)
        if MIXED in stack:
            return "the stack differs between two ways here"
        above = stack[self.analysis.kept(i) :]
        if SAVED_EXCEPTION in above:
            return "a saved exception above the kept stack"
        if CELL_VALUE in above:
            return "a cell above the kept stack, whose slot a comprehension borrows"
        return None

    @_once
    def exit_refusal(self, h: int, p: int) -> str | None:
        """Why a region that starts at `h` cannot be left at `p`, or None where it can.

        What the hook's exception-table entry keeps stays on the stack: `p` must have the same
        kinds there, or less, and nothing above that only the interpreter can make. That these
        values, and the function's own cells, are still the ones of the hook is for the region to
        know: one that has been round a loop may come to the same kinds with another iterator.
        """
        if (refusal := self.refusal(p)) is not None:
            return refusal
        base = self.analysis.kept(h)
        here, there = self.analysis.stack(h), self.analysis.stack(p)
        common = min(base, len(there))
        if here[:common] != there[:common]:
            return "the kept stack differs"
        if set(here[common:base]) - {VALUE}:
            return "leaving it would drop what only the interpreter can make"
        if set(there[base:]) - _REBUILDABLE:
            return "a saved exception would have to be made"
        if _borrowed(here) != _borrowed(there) or not set(self.cells_at(p)) <= set(
            self.cells_at(h)
        ):
            return "a comprehension between them borrows the slot of a cell"
        return None

    def enter_refusal(self, p: int) -> str | None:
        """Why a call cannot begin at `p`, with all that is live there made anew; None if it can."""
        if (refusal := self.refusal(p)) is not None:
            return refusal
        if set(self.analysis.stack(p)) - _REBUILDABLE:
            return "something on the stack that only the interpreter can make"
        if "__class__" in self.code.co_freevars:
            return "super() takes its object from the arguments of the frame"
        return None

    def hookable(self) -> Iterator[int]:
        """All points that can be hooks."""
        return (i for i in range(len(self.instructions)) if self.refusal(i) is None)

    @cached_property
    def first(self) -> int | None:
        """The first point that can be a hook on every call: where the stub stands."""
        i = self.start + 1
        if i < len(self.instructions) and self.refusal(i) is None:
            return i
        return None

    def behind(self, p: int) -> tuple[int, ...]:
        """The nearest points that can be hooks behind instruction `p`, on each way."""
        found: list[int] = []
        seen: set[int] = set()
        todo = list(self.analysis.successors(p))
        while todo:
            i = todo.pop()
            if i in seen or i >= len(self.instructions):
                continue
            seen.add(i)
            if self.refusal(i) is None:
                found.append(i)
            else:
                todo.extend(self.analysis.successors(i))
        return tuple(sorted(found))


def _names(code: CodeType, names: frozenset[str]) -> bool:
    """Whether the code, or a function or comprehension in it, uses one of these names."""
    if not names.isdisjoint(code.co_names):
        return True
    for const in code.co_consts:
        if isinstance(const, tuple) and any(type(k) is str and k in names for k in const):
            return True  # names of keyword arguments
        if isinstance(const, CodeType) and _names(const, names):
            return True
    return False


def _borrowed(stack: str) -> list[int]:
    """Where on the stack cells lie that inlined comprehensions took out of their slots."""
    return [depth for depth, kind in enumerate(stack) if kind == CELL_VALUE]


class _Living:
    """The points of code objects, for as long as anybody uses them."""

    def __init__(self) -> None:
        self._by_id: dict[int, weakref.ref[Points]] = {}

    def of(self, code: CodeType) -> Points:
        key = id(code)
        reference = self._by_id.get(key)  # while the points live, so does the code
        found = None if reference is None else reference()
        if found is None:
            found = _latest(code, code.co_linetable, code.co_exceptiontable).for_equal(code)
            self._by_id[key] = dropping(found, self._by_id, key)
        return found


@lru_cache(maxsize=64)
def _latest(code: CodeType, lines: bytes, handlers: bytes) -> Points:
    """A notebook's cell that is run again makes equal code; not every CPython compares lines and
    handlers."""
    return Points(analyse(code))


_LIVING = _Living()
