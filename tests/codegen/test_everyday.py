"""What people do with models every day, compiled to kernels and not, from the same seed."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import jitpkg

Compile = Callable[[Any], Any]
Scenario = Callable[[Compile], Iterator[Tensor]]

SCENARIOS: dict[str, Scenario] = {}


def scenario(f: Scenario) -> Scenario:
    """A generator of what is to be the same. It is given what compiles."""
    SCENARIOS[f.__name__] = f
    return f


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))


def trained(compiled: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for _ in range(4):
        optimizer.zero_grad()
        loss = compiled(torch.randn(4, 6)).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()
    yield from (p.detach() for p in model.parameters())


# Training


@scenario
def scaled_gradients_under_autocast(compile_: Compile) -> Iterator[Tensor]:
    model = perceptron()
    compiled, scaler = compile_(model), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = compiled(torch.randn(4, 6)).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield loss.detach()


@scenario
def tied_weights(compile_: Compile) -> Iterator[Tensor]:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 6)
            self.out = nn.Linear(6, 10, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, i: Tensor) -> Tensor:
            return self.out(F.relu(self.embed(i)))

    model = Tied()
    compiled, optimizer = compile_(model), torch.optim.Adam(model.parameters())
    for _ in range(3):
        i = torch.randint(0, 10, (3, 4))
        loss = F.cross_entropy(compiled(i).view(-1, 10), i.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


@scenario
def parametrized_weights(compile_: Compile) -> Iterator[Tensor]:
    weight_norm = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))
    spectral_norm = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3))
    model = nn.Sequential(weight_norm, nn.ReLU(), spectral_norm)
    yield from trained(compile_(model), model, torch.optim.SGD(model.parameters(), 0.1))


@scenario
def dropout(compile_: Compile) -> Iterator[Tensor]:
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    yield from trained(compile_(model), model, torch.optim.SGD(model.parameters(), 0.1))
    yield torch.rand(3)


@scenario
def closure_of_an_optimizer(compile_: Compile) -> Iterator[Tensor]:
    model, x = perceptron(), torch.randn(5, 6)
    compiled, optimizer = compile_(model), torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = compiled(x).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(2):
        yield optimizer.step(closure).detach()


@scenario
def step_of_an_optimizer(compile_: Compile) -> Iterator[Tensor]:
    model = perceptron()
    optimizer = torch.optim.AdamW(model.parameters())
    step = compile_(lambda: optimizer.step())
    for _ in range(3):
        model(torch.ones(2, 6)).sum().backward()
        step()
        optimizer.zero_grad()
    yield from (p.detach() for p in model.parameters())


@scenario
def whole_step(compile_: Compile) -> Iterator[Tensor]:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = compile_(step)
    for _ in range(4):
        yield compiled(torch.randn(4, 6))
    yield from (p.detach() for p in model.parameters())


@scenario
def sparse_gradients(compile_: Compile) -> Iterator[Tensor]:
    model = nn.Embedding(10, 4, sparse=True)
    compile_(model)(torch.tensor([1, 2, 1])).sum().backward()
    yield model.weight.grad.to_dense()


@scenario
def moving_average_of_weights(compile_: Compile) -> Iterator[Tensor]:
    model = perceptron()
    average = copy.deepcopy(model)
    compiled, smooth = compile_(model), compile_(average)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(4, 6)
        optimizer.zero_grad()
        compiled(x).pow(2).mean().backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(b, 0.5)
            yield smooth(x)


@scenario
def convolutions(compile_: Compile) -> Iterator[Tensor]:
    layers = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))
    compiled, optimizer = compile_(model), torch.optim.SGD(model.parameters(), 0.01)
    for k in range(4):
        loss = compiled(torch.randn(2 + k % 2, 3, 8, 8)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()
    model.eval()
    yield compiled(torch.ones(1, 3, 8, 8))
    yield from (b.float() for b in model.buffers())


@scenario
def losses(compile_: Compile) -> Iterator[Tensor]:
    x, t = torch.randn(4, 5, requires_grad=True), torch.randint(0, 5, (4,))
    ones = torch.ones(4, 5)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: F.cross_entropy(x, t, label_smoothing=0.1),
        lambda x: F.nll_loss(F.log_softmax(x, 1), t, ignore_index=2),
        lambda x: F.kl_div(x.log_softmax(1), (x.detach() * 2).softmax(1), reduction="batchmean"),
        lambda x: F.smooth_l1_loss(x, ones),
        lambda x: F.binary_cross_entropy_with_logits(x, ones),
        lambda x: F.huber_loss(x, ones),
        lambda x: F.cosine_similarity(x, x * 2 + 1).sum(),
        lambda x: torch.logsumexp(x, 1).sum(),
        lambda x: F.multi_margin_loss(x, t),
        lambda x: F.triplet_margin_loss(x, x * 2, x - 1),
    ]
    for function in functions:
        x.grad = None
        loss = compile_(function)(x)
        loss.backward()
        yield loss.detach()
        yield x.grad.clone()


# Layers


@scenario
def attention(compile_: Compile) -> Iterator[Tensor]:
    compiled = compile_(nn.MultiheadAttention(8, 2, batch_first=True))
    x = torch.randn(2, 5, 8, requires_grad=True)
    y, weights = compiled(x, x, x)
    (y.sum() + weights.pow(2).sum()).backward()
    yield from (y, weights, x.grad)


@scenario
def encoder(compile_: Compile) -> Iterator[Tensor]:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    compiled, x = compile_(model), torch.randn(2, 5, 8)
    mask = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    yield compiled(x)
    yield compiled(x, src_key_padding_mask=mask)
    model.eval()
    with torch.no_grad():
        yield compiled(x)


@scenario
def recurrence(compile_: Compile) -> Iterator[Tensor]:
    compiled = compile_(nn.GRU(4, 5, 2, batch_first=True, bidirectional=True))
    x = torch.randn(3, 6, 4, requires_grad=True)
    y, h = compiled(x)
    (y.sum() + h.pow(2).sum()).backward()
    yield from (y, h, x.grad)


@scenario
def lazy_layers(compile_: Compile) -> Iterator[Tensor]:
    model = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyBatchNorm1d())
    compiled, x = compile_(model), torch.randn(4, 6)
    yield from (compiled(x), compiled(x), model[2].running_mean)


@scenario
def hooks(compile_: Compile) -> Iterator[Tensor]:
    model, seen = perceptron(), []
    model[0].register_forward_hook(lambda module, given, out: out * 2)
    model[3].register_full_backward_hook(lambda module, given, out: seen.append(out[0].sum()))
    compiled, x = compile_(model), torch.randn(4, 6)
    for _ in range(2):
        compiled(x).sum().backward()
    handle = model[1].register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    yield compiled(x)
    handle.remove()
    yield compiled(x)
    yield from seen


# Models that change


@scenario
def other_dtypes(compile_: Compile) -> Iterator[Tensor]:
    model, x = perceptron(), torch.randn(4, 6)
    compiled = compile_(model)
    for dtype in (torch.float32, torch.float64, torch.float32):
        model.to(dtype)
        yield compiled(x.to(dtype))


@scenario
def other_weights(compile_: Compile) -> Iterator[Tensor]:
    model, x = perceptron(), torch.randn(4, 6)
    compiled = compile_(model)
    yield compiled(x)
    for target in (model, compiled):
        target.load_state_dict(perceptron().state_dict())
        yield compiled(x)


@scenario
def saved_and_copied(compile_: Compile) -> Iterator[Tensor]:
    model, x, file = perceptron(), torch.randn(2, 6), io.BytesIO()
    compiled = compile_(model)
    yield compiled(x)
    torch.save(compiled.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    other.load_state_dict(torch.load(file))
    yield from (other(x), compile_(other)(x))


@scenario
def batches_of_all_sizes(compile_: Compile) -> Iterator[Tensor]:
    compiled = compile_(perceptron())
    for n in (1, 2, 3, 0, 5, 8, 13, 21, 34, 1, 0):
        yield compiled(torch.randn(n, 6))
    for n in (1, 2, 3, 7):
        yield compiled(torch.randn(2, n, 6))


@scenario
def growing_cache(compile_: Compile) -> Iterator[Tensor]:
    def step(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values), keys, values

    compiled = compile_(step)
    keys = values = torch.zeros(1, 2, 0, 4)
    for _ in range(12):
        y, keys, values = compiled(*torch.randn(3, 1, 2, 1, 4), keys, values)
        yield y


# Functions


@scenario
def parameters_as_arguments(compile_: Compile) -> Iterator[Tensor]:
    model, x = perceptron(), torch.randn(4, 6)
    compiled = compile_(lambda p, x: torch.func.functional_call(model, p, (x,)))
    twice = {name: p.detach() * 2 for name, p in model.named_parameters()}
    yield from (compiled(twice, x), compiled(twice, x))


@scenario
def transforms(compile_: Compile) -> Iterator[Tensor]:
    compiled, x = compile_(lambda x: F.gelu(x).sum()), torch.randn(4, 6)
    yield torch.vmap(compiled)(x)
    yield torch.func.grad(compiled)(x)
    yield torch.func.jacrev(lambda x: compiled(x) * x)(x)
    yield compiled(x)


@scenario
def arguments_in_place(compile_: Compile) -> Iterator[Tensor]:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.add_(y).relu_()
        z = x[1:]
        z.mul_(2)
        y.t_()
        return z, x.view(-1)

    compiled = compile_(f)
    for _ in range(3):
        x, y = torch.randn(3, 4), torch.randn(3, 4)
        yield from (*compiled(x, y), x, y)


@scenario
def given_memory(compile_: Compile) -> Iterator[Tensor]:
    compiled = compile_(lambda x, out: torch.add(x, 1, out=out) * 2)
    x, out = torch.randn(3, 4), torch.empty(3, 4)
    yield from (compiled(x, out), out, compiled(x, out))


@scenario
def complex_numbers(compile_: Compile) -> Iterator[Tensor]:
    def f(x: Tensor) -> Tensor:
        return torch.fft.rfft(x).abs() + torch.view_as_real(torch.polar(x, x)).sum(-1)[:, :4]

    yield compile_(f)(torch.rand(3, 6))


@scenario
def odd_strides(compile_: Compile) -> Iterator[Tensor]:
    def f(x: Tensor, y: Tensor) -> Tensor:
        matrix = y.expand(4, 3).t().contiguous().t()[:, ::2]
        return (x.t() @ matrix).softmax(0).cumsum(1).flip(0)

    compiled = compile_(f)
    yield compiled(torch.randn(4, 5), torch.randn(1, 3))
    yield compiled(torch.randn(6, 4, 5)[2], torch.randn(1, 3))


@pytest.mark.parametrize("way_in", [jitpkg.compile, jitpkg.jit], ids=["compile", "jit"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_as_eager(name: str, way_in: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    expected = list(SCENARIOS[name](lambda model: model))
    torch.manual_seed(0)
    found = list(SCENARIOS[name](lambda model: way_in(model, backend="jitpkg")))
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5)
