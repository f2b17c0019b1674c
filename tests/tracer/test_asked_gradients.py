"""`torch.autograd.grad` in compiled functions: one graph, and what eager code returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg.errors import GraphBreak
from jitpkg.testing import Comparison, call

BACKENDS = ["eager", "aot_eager", "jitpkg"]


def leaf(*size: int) -> Tensor:
    return (torch.rand(size) + 0.5).requires_grad_()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def of_a_number(x: Tensor, y: Tensor) -> Any:
    (found,) = torch.autograd.grad((x.sin() * y).sum(), x)
    return found * 2, found.requires_grad


def of_several(x: Tensor, y: Tensor) -> Any:
    z = (x + y).sin()
    return torch.autograd.grad([(z * x).sum(), z], (x, z, y), [torch.ones(()), torch.ones(3)])


def one_for_two(x: Tensor, y: Tensor) -> Any:
    """Of a sum, both operands have one and the same gradient."""
    first, second = torch.autograd.grad((x + y).exp().sum(), [x, y])
    return first is second, first, second


def the_given_one(x: Tensor, y: Tensor) -> Any:
    given = y.detach()
    (found,) = torch.autograd.grad(x.clone(), x, given)
    return found is given, found


def seen_through(x: Tensor, y: Tensor) -> Any:
    (found,) = torch.autograd.grad(x.view(3, 1), x, y.detach().view(3, 1))
    return found


def expanded(x: Tensor, y: Tensor) -> Any:
    (found,) = torch.autograd.grad(x.sum(), x)
    return found, found.stride()


def turned(x: Tensor, y: Tensor) -> Any:
    weight = (x[:, None] * y).t()
    (found,) = torch.autograd.grad(nn.functional.linear(y, weight).exp().sum(), weight)
    return found, found.stride()


def unused(x: Tensor, y: Tensor) -> Any:
    some = torch.autograd.grad(x.exp().sum(), (x, y), allow_unused=True)
    every = torch.autograd.grad(x.sin().sum(), (x, y), allow_unused=True, materialize_grads=True)
    return some, every


def second_derivative(x: Tensor, y: Tensor) -> Any:
    (first,) = torch.autograd.grad((x**3 * y).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return first.requires_grad, second


def returned_with_a_history(x: Tensor, y: Tensor) -> Any:
    (found,) = torch.autograd.grad((x**3 * y).sum(), x, create_graph=True)
    return (found * found).sum()


def again(x: Tensor, y: Tensor) -> Any:
    z = (x * y).tanh().sum()
    return [torch.autograd.grad(z, each, retain_graph=True) for each in (x, y)]


def without_grad_mode(x: Tensor, y: Tensor) -> Any:
    z = (x * y).tanh().sum()
    with torch.no_grad():
        (found,) = torch.autograd.grad(z, y)
        return y - 0.1 * found


def and_backward(x: Tensor, y: Tensor) -> Any:
    z = (x * y).tanh().sum()
    (found,) = torch.autograd.grad(z, y, create_graph=True)
    (z + found.pow(2).sum()).backward()
    return z.detach()


def not_what_it_may_depend_on(x: Tensor, y: Tensor) -> Any:
    """The derivative of a product by `x` depends on `y` alone, to which the gradient goes."""
    (found,) = torch.autograd.grad((x * y).sum(), x, create_graph=True)
    found.sum().backward()
    return found.detach()


def a_leaf_of_its_own(x: Tensor, y: Tensor) -> Any:
    between = (0.3 * x.detach() + 0.7 * y.detach()).requires_grad_()
    (found,) = torch.autograd.grad((between * x).exp().sum(), between, create_graph=True)
    return (found.norm() - 1) ** 2


PROGRAMS = [
    *(of_a_number, of_several, one_for_two, the_given_one, seen_through, expanded, turned, unused),
    *(second_derivative, returned_with_a_history, again, without_grad_mode, and_backward),
    *(not_what_it_may_depend_on, a_leaf_of_its_own),
]


LAID_BY_KERNELS = ("grad_fn", "version", "idle strides", "view", "storage offset", "memory")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program: Callable[..., Any], backend: str) -> None:
    torch.manual_seed(0)
    ignored = LAID_BY_KERNELS if backend == "jitpkg" else ()
    exact = 1e-5 if backend == "jitpkg" else 0
    same = Comparison(
        fullgraph=True, backend=backend, ignore=ignored, relative=exact, absolute=exact
    )
    same.assert_same_calls(program, *[call(leaf(3), leaf(3)) for _ in range(2)])


def penalty(net: nn.Module, x: Tensor) -> Tensor:
    """Of a critic whose gradient is to be of length 1."""
    score = net(x)
    (found,) = torch.autograd.grad(score, x, torch.ones_like(score), create_graph=True)
    return ((found.norm(2, dim=1) - 1) ** 2).mean()


def physics(net: nn.Module, x: Tensor) -> Tensor:
    """An equation with a second derivative, by a network."""
    u = net(x)
    (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)
    loss = (second[:, 0] + u[:, 0].sin()).pow(2).mean()
    loss.backward()
    return loss.detach()


def step_of_a_step(net: nn.Module, x: Tensor) -> Tensor:
    """A loss after a step that is differentiated, too."""
    params = dict(net.named_parameters())
    loss = net(x).pow(2).mean()
    found = torch.autograd.grad(loss, list(params.values()), create_graph=True)
    stepped = {
        name: param - 0.1 * grad for (name, param), grad in zip(params.items(), found, strict=True)
    }
    hidden = (x @ stepped["0.weight"].t() + stepped["0.bias"]).tanh()
    after = (hidden @ stepped["2.weight"].t() + stepped["2.bias"]).pow(2).mean()
    after.backward()
    return after.detach()


def adversarial(net: nn.Module, x: Tensor) -> Tensor:
    """One step to where a loss is larger."""
    moved = x.detach().clone()
    moved.requires_grad = True
    net(moved).pow(2).mean().backward()
    assert moved.grad is not None
    return x.detach() + 0.1 * moved.grad.sign()


def adversarial_search(net: nn.Module, x: Tensor) -> Tensor:
    moved = x.detach() + 0.01
    for _ in range(3):
        moved = moved.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(net(moved).pow(2).mean(), moved)
        moved = moved + 0.1 * found.sign()
    return moved.detach()


def penalised(net: nn.Module, x: Tensor) -> Tensor:
    """The whole step of a critic, at points between two batches."""
    between = (0.3 * x.detach() + 0.7 * x.detach().flip(0)).requires_grad_(True)
    loss = net(x).mean() + 10 * penalty(net, between)
    loss.backward()
    return loss.detach()


TRAINED = [penalty, physics, step_of_a_step, adversarial, adversarial_search, penalised]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", TRAINED)
def test_what_people_train(program: Callable[..., Tensor], backend: str) -> None:
    mine, theirs = network(), network()
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    for n in (5, 5, 6, 7, 3, 1):
        x = torch.randn(n, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        found, expected = compiled(mine, x), program(theirs, y)
        if found.requires_grad:
            found.backward()
            expected.backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(x.grad, y.grad)
        for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


def refused(x: Tensor) -> list[tuple[str, Callable[[], Any]]]:
    grad, made = torch.autograd.grad, x * 2
    return [
        ("what was not used", lambda: grad(x.sum(), made)),
        ("what requires no grad", lambda: grad(x.sum(), x.detach())),
        ("no number", lambda: grad(made, x)),
        ("a gradient of another shape", lambda: grad(made, x, torch.ones(2))),
        ("no tensors", lambda: grad([], x)),
        ("a second time", lambda: [grad((made * made).sum(), x), grad((made * made).sum(), x)]),
        ("what was written to", lambda: grad(made.mul_(3).sum(), made)),
    ]


@pytest.mark.parametrize("k", range(7))
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_eager_code_says_of_it(backend: str, k: int) -> None:
    def program(x: Tensor) -> Any:
        return refused(x)[k][1]()

    ignored = LAID_BY_KERNELS if backend == "jitpkg" else ()
    same = Comparison(backend=backend, ignore=ignored)
    same.assert_same_calls(program, call(leaf(3)), call(leaf(3)))


def test_a_history_from_before() -> None:
    """The way to a leaf may lie in what the graph is not given."""

    def program(x: Tensor, y: Tensor) -> Any:
        return torch.autograd.grad((y * y).sum(), x, allow_unused=True)

    compiled = jitpkg.compile(program, backend="eager")
    x = leaf(3)
    for made in (lambda: x.detach().requires_grad_(), lambda: x * 3, lambda: x[:]):
        for _ in range(2):
            assert str(compiled(x, made())) == str(program(x, made()))
    with pytest.raises(GraphBreak, match="before the graph"):
        jitpkg.compile(program, backend="eager", fullgraph=True)(x, x * 3)


def test_hooks() -> None:
    def program(x: Tensor) -> Any:
        return torch.autograd.grad((x * x).sum(), x)[0]

    compiled = jitpkg.compile(program, backend="eager")
    x = leaf(3)
    assert torch.equal(compiled(x), 2 * x)
    handle = x.register_hook(lambda grad: grad * 10)
    assert torch.equal(compiled(x), 20 * x)
    handle.remove()
    assert torch.equal(compiled(x), 2 * x)


def test_anomaly_mode() -> None:
    compiled = jitpkg.compile(of_a_number, backend="eager")
    x, y = leaf(3), leaf(3)
    expected = of_a_number(x, y)
    for enabled in (False, True, False):
        with torch.autograd.set_detect_anomaly(enabled):
            assert str(compiled(x, y)) == str(expected)


def test_other_sizes() -> None:
    same = Comparison(backend="eager")
    sizes = (3, 4, 5, 1, 7)
    same.assert_same_calls(second_derivative, *[call(leaf(n), leaf(n)) for n in sizes])


def made_leaf(x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    (leaf * x).sum().backward()
    return leaf


def returned(x: Tensor) -> Any:
    leaf = made_leaf(x)
    return leaf, leaf.grad, leaf.is_leaf


def returned_alone(x: Tensor) -> Any:
    return made_leaf(x)


def in_a_list(x: Tensor) -> Any:
    found = [made_leaf(x)]
    found.append(found[0].grad)
    return found


def twice(x: Tensor) -> Any:
    leaf = made_leaf(x)
    (leaf * leaf).sum().backward()
    found = leaf.grad * 1
    leaf.grad = None
    return found, leaf


def over_a_break(x: Tensor) -> Any:
    leaf = made_leaf(x)
    print("-")
    return leaf.grad * 2, leaf


def where_an_op_fails(x: Tensor) -> Any:
    leaf = made_leaf(x)
    try:
        x.view(7, 7)
    except RuntimeError:
        return leaf.grad, leaf


def nothing_yet(x: Tensor) -> Any:
    return x.exp().requires_grad_().grad, torch.ones(3).grad


def turned_off(x: Tensor) -> Any:
    made = x.exp()
    made.requires_grad = False
    return made


def not_for_integers(x: Tensor) -> Any:
    return x.int().requires_grad_()


def of_a_view(x: Tensor) -> Any:
    view = x[1:].requires_grad_()
    view.sum().backward()
    return view.grad, x.requires_grad


def written_before(x: Tensor) -> Any:
    made = x.exp()
    made.mul_(2)
    made.requires_grad_()
    (made * x).sum().backward()
    return made, made.grad


def written_after(x: Tensor) -> Any:
    made = x.exp().requires_grad_()
    (made * x).sum().backward()
    with torch.no_grad():
        made -= 0.1 * made.grad
    return made, made.grad


MADE = [
    *(returned, returned_alone, in_a_list, twice, over_a_break, where_an_op_fails, nothing_yet),
    *(turned_off, not_for_integers, of_a_view, written_before, written_after),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", MADE)
def test_leaves_that_a_function_makes(program: Callable[..., Any], backend: str) -> None:
    ignored = LAID_BY_KERNELS if backend == "jitpkg" else ()
    same = Comparison(backend=backend, ignore=ignored, relative=1e-5, absolute=1e-5)
    same.assert_same_calls(program, *[call(torch.rand(3)) for _ in range(2)])


SET: dict[str, Callable[[Tensor, bool], Any]] = {
    "given": lambda x, to: x.__setattr__("requires_grad", to),
    "computed": lambda x, to: (x * 2).__setattr__("requires_grad", to),
    "view": lambda x, to: x[0].__setattr__("requires_grad", to),
    "made": lambda x, to: torch.zeros(2).__setattr__("requires_grad", to),
    "detached": lambda x, to: x.detach().__setattr__("requires_grad", to),
    "method": lambda x, to: (x * 2).requires_grad_(to),
    "method of a view": lambda x, to: x[0].requires_grad_(to),
}
GIVEN: dict[str, Callable[[], Tensor]] = {
    "leaf": lambda: torch.ones(2, requires_grad=True),
    "plain": lambda: torch.ones(2),
    "with a history": lambda: torch.ones(2, requires_grad=True) * 1,
}


@pytest.mark.parametrize("to", [True, False])
@pytest.mark.parametrize("name", SET)
def test_requires_grad_is_set_where_eager_code_lets_it(name: str, to: bool) -> None:
    def program(x: Tensor) -> Any:
        SET[name](x, to)
        return x * 2

    def outcome(function: Callable[..., Any], x: Tensor) -> Any:
        try:
            return repr(function(x)), x.requires_grad
        except RuntimeError as error:
            return str(error), x.requires_grad

    compiled = jitpkg.compile(program, backend="eager")
    for given in (*GIVEN.values(), *GIVEN.values()):
        assert outcome(compiled, given()) == outcome(program, given())
