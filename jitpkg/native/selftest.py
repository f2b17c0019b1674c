"""Whether native code works here, tried once on real objects.

Entry points read the memory of Python's and torch's objects and call torch's C interface. Where
that is not as expected, Python passes data pointers instead; where that fails too, there is no
native code.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from jitpkg.errors import JitpkgError
from jitpkg.native import llvm, runtime, symbols
from jitpkg.native.entry import Binding, entry_text
from jitpkg.native.functions import builtin
from jitpkg.native.signature import Failure, Output, Signature
from jitpkg.native.text import joined

_LOCK = threading.RLock()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the self-test found."""

    why_not: str | None
    """Why there is no native code."""
    binding: Binding
    why_pointers: str | None
    """Why native code does not read tensors itself."""
    runtime: llvm.Library | None

    def imports(self) -> Mapping[str, int]:
        """Where everything is that native code may use."""
        return _imports(self.runtime)


def outcome() -> Outcome:
    """What the self-test found; it runs once."""
    with _LOCK:
        return _outcome()


@cache
def _outcome() -> Outcome:
    try:
        llvm.llvm()
    except JitpkgError as error:
        return Outcome(str(error), "pointers", None, None)
    try:
        return Outcome(None, "tensors", None, _tried("tensors"))
    except Exception as error:
        why = _words(error)
    try:
        _tried("pointers")
    except Exception as error:
        return Outcome(f"the self-test failed: {_words(error)}", "pointers", why, None)
    return Outcome(None, "pointers", why, None)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, (JitpkgError, Wrong)) else repr(error)


class Wrong(Exception):
    """Something is not as native code needs it."""


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, where {wanted!r} was expected")


KERNEL = """
define i32 @jitpkg_try_kernel(ptr %in, ptr %out, ptr %scratch, i64 %n) {
  %first = load float, ptr %in
  store float %first, ptr %scratch
  %again = load float, ptr %scratch
  %twice = fadd float %again, %again
  store float %twice, ptr %out
  %status = trunc i64 %n to i32
  ret i32 %status
}
"""
"""Doubles one element; its status is its integer argument."""

SIGNATURE = Signature(
    inputs=1,
    integers=1,
    outputs=(Output(torch.float32, (1, "i0 + 1"), ("i0 + 3", 1)),),
    scratch=(64,),
    releases_gil=True,
    failures=(Failure("IndexError", "tried"),),
)


def _tried(binding: Binding) -> llvm.Library | None:
    """Compile what entry points share, and an entry point, and try them.

    Raises:
        Wrong: something is not as expected.
    """
    texts = [entry_text("jitpkg_try", SIGNATURE, "jitpkg_try_kernel", binding), KERNEL]
    if binding == "tensors":
        _check_layout()
        texts.append(runtime.text())
    library = llvm.link(llvm.compile_ir(joined(*texts)), symbols.addresses())
    _check_calls(builtin(library, "jitpkg_try", "jitpkg_try", ""), binding)
    return library if binding == "tensors" else None


def _check_layout() -> None:
    """Look where native code will look."""
    _expect("sys.implementation.name", sys.implementation.name, "cpython")
    _expect("bytes of a plain object", object.__basicsize__, 16)
    tensor = torch.empty(3)
    type_at = ctypes.c_void_p.from_address(id(tensor) + 8).value
    _expect("what is at 8 in a tensor", type_at, id(torch.Tensor))
    at = ctypes.c_void_p.from_address(id(tensor) + 16).value
    _expect("what is at 16 in a tensor", at, tensor._cdata)


def _check_calls(function: Callable[..., Any], binding: Binding) -> None:
    given = torch.full((2,), 1.5)
    count = sys.getrefcount(given)
    result = function(given, 0)
    _expect("type", type(result), torch.Tensor)
    _expect("value", result.item(), 3.0)
    _expect("dtype", result.dtype, torch.float32)
    _expect("device", result.device, torch.device("cpu"))
    _expect("sizes", tuple(result.shape), (1, 1))
    _expect("strides", result.stride(), (3, 1))
    _expect("references to a result", sys.getrefcount(result), 2)
    _expect("references to an argument", sys.getrefcount(given), count)
    for wrong, kind in (((given, 1), IndexError), ((given,), TypeError), ((0, 0), TypeError)):
        try:
            function(*wrong)
        except kind:
            continue
        raise Wrong(f"no {kind.__name__}")
    _expect("references after errors", sys.getrefcount(given), count)


@cache
def _imports(shared: llvm.Library | None) -> Mapping[str, int]:
    found = dict(symbols.addresses())
    if shared is not None:
        found |= {name: shared.address(name) for name in runtime.EXPORTS}
    return found
