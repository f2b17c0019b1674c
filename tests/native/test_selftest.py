"""The self-test: what it decides where something is not as native code needs it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import jitpkg
from jitpkg import native
from jitpkg.native import llvm, runtime, selftest, symbols
from jitpkg.native.symbols import SYMBOLS
from tests.native.support import needs_llvm

pytestmark = needs_llvm


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if nobody had asked yet."""
    selftest._imports.cache_clear()
    monkeypatch.setattr(selftest, "_OUTCOME", selftest._Once())
    yield
    selftest._imports.cache_clear()


class Everything(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        raise AssertionError("the self-test is not the program's")


@pytest.mark.usefixtures("fresh")
def test_the_modes_of_who_asks_do_not_matter() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.inference_mode(), Everything():
            assert native.why_not() is None
            assert native.binding() == "tensors", selftest.outcome().why_pointers
    finally:
        torch.set_default_dtype(before)


@pytest.mark.usefixtures("fresh")
def test_what_it_calls_may_have_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may have compiled `string.Template`; 20 values are a table, which asks for us."""
    values = SimpleNamespace(**{f"v{k}": k for k in range(20)})
    body = " + ".join(f"values.v{k}" for k in range(20))
    namespace = {"values": values, "text": runtime.text}
    exec(f"def hooked(layout):\n    if {body}:\n        return text(layout)", namespace)
    monkeypatch.setattr(runtime, "text", jitpkg.jit(namespace["hooked"], backend="eager"))
    assert native.why_not() is None
    assert native.binding() == "tensors", selftest.outcome().why_pointers


@pytest.mark.usefixtures("fresh")
def test_another_layout_of_tensors_means_pointers(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise selftest.Wrong("the layout")

    monkeypatch.setattr(selftest, "_check_layout", wrong)
    assert native.why_not() is None
    assert native.binding() == "pointers"
    assert selftest.outcome().why_pointers == "the layout"


def test_what_lies_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "id", lambda thing: id(thing) + 8, raising=False)
    with pytest.raises(selftest.Wrong, match="what is at 8 in a tensor"):
        selftest._check_layout()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("lacking", ["THPVariable_Wrap", "aoti_torch_empty_strided"])
def test_a_symbol_that_torch_lacks_means_pointers(
    lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {name: at for name, at in symbols.addresses().items() if name != lacking}
    monkeypatch.setattr(symbols, "addresses", lambda: there)
    selftest._imports.cache_clear()
    assert not native.has(lacking)
    assert native.why_not() is None
    assert native.binding() == "pointers"
    assert lacking in str(selftest.outcome().why_pointers)


@pytest.mark.usefixtures("fresh")
def test_wrong_results_mean_no_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "KERNEL", selftest.KERNEL.replace("fadd", "fmul"))
    assert "the elements 1.5 * 2" in str(native.why_not())
    with pytest.raises(native.NativeError, match="self-test failed"):
        native.load(llvm.compile_ir(""))


@pytest.mark.usefixtures("fresh")
def test_what_all_share_can_come_from_a_cache() -> None:
    seen: list[str] = []

    def compile_text(text: str) -> bytes:
        seen.append(text)
        return llvm.compile_ir(text)

    native.compile_by(compile_text)
    assert native.start() is None
    assert native.start() is None
    assert len(seen) == 1


@pytest.mark.usefixtures("fresh")
def test_nothing_that_fails_escapes() -> None:
    def compile_text(text: str) -> bytes:
        raise OSError("the disk is full")

    native.compile_by(compile_text)
    assert "the disk is full" in str(native.start())


def test_every_symbol_is_here_and_has_a_reason() -> None:
    assert [symbol.name for symbol in SYMBOLS if not native.has(symbol.name)] == []
    assert all(symbol.why for symbol in SYMBOLS)
    assert len({symbol.name for symbol in SYMBOLS}) == len(SYMBOLS)


def test_an_old_llvmlite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite  # noqa: PLC0415

    monkeypatch.setattr(llvmlite, "__version__", "0.44.1")
    assert llvm._started.__wrapped__() == "llvmlite 0.44.1 is too old: 0.45 is needed"
