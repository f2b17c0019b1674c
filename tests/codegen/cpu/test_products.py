"""Matrix products: which of them oneDNN computes, and that they are as exact as ATen's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.nn import functional as F

from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.aten.runtime import op_by_op
from jitpkg.codegen.cpu.products import onednn_is_faster, use_onednn

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch is built without oneDNN"
)

M, K, N = 96, 128, 160


def of(*shape: int) -> Tensor:
    return torch.randn(shape)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Tensor]], int]] = {
    # function, arguments, products by oneDNN
    "linear": (F.linear, lambda: [of(M, K), of(N, K), of(N)], 1),
    "linear of three dims": (F.linear, lambda: [of(4, 24, K), of(N, K)], 1),
    "of a turned input": (F.linear, lambda: [of(K, M).t(), of(N, K), of(N)], 1),
    "of an expanded input": (F.linear, lambda: [of(1, K).expand(M, K), of(N, K)], 1),
    "mm": (torch.mm, lambda: [of(M, K), of(K, N)], 1),
    "mm by a transpose": (lambda x, w: x.mm(w.t()), lambda: [of(M, K), of(N, K)], 1),
    "mm of a transpose": (lambda x, w: x.t().mm(w), lambda: [of(K, M), of(K, N)], 1),
    "addmm": (torch.addmm, lambda: [of(N), of(M, K), of(K, N)], 1),
    "a gradient's": (lambda g, x: g.t() @ x, lambda: [of(K, M), of(K, N)], 1),
    "NaN and inf": (torch.mm, lambda: [of(M, K).log(), of(K, N) / 0], 1),
    "addmm of a matrix": (torch.addmm, lambda: [of(M, N), of(M, K), of(K, N)], 0),
    "addmm with factors": (
        lambda b, x, w: torch.addmm(b, x, w, beta=2),
        lambda: [of(N), of(M, K), of(K, N)],
        0,
    ),
    "by a slice": (lambda x, w: x @ w[:, ::2], lambda: [of(M, K), of(K, 2 * N)], 0),
    "small": (F.linear, lambda: [of(16, 16), of(16, 16)], 0),
    "few rows": (F.linear, lambda: [of(4, 1024), of(1024, 1024)], 0),
    "of float64": (torch.mm, lambda: [of(M, K).double(), of(K, N).double()], 0),
    "of bfloat16": (torch.mm, lambda: [of(M, K).bfloat16(), of(K, N).bfloat16()], 0),
}


def traced(function: Callable[..., Any], inputs: list[Tensor]) -> Prepared:
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    given = [fx.Proxy(graph.placeholder(f"x{k}"), tracer) for k in range(len(inputs))]
    graph.output((function(*given).node,))
    made = prepare(fx.GraphModule(torch.nn.Module(), graph), inputs)
    assert isinstance(made, Prepared)
    return made


@pytest.mark.parametrize("title", CASES)
def test_products(title: str) -> None:
    torch.manual_seed(0)
    function, make, count = CASES[title]
    inputs = make()
    graph = traced(function, inputs)
    assert use_onednn(graph.graph) == count
    (found,) = op_by_op(graph)(*inputs)
    wanted = function(*inputs)
    assert found.stride() == wanted.stride()
    exact = function(*(x.double() for x in inputs))
    if not torch.equal(wanted.isfinite(), torch.ones_like(wanted).bool()):
        torch.testing.assert_close(found, wanted, equal_nan=True)
        return
    off, eager_off = ((y - exact).abs().max() for y in (found, wanted))
    assert off <= 4 * eager_off


def test_disabled() -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        assert use_onednn(traced(torch.mm, [of(M, K), of(K, N)]).graph) == 0


def test_processors() -> None:
    assert onednn_is_faster("znver4", "AVX512")
    assert not onednn_is_faster("znver3", "AVX2")
    assert not onednn_is_faster("sapphirerapids", "AVX512")
