"""The backend `aot_eager`: what it computes, and when it leaves a graph as it is.

`JITPKG_ALL_PROGRAMS=1` runs every program with it, in place of some.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg.comparison.differences import Tolerance, differences
from tests.programs.running import all_programs, run

aot = partial(jitpkg.jit, backend="aot_eager")

EACH = 1 if os.environ.get("JITPKG_ALL_PROGRAMS") else 5
PROGRAMS = [
    name
    for k, name in enumerate(all_programs())
    if k % EACH == 0 or name.startswith(("k_autograd", "i_exceptions"))
]

NEAR = Tolerance(1e-4, 1e-5)
HOW = ("version", "grad_fn", "view", "traceback")
"""What only says how a result was computed."""


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    with jitpkg.config.patch(strict=True):
        yield


@pytest.fixture
def declined() -> Iterator[list[str]]:
    """Why graphs were left as they are."""
    whys: list[str] = []

    def listen(event: jitpkg.events.Event) -> None:
        if isinstance(event, jitpkg.events.Declined):
            whys.append(event.why)

    with jitpkg.events.STREAM.listening(listen):
        yield whys


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_do_what_they_do_eagerly(program: str) -> None:
    calls = zip(run(program, lambda target: target), run(program, aot), strict=True)
    wrong = [str(found) for a, b in calls for found in differences(a, b, NEAR, HOW)]
    assert not wrong, f"{program}:\n" + "\n".join(wrong[:6])


# Training


class Classifier(nn.Module):
    """Convolution, batch statistics, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.drop(torch.relu(self.norm(self.conv(x))))
        logits = self.out(hidden.flatten(1))
        return nn.functional.cross_entropy(logits, y), logits


def trained(compile_: Callable[[nn.Module], nn.Module], channels_last: bool) -> list[torch.Tensor]:
    """Losses, parameters, buffers and random numbers after some steps."""
    torch.manual_seed(0)
    net = Classifier()
    x, y = torch.randn(5, 1, 4, 4), torch.tensor([0, 1, 2, 0, 1])
    if channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.repeat(1, 1, 1, 1)
        x = x.to(memory_format=torch.channels_last)
    compiled = compile_(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        loss, logits = compiled(x, y)
        loss.backward()
        optimizer.step()
        seen += [loss.detach(), logits.detach()]
    return [*seen, *net.state_dict().values(), torch.rand(3)]


@pytest.mark.parametrize("channels_last", [False, True])
def test_training_is_as_eager(channels_last: bool, declined: list[str]) -> None:
    expected = trained(lambda net: net, channels_last)
    for a, b in zip(expected, trained(aot, channels_last), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    assert declined == []


def test_gradients_can_be_asked_for_twice() -> None:
    f = aot(lambda x: (x.exp() * x).sum())
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * once)


def test_autocast_of_the_forward_pass_is_that_of_the_backward_pass() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)
    expected, compiled = f(x, w), aot(f)(x, w)
    assert compiled.dtype is expected.dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    grads = [torch.autograd.grad(y.sum(), w)[0] for y in (expected, compiled)]
    torch.testing.assert_close(*grads)


def test_a_graph_that_ends_inside_a_context_leaves_it_entered(capsys: Any) -> None:
    def f(x: torch.Tensor) -> list[torch.Tensor]:
        with torch.no_grad():
            y = x * 2
            print("break")
            z = x * y
        return [y, z, x * z]

    compiled = aot(f)
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        assert [t.requires_grad for t in compiled(x)] == [False, False, True]
        assert torch.is_grad_enabled()


# What the guards of an entry do not tell


def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 2


def test_inputs_come_to_share_memory(declined: list[str]) -> None:
    f = aot(write)
    f(torch.zeros(3), torch.zeros(3))
    whole = torch.zeros(4)
    assert f(whole[:3], whole[1:]).tolist() == [2, 2, 0]
    assert declined == []


