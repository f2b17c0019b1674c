"""How often programs are traced and compiled: a second size costs what the first one did, a third
one nothing, as long as the program goes the same way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jitpkg
from jitpkg import config, events

Program = Callable[..., Any]
Make = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A program, or what makes one, and how it is called."""

    name: str
    make: Callable[[], Program]
    arguments: Make
    each: Sequence[Any]
    traces: int
    compilations: int


CASES: list[Case] = []


def case(
    arguments: Make, each: Sequence[Any], traces: int = 2, compilations: int | None = None
) -> Callable[[Program], Program]:
    """A program that is called with `arguments(*items)` for each item of `each`."""

    def add(f: Program) -> Program:
        most = traces if compilations is None else compilations
        CASES.append(Case(f.__name__, lambda: f, arguments, each, traces, most))
        return f

    return add


def made(
    arguments: Make, each: Sequence[Any], traces: int = 2, compilations: int | None = None
) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    """The same of a program with state, which the function makes anew."""

    def add(make: Callable[[], Program]) -> Callable[[], Program]:
        most = traces if compilations is None else compilations
        CASES.append(Case(make.__name__, make, arguments, each, traces, most))
        return make

    return add


R = torch.randn
W = torch.arange(288.0).reshape(4, 8, 3, 3) / 288
M = torch.arange(16.0).reshape(4, 4) / 16

# Caches and windows


@case(lambda n: (torch.arange(n)[None][:, -64:],), range(65, 80))
def window_of_one_row(x):
    return x * 2 + 1


@case(lambda n: (torch.arange(n)[None][:, -8:],), range(2, 20), traces=3)
def window_that_fills(x):
    return x * 2 + 1


@case(lambda n: (torch.arange(3 * n).view(3, n)[:, -64:],), range(65, 80))
def window_of_rows(x):
    return x * 2 + 1


@case(lambda n: (R(2, 4, n, 8)[:, :, -16:],), range(17, 27))
def window_of_a_cache(x):
    return (x + 1).sum(-1), x.transpose(1, 2).reshape(2, 16, 32)


@case(lambda n: (R(2, 4, n, 8), R(2, 4, 1, 8)), range(2, 12))
def growing_cache(cache, x):
    return torch.cat([cache, x], 2)


@case(lambda n: (R(2, n, 4, 8).transpose(1, 2), R(2, 1, 4, 8).transpose(1, 2)), range(1, 9))
def transposed_cache(cache, x):
    return torch.cat([cache, x], 2), cache.sum(2)


@case(lambda n: (R(6, n)[:, :4],), (5, 6, 8, 10, 12))
def columns(x):
    return x.sin() + 1


@case(lambda n: (R(20, n)[::2, 1:3],), (4, 6, 8, 10, 12))
def every_other_row(x):
    return x.sin() + 1


@case(lambda n: (R(1, 4).expand(n, 4),), (4, 6, 8, 10))
def expanded(x):
    return x.sin() + 1


@case(lambda n: (R(40)[n : n + 8],), range(8), traces=1)
def offsets(x):
    return x.sin() + 1


@case(lambda n: (R(12, 4), n, R(4)), range(2, 9))
def filled_by_position(cache, at, row):
    cache = cache.clone()
    cache[at] = row
    cache[:, 1] = at
    return cache, cache[: at + 1].sum(0)


# Sizes


@case(lambda n: (R(n, 16), R(n)), (8, 5, 3, 1, 9, 2, 33, 8), traces=3)
def batches(x, y):
    return ((x.sum(1) - y) ** 2).mean()


@case(
    lambda n, m: (R(n, 4), R(m, 4)),
    ((5, 5), (6, 6), (7, 8), (9, 9), (4, 3), (4, 4), (10, 3), (8, 8)),
    traces=3,
)
def equal_then_other_sizes(x, y):
    return x.sum(0) + y.sum(0)


@case(lambda n, m: (R(n, 4), R(m, 4)), ((5, 7), (6, 8), (7, 7), (9, 9), (4, 3), (10, 3)))
def other_then_equal_sizes(x, y):
    return x.sum(0) + y.sum(0)


@case(lambda n, m: (R(n, m),), ((4, 5), (6, 5), (7, 5), (7, 8), (9, 9), (9, 2), (3, 3)), traces=3)
def one_dim_after_the_other(x):
    return x.relu() + x.shape[0] * x.shape[1]


@case(lambda n: (R(n, 4),), (1, 2, 3, 4, 1, 5))
def one_two_three(x):
    return x * 2 + x.shape[0]


@case(lambda n: (R(n, 4),), (0, 1, 2, 3, 4, 0, 1, 5), traces=3)
def zero_one_two_three(x):
    return x * 2 + x.shape[0]


@case(lambda n, m: (R(n, 4), R(m, 4)), ((3, 1), (4, 1), (5, 5), (7, 7), (8, 1), (2, 2)), traces=3)
def broadcasts(x, y):
    return x * y


@case(lambda n: (R(n, 6),), (4, 6, 8, 10, 12))
def reshapes(x):
    return x.reshape(-1, 3).t().contiguous().view(3, -1, 2).flatten(1)


@case(lambda n: (R(n, 6).t(),), (4, 6, 8, 10, 12))
def transposed(x):
    return x.sin() + x.t().sum()


@case(lambda n: (R(4, n),), (8, 12, 16, 4, 20))
def chunks(x):
    a, b = x.chunk(2, -1)
    return a * b + 1


@case(lambda n: (R(4, n),), (5, 8, 9, 13, 4, 21, 30), traces=3)
def pads(x):
    return F.pad(x, (0, -x.shape[1] % 8))


