"""Kernels for a GPU, of another process: compiled in the background, and waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.codegen import own
from jitpkg.codegen.triton import maker
from jitpkg.codegen.triton.launch import Launches
from jitpkg.codegen.triton.target import H200
from tests.codegen.kept.support import Process, filled
from tests.codegen.triton.support import needs_triton
from tests.codegen.triton.test_launch import Recorder

pytestmark = needs_triton


def program(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp() * 2, x.sum()


def kernels(monkeypatch: pytest.MonkeyPatch, recorder: Recorder, *, replays: bool = False) -> None:
    """Let all kernels be such a device's. Their memory is here: nothing is written to it."""
    runs = Launches(recorder.gpu())
    made = maker.TritonKernels(torch.device("cpu"), H200, runs, replays=replays)
    monkeypatch.setattr(own, "_maker", lambda options, device: (made, ""))
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


def test_graphs_that_are_recorded_are_not_kept(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        recorder = Recorder()
        kernels(monkeypatch, recorder, replays=True)
        process.compiled(program)(filled(4, 5))
        assert process.made