def test_inputs_share_memory_from_the_beginning(declined: list[str]) -> None:
    f = aot(write)
    whole = torch.zeros(4)
    assert f(whole[:3], whole[1:]).tolist() == [2, 2, 0]
    assert declined == ["a write to inputs that share memory"]
    assert f(torch.zeros(3), torch.zeros(3)).tolist() == [0, 0, 0]


def test_a_write_to_what_overlaps_with_itself() -> None:
    f = aot(lambda x: x.expand(3).add_(1))
    x = torch.ones(1)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        f(x)
    assert x.tolist() == [1]


def test_a_view_of_an_input_starts_elsewhere() -> None:
    f = aot(lambda x: (x[1:], x + 1))
    whole = torch.arange(8.0)
    f(whole[:3])
    view, more = f(whole[4:7])
    assert view.tolist() == [5, 6]
    assert more.tolist() == [5, 6, 7]
    view.zero_()
    assert whole.tolist() == [0, 1, 2, 3, 4, 0, 0, 7]


def test_what_is_written_to_becomes_a_leaf() -> None:
    f = aot(lambda x: x.mul_(2))
    x = torch.ones(2, requires_grad=True)
    assert f(x * 1).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        f(x)
    assert x.tolist() == [1, 1]


def test_hooks_for_saved_tensors_see_what_eager_code_saves() -> None:
    packed: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        packed.append(t)
        return t

    x = torch.ones(2, requires_grad=True)
    f = aot(lambda x: x.exp().sin())
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        f(x)
    assert len(packed) == 2


def test_forward_mode_differentiation() -> None:
    f = aot(lambda x: x.sin() * 2)
    x = torch.tensor([0.5, 1.0])
    f(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(2))
        tangent = torch.autograd.forward_ad.unpack_dual(f(dual)).tangent
    torch.testing.assert_close(tangent, 2 * x.cos())


