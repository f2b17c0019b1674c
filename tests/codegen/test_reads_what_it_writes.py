"""Writes to memory that the op reads, too: eager code refuses some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from jitpkg.testing import Comparison, call

REFUSED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "index_copy_": lambda x, at: x.index_copy_(0, at, x[:1]),
    "index_add_": lambda x, at: x.index_add_(0, at, x[:1]),
    "index_reduce_": lambda x, at: x.index_reduce_(0, at, x[:1], "prod"),
    "index_put_": lambda x, at: x.index_put_((at,), x[:1]),
    "scatter_": lambda x, at: x.scatter_(0, at, x[:1]),
    "scatter_add_": lambda x, at: x.scatter_add_(0, at, x[:1]),
    "scatter_reduce_": lambda x, at: x.scatter_reduce_(0, at, x[:1], "sum"),
    "put_": lambda x, at: x.put_(at, x[:1]),
    "itself": lambda x, at: x.scatter_(0, at, x.view(-1)),
    "copy_": lambda x, at: x[1:].copy_(x[:-1]),
    "setitem": lambda x, at: x.__setitem__(slice(1, None), x[:-1]),
    "add_": lambda x, at: x[1:].add_(x[:-1]),
    "lerp_": lambda x, at: x[1:].lerp_(x[:-1], 0.5),
    "addcmul_": lambda x, at: x[1:].addcmul_(x[:-1], x[1:]),
    "clamp_": lambda x, at: x[1:].clamp_(min=x[:-1]),
    "eq_": lambda x, at: x[1:].eq_(x[:-1]),
    "add, out": lambda x, at: torch.add(x[1:], 1, out=x[:-1]),
    "cumsum, out": lambda x, at: torch.cumsum(x[1:], 0, out=x[:-1]),
    "index_select, out": lambda x, at: torch.index_select(x, 0, at, out=x[:1]),
}
TAKEN: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "other elements": lambda x, at: x[:2].copy_(x[2:]),
    "the same elements": lambda x, at: x[:2].add_(x[:2]),
    "augmented": lambda x, at: x[:2].__iadd__(x.view(-1)[0:2]),
    "with gaps": lambda x, at: x[::2].copy_(x[1::2]),
    "halves of rows": lambda x, at: x.view(2, 2)[:, :1].add_(x.view(2, 2)[:, 1:]),
    "what was computed": lambda x, at: x[1:].copy_(x[:-1] * 2),
    "add, the same out": lambda x, at: torch.add(x, 1, out=x),
}


def of(op: Callable[[Tensor, Tensor], Any], *, own: bool) -> Callable[..., Any]:
    """A program with an op, on an input or on what it has computed itself."""

    def program(x: Tensor, at: Tensor) -> Tensor:
        x = x + 0 if own else x
        op(x, at)
        return x * 2

    return program


def arguments() -> Any:
    return call(torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([1]))


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("name", [*REFUSED, *TAKEN])
def test_as_eager(name: str, backend: str) -> None:
    op = REFUSED.get(name) or TAKEN[name]
    for own in (False, True):
        comparison = Comparison(backend=backend, ignore=("traceback",))
        comparison.assert_same_calls(of(op, own=own), arguments(), arguments())


@pytest.mark.parametrize("name", TAKEN)
def test_what_eager_code_takes_is_compiled(name: str) -> None:
    explained = jitpkg.explain(of(TAKEN[name], own=False), backend="jitpkg")
    given = arguments()
    assert not explained(*given.args).declined


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("name", [*REFUSED, *TAKEN, "one tensor", "its real part", "its places"])
def test_with_no_elements_as_eager(name: str, backend: str) -> None:
    """What is one tensor, and not only alike, is refused without elements too."""
    op = {
        **REFUSED,
        **TAKEN,
        "one tensor": lambda x, at: x.index_copy_(0, at, x),
        "its real part": lambda x, at: x.__setitem__(at, x.real),
        "its places": lambda x, at: at.scatter_(0, at, at),
    }[name]
    nothing = call(torch.ones(1).expand(0), torch.tensor([], dtype=torch.int64))
    empty = call(torch.ones(0), torch.tensor([], dtype=torch.int64))
    for own in (False, True):
        for dynamic in (False, True):
            ignored = ("traceback", "warnings")
            comparison = Comparison(backend=backend, ignore=ignored, dynamic=dynamic)
            comparison.assert_same_calls(of(op, own=own), nothing, empty)


WITH_GAPS: dict[str, Callable[[Tensor], Any]] = {
    "augmented": lambda x: x[::2].mul_(x[0]),
    "column": lambda x: x.view(4, 3)[:, 0].add_(x.view(4, 3)[1, 0]),
    "row": lambda x: x.view(3, 4)[:, :3].mul_(x.view(3, 4)[1, :3]),
    "dense": lambda x: x.view(3, 4)[:, 1].sub_(x[5:8]),
    "shifted": lambda x: x[::2][1:].add_(x[::2][:-1]),
    "wider": lambda x: x.view(3, 4)[:, ::2].add_(x.view(3, 4)[:, 1:3]),
}


@pytest.mark.parametrize("name", WITH_GAPS)
@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_eager_code_reads_what_it_has_just_written(
    backend: str, name: str, *, dynamic: bool
) -> None:
    comparison = Comparison(backend=backend, dynamic=dynamic)
    comparison.assert_same(WITH_GAPS[name], torch.arange(2.0, 14.0))


def add_to(x: Tensor, y: Tensor) -> Tensor:
    x += y
    return x


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("step", [1, 2])
def test_augmented_with_sizes_that_vary(backend: str, step: int) -> None:
    def shifted(x: Tensor) -> None:
        x[1:] += x[:-1]

    def all_of_it(x: Tensor) -> Tensor:
        return add_to(x[:], x)

    comparison = Comparison(backend=backend, dynamic=True, ignore=("traceback",))
    for program in (shifted, all_of_it):
        arguments = (call(torch.arange(1.0, n)[::step]) for n in (10, 13))
        comparison.assert_same_calls(program, *arguments)


def _updating(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Any:
    return torch.ops.aten._batch_norm_with_update(x, a, b, a, c, 0.5, 0.6)[0]


RESPECTS = ("grad_fn", "version")
STATISTICS: dict[str, Callable[..., Any]] = {
    "weight": lambda x, a, b, c: F.batch_norm(x, a, b, a, c, training=True),
    "bias": lambda x, a, b, c: F.batch_norm(x, a, b, c, b, training=True),
    "one for both": lambda x, a, b, c: F.batch_norm(x, a, a, b, c, training=True),
    "a view": lambda x, a, b, c: F.batch_norm(x, a, b, a.view(-1), c, training=True),
    "instance": lambda x, a, b, c: F.instance_norm(x, a, b, a, c, use_input_stats=True),
    "native": lambda x, a, b, c: torch.native_batch_norm(x, a, b, a, c, True, 0.5, 0.6)[0],
    "legit": lambda x, a, b, c: torch._native_batch_norm_legit(x, a, b, a, c, True, 0.5, 0.6)[0],
    "updating": _updating,
    "not training": lambda x, a, b, c: F.batch_norm(x, a, b, a, c),
    "bias twice": lambda x, a, b, c: F.batch_norm(x, a, b, c, c, training=True),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("trained", [False, True])
def test_a_norm_reads_the_statistics_that_it_has_just_written(
    backend: str, name: str, trained: bool
) -> None:
    norm = STATISTICS[name]

    def program(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        y: Tensor = norm(x, a, b, c)
        return y * x

    x = torch.arange(24.0).sin().view(4, 3, 2).requires_grad_(trained)
    parameters = torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.25, 2.0], [1.5, 3.0, 0.5]])
    tolerant = Comparison(backend=backend, relative=1e-5, absolute=1e-6, ignore=RESPECTS)
    tolerant.assert_same(program, x, *map(torch.clone, parameters))
