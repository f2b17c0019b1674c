"""The option `backward="own"`: programs that are trained do as eager code does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitpkg
from jitpkg.codegen import backend as own
from jitpkg.codegen.autograd import compile as compiling
from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm
from tests.torch_versions import products_of_any_size

pytestmark = needs_llvm

OWN = {"backward": "own"}
HOW = ("version", "grad_fn", "view", "idle strides")


def x(*size: int, grad: bool = True) -> Tensor:
    return torch.randn(
        size or (3, 4), generator=torch.Generator().manual_seed(7), requires_grad=grad
    )


def same(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    settings: dict[str, Any] = {"relative": 2e-5, "absolute": 5e-6, "ignore": HOW, **named}
    Comparison(backend="jitpkg", options=OWN, **settings).assert_same(function, *args)


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """AOTAutograd is not asked."""

    def refuse(gm: Any, inputs: Any, maker: Any, options: Any, key: Any) -> Any:
        why = compiling.trained(gm, inputs, maker, options, None)
        raise AssertionError(why)

    monkeypatch.setattr(own, "_through_aot", refuse)


IMAGES = (2, 3, 6, 6)
LABELS = torch.tensor([1, 0, 3])


def mutated(a: Tensor) -> Tensor:
    b = a * 2
    b.sigmoid_()
    c = b + 1
    c[0].mul_(3)
    c.add_(a)
    return c.sin()


def in_no_grad(a: Tensor) -> Tensor:
    b = a.exp()
    with torch.no_grad():
        scale = b.sum() + a.mean()
    return b / scale


def read_first_in_no_grad(a: Tensor) -> Tensor:
    row = (a * 2)[0]
    with torch.no_grad():
        scale = row.sum()
    return row * scale


def attended(a: Tensor, attn_mask: Tensor | None = None, **named: Any) -> Tensor:
    return F.scaled_dot_product_attention(a, a * 2, a + 1, attn_mask, **named)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pointwise": (lambda a: a.sin() * a.exp() + a, (x(),)),
    "activations": (lambda a: F.gelu(a) + F.relu(a) + F.silu(a) + a.sigmoid() * a.tanh(), (x(),)),
    "two inputs": (lambda a, b: a * b + a / (b.abs() + 1), (x(), x(4))),
    "one without gradient": (lambda a, b: (a * b).sum(), (x(), x(4, grad=False))),
    "unused": (lambda a, b: a * 2, (x(), x())),
    "several results": (lambda a, b: (a.sum(), b * 2, (a * b).cos(), a.detach() * 2), (x(), x())),
    "constants": (lambda a: (a * 2, 3, None, "a"), (x(),)),
    "an input": (lambda a: (a, a * 2, a[0]), (x(),)),
    "views": (lambda a: ((a * 2).view(-1), (a + 1)[1:], (a.exp()).t()), (x(),)),
    "one result twice": (lambda a: (lambda b: (b, b))(a * 2), (x(),)),
    "equal results": (
        lambda a: [(a.sort(), a.topk(2), a * 2, (a * 2).view(-1)) for _ in "12"],
        (x(),),
    ),
    "reductions": (
        lambda a: (a.sum(0), a.mean(), a.amax(1), a.var(), a.norm(), a.logsumexp(1), a.std(0)),
        (x(),),
    ),
    "softmax": (lambda a: a.softmax(1).log() + a.log_softmax(0), (x(),)),
    "products": (lambda a, b: (a @ b, a.mm(b).relu(), a @ b[:, 0]), (x(3, 4), x(4, 5))),
    "batches": (lambda a, b: torch.bmm(a, b).sum(-1), (x(2, 3, 4), x(2, 4, 5))),
    "einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), (x(3, 4), x(5, 4))),
    "linear": (F.linear, (x(2, 3, 4), x(5, 4), x(5))),
    "layer norm": (lambda a, w, b: F.layer_norm(a, (4,), w, b), (x(), x(4), x(4))),
    "convolution": (
        lambda a, w, b: F.conv2d(a, w, b, stride=2, padding=1).relu(),
        (x(*IMAGES), x(4, 3, 3, 3), x(4)),
    ),
    "batch norm": (
        lambda a, w, b, m, v: F.batch_norm(a, m, v, w, b, training=True),
        (x(*IMAGES), x(3), x(3), torch.zeros(3), torch.ones(3)),
    ),
    "pooling": (lambda a: F.max_pool2d(a, 2) + F.avg_pool2d(a, 2), (x(*IMAGES),)),
    "adaptive pooling": (lambda a: F.adaptive_avg_pool2d(a, 1).flatten(1), (x(*IMAGES),)),
    "cross entropy": (lambda a: F.cross_entropy(a, LABELS), (x(3, 5),)),
    "embedding": (lambda w, i: F.embedding(i, w).sum(1), (x(5, 4), torch.tensor([[0, 2], [2, 4]]))),
    "losses": (
        lambda a, b: F.mse_loss(a, b) + F.l1_loss(a, b) + F.huber_loss(a, b),
        (x(), x() * 2),
    ),
    "attention": (attended, (x(2, 2, 4, 8),)),
    "causal attention": (lambda a: attended(a, is_causal=True), (x(2, 2, 4, 8),)),
    "masked attention": (
        lambda a, m: attended(a, attn_mask=m > 0) + attended(a, attn_mask=m),
        (x(2, 2, 4, 8), x(4, 4, grad=False)),
    ),
    "attention, mask trained": (
        lambda a, m: attended(a, attn_mask=m),
        (x(2, 2, 4, 8), x(2, 2, 4, 4)),
    ),
    "attention, dropout": (lambda a: attended(a, dropout_p=0.3), (x(2, 2, 4, 8),)),
    "attention, dropout, causal": (
        lambda a: attended(a, dropout_p=0.3, is_causal=True, scale=0.1),
        (x(2, 2, 4, 8),),
    ),
    "attention, dropout, mask": (
        lambda a, m: attended(a, dropout_p=0.3, attn_mask=m) + attended(a, m > 0, dropout_p=0.1),
        (x(2, 2, 4, 8), x(4, 4)),
    ),
    "attention, all dropped": (lambda a: attended(a, dropout_p=1.0), (x(2, 2, 4, 8),)),
    "attention of half precision, dropout": (
        lambda a: attended(a.to(torch.bfloat16), dropout_p=0.3).float(),
        (x(2, 2, 4, 8),),
    ),
    "joined": (
        lambda a, b: torch.cat([a, b * 2]).chunk(2, 1)[1] * torch.stack([a, b])[1, 0, 0],
        (x(), x()),
    ),
    "indexed": (lambda a: a[LABELS[:2]] * a[:, [1, 0, 2, 2]][0], (x(),)),
    "gathered": (lambda a: a.gather(1, torch.tensor([[0, 1], [2, 2], [3, 0]])), (x(),)),
    "masked": (lambda a: a.masked_fill(a > 0, 2.0) + torch.where(a > 0, a, a * 2), (x(),)),
    "cumulated": (lambda a: a.cumsum(1) + a.flip(0), (x(),)),
    "sorted": (lambda a: a.sort(1).values + a.topk(2, 1).values.sum(), (x(),)),
    "padded": (lambda a: F.pad(a, (1, 2)).unfold(1, 2, 1).sum(-1), (x(),)),
    "triangles": (lambda a: a.tril() + a.triu(1) * 2, (x(),)),
    "dropout": (lambda a: F.dropout(a, 0.5) * 2, (x(),)),
    "random": (lambda a: a * torch.rand_like(a) + torch.randn(4), (x(),)),
    "mutated": (mutated, (x(),)),
    "detached": (lambda a: a * a.exp().detach(), (x(),)),
    "in no_grad": (in_no_grad, (x(),)),
    "a view that no_grad reads first": (read_first_in_no_grad, (x(),)),
    "half precision": (lambda a: (a.to(torch.bfloat16) * 2).float().sum(), (x(),)),
    "doubles": (lambda a: a.exp() / 3, (x().double().detach().requires_grad_(),)),
    "a number": (lambda a: a * 2 + 1, (torch.tensor(2.0, requires_grad=True),)),
    "nothing": (lambda a: a * 2, (torch.zeros(0, 3, requires_grad=True),)),
    "expanded": (lambda a: a.expand(2, 3, 4) * 2, (x(),)),
    "of another layout": (lambda a: (a.t() * 2).contiguous() + 1, (x(),)),
    "norms of groups": (
        lambda a, w: F.group_norm(a, 2, w, w) + F.instance_norm(a),
        (x(2, 4, 3, 3), x(4)),
    ),
    "interpolated": (
        lambda a: (
            F.interpolate(a, scale_factor=2, mode="bilinear") + F.interpolate(a, (6, 6)).exp()
        ),
        (x(2, 4, 3, 3),),
    ),
    "at grid points": (
        lambda a, grid: F.grid_sample(a, grid, align_corners=False),
        (x(2, 4, 3, 3), x(2, 3, 3, 2)),
    ),
    "reflected": (lambda a: F.pad(a, (1, 2), mode="reflect").sin(), (x(),)),
    "divergence": (
        lambda a, b: F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean"),
        (x(), x() * 2),
    ),
    "gated": (lambda a: F.glu(a) * F.prelu(a, a.new_full((1,), 0.2))[:, :2], (x(),)),
    "stacked": (lambda a, b: (torch.hstack([a, b]).msort(), torch.vstack([a, b])), (x(), x())),
    "distances": (
        lambda a, b: (
            torch.cdist(a, b).sum() + F.cosine_similarity(a, b) + F.pairwise_distance(a, b)
        ),
        (x(), x() + 1),
    ),
    "inverse": (lambda a: torch.linalg.inv(a @ a.t() + torch.eye(3)) @ a, (x(),)),
    "minima": (lambda a, b: torch.minimum(a, b) + a.clamp(-1, 1) + a.min(), (x(), x() + 0.1)),
    "powers": (lambda a: a.pow(2) + a.abs().sqrt() + a.abs().pow(1.5) + 2.0**a, (x(),)),
}


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name: str) -> None:
    function, args = PROGRAMS[name]
    same(function, *args)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 5)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        made = F.relu(self.norm(self.first(images)), inplace=True)
        return F.cross_entropy(self.last(made.mean((2, 3))), labels)


@pytest.mark.usefixtures("ours")
def test_steps_of_a_model() -> None:
    torch.manual_seed(0)
    mine, theirs = Net(), Net()
    theirs.load_state_dict(mine.state_dict())
    compiled = jitpkg.compile(mine, backend="jitpkg", options=OWN)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in (mine, theirs)]
    for step in range(5):
        images, labels = torch.randn(3, 3, 6, 6), torch.tensor([step % 5, 0, 4])
        losses = []
        for net, optimizer in zip((compiled, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(net(images, labels))
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(*losses)
    torch.testing.assert_close(mine.state_dict(), theirs.state_dict())


# What autograd does not see is left to others, and right


def written_in_no_grad(a: Tensor) -> Tensor:
    b = a * 2
    with torch.no_grad():
        b.add_(1)
    return b * b


def written_through_detached(a: Tensor) -> Tensor:
    b = a * 2
    b.detach().add_(1)
    return b * b


def written_input(a: Tensor, buffer: Tensor) -> Tensor:
    buffer.copy_(a.sum(0))
    return a * buffer


def written_buffer(a: Tensor, buffer: Tensor) -> Tensor:
    with torch.no_grad():
        buffer.mul_(0.9).add_(a.sum(0) * 0.1)
    return a * 2


@pytest.mark.parametrize("function", [written_in_no_grad, written_through_detached])
def test_writes_that_autograd_does_not_see(function: Callable[..., Any]) -> None:
    same(function, x())


@pytest.mark.parametrize("function", [written_input, written_buffer])
def test_writes_to_inputs(function: Callable[..., Any]) -> None:
    same(function, x(), torch.ones(4))


def test_a_result_requires_grad_though_nothing_gets_one() -> None:
    same(lambda a: torch.norm(a, 0), x())


def test_where_an_input_lies_in_memory() -> None:
    """Of as_strided the gradient depends on it, and stand-ins lie elsewhere."""

    def function(a: Tensor) -> Tensor:
        return torch.as_strided_copy(a, (2, 2, 2, 2), (1, 1, 1, 1), 0) * 3

    base = torch.randn(40)
    leaves = [base.clone().requires_grad_() for _ in range(2)]
    both = function, jitpkg.compile(function, backend="jitpkg", options=OWN)
    for each, leaf in zip(both, leaves, strict=True):
        each(leaf[2:20]).sum().backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad)


def test_what_a_product_reads_is_not_computed_again() -> None:
    """It lies in memory, and backward, which has a product with it, too, would need a kernel."""

    def function(a: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.gelu(a) @ b

    a, b = torch.randn(6, 5, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    made = jitpkg.compile(function, backend="jitpkg", options=OWN)(a, b)
    saved: Any = made.grad_fn
    expected = torch.nn.functional.gelu(a)
    assert any(
        each.shape == expected.shape and torch.allclose(each, expected, atol=1e-5)
        for each in saved.saved_tensors
    )


# Between forward and backward


@pytest.mark.parametrize(
    "write",
    [
        lambda a, b, y: a.data.mul_(2),
        lambda a, b, y: b.mul_(2),
        lambda a, b, y: y.mul_(2),
        lambda a, b, y: y[0].zero_(),
        lambda a, b, y: None,
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a - b) ** 2,
        lambda a, b: a.exp() * b.sin(),
        lambda a, b: (a * 3).relu() + b,
        lambda a, b: (a + b).sigmoid(),
    ],
)
def test_writes_before_the_backward_pass(
    function: Callable[..., Any], write: Callable[..., Any]
) -> None:
    """It raises where eager code does, and gives the same gradients where that does not."""

    def step(compiled: Callable[..., Any]) -> object:
        a, b = x(), x(grad=False)
        y = compiled(a, b)
        with torch.no_grad():
            write(a, b, y)
        try:
            y.sum().backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)
        return a.grad

    expected, found = step(function), step(jitpkg.compile(function, backend="jitpkg", options=OWN))
    if not (expected is True and isinstance(found, Tensor)):  # it has saved less: documented
        torch.testing.assert_close(found, expected)


def test_some_results_are_not_used() -> None:
    def function(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return (a * 2).sum(), (b.log() * a.detach()).sum()

    compiled = jitpkg.compile(function, backend="jitpkg", options=OWN)
    for which in (0, 1):
        grads = []
        for each in (function, compiled):
            a, b = x(), torch.zeros(3, 4, requires_grad=True)
            each(a, b)[which].backward()
            grads.append((a.grad, b.grad))
        assert [g is None for g in grads[0]] == [g is None for g in grads[1]]
        torch.testing.assert_close(*([g for g in each if g is not None] for each in grads))


def test_backward_twice() -> None:
    compiled = jitpkg.compile(lambda a: (a.exp() * a).sum(), backend="jitpkg", options=OWN)
    a = x()
    loss = compiled(a)
    loss.backward(retain_graph=True)
    assert a.grad is not None
    first = a.grad.clone()
    loss.backward()
    torch.testing.assert_close(a.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_other_sizes() -> None:
    calls = [call(x(n, 4), x(4)) for n in (3, 5, 2, 7)]
    same_calls = Comparison(backend="jitpkg", options=OWN, relative=2e-5, absolute=2e-6, ignore=HOW)
    same_calls.assert_same_calls(lambda a, b: (a * b).softmax(-1).sum(0), *calls)


def normed(a: Tensor, b: Tensor) -> Tensor:
    a = a[:, :, None, None] * torch.ones(2, 2)
    return F.batch_norm(a, torch.zeros(4), torch.ones(4), b, b, training=True)


def kept(a: Tensor, b: Tensor, mean: Tensor) -> Tensor:
    with torch.no_grad():
        mean.mul_(0.9).add_(a.mean(0) * 0.1)
    return (a - mean) * b


def labelled(a: Tensor, b: Tensor) -> Tensor:
    labels = torch.arange(a.shape[0]) % 4
    return F.cross_entropy(a * b, labels) + (F.one_hot(labels, 4) * a).sum()


OF_ANY_SIZE: dict[str, Callable[..., Any]] = {
    "pointwise": lambda a, b: (a * b).exp() + a.shape[0],
    "softmax": lambda a, b: (a * b).softmax(-1).sum(0),
    "reductions": lambda a, b: (a.mean(0) * b, a.var(1), a.amax(0), a.logsumexp(0), a.std(1)),
    "views": lambda a, b: ((a * b).view(-1), a.t() * 2, (a + b)[1:], a.reshape(2, -1).sum(0)),
    "products": lambda a, b: (a @ b, a @ a.t(), torch.einsum("ij,kj->ik", a, a * 2)),
    "linear": lambda a, b: F.linear(a, torch.outer(b, b), b).relu(),
    "layer norm": lambda a, b: F.gelu(F.layer_norm(a, (4,), b, b)),
    "batch norm": normed,
    "convolution": lambda a, b: F.conv1d(a[:, None], b.view(2, 1, 2), padding=1).tanh(),
    "pooling": lambda a, b: F.max_pool2d(a[:, None] * b, 2) + F.avg_pool2d(a[:, None], 2),
    "cross entropy": labelled,
    "embedding": lambda a, b: F.embedding(torch.arange(a.shape[0]).flip(0), a) * b,
    "attention": lambda a, b: attended((a * b).view(1, 2, a.shape[0] // 2, 4)),
    "attention, dropout": lambda a, b: attended((a * b).view(-1, 1, 2, 2), dropout_p=0.5),
    "dropout": lambda a, b: F.dropout(a, 0.5) * b + torch.rand_like(a),
    "joined": lambda a, b: torch.cat([a, a * b, b[None]]).cumsum(0),
    "indexed": lambda a, b: a[[0, -1]] * b + a[:, [1, 0, 2, 2]][0] + a.sort(0).values[-1],
    "padded": lambda a, b: F.pad(a * b, (1, 2, 0, 3)).flip(0).sum(-1),
    "mutated": lambda a, b: mutated(a * b),
    "in no_grad": lambda a, b: in_no_grad(a * b),
    "several results": lambda a, b: (a.sum(), b * 2, (a * b).cos(), a.detach() * 2, a.shape[0]),
}


OF_BATCHES = "attention, dropout"


@pytest.mark.usefixtures("ours")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=products_of_any_size if name == OF_BATCHES else ())
        for name in OF_ANY_SIZE
    ],
)
def test_sizes_that_vary(name: str) -> None:
    calls = [call(x(n, 4), x(4)) for n in (4, 6, 2, 8, 10)]
    same_calls = Comparison(backend="jitpkg", options=OWN, relative=2e-5, absolute=5e-6, ignore=HOW)
    same_calls.assert_same_calls(OF_ANY_SIZE[name], *calls)


def test_a_spread_over_sizes_that_vary() -> None:
    """Its gradient divides by a float that is made of them, which AOTAutograd sees to."""
    calls = [call(x(n, 4), x(4)) for n in (4, 6, 2, 8)]
    same_calls = Comparison(backend="jitpkg", options=OWN, relative=2e-5, absolute=5e-6, ignore=HOW)
    same_calls.assert_same_calls(lambda a, b: (a.var() * b, a.std(0), a.sin()), *calls)


@pytest.mark.usefixtures("ours")
def test_writes_to_buffers_of_sizes_that_vary() -> None:
    calls = [call(x(n, 4), x(4), torch.ones(4)) for n in (4, 6, 2, 8)]
    same_calls = Comparison(backend="jitpkg", options=OWN, relative=2e-5, absolute=5e-6, ignore=HOW)
    same_calls.assert_same_calls(kept, *calls)


@pytest.mark.usefixtures("ours")
def test_numbers_that_vary() -> None:
    calls = [call(x(n, 4), k) for n, k in ((4, 3), (6, 5), (2, 7), (8, 2))]
    same_calls = Comparison(backend="jitpkg", options=OWN, relative=2e-5, absolute=5e-6, ignore=HOW)
    same_calls.assert_same_calls(lambda a, k: ((a * k).sin() + k).sum(0) + a[: k % 3].sum(), *calls)


def test_some_results_of_sizes_that_vary_are_not_used() -> None:
    """Parts of the backward pass are compiled later, and rely on nothing that is not tested."""

    def function(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (a * 2).sum(0), (b.log() * a.detach()).view(-1), a @ b.t()

    compiled = jitpkg.compile(function, backend="jitpkg", options=OWN)
    for n in (3, 5, 2, 7):
        for which in ((0,), (1,), (0, 2), (2,)):
            grads = []
            for each in (function, compiled):
                a, b = x(n, 4), x(n, 4)
                results = each(a, b)
                torch.autograd.backward([results[k].sum() for k in which])
                grads.append((a.grad, b.grad))
            assert [g is None for g in grads[0]] == [g is None for g in grads[1]]
            found = ([g for g in each if g is not None] for each in grads)
            torch.testing.assert_close(*found, equal_nan=True)


def test_a_backward_pass_under_autocast_of_sizes_that_vary() -> None:
    compiled = jitpkg.compile(
        lambda a: (a.view(-1, 2) @ a.view(2, -1)).sum(), backend="jitpkg", options=OWN
    )
    for n in (4, 6, 2):
        a = x(n, 4)
        loss = compiled(a)
        with torch.autocast("cpu"):
            loss.backward()
        wanted = x(n, 4)
        loss = (wanted.view(-1, 2) @ wanted.view(2, -1)).sum()
        with torch.autocast("cpu"):
            loss.backward()
        torch.testing.assert_close(a.grad, wanted.grad, rtol=2e-2, atol=2e-2)


IN_A_NEW_PROCESS = """
import sys, torch
from torch import nn
import jitpkg
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 5)
    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(2, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return nn.functional.cross_entropy(self.out(nn.functional.gelu(y)).flatten(0, 1), labels)
labels = torch.arange(8) % 5
module, x = Block(), torch.randn(2, 4, 8)
before = set(sys.modules)
jitpkg.compile(module, options={"backward": "own"})(x).backward()
print(sum(p.grad.abs().sum().item() for p in module.parameters()))
names = ("sympy", "torch._functorch.aot_autograd", "torch._functorch.partitioners", "torch._dynamo",
         "torch._inductor", "torch.fx.experimental.symbolic_shapes")
print([name for name in names if name in sys.modules and name not in before])
"""


def test_nothing_of_aotautograd_is_imported(tmp_path: Path) -> None:
    """Nor FakeTensor's symbols; and what was kept gives the same in the next process."""
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", IN_A_NEW_PROCESS],
            capture_output=True,
            text=True,
            check=False,
            env={"JITPKG_CACHE_DIR": str(tmp_path), "JITPKG_STRICT": "1", **_environment()},
        )
        assert done.returncode == 0, done.stderr[-2000:]
        found.append(done.stdout.splitlines())
    assert found[0][1] == "[]"
    assert found[0] == found[1]


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": os.environ["PATH"]}


