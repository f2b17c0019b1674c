"""Results that are one of several views: eager code lets nobody write to them, nor do we."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg.testing import Comparison, call

MAKE: dict[str, Callable[[Tensor], Any]] = {
    "unbind": lambda y: y.unbind(0)[0],
    "unpacked": lambda y: [*y][1],
    "split": lambda y: y.split(2)[0],
    "chunk": lambda y: torch.chunk(y, 2, 1)[1],
    "tensor_split": lambda y: y.tensor_split(2)[0],
    "hsplit": lambda y: torch.hsplit(y, 2)[0],
    "a view of one": lambda y: y.split(2)[0].view(-1)[1:],
    "computed of one": lambda y: y.split(2)[0] * 2,
    "a single view": lambda y: y[0],
    "both": lambda y: (lambda part: part[:1])(y.unbind(0)[0]),
}


def after_a_break(make: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def program(x: Tensor) -> Any:
        y = x.exp() * 2
        part = make(y)
        jitpkg.graph_break()
        try:
            part.mul_(3)
        except RuntimeError:
            refused = True
        else:
            refused = False
        return part, y, refused

    return program


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", MAKE)
def test_as_eager(name: str, grad: bool, backend: str) -> None:
    given = [call(torch.randn(4, 4, requires_grad=grad)) for _ in range(3)]
    comparison = Comparison(backend=backend, ignore=("grad_fn", "view", "version"), relative=1e-5)
    comparison.assert_same_calls(after_a_break(MAKE[name]), *given)


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
def test_who_calls_may_not_write_to_them_either(backend: str) -> None:
    compiled = jitpkg.compile(lambda x: (x * 2).chunk(2), backend=backend)
    first, _ = compiled(torch.ones(4, requires_grad=True))
    with pytest.raises(RuntimeError, match="multiple views"):
        first.mul_(2)


WRITE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "mul_": lambda v, p: v.mul_(p),
    "augmented": lambda v, p: operator.iadd(v, p),
    "copy_": lambda v, p: v.copy_(p),
    "setitem": lambda v, p: operator.setitem(v, 0, p[0]),
    "no gradient": lambda v, _: v.mul_(2),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("of", ["made", "given"])
@pytest.mark.parametrize("write", WRITE)
def test_a_view_taken_without_grad_is_not_written_to_with_it(
    write: str, of: str, backend: str
) -> None:
    def program(x: Tensor, p: Tensor) -> Any:
        y = x + 1 if of == "made" else x
        z = y.exp()
        with torch.no_grad():
            v = y.view(-1)
        jitpkg.graph_break()
        try:
            WRITE[write](v, p)
        except RuntimeError as error:
            return y.detach() + 1, z, str(error)
        return y, z, v

    given = [call(torch.randn(4), nn.Parameter(torch.randn(4))) for _ in range(3)]
    comparison = Comparison(backend=backend, ignore=("grad_fn", "view", "version"), relative=1e-5)
    comparison.assert_same_calls(program, *given)


LEAVES: dict[str, Callable[[], Tensor]] = {
    "dense": lambda: torch.randn(4, 4),
    "rows repeated": lambda: torch.randn(1, 4).expand(4, 4),
    "columns repeated": lambda: torch.randn(4, 1).expand(4, 4),
    "one element": lambda: torch.randn(1, 1).expand(4, 4),
    "windows": lambda: torch.randn(10).as_strided((4, 4), (2, 1)),
    "every other": lambda: torch.randn(4, 8)[:, ::2],
}

TAKE: dict[str, Callable[[Tensor], Any]] = {
    "unbind": lambda x: x.unbind(0),
    "unbind columns": lambda x: x.unbind(-1),
    "split": lambda x: x.split(3),
    "split with sizes": lambda x: x.split([1, 3], 1),
    "chunk": lambda x: x.chunk(2, 1),
    "tensor_split": lambda x: x.tensor_split((1, 2)),
    "hsplit": lambda x: torch.hsplit(x, 2),
    "vsplit": lambda x: torch.vsplit(x, 2),
    "dsplit": lambda x: torch.dsplit(x[None], 2),
    "a view of one": lambda x: x.unbind(1)[1][1:],
    "several views of one": lambda x: x[1:].unbind(0)[0].split(2),
    "a single view": lambda x: x[1:],
    "both": lambda x: (x.t(), *x.unbind(1)),
    "as it is": lambda x: x.view_as(x),
    "windows": lambda x: x.unfold(1, 2, 1),
    "windows of what is made": lambda x: (x * 2).unfold(0, 3, 1),
    "windows, and what they are of": lambda x: (lambda y: (y, y.unfold(0, 3, 1)))(x * 2),
    "strided": lambda x: (x * 2).as_strided((3, 3), (1, 2)),
    "expanded": lambda x: x.exp()[:1].expand(4, 4),
}


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("take", TAKE)
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_views_of_what_lies_in_any_way(
    take: str, leaf: str, backend: str, dynamic: bool
) -> None:
    """Each element has a gradient of its own, where some share memory, in leaves or results."""
    compiled = jitpkg.compile(TAKE[take], backend=backend, dynamic=dynamic)
    for seed in range(2):
        gradients, strides = [], []
        for function in (compiled, TAKE[take]):
            torch.manual_seed(seed)
            x = LEAVES[leaf]().detach().requires_grad_()
            results = function(x)
            each = (results,) if isinstance(results, Tensor) else tuple(results)
            strides.append([y.stride() for y in each])
            torch.autograd.backward([(y * torch.randn(y.shape)).sum() for y in each])
            gradients.append(x.grad)
        assert strides[0] == strides[1]
        torch.testing.assert_close(*gradients)
