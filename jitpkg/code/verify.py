"""A check of emitted code objects: what CPython itself trusts its compiler for."""

from __future__ import annotations

import opcode
from collections.abc import Collection, Mapping
from types import CodeType

from jitpkg.code.analysis import Analysis, analyse, slot_names
from jitpkg.code.effects import (
    BOUND,
    CELL,
    CELL_IN_CELL,
    CELL_VALUE,
    DEREFS,
    LASTI,
    MAYBE_NULL,
    MIXED,
    NULL,
    SAVED_EXCEPTION,
    UNBOUND_SLOT,
    VALUE,
    State,
    accesses,
    taken,
)
from jitpkg.code.instructions import Inconsistent, Instruction
from jitpkg.code.versions import ATTRIBUTE_SHIFT, LOAD_CHECKED, NULL_BELOW_CALLABLE


class Unverified(Exception):
    """A code object would corrupt the interpreter; it must not be installed."""


def verify(code: CodeType, cells: Collection[int] = ()) -> Analysis:
    """Analyse `code`, and see that the interpreter can run it on any way through it.

    `cells` are the parameters whose arguments are cells, and the free variables that are cells in
    cells, as those of a resume function may be.

    Constants, names and slots exist; the stack has the same depth on every way to an instruction,
    never overflows and never underflows; no unbound local is loaded unchecked, no NULL is taken
    for an object, cells are where cells are expected, what ends an exception's handling is an
    exception, and no way leads past the last instruction.

    Raises:
        Unverified: with the instruction that breaks the rule.
    """
    try:
        analysis = analyse(code, cells)
    except Inconsistent as error:
        raise Unverified(str(error)) from error
    counts = len(code.co_consts), len(code.co_names)
    for i, (ins, state) in enumerate(zip(analysis.instructions, analysis.states, strict=True)):
        if state is None:
            continue
        wrong = (
            _index(ins, *counts)
            or _overflow(state, code)
            or _slots(ins, state)
            or _taken(ins, state)
        )
        if wrong is not None:
            raise Unverified(f"{code.co_qualname}, instruction {i} ({ins.opname}): {wrong}")
    return analysis


def verify_like(emitted: Analysis, original: Analysis, places: Mapping[int, int]) -> None:
    """See that emitted code finds, before each original instruction, what the original finds.

    `places` are the original instructions' indices in the emitted code. The slots of free variables
    are passed over: they are elsewhere.

    Raises:
        Unverified: with the instruction where stack or slots may differ.
    """
    slots = len(slot_names(original.code)) - len(original.code.co_freevars)
    for i, place in places.items():
        found, wanted = emitted.states[place], original.states[i]
        if found is None or wanted is None:
            continue
        here, there = found.slots[:slots], wanted.slots[:slots]
        if found.stack == wanted.stack and here == there:
            continue
        if not _fits(found.stack, wanted.stack, _STACK_FITS) or not _fits(here, there, {}):
            raise Unverified(
                f"{original.code.co_qualname}, instruction {i}: {found} is not {wanted}"
            )


_STACK_FITS = {VALUE: VALUE + CELL_VALUE, LASTI: LASTI + VALUE + MIXED}
"""What else may be found for a kind: more precise ones, or a lasti that came as a constant."""
_SURE = frozenset(VALUE + NULL + SAVED_EXCEPTION + CELL_VALUE + BOUND + CELL + UNBOUND_SLOT)
"""Kinds of which something must be known; the others may be anything."""


def _fits(found: str, wanted: str, fits: dict[str, str]) -> bool:
    """Whether one state is the other or says more."""
    return len(found) == len(wanted) and all(
        a == b or b not in _SURE or a in fits.get(b, "") for a, b in zip(found, wanted, strict=True)
    )


def _index(ins: Instruction, consts: int, names: int) -> str | None:
    if ins.opname in _WITH_CONST and ins.arg >= consts:
        return f"there is no constant {ins.arg}"
    shift = _WITH_NAME.get(ins.opname)
    if shift is not None and ins.arg >> shift >= names:
        return f"there is no name {ins.arg >> shift}"
    return None


_WITH_CONST = frozenset(opcode.opname[number] for number in opcode.hasconst)
_WITH_NAME = {opcode.opname[number]: 0 for number in opcode.hasname} | {
    "LOAD_GLOBAL": 1,
    "LOAD_ATTR": ATTRIBUTE_SHIFT,
    "LOAD_SUPER_ATTR": 2,
}
"""How far to the left an index of a name is shifted in the argument."""


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
        fine = _DEREF.get(ins.opname, CELL)
        if ins.arg < len(state.slots) and state.slots[ins.arg] in fine:
            return None
        return f"slot {ins.arg} may hold no cell"
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