TRANSFORMER = """
import sys, torch, jitpkg
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
attention, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(2, 4, 8)

def step(x):
    y, weights = attention(x, x, x)
    z, _ = attention(layer(y), y, y, need_weights=False)
    return (z * weights.sum()).sum()

def evaluated(x):
    return layer(attention(x, x, x)[0])

def run(step, evaluated):
    torch.manual_seed(1)
    loss = step(x)
    loss.backward()
    parameters = [*layer.parameters(), *attention.parameters()]
    found = [loss.detach(), *(p.grad for p in parameters)]
    for p in parameters:
        p.grad = None
    layer.eval(), attention.eval()
    with torch.no_grad():
        found.append(evaluated(x))
    layer.train(), attention.train()
    return found

found = run(*(jitpkg.compile(f, backend="jitpkg") for f in (step, evaluated)))
print([name for name in ("jitpkg.facts.fake", "sympy") if name in sys.modules])
for a, b in zip(found, run(step, evaluated), strict=True):
    torch.testing.assert_close(a, b)
"""


def test_a_layer_of_a_transformer_imports_no_compiler() -> None:
    """With dropout, with and without the weights of attention, trained and evaluated."""
    done = subprocess.run(
        [sys.executable, "-c", TRANSFORMER], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr[-2000:]
