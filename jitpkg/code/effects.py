"""What one instruction does to the stack and to the local slots.

The stack is a string of *kinds*, one letter a value, and so are the slots: equal states are
equal strings, and joining two states is joining letters.
"""

from __future__ import annotations

from functools import lru_cache
from opcode import opmap, stack_effect
from typing import Literal, NamedTuple

from jitpkg.code.instructions import Inconsistent, Instruction
from jitpkg.code.versions import (
    ATTRIBUTE_LOADS_METHODS,
    HAS_ARGUMENT,
    LOAD_CHECKED,
    NULL_BELOW_CALLABLE,
)

# Kinds of stack values
VALUE = "v"
NULL = "N"
MAYBE_NULL = "M"
"""A value or NULL: the self of a method load."""
SAVED_EXCEPTION = "p"
"""What PUSH_EXC_INFO saved: the exception that was being handled before."""
LASTI = "L"
"""The offset of a raising instruction, pushed for RERAISE."""
CELL_VALUE = "c"
"""A cell that LOAD_FAST_AND_CLEAR took out of its slot."""
MIXED = "X"
"""Kinds that differ between two ways to the same point, in a way that cannot be rebuilt."""

# Kinds of slots
BOUND = "B"
CELL = "C"
CELL_ARGUMENT = "A"
"""A cell that came as an argument; MAKE_CELL makes a cell around it."""
CELL_IN_CELL = "D"
"""A cell that MAKE_CELL has made around such a one, and that nobody else has."""
UNBOUND_SLOT = "U"
MAYBE_BOUND = "M"

FINAL = frozenset(
    {
        "RETURN_VALUE",
        "RETURN_CONST",
        "RAISE_VARARGS",
        "RERAISE",
        "JUMP_FORWARD",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
    }
)
"""Opcodes that never continue with the next instruction."""

CHECKED = frozenset({LOAD_CHECKED, "DELETE_FAST"})
"""Opcodes that raise where their slot is unbound."""

QUIET = frozenset(
    {
        "COPY",
        "END_FOR",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_FORWARD",
        "LOAD_FAST_AND_CLEAR",
        "MAKE_CELL",
        "NOP",
        "POP_TOP",
        "STORE_FAST",
        "STORE_FAST_STORE_FAST",
        "SWAP",
    }
)
"""Opcodes that raise nothing themselves; a trace function can, before any instruction."""

DEREFS = frozenset(
    {
        "LOAD_CLOSURE",
        "LOAD_DEREF",
        "STORE_DEREF",
        "DELETE_DEREF",
        "LOAD_FROM_DICT_OR_DEREF",
        "LOAD_CLASSDEREF",
    }
)
"""Opcodes whose argument is a slot that holds a cell."""

Access = Literal["load", "store", "delete", "take", "cell"]
"""How a slot is used; `take` is LOAD_FAST_AND_CLEAR, `cell` is MAKE_CELL."""

_SINGLE: dict[str, Access] = {
    "LOAD_FAST": "load",
    "LOAD_FAST_CHECK": "load",
    "STORE_FAST": "store",
    "DELETE_FAST": "delete",
    "LOAD_FAST_AND_CLEAR": "take",
    "MAKE_CELL": "cell",
}
_PAIRS: dict[str, tuple[Access, Access]] = {
    "LOAD_FAST_LOAD_FAST": ("load", "load"),
    "STORE_FAST_LOAD_FAST": ("store", "load"),
    "STORE_FAST_STORE_FAST": ("store", "store"),
}


def accesses(ins: Instruction) -> tuple[tuple[Access, int], ...]:
    """How an instruction uses local slots, in order."""
    if (access := _SINGLE.get(ins.opname)) is not None:
        return ((access, ins.arg),)
    if (pair := _PAIRS.get(ins.opname)) is not None:
        return (pair[0], ins.arg >> 4), (pair[1], ins.arg & 15)
    return ()


def slots_used(ins: Instruction) -> tuple[int, ...]:
    """The slots that an instruction names, cells included."""
    if ins.opname in DEREFS:
        return (ins.arg,)
    return tuple(slot for _, slot in accesses(ins))


class State(NamedTuple):
    """What is on the stack and in the slots before an instruction."""

    stack: str
    slots: str


