"""Programs with views, writes and results that share memory, as functional graphs of ATen ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import jitpkg
from jitpkg.codegen.aten.runtime import op_by_op
from jitpkg.testing import Comparison
from tests.codegen.aten.support import OpByOp

Make = Callable[[], Any]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Make, ...]]] = {}
DECLINED: dict[str, tuple[str, Callable[..., Any], tuple[Make, ...]]] = {}


def program(*make: Make) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = function, make
        return function

    return keep


def declined(why: str, *make: Make) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        DECLINED[function.__name__] = why, function, make
        return function

    return keep


def of(*shape: int) -> Make:
    return lambda: torch.randn(shape)


# Results


@program(of(3, 4), of(4))
def pointwise(x: Tensor, y: Tensor) -> Any:
    return (x + y).relu() * 2, x.sum(1), (x > 0)


@program(of(3, 4))
def the_input_itself(x: Tensor) -> Any:
    return x, x.contiguous(), x.float(), x.expand(3, 4)


@program(of(3, 4))
def views_of_an_input(x: Tensor) -> Any:
    return x.t(), x[1:, ::2], x.view(2, 6).unsqueeze(0), x.detach(), x.flatten()


@program(lambda: torch.randn(6, 8)[1:4, 2:6])
def views_of_an_input_that_is_one(x: Tensor) -> Any:
    return x.t(), x[1:, ::2] + 1, x[0].unsqueeze(0)


@program(of(4, 4))
def views_of_what_is_made(x: Tensor) -> Any:
    y = x * 2
    return y, y.t(), y[0], y.view(-1), y


@program(of(4, 4))
def views_of_another_dtype(x: Tensor) -> Any:
    y = x + 1
    return y.view(torch.int32), x.view(torch.int16)[0], y.view(torch.int32) + 1


@program(of(4, 4))
def a_view_only(x: Tensor) -> Any:
    return (x * 2).t().unsqueeze(0)[:, 1:]


@program(of(4, 6))
def parts(x: Tensor) -> Any:
    a, b, c = x.split([1, 2, 3], dim=1)
    d, e = (x + 1).chunk(2, dim=0)
    return a, b + c.sum(), d, e * 2, x.unbind(0)[2], (x * 3).unbind(1)[0]


@program(of(4, 6))
def copies(x: Tensor) -> Any:
    return x.clone(), x.t().contiguous(), x.to(torch.float64), x.clone().view(-1)


@program(of(4, 6))
def one_value_twice(x: Tensor) -> Any:
    return x + 1, x + 1, x.relu(), x.relu()


@program()
def nothing_given() -> Any:
    return torch.arange(5) + 1, torch.zeros(2, 3), torch.full((2,), 7)


@program(of(3, 4))
def results_of_one_op(x: Tensor) -> Any:
    found = x.max(dim=1)
    return found.values, found.indices + 1, x.topk(2)[1], x.sort(dim=0)


@program(of(2, 3, 4, 4), of(5, 3, 3, 3), of(5))
def layers(x: Tensor, w: Tensor, b: Tensor) -> Any:
    y = F.conv2d(x, w, b, padding=1)
    return (
        F.max_pool2d(y, 2),
        F.layer_norm(y, (4, 4)),
        F.softmax(y, 1),
        F.linear(x, w[0, 0, :, 0:1].expand(3, 4)),
    )


@program(of(2, 3, 5, 8))
def attention(q: Tensor) -> Any:
    y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    return y, y.transpose(1, 2).reshape(2, 5, 24)


@program(lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last), of(3, 1, 1))
def channels_last(x: Tensor, y: Tensor) -> Any:
    return x * y, x.relu(), x.flatten(1), y.expand_as(x) + x


@program(of(0, 3), of(3, 2))
def empty(x: Tensor, w: Tensor) -> Any:
    return x @ w, x.sum(), x * 2


@program(lambda: torch.randint(0, 9, (4,)), of(9, 3))
def by_index(at: Tensor, w: Tensor) -> Any:
    return F.embedding(at, w), w[at], w[at, 0], torch.gather(w, 0, at[:, None])


@program(lambda: torch.randint(0, 9, (4,)))
def integers(x: Tensor) -> Any:
    return x // 2, x % 3, x + 0.5, x.float() / 2, (x & 1) | 2, x.cumsum(0), ~(x > 2)


@program(of(3, 3))
def without_rows(x: Tensor) -> Any:
    return torch.linalg.det(x), torch.cross(x, x + 1, dim=1), x.tril(), torch.tensor([1.0, 2.0])


@program(of(4, 6))
def known_by_no_row(x: Tensor) -> Any:
    y = x.roll(1, 0).flip(1)
    y.atan_().tril_()
    z = y.unfold(1, 2, 2)
    y.copysign_(x[0, 0])
    return y, z, torch.logaddexp(x, y), x.cummax(0)[0]


# Random numbers


@program(of(5, 5))
def random(x: Tensor) -> Any:
    y = F.dropout(x, 0.3, training=True)
    z = torch.rand(3)
    return y, torch.rand_like(x) + z.sum(), torch.bernoulli(x.sigmoid())


@program(of(5, 5))
def random_numbers_that_nothing_uses(x: Tensor) -> Any:
    torch.rand(7)
    F.dropout(x, 0.3, training=True)
    return torch.rand_like(x)


# Writes to what is made


@program(of(4, 4))
def writes(x: Tensor) -> Any:
    y = x * 2
    y.add_(1).mul_(x).relu_()
    y += 3
    z = y.clone()
    z.zero_()
    u = torch.empty_like(x)
    u.fill_(7)
    u[1] = x[0]
    return y, z, u.clamp_(min=0.5)


@program(of(4, 6))
def writes_through_views(x: Tensor) -> Any:
    y = x + 1
    y.t()[0].mul_(3)
    y[1:, ::2].add_(1)
    y.view(2, 12)[0, 3] = 5
    y.unsqueeze(1).squeeze(1).permute(1, 0).sub_(2)
    y.diagonal().fill_(9)
    for part in y.unbind(0):
        part.mul_(2)
    a, b = y.split([2, 4], dim=1)
    b.copy_(a.sum())
    return y, a


@program(of(4, 6))
def a_view_sees_a_write(x: Tensor) -> Any:
    y = x + 1
    row, flat = y[0], y.view(-1)
    before = row * 1
    y.mul_(2)
    flat[2:4].add_(1)
    return row, before, flat.sum(), y


@program(of(4, 6), of(6, 4))
def the_layout_of_what_is_written_stays(x: Tensor, y: Tensor) -> Any:
    a = x.t() + 0
    b = torch.zeros(4, 6)
    b.add_(y.t())
    b.mul_(a.t())
    return b, a.add_(1), a.copy_(y)


@program(of(3), lambda: torch.arange(3))
def the_type_of_what_is_written_stays(x: Tensor, k: Tensor) -> Any:
    half = x.half()
    half.add_(x)
    half[0] = k[0]
    n = torch.zeros(3, dtype=torch.int64)
    n.copy_(x * 10)
    n += k
    d = x.double()
    d.mul_(x).add_(k)
    return half, n, d


@program(of(4, 5), lambda: torch.tensor([0, 2, 2]))
def written_by_index(x: Tensor, at: Tensor) -> Any:
    y = x.clone()
    y[at] = x[0]
    y.masked_fill_(x > 0, -1.0)
    y[x < -1] = 3
    y[0, 1] += 2
    y.index_put_((at,), x[:3], accumulate=True)
    return y


@program(of(4, 5))
def swapped(x: Tensor) -> Any:
    a, b = x + 1, x + 2
    c = a.clone()
    a.copy_(b)
    b.copy_(c)
    return a, b


@program(of(4, 5))
def copied_and_returned(x: Tensor) -> Any:
    a, b = torch.empty_like(x), torch.empty(20)
    a.copy_(x)
    b.view(4, 5).copy_(a)
    return a, b


# Writes to inputs


@program(of(4, 4), of(4, 4))
def inputs_written(x: Tensor, y: Tensor) -> Any:
    z = x * 2
    x.add_(1)
    x.mul_(y)
    y.t()[0] = 3
    return x, z, y[0], x.t(), x.sum()


@program(of(4, 4), of(4, 4))
def inputs_swapped(x: Tensor, y: Tensor) -> Any:
    z = x.clone()
    x.copy_(y)
    y.copy_(z)


@program(of(4, 4))
def an_input_written_and_seen(x: Tensor) -> Any:
    row = x[0]
    y = x.clone()
    x.zero_()
    return row, y, x.view(-1)


@program(lambda: torch.randn(6, 8)[1:4, 2:6])
def a_view_written(x: Tensor) -> Any:
    x += 1
    x[0].mul_(2)
    return x.sum(), x


@program(of(2, 3, 4, 4), lambda: torch.zeros(3), lambda: torch.ones(3), lambda: torch.tensor(0))
def running_statistics(x: Tensor, mean: Tensor, var: Tensor, n: Tensor) -> Any:
    n.add_(1)
    return F.batch_norm(x, mean, var, training=True, momentum=0.1)


@program(of(6, 8))
def parts_written(x: Tensor) -> Any:
    x[1:3].add_(1)
    x[4, ::2] = 5
    x[2:][1].mul_(2)
    x[2:].t()[0] = 1
    x.diagonal().zero_()
    return x.sum()


@program(of(6, 8), of(6, 8))
def parts_of_each_other(x: Tensor, y: Tensor) -> Any:
    row = x[0].clone()
    x[0] = y[1]
    y[1] = row
    x[2:4] = x[0:2]
    return row


# Grad mode


@program(of(3), lambda: torch.randn(3, requires_grad=True))
def inference_inside(x: Tensor, w: Tensor) -> Any:
    with torch.no_grad():
        y = x * w
        x += y
    return y, w, y + x, w.detach() * 2


@program(lambda: torch.randn(3, requires_grad=True))
def inference_from_here(x: Tensor) -> Any:
    torch.set_grad_enabled(False)
    return x * 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    function, make = PROGRAMS[name]
    for simplifies in (False, True):
        backend = OpByOp(simplifies=simplifies)
        torch.manual_seed(0)
        backend.assert_same(function, *(made() for made in make))
        assert backend.prepared and not backend.declined, backend.declined


def test_an_op_without_a_row_is_recorded_as_such() -> None:
    """And what is not one op on every device, as the function that was called."""
    backend = OpByOp()
    backend.assert_same(lambda x: (x.roll(1), torch.cross(x, x + 1, dim=1)), torch.randn(2, 3))
    targets = [node.target for node in backend.prepared[-1].graph.nodes]
    assert torch.ops.aten.roll.default in targets
    assert torch.cross in targets


def test_functions_that_choose_other_ops_where_somebody_listens() -> None:
    backend = OpByOp()
    backend.assert_same(lambda x: (x.norm("nuc"), x.norm(2, -1)), torch.randn(5, 5))
    assert "linalg_vector_norm" in backend.names()
    assert "_linalg_svd" not in backend.names()


def test_inputs_count_writes_as_eager() -> None:
    def program(x: Tensor, y: Tensor) -> None:
        x.add_(1).mul_(2)
        x.t()[0] = 3
        y[0] = x[1]

    backend = OpByOp()
    Comparison(backend=backend).assert_same(program, torch.randn(3, 3), torch.randn(3, 3))
    assert backend.prepared


def test_inference_mode() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(1)
        x[0].mul_(2)
        y.mul_(3).sub_(1)
        return x, y * 2, F.linear(x, x), x.t(), y[0]

    def called(program: Callable[..., Any]) -> tuple[Any, ...]:
        torch.manual_seed(0)
        x = torch.randn(3, 3)
        with torch.inference_mode():
            results = program(x, torch.randn(3, 3))
        return *((r, r.is_inference(), r.stride()) for r in results), x._version

    backend = OpByOp()
    found, expected = called(jitpkg.compile(program, backend=backend)), called(program)
    assert backend.prepared
    assert repr(found) == repr(expected)


def test_inputs_that_come_to_share_memory() -> None:
    """An entry may be for inputs that do not, and then they do."""

    def program(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x * y

    backend = OpByOp()
    x, y = torch.ones(4), torch.ones(6)
    compiled = jitpkg.compile(program, backend=backend)
    compiled(x, y[:4])
    z = torch.ones(6)
    expected = program(z[:4], z[2:])
    z = torch.ones(6)
    assert torch.equal(compiled(z[:4], z[2:]), expected)


def test_inputs_without_elements_share_nothing() -> None:
    def program(x: Tensor, y: Tensor, z: Tensor) -> Any:
        y.zero_()
        z.add_(1)
        return x[..., ::2], x.squeeze(), z * 2

    backend = OpByOp()
    x, z = torch.zeros(1, 0), torch.ones(3)
    backend.assert_same(program, x, x.detach(), z)
    backend.assert_same(program, z[:0], z[:0], z)
    assert not backend.declined


def test_random_streams_are_set_back_when_an_op_fails() -> None:
    """Then the original code runs, and fails itself."""

    def program(x: Tensor, at: Tensor) -> Tensor:
        y = F.dropout(x, 0.5)
        x.add_(1)
        return y[at]

    backend = OpByOp()
    compiled = jitpkg.compile(program, backend=backend)
    compiled(torch.zeros(3), torch.tensor([0, 2]))
    found = []
    for function in (program, compiled):
        torch.manual_seed(0)
        x = torch.zeros(3)
        with pytest.raises(IndexError):
            function(x, torch.tensor([0, 7]))
        found.append((x.tolist(), torch.rand(3).tolist()))
    assert backend.prepared
    assert found[0] == found[1]


def test_what_comes_before_an_op_that_fails_is_written() -> None:
    """Once, as the program does it: the prepared graph writes at its end."""

    def program(x: Tensor, at: Tensor) -> Tensor:
        x.add_(1)
        x[at]
        return x * 2

    backend = OpByOp()
    compiled = jitpkg.compile(program, backend=backend)
    x, at = torch.zeros(3), torch.tensor([0, 2])
    compiled(x, at)
    (prepared,) = backend.prepared
    with pytest.raises(IndexError):
        op_by_op(prepared)(x, torch.tensor([0, 7]))
    assert x.tolist() == [2.0] * 3


# What is not prepared


@declined("may require grad", lambda: torch.randn(3, requires_grad=True))
def a_leaf(x: Tensor) -> Any:
    return x * 2


def parameter() -> Tensor:
    return torch.randn(3, requires_grad=True)


@program(of(2, 3), of(3), of(3), parameter)
def an_input_written_without_grad(x: Tensor, y: Tensor, z: Tensor, p: Tensor) -> Any:
    with torch.no_grad():
        x[0] = p
        y.copy_(p)
        z[:2] = p[1:]
        return y * 2


@program(of(2, 3), of(3), parameter)
def a_detached_input_written(x: Tensor, y: Tensor, p: Tensor) -> Any:
    x[0] = p.detach()
    y[1:].copy_(p.detach()[:2])


@declined("overlap", lambda: torch.randn(1, 3).expand(2, 3))
def expanded_and_written(x: Tensor) -> Any:
    x.zero_()


@declined("a leaf", of(3))
def a_leaf_made(x: Tensor) -> Any:
    return torch.zeros(3, requires_grad=True), x + 1


@declined("grad mode", of(3))
def a_view_and_grad_mode(x: Tensor) -> Any:
    with torch.no_grad():
        y = x[0]
    return y, x + 1


@declined("may require grad", lambda: torch.randn(3, requires_grad=True))
def behind_no_grad(x: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
    return y * x


@pytest.mark.parametrize("name", DECLINED)
def test_declined(name: str) -> None:
    why, function, make = DECLINED[name]
    backend = OpByOp()
    backend.assert_same(function, *(made() for made in make))
    assert backend.declined and all(why in said for said in backend.declined), backend.declined
