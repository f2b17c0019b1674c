"""Results lie in memory as eager code's do, also where AOTAutograd makes other ops of some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison, call

BACKENDS = ("jitpkg", "aot_eager")
SHAPE = (2, 3, 4, 6)
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "in order": lambda x: x,
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "a slice": lambda x: torch.cat([x, x], -1)[..., 1:7],
    "expanded": lambda x: x[:1].expand(SHAPE),
}


def random_ops(x: Tensor) -> Any:
    y = F.rrelu(x, training=True)
    return y, (F.rrelu(x, training=True) * 2).permute(3, 1, 0, 2)


def windows(x: Tensor) -> Any:
    return (
        F.interpolate(x[0], scale_factor=2),
        F.interpolate(x[0], scale_factor=2, mode="nearest-exact"),
        F.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect"),
        F.max_pool2d(x, 2),
    )


def others(x: Tensor) -> Any:
    huber = F.huber_loss(x, x * 2, reduction="none")
    return huber, F.logsigmoid(x), x.softmax(1), F.glu(x, -1), *torch.var_mean(x, 1)


def leaf(x: Tensor, *, grad: bool) -> Tensor:
    return x.detach().requires_grad_(grad)


def strides(results: Any) -> list[tuple[int, ...]]:
    every = [results] if isinstance(results, Tensor) else results
    return [x.stride() for x in every]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", [random_ops, windows, others])
def test_results_have_the_strides_of_eager_code(
    program: Callable[[Tensor], Any], backend: str
) -> None:
    ignore = ("grad_fn", "view", "version", "idle strides")
    same = Comparison(backend=backend, ignore=ignore, relative=1e-5, absolute=1e-6)
    for change in LAYOUTS.values():
        for grad in (True, False)[: 1 + (backend == "aot_eager")]:
            same.assert_same_calls(program, call(leaf(change(torch.randn(SHAPE)), grad=grad)))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_hot_lies_in_order(layout: str, backend: str, dynamic: bool | None) -> None:
    def program(index: Tensor, x: Tensor) -> Any:
        return F.one_hot(index, 5), F.one_hot(index[0], 7).t() if index.dim() == 2 else 0, x * 2

    index = LAYOUTS[layout](torch.randint(0, 5, SHAPE))
    compiled = jitpkg.compile(program, backend=backend, dynamic=dynamic)
    for given in (index, index[0, 0].t()):
        for grad in (True, False):
            x = leaf(torch.randn(3), grad=grad)
            expected, results = program(given, x), compiled(given, x)
            assert [*map(str, expected[:2])] == [*map(str, results[:2])]
            assert results[0].stride() == expected[0].stride()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_program_goes_the_way_that_the_result_says(backend: str) -> None:
    def program(x: Tensor) -> tuple[Tensor, bool]:
        y = F.rrelu(x, training=True)
        return y, y.is_contiguous()

    x = leaf(torch.randn(4, 3), grad=True).t()
    y, said = jitpkg.compile(program, backend=backend)(x)
    assert y.is_contiguous() is said is True


@pytest.mark.parametrize("backend", BACKENDS)
def test_views_of_one_result_still_share_its_memory(backend: str) -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = F.rrelu(x, training=True)
        return y, y.t()

    for grad in (True, False):
        x = leaf(torch.randn(4, 3).t(), grad=grad)
        y, turned = jitpkg.compile(program, backend=backend)(x)
        assert strides((y, turned)) == [(4, 1), (1, 4)]
        assert y.data_ptr() == turned.data_ptr()


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend: str) -> None:
    def program(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2) * 2

    compiled = jitpkg.compile(program, backend=backend, dynamic=True)
    for n in (3, 4, 5):
        x = leaf(LAYOUTS["transposed"](torch.randn(n, 2, n + 1)), grad=True)
        assert compiled(x).stride() == program(x).stride()


def test_where_strides_agree_nothing_is_copied_or_left_as_it_is() -> None:
    declined: list[events.Event] = []
    with events.STREAM.listening(declined.append):
        x = leaf(torch.randn(3, 4), grad=True)
        compiled = jitpkg.compile(lambda x: (x * 2).exp())
        compiled(x).sum().backward()
    assert not [event for event in declined if isinstance(event, events.Declined)]
    node = compiled(x).grad_fn
    assert node is not None and not node.name().startswith("Copy")
