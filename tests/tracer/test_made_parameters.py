"""Parameters and modules that a compiled function makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg.errors import GraphBreak
from jitpkg.testing import Comparison, call

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "jitpkg": {"backend": "jitpkg", "fullgraph": True, "ignore": ("version", "grad_fn")},
    "aot_eager": {"backend": "aot_eager", "fullgraph": True, "ignore": ("version", "grad_fn")},
    "breaks": {"settings": {"disturb": "break"}},
    "one break": {"settings": {"disturb": "break:5"}},
}


def comparison(way: str) -> Comparison:
    return Comparison(relative=1e-5, absolute=1e-6, **WAYS[way])


def linear(x: Tensor) -> Any:
    return nn.Linear(4, 2)(x)


def embedding(x: Tensor) -> Any:
    return nn.Embedding(5, 3, padding_idx=1)(x.detach().long().abs() % 5), x * 2


def batch_norm(x: Tensor) -> Any:
    norm = nn.BatchNorm1d(4)
    return norm(x), norm, norm(x * 2)


def layer_norm(x: Tensor) -> Any:
    return nn.LayerNorm(4)(x), nn.GroupNorm(2, 4)(x), nn.LayerNorm(4, elementwise_affine=False)(x)


def convolution(x: Tensor) -> Any:
    return nn.Conv2d(1, 2, 3, padding=1, bias=False)(x[None, None])


def sequence(x: Tensor) -> Any:
    layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    return layers(x).sum(), layers


def recurrent_cell(x: Tensor) -> Any:
    return nn.GRUCell(4, 3)(x)


def attention(x: Tensor) -> Any:
    return nn.MultiheadAttention(4, 2)(x, x, x)


def one_after_the_other(x: Tensor) -> Any:
    for width in (3, 5, 2):
        x = torch.tanh(nn.Linear(x.shape[-1], width)(x))
    return x


def what_a_module_says(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    state = m.state_dict()
    m.register_buffer("seen", x.detach() + 1)
    m.register_buffer("hidden", torch.zeros(2), persistent=False)
    m.register_parameter("none", None)
    m.extra = nn.Parameter(torch.ones(2))
    return [
        list(m.parameters()),
        [name for name, _ in m.named_parameters()],
        [name for name, _ in m.named_buffers()],
        list(state),
        list(m.state_dict()),
        state["weight"].requires_grad,
        m.weight is m._parameters["weight"],
        isinstance(m.weight, nn.Parameter),
        isinstance(m.seen, nn.Parameter),
        type(m.weight),
        (m.weight.requires_grad, m.weight.is_leaf, m.weight.grad, m.weight.grad_fn),
        (m.weight * 1).is_leaf,
        type(m.weight.data),
    ]


def of_a_new_tensor(x: Tensor) -> Any:
    p = nn.Parameter(torch.full((4,), 2.0))
    return p, (p * x).sum()


def of_what_was_given(x: Tensor) -> Any:
    y = x.detach()
    p, q = nn.Parameter(y), nn.Parameter(y[0], requires_grad=False)
    return p, q, p * 2, p is y


def of_what_has_a_history(x: Tensor) -> Any:
    p = nn.Parameter(x * 2)
    return p, p * x


def of_a_parameter(x: Tensor) -> Any:
    p = nn.Parameter(torch.ones(4))
    q = nn.Parameter(p, False)
    r = nn.Parameter(p.t() if p.dim() > 1 else p)
    return p, q, r, (r * x).sum()


def of_nothing(x: Tensor) -> Any:
    return nn.Parameter(), nn.Parameter(requires_grad=False), x + 1


def of_whole_numbers(x: Tensor) -> Any:
    return nn.Parameter(torch.arange(3), requires_grad=False), x + 1


def one_memory(x: Tensor) -> Any:
    y = torch.zeros(4)
    p = nn.Parameter(y)
    y.add_(1)
    p.data.mul_(3)
    with torch.no_grad():
        p[0] = 7
        p.add_(p)
    return p, y, (p * x).sum()


def written_to_an_argument(x: Tensor) -> Any:
    y = x.detach()
    p = nn.Parameter(y)
    nn.init.constant_(p, 3.0)
    return p, y, (p * 2).sum()


def a_buffer(x: Tensor) -> Any:
    m = nn.Module()
    m.mean = nn.Buffer(x.detach().mean(0))
    m.last = nn.Buffer(torch.zeros(2), persistent=False)
    return m, isinstance(m.mean, nn.Buffer), list(m.state_dict()), list(m.buffers())


def tied(x: Tensor) -> Any:
    into, out = nn.Linear(4, 3, bias=False), nn.Linear(3, 4, bias=False)
    out.weight = nn.Parameter(into.weight.t().contiguous())
    other = nn.Linear(4, 3, bias=False)
    other.weight = into.weight
    return other(out(into(x))), into, other


def in_containers(x: Tensor) -> Any:
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
    by_name = nn.ModuleDict({"a": nn.Linear(4, 2)})
    weights = nn.ParameterList([torch.ones(2), torch.zeros(2)])
    for layer in layers:
        x = layer(x)
    return by_name["a"](x) * weights[0] + weights[1], layers, by_name, weights


def initialised(x: Tensor) -> Any:
    m = nn.Linear(4, 3)
    nn.init.xavier_normal_(m.weight)
    nn.init.zeros_(m.bias)
    return m(x), m


def applied(x: Tensor) -> Any:
    def init(m: nn.Module) -> None:
        if isinstance(m, nn.Linear):
            nn.init.normal_(m.weight, std=0.1)

    m = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    m.apply(init)
    m.eval()
    return m(x), m


def without_grad_mode(x: Tensor) -> Any:
    with torch.no_grad():
        m = nn.Linear(4, 2)
        y = m(x)
    return y, m.weight.requires_grad, m(x), m


def with_an_attribute(x: Tensor) -> Any:
    p = nn.Parameter(torch.ones(4))
    p.decays = False
    q = p * x
    return p, q, hasattr(q, "decays")


def used_in_a_list(x: Tensor) -> Any:
    found = [nn.Parameter(torch.ones(4)) for _ in range(3)]
    total = x
    for p in found:
        total = total * p
    return total, found[::2], F.linear(x, found[0][None])


ONE_GRAPH = [
    *(linear, embedding, batch_norm, layer_norm, convolution, sequence, recurrent_cell, attention),
    *(one_after_the_other, what_a_module_says, of_a_new_tensor, of_what_was_given),
    *(of_what_has_a_history, of_a_parameter, of_nothing, of_whole_numbers, one_memory),
    *(written_to_an_argument, a_buffer, tied, in_containers, initialised, applied),
    *(without_grad_mode, with_an_attribute, used_in_a_list),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", ONE_GRAPH)
@pytest.mark.parametrize("grad", [False, True])
def test_as_eager_code(program: Callable[..., Any], way: str, grad: bool) -> None:
    given = [call(torch.rand(n, 4, requires_grad=grad)) for n in (4, 4, 6)]
    if program is convolution:
        given = given[:2]
    comparison(way).assert_same_calls(program, *given)


# Training


def backward_inside(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    m(x).square().sum().backward()
    return m, m.weight.grad.sum()


def only_gradients(x: Tensor) -> Any:
    m = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    m(x).sum().backward()
    return [p.grad for p in m.parameters()]


def a_step(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    before = m.weight.detach().clone()
    loss = m(x).square().mean()
    loss.backward()
    with torch.no_grad():
        for p in m.parameters():
            p -= 0.1 * p.grad
            p.grad = None
    return loss.detach(), before, m


def several_steps(x: Tensor) -> Any:
    w = nn.Parameter(torch.ones(4, 2))
    losses = []
    for _ in range(3):
        loss = (x.detach() @ w).square().mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad, alpha=0.1)
        w.grad = None
        losses.append(loss.detach())
    return losses, w


def asked_for(x: Tensor) -> Any:
    w, b = nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.zeros(2))
    found = torch.autograd.grad(F.linear(x, w, b).square().sum(), [w, b])
    return found, w


def asked_for_behind_a_write(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    return torch.autograd.grad(m(x).square().sum(), [m.weight, m.bias]), m


def with_a_history(x: Tensor) -> Any:
    w = nn.Parameter(torch.ones(4))
    (found,) = torch.autograd.grad((x * w).square().sum(), w, create_graph=True)
    return found.square().sum(), w


def by_an_optimizer(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for _ in range(2):
        m(x.detach()).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return m


def of_an_argument(x: Tensor, w: Tensor) -> Any:
    """A gradient by what lies in an argument's memory."""
    p = nn.Parameter(w)
    (p * x).sum().backward()
    return p.grad, w.grad, p