@pytest.mark.parametrize("requires_grad", [False, True])
def test_random_numbers_that_nothing_uses(requires_grad: bool, declined: list[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.nn.functional.dropout(x).add_(1)
        return x * torch.rand(2) + torch.rand(2)

    x = torch.ones(2, requires_grad=requires_grad)
    torch.manual_seed(2)
    expected = f(x), torch.rand(2)
    torch.manual_seed(2)
    torch.testing.assert_close((aot(f)(x), torch.rand(2)), expected)
    assert not declined


def test_dropout_of_everything_draws_nothing(declined: list[str]) -> None:
    """AOTAutograd makes an op of it that does."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.nn.functional.dropout(x, 0.5),
            torch.nn.functional.dropout(x, 1.0),
            torch.nn.functional.dropout(x, 0.5),
        )

    x = torch.ones(3, 5, requires_grad=True)
    torch.manual_seed(2)
    expected = *f(x), torch.rand(2)
    torch.manual_seed(2)
    torch.testing.assert_close((*aot(f)(x), torch.rand(2)), expected)
    assert len(declined) == 1


def test_a_gradient_of_nothing() -> None:
    """Eager code's result requires grad all the same, and going backward from it does nothing."""
    x = torch.randn(4, requires_grad=True)
    found = aot(lambda x: torch.linalg.vector_norm(x, 0))(x)
    found.backward()
    assert found.requires_grad
    assert x.grad is None


@pytest.mark.parametrize("decomposition", [torch.linalg.eig, torch.linalg.eigh, torch.linalg.svd])
def test_gradients_that_are_not_defined(decomposition: Any) -> None:
    """That of complex eigenvectors, by themselves: the gradient looks at values, and raises."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return decomposition(x)[1 if decomposition is not torch.linalg.svd else 0].sum().real

    def gradient(g: Any) -> None:
        torch.manual_seed(0)
        half = torch.randn(4, 4, dtype=torch.complex64)
        g((half + half.mH).requires_grad_()).backward()

    for g in (f, aot(f)):
        with pytest.raises(RuntimeError, match="ill-defined"):
            gradient(g)


# Failures


def test_a_graph_that_fails_has_not_begun() -> None:
    """The random stream is put back, and the original code raises at its own line."""

    def f(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(2)
        y = x[index] + noise
        x.add_(1)
        return y

    compiled, x = aot(f), torch.zeros(2)
    compiled(x, torch.tensor([0, 1]))
    torch.manual_seed(3)
    with pytest.raises(IndexError, match="out of bounds") as caught:
        compiled(x, torch.tensor([0, 5]))
    after = torch.rand(1)
    torch.manual_seed(3)
    torch.rand(2)
    assert torch.equal(after, torch.rand(1))
    assert str(caught.traceback[-1].statement).strip() == "y = x[index] + noise"
    assert caught.value.__context__ is None
    assert x.tolist() == [1, 1]


def test_an_op_without_a_derivative_is_left_to_eager_code(declined: list[str]) -> None:
    x = torch.ones(2, requires_grad=True)
    f = aot(lambda x: x // 2)
    assert f(x).requires_grad
    assert len(declined) == 1
    assert "floor_divide" in declined[0]


# Layouts and classes of tensors


@pytest.mark.parametrize(
    "x",
    [
        torch.tensor(2.0),
        torch.randn(0, 3),
        torch.randn(3, 4).t(),
        torch.randn(8)[::2],
        torch.randn(3, 1).expand(3, 4),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, dtype=torch.bfloat16),
        torch.randn(4, dtype=torch.float64),
        torch.randn(4, dtype=torch.complex64),
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.randn(4, dtype=torch.complex64).conj().imag,
        nn.Parameter(torch.randn(3)),
        torch.randn(3).to_sparse(),
    ],
    ids=lambda x: f"{x.dtype}{tuple(x.shape)}{x.layout}",
)
def test_results_are_laid_out_as_eager_ones(x: torch.Tensor) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.unsqueeze(0), x.unsqueeze(-1)

    for expected, compiled in zip(f(x), aot(f)(x), strict=True):
        torch.testing.assert_close(compiled, expected)
        assert compiled.is_conj() == expected.is_conj()
        if x.layout is torch.strided:
            assert compiled.stride() == expected.stride()


def test_inference_mode() -> None:
    f = aot(lambda x: (x.add_(1), x * 2)[1])
    with torch.inference_mode():
        x = torch.zeros(2)
        y = f(x)
        assert x.is_inference() and y.is_inference()
    assert (x.tolist(), y.tolist()) == ([1, 1], [2, 2])
    z = torch.zeros(2)
    assert not f(z).is_inference()


# Gradients of some results only


class Heads(nn.Module):
    """Two results that share a part of their parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2)
        self.policy = nn.Linear(2, 3)
        self.value = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = self.body(x).relu()
        value = self.value(h)
        return self.policy(h), value, torch.cat([value, h.sqrt()], 1).t()


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_only_what_was_used_has_gradients(used: tuple[int, ...]) -> None:
    def gradients(compile_: Any) -> list[torch.Tensor | None]:
        torch.manual_seed(1)
        net = Heads()
        results = compile_(net)(torch.randn(4, 2))
        sum(results[k].square().sum() for k in used).backward()
        return [p.grad for p in net.parameters()]

    for a, b in zip(gradients(lambda net: net), gradients(aot), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a, equal_nan=True)


def test_a_view_that_was_taken_without_grad_mode(declined: list[str]) -> None:
    """It requires grad, but passes none on."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            y = x.view(-1)
        return y.unsqueeze(0), x * 3

    x = torch.ones(2, requires_grad=True)
    sum(y.sum() for y in aot(f)(x)).backward()
    assert x.grad.tolist() == [3, 3]
    assert len(declined) == 1


def test_a_result_that_was_not_used_makes_no_nan() -> None:
    f = aot(lambda x: (x.sqrt(), x * 3, (x + 1).view(-1)))
    for used, expected in ((1, 3.0), (2, 1.0)):
        x = torch.zeros(2, requires_grad=True)
        f(x)[used].sum().backward()
        assert x.grad.tolist() == [expected, expected]
