"""Graphs that are differentiated: by one process, for all; and what autograd sees of them."""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from jitpkg.errors import BackendError
from tests.codegen.cache.graphs.support import Process, filled, same
from tests.native.support import needs_llvm

pytestmark = needs_llvm


def leaf(*size: int) -> Tensor:
    return filled(*size).requires_grad_()


def one(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w).sum()


def several(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    a = torch.tanh(x @ w)
    return a, torch.tanh(x @ w), torch.exp(a).mean(0), x.detach() * 2, a.argmax(-1)


def draws(x: Tensor, w: Tensor) -> Tensor:
    return functional.dropout(x @ w, 0.5)


def of_one_input(x: Tensor, w: Tensor) -> Tensor:
    return (x * x).cumsum(0) + w.detach().sum()


def viewed(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).reshape(-1)


def turned(x: Tensor, w: Tensor) -> Tensor:
    return (x.T * 2).exp()


def of_several_kinds(x: Tensor, w: Tensor) -> tuple[Any, ...]:
    made = torch.tanh(x @ w)
    return made[1:], w, made.detach(), "text", functional.dropout(made).T, 2


def by_buffers(x: Tensor, w: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return functional.batch_norm(x @ w, mean, variance, training=True)


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, by: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.by = by
        return x.sin() * by

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * ctx.by * 5, None


def of_a_function(x: Tensor, w: Tensor) -> Tensor:
    return Cubed.apply(x @ w, 2.0).exp()


def checkpointed(x: Tensor, w: Tensor) -> Tensor:
    return checkpoint(lambda y: (y @ w).sin().exp(), x, use_reentrant=False).cos()


PROGRAMS = (of_a_function, checkpointed, one, several, draws, of_one_input, viewed, turned)
Weights = Callable[[Sequence[Tensor]], Tensor]


def of_first(results: Sequence[Tensor]) -> Tensor:
    return results[0].sum()


def of_first_laid_out_otherwise(results: Sequence[Tensor]) -> Tensor:
    turned = results[0].T if results[0].dim() == 2 else results[0]
    return (turned.contiguous() * filled(*turned.shape)).sum()


def of_last(results: Sequence[Tensor]) -> Tensor:
    return (results[-1] * results[-1]).sum()


def of_all(results: Sequence[Tensor]) -> Tensor:
    total = torch.zeros(())
    for result in results:
        total = total + (result * result).sum()
    return total


LOSSES = (of_first, of_first_laid_out_otherwise, of_last, of_all)


def outcome(function: Callable[..., Any], loss: Weights) -> list[Any]:
    """Results and gradients, and what autograd says of the results."""
    torch.manual_seed(0)
    x, w = leaf(4, 5), leaf(5, 3)
    results = function(x * 1.5, w)
    results = results if isinstance(results, tuple) else (results,)
    of_tensors = [r for r in results if isinstance(r, Tensor)]
    loss([r for r in of_tensors if r.requires_grad]).backward()
    seen = [(r.requires_grad, r.is_leaf, r.stride()) for r in of_tensors]
    return [*results, *seen, x.grad, w.grad, torch.rand(1)]


def check(function: Callable[..., Any], compiled: Callable[..., Any], loss: Weights) -> None:
    same(outcome(compiled, loss), outcome(function, loss))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_graph_is_differentiated_once_for_all_processes(
    each_process: Process, program: Callable[..., Any]
) -> None:
    for found in (False, True):
        for loss in LOSSES:
            compiled = each_process.compiled(program)
            check(program, compiled, loss)
            check(program, compiled, loss)
            assert bool(each_process.made) is not (found or loss is not LOSSES[0])


@pytest.mark.parametrize("program", [*PROGRAMS, of_several_kinds])
def test_our_own_backward_is_recorded_once_for_all_processes(
    process: Process, program: Callable[..., Any]
) -> None:
    for found in (False, True):
        for loss in LOSSES:
            compiled = process.compiled(program, options={"backward": "own"})
            check(program, compiled, loss)
            check(program, compiled, loss)
            assert bool(process.made) is not (found or loss is not LOSSES[0])


def test_writes_to_buffers_are_kept(process: Process) -> None:
    for found in (False, True):
        compiled = process.compiled(by_buffers, options={"backward": "own"})
        for _ in "12":
            buffers = [[torch.zeros(3), torch.ones(3)] for _ in "12"]
            made = [
                outcome(lambda x, w, f=f, held=held: f(x, w, *held), of_all)
                for f, held in zip((compiled, by_buffers), buffers, strict=True)
            ]
            same(*made)
            same(*buffers)
            assert [b._version for b in buffers[0]] == [b._version for b in buffers[1]]
        assert bool(process.made) is not found


def test_what_autograd_knows_of_views_is_kept(process: Process) -> None:
    def parts(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        made = w.detach() * 2
        (one_of_several,) = torch.ones(1, 2).unbind()
        return (x @ w).sum(), made, made[0], one_of_several

    for found in (False, True):
        loss, made, row, one_of_several = process.compiled(parts)(leaf(4, 5), leaf(5, 3))
        assert bool(process.made) is not found
        row.mul_(loss)
        assert made.requires_grad
        with pytest.raises(RuntimeError, match="multiple views"):
            one_of_several.mul_(loss)


@pytest.fixture(params=["made", "found"])
def compiled(request: pytest.FixtureRequest, process: Process) -> Callable[..., Any]:
    """The function `one`, compiled by this process or by another one."""
    if request.param == "found":
        check(one, process.compiled(one), of_first)
    function = process.compiled(one)
    check(one, function, of_first)
    assert bool(process.made) is (request.param == "made")
    return function


def test_a_graph_can_be_kept_for_another_backward_pass(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    result = compiled(x, w)
    result.backward(retain_graph=True)
    first = x.grad.clone()
    result.backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_a_second_derivative(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    found = []
    for function in (compiled, one):
        (gradient,) = torch.autograd.grad(function(x, w), x, create_graph=True)
        found.append([gradient, *torch.autograd.grad(gradient.sin().sum(), (x, w))])
    torch.testing.assert_close(*found)


def test_what_was_saved_may_not_be_written(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    result = compiled(x, w)
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_gradients_that_are_not_asked_for_are_none(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    compiled(x, w).backward(inputs=[w])
    assert x.grad is None
    assert w.grad is not None


def test_hooks_see_gradients(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    seen: list[Tensor] = []
    x.register_hook(seen.append)
    compiled(x, w).backward()
    assert len(seen) == 1
    assert seen[0] is x.grad or torch.equal(seen[0], x.grad)


def test_deterministic_algorithms_asked_for_too_late(compiled: Callable[..., Any]) -> None:
    result = compiled(leaf(4, 5), leaf(5, 3))
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(BackendError, match="Deterministic"):
            result.backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_what_was_saved_is_freed_with_the_result(compiled: Callable[..., Any]) -> None:
    x, w = leaf(4, 5), leaf(5, 3)
    result = compiled(x * 1, w)
    node = weakref.ref(result.grad_fn)
    del result
    assert node() is None


@pytest.mark.parametrize("backward", ["own", "aot"])
def test_a_graph_that_writes_is_right_and_kept_where_it_is_ours(
    process: Process, backward: str
) -> None:
    norms = [torch.nn.BatchNorm1d(5) for _ in range(3)]
    given = filled(4, 5) * 3
    wanted = norms[0](given)
    for found, norm in enumerate(norms[1:]):
        compiled = process.compiled(norm, options={"backward": backward})
        torch.testing.assert_close(compiled(given), wanted)
        assert bool(process.made) is not (found and backward == "own")
        torch.testing.assert_close(norm.running_mean, norms[0].running_mean)


def test_sizes_that_data_decide_are_right_and_not_kept(process: Process) -> None:
    """Going backward, a mask becomes as many indices as it has ones."""

    def put(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
        return torch.index_put(x, (mask,), values)

    mask = torch.tensor([True, False, True])
    x, values = (torch.randn(n, requires_grad=True) for n in (3, 2))
    wanted = torch.autograd.grad(put(x, mask, values), (x, values), torch.tensor([1.0, 2, 3]))
    made = process.compiled(put)(x, mask, values)
    found = torch.autograd.grad(made, (x, values), torch.tensor([1.0, 2, 3]))
    torch.testing.assert_close(found, wanted)


def test_another_derivative_is_another_graph(
    each_process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ops of an autograd function are part of the key, and so is what it returns of them."""

    def other(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x * ctx.by * 6, None

    check(of_a_function, each_process.compiled(of_a_function), of_first)
    monkeypatch.setattr(Cubed, "backward", staticmethod(other))
    check(of_a_function, each_process.compiled(of_a_function), of_first)
    assert each_process.made
    check(of_a_function, each_process.compiled(of_a_function), of_first)
    assert not each_process.made
