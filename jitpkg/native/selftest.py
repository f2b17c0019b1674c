"""Whether native code works here, tried once on real objects.

Entry points read the memory of Python's and torch's objects and call torch's C interface. Where
that is not as expected, Python passes data pointers instead; where that fails too, there is no
native code.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from jitpkg import forks, threads
from jitpkg.dataclass import dataclass
from jitpkg.errors import JitpkgError
from jitpkg.internals import tensors
from jitpkg.native import llvm, runtime, storages, symbols
from jitpkg.native.entry import Binding, entry_text
from jitpkg.native.functions import builtin
from jitpkg.native.pool import Pool
from jitpkg.native.refusals import explain
from jitpkg.native.signature import Output, Signature
from jitpkg.native.text import joined

Compile = Callable[[str], bytes]
"""Object code for IR text, as `compile_ir` makes it; it may come from a cache."""

_LOCK = forks.lock(waits=True)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the self-test found."""

    why_not: str | None
    """Why there is no native code."""
    binding: Binding
    why_pointers: str | None
    """Why native code does not read tensors itself."""
    runtime: llvm.Library | None
    pool: Pool | None = None
    """Where the memory of large results comes from, if it is not torch's own."""

    def imports(self) -> Mapping[str, int]:
        """Where everything is that native code may use."""
        return _imports(self.runtime)


class _Once:
    """What the self-test of this process found."""

    def __init__(self) -> None:
        self.found: Outcome | None = None
        self.compile_text: Compile = llvm.compile_ir


_OUTCOME = _Once()


def compile_by(compile_text: Compile) -> None:
    """Say what compiles the code that all functions share: a cache saves 10 ms for each part."""
    _OUTCOME.compile_text = compile_text


def compiled(text: str) -> bytes:
    """Object code for a part that all functions share.

    Raises:
        NativeError: LLVM is not there, or the text is not a valid module.
    """
    return _OUTCOME.compile_text(text)


def outcome() -> Outcome:
    """What the self-test found. It runs once."""
    with _LOCK:
        if _OUTCOME.found is None:
            _OUTCOME.found = _in_a_thread(_tested)
        return _OUTCOME.found


def started() -> Outcome | None:
    """What the self-test found, where somebody has asked."""
    with _LOCK:
        return _OUTCOME.found


def pool() -> Pool | None:
    """The pool, where native code has been started and has one."""
    found = started()
    return None if found is None else found.pool


def _in_a_thread(test: Callable[[], Outcome]) -> Outcome:
    """Run the self-test where none of torch's modes is on: they belong to threads."""
    found = [Outcome("the self-test did not end", "pointers", None, None)]

    def run() -> None:
        threads.begin()
        found[0] = test()

    thread = threading.Thread(target=run, name="jitpkg.native.selftest")
    try:
        thread.start()
    except RuntimeError as error:
        return Outcome(f"no thread for the self-test: {error}", "pointers", None, None)
    thread.join()
    return found[0]


def _tested() -> Outcome:
    try:
        llvm.llvm()
    except JitpkgError as error:
        return Outcome(str(error), "pointers", None, None)
    try:
        found = tried("tensors")
        pool = None if found is None or storages.layout() is None else Pool(found)
        return Outcome(None, "tensors", None, found, pool)
    except Exception as error:
        why = _words(error)
    try:
        tried("pointers")
    except Exception as error:
        return Outcome(f"the self-test failed: {_words(error)}", "pointers", why, None)
    return Outcome(None, "pointers", why, None)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, (JitpkgError, Wrong)) else repr(error)


class Wrong(Exception):
    """Something is not as native code needs it."""


def expect(what: str, found: object, wanted: object) -> None:
    """Compare what something is with what it has to be.

    Raises:
        Wrong: they differ.
    """
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, where {wanted!r} was expected")


KERNEL = """
declare i32 @PyGILState_Check()
define i32 @jitpkg_try_kernel(ptr %in, ptr %out, i64 %n) {
  %first = load float, ptr %in
  %twice = fadd float %first, %first
  store float %twice, ptr %out
  %held = call i32 @PyGILState_Check()
  %shown = sitofp i32 %held to float
  %second = getelementptr float, ptr %out, i64 1
  store float %shown, ptr %second
  %status = trunc i64 %n to i32
  ret i32 %status
}
"""
"""Doubles one element, and says whether it has the GIL; its status is its integer argument."""

SIGNATURE = Signature(
    inputs=1, integers=1, outputs=(Output(torch.float32, (1, 2), (2, 1)),), releases_gil=True
)


def tried(binding: Binding) -> llvm.Library | None:
    """Compile what entry points share, and an entry point, and try them.

    Raises:
        Wrong: something is not as expected.
    """
    texts = [entry_text("jitpkg_try", SIGNATURE, "jitpkg_try_kernel", binding), KERNEL]
    if binding == "tensors":
        _check_layout()
        texts.append(runtime.text(storages.layout()))
    library = llvm.link(compiled(joined(*texts)), _imports(None), needs=explain)
    _check_calls(builtin(library, "jitpkg_try", "jitpkg_try", ""))
    return library if binding == "tensors" else None


def _check_layout() -> None:
    """Look where native code will look."""
    expect("sys.implementation.name", sys.implementation.name, "cpython")
    expect("bytes of a plain object", object.__basicsize__, 16)
    tensor = torch.empty(3, device="cpu")
    type_at = ctypes.c_void_p.from_address(id(tensor) + 8).value
    expect("what is at 8 in a tensor", type_at, id(torch.Tensor))
    at = ctypes.c_void_p.from_address(id(tensor) + 16).value
    expect("what is at 16 in a tensor", at, tensors.ADDRESS.get()(tensor))


def _check_calls(function: Callable[..., Any]) -> None:
    given = torch.full((2,), 1.5, dtype=torch.float32, device="cpu")
    count = sys.getrefcount(given)
    result = function(given, 0)
    expect("type", type(result), torch.Tensor)
    expect("dtype", result.dtype, torch.float32)
    expect("device", result.device, torch.device("cpu"))
    expect("sizes", tuple(result.shape), (1, 2))
    expect("strides", result.stride(), (2, 1))
    expect("the elements 1.5 * 2, and 0 for a released GIL", result.tolist(), [[3.0, 0.0]])
    expect("the GIL is held again", ctypes.pythonapi.PyGILState_Check(), 1)
    expect("references to a result", sys.getrefcount(result), count)
    expect("references to an argument", sys.getrefcount(given), count)
    for wrong, kind in (((given, 1), IndexError), ((given,), TypeError), ((0, 0), TypeError)):
        try:
            function(*wrong)
        except kind:
            continue
        raise Wrong(f"no {kind.__name__}")
    expect("references after errors", sys.getrefcount(given), count)
    weak = weakref.ref(result)
    del result
    expect("a result that nobody has", weak(), None)


@cache
def _imports(shared: llvm.Library | None) -> Mapping[str, int]:
    found = {**symbols.addresses(), "jitpkg_explain": id(explain)}
    layout = storages.layout()
    if layout is not None:
        found["jitpkg_cpu_allocator"] = layout.cpu_allocator
    if shared is not None:
        found |= {name: shared.address(name) for name in runtime.EXPORTS}
    return found