def after(ins: Instruction, state: State, *, jumps: bool) -> State:
    """The state behind `ins`, on the way where it jumps or on the way where it does not.

    Raises:
        Inconsistent: the instruction takes more from the stack than there is.
    """
    used = accesses(ins)
    if used:
        for access, slot in used:
            state = _after_access(access, slot, state)
        return state
    stack = state.stack
    if ins.opname == "LOAD_DEREF" and state.slots[ins.arg : ins.arg + 1] == CELL_IN_CELL:
        return State(stack + CELL_VALUE, state.slots)
    if ins.opname in ("COPY", "SWAP"):
        if ins.arg > len(stack):
            raise Inconsistent(f"{ins.opname} {ins.arg} of the stack {stack!r}")
        if ins.opname == "COPY":
            return State(stack + stack[-ins.arg], state.slots)
        letters = list(stack)
        letters[-1], letters[-ins.arg] = letters[-ins.arg], letters[-1]
        return State("".join(letters), state.slots)
    count, pushed = _stack_change(ins.opname, ins.arg, jumps)
    if not count:
        return State(stack + pushed, state.slots) if pushed else state
    if count > len(stack):
        raise Inconsistent(f"{ins.opname} takes {count} values from the stack {stack!r}")
    return State(stack[:-count] + pushed, state.slots)


_TAKEN = {
    BOUND: VALUE,
    CELL: CELL_VALUE,
    CELL_ARGUMENT: CELL_VALUE,
    CELL_IN_CELL: VALUE,
    UNBOUND_SLOT: NULL,
    MAYBE_BOUND: MAYBE_NULL,
}
_CELLS = CELL + CELL_ARGUMENT + CELL_IN_CELL
_STORED = {NULL: UNBOUND_SLOT, MAYBE_NULL: MAYBE_BOUND, CELL_VALUE: CELL}


def _after_access(access: Access, slot: int, state: State) -> State:
    if slot >= len(state.slots):
        raise Inconsistent(f"there is no slot {slot}")
    stack, before = state.stack, state.slots[slot]
    match access:
        case "load":
            stack, now = stack + VALUE, before if before in _CELLS else BOUND
        case "take":
            stack, now = stack + _TAKEN[before], UNBOUND_SLOT
        case "store":
            if not stack:
                raise Inconsistent("a store from an empty stack")
            stack, now = stack[:-1], _STORED.get(stack[-1:], BOUND)
        case "delete":
            now = UNBOUND_SLOT
        case "cell":
            now = CELL_IN_CELL if before == CELL_ARGUMENT else CELL
    if now == before:
        return State(stack, state.slots)
    return State(stack, state.slots[:slot] + now + state.slots[slot + 1 :])


@lru_cache(maxsize=4096)
def _stack_change(opname: str, arg: int, jumps: bool) -> tuple[int, str]:
    """How many values an instruction takes from the stack, and the kinds that it pushes.

    Where only the difference is known, that is all that is said.
    """
    method = MAYBE_NULL + VALUE if NULL_BELOW_CALLABLE else VALUE + MAYBE_NULL
    match opname:
        case "PUSH_NULL":
            return 0, NULL
        case "LOAD_GLOBAL" if arg & 1:
            return 0, NULL + VALUE if NULL_BELOW_CALLABLE else VALUE + NULL
        case "LOAD_METHOD":
            return 1, method
        case "LOAD_ATTR" if ATTRIBUTE_LOADS_METHODS and arg & 1:
            return 1, method
        case "LOAD_SUPER_ATTR" if arg & 1:
            return 3, method
        case "PUSH_EXC_INFO":
            return 1, SAVED_EXCEPTION + VALUE
        case "PRECALL":
            return 0, ""
        case "CALL":
            return arg + 2, VALUE
        case "CALL_KW":
            return arg + 3, VALUE
        case "CALL_FUNCTION_EX":
            return 3 + (arg & 1), VALUE
        case "RETURN_GENERATOR":
            return 0, VALUE
    number = opmap[opname]
    change = stack_effect(number, arg if number in HAS_ARGUMENT else None, jump=jumps)
    return (-change, "") if change < 0 else (0, VALUE * change)


def taken(ins: Instruction) -> int:
    """How many values an instruction takes from the stack, as far as that is known."""
    return _stack_change(ins.opname, ins.arg, False)[0]


def loads_method(ins: Instruction) -> bool:
    """Whether an attribute load pushes two values, callable and self."""
    if ins.opname == "LOAD_METHOD":
        return True
    return ATTRIBUTE_LOADS_METHODS and ins.opname == "LOAD_ATTR" and bool(ins.arg & 1)


@lru_cache(maxsize=16384)
def join(a: str, b: str) -> str:
    """The kinds that hold on both of two ways."""
    if a == b:
        return a
    return "".join([x if x == y else _join_letter(x, y) for x, y in zip(a, b, strict=True)])


def _join_letter(a: str, b: str) -> str:
    if {a, b} == {VALUE, CELL_VALUE}:
        return VALUE
    if {a, b} & {SAVED_EXCEPTION, LASTI, MIXED}:
        return MIXED
    return MAYBE_BOUND
