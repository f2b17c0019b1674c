"""Inputs that a graph gives another size, and inputs that it must not write to."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg.testing import Comparison

BACKENDS = ["eager", "aot_eager", "jitpkg"]


def added(x: Tensor, y: Tensor) -> Tensor:
    torch.add(y, 1, out=x)
    return x * 2


def twice(x: Tensor, y: Tensor) -> Tensor:
    torch.add(y, 1, out=x)
    return torch.add(torch.full((x.shape[0],), 1), 1, out=x)


def several(x: Tensor, y: Tensor) -> int:
    torch.sort(y, out=(x, torch.empty(0, dtype=torch.int64)))
    return x.shape[0]


def joined(x: Tensor, y: Tensor) -> Tensor:
    torch.cat([y, y], out=x)
    return x.sum()


def own(x: Tensor, y: Tensor) -> Tensor:
    made = torch.empty(0)
    torch.mul(x.sum(), y, out=made)
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [added, twice, several, joined, own])
@pytest.mark.parametrize("length", [0, 3, 6])
def test_out_takes_the_size_of_the_result(
    function: Callable[[Tensor, Tensor], object], length: int, backend: str
) -> None:
    ignored = ("version", "view", "traceback", "warnings")
    Comparison(backend=backend, ignore=ignored).assert_same(
        function, torch.zeros(length), torch.arange(3.0)
    )


def write(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.mul_(x)
    y[-1:] = 0.0
    return x, y


def made_inside(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    with torch.inference_mode():
        z = x + y.sort().values
    x.mul_(x)
    z[-1:] = 0.0
    return x, z


def between(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.mul_(x)
    with torch.inference_mode():
        y.add_(1)
    return x, y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [write, made_inside, between])
@pytest.mark.parametrize("around", [False, True])
def test_a_write_to_a_tensor_of_inference_mode(
    function: Callable[[Tensor, Tensor], object], around: bool, backend: str
) -> None:
    """Outside of that mode it raises, after what comes before it was done once."""

    def called(x: Tensor, y: Tensor) -> object:
        return function(x, y)

    with torch.inference_mode():
        y = torch.tensor([3.0, 2.0])
    with torch.inference_mode(around):
        Comparison(backend=backend, ignore=("version", "view")).assert_same(
            called, torch.tensor([1.0, 4.0]), y
        )


NORMS = {
    "batch_norm": functional.batch_norm,
    "instance_norm": functional.instance_norm,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("made_there", [False, True])
def test_statistics_are_written_once_where_a_later_op_fails(
    made_there: bool, around: bool, name: str, backend: str
) -> None:
    """Or where the norm itself does: it cannot write to tensors of inference mode outside of it."""

    def normed(x: Tensor, mean: Tensor, variance: Tensor, index: Tensor) -> Tensor:
        options = {"training": True} if name == "batch_norm" else {"use_input_stats": True}
        y = NORMS[name](x, mean, variance, momentum=0.5, **options)
        return y.index_select(0, index)

    with torch.inference_mode(made_there):
        x, index = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([9])
        mean, variance = torch.zeros(3), torch.ones(3)
    with torch.inference_mode(around):
        Comparison(backend=backend, ignore=("version", "traceback")).assert_same(
            normed, x, mean, variance, index
        )


def shifted(x: Tensor) -> None:
    x[1:] = x[:-1] * 2 + x[1:]


def transposed(x: Tensor) -> None:
    x.T.add_(x.sum())


def put(x: Tensor) -> None:
    x.index_put_((torch.tensor([0]),), x[1:2] + x[:1])


def stored(x: Tensor) -> None:
    torch.add(x[:1], x[1:2], out=x[2:])


def filled(x: Tensor) -> None:
    functional.relu(x.sub_(1), inplace=True)
    x.masked_fill_(x > 0, 3.0).add_(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("write", [shifted, transposed, put, stored, filled])
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_what_is_written_through_a_view_is_written_once_where_a_later_op_fails(
    mode: type[torch.inference_mode] | type[torch.no_grad],
    write: Callable[[Tensor], None],
    backend: str,
) -> None:
    def written(x: Tensor, index: Tensor) -> Tensor:
        write(x)
        return x.index_select(0, index)

    with mode():
        x, index = torch.arange(3.0) + 1, torch.tensor([9])
        Comparison(backend=backend, ignore=("version", "traceback", "warnings")).assert_same(
            written, x, index
        )


def doubled(x: Tensor, base: Tensor) -> Tensor:
    x.mul_(2)
    return base + 1


def doubled_base(x: Tensor, base: Tensor) -> Tensor:
    base.mul_(2)
    return x + 1


def viewed(x: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    return x[:1], base.view(-1)


def summed(x: Tensor, base: Tensor) -> Tensor:
    return x.sum() * base.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [doubled, doubled_base, viewed, summed])
@pytest.mark.parametrize("data", [[5.0, 6.0], [5, 6], [5.0, 6.0, 7.0]])
def test_a_view_that_was_given_other_data(
    function: Callable[[Tensor, Tensor], Any], data: list[float], backend: str
) -> None:
    def program(made_in_the_graph: bool) -> Any:
        base = torch.arange(2.0)
        x = base[:]
        x.data = torch.tensor(data)
        if not made_in_the_graph:
            jitpkg.graph_break()
        return function(x, base), x, base

    for made_in_the_graph in True, False:
        Comparison(
            backend=backend, ignore=("version", "view", "warnings", "idle strides", "grad_fn")
        ).assert_same(program, made_in_the_graph)
