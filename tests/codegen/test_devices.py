"""Which ops of a graph become kernels where its tensors are on several devices."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from jitpkg.codegen import backend
from jitpkg.codegen.fusion.groups import Limits
from jitpkg.codegen.fusion.normal import Normal
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.kernels.compile import Report, compile_graph
from jitpkg.codegen.kernels.made import Made, Refused
from jitpkg.marks import VARIES
from tests.codegen.fake_cuda import CUDA, graph_of

SECOND = torch.device("cuda", 1)


class Recorded:
    """Makes kernels that nobody calls."""

    def __init__(self, device: torch.device = CUDA, refuses: str = "") -> None:
        self.device = device
        self.refuses = refuses
        self.limits = Limits()
        self.keeps = False
        self.made: dict[Any, Any] = {}

    def depends(self) -> None:
        pass

    def obstacle(self, graph: fx.Graph) -> None:
        pass

    def choose_calls(self, graph: fx.Graph) -> None:
        pass

    def replayed(self, name: str, obstacle: str | None, function: Any, **_: Any) -> Any:
        return function

    def make(self, normal: Normal, builder: Builder, given: int) -> Made:
        if self.refuses and self.refuses in normal.kernel.ops:
            raise Refused("too hard")
        return Made(lambda *_: None)


def compiled(maker: Recorded, function: Any, *devices: torch.device) -> Report:
    graph = graph_of(function, *(lambda d=d: torch.empty(4, 8, device=d) for d in devices))
    return compile_graph("graph", graph, maker).report


def ops(report: Report) -> list[tuple[str, ...]]:
    return [kernel.ops for kernel in report.kernels]


def test_one_device() -> None:
    report = compiled(Recorded(), lambda x, y: [(x + y).sin(), (x * y).sum(1)], CUDA, CUDA)
    assert sorted(op for kernel in ops(report) for op in kernel) == ["add", "mul", "sin", "sum"]
    assert report.calls == ()


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="FakeTensor asks for the second GPU")
def test_each_kernel_is_on_one_device() -> None:
    def both(x: Tensor, y: Tensor) -> list[Tensor]:
        return [x.exp() + 1, y.sin() * 2, x.cos() + y.cos().to(CUDA)]

    report = compiled(Recorded(), both, CUDA, SECOND)
    assert sorted(op for kernel in ops(report) for op in kernel) == ["add", "add", "cos", "exp"]
    assert sorted(report.calls) == ["cos", "mul", "sin", "to_copy"]
    other = compiled(Recorded(SECOND), both, CUDA, SECOND)
    assert sorted(op for kernel in ops(other) for op in kernel) == ["cos", "mul", "sin"]
    assert sorted(other.calls) == ["add", "add", "cos", "exp", "to_copy"]


def test_numbers_in_main_memory_are_read_by_aten() -> None:
    cpu = torch.device("cpu")
    report = compiled(Recorded(), lambda x, y: [x.exp() * y.sum() + 1], CUDA, cpu)
    assert sorted(report.calls) == ["mul", "sum"]
    assert ops(report) == [("exp",), ("add",)]


def test_copies_between_devices_are_calls() -> None:
    cpu = torch.device("cpu")
    report = compiled(Recorded(), lambda x: [x.cpu() + 1, x.double() + 1], CUDA)
    assert sorted(report.calls) == ["add", "to_copy"]
    assert ops(report) == [("to_copy", "add")]
    back = compiled(Recorded(cpu), lambda x: [x.cpu() + 1, x.cos()], CUDA)
    assert ops(back) == [("add",)]
    assert sorted(back.calls) == ["cos", "to_copy"]


def test_tensors_of_nothing_are_made_where_they_belong() -> None:
    def made(x: Tensor) -> list[Tensor]:
        return [x + torch.arange(8, device=x.device), torch.arange(3) * 2]

    report = compiled(Recorded(), made, CUDA)
    assert ops(report) == [("arange", "add")]
    assert report.calls == ("arange", "mul")


def test_kernels_that_are_refused_are_calls() -> None:
    maker = Recorded(refuses="cumsum")
    report = compiled(maker, lambda x: [x.cumsum(1).exp(), (x.sin() + 1).sum()], CUDA)
    assert "cumsum" in report.calls
    assert all("cumsum" not in kernel for kernel in ops(report))
    assert [why for _, why in report.refused] == ["too hard"]
    assert report.left


@pytest.mark.parametrize("device", [CUDA, torch.device("cpu")])
def test_where_results_lie_is_compared_with_a_row_on_cpus_only(device: torch.device) -> None:
    """So it is tested at the first call on a GPU."""
    x = partial(torch.empty, 4, 4, device=device)
    graph = graph_of(lambda a, b: [torch.mm(a, b).sin()], x, x)
    function = compile_graph("graph", graph, Recorded(device)).function
    assert ("checked" in inspect.getsource(function)) is (device == CUDA)


@pytest.mark.parametrize("varies", [False, True])
def test_graphs_for_gpus_go_through_aotautograd(
    varies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes that vary, too: what stands for them would be lost otherwise."""
    went: list[str] = []

    def through_aot(gm: fx.GraphModule, inputs: Any, maker: Recorded, *rest: Any) -> Any:
        went.append(str(maker.device))
        return gm.forward

    def prepare(*given: Any) -> None:
        raise AssertionError("it was compared with the ops of the CPU")

    monkeypatch.setattr(backend, "_maker", lambda options, device: (Recorded(device), ""))
    monkeypatch.setattr(backend, "_through_aot", through_aot)
    monkeypatch.setattr(backend, "prepare", prepare)
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_method("to", (x, CUDA)),))
    gm = fx.GraphModule(torch.nn.Module(), graph)
    if varies:
        gm.meta[VARIES] = [frozenset({0})]
    backend.compile_graph_module(gm, [torch.ones(3)], backend.Options())
    assert went == ["cuda:0"]
