"""Python functions of native code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from jitpkg.native import pointers
from jitpkg.native.llvm import Library

METH_FASTCALL = 0x80


class _Definition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Owner:
    """The `self` of a builtin: what must live as long as it does."""

    __slots__ = ("definition", "library")

    def __init__(self, definition: _Definition, library: Library) -> None:
        self.definition = definition
        self.library = library


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_untrack = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("PyObject_GC_UnTrack", ctypes.pythonapi))


def builtin(library: Library, symbol: str, name: str, doc: str) -> Callable[..., Any]:
    """The Python function of an entry point, or of any METH_FASTCALL function.

    Raises:
        NativeError: the library does not define the symbol.
    """
    if pointers.binds(library, symbol):
        return pointers.function(library, symbol, name, doc)
    address = library.address(symbol)
    definition = _Definition(name.encode(), address, METH_FASTCALL, doc.encode())
    owner = _Owner(definition, library)
    # The garbage collector clears what it found unreachable in any order, and a builtin reads its
    # definition when it is freed: the owner is kept out of sight. No cycle leads through it.
    _untrack(owner)
    made: Callable[..., Any] = _new(ctypes.addressof(definition), owner, "jitpkg.native")
    return made


def definition(address: int, name: str, doc: str) -> int:
    """Where the definition of a METH_FASTCALL function is, for `made`. It is there for ever."""
    made = _Definition(name.encode(), address, METH_FASTCALL, doc.encode())
    _keep(made)  # a builtin reads its definition when it is freed: when the process ends
    return ctypes.addressof(made)


_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def made(definition: int, self: object) -> Callable[..., Any]:
    """The Python function of a definition, whose first argument is `self`."""
    function: Callable[..., Any] = _new(definition, self, "jitpkg.native")
    return function
