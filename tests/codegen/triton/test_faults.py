"""What keeps kernels from being made for a GPU, and what is said about it."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from jitpkg.codegen import backend
from jitpkg.codegen.graph.devices import device_of, devices_of
from jitpkg.codegen.options import Options
from jitpkg.codegen.triton import gpu, version
from jitpkg.codegen.triton.target import A100, H200, Target
from jitpkg.errors import JitpkgWarning

CUDA = torch.device("cuda", 0)


def without_triton(_: str) -> str:
    raise PackageNotFoundError("triton")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (without_triton, r"Triton is not installed: `pip install 'triton>=3\.6'`"),
        (lambda _: "3.5.1", r"Triton 3\.5\.1 is too old, 3\.6 is needed: `pip install -U"),
        (lambda _: "3.10.0+git", "GPU"),
        (lambda _: "3.6.0", "GPU"),
    ],
)
def test_triton(found: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "version", found)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    why = gpu.obstacle(CUDA)
    assert why is not None
    assert re.search(said, why)


def test_interpreting_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "version", lambda _: "3.7.1")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "TRITON_INTERPRET" in str(gpu.obstacle(CUDA))


def test_old_gpus() -> None:
    assert gpu.gpu_obstacle("Tesla V100", (7, 0)) is None
    assert gpu.gpu_obstacle("Tesla P100", (6, 0)) == (
        "Triton makes no code for Tesla P100, whose compute capability is 6.0 (7.0 is needed)"
    )


def test_target_of_what_torch_says() -> None:
    said = SimpleNamespace(
        major=9,
        minor=0,
        multi_processor_count=132,
        shared_memory_per_block_optin=232_448,
        L2_cache_size=50 << 20,
        warp_size=32,
    )
    assert gpu.target_of(said) == H200
    less = SimpleNamespace(major=8, minor=0, multi_processor_count=108)
    assert gpu.target_of(less) == Target(A100.capability, 108, 48 << 10, H200.cache)


def graph(function: Any) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def test_graphs_for_gpus_run_op_by_op_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "obstacle", lambda device: f"no kernels for {device}, said a test")

    def on_gpu(x: Tensor) -> tuple[Tensor]:
        return (x.to("cuda:1").sin(),)

    with pytest.warns(JitpkgWarning, match="no kernels for cuda:1, said a test"):
        backend.compile_graph_module(graph(on_gpu), [torch.ones(3)], Options())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = backend.compile_graph_module(graph(on_gpu), [torch.ones(3)], Options())
        backend.compile_graph_module(graph(lambda x: (x.sin(),)), [torch.ones(3)], Options())
    assert run.__name__.endswith(".graph")


@pytest.mark.parametrize(
    ("function", "device"),
    [
        (lambda x: (x.sin(),), "cpu"),
        (lambda x: (x.cuda() + 1,), "cuda:0"),
        (lambda x: (x.to("cuda:2") + 1,), "cuda:2"),
        (lambda x: (x + x.new_ones(3, device=torch.device("cuda", 1)).cpu(),), "cuda:1"),
        (lambda x: (x.to("cpu").to(torch.float64),), "cpu"),
    ],
)
def test_the_device_of_a_graph(function: Any, device: str) -> None:
    made = graph(function)
    devices = devices_of(made, [torch.ones(3)])
    assert device_of(devices) == torch.device(device)
