"""What native code can call: one table, with the reason for each."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals.build import EXTENSION

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
    Symbol("fmod", "process", "LLVM makes calls of it from `frem`"),
    Symbol("fmodf", "process", "LLVM makes calls of it from `frem`"),
    Symbol("aoti_torch_get_data_ptr", "torch", "where a tensor's elements are"),
    Symbol("aoti_torch_get_numel", "torch", "whether a tensor may be without memory"),
    Symbol("aoti_torch_empty_strided", "torch", "memory for results"),
    Symbol("aoti_torch_delete_tensor_object", "torch", "lets go of what the former made"),
    Symbol("torch_from_blob", "torch", "results in memory of ours, which it gives back"),
    Symbol("malloc", "process", "that memory"),
    Symbol("free", "process", "that memory"),
    Symbol(
        "THPVariable_Wrap",
        "torch",
        "the Python object of a result",
        ("_Z16THPVariable_WrapRKN2at10TensorBaseE",),
    ),
    Symbol("PyErr_Occurred", "python", "errors"),
    Symbol("PyErr_SetObject", "python", "errors"),
    Symbol("PyEval_RestoreThread", "python", "takes the GIL again"),
    Symbol("PyEval_SaveThread", "python", "releases the GIL"),
    Symbol("PyGILState_Check", "python", "the self-test asks whether the GIL was released"),
    Symbol("PyLong_AsLongLong", "python", "integer arguments"),
    Symbol("PyMem_RawFree", "python", "scratch memory"),
    Symbol("PyMem_RawMalloc", "python", "scratch memory, seen by tracemalloc"),
    Symbol("PyObject_CallFunction", "python", "errors, which Python makes"),
    Symbol("PyTuple_New", "python", "several results"),
    Symbol("PyTuple_SetItem", "python", "several results"),
    Symbol("Py_DecRef", "python", "drops results when the last one fails"),
    Symbol("Py_IncRef", "python", "None, before it became immortal"),
    Symbol("_Py_NoneStruct", "python", "no result"),
    *(
        Symbol(name, "python", "tables of tests")
        for name in (
            *("PyDict_Contains", "PyDict_GetItemWithError", "PyDict_Next", "PyErr_NoMemory"),
            *("PyObject_CallFunctionObjArgs", "PyObject_CallNoArgs", "PyObject_CallOneArg"),
            *("PyObject_GenericGetDict", "PyObject_GetAttr"),
            *("PyObject_GetItem", "PyObject_IsTrue", "PyObject_RichCompareBool"),
            *("PySequence_Contains", "_Py_Dealloc", "_Py_TrueStruct"),
            *("PyBytes_Type", "PyDict_Type", "PyFunction_Type", "PyLong_Type", "PyUnicode_Type"),
        )
    ),
    *(
        Symbol(f"aoti_torch_get_{name}", "torch", "tables of tests compare tensors")
        for name in ("dim", "sizes", "strides", "dtype", "device_type", "device_index")
    ),
    Symbol(
        "jitpkg_requires_grad",
        "torch",
        "tables of tests compare tensors",
        ("_ZNK3c1010TensorImpl13requires_gradEv",),
    ),
    *(
        Symbol(f"jitpkg_{name}", "torch", "tables of tests compare the state", (spelling,))
        for name, spelling in (
            ("grad_mode", "_ZN3c108GradMode10is_enabledEv"),
            ("autocast_enabled", "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE"),
            ("autocast_dtype", "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"),
            ("autocast_cache", "_ZN2at8autocast25is_autocast_cache_enabledEv"),
            ("functions_disabled", "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv"),
            ("function_modes", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
            ("saved_hooks", "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv"),
            ("context", "_ZN2at13globalContextEv"),
            ("deterministic", "_ZNK2at7Context23deterministicAlgorithmsEv"),
            ("deterministic_warns", "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv"),
            ("num_threads", "_ZN2at15get_num_threadsEv"),
            ("default_dtype", "_ZN3c1031get_default_dtype_as_scalartypeEv"),
        )
    ),
    Symbol("pthread_mutex_trylock", "process", "masks are drawn while a generator is locked"),
    Symbol("pthread_mutex_unlock", "process", "masks are drawn while a generator is locked"),
    Symbol("__tls_get_addr", "process", "tables of tests compare the thread's dispatch keys"),
)

_SLEEF_FUNCTIONS = (
    *("exp_u10", "exp2_u10", "expm1_u10", "log_u10", "log2_u10", "log10_u10", "log1p_u10"),
    *("sin_u10", "cos_u10", "tan_u10", "asin_u10", "acos_u10", "atan_u10", "atan2_u10"),
    *("sinh_u10", "cosh_u10", "tanh_u10", "asinh_u10", "acosh_u10", "atanh_u10"),
    *("erf_u10", "erfc_u15", "pow_u10", "hypot_u05", "fmod"),
)

SLEEF = tuple(
    Symbol(f"Sleef_{name.replace('_', f'{lanes}_') if '_' in name else name + lanes}", "torch", why)
    for name in _SLEEF_FUNCTIONS
    for lanes in ("f4", "f8", "f16", "d2", "d4", "d8")
    for why in ("functions of vectors",)
)
"""Those of the Sleef library, which is a part of torch's. A machine has those of its vectors."""

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
    for symbol in (*SYMBOLS, *SLEEF):
        address = _address(symbol)
        if address is not None:
            found[symbol.name] = address
    return MappingProxyType(found)


def _address(symbol: Symbol) -> int | None:
    for name in symbol.spellings or (symbol.name,):
        function = _function(symbol.home, name)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


def _function(home: Home, name: str) -> Any:
    return next((getattr(lib, name) for lib in _libraries(home) if hasattr(lib, name)), None)


def torch_folder() -> Path:
    """Where the libraries of torch lie."""
    return Path(torch.__file__).parent / "lib"


@cache
def _libraries(home: Home) -> tuple[ctypes.CDLL, ...]:
    match home:
        case "python":
            return (ctypes.pythonapi,)
        case "torch":
            # The extension module first: where possible, what it depends on is searched too.
            folder = torch_folder()
            others = [*folder.glob("*torch_cpu.*"), *folder.glob("*torch_python.*")]
            return _opened([EXTENSION.found(), *map(str, others)])
        case "process":
            return _opened([None if os.name == "posix" else "msvcrt"])


def _opened(paths: Iterable[str | None]) -> tuple[ctypes.CDLL, ...]:
    found = []
    for path in paths:
        with suppress(OSError):
            found.append(ctypes.CDLL(path))
    return tuple(found)


@cache
def dtype_code(dtype: torch.dtype) -> int | None:
    """The number of a dtype in torch's C interface, where it has one."""
    tell = _function("torch", f"aoti_torch_dtype_{str(dtype).removeprefix('torch.')}")
    return None if tell is None else int(tell())


def last_error() -> str | None:
    """What torch's C interface refused last in this thread, where it tells: from 2.13."""
    tell = _function("torch", "torch_exception_get_what_without_backtrace")
    if tell is None:
        return None
    tell.restype = ctypes.c_char_p
    told: bytes | None = tell()
    return told.decode(errors="replace") if told else None
