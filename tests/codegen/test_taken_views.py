"""What requires grad is written to views that graphs return, as in eager code, or refused."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

Function = Callable[..., Any]


def off(make: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    def made(y: Tensor) -> Any:
        with torch.no_grad():
            return make(y)

    return made


MAKE: dict[str, Callable[[Tensor], Any]] = {
    "unbind": lambda y: y.unbind()[0],
    "split into sizes": lambda y: y.split([1, 1], 1)[1],
    "tensor_split": lambda y: y.tensor_split(2)[0],
    "a view of one": lambda y: y.unbind()[0][:1],
    "an item": lambda y: y[0],
    "transposed": lambda y: y.t(),
    "detached": lambda y: y.detach(),
    "unbind of what was detached": lambda y: y.detach().unbind()[0],
    "unbind without grad mode": off(lambda y: y.unbind()[0]),
    "detached without grad mode": off(lambda y: y.detach()),
    "an item without grad mode": off(lambda y: y[0]),
}
OF: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "made of nothing": lambda x, c: torch.ones(2, 2),
    "made of what requires grad": lambda x, c: x * 2,
    "made of what was detached": lambda x, c: x.detach() * 2,
    "an input": lambda x, c: c,
    "a detached input": lambda x, c: x.detach(),
}
RETURNED: dict[str, Callable[[Tensor, Callable[[Tensor], Any]], tuple[Tensor, ...]]] = {
    "alone": lambda y, make: (make(y),),
    "beside another": lambda y, make: (make(y), y[0]),
    "beside both": lambda y, make: (y, make(y), y[0]),
    "beside a view of it": lambda y, make: (make(y), make(y)[:1]),
}


def set_where(v: Tensor, s: Tensor) -> None:
    v[torch.ones(v.shape, dtype=torch.bool)] = s


FIRST = torch.zeros(1, dtype=torch.long)
WRITE: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "mul_": lambda v, s: v.mul_(s),
    "augmented": lambda v, s: operator.iadd(v, s),
    "fill_": lambda v, s: v.fill_(s),
    "index_fill_": lambda v, s: v.index_fill_(0, FIRST, s),
    "masked_fill_": lambda v, s: v.masked_fill_(torch.ones(v.shape, dtype=torch.bool), s),
    "setitem": lambda v, s: operator.setitem(v, 0, s),
    "all of it": lambda v, s: operator.setitem(v, ..., s),
    "where": set_where,
    "index_put_": lambda v, s: v.index_put_((FIRST,), s),
    "index_add_": lambda v, s: v.index_add_(0, FIRST, s.expand(v[:1].shape)),
    "clamp_": lambda v, s: v.clamp_(s),
    "copy_": lambda v, s: v.copy_(s),
    "addcmul_": lambda v, s: v.addcmul_(s, s),
    "no gradient": lambda v, s: v.mul_(2),
}


def outcome(function: Function, write: Callable[[Tensor, Tensor], Any], place: int) -> list[Any]:
    """What the results are, and require, after a write to one; or how that is refused."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    c = torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    results = function(x, c)
    try:
        write(results[place], x.sum())
    except RuntimeError as error:
        return [said(error)]
    return [seen(each, x) for each in (*results, c)]


def seen(result: Tensor, x: Tensor) -> list[Any]:
    try:
        about = [result.tolist(), result.requires_grad, result.grad_fn is None]
        if result.requires_grad:
            loss = result.sum()
            (grad,) = torch.autograd.grad(loss, x, retain_graph=True, allow_unused=True)
            about.append(grad if grad is None else grad.tolist())
    except RuntimeError as error:  # what it shows was written to
        return [said(error)]
    return about


def said(error: RuntimeError) -> str:
    return re.sub(r"Output \d of \w+ is", "Output is", str(error))


@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager"])
@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("of", OF)
def test_views_in_any_company(of: str, returned: str, backend: str) -> None:
    for name, make in MAKE.items():

        def program(x: Tensor, c: Tensor, make: Callable[[Tensor], Any] = make) -> Any:
            loss = x.sum()
            return (*RETURNED[returned](OF[of](x, c), make), loss)

        try:
            places = len(program(torch.ones(2, 2, requires_grad=True), torch.ones(2, 2))) - 1
        except RuntimeError:
            continue
        compiled = jitpkg.compile(program, backend=backend)
        for place in range(places):
            expected = outcome(program, WRITE["mul_"], place)
            assert outcome(compiled, WRITE["mul_"], place) == expected, (name, place)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager", "eager"])
