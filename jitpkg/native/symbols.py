"""What native code can call: one table, with the reason for each."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

import torch

Home = Literal["python", "torch", "process"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or a variable of a library that is in the process anyway."""

    name: str
    """What IR text calls it."""
    home: Home
    why: str
    spellings: tuple[str, ...] = ()
    """What the library may call it, where that differs."""


SYMBOLS = (
    Symbol("torch_parallel_for", "torch", "kernels run on torch's own threads"),
    Symbol("torch_get_num_threads", "torch", "how many parts a kernel is worth being cut into"),
    Symbol("torch_get_thread_idx", "torch", "each thread has its own part of scratch memory"),
    Symbol("memcpy", "process", "LLVM makes calls of it from plain copies"),
    Symbol("memset", "process", "LLVM makes calls of it from plain stores"),
    Symbol("memmove", "process", "LLVM makes calls of it from plain copies"),
    Symbol("aoti_torch_get_data_ptr", "torch", "where a tensor's elements are"),
    Symbol("aoti_torch_get_numel", "torch", "whether a tensor may be without memory"),
    Symbol("aoti_torch_empty_strided", "torch", "memory for results"),
    Symbol("aoti_torch_delete_tensor_object", "torch", "lets go of what the former made"),
    Symbol("torch_exception_get_what_without_backtrace", "torch", "why torch refused (from 2.13)"),
    Symbol(
        "THPVariable_Wrap",
        "torch",
        "the Python object of a result",
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE",),
    ),
    Symbol("PyErr_Format", "python", "errors"),
    Symbol("PyErr_NoMemory", "python", "errors"),
    Symbol("PyErr_Occurred", "python", "errors"),
    Symbol("PyErr_SetString", "python", "errors"),
    Symbol("PyEval_RestoreThread", "python", "takes the GIL again"),
    Symbol("PyEval_SaveThread", "python", "releases the GIL"),
    Symbol("PyExc_FloatingPointError", "python", "errors that a kernel may report"),
    Symbol("PyExc_IndexError", "python", "errors that a kernel may report"),
    Symbol("PyExc_MemoryError", "python", "errors that a kernel may report"),
    Symbol("PyExc_OverflowError", "python", "errors that a kernel may report"),
    Symbol("PyExc_RuntimeError", "python", "errors that a kernel may report"),
    Symbol("PyExc_TypeError", "python", "wrong arguments"),
    Symbol("PyExc_ValueError", "python", "errors that a kernel may report"),
    Symbol("PyExc_ZeroDivisionError", "python", "errors that a kernel may report"),
    Symbol("PyLong_AsLongLong", "python", "integer arguments"),
    Symbol("PyMem_RawFree", "python", "scratch memory"),
    Symbol("PyMem_RawMalloc", "python", "scratch memory, seen by tracemalloc"),
    Symbol("PyTuple_New", "python", "several results"),
    Symbol("PyTuple_SetItem", "python", "several results"),
    Symbol("Py_DecRef", "python", "drops results when the last one fails"),
    Symbol("Py_IncRef", "python", "None, before it became immortal"),
    Symbol("_Py_NoneStruct", "python", "no result"),
)

TYPES: Mapping[str, type] = MappingProxyType(
    {"jitpkg_Tensor": torch.Tensor, "jitpkg_Parameter": torch.nn.Parameter}
)
"""The exact types of tensors that native code takes; the symbol is at the type object."""


def has(symbol: str) -> bool:
    """Whether native code can use a symbol here: some are only in newer versions of torch."""
    return symbol in addresses()


@cache
def addresses() -> Mapping[str, int]:
    """Every symbol that is there, and where."""
    found = {name: id(cls) for name, cls in TYPES.items()}
    for symbol in SYMBOLS:
        address = _address(symbol)
        if address is not None:
            found[symbol.name] = address
    return MappingProxyType(found)


def _address(symbol: Symbol) -> int | None:
    library = _library(symbol.home)
    for name in symbol.spellings or (symbol.name,):
        try:
            function = getattr(library, name)
        except AttributeError:
            continue
        return ctypes.cast(function, ctypes.c_void_p).value
    return None


@cache
def _library(home: Home) -> ctypes.CDLL | None:
    match home:
        case "python":
            return ctypes.pythonapi
        case "torch":
            # The extension module: its dependencies, where all of torch is, are searched too.
            path = getattr(torch._C, "__file__", None)
            return ctypes.CDLL(path) if path else None
        case "process":
            try:
                return ctypes.CDLL(None)
            except (OSError, TypeError):
                return None


@cache
def dtype_code(dtype: torch.dtype) -> int | None:
    """The number of a dtype in torch's C interface, where it has one."""
    name = str(dtype).removeprefix("torch.")
    try:
        code = getattr(_library("torch"), f"aoti_torch_dtype_{name}")
    except AttributeError:
        return None
    return int(code())
