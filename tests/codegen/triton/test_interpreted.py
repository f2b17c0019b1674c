"""Sources by Triton's interpreter."""

from __future__ import annotations

import linecache
from dataclasses import replace

import pytest
import torch

from jitpkg.codegen.triton.interpreted import interpreted
from jitpkg.codegen.triton.module import grid_of, kernel_of
from tests.codegen.triton.sources import PICK, POINTWISE, SOFTMAX

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles where a GPU is")


@pytest.mark.parametrize("config", POINTWISE.configs)
def test_each_config_does_the_same(config: object) -> None:
    x, out = torch.randn(1000), torch.full((1001,), 7.0)
    interpreted(POINTWISE, config)([x, out])
    torch.testing.assert_close(out[:1000], x.sin() * 2)
    assert out[1000] == 7


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_numbers_vary(rows: int) -> None:
    x = torch.randn(rows, 37).half()
    out = torch.empty_like(x)
    interpreted(SOFTMAX)([x, out], [rows, 37])
    torch.testing.assert_close(out, x.softmax(-1))


def test_offset_and_memory_behind_it() -> None:
    """A pointer points to a tensor's first element."""
    memory = torch.randn(2000)
    x, out = memory[100:1100], torch.empty(1000)
    interpreted(POINTWISE)([x, out])
    torch.testing.assert_close(out, x.sin() * 2)


def test_what_is_asserted_of_an_index_is_an_index_error() -> None:
    out = torch.empty(4)
    run = interpreted(PICK)
    run([torch.arange(10.0), torch.tensor([9, 0, 1, 1]), out])
    assert out.tolist() == [9, 0, 1, 1]
    with pytest.raises(IndexError, match="index out of range"):
        run([torch.arange(10.0), torch.tensor([10, 0, 1, 1]), out])


def test_text_is_where_tracebacks_find_it() -> None:
    kernel = kernel_of(POINTWISE)
    assert kernel_of(replace(POINTWISE)) is kernel
    file = kernel.fn.__code__.co_filename
    assert file.startswith("<jitpkg sin_mul.triton")
    assert linecache.getline(file, 5).startswith("@triton.jit")


def test_grid() -> None:
    config = POINTWISE.configs[0]
    assert grid_of(POINTWISE, config, {}) == (4,)
    source = replace(SOFTMAX, grid=("cdiv(n0, XBLOCK)", "n1 // RBLOCK"))
    assert grid_of(source, SOFTMAX.configs[0], {"n0": 5, "n1": 200}) == (3, 3)