@pytest.mark.parametrize("make", ["unbind", "tensor_split", "an item", "unbind without grad mode"])
def test_any_write(make: str, backend: str, dynamic: bool | None) -> None:
    def program(x: Tensor, c: Tensor) -> Any:
        y = torch.ones(x.shape)
        return MAKE[make](y), y, x.sum()

    compiled = jitpkg.compile(program, backend=backend, dynamic=dynamic)
    for name, write in WRITE.items():
        assert outcome(compiled, write, 0) == outcome(program, write, 0), name


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("backend", ["jitpkg", "aot_eager", "eager"])
@pytest.mark.parametrize("write", WRITE)
def test_a_write_in_the_same_function(write: str, backend: str, breaks: bool) -> None:
    def program(x: Tensor, c: Tensor) -> Any:
        y = torch.ones(2, 2)
        view = y.unbind()[0]
        loss = x.sum()
        if breaks:
            jitpkg.graph_break()
        try:
            WRITE[write](view, loss)
        except RuntimeError as error:
            return y, loss, said(error)
        return view, y, ""

    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(3):
        expected, results = (f(*given()) for f in (program, compiled))
        assert expected[2] == results[2]
        assert [x.requires_grad for x in expected[:2]] == [x.requires_grad for x in results[:2]]


def given() -> tuple[Tensor, Tensor]:
    return torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)


CHAINS: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "detached": lambda x: (y := x.detach(), y[0]),
    "detached, two": lambda x: (y := x.detach(), y[0], y[1], y.t()),
    "detached, hidden": lambda x: ((y := x.detach())[0], y[1]),
    "detached twice": lambda x: (x.detach(), x.detach()[0]),
    "detached, of a result": lambda x: (y := x * 2, z := y.detach(), z[0]),
    "made": lambda x: (y := torch.ones(2, 2), y[0]),
    "made, hidden": lambda x: ((y := torch.ones(2, 2))[0], y.view(4)),
    "views of views": lambda x: (y := x.detach(), z := y.t(), z[0], z[0]),
    "a view twice": lambda x: (y := x.detach(), y[0], y[0]),
    "of a number": lambda x: (y := torch.full((2, 2), 2.0), y.view(4), y.view(4)[:2]),
}


@pytest.mark.parametrize("written", range(4))
@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
def test_what_is_detached_is_one_tensor(
    backend: str, chain: str, no_grad: bool, written: int
) -> None:
    """Who writes to it what requires grad sees that in views of it, and the other way round."""

    def known(f: Callable[[Tensor], tuple[Tensor, ...]]) -> list[object]:
        with torch.set_grad_enabled(not no_grad):
            results = f(torch.ones(2, 2))
        weight = torch.tensor(3.0, requires_grad=True)
        try:
            results[written % len(results)].mul_(weight)
        except RuntimeError as error:
            return [str(error).partition(".")[0]]
        return [(x.requires_grad, x.tolist()) for x in results]

    f = CHAINS[chain]
    assert known(jitpkg.compile(f, backend=backend)) == known(f)


def after(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x[:1]


def before(x: torch.Tensor) -> torch.Tensor:
    y = x[:1]
    x.mul_(2)
    return y


def between(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    y = x[:1]
    x.add_(1)
    return y


def through_it(x: torch.Tensor) -> torch.Tensor:
    y = x[:1]
    y.mul_(2)
    return y


def through_another(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x[:1]
    x[1:].mul_(2)
    return y, x[1:]


@needs_llvm
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("function", [after, before, between, through_it, through_another])
@pytest.mark.parametrize("size", [3, 0])
def test_a_view_that_is_taken_without_gradients_before_or_after_a_write(
    function: Callable[..., Any], backend: str, size: int
) -> None:
    with torch.no_grad():
        Comparison(backend=backend, ignore=("grad_fn", "view")).assert_same_calls(
            function, *[call(torch.ones(size, requires_grad=True)) for _ in range(2)]
        )
