"""What is seen of compiling to kernels: names, ops, bytes, times, a line on a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend as own
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.kernels import progress
from jitpkg.codegen.kernels.reference import Interpreted
from jitpkg.errors import JitpkgWarning, NativeError

ROWS, COLUMNS = 16, 1024
BYTES = 4 * ROWS * COLUMNS


def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x.sort(-1).values.cos() + x).softmax(-1)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, COLUMNS) / 32


def test_explained() -> None:
    explained = jitpkg.explain(block, backend="jitpkg")(*inputs())
    (kernel,) = explained.kernels
    assert kernel == events.Kernel("cos_add_softmax", ("cos", "add", "softmax"), 3 * BYTES)
    assert explained.calls == ["sort"]
    assert list(explained.backend_times) == ["preparing", "lowering", "fusion", "kernels"]
    assert sum(explained.backend_times.values()) <= explained.compile_times["backend"]
    text = str(explained)
    assert "\n  cos_add_softmax  cos, add, softmax; moves 192 KiB\n" in text
    assert "\n  and 1 call of ATen: sort\n" in text


def test_equal_kernels_are_counted() -> None:
    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return block(block(x, w), w)

    text = str(jitpkg.explain(twice, backend="jitpkg")(*inputs()))
    assert "\n  cos_add_softmax x 2  cos, add, softmax; moves 192 KiB\n" in text
    assert "\n  and 2 calls of ATen: sort x 2\n" in text


def test_what_is_expanded_is_moved_once() -> None:
    def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w

    explained = jitpkg.explain(scaled, backend="jitpkg")
    row = torch.randn(COLUMNS).expand(ROWS, COLUMNS)
    (kernel,) = explained(torch.randn(ROWS, COLUMNS), row).kernels
    assert kernel.bytes == 2 * BYTES + 4 * COLUMNS


class _WithoutSoftmax(Interpreted):
    """Cannot make kernels of one kind."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def make(self, normal: Normal, builder: Builder, given: int) -> Callable[..., Any]:
        if "softmax" in normal.kernel.ops:
            self.refused.append(normal.kernel.name)
            raise NativeError("too many registers")
        return super().make(normal, builder, given)


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> _WithoutSoftmax:
    made = _WithoutSoftmax()
    monkeypatch.setattr(own, "_maker", lambda *_: (made, ""))
    return made


def with_two_kernels(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return ((x.exp() * 2).softmax(-1) @ w).sin() + 1


def test_a_kernel_that_fails_is_left_to_aten_alone(maker: _WithoutSoftmax) -> None:
    with (
        jitpkg.config.patch(strict=False),
        pytest.warns(JitpkgWarning, match="too many registers") as warned,
    ):
        explained = jitpkg.explain(with_two_kernels, backend="jitpkg")(*inputs())
    (text,) = [str(w.message) for w in warned]
    assert text.startswith(f"The kernel {maker.refused[0]} of ")
    assert "ATen computes it instead" in text
    torch.testing.assert_close(explained.result, with_two_kernels(*inputs()))
    assert maker.refused == ["exp_mul_softmax"]
    assert explained.calls == ["exp", "mul", "softmax", "mm"]
    assert [kernel.name for kernel in explained.kernels] == ["sin_add"]


def test_a_kernel_that_fails_raises_when_strict(maker: _WithoutSoftmax) -> None:
    with jitpkg.config.patch(strict=True), pytest.raises(jitpkg.errors.BackendError) as raised:
        jitpkg.compile(with_two_kernels, backend="jitpkg")(*inputs())
    assert "too many registers" in str(raised.value)


def test_without_native_code_a_warning_says_why_once(monkeypatch: pytest.MonkeyPatch) -> None:
    why = "a library that is not installed (pip install it)"
    monkeypatch.setattr(own, "_maker", lambda *_: (None, why))
    explain = jitpkg.explain(block, backend="jitpkg")
    with pytest.warns(JitpkgWarning) as warned:
        explained, _ = explain(*inputs()), jitpkg.explain(block, backend="jitpkg")(*inputs())
    assert [str(w.message) for w in warned] == [
        f'Graphs run op by op, as with backend="eager": {why}.'
    ]
    assert f"None: {why}" in str(explained)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("patience", [0.0, 1000.0])
@pytest.mark.parametrize("stream", [_Terminal, io.StringIO])
def test_a_line_on_a_terminal_when_it_takes_long(
    patience: float, stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = stream()
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr("sys.stderr", error)
    new = 2.5 + patience + (stream is _Terminal)  # a graph that is not on disk yet
    jitpkg.compile(lambda x, w: block(x, w) * new, backend="jitpkg")(*inputs())
    lines = [line for line in error.getvalue().split("\r\x1b[K") if line]
    if patience or stream is io.StringIO:
        assert error.getvalue() == ""
    else:
        assert lines[-1].startswith("jitpkg: compiling ")
        assert "2 of 2, " in lines[-1]
        assert error.getvalue().endswith("\r\x1b[K")
