"""Kernels as GPUs get them: graphs on CUDA, printed, and compiled ahead of time. None spills.

All that tests and benchmarks print is compiled by `make ahead`; these are the usual ones.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.nn import functional

triton = pytest.importorskip("triton")

import jitpkg  # noqa: E402
from jitpkg.codegen.aten.prepare import prepare  # noqa: E402
from jitpkg.codegen.aten.prepared import Prepared  # noqa: E402
from jitpkg.codegen.kernels.compile import compile_graph  # noqa: E402
from jitpkg.codegen.triton.collected import Collected  # noqa: E402
from jitpkg.codegen.triton.elsewhere import compiled_elsewhere  # noqa: E402
from jitpkg.codegen.triton.jobs import Job, Outcome  # noqa: E402
from jitpkg.codegen.triton.maker import TritonKernels  # noqa: E402
from jitpkg.codegen.triton.target import A100, H200, Target  # noqa: E402
from tests.codegen.fake_cuda import CUDA, graph_of  # noqa: E402
from tests.codegen.triton.collecting import job_of_source  # noqa: E402

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
NETWORKS = {each.title: each for each in importlib.import_module("networks").NETWORKS}

aten = torch.ops.aten
Make = Callable[[], Tensor]


def on_cuda(*shape: int, dtype: torch.dtype = torch.float32) -> Make:
    return lambda: torch.empty(shape, dtype=dtype, device=CUDA)


def normed(x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    return [functional.layer_norm(x, x.shape[-1:], weight, bias)]


def differentiated(x: Tensor, gradient: Tensor) -> list[Tensor]:
    """The gradient of a softmax, written out: fake tensors on a GPU have no autograd here."""
    y = torch.softmax(x, 1)
    return [y * (gradient - (y * gradient).sum(1, keepdim=True))]


BF16 = torch.bfloat16
MATRIX, WIDE, LONG = on_cuda(4096, 4096), on_cuda(64, 50000), on_cuda(8, 1 << 20)
ROW = on_cuda(4096)

PROGRAMS: dict[str, tuple[Callable[..., Sequence[Tensor]], Sequence[Make]]] = {
    "pointwise": (lambda x, y: [torch.tanh(x.exp() + y).erf() * x], [MATRIX, MATRIX]),
    "gelu, bfloat16": (lambda x: [functional.gelu(x) + x], [on_cuda(4096, 4096, dtype=BF16)]),
    "softmax": (lambda x: [torch.softmax(x, 1)], [MATRIX]),
    "softmax of bfloat16": (lambda x: [x.softmax(1)], [on_cuda(4096, 8192, dtype=BF16)]),
    "softmax of long rows": (lambda x: [torch.softmax(x, 1)], [WIDE]),
    "softmax over columns": (lambda x: [torch.softmax(x, 0)], [MATRIX]),
    "gradient of softmax": (differentiated, [MATRIX, MATRIX]),
    "layer norm": (normed, [MATRIX, ROW, ROW]),
    "layer norm of long rows": (normed, [WIDE, on_cuda(50000), on_cuda(50000)]),
    "RMS norm": (lambda x, w: [functional.rms_norm(x, x.shape[-1:], w)], [MATRIX, ROW]),
    "sum over columns": (lambda x: [x.sum(0)], [MATRIX]),
    "sum over rows": (lambda x: [x.sum(1)], [MATRIX]),
    "sum of all": (lambda x: [x.sum()], [LONG]),
    "variance": (lambda x: [x.var(0), x.var(1)], [MATRIX]),
    "smallest byte": (lambda x: [x.amin()], [on_cuda(2000, dtype=torch.uint8)]),
    "argmax": (lambda x: [x.argmax(1)], [MATRIX]),
    "running sum": (lambda x: [x.cumsum(1) * 2], [MATRIX]),
    "transposed": (lambda x, y: [x.t() + y], [MATRIX, MATRIX]),
    "taken rows": (
        lambda x, at: [x.index_select(0, at) * 2],
        [MATRIX, on_cuda(1000, dtype=torch.int64)],
    ),
    "cross entropy": (
        lambda x, at: [functional.cross_entropy(x, at)],
        [MATRIX, on_cuda(4096, dtype=torch.int64)],
    ),
}


def network(title: str) -> fx.Graph:
    """A tiny network's graph, traced on the CPU and moved to a GPU."""
    of = NETWORKS[title]
    pytest.importorskip(of.needs)
    torch.manual_seed(0)
    module, inputs = of.tiny().eval(), of.tiny_inputs()
    found: list[tuple[Prepared, list[Tensor]]] = []

    def noting(gm: fx.GraphModule, given: list[Any]) -> Callable[..., Any]:
        prepared = prepare(gm, given)
        assert isinstance(prepared, Prepared)
        found.append((prepared, given))
        return gm.forward

    with torch.no_grad():
        jitpkg.compile(module, backend=noting, fullgraph=True)(**inputs)
    ((prepared, given),) = found
    makes = [
        lambda x=x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=CUDA)
        for x in given
    ]
    return graph_of(OnCuda(fx.GraphModule({}, prepared.graph)).run, *makes)


