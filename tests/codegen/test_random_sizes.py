"""Random programs whose sizes vary, by kernels that are given them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch import Tensor

import jitpkg
from tests.codegen.examples import examples

F = torch.nn.functional
Op = Callable[[Tensor, Tensor], Tensor]

OPS: dict[str, Op] = {
    "sin": lambda a, b: a.sin(),
    "gelu": lambda a, b: F.gelu(a),
    "plus": lambda a, b: a + b.mean() if a.shape != b.shape else a + b,
    "rows": lambda a, b: a * b.flatten()[:1],
    "sum": lambda a, b: a.sum(0),
    "mean": lambda a, b: a.mean(-1, keepdim=True),
    "max": lambda a, b: a.amax(0, keepdim=True),
    "where": lambda a, b: torch.where(a > 0, a, b.mean()),
    "softmax": lambda a, b: a.softmax(-1),
    "norm": lambda a, b: F.layer_norm(a, a.shape[-1:]),
    "cumsum": lambda a, b: a.cumsum(0),
    "flat": lambda a, b: a.reshape(-1),
    "halves": lambda a, b: a.reshape(a.shape[0], -1),
    "tail": lambda a, b: a[1:],
    "far": lambda a, b: a[2:],
    "far, by one": lambda a, b: a[2:] * a[0],
    "ends": lambda a, b: a[: a.shape[0] - 2] + a[-1:],
    "none": lambda a, b: (a[:0] * a[:1].exp()).sum(0) + a,
    "head": lambda a, b: a[..., : a.shape[0]],
    "every": lambda a, b: a[..., ::2],
    "turned": lambda a, b: a.transpose(0, -1),
    "flip": lambda a, b: a.flip(0),
    "roll": lambda a, b: a.roll(2, 0),
    "pad": lambda a, b: F.pad(a, (1, 2)),
    "cat": lambda a, b: torch.cat([a, a * 2], 0)[: a.shape[0] + 3],
    "stack": lambda a, b: torch.stack([a, a.cos()]).sum(0),
    "outer": lambda a, b: a[..., :1] * b.flatten()[:5],
    "wide": lambda a, b: a.unsqueeze(-1).expand(*a.shape, 3).sum(-1),
    "size": lambda a, b: a * a.shape[0] + b.shape[-1],
    "arange": lambda a, b: a + torch.arange(a.shape[-1]),
    "causal": lambda a, b: a.masked_fill(torch.arange(a.shape[-1]) > a.shape[0], 0.5),
    "product": lambda a, b: (a.flatten(1) @ a.flatten(1).t()).tanh(),
    "add_": lambda a, b: a.clone().add_(1.5),
    "copy": lambda a, b: a.contiguous() * 2,
}

numbers = st.integers(0, 7)


@st.composite
def programs(draw: DrawFn) -> tuple[Callable[..., Any], str]:
    steps = draw(
        st.lists(st.tuples(st.sampled_from(sorted(OPS)), numbers, numbers), min_size=1, max_size=7)
    )
    returned = draw(st.lists(numbers, min_size=1, max_size=3))
    ops = OPS

    def program(*inputs: Tensor) -> Any:
        values = list(inputs)
        for op, a, b in steps:
            values.append(ops[op](values[-1 - a % len(values)], values[-1 - b % len(values)]))
        return [values[-1 - k % len(values)] for k in returned]

    return program, f"{steps} -> {returned}"


LAYOUTS: dict[str, Callable[[list[int]], Tensor]] = {
    "plain": lambda size: torch.randn(size, dtype=torch.float64),
    "turned": lambda size: torch.randn(size[::-1], dtype=torch.float64).permute(
        *reversed(range(len(size)))
    ),
    "spread": lambda size: torch.randn(*size[:-1], 2 * size[-1], dtype=torch.float64)[..., ::2],
    "part": lambda size: torch.randn(size[0] + 2, *size[1:], dtype=torch.float64)[2:],
}


@st.composite
def inputs_of_sizes(draw: DrawFn) -> list[list[Tensor]]:
    """The inputs of several calls, of like ranks and layouts."""
    kinds = draw(
        st.lists(
            st.tuples(st.integers(2, 3), st.sampled_from(sorted(LAYOUTS)), st.booleans()),
            min_size=1,
            max_size=2,
        )
    )
    lengths = st.sampled_from([2, 3, 4, 5, 7, 8, 16, 17, 33, 40])
    calls = []
    for k in range(5):
        own = lengths if k < 3 else st.sampled_from([1, 2, 5, 9, 64])
        common = [draw(own) for _ in range(3)]
        calls.append(
            [
                LAYOUTS[layout](common[:rank] if shared else [draw(own) for _ in range(rank)])
                for rank, layout, shared in kinds
            ]
        )
    return calls


def outcome(f: Callable[..., Any], inputs: list[Tensor]) -> Any:
    with torch.no_grad():
        try:
            return f(*inputs)
        except (RuntimeError, IndexError) as error:
            return type(error)


def steps_of(x: Tensor) -> list[int]:
    """The strides that lead from one element to another."""
    if not x.numel():
        return []
    return [step for step, length in zip(x.stride(), x.shape, strict=True) if length > 1]


def check(program: tuple[Callable[..., Any], str], calls: list[list[Tensor]]) -> None:
    f, _ = program
    expected = [outcome(f, inputs) for inputs in calls]
    fast = jitpkg.compile(f, backend="jitpkg", dynamic=True)
    for inputs, wanted in zip(calls, expected, strict=True):
        found = outcome(fast, inputs)
        if isinstance(wanted, type):
            assert found is wanted
        else:
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8, equal_nan=True)
            assert list(map(steps_of, found)) == list(map(steps_of, wanted))


@examples(20)
@given(programs(), inputs_of_sizes())
def test_random_programs(
    program: tuple[Callable[..., Any], str], calls: list[list[Tensor]]
) -> None:
    check(program, calls)


@pytest.mark.usefixtures("by_triton")
@examples(8)
@given(programs(), inputs_of_sizes())
def test_random_programs_by_triton(
    program: tuple[Callable[..., Any], str], calls: list[list[Tensor]]
) -> None:
    check(program, calls)
