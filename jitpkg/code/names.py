"""What code objects name, and hold."""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType


def codes_inside(code: CodeType) -> list[CodeType]:
    """Those of functions, classes and the like that are defined in it."""
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


@lru_cache(maxsize=4096)
def stored_by(code: CodeType) -> frozenset[str]:
    """The attributes that a code object, or one inside of it, may store on any object."""
    found = {name for each in codes_inside(code) for name in stored_by(each)}
    found.update(i.argval for i in dis.get_instructions(code) if i.opname == "STORE_ATTR")
    if "setattr" in code.co_names:
        found.update(each for each in code.co_consts if isinstance(each, str))
    return frozenset(found)
