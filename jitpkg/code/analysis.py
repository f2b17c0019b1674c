"""What is known before each instruction: the stack's kinds and which slots are bound."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from heapq import heappop, heappush
from types import CodeType

from jitpkg.code.effects import (
    BOUND,
    CELL,
    CELL_ARGUMENT,
    CELL_IN_CELL,
    CHECKED,
    FINAL,
    LASTI,
    QUIET,
    UNBOUND_SLOT,
    VALUE,
    State,
    accesses,
    after,
    join,
)
from jitpkg.code.instructions import Decoded, Inconsistent, Instruction, decode
from jitpkg.dataclass import dataclass

GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
FUNCTION_FLAGS = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS


@dataclass(frozen=True, slots=True)
class Analysis:
    """A code object, decoded, with the state before each instruction."""

    code: CodeType
    decoded: Decoded
    states: tuple[State | None, ...]
    """State before each instruction; None where no way leads."""

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return self.decoded.instructions

    def stack(self, i: int) -> str:
        return self._state(i).stack

    def slots(self, i: int) -> str:
        return self._state(i).slots

    def reachable(self, i: int) -> bool:
        return self.states[i] is not None

    def kept(self, i: int) -> int:
        """How many stack values the exception-table entry that covers `i` keeps."""
        covered = self.instructions[i].covered
        return covered.depth if covered else 0

    def successors(self, i: int) -> tuple[int, ...]:
        """Where control can go behind `i`, other than into a handler."""
        ins = self.instructions[i]
        ways = [] if ins.opname in FINAL else [i + 1]
        if ins.target is not None and ins.target not in ways:
            ways.append(ins.target)
        return tuple(ways)

    def _state(self, i: int) -> State:
        state = self.states[i]
        if state is None:
            raise ValueError(f"instruction {i} of {self.code.co_qualname} cannot be reached")
        return state


def parameter_count(code: CodeType) -> int:
    """How many slots the interpreter fills with arguments."""
    stars = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)
    return (
        code.co_argcount
        + code.co_kwonlyargcount
        + sum(bool(code.co_flags & flag) for flag in stars)
    )


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of all slots: locals, cells that are no locals, free variables."""
    cells = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + cells + code.co_freevars


def is_generator(code: CodeType) -> bool:
    """Whether calling the code makes a generator, a coroutine or an asynchronous generator."""
    return bool(code.co_flags & GENERATOR_FLAGS)


def is_function(code: CodeType) -> bool:
    """Whether the code is a function's, not a module's or a class body's."""
    return code.co_flags & FUNCTION_FLAGS == FUNCTION_FLAGS


def analyse(code: CodeType, cells: Collection[int] = ()) -> Analysis:
    """Follow every way through `code`, handlers included; `cells` are arguments that are cells.

    Raises:
        Inconsistent: two ways to one instruction have stacks of different depth, or an
            instruction takes more from the stack than there is, or a way leads past the end.
    """
    decoded = decode(code)
    instructions = decoded.instructions
    rank, order = _ranks(instructions)
    states: list[State | None] = [None] * (len(instructions) + 1)
    todo: list[int] = []  # a heap of ranks: ways meet before they go on together

    def flow(i: int, new: State) -> None:
        old = states[i]
        if old == new:
            return
        if old is not None:
            if len(old.stack) != len(new.stack):
                raise Inconsistent(
                    f"{code.co_qualname}, instruction {i}: stack {old.stack!r} and {new.stack!r}"
                )
            new = State(join(old.stack, new.stack), join(old.slots, new.slots))
            if new == old:
                return
        elif i == len(instructions):
            raise Inconsistent(f"{code.co_qualname}: a way leads past the last instruction")
        states[i] = new
        heappush(todo, rank[i])

    own_cells = own_cell_slots(instructions)
    flow(0, _at_entry(code, cells))
    raised: set[tuple[int, str, str]] = set()  # most instructions under a handler are alike to it
    done = -1
    while todo:
        at = heappop(todo)
        if at == done:
            continue
        done = at
        i = order[at]
        ins, state = instructions[i], states[i]
        assert state is not None
        if ins.covered and ins.opname != "PUSH_EXC_INFO":
            depth = ins.covered.depth
            if depth > len(state.stack):
                raise Inconsistent(
                    f"{code.co_qualname}, instruction {i} ({ins.opname}): "
                    f"stack {state.stack!r} is below the handler's depth {depth}"
                )
            kept, slots = state.stack[:depth], state.slots
            if own_cells and ins.opname in QUIET:
                slots = _given_back(slots, own_cells)
            way = ins.covered.handler, kept, slots
            if way not in raised:
                raised.add(way)
                pushed = (LASTI if ins.covered.lasti else "") + VALUE
                flow(ins.covered.handler, State(kept + pushed, slots))
        if ins.target is not None:
            flow(ins.target, after(ins, state, jumps=True))
        if ins.opname in CHECKED and state.slots[ins.arg : ins.arg + 1] == UNBOUND_SLOT:
            continue  # it always raises
        if ins.opname not in FINAL:
            flow(i + 1, after(ins, state, jumps=False))
    return Analysis(code, decoded, tuple(states[:-1]))


def own_cell_slots(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Slots that the prologue makes cells."""
    found: set[int] = set()
    for ins in instructions:
        if ins.opname == "RESUME":
            break
        if ins.opname == "MAKE_CELL":
            found.add(ins.arg)
    return frozenset(found)


def _given_back(slots: str, cells: frozenset[int]) -> str:
    """The slots, without what comprehensions borrow: CPython relies on it that nothing raises
    between the taking of a cell and the handler that gives it back, and neither behind that."""
    return "".join(CELL if slot in cells else kind for slot, kind in enumerate(slots))


def _ranks(instructions: Sequence[Instruction]) -> tuple[list[int], list[int]]:
    """Each instruction's place in an order where, loops aside, nothing comes before what leads to
    it; and the instructions in that order."""
    count = len(instructions)
    seen = [False] * (count + 1)
    seen[count] = True
    left: list[int] = []
    stack = [0] if count else []
    while stack:
        i = stack.pop()
        if i < 0:
            left.append(~i)
            continue
        if seen[i]:
            continue
        seen[i] = True
        ins = instructions[i]
        stack.append(~i)
        # What is pushed last is followed first, and so comes last in the order.
        if ins.opname not in FINAL and not seen[i + 1]:
            stack.append(i + 1)
        if ins.target is not None and not seen[ins.target]:
            stack.append(ins.target)
        if ins.covered is not None and not seen[ins.covered.handler]:
            stack.append(ins.covered.handler)
    left.reverse()
    rank = [-1] * (count + 1)
    for at, i in enumerate(left):
        rank[i] = at
    return rank, left


def _at_entry(code: CodeType, cells: Collection[int]) -> State:
    parameters = parameter_count(code)
    arguments = "".join(CELL_ARGUMENT if slot in cells else BOUND for slot in range(parameters))
    others = len(slot_names(code)) - parameters - len(code.co_freevars)
    first = parameters + others
    free = "".join(
        CELL_IN_CELL if first + k in cells else CELL for k in range(len(code.co_freevars))
    )
    return State("", arguments + UNBOUND_SLOT * others + free)


def stored_slots(analysis: Analysis) -> frozenset[int]:
    """Slots that some instruction stores to or unbinds; the others keep their argument for ever."""
    return frozenset(
        slot
        for ins in analysis.instructions
        for access, slot in accesses(ins)
        if access in ("store", "delete", "take")
    )
