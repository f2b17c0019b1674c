"""Rewrite rows: where they fit, where they must not, and that results stay close."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.codegen.aten.passes.rewrites import REWRITES
from tests.codegen.aten.support import OpByOp

A, B, ROW = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
Q, K, V = (torch.randn(2, 3, n, 8) for n in (5, 7, 7))


def heads(x: Tensor) -> Tensor:
    return x.view(2, 6, 3, 8).transpose(1, 2)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Any:
    weights = (q @ k.transpose(-2, -1) / math.sqrt(8)).softmax(-1)
    return weights @ v


def attended_by_heads(x: Tensor) -> Any:
    q, k, v = heads(x), heads(x + 1), heads(x * 2)
    y = (q * 0.5 @ k.transpose(-2, -1)).softmax(-1) @ v
    return y.transpose(1, 2).reshape(2, 6, 24)


def weights_returned(q: Tensor, k: Tensor, v: Tensor) -> Any:
    weights = (q @ k.transpose(-2, -1)).softmax(-1)
    return weights @ v, weights


def masked(q: Tensor, k: Tensor, v: Tensor) -> Any:
    scores = (q @ k.transpose(-2, -1)).masked_fill(q[..., :1] > 9, float("-inf"))
    return scores.softmax(-1) @ v


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return (q @ k.transpose(-2, -1)).softmax(2) @ v


ROWS: list[tuple[Callable[..., Any], tuple[Tensor, ...], str, int]] = [
    (lambda a, b, c: a @ b + c, (A, B, ROW), "addmm", 1),
    (lambda a, b, c: c + torch.mm(a, b), (A, B, ROW), "addmm", 1),
    (lambda a, b: a @ b + 1, (A, B), "addmm", 0),
    (lambda a, b, c: (a @ b).add(c, alpha=2), (A, B, ROW), "addmm", 0),
    (lambda a, b, c: a @ b + c, (A, B, torch.randn(2, 3, 5)), "addmm", 0),
    (lambda a, b, c: a @ b + c, (A, B, ROW.double()), "addmm", 0),
    (lambda a, b, c: (a @ b + c, a @ b), (A, B, ROW), "addmm", 0),
    (attended, (Q, K, V), "scaled_dot_product_attention", 1),
    (attended_by_heads, (torch.randn(2, 6, 24),), "scaled_dot_product_attention", 1),
    (weights_returned, (Q, K, V), "scaled_dot_product_attention", 0),
    (masked, (Q, K, V), "scaled_dot_product_attention", 0),
    (over_queries, (Q, K, V), "scaled_dot_product_attention", 0),
    (attended, (Q.bfloat16(), K.bfloat16(), V.bfloat16()), "scaled_dot_product_attention", 0),
]


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_rewrites(row: int) -> None:
    function, inputs, op, count = ROWS[row]
    backend = OpByOp(rewrites=REWRITES)
    backend.assert_same(function, *inputs)
    assert backend.names().count(op) == count
    if count and op != "addmm":
        assert "bmm" not in backend.names()
