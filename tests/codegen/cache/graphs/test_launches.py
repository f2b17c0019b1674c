"""Kernels for a GPU, of another process: compiled in the background, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend
from jitpkg.codegen.triton import graphs, maker
from jitpkg.codegen.triton.launch import Launches
from jitpkg.codegen.triton.target import H200
from tests.codegen.cache.graphs.support import Process, filled
from tests.codegen.triton.support import needs_triton
from tests.codegen.triton.test_launch import Recorder
from tests.codegen.triton.test_maker import Again

pytestmark = needs_triton


def program(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp() * 2, x.sum()


def kernels(monkeypatch: pytest.MonkeyPatch, recorder: Recorder) -> None:
    """Let all kernels be such a device's. Their memory is here: nothing is written to it."""
    runs = Launches(recorder.gpu())
    made = maker.TritonKernels(torch.device("cpu"), H200, runs)
    monkeypatch.setattr(backend, "_maker", lambda options, device: (made, ""))
    monkeypatch.setattr(maker, "Interprets", lambda: Launches(recorder.gpu()))


def launches(recorder: Recorder) -> list[Any]:
    """All but where what is written lies."""
    return [(grid, stream, blocks) for grid, stream, *_, blocks in recorder.launches]


@pytest.fixture
def first(process: Process, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What the process does that makes the graph."""
    recorder = Recorder()
    kernels(monkeypatch, recorder)
    process.compiled(program)(filled(4000, 100))
    assert process.made
    assert len(recorder.launches) > 2
    return recorder


def test_kernels_are_made_again(
    process: Process, monkeypatch: pytest.MonkeyPatch, first: Recorder
) -> None:
    recorder = Recorder()
    kernels(monkeypatch, recorder)
    process.compiled(program)(filled(4000, 100))
    assert not process.made
    assert sorted(recorder.compiled) == sorted(first.compiled)
    assert launches(recorder) == launches(first)


def test_a_kernel_that_cannot_be_made_again(
    process: Process, monkeypatch: pytest.MonkeyPatch, first: Recorder
) -> None:
    class Failing(Recorder):
        def _compile(self, *given: Any) -> Any:
            if not process.made:
                raise OSError("ptxas is gone")
            return super()._compile(*given)

    recorder = Failing()
    kernels(monkeypatch, recorder)
    compiled: Callable[..., Any] = process.compiled(program)
    with jitpkg.config.patch(strict=False):
        compiled(filled(4000, 100))
    assert process.made
    assert launches(recorder) == launches(first)


def tanh(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).tanh().softmax(-1).square()


def rolled(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).tanh() + torch.randperm(3)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [tanh, rolled])
def test_graphs_that_are_replayed(
    process: Process,
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Tensor],
    requires_grad: bool,
) -> None:
    """Each process records them; what keeps them from being recorded is known from the first."""
    recorder = Again()
    made = maker.TritonKernels(torch.device("cpu"), H200, maker.Interprets(), replays=True)
    monkeypatch.setattr(backend, "_maker", lambda options, device: (made, ""))
    monkeypatch.setattr(backend, "_prepares", lambda maker: False)  # as for tensors on a GPU
    monkeypatch.setattr(graphs, "recorder_for", lambda device: recorder)
    for found in (False, True):
        recorder.recorded = recorder.replayed = 0
        compiled = process.compiled(function)
        heard: list[events.Event] = []
        with events.STREAM.listening(heard.append):
            for k in range(9):
                outcomes = [outcome(each, k, requires_grad) for each in (function, compiled)]
                torch.testing.assert_close(*outcomes)
        assert bool(process.made) is not found
        said = [event.why for event in heard if isinstance(event, events.CudaGraph)]
        if function is tanh:
            assert set(said) == {None}
            assert recorder.replayed > 0
        else:
            assert "randperm draws random numbers" in said
            assert bool(recorder.replayed) is requires_grad  # the backward half


def outcome(function: Callable[..., Tensor], k: int, requires_grad: bool) -> list[Tensor | None]:
    torch.manual_seed(k)
    x, w = torch.randn(3, 4), torch.randn(4, 3, requires_grad=requires_grad)
    result = function(x, w)
    if requires_grad:
        result.sum().backward()  # type: ignore[no-untyped-call]
    return [result.detach(), w.grad]
