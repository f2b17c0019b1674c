"""What modules of public libraries do, and what was a break or wrong."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.onnx

import jitpkg

NAMES = {"x", "yy", "zzz"}


def sets_in_texts(x: torch.Tensor) -> Any:
    made = {len(x), 7}
    return x + 1, f"{made} {set()} {frozenset({'a'})} {frozenset()} {NAMES!r}", str([{1}])


def modules_by_name(x: torch.Tensor) -> Any:
    functional = importlib.import_module("torch.nn.functional")
    return functional.relu(x * importlib.import_module("math").pi)


def modules_by_the_builtin(x: torch.Tensor) -> Any:
    package = __import__("torch.nn.functional")
    inner = __import__("torch.nn.functional", None, None, ["relu"])
    return package.sin(x) + inner.relu(x) * __import__("math").pi


def export_asked(x: torch.Tensor) -> Any:
    return x * 2 if torch.onnx.is_in_onnx_export() else x + 1


def transforms_asked(x: torch.Tensor) -> Any:
    def f(row: torch.Tensor) -> torch.Tensor:
        return row * 2 if torch._C._are_functorch_transforms_active() else row + 1

    return f(x), torch.func.vmap(f)(x), f(x)


def asserted(x: torch.Tensor) -> Any:
    torch._assert_async((x > -9).all())
    torch._assert_async(x.sum() < 1e9, "too much")
    return x * 2


@pytest.mark.parametrize(
    "f",
    [
        *(sets_in_texts, modules_by_name, modules_by_the_builtin),
        *(export_asked, transforms_asked, asserted),
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_in_the_graph(f: Callable[[torch.Tensor], Any], grad: bool) -> None:
    x = torch.rand(2, 3, requires_grad=grad)
    compiled = jitpkg.compile(f, fullgraph=True)
    for _ in range(3):
        assert repr(compiled(x)) == repr(f(x))


def test_an_assertion_that_fails() -> None:
    def f(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
        seen.append(1)
        torch._assert_async((x > 0).all(), "not positive")
        seen.append(2)
        return x + 1

    compiled = jitpkg.compile(f)
    for value in (1.0, 1.0, -1.0, 1.0):
        ours: list[int] = []
        theirs: list[int] = []
        x = torch.full((2,), value)
        if value > 0:
            assert torch.equal(compiled(x, ours), f(x, theirs))
        else:
            with pytest.raises(RuntimeError, match="not positive"):
                f(x, theirs)
            with pytest.raises(RuntimeError, match="not positive"):
                compiled(x, ours)
        assert ours == theirs


def test_an_export_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jitpkg.compile(export_asked, fullgraph=True)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x + 1)
    flags = importlib.import_module("torch.onnx._internal.exporter._flags")
    monkeypatch.setattr(flags, "_is_onnx_exporting", True)
    assert torch.equal(compiled(x), export_asked(x)) and torch.equal(export_asked(x), x * 2)


def test_a_module_that_is_not_loaded_or_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "jitpkg_test_module"
    monkeypatch.delitem(sys.modules, name, raising=False)

    def f(x: torch.Tensor) -> Any:
        try:
            return x + importlib.import_module(name).number
        except ImportError:
            return x - 1

    compiled = jitpkg.compile(f)
    x = torch.ones(2)
    assert torch.equal(compiled(x), x - 1)
    for number in (2, 5):
        module = ModuleType(name)
        module.number = number  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
        assert torch.equal(compiled(x), x + number)


def test_an_attention_that_is_trained() -> None:
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.rand(2, 4, 8)
    for training in (True, False):
        attention.train(training)

        def f(x: torch.Tensor) -> Any:
            return attention(x, x, x, need_weights=False)[0]

        assert torch.equal(jitpkg.compile(f, fullgraph=True)(x), f(x))
