"""From LLVM IR text to a CPython builtin that takes tensors.

    signature = native.Signature(inputs=2, outputs=(native.Output(torch.float32, (4,), (1,)),))
    text = native.joined(kernel, native.entry_point("add", signature))
    add = native.builtin(native.load(native.compile_ir(text)), "add", "add", "a + b")

Without llvmlite nothing here works, and `why_not()` says so.
"""

from __future__ import annotations

from jitpkg.errors import NativeError
from jitpkg.native import llvm, selftest
from jitpkg.native.entry import Binding, entry_text
from jitpkg.native.extents import Extent
from jitpkg.native.functions import builtin
from jitpkg.native.llvm import Library, compile_ir
from jitpkg.native.pool import Pool
from jitpkg.native.row import ANY, UNKNOWN
from jitpkg.native.selftest import compile_by, pool
from jitpkg.native.signature import FAILURES, Failure, Output, Signature
from jitpkg.native.states import Part
from jitpkg.native.symbols import has
from jitpkg.native.tables import CODES, Evaluator, version_word
from jitpkg.native.text import joined
from jitpkg.native.trials import evaluator

__all__ = [
    "ANY",
    "CODES",
    "FAILURES",
    "UNKNOWN",
    "Binding",
    "Evaluator",
    "Extent",
    "Failure",
    "Library",
    "Output",
    "Part",
    "Pool",
    "Signature",
    "binding",
    "builtin",
    "compile_by",
    "compile_ir",
    "entry_point",
    "evaluator",
    "has",
    "host_cpu",
    "host_features",
    "joined",
    "load",
    "pool",
    "simd_width_bytes",
    "start",
    "target",
    "version_word",
    "why_not",
]


def why_not() -> str | None:
    """Why native code cannot be had here; None where it can."""
    return selftest.outcome().why_not


def start() -> str | None:
    """`why_not`; if nobody has asked yet, what all functions share is compiled."""
    return selftest.outcome().why_not


def binding() -> Binding:
    """How native code gets tensors here."""
    return selftest.outcome().binding


def entry_point(
    name: str, signature: Signature, kernel: str = "kernel", *, binding: Binding | None = None
) -> str:
    """The IR of the function that Python calls, for the module that defines its kernel.

    Raises:
        InvalidArgument: a name cannot be a symbol, or torch's C interface lacks a dtype.
    """
    return entry_text(name, signature, kernel, binding or selftest.outcome().binding)


def load(object_code: bytes) -> Library:
    """Put object code into memory.

    Raises:
        NativeError: native code cannot be had, this is no object code, or it needs a symbol that
            this process lacks.
    """
    found = selftest.outcome()
    if found.why_not is not None:
        raise NativeError(found.why_not)
    return llvm.link(object_code, found.imports(), needs=found)


def target() -> str:
    """All that object code depends on, besides its text."""
    return llvm.llvm().target


def host_cpu() -> str:
    """LLVM's name for the processor."""
    return llvm.llvm().cpu


def host_features() -> dict[str, bool]:
    """LLVM's names for what the processor can do, and whether this one can."""
    return dict(llvm.llvm().features)


def simd_width_bytes() -> int:
    """The widest vector that the processor works on at once."""
    features = llvm.llvm().features
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx2") else 16
