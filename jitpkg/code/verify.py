"""A check of emitted code objects: what CPython itself trusts its compiler for."""

from __future__ import annotations

from types import CodeType

from jitpkg.code.analysis import analyse
from jitpkg.code.effects import BOUND, CELL, Inconsistent, accesses
from jitpkg.code.versions import LOAD_CHECKED


class Unverified(Exception):
    """A code object would corrupt the interpreter; it must not be installed."""


def verify(code: CodeType) -> CodeType:
    """Return `code` if its stack never overflows and no unbound local is loaded unchecked.

    Raises:
        Unverified: with the instruction that breaks the rule.
    """
    try:
        analysis = analyse(code)
    except Inconsistent as error:
        raise Unverified(str(error)) from error
    for i, (ins, state) in enumerate(zip(analysis.instructions, analysis.states, strict=True)):
        if state is None:
            continue
        where = f"{code.co_qualname}, instruction {i} ({ins.opname})"
        if len(state.stack) > code.co_stacksize:
            raise Unverified(
                f"{where}: stack {state.stack!r} exceeds co_stacksize {code.co_stacksize}"
            )
        if ins.opname == LOAD_CHECKED:
            continue
        stored_here = {slot for access, slot in accesses(ins) if access == "store"}
        for access, slot in accesses(ins):
            sure = state.slots[slot] in (BOUND, CELL) or slot in stored_here
            if access == "load" and not sure:
                raise Unverified(f"{where}: slot {slot} may be unbound")
    return code
