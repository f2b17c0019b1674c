"""Calls with tensors of ever other layouts: compiled code sees what eager code sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import jitpkg
from jitpkg import config
from tests.codegen.examples import examples
from tests.varying.layouts import Layout, difference, layouts, seen

Program = Callable[..., Any]


def metadata(x, y):
    return x.stride(), x.is_contiguous(), x.numel(), x.dim(), y.stride(), x.t().is_contiguous()


def elementwise(x, y):
    return x * 2 + 1, -x, x.abs().float(), x > 0


def together(x, y):
    return x + y, torch.where(x > y, x, y), x.mul(y).t()


def views(x, y):
    return x.t(), x[None], x[..., None], x.unsqueeze(1), x[:1], x[:, :1], x.expand(2, *x.shape)


def more_views(x, y):
    return x.view_as(x), x.detach(), x.movedim(0, 1), x.transpose(0, 1)[1:], x.squeeze(), x[:, None]


def made_alike(x, y):
    z = torch.zeros_like(x), x.clone(), x.contiguous(), x.new_zeros(x.shape), torch.ones_like(x.t())
    return z, torch.zeros_like(x, memory_format=torch.contiguous_format), x.double()


def shaped(x, y):
    return (
        x.reshape(-1),
        x.reshape(x.shape[1], -1) if x.shape[1] else x,
        x.flatten(),
        x.t().reshape(-1),
    )


def summed(x, y):
    return x.sum(), x.sum(0), x.sum(1, keepdim=True), x.t().sum(0, keepdim=True)


def joined(x, y):
    return torch.cat([x, x]), torch.stack([x, x], 1), torch.cat([x.t(), x.t()], 1)


def multiplied(x, y):
    return x @ x.t(), x.t() @ x, x.t() @ y if x.shape == y.shape else y


def written(x, y):
    z = x.clone()
    z.add_(1)
    z[:1] = 3
    z.t().mul_(2)
    return z, z.t()


def indexed(x, y):
    at = torch.arange(x.shape[0])
    return x[at], x.index_select(0, at), x.gather(0, (x * 0).long()) if x.numel() else x


def copied(x, y):
    return x.to(torch.float64), x.t().contiguous(), x.contiguous().t(), F.pad(x, (1, 1)), x.flip(0)


def branching(x, y):
    if x.stride(0) > x.stride(1):
        return x + 1
    return x - 1, x.stride(0) * 2


def strides_of_results(x, y):
    both = x + y.t() if x.shape == y.t().shape else x
    made = x * 2, both, x.clone(), x.flip(0), x > 0, x[:, None] + 1
    views = x.t(), x[:1], x[:, 1:], x.unflatten(0, (x.shape[0], 1)), x[None], x.expand(2, *x.shape)
    alike = torch.zeros_like(x.t()), torch.full_like(x, 2), x.new_ones(x.shape), x.double()
    return [z.stride() for z in (*made, *views, *alike)], [z.is_contiguous() for z in made]


def placed(x, y):
    return (
        x.storage_offset(),
        x[1:].storage_offset(),
        x.t().storage_offset(),
        x.data_ptr() == y.data_ptr(),
    )


PROGRAMS = (
    metadata,
    strides_of_results,
    placed,
    elementwise,
    together,
    views,
    more_views,
    made_alike,
    shaped,
    summed,
    joined,
    multiplied,
    written,
    indexed,
    copied,
    branching,
)


def image_views(x):
    return (
        x.permute(0, 2, 3, 1),
        x[:, 0],
        x.flatten(2),
        x.unflatten(1, (x.shape[1], 1)),
        x[:, :, None],
    )


def image_ops(x):
    return x * 2, x + x.mean((2, 3), keepdim=True), torch.zeros_like(x), x.clone(), x.relu()


def image_kinds(x):
    last = torch.channels_last
    return x.is_contiguous(memory_format=last), x.contiguous(memory_format=last), x.stride()


def image_layers(x):
    weight = torch.arange(9.0).reshape(1, 1, 3, 3).expand(2, x.shape[1], 3, 3).to(x.dtype)
    y = F.conv2d(x, weight, padding=1)
    return (
        y,
        y.stride(),
        torch.zeros_like(x.softmax(1)),
        F.pad(x, (1, 0, 0, 1)),
        F.avg_pool2d(y, 2, padding=1),
        x.amax((2, 3)),
    )


IMAGES = (image_views, image_ops, image_kinds, image_layers)


def compared(
    program: Program, calls: list[tuple[Any, ...]], backend: str, dtype: torch.dtype, **how: Any
) -> int:
    """Call a program by turns, eagerly and compiled; return how often it was traced."""
    heard: list[Any] = []
    with (
        config.patch(recompile_limit=40),
        jitpkg.events.STREAM.listening(heard.append),
    ):
        compiled = jitpkg.compile(program, backend=backend, **how)
        for k, call in enumerate(calls):
            results = []
            for function in (program, compiled):
                given = [
                    each.tensor(k, dtype) if isinstance(each, Layout) else each for each in call
                ]
                try:
                    results.append((seen(function(*given), given), seen(given, [])))
                except (RuntimeError, IndexError, ValueError) as error:
                    results.append((type(error), str(error)))
            where = f"call {k} of {program.__name__}, {call}"
            assert results[0] == results[1], f"{where}: {difference(*results)}"
    return sum(isinstance(event, jitpkg.events.Traced) for event in heard)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", PROGRAMS)
@examples(6)
@given(data=st.data())
def test_any_layouts(program: Program, backend: str, data: st.DataObject) -> None:
    one, other = (data.draw(layouts(2)) for _ in range(2))
    pairs = st.tuples(layouts(2) | st.just(one), layouts(2) | st.just(other))
    calls = data.draw(st.lists(pairs, min_size=3, max_size=7))
    how = data.draw(st.sampled_from([{}, {}, {}, {"dynamic": True}]))
    compared(program, calls, backend, torch.float32, **how)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", IMAGES)
@examples(6)
@given(data=st.data())
def test_any_images(program: Program, backend: str, data: st.DataObject) -> None:
    each = st.tuples(layouts(4, 1, 4))
    calls = data.draw(st.lists(each, min_size=3, max_size=6))
    compared(program, calls, backend, torch.float32)


PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
"""Sizes and gaps of which no two are equal, and none is the product of others."""

GENERAL = (elementwise, together, views, more_views, made_alike, summed, joined, written, copied)
"""Programs that go one way for all sizes from 2 on."""


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", GENERAL)
@examples(3)
@given(data=st.data())
def test_one_way_is_traced_twice(program: Program, backend: str, data: st.DataObject) -> None:
    """Once with numbers, and once more for all sizes and strides."""
    like = data.draw(layouts(2, 2, 2))
    fixed = data.draw(st.sampled_from([None, None, 0, 1]))
    gaps = data.draw(st.tuples(st.booleans(), st.booleans()))

    def call(k: int) -> tuple[Layout, Layout]:
        numbers = [PRIMES[(4 * k + 5 * n) % len(PRIMES)] + 41 * k for n in range(4)]
        size = tuple(1 if dim == fixed else numbers[dim] for dim in range(2))
        before = tuple(numbers[2 + dim] if gaps[dim] else 0 for dim in range(2))
        idle = (None if fixed is None else 50 + k,) * 2
        made = replace(like, size=size, before=before, behind=before, idle=idle)
        return made, made

    assert compared(program, [call(k) for k in range(6)], backend, torch.float32) <= 2
