"""Programs through AOTAutograd that do what eager code does: gradients, hooks, writes, errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import jitpkg
from jitpkg.errors import BackendError
from jitpkg.testing import Comparison

HOW = ["grad_fn", "version", "view", "idle strides"]
SAME = Comparison(backend="aot_eager", ignore=HOW, relative=1e-4, absolute=1e-5)

PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {}


def program(*make: Callable[[], Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[function.__name__] = (function, lambda: tuple(made() for made in make))
        return function

    return keep


def leaf(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape).requires_grad_()


def plain(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape)


# Gradients: their layout, who has one, how often


@program(lambda: torch.randn(4, 3).t().requires_grad_(), leaf(4))
def transposed_leaf(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x * y).sum(), x.t() * 2


@program(lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_())
def channels_last(x: torch.Tensor) -> Any:
    return x * x, x.sum((2, 3))


@program(lambda: torch.randn(8)[2:6].requires_grad_())
def leaf_with_offset(x: torch.Tensor) -> Any:
    return x.exp()


@program(lambda: torch.randn(1, 3).expand(4, 3).detach().requires_grad_())
def expanded_leaf(x: torch.Tensor) -> Any:
    return x * 2


@program(leaf(0, 3), leaf(3, 2))
def empty(x: torch.Tensor, w: torch.Tensor) -> Any:
    return x @ w, x.sum(), w * 2


@program(leaf(3), leaf(3), leaf(3))
def not_all_used(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
    return x * 2, y.detach() * z, x.detach()


@program(leaf(3), plain(3))
def some_require_none(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * y, y * 2, (x > 0), x.argmax(), x.long()


@program(leaf(3))
def results_that_alias(x: torch.Tensor) -> Any:
    y = x * 2
    return y, y.view(3, 1), y[1:], y, x, x.view(-1), x.detach(), y.detach()


@program(plain(4), plain(4))
def written_inputs(x: torch.Tensor, y: torch.Tensor) -> Any:
    x.add_(y)
    y[1:].mul_(x[:-1])
    return x, y.view(2, 2), x.sum()


@program(leaf(4), leaf(4))
def written_results(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x * 1
    view = z.view(2, 2)
    view[0].mul_(3)
    z.add_(y)
    return z, view, z[2:]


@program(leaf(4))
def written_leaf(x: torch.Tensor) -> Any:
    y = x * 2
    x.add_(1)
    return y


@program(leaf(4))
def written_view_of_leaf(x: torch.Tensor) -> Any:
    x.view(2, 2)[0].zero_()
    return x * 2


@program(leaf(4))
def written_leaf_without_grad(x: torch.Tensor) -> Any:
    y = x * 2
    with torch.no_grad():
        x.sub_(0.5)
    return y.sum() + x.sum()


@program(leaf(4))
def written_by_data(x: torch.Tensor) -> Any:
    y = x.exp()
    x.data.zero_()
    return y, x * 3


@program(leaf(4), plain(4))
def requires_grad_by_write(x: torch.Tensor, y: torch.Tensor) -> Any:
    y.mul_(x)
    return y * 2, y.requires_grad


@program(leaf(3))
def computed_inside(x: torch.Tensor) -> Any:
    (gradient,) = torch.autograd.grad((x**3).sum(), x)
    return gradient, x * gradient


@program(leaf(3))
def backward_inside(x: torch.Tensor) -> Any:
    (x * x).sum().backward()
    (x * 2).sum().backward()
    return x.grad


@program(leaf(3))
def kept_gradient(x: torch.Tensor) -> Any:
    y = x * 2
    y.retain_grad()
    z = (y * y).sum()
    z.backward()
    return y.grad, x.grad, z


@program(leaf(3))
def hook_inside(x: torch.Tensor) -> Any:
    y = x * 2
    y.register_hook(lambda gradient: gradient * 10)
    return y * 3, y


def with_hook() -> torch.Tensor:
    x = torch.randn(3, requires_grad=True)
    x.register_hook(lambda gradient: gradient + 5)
    return x


@program(with_hook)
def hook_of_input(x: torch.Tensor) -> Any:
    return x * 2


@program(leaf(3))
def no_grad_part(x: torch.Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
        with torch.enable_grad():
            z = x * 3
    return y, z, y + z, y.requires_grad


@program(plain(3))
def inference_part(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
    return y, y.is_inference(), x + 1


@program(leaf(4, 4), plain(4, 4))
def autocast_part(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        z = x @ y
        with torch.autocast("cpu", enabled=False):
            w = x @ y
    return z, w, z.dtype


@program(leaf(3))
def made_to_require_grad(x: torch.Tensor) -> Any:
    y = torch.ones(3, requires_grad=True)
    return x * y, y


@program(leaf(3), leaf(3))
def overlapping_saved(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.maximum(x, y)
    return torch.where(z > 0, x, y), z.relu_()


# Errors; those that are known at run time only have a line more in their traceback


@program(leaf(3), plain(4))
def wrong_sizes(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * 2 + y


@program(plain(3), lambda: torch.tensor([0, 3]))
def wrong_index(x: torch.Tensor, index: torch.Tensor) -> Any:
    x.add_(1)
    return x[index]


@program(plain(3, 3))
def singular(x: torch.Tensor) -> Any:
    x.zero_()
    return torch.linalg.inv(x)


# Random numbers


@program(leaf(20))
def dropped(x: torch.Tensor) -> Any:
    return (
        F.dropout(x, 0.5),
        torch.rand(2),
        F.dropout(x, 0.2, training=False),
        F.rrelu(x, training=True),
    )


@program(leaf(2, 2, 4, 8))
def attention(x: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(x, x, x, dropout_p=0.3, is_causal=True), torch.randn(1)


@program(plain(4))
def random_writes(x: torch.Tensor) -> Any:
    x.uniform_(0, 1)
    y = torch.empty(3).normal_()
    return y, torch.bernoulli(x), torch.multinomial(x, 2), torch.randperm(4), torch.randint(5, (2,))


@program(plain(2))
def seeded_inside(x: torch.Tensor) -> Any:
    torch.manual_seed(3)
    return torch.rand(2) + x


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    function, make = PROGRAMS[name]
    torch.manual_seed(1)
    ignore = [*HOW, "traceback"] if name in ("wrong_index", "singular") else HOW
    dataclasses.replace(SAME, ignore=ignore).assert_same(function, *make())


# Modules


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.out(self.embed(index))


class Counting(nn.Module):
    """Buffers that are written to, replaced, and read again."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return (x - self.mean) * self.scale / self.count


