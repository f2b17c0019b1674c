"""Functions that take sizes for plain numbers: compiled twice, and right for each size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import jitpkg
from jitpkg import config, events
from tests.codegen.examples import examples
from tests.varying.test_varying import same

SIZES = (6, 8, 11, 14, 23, 40)
"""Of a dim that varies."""


def counts(f: Callable[..., Any], calls: list[torch.Tensor], backend: str) -> tuple[int, int]:
    """How often calls make it trace, and compile kernels; each is compared with eager code."""
    heard: list[Any] = []
    with (
        config.patch(recompile_limit=40, never_worse=False),
        events.STREAM.listening(heard.append),
    ):
        compiled = jitpkg.compile(f, backend=backend)
        for x in calls:
            expected, found = f(x), compiled(x)
            assert alike(expected, found), (x.shape, expected, found)
            assert found.requires_grad is expected.requires_grad
    kinds = [type(event) for event in heard]
    return kinds.count(events.Traced), kinds.count(events.Fused)


def alike(expected: torch.Tensor, found: torch.Tensor) -> bool:
    """Kernels, and AOTAutograd's decompositions, round in their own way."""
    facts = [(x.dtype, x.shape, x.stride()) for x in (expected, found)]
    return facts[0] == facts[1] and torch.allclose(expected, found, atol=1e-5)


def costs_nothing_a_third_time(f: Callable[..., Any], backend: str) -> None:
    traced, compiled = counts(f, rows_of(), backend)
    assert traced == 2
    assert compiled == (2 if backend == "jitpkg" else 0)


def rows_of(columns: int = 3) -> list[torch.Tensor]:
    return [torch.randn(n, columns) for n in SIZES]


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one_hot": lambda x: F.one_hot(x.argmax(0), x.size(0)),
    "one_hot of a matrix": lambda x: F.one_hot(x.long().abs(), num_classes=x.size(0) * 2) * 2,
    "a tensor of a number": lambda x: x * torch.tensor(x.size(0)),
    "a tensor of numbers": lambda x: x.sum() + torch.tensor([x.size(0), 3, x.size(0) * 2]),
    "floats of a number": lambda x: x.mean() / torch.tensor(len(x), dtype=torch.float64),
    "linspace": lambda x: torch.linspace(0, 1, x.size(0)) + x[:, 0],
    "linspace of doubles": lambda x: torch.linspace(-1, 2.5, steps=len(x), dtype=torch.float64) * 2,
    "logspace": lambda x: torch.logspace(0, 1, x.size(0), base=2) + x[:, 0],
    "hann_window": lambda x: torch.hann_window(x.size(0))[:, None] * x,
    "hamming_window": lambda x: torch.hamming_window(x.size(0), periodic=False)[:, None] * x,
    "max_pool1d": lambda x: F.max_pool1d(x.t()[None], 2),
    "max_pool1d of a matrix": lambda x: F.max_pool1d(x.t().contiguous(), 3, 1, 1),
    "interpolate by a factor": lambda x: F.interpolate(x.t()[None], scale_factor=1.5),
    "interpolate to a size": lambda x: F.interpolate(x.t()[None], size=x.size(0) * 3 + 1),
    "interpolate to a fixed size": lambda x: F.interpolate(x.t()[None], size=7, mode="linear"),
    "interpolate images": lambda x: F.interpolate(
        x[None, None], scale_factor=(2.0, 0.5), mode="bilinear"
    ),
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_third_size_costs_nothing(name: str, backend: str) -> None:
    costs_nothing_a_third_time(FUNCTIONS[name], backend)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "max_pool1d" not in name])
def test_trained_it_is_traced_twice(name: str) -> None:
    calls = [x.requires_grad_() for x in rows_of()]
    assert counts(FUNCTIONS[name], calls, "aot_eager")[0] == 2


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_what_does_not_follow_the_rule(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.linspace(0, 1, len(x), requires_grad=True) * 2, torch.linspace(
            0, 9, len(x), dtype=torch.int64
        )

    compiled = jitpkg.compile(f, backend=backend)
    for x in rows_of():
        for found, expected in zip(compiled(x), f(x), strict=True):
            assert same(found, expected)
            assert found.requires_grad is expected.requires_grad


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_a_class_that_is_not_there(backend: str) -> None:
    def f(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.one_hot(index, x.size(0)) + 1

    compiled = jitpkg.compile(f, backend=backend)
    for n in SIZES:
        x = torch.ones(n)
        assert same(compiled(torch.arange(n), x), f(torch.arange(n), x))
    for index in (torch.arange(9), torch.tensor([-1, 2])):
        with pytest.raises(RuntimeError, match=r"Class values must be") as expected:
            f(index, torch.ones(7))
        with pytest.raises(RuntimeError) as found:
            compiled(index, torch.ones(7))
        assert str(found.value) == str(expected.value)


def image(shape: tuple[int, ...], order: list[int], *, grad: bool) -> torch.Tensor:
    """An image whose dims lie in memory in this order."""
    x = torch.randn([shape[dim] for dim in order])
    return x.permute([order.index(dim) for dim in range(len(shape))]).requires_grad_(grad)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@examples(12)
@given(data=st.data())
def test_any_pools(backend: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(2, 3))
    kernel = data.draw(st.integers(1, 4))
    settings = (
        data.draw(st.sampled_from([None, 1, 2, 3])),
        data.draw(st.integers(0, kernel // 2)),
        data.draw(st.integers(1, 3)),
        data.draw(st.booleans()),
    )
    lead = tuple(data.draw(st.integers(1, 3)) for _ in range(rank - 1))
    grad = data.draw(st.booleans())
    order = list(range(rank)) if grad else data.draw(st.permutations(range(rank)))
    calls = [image((*lead, n), order, grad=grad) for n in (10, *SIZES[2:])]
    counts(lambda x: F.max_pool1d(x, kernel, *settings), calls, backend)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@examples(12)
@given(data=st.data())
def test_any_resizing(backend: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(3, 4))
    usual = {3: ["nearest", "nearest-exact", "linear"], 4: ["nearest", "bilinear", "bicubic"]}
    how: dict[str, Any] = {"mode": data.draw(st.sampled_from(usual[rank]))}
    if "nearest" not in how["mode"]:
        how["align_corners"] = data.draw(st.sampled_from([None, False, True]))
    factor = st.sampled_from([0.5, 1.5, 2.5, 3, 0.3, 1.7, 0.25, 2.0])
    factors = data.draw(st.lists(factor, min_size=rank - 2, max_size=rank - 2))
    if data.draw(st.booleans()):
        how["scale_factor"] = factors
    else:
        how["size"] = [int(10 * each) for each in factors]
    lead = tuple(data.draw(st.integers(1, 3)) for _ in range(2))
    grad = data.draw(st.booleans())
    order = list(range(rank)) if grad else data.draw(st.permutations(range(rank)))
    calls = [image((*lead, *[n, n + 1][: rank - 2]), order, grad=grad) for n in (9, 12, 17, 20)]
    counts(lambda x: F.interpolate(x, **how), calls, backend)
