"""Which Python functions are not traced: marked ones, and libraries whose work is not tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, MappingProxyType
from typing import Any

from jitpkg.dataclass import dataclass
from jitpkg.errors import Reason
from jitpkg.internals import library, modules
from jitpkg.marks import DISABLED, mark_of
from jitpkg.tracer import reasons
from jitpkg.tracer.polyfills import attention, optimizers, torch_functions

SKIPPED = frozenset(
    """
    _pytest ast asyncio builtins codecs concurrent copyreg ctypes datetime decimal dis email
    encodings gc hashlib html http importlib io json linecache locale logging
    multiprocessing numpy optparse pandas pdb pickle pkgutil platform pprint py_compile pytest queue
    random re runpy scipy select selectors shelve shutil signal site sklearn socket sqlite3
    ssl subprocess sympy sysconfig tempfile threading time timeit tokenize traceback tracemalloc
    triton unittest urllib uuid warnings weakref xml zipfile
    """.split()
)
"""Top-level packages that are called for real."""

SKIPPED_PARTS = (
    *library.NEVER_TRACED,
    "torch.fx",
    "torch.jit",
    "torch.distributed",
    "torch.export",
    "torch.onnx",
    *library.DECIDING_OPTIMIZERS,
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.profiler",
    "torch.serialization",
    "torch.testing",
    "torch.utils.data",
    "torch.autograd.graph",
    "torch.library",
    "torch.overrides",
    "torch.package",
)
"""Parts of torch that are called for real."""

TRACED = frozenset(
    {
        *(
            f"logging.{prefix}{name}"
            for prefix in ("", "Logger.", "LoggerAdapter.")
            for name in """
                debug info warning warn error exception critical fatal log isEnabledFor process
                """.split()
        ),
        "torch.jit.annotate",
        *library.TRACED_TRANSFORMS,
        *library.FUNCTION_MODES,
        library.CUSTOM_OP_CALL,
    }
)
"""Functions that are traced though their module is not."""

COMPILING = frozenset({"torch.compile", "torch.nn.modules.module.Module.compile"})
"""Functions that hand others to torch's own compiler."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A function of a library that calls another one, and does something for that library."""

    cell: str
    """Its free variable with what it calls."""
    polyfill: Callable[..., Any] | None = None
    """What is traced in its place, given what it calls and the arguments; if none, the call."""


WRAPPERS: Mapping[str, Wrapper] = MappingProxyType(
    {
        # Once torch's compiler has been used, `nn.Module.__init__` notes which modules are new.
        library.PATCHED_INIT: Wrapper("init"),
        library.PATCHED_SETSTATE: Wrapper("setstate"),
        library.GRAD_OF_STEPS: Wrapper("func", optimizers.with_grad),
    }
)
"""Those of torch's own, by the names of their code: they may be called like what they wrap."""

STANDING_IN: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "torch.nn.attention.flex_attention.flex_attention": attention.flex_attention,
        library.ANNOTATE: attention.annotate,
        "torch.onnx.is_in_onnx_export": torch_functions.is_in_onnx_export,
    }
)
"""What is traced in place of functions of torch's own, by their names: those that hand their work
to torch's compiler, or are of a part of torch that is seldom loaded."""

OWN = "jitpkg.tracer.polyfills"

_FRAMES = frozenset({"currentframe", "stack", "trace"})


def is_own(function: FunctionType) -> bool:
    """Whether a function is a polyfill, whose globals never change."""
    return function.__module__.startswith(OWN) if function.__module__ else False


def wrapper(function: FunctionType) -> Wrapper | None:
    """What is known of a function that wraps another one."""
    name = _code_name(function)
    if name in library.HIDDEN and (function.__module__ or "").startswith(library.OPTIMIZERS):
        return Wrapper("fn")
    return WRAPPERS.get(name)


def standing_in(function: FunctionType) -> Callable[..., Any] | None:
    """What is traced in place of a function of torch's own; None where that itself is."""
    if not (function.__module__ or "").startswith("torch."):
        return None
    return STANDING_IN.get(f"{function.__module__}.{function.__qualname__}")


def _code_name(function: FunctionType) -> str:
    return f"{function.__globals__.get('__name__')}.{function.__code__.co_qualname}"


def refusal(function: FunctionType) -> tuple[Reason, str] | None:
    """Why a function is not traced, or None where it is."""
    name = f"{function.__module__}.{function.__qualname__}"
    if mark := function.__dict__.get(DISABLED) or library.disabled(function):
        return reasons.DISABLED, f"{name} ({mark})" if isinstance(mark, str) else name
    if mark_of(function) is not None:  # nothing of it is traced
        return reasons.DISABLED, name
    module = function.__module__ or ""
    if module == "torch.random":
        return reasons.RANDOM_STATE, name
    if module == "inspect" and function.__name__ in _FRAMES:
        return reasons.FRAMES, name
    if name in TRACED:
        return None
    if module.partition(".")[0] in SKIPPED or _is_in(module, SKIPPED_PARTS) or name in COMPILING:
        return reasons.LIBRARY, name
    if _is_of_dynamo(function):
        return reasons.LIBRARY, f"{name}, compiled by torch.compile"
    if module == "jitpkg" or (module.startswith("jitpkg.") and not module.startswith(OWN)):
        return reasons.LIBRARY, name
    return None


def _is_of_dynamo(function: FunctionType) -> bool:
    """Whether it calls what Dynamo has compiled: it has the name and module of the original."""
    at = function.__globals__.get("__name__")
    return isinstance(at, str) and _is_in(at, (library.COMPILER,))


def _is_in(module: str, parts: tuple[str, ...]) -> bool:
    return any(module == part or module.startswith(f"{part}.") for part in parts)


def looks_past_its_caller(code: CodeType) -> bool:
    """Whether code that uses the names of frames needs no frame of its own for that.

    A module's call warns about hooks that failed and are passed over: when it has called one.
    """
    call = modules.CALL.found()
    return call is not None and code is call.__code__


def is_library(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return "site-packages" in file or file.startswith(sys.base_prefix)
