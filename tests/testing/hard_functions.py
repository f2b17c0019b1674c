"""More functions for random arguments: writes through views, shared memory, state, exceptions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional as F

from tests.testing.functions import Tensors, fuzzed, leaves, tensors_of

# Writes


@fuzzed
def written_through_views(xs: Tensors) -> Any:
    x = xs[0].detach()
    y = x[..., :1] if x.dim() else x
    z = y.unsqueeze(-1)
    y.add_(1)
    x.mul_(2)
    z.zero_()
    return x, y, z, [t + 0 for t in xs]


@fuzzed
def added_in_place(xs: Tensors) -> Any:
    first, last = xs[0], xs[-1]
    found = first * 1
    first += last
    return found, first, last


@fuzzed
def copied_between(xs: Tensors) -> Any:
    a, b = xs[:2]
    with torch.no_grad():
        try:
            a.copy_(b)
        except RuntimeError as error:
            return a + 1, str(error)
    return a, b, a is b, a.data_ptr() == b.data_ptr()


@fuzzed
def assigned_items(xs: Tensors) -> Any:
    x = xs[0].clone()
    if x.dim():
        x[-1:] = 7
        x[x > 2] = 0
        x[..., 0] = xs[-1].sum()
    x[...] = x * 2
    return x


@fuzzed
def written_to_out(xs: Tensors) -> Any:
    out = torch.empty(0, dtype=torch.float64)
    shared = torch.zeros(2, 3)
    torch.add(xs[0].detach(), xs[-1].detach(), out=out)
    torch.mul(torch.ones(3), 2, out=shared[0])
    return out, shared


@fuzzed
def turned_in_place(xs: Tensors) -> Any:
    x = xs[0]
    before = x.shape
    if x.is_leaf:
        x.unsqueeze_(0)
    return x + 1, before, x.shape, [t.shape for t in xs]


@fuzzed
def written_while_looping(xs: Tensors) -> Any:
    total = torch.zeros((), dtype=torch.float64)
    for k, x in enumerate(xs):
        if x.requires_grad:
            continue
        total = total + x.sum().real
        x.add_(k)
        if k == 2:
            break
    else:
        total = total - 1
    return total, xs


@fuzzed
def flagged(xs: Tensors) -> Any:
    x = xs[0]
    y = (x * 2).detach()
    y = y.requires_grad_() if y.is_floating_point() else y
    z = y * 3 if y.requires_grad else y - 1
    return z, z.requires_grad, y.is_leaf, x.requires_grad and not x.is_leaf


@fuzzed
def structure_and_tensors_written(obj: Any) -> Any:
    log: list[Any] = []

    def change(inner: Any) -> None:
        match inner:
            case torch.Tensor() if not inner.requires_grad and not inner.is_complex():
                log.append(inner.sum())
                inner.zero_()
            case dict():
                for key, value in list(inner.items()):
                    change(value)
                    inner[key] = [value]
            case list():
                for value in inner[:]:
                    change(value)
                inner += [len(inner)]

    change(obj)
    return obj, log


# Dtypes, sizes


@fuzzed
def all_arithmetic(xs: Tensors) -> Any:
    found = []
    for x in xs[:2]:
        for op in (
            lambda x: x + 1j,
            lambda x: x**2,
            lambda x: 2 - x,
            lambda x: x // 2,
            lambda x: x % 3,
            lambda x: -x,
            lambda x: ~x,
            lambda x: x & 1,
            lambda x: 1 / (x + 10),
        ):
            try:
                found.append(op(x))
            except (RuntimeError, TypeError) as error:
                found.append(str(error))
    return found


@fuzzed
def sizes_used(xs: Tensors) -> Any:
    x = xs[0]
    n = x.shape[0] if x.dim() else 1
    y = x.reshape(n, -1) if x.numel() else x.reshape(0)
    if n % 2 == 0 and x.numel():
        y = torch.cat(y.chunk(2), -1)
    return y, torch.arange(n) + n // 2, n * 2 > x.numel(), x.new_zeros(n, 2)


@fuzzed
def rows(xs: Tensors) -> Any:
    x = xs[0]
    if not x.dim():
        return x + 1
    found = [row.sum() * k for k, row in enumerate(x)]
    return (torch.stack(found) if found else x.sum()), len(x)


@fuzzed
def indexed(xs: Tensors) -> Any:
    x = xs[0]
    n = x.shape[0] if x.dim() else 0
    index = torch.tensor([0, n - 1]) if n else torch.tensor([], dtype=torch.long)
    if not x.dim():
        return x[None], x[...]
    return x[index], x[..., None], x[::2], x[-1:, ...], x[index >= 0] if len(index) == n else None


@fuzzed
def sizes_from_data(xs: Tensors) -> Any:
    x = xs[0].real.float() if xs[0].is_complex() else xs[0].float()
    found = x.nonzero()
    return found, x[x > 0], torch.unique(x.detach()), int((x > 0).sum()) + len(found)


@fuzzed
def chosen_by_numbers(xs: Tensors) -> Any:
    x = xs[0].real if xs[0].is_complex() else xs[0]
    n = int(x.sum()) if x.numel() else -1
    return torch.ones(2) * n, ["even", "odd"][n % 2], x.tolist()


# State, exceptions, output

SEEN: list[Any] = []
BY_SHAPE: dict[Any, torch.Tensor] = {}


@fuzzed
def cached_by_shape(xs: Tensors) -> Any:
    x = xs[0]
    key = (x.shape, x.dtype)
    if key not in BY_SHAPE:
        BY_SHAPE[key] = torch.ones(2) * x.dim()
    SEEN.append(len(BY_SHAPE))
    return BY_SHAPE[key] + 1, SEEN[-1]


class Tracked:
    """A class with operators, a property, and a count that all share."""

    made = 0

    def __init__(self, value: Any, note: str = "") -> None:
        type(self).made += 1
        self.value, self.note = value, note

    def __add__(self, other: Any) -> Tracked:
        value = other.value if isinstance(other, Tracked) else other
        return Tracked(self.value + value, self.note + "+")

    __radd__ = __add__

    @property
    def size(self) -> int:
        return int(self.value.numel())

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]


@fuzzed
def through_operators(xs: Tensors) -> Any:
    total = sum((Tracked(x.detach()) for x in xs[:2]), Tracked(torch.zeros(1)))
    return total, total.size, Tracked.made, total[0]


@contextmanager
def forgiving(log: list[str]) -> Iterator[torch.Tensor]:
    log.append("entered")
    try:
        yield torch.ones(2)
    except (RuntimeError, IndexError, TypeError) as error:
        log.append(type(error).__name__)
    finally:
        log.append("left")


@fuzzed
def forgiven(xs: Tensors) -> Any:
    log: list[str] = []
    y = None
    with forgiving(log) as x:
        y = x + 1
        y = xs[0][1] @ xs[-1]
        log.append("worked")
    return y, log


@fuzzed
def raised_again(xs: Tensors) -> Any:
    x = xs[0] * 2
    try:
        return x.view(2, -1) + xs[1]
    except RuntimeError as error:
        xs.append(x)
        raise ValueError(f"not {tuple(x.shape)}") from error
    finally:
        xs.reverse()


@fuzzed
def told(xs: Tensors) -> Any:
    x = xs[0] + 1
    print("got", tuple(x.shape), x.dtype)
    if x.numel() > 2:
        warnings.warn("many", stacklevel=2)
    y = x * 2
    print(f"{y.dim()=}")
    return y


@fuzzed
def yielded(xs: Tensors) -> Any:
    def halves() -> Iterator[Any]:
        for x in xs:
            received = yield x / 2
            if received:
                yield received

    made = halves()
    first = next(made)
    return first, made.send(first.sum()), list(made)


@fuzzed
def counted_in_cells(obj: Any) -> Any:
    count, last = 0, None

    def visit(leaf: Any) -> Any:
        nonlocal count, last
        count += 1
        last, before = leaf, last
        return before

    order = sorted(map(str, map(type, leaves(obj))))
    return [visit(leaf) for leaf in leaves(obj)], torch.ones(1) * count, last, order


@fuzzed
def largest(obj: Any) -> Any:
    found = sorted(tensors_of(obj), key=lambda t: (-t.numel(), str(t.dtype)))
    with_sizes = {k: tuple(t.shape) for k, t in enumerate(found)}
    most = max(found, key=torch.Tensor.numel, default=None)
    return [t.flatten()[:2] for t in found], with_sizes, most


# Random numbers, gradients


@fuzzed
def many_random(xs: Tensors) -> Any:
    x = xs[0].detach().float() if not xs[0].is_complex() else torch.ones(2)
    noise = torch.randn_like(x) * F.dropout(torch.ones_like(x), 0.3)
    generator = torch.Generator().manual_seed(len(xs))
    order = torch.randperm(4, generator=generator)
    x.uniform_() if xs[0].dtype is torch.float64 else noise.normal_()
    return noise, order, torch.rand(2), torch.bernoulli(torch.full((3,), 0.5))


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x


@fuzzed
def own_derivative(xs: Tensors) -> Any:
    return [Doubling.apply(x) + x.detach() for x in xs if x.is_floating_point()], xs[0] * 1


@fuzzed
def graph_of_gradients(xs: Tensors) -> Any:
    found = [x for x in xs if x.requires_grad]
    if not found:
        return xs[0] + 1
    a = found[0] * 3
    with torch.no_grad():
        b = found[-1] * 2
    c = a.detach() + found[-1] if a.shape == found[-1].shape else a.sum()
    return a, b, c, (a * a.detach()).sum(), a.relu()


@fuzzed
def hooked(xs: Tensors) -> Any:
    seen: list[Any] = []
    x = xs[0].detach().float() if not xs[0].is_complex() else torch.ones(2)
    x.requires_grad_()
    y = x * 2
    y.register_hook(lambda gradient: gradient * 3)
    y.retain_grad()
    y.sum().backward()
    seen.append(y.grad)
    return x.grad, seen


@fuzzed
def stepped(xs: Tensors) -> Any:
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.5)
    for x in xs[:2]:
        optimizer.zero_grad()
        loss = (w.sum() * x.detach().abs().float()).sum()
        loss.backward()
        optimizer.step()
    return w, w.grad


@fuzzed
def parts_with_gradients(xs: Tensors) -> Any:
    x = xs[0]
    parts = x.split(1) if x.dim() and x.shape[0] else (x,)
    y = parts[0] * 1
    y.mul_(2)
    return y, parts[-1].clone(), x.sum() if x.numel() else x
