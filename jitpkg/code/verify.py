"""A check of emitted code objects: what CPython itself trusts its compiler for."""

from __future__ import annotations

from collections.abc import Collection
from types import CodeType

from jitpkg.code.analysis import analyse
from jitpkg.code.effects import (
    BOUND,
    CELL,
    CELL_IN_CELL,
    DEREFS,
    MAYBE_NULL,
    NULL,
    SAVED_EXCEPTION,
    State,
    accesses,
    taken,
)
from jitpkg.code.instructions import Inconsistent, Instruction
from jitpkg.code.versions import LOAD_CHECKED, NULL_BELOW_CALLABLE


class Unverified(Exception):
    """A code object would corrupt the interpreter; it must not be installed."""


def verify(code: CodeType, cells: Collection[int] = ()) -> CodeType:
    """Return `code` if the interpreter can run it on any way through it.

    `cells` are the parameters whose arguments are cells, and the free variables that are cells in
    cells, as those of a resume function may be.

    The stack has the same depth on every way to an instruction, never overflows and never
    underflows; no unbound local is loaded unchecked, no NULL is used as an object, cells are where
    cells are expected, what ends an exception's handling is an exception, and no way leads past
    the last instruction.

    Raises:
        Unverified: with the instruction that breaks the rule.
    """
    try:
        analysis = analyse(code, cells)
    except Inconsistent as error:
        raise Unverified(str(error)) from error
    for i, (ins, state) in enumerate(zip(analysis.instructions, analysis.states, strict=True)):
        if state is None:
            continue
        wrong = _overflow(state, code) or _slots(ins, state) or _taken(ins, state)
        if wrong is not None:
            raise Unverified(f"{code.co_qualname}, instruction {i} ({ins.opname}): {wrong}")
    return code


def _overflow(state: State, code: CodeType) -> str | None:
    if len(state.stack) > code.co_stacksize:
        return f"stack {state.stack!r} exceeds co_stacksize {code.co_stacksize}"
    return None


_DEREF = {
    "LOAD_CLOSURE": CELL + BOUND,
    "LOAD_DEREF": CELL + CELL_IN_CELL,
    "DELETE_DEREF": CELL + CELL_IN_CELL,
}
"""What a slot may hold, where it is not a cell only."""


def _slots(ins: Instruction, state: State) -> str | None:
    """What is wrong with the slots that an instruction uses."""
    if ins.opname in DEREFS:
        holds = state.slots[ins.arg]
        return None if holds in _DEREF.get(ins.opname, CELL) else f"slot {ins.arg} may hold no cell"
    if ins.opname == LOAD_CHECKED:
        return None
    stored: list[int] = []
    for access, slot in accesses(ins):
        if access == "store":
            stored.append(slot)
        elif access == "load" and state.slots[slot] not in (BOUND, CELL) and slot not in stored:
            return f"slot {slot} may be unbound"
    return None


def _taken(ins: Instruction, state: State) -> str | None:
    """What is wrong with the values that an instruction takes from the stack."""
    stack = state.stack
    match ins.opname:
        case "STORE_FAST" | "SWAP":
            return None
        case "POP_EXCEPT":
            return None if stack[-1] == SAVED_EXCEPTION else f"no saved exception: {stack!r}"
        case "COPY":
            values = stack[-ins.arg]
        case "CALL" | "CALL_KW" | "CALL_FUNCTION_EX":
            values = _without_null(stack[len(stack) - taken(ins) :])
        case _:
            values = stack[len(stack) - taken(ins) :]
    if NULL in values or MAYBE_NULL in values:
        return f"a NULL is used as an object: {stack!r}"
    return None


def _without_null(call: str) -> str:
    """What a call takes, without the place where there may be NULL."""
    return call[1:] if NULL_BELOW_CALLABLE else call[:1] + call[2:]
