"""IR text to object code to addresses: what is refused, and how long code lives."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch

from jitpkg import native
from jitpkg.errors import BackendError, InvalidArgument, NativeError
from jitpkg.native import Signature, llvm
from tests.native.support import STATUS, built, needs_llvm, summing, vector

ROOT = Path(__file__).parents[2]
SEVEN = "define i32 @seven() {\n  ret i32 7\n}\n"


def called(library: native.Library, symbol: str) -> int:
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(library.address(symbol))())


@needs_llvm
def test_native_code_can_be_had_here() -> None:
    assert native.why_not() is None
    assert native.binding() == "tensors"


@needs_llvm
def test_object_code_is_the_same_each_time_and_can_be_loaded_often() -> None:
    code = native.compile_ir(SEVEN)
    assert native.compile_ir(SEVEN) == code
    libraries = [native.load(code) for _ in range(3)]
    assert [called(library, "seven") for library in libraries] == [7, 7, 7]
    assert len({library.address("seven") for library in libraries}) == 3


@needs_llvm
def test_text_that_llvm_cannot_read_is_shown() -> None:
    lines = ["; first", "define i32 @f() {", "  %a = add i32 1, nonsense", "  ret i32 %a", "}"]
    with pytest.raises(NativeError, match="cannot read") as raised:
        native.compile_ir("\n".join(lines))
    assert isinstance(raised.value, BackendError)
    assert ">    3   %a = add i32 1, nonsense" in str(raised.value)
    assert "     2 define i32 @f() {" in str(raised.value)


@needs_llvm
def test_text_that_is_not_valid_is_shown() -> None:
    text = """define i32 @f(i1 %c) {
  br i1 %c, label %a, label %b
a:
  %x = add i32 1, 2
  br label %b
b:
  ret i32 %x
}"""
    with pytest.raises(NativeError, match="cannot verify") as raised:
        native.compile_ir(text)
    assert ">" in str(raised.value) and "%x = add i32 1, 2" in str(raised.value)


@needs_llvm
def test_a_kernel_must_fit_the_signature() -> None:
    for signature in (Signature(1, 1), Signature(0, 2), Signature(0)):
        with pytest.raises(NativeError, match=r"'kernel' is i32 \(i64\), and is called as"):
            built(STATUS, signature)
    with pytest.raises(NativeError, match="undefined value '@kernel'"):
        native.compile_ir(native.entry_point("f", Signature(1)))


@needs_llvm
def test_nothing_is_code_too() -> None:
    native.load(native.compile_ir(""))


@needs_llvm
@pytest.mark.parametrize("code", [b"", b"no object", b"\x7fELF" + b"\0" * 100], ids=repr)
def test_what_is_no_object_code_is_refused(code: bytes) -> None:
    with pytest.raises(NativeError, match="cannot link"):
        native.load(code)


@needs_llvm
def test_object_code_that_is_cut_short_is_refused() -> None:
    code = native.compile_ir(SEVEN)
    for length in range(0, len(code) - 1, 101):
        with pytest.raises(NativeError, match="cannot link"):
            native.load(code[:length])


@needs_llvm
def test_a_missing_symbol_is_an_error_and_not_the_end() -> None:
    code = native.compile_ir(
        "declare i32 @no_such_function()\n"
        "define i32 @f() {\n  %a = call i32 @no_such_function()\n  ret i32 %a\n}"
    )
    with pytest.raises(NativeError, match="cannot link"):
        native.load(code)
    library = native.load(native.compile_ir(SEVEN))
    with pytest.raises(NativeError, match="does not define 'eight'"):
        library.address("eight")
    assert library.find("eight") is None
    assert called(library, "seven") == 7


@needs_llvm
def test_symbols_are_known() -> None:
    assert native.has("torch_parallel_for") and native.has("memcpy")
    assert not native.has("no_such_function")
    assert not native.has("printf")


@needs_llvm
def test_texts_are_joined() -> None:
    one = "declare i32 @seven()\n@shared = external global i8\n"
    two = one + 'define i32 @"f"() {\n  %a = call i32 @seven()\n  ret i32 %a\n}\n'
    joined = native.joined(one, two, SEVEN)
    assert joined.count("external global") == 1 and joined.count("declare") == 0
    assert called(native.load(native.compile_ir(joined)), "f") == 7


@needs_llvm
def test_the_machine_is_described() -> None:
    features = native.host_features()
    assert native.simd_width_bytes() in (16, 32, 64)
    assert (native.simd_width_bytes() == 64) == bool(features.get("avx512f"))
    assert native.host_cpu() in native.target()
    assert "llvmlite" in native.target() and native.target().isprintable()


@needs_llvm
def test_names_that_are_no_symbols_are_refused() -> None:
    for name in ("", "a b", 'a"b', "a\\b", "ä"):
        with pytest.raises(InvalidArgument):
            native.entry_point(name, Signature(1))
    function = built(STATUS, Signature(0, 1), name="model.forward#0.kernel1")
    assert function(0) is None and function.__name__ == "model.forward#0.kernel1"


@needs_llvm
def test_code_lives_as_long_as_its_function() -> None:
    text = native.joined(STATUS, native.entry_point("f", Signature(0, 1)))
    library = native.load(native.compile_ir(text))
    alive = weakref.ref(library)
    functions = [native.builtin(library, "f", "f", "words") for _ in range(2)]
    assert functions[0].__doc__ == "words" and functions[0].__name__ == "f"
    del library
    gc.collect()
    assert alive() is not None
    functions.pop()
    assert functions[0](0) is None
    function = weakref.ref(functions.pop())
    assert function() is None and alive() is None


@needs_llvm
def test_a_function_in_a_cycle_is_collected() -> None:
    text = native.joined(STATUS, native.entry_point("f", Signature(0, 1)))
    code = native.compile_ir(text)

    class Holder:
        pass

    for _ in range(200):
        library = native.load(code)
        holder = Holder()
        holder.function = native.builtin(library, "f", "f", "")  # type: ignore[attr-defined]
        holder.holder = holder  # type: ignore[attr-defined]
        alive = weakref.ref(library), weakref.ref(holder.function)  # type: ignore[attr-defined]
        del library, holder
        gc.collect(0)
        assert [ref() for ref in alive] == [None, None]


@needs_llvm
def test_many_libraries_live_side_by_side() -> None:
    count = 2 * llvm.LINKED_TOGETHER + 3
    texts = [f"define i32 @f() {{\n  ret i32 {k}\n}}" for k in range(count)]
    libraries = [native.load(native.compile_ir(text)) for text in texts]
    assert [called(library, "f") for library in libraries] == list(range(count))
    del libraries[::2]
    gc.collect()
    assert [called(library, "f") for library in libraries] == list(range(1, count, 2))


WITHOUT = """
import sys
sys.modules["llvmlite"] = None
import jitpkg, torch
from jitpkg import native
from jitpkg.errors import NativeError
print(native.why_not())
print(native.has("memcpy"))
compiling, loading = lambda: native.compile_ir(""), lambda: native.load(b"")
for call in (native.target, native.host_cpu, compiling, loading):
    try:
        call()
    except NativeError as error:
        print(type(error).__name__, "llvmlite" in str(error))
print(native.entry_point("f", native.Signature(1)).count("define"))
"""


def test_without_llvmlite_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    first, *others = done.stdout.splitlines()
    assert first.startswith("llvmlite cannot be imported") and "jitpkg[cpu]" in first
    assert others == ["True", *["NativeError True"] * 4, "1"]


@needs_llvm
def test_a_kernel_adds() -> None:
    function = built(summing(2), Signature(2, 1, (vector("i0"),)))
    assert torch.equal(function(torch.ones(3), torch.ones(3), 3), torch.full((3,), 2.0))
