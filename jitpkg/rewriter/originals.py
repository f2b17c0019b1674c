"""From emitted code objects back to what their authors wrote."""

from __future__ import annotations

import weakref
from types import CodeType, FunctionType
from typing import Protocol

from jitpkg import forks
from jitpkg.endings import dropping
from jitpkg.marks import COMPILED
from jitpkg.rewriter.callables import CompiledCallable, original_of


class Compiled(Protocol):
    """What a function that was made from another one keeps as `COMPILED`."""

    def original_of(self, function: FunctionType) -> FunctionType | None:
        """What a function was made from, if this is what made it."""
        ...


class Originals:
    """The original of each emitted code object, for as long as that lives."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._of: dict[int, tuple[weakref.ref[CodeType], CodeType]] = {}

    def add(self, emitted: CodeType, original: CodeType) -> None:
        if emitted is original:
            return
        key = id(emitted)
        with self._lock:
            self._of[key] = dropping(emitted, self._of, key), original

    def of(self, code: CodeType) -> CodeType:
        """The original; any other code object is its own."""
        found = self._of.get(id(code))
        if found is None or found[0]() is not code:
            return code
        return found[1]

    def callable_of(self, obj: object) -> object:
        """What a compiled callable was made from; any other object is its own."""
        if isinstance(obj, CompiledCallable):
            return original_of(obj)
        if type(obj) is not FunctionType:
            return obj
        made_by: Compiled | None = obj.__dict__.get(COMPILED)
        return obj if made_by is None else made_by.original_of(obj) or obj


def given_to_torch_compile(function: FunctionType) -> object:
    """What torch.compile made a function from; any other is its own, its wrappers included."""
    names = function.__dict__
    is_its = names.get("_torchdynamo_wrapper_id") == id(function)
    if not is_its or names.get("_torchdynamo_disable"):
        return function
    return names.get("_torchdynamo_orig_callable", function)


ORIGINALS = Originals()
"""The process's table."""