TRAINING = [
    *(backward_inside, only_gradients, a_step, several_steps, asked_for, with_a_history),
    of_an_argument,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", TRAINING)
@pytest.mark.parametrize("grad", [False, True])
def test_training(program: Callable[..., Any], way: str, grad: bool) -> None:
    x = torch.rand(3, 4, requires_grad=grad)
    given = (x, nn.Parameter(torch.rand(4))) if program is of_an_argument else (x,)
    comparison(way).assert_same(program, *given)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_trained_where_it_is_returned(backend: str) -> None:
    def program(x: Tensor) -> Any:
        m = nn.Linear(4, 2)
        return m, m(x).tanh()

    results = []
    for f in (program, jitpkg.compile(program, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        x = torch.rand(3, 4, requires_grad=True)
        m, y = f(x)
        y.sum().backward()
        optimizer = torch.optim.SGD(m.parameters(), lr=0.5)
        optimizer.step()
        results.append([x.grad, m.weight, m.weight.grad, m.bias, m(x)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_each_call_makes_its_own(backend: str) -> None:
    compiled = jitpkg.compile(lambda x: (nn.Linear(4, 2), x + 1), backend=backend, fullgraph=True)
    first, second = (compiled(torch.ones(4))[0] for _ in range(2))
    assert first is not second
    assert first.weight.data_ptr() != second.weight.data_ptr()
    assert not torch.equal(first.weight, second.weight)


# What is left to Python, or raises


def written_where_it_must_not(x: Tensor) -> Any:
    p = nn.Parameter(torch.ones(4))
    p.add_(1)
    return p * x


def view_written_where_it_must_not(x: Tensor) -> Any:
    p = nn.Parameter(torch.ones(4))
    p[0] = 3
    return p * x


def whole_numbers_that_train(x: Tensor) -> Any:
    return nn.Parameter(torch.arange(3)), x


def no_tensor(x: Tensor) -> Any:
    return nn.Parameter([1.0]), x  # type: ignore[arg-type]


def no_bool(x: Tensor) -> Any:
    return nn.Parameter(x.detach() + 1, 1), x  # type: ignore[arg-type]


def refused_by_a_module(x: Tensor) -> Any:
    m = nn.Linear(4, 2)
    m.weight = x + 1
    return m


def in_inference_mode(x: Tensor) -> Any:
    with torch.inference_mode():
        return nn.Linear(4, 2)(x)


def in_a_transform(x: Tensor) -> Any:
    return torch.func.vmap(lambda row: nn.Linear(4, 2)(row), randomness="same")(x)


def in_a_checkpoint(x: Tensor) -> Any:
    def run(y: Tensor) -> Tensor:
        return nn.Linear(4, 2)(y).exp()

    return checkpoint(run, x, use_reentrant=False)


def under_autocast(x: Tensor) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        m = nn.Linear(4, 2)
        return m(x), m


def memory_with_a_history(x: Tensor) -> Any:
    y = x * 2
    p = nn.Parameter(y)
    y.mul_(x.detach() + 1)
    (p * 3).sum().backward()
    return p.grad, y, p


class Own(nn.Parameter):
    pass


def of_a_subclass(x: Tensor) -> Any:
    p = Own(torch.ones(4))
    return type(p), (p * x).sum()


class Making(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return nn.Parameter(torch.ones(4)) * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad


def by_an_autograd_function(x: Tensor) -> Any:
    return Making.apply(x)


LEFT_TO_PYTHON = [
    *(written_where_it_must_not, view_written_where_it_must_not, whole_numbers_that_train),
    *(no_tensor, no_bool, refused_by_a_module, in_inference_mode, in_a_transform, in_a_checkpoint),
    *(under_autocast, memory_with_a_history, of_a_subclass, by_an_autograd_function),
    *(by_an_optimizer, asked_for_behind_a_write),
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", LEFT_TO_PYTHON)
@pytest.mark.parametrize("grad", [False, True])
def test_left_to_python(program: Callable[..., Any], backend: str, grad: bool) -> None:
    ignored = ("version", "grad_fn") if backend == "jitpkg" else ()
    same = Comparison(backend=backend, relative=1e-5, absolute=1e-6, ignore=ignored)
    same.assert_same(program, torch.rand(3, 4, requires_grad=grad))


REFUSED: dict[Callable[..., Any], str] = {
    in_a_transform: "inside",
    in_a_checkpoint: "makes a parameter",
    by_an_autograd_function: "a parameter is made",
    memory_with_a_history: "lies in memory",
    asked_for_behind_a_write: "written to",
}


@pytest.mark.parametrize("program", REFUSED)
def test_why_it_is_left_to_python(program: Callable[..., Any]) -> None:
    compiled = jitpkg.compile(program, fullgraph=True)
    with pytest.raises(GraphBreak, match=REFUSED[program]):
        compiled(torch.rand(3, 4, requires_grad=True))


def test_in_inference_mode() -> None:
    x = torch.rand(3, 4)
    with torch.inference_mode():
        with pytest.raises(GraphBreak, match="in inference mode"):
            jitpkg.compile(linear, fullgraph=True)(x)
        found = []
        for f in (linear, jitpkg.compile(linear)):
            torch.manual_seed(0)
            found.append(f(x))
    assert torch.equal(*found)
    assert found[1].is_inference()