@case(lambda n, m: (R(3, 8, n, m),), ((8, 8), (10, 10), (12, 9), (16, 20), (9, 9)), traces=3)
def images(x):
    return F.conv2d(x, W, padding=1).relu().mean((2, 3))


@case(
    lambda n, m: (R(3, 8, n, m).to(memory_format=torch.channels_last),),
    ((8, 8), (10, 8), (12, 9), (16, 16), (20, 3)),
    traces=3,
)
def images_with_channels_last(x):
    return F.conv2d(x, W, padding=1).relu() + 1


@case(lambda n: (R(2, n, 16),), (5, 6, 9, 33, 2))
def attention(x):
    q = x.view(x.shape[0], x.shape[1], 4, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(x.shape)


@case(lambda n: (R(1, n, 4), torch.ones(1, n, dtype=torch.bool)), (8, 12, 16, 4, 20))
def masks(x, mask):
    return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@case(lambda n: (torch.arange(2 * n).view(2, n) % 4,), (8, 12, 16, 4, 15))
def embeddings(at):
    return M[at] + M.repeat(4, 1)[: at.shape[1]]


@case(
    lambda n, m: (R(n, 4), torch.arange(2 * m).view(2, m) % n), ((5, 9), (8, 11), (9, 13), (4, 7))
)
def graphs(x, edges):
    sums = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
    degree = torch.zeros(x.shape[0]).index_add(0, edges[1], torch.ones(edges.shape[1]))
    return sums / degree.clamp(min=1)[:, None]


@case(lambda n: ([R(n, 4), R(n + 1, 4), R(n, 4)],), (2, 3, 4, 5, 7, 8))
def lists_of_tensors(xs):
    return [x * 2 for x in xs], torch.cat(xs)


@case(lambda n: ([R(k + 2) for k in range(n)],), (2, 3, 4, 2, 3), traces=3)
def lists_of_other_lengths(xs):
    return sum(x.sum() for x in xs)


# Numbers


@case(lambda n: (R(3), n), (1, 2, 3, 4, 0, 1, 5, -2, -3), compilations=3)
def ints(x, n):
    return x * n + n // 2


@case(lambda n: (R(3), n), range(8))
def counts(x, n):
    return x + n


@case(lambda n: (R(3), n), (0.0, 1.0, 0.5, 2.0, 0.25, -0.0), traces=3)
def floats(x, lr):
    return x - lr * x, x / lr if lr > 0.1 else x


@case(lambda n: (R(12), n), range(8))
def index_by_number(x, n):
    return x[n] + x[n:].sum()


@case(lambda n: (R(n, 3), slice(1, n - 1), (n - 1, 2)), (5, 8, 9, 13, 4))
def slices_and_tuples(x, cut, sizes):
    return x[cut] + 1, x[: sizes[0], : sizes[1]]


@case(lambda n: ({"n": n, "x": R(3)},), (3, 4, 5, 6))
def number_in_a_dict(d):
    return d["x"] * d["n"]


@case(lambda n: (n,), (5, 8, 9, 13, 4))
def numbers_alone(n):
    return torch.arange(n) * 2


@made(lambda n: (R(3),), range(8))
def counter_in_a_text():
    own = SimpleNamespace(step=0)

    def f(x):
        own.step += 1
        text = "%d of %s" % (own.step, own.step / 2)  # noqa: UP031
        return x + 1, f"step {own.step}", text, f"{own.step / 3:.2f}" + "!"

    return f


@made(lambda n: (R(30),), range(8))
def counter_in_an_index():
    own = SimpleNamespace(step=0)

    def f(x):
        own.step += 1
        return x[own.step] * 2

    return f


@made(lambda n: (R(30),), range(8))
def bias_correction():
    own = SimpleNamespace(step=0, lr=0.1)

    def f(x):
        own.step += 1
        first, second = 1 - 0.9**own.step, 1 - 0.99**own.step
        return x - own.lr / first * x / math.sqrt(second)

    return f


@made(lambda n: (R(30),), range(8))
def learning_rate():
    own = SimpleNamespace(lr=0.1)

    def f(x):
        own.lr *= 0.9
        return x - own.lr * x

    return f


@made(lambda n: (R(30),), range(8))
def counter_in_a_closure():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f


@made(lambda n: (R(30),), range(12), traces=4)
def every_fourth_step():
    own = SimpleNamespace(step=0)

    def f(x):
        own.step += 1
        return x * 2 if own.step % 4 == 0 else x + 1

    return f


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 0.5
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.scale = self.scale + 0.25
        return x * self.scale + self.calls


@made(lambda n: (R(3, 4),), range(8))
def attributes_of_a_module():
    return Scaled()


def check(found: Any, expected: Any) -> None:
    """Compare results: dtypes and strides, and values as exactly as sums in another order allow."""
    assert type(found) is type(expected)
    match expected:
        case torch.Tensor():
            torch.testing.assert_close(found, expected, check_stride=True)
        case list() | tuple():
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                check(one, other)
        case _:
            assert found == expected


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize(
    "case",
    CASES,
    ids=lambda case: case.name,
)
def test_compilations(case: Case, backend: str) -> None:
    heard: Counter[str] = Counter()
    with (
        config.patch(recompile_limit=40),
        events.STREAM.listening(lambda event: heard.update([type(event).__name__])),
    ):
        program = case.make()
        compiled = jitpkg.compile(case.make(), backend=backend)
        for item in case.each:
            items = item if isinstance(item, tuple) else (item,)
            torch.manual_seed(0)
            expected = program(*case.arguments(*items))
            torch.manual_seed(0)
            check(compiled(*case.arguments(*items)), expected)
    assert heard["Traced"] <= case.traces
    if backend == "jitpkg":
        assert heard["Fused"] <= case.compilations
    assert not heard["Declined"]
