"""Graphs whose sizes vary, prepared for each set of sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from jitpkg.codegen.sizes.by_size import MOST, BySize
from jitpkg.testing import Comparison, call
from tests.codegen.aten.support import HOW, OpByOp


def backend_for(op_by_op: OpByOp) -> Callable[..., Any]:
    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return BySize(gm, op_by_op).compiled(inputs)

    return backend


def program(x: Tensor, n: int) -> Any:
    y = x.view(x.shape[0], -1) + torch.arange(x.shape[0] * n)[:, None][: x.shape[0]]
    x.mul_(2)
    return y, x.new_zeros(n, x.shape[1]), y.sum(0).expand(n, -1)


def test_one_preparation_for_each_size() -> None:
    op_by_op = OpByOp()
    sizes = [(3, 4), (5, 4), (5, 6), (3, 4), (5, 6), (2, 4)]
    Comparison(backend=backend_for(op_by_op), ignore=HOW, dynamic=True).assert_same_calls(
        program, *(call(torch.randn(size), 3) for size in sizes)
    )
    assert not op_by_op.declined
    assert len(op_by_op.prepared) == 4


def test_so_many_at_most() -> None:
    op_by_op = OpByOp()
    Comparison(backend=backend_for(op_by_op), ignore=HOW, dynamic=True).assert_same_calls(
        program, *(call(torch.randn(n, 4), 2) for n in range(2, MOST + 5))
    )
    assert len(op_by_op.prepared) == MOST


def test_a_size_that_cannot_be_compiled_runs_as_it_is() -> None:
    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def compile_(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            if inputs[0].shape[0] == 5:
                raise ValueError
            return OpByOp()(gm, inputs)

        return BySize(gm, compile_).compiled(inputs)

    Comparison(backend=backend, ignore=HOW, dynamic=True).assert_same_calls(
        program, *(call(torch.randn(n, 4), 2) for n in (3, 5, 5))
    )