def modules() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(2)
    frozen = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    frozen[0].requires_grad_(False)
    x = torch.randn(4, 3)
    return {
        "tied": (Tied(), torch.tensor([1, 4, 1])),
        "counting": (Counting(), x),
        "frozen": (frozen, x),
        "batch_norm": (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU(True)), x),
        "batch_norm_eval": (nn.BatchNorm1d(3).eval(), x),
        "without_momentum": (nn.BatchNorm1d(3, momentum=None), x),
        "instance_norm": (nn.InstanceNorm1d(3, track_running_stats=True), torch.randn(2, 3, 5)),
        "twice": (nn.Sequential(*[nn.Linear(3, 3)] * 2), x),
        "lstm": (nn.LSTM(3, 4, dropout=0.3, num_layers=2), torch.randn(5, 2, 3)),
        "encoder": (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), torch.randn(2, 3, 4)),
        "in_place": (nn.Sequential(nn.Linear(3, 3), nn.ReLU(True), nn.Dropout(0.5, True)), x),
        "spectral": (nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), x),
        "gradient_of_input": (nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)),
    }


@pytest.mark.parametrize("name", modules())
def test_modules(name: str) -> None:
    module, x = modules()[name]
    SAME.assert_same(module, x)


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "backward_pre", "backward"])
def test_hooks_of_modules(kind: str) -> None:
    def hooked() -> nn.Module:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        inner = net[1]
        match kind:
            case "forward_pre":
                inner.register_forward_pre_hook(lambda m, given: (given[0] * 2,))
            case "forward":
                inner.register_forward_hook(lambda m, given, result: result + 1)
            case "backward_pre":
                inner.register_full_backward_pre_hook(lambda m, outer: (outer[0] * 3,))
            case "backward":
                inner.register_full_backward_hook(lambda m, inner, outer: (inner[0] * 3,))
        return net

    SAME.assert_same(hooked(), torch.randn(2, 3))


def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = (x @ w).tanh()
    return y * y, y.sum()


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)


def both(
    use: Callable[[Callable[..., Any], torch.Tensor, torch.Tensor], Any], backend: str = "aot_eager"
) -> None:
    """What is done with a compiled function is what is done with the eager one."""
    compiled = jitpkg.compile(f, backend=backend)
    for _ in range(2):
        expected, found = use(f, *inputs()), use(compiled, *inputs())
        torch.testing.assert_close(found, expected)


def test_autograd_grad_of_some() -> None:
    both(lambda f, x, w: torch.autograd.grad(f(x, w)[1], x))
    both(lambda f, x, w: torch.autograd.grad(f(x, w)[0], w, torch.ones(2, 2)))
    both(lambda f, x, w: torch.autograd.grad(f(x * 2, w)[1], x))


def test_both_results_one_after_the_other() -> None:
    def use(f: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        a, b = f(x, w)
        a.sum().backward(retain_graph=True)
        first = x.grad.clone()
        b.backward()
        return first, x.grad, w.grad

    both(use)


def test_hooks_of_inputs_and_results() -> None:
    def use(f: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []
        middle = x * 2
        middle.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
        a, b = f(middle, w)
        a.register_hook(seen.append)
        (a.sum() * 2 + b).backward()
        return seen, x.grad, w.grad

    both(use)


def test_gradients_add_up() -> None:
    def use(f: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        for _ in range(3):
            f(x, w)[1].backward()
        return x.grad, w.grad

    both(use)


def test_saved_tensors_written_to_behind_the_graph_raise() -> None:
    def use(f: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        result = f(x, w)[1]
        with torch.no_grad():
            w.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()

    both(use)


def test_a_second_backward_pass_raises() -> None:
    def use(f: Any, x: torch.Tensor, w: torch.Tensor) -> Any:
        result = f(x, w)[1]
        result.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.backward()

    both(use)


def test_a_second_derivative_is_refused_with_the_way_out() -> None:
    """Where AOTAutograd's own runtime calls the graph."""

    def of_view(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.t(), f(x, w)[1]

    compiled = jitpkg.compile(of_view, backend="aot_eager")
    x, w = inputs()
    with pytest.raises(BackendError, match='backend="eager"'):
        torch.autograd.grad(compiled(x, w)[1], x, create_graph=True)
