"""Kernels as functions: their memory, their numbers, and the sources that they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg import events
from jitpkg.codegen import backend as own
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.kernels.compile import Compiled, compile_graph
from jitpkg.codegen.triton import graphs, maker
from jitpkg.codegen.triton.frame import NotPrinted
from jitpkg.codegen.triton.graphs import Recorded
from jitpkg.codegen.triton.maker import Interprets, TritonKernels
from jitpkg.codegen.triton.target import H200
from tests.codegen.triton.recorder import Fake

pytestmark = pytest.mark.usefixtures("by_triton")

SMALL = replace(H200, processors=1)


def compiled(function: Callable[..., Any], *inputs: Tensor) -> tuple[Compiled, list[str]]:
    """And the texts of the Triton kernels."""
    graphs: list[Compiled] = []
    heard: list[events.Event] = []

    def backend(gm: torch.fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        prepared = prepare(gm, given)
        assert isinstance(prepared, Prepared), prepared
        kernels = TritonKernels(torch.device("cpu"), SMALL, Interprets())
        with events.STREAM.listening(heard.append):
            graphs.append(compile_graph("graph", prepared.graph, kernels))
        return graphs[0].function

    jitpkg.compile(function, backend=backend, fullgraph=True)(*inputs)
    made = [event for event in heard if isinstance(event, events.KernelCompiled)]
    assert all(event.name in event.script for event in made)
    return graphs[0], [event.text for event in made]


def wrappers(found: Compiled) -> list[str]:
    """The texts of the functions that a graph calls."""
    defaults = inspect.getfullargspec(found.function).defaults or ()
    return [inspect.getsource(each) for each in defaults if callable(each)]


def test_a_long_sum_runs_two_kernels_and_has_memory_between_them() -> None:
    x = torch.randn(40_000)
    found, texts = compiled(lambda x: x.exp().sum() * 2, x)
    assert len(texts) == 2
    assert len(found.report.kernels) == 1
    (text,) = wrappers(found)
    lines = [line.split("(")[0].strip() for line in text.splitlines()[1:]]
    assert lines == ["out0 = empty", "t2 = empty", "launch", "launch1", "return out0"]
    (got,) = found.function(x)
    torch.testing.assert_close(got, x.exp().sum() * 2)


def test_outputs_are_laid_out_as_eager_s() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.t().sin(), (x * 2).sum(0)

    x = torch.randn(3, 5)
    found, _ = compiled(f, x)
    for got, want in zip(found.function(x), f(x), strict=True):
        assert got.stride() == want.stride()
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (1, 1)])
def test_few_elements_or_none(size: tuple[int, ...]) -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x.exp() + 1, x.sum(1), x.sum()

    x = torch.randn(size)
    torch.testing.assert_close(jitpkg.compile(f, backend="jitpkg")(x), f(x))


def test_sizes_that_vary_are_given_to_one_kernel() -> None:
    def f(x: Tensor) -> Tensor:
        return (x * 2).softmax(-1)

    heard: list[events.Event] = []
    fast = jitpkg.compile(f, backend="jitpkg", dynamic=True)
    with events.STREAM.listening(heard.append):
        for size in ((3, 5), (7, 33), (2, 100)):
            x = torch.randn(size)
            torch.testing.assert_close(fast(x), f(x))
    (kernel,) = [event for event in heard if isinstance(event, events.KernelCompiled)]
    assert "n0" in kernel.text


def test_what_triton_cannot_say_is_aten_s_and_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = maker.printed

    def printed(loops: Any, *args: Any) -> Any:
        if "softmax" in loops.kernel.ops:
            raise NotPrinted("too hard, says a test")
        return real(loops, *args)

    monkeypatch.setattr(maker, "printed", printed)

    def f(x: Tensor) -> Tensor:
        return (x.softmax(-1) @ x.t()).sin() + 1

    x = torch.randn(4, 4)
    said = str(jitpkg.explain(f, backend="jitpkg")(x))
    torch.testing.assert_close(jitpkg.compile(f, backend="jitpkg")(x), f(x))
    assert "softmax cannot be used: too hard, says a test." in said


def test_kernels_are_cpu_s_unless_triton_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITPKG_DEBUG", "")
    made, _ = own._maker(own.Options(), torch.device("cpu"))
    assert not isinstance(made, TritonKernels)


class Again(Fake):
    """Replays by running the function again, into the memory of its first results."""

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        made = run()

        def replay() -> None:
            self.replayed += 1
            for old, new in zip(made, run(), strict=True):
                if old is not None:  # what needs no gradient
                    old.copy_(new)

        return replay, made


def test_graphs_are_replayed_in_inference_and_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """What forward halves keep for backward ones is handed over where it is."""
    seen: list[tuple[str, int | None, set[int] | None]] = []
    fake = Again()

    def replayed(
        name: str, obstacle: Any, function: Any, device: Any, *, shown: Any, handed: Any
    ) -> Any:
        assert obstacle is None
        seen.append((name.rpartition(".")[2], shown, handed))
        return Recorded(name, function, fake, shown=shown, handed=handed)

    monkeypatch.setattr(graphs, "replayed", replayed)
    kernels = TritonKernels(torch.device("cpu"), H200, Interprets(), replays=True)
    monkeypatch.setattr(own, "_maker", lambda options, device: (kernels, ""))

    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).tanh().softmax(-1).square()

    w = torch.randn(4, 4)
    fast = jitpkg.compile(f, backend="jitpkg")
    for _ in range(6):
        x = torch.randn(3, 4)
        torch.testing.assert_close(fast(x, w), f(x, w))
    assert fake.replayed
    assert [shown for _, shown, _ in seen] == [None]
    seen.clear()
    before = fake.replayed
    ours, wanted = w.clone().requires_grad_(), w.clone().requires_grad_()
    for _ in range(6):
        x = torch.randn(3, 4)
        losses = fast(x, ours).sum(), f(x, wanted).sum()
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(losses[0], losses[1])
        torch.testing.assert_close(ours.grad, wanted.grad)
    assert fake.replayed > before
    names = {name: (shown, handed) for name, shown, handed in seen}
    assert names["forward"][0] == 1
    assert names["backward"][0] is None
    assert names["forward"][1] is names["backward"][1] is not None