class OnCuda(fx.Interpreter):
    """Runs a graph of ATen ops; what it makes on the CPU is on a GPU instead, and attention is
    what eager code would call there."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is functional.scaled_dot_product_attention:
            target = aten._scaled_dot_product_efficient_attention.default
            result, *_ = target(*args[:3], kwargs.get("attn_mask"), False)
            return result
        if "device" in kwargs:
            kwargs = {**kwargs, "device": CUDA}
        return super().call_function(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        x = super().get_attr(target, args, kwargs)
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=CUDA)


def kernels(graph: fx.Graph, target: Target) -> list[Job]:
    found = Collected()
    compile_graph("graph", graph, TritonKernels(CUDA, target, found))
    return [job_of_source(source, target) for source in found.sources]


def check(jobs: Sequence[Job]) -> list[Outcome]:
    """Compiles; prints what each kernel takes."""
    done = compiled_elsewhere(jobs)
    wrong = []
    for job, outcome in zip(jobs, done, strict=True):
        found = outcome.resources
        print(f"{job.source.name:40} sm_{job.target.architecture}  {found or outcome.error}")
        if found is None or found.spilled:
            wrong.append((job.source.name, job.target.architecture, found or outcome.error))
    assert not wrong
    return done


def test_usual_kernels_do_not_spill() -> None:
    jobs = [
        job
        for function, makes in PROGRAMS.values()
        for target in (A100, H200)
        for job in kernels(graph_of(function, *makes), target)
    ]
    assert len(jobs) >= 2 * len(PROGRAMS)
    check(jobs)


@pytest.mark.parametrize("title", ["BERT", "GPT-2", "ResNet-18"])
def test_networks_are_printed_and_compiled_as_for_a_gpu(title: str) -> None:
    jobs = [job for target in (A100, H200) for job in kernels(network(title), target)]
    assert jobs
    check(jobs)


@pytest.mark.usefixtures("by_triton")
@pytest.mark.parametrize("title", ["BERT", "GPT-2", "ResNet-18"])
def test_networks_by_the_interpreter_are_as_eager_code(title: str) -> None:
    of = NETWORKS[title]
    pytest.importorskip(of.needs)
    torch.manual_seed(0)
    module, inputs = of.tiny().eval(), of.tiny_inputs()
    with torch.no_grad():
        want = module(**inputs)
        got = jitpkg.compile(module, backend="jitpkg", fullgraph=True)(**inputs)
    for ours, theirs in zip(tensors_of(got), tensors_of(want), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-4)


def tensors_of(result: Any) -> list[Tensor]:
    leaves = [result] if isinstance(result, Tensor) else list(dict(result).values())
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]
