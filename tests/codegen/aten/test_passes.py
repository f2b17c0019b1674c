"""Each pass: what it takes out of a graph, and what it must leave in. Results stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.codegen.aten.support import OpByOp

Rows = list[tuple[str, Callable[..., Any], tuple[Any, ...], str]]

X = torch.tensor([[-1.5, -0.0, 0.0], [2.5, float("nan"), float("-inf")]])
N = torch.arange(6).view(2, 3)


def dead(x: Tensor) -> Any:
    x.exp().sum()
    y = torch.zeros(3)
    y.add_(1)
    return x + 1


def indexed_in_vain(x: Tensor, at: Tensor) -> Any:
    x[at]
    F.embedding(at, x)
    return x + 1


def drawn_in_vain(x: Tensor) -> Any:
    torch.rand(3)
    F.dropout(x, 0.5, training=True)
    return x + 1


def divided_in_vain(n: Tensor, x: Tensor) -> Any:
    n // (n + 1), x // 2
    return n + 1


DEAD: Rows = [
    ("dead", dead, (X,), "add"),
    ("may raise", indexed_in_vain, (X, N[0] // 2), "index embedding add"),
    ("random", drawn_in_vain, (X,), "rand draw add"),
    ("integer division", divided_in_vain, (N, X), "add floor_divide"),
]


def shifted(x: Tensor) -> Any:
    return x * (torch.arange(3) * 2) + (torch.arange(3.0) * 2)


COMMON: Rows = [
    ("once", lambda x: x.exp() + x.exp(), (X,), "exp add"),
    ("twice removed", lambda x: (x + 1).sin() * (x + 1).sin(), (X,), "add sin mul"),
    ("1 and 1.0", lambda n: ((n + 1) * 2, (n + 1.0) * 2), (N,), "add mul add mul"),
    ("0.0 and -0.0", lambda x: x * 0.0 + x * -0.0, (X,), "mul mul add"),
    ("random", lambda x: torch.rand_like(x) + torch.rand_like(x), (X,), "rand_like rand_like add"),
    ("two results", lambda x: (x.exp(), x.exp()), (X,), "exp clone"),
    (
        "constants",
        lambda x: x * (torch.arange(3) * 2) + (torch.arange(3) * 2),
        (X,),
        "constant mul add",
    ),
    ("constants of two types", shifted, (X,), "constant mul constant add"),
    ("items", lambda x: x.max(1)[0] + x.max(1).values, (X,), "max getitem add"),
    (
        "attention",
        lambda x: x.softmax(-1) @ x.t() + x.softmax(-1) @ x.t(),
        (X,),
        "_softmax t mm add",
    ),
]

NO_OPS: Rows = [
    ("times one", lambda x: (x * 1 / 1.0) ** 1, (X,), "clone"),
    ("minus 0", lambda x: (x - 0).sin(), (X,), "sin"),
    ("minus -0.0", lambda x: (x - -0.0).sin(), (X,), "sub sin"),
    ("plus 0", lambda x: (x + 0).sin(), (X,), "add sin"),
    ("plus 0, of integers", lambda n: (n + 0) * 2, (N,), "mul"),
    ("another dtype", lambda n: (n * 1.0 + 0, n - 0.0), (N,), "mul add sub"),
    ("copies", lambda x: x.clone().sin().clone(), (X,), "sin"),
    ("another layout", lambda x: x.t().contiguous() + 1, (X,), "t clone add"),
    ("there and back", lambda x: x.half().float().double().float().half(), (X,), "_to_copy"),
    ("rounded", lambda x: x.half().float(), (X,), "_to_copy _to_copy"),
    ("views", lambda x: x.view(2, 3).expand(2, 3)[:, 0:].sin(), (X,), "sin"),
    ("a part", lambda x: (x + 1)[:1].clone(), (X,), "add slice clone"),
    ("whole copies", lambda x: torch.empty_like(x).copy_(x), (X,), "clone"),
]

CHAINS: Rows = [
    ("reshaped", lambda x: x.view(6).view(3, 2).unsqueeze(0).sin(), (X,), "view sin"),
    ("turned", lambda x: x.t().t().sin(), (X,), "sin"),
    (
        "turned thrice",
        lambda x: x[None].permute(2, 0, 1).transpose(0, 2).sin(),
        (X,),
        "unsqueeze permute sin",
    ),
    (
        "expanded",
        lambda x: x[:1].expand(4, 3).unsqueeze(0).expand(2, 4, 3).sin(),
        (X,),
        "slice expand unsqueeze expand sin",
    ),
    ("in two steps only", lambda x: x.t().unsqueeze(0).view(1, 3, 2).sin(), (X,), "t view sin"),
]

CONSTANTS: Rows = [
    ("mask", lambda x: x.masked_fill(torch.arange(3) > 1, 0.0), (X,), "constant masked_fill"),
    ("of a size", lambda x: torch.zeros_like(x) + x.new_ones(3), (X,), "full"),
    ("not as laid out", lambda x: torch.zeros_like(x.t()) + 1, (X,), "t zeros_like add"),
    ("returned", lambda: torch.arange(3) * 2, (), "constant clone"),
    ("negative zeros", lambda: torch.zeros(3) * -1, (), "constant clone"),
    ("large", lambda: torch.arange(5000) * 2, (), "arange mul"),
    ("random", lambda: torch.rand(3) * 0, (), "rand mul"),
    ("uninitialised", lambda x: torch.empty(3).fill_(2) * x, (X,), "full mul"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "inputs", "ops"),
    [
        pytest.param(function, inputs, ops, id=f"{kind}: {name}")
        for kind, rows in {
            "dead code": DEAD,
            "common subexpressions": COMMON,
            "no-ops": NO_OPS,
            "view chains": CHAINS,
            "constants": CONSTANTS,
        }.items()
        for name, function, inputs, ops in rows
    ],
)
def test_what_is_left(function: Callable[..., Any], inputs: tuple[Any, ...], ops: str) -> None:
    backend = OpByOp()
    backend.assert_same(function, *inputs)
    assert not backend.declined
    assert backend.names() == ops.split()
