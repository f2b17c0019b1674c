"""What everyday graphs become on an H200: how many programs, and how wide their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.triton import maker
from jitpkg.codegen.triton.launch import Launches
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import H200
from tests.codegen.fake_cuda import CUDA, graph_of
from tests.codegen.triton.test_launch import Recorder


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[Source]:
    """All that are printed, in order."""
    found: list[Source] = []

    def printed(*given: Any) -> Source:
        found.append(real(*given))
        return found[-1]

    real = maker.printed
    monkeypatch.setattr(maker, "printed", printed)
    return found


def compiled(function: Callable[..., Any], *tensors: Callable[[], Tensor]) -> None:
    def several(*given: Tensor) -> tuple[Tensor, ...]:
        made = function(*given)
        return made if isinstance(made, tuple) else (made,)

    graph = graph_of(several, *tensors)
    compile_graph("graph", graph, maker.TritonKernels(CUDA, H200, Launches(Recorder().gpu())))


def floats(*size: int, dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    return lambda: torch.empty(size, dtype=dtype, device=CUDA)


def shapes(sources: list[Source]) -> list[tuple[str, dict[str, int], int]]:
    """Of each: its programs, the blocks of its first config, and that one's warps."""
    return [
        (" * ".join(each.grid), dict(each.configs[0].blocks), each.configs[0].warps)
        for each in sources
    ]


@pytest.mark.parametrize("rows", [256, 16384])
def test_losses_have_programs_for_parts_of_the_batch(sources: list[Source], rows: int) -> None:
    """A sum of sums over rows: one program for all of it would leave all others idle."""
    labels = lambda: torch.empty(rows, dtype=torch.int64, device=CUDA)  # noqa: E731
    compiled(functional.cross_entropy, floats(rows, 16384), labels)
    parts, whole = sources
    assert parts.grid == (str(min(512, rows)),)
    assert "tl.arange(0, RBLOCK)" in parts.text
    assert whole.grid == ("1",)


def test_gradients_of_a_norm_s_weights_lie_side_by_side(sources: list[Source]) -> None:
    """The rows' means are read along the sum, and matter little."""

    def backward(*given: Tensor) -> Any:
        return torch.ops.aten.native_layer_norm_backward(
            given[0], given[1], [768], *given[2:], [True, True, True]
        )

    matrix, column, row = floats(4096, 768), floats(4096, 1), floats(768)
    compiled(backward, matrix, matrix, column, column, row, row)
    assert shapes(sources)[1:] == [
        ("cdiv(12288, XBLOCK)", {"XBLOCK": 64, "RBLOCK": 64}, 8),
        ("cdiv(768, XBLOCK)", {"XBLOCK": 16, "RBLOCK": 16}, 4),
    ]


@pytest.mark.parametrize(("dtype", "warps"), [(torch.float32, 32), (torch.bfloat16, 8)])
def test_a_row_that_is_read_twice_stays_in_registers(
    sources: list[Source], dtype: torch.dtype, warps: int
) -> None:
    """Weights are read once, and do not count."""

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], weight, bias)

    given = floats(16384, 16384, dtype=dtype), *[floats(16384, dtype=dtype)] * 2
    compiled(norm, *given)
    assert shapes(sources) == [("16384", {"RBLOCK": 16384}, warps)]


def test_what_all_programs_read_stays_in_the_cache(sources: list[Source]) -> None:
    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], weight)

    compiled(norm, floats(4096, 50000), floats(50000))
    (last,) = sources
    assert 'tl.load(in1_ptr + (i * 50000 + j), j_mask, eviction_policy="evict_first")' in last.text
    assert 'tl.load(in0_ptr + j, j_mask, eviction_policy="evict_last")' in last.text


@pytest.mark.parametrize(("size", "side"), [(16384, 128), (2048, 64), (512, 32)])
def test_large_matrices_are_turned_by_large_squares(
    sources: list[Source], size: int, side: int
) -> None:
    matrix = floats(size, size)
    compiled(lambda x, y: x.t() + y, matrix, matrix)
    ((_, blocks, _),) = shapes(sources)
    assert blocks == {"YBLOCK": side, "XBLOCK": side}


def test_deviations_of_whole_tiles_have_one_count(sources: list[Source]) -> None:
    compiled(lambda x: x.var(0), floats(16384, 16384))
    (source,) = sources
    assert "count = tl.full([], 0.0, tl.float32)" in source.text
    assert "jl.distances_of_all(" in source.text
