"""Python numbers that are made of a tensor's data, in the midst of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import events
from jitpkg.testing import Comparison, call
from jitpkg.testing.programs.modes import HOW_COMPUTED

Program = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {
    "eager": {"fullgraph": True},
    "jitpkg": {
        "fullgraph": True,
        "backend": "jitpkg",
        "ignore": HOW_COMPUTED,
        "relative": 1e-6,
    },
    "aot_eager": {"fullgraph": True, "backend": "aot_eager", "ignore": HOW_COMPUTED},
    "custom": {"fullgraph": True, "backend": lambda gm, inputs: gm.forward},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"fullgraph": True, "dynamic": True},
}
X, Y = torch.tensor([1.5, -2.25, 3.0]), torch.tensor([0.5, 8.0, -1.0])


# Handing out


def returned(x: Any) -> Any:
    return x.sum().item()


def beside_tensors(x: Any) -> Any:
    y = (x * 2).sum()
    return y, y.item(), x + 1


def in_containers(x: Any) -> Any:
    loss = (x * x).mean()
    return {"loss": loss.item(), "all": [x.max().item(), (x.min().item(), None)]}


def twice(x: Any) -> Any:
    y = x.sum()
    a = y.item()
    return a, a, y.item()


def as_lists(x: Any) -> Any:
    y = x * 2
    a, b, c = y[:3].tolist()
    return a, (b, c), torch.stack([y[1], x[0]])[None].tolist(), y.sum().tolist(), y[:0].tolist()


def as_classes(x: Any) -> Any:
    y = (x > 0).sum()
    return float(x.detach().sum()), float(y), int(y), int(x.isnan().any()), float(x.max() > 2)


def of_one_element(x: Any) -> Any:
    y = x.sum()
    return y[None].item(), y.view(1, 1).item(), float(y.detach()[None, None])


def read_before_a_write(x: Any) -> Any:
    y = x + 1
    a = y[0].item()
    y.mul_(3)
    b = y[0].item()
    y.zero_()
    return a, b, y[0].item(), y


def read_before_an_argument_changes(x: Any) -> Any:
    a = x[0].item()
    x.mul_(2)
    b = x[0].item()
    x += 1
    return a, b, x[0].item(), x.sum().item()


def read_of_what_is_returned_and_changed(x: Any) -> Any:
    y = x.sum()
    a = y.item()
    y.add_(1)
    return a, y


def without_grad(x: Any) -> Any:
    y = x * 2
    with torch.no_grad():
        a = y.sum().item()
    return a, y + 1


def under_autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.expand(3, 3) @ x.expand(3, 3)
        a = y[0, 0].item()
    return a, y.float() + 1


class Kept:
    """What holds a number."""

    def __init__(self) -> None:
        self.last = 0.0
        self.seen: list[Any] = []


def kept_in_objects(x: Any) -> Any:
    kept = Kept()
    kept.last = x.sum().item()
    kept.seen.append(x.max().item())
    made = lambda: kept.last  # noqa: E731
    return kept.last, kept.seen, made(), x * 2


def of_known_class(x: Any) -> Any:
    a = x.sum().item()
    facts = isinstance(a, float), isinstance(a, (int, str)), a is None, a is a, type(a)
    return a, facts, None if a is None else x + 1


def unused(x: Any) -> Any:
    x.sum().item()
    return x * 2


def in_a_loop(x: Any) -> Any:
    found = []
    for k in range(4):
        x = x * 0.5 + k
        found.append(x.max().item())
    return found, x


def caught(x: Any) -> Any:
    a = x.sum().item()
    try:
        b = (x * 2).max().item()
    finally:
        x = x + 1
    return a, b, x


def passed(x: Any, *more: Any, scale: Any = None) -> Any:
    if scale is None:
        return passed(x + 1, x[0].item(), x[1].item(), scale=x[2].item())
    return x, more, scale


HANDED_OUT = [
    *(returned, beside_tensors, in_containers, twice, as_lists, as_classes, of_one_element),
    *(read_before_a_write, read_before_an_argument_changes, read_of_what_is_returned_and_changed),
    *(without_grad, under_autocast, kept_in_objects, of_known_class, unused, in_a_loop, caught),
    passed,
]


# Arithmetic


def averaged(x: Any) -> Any:
    total, count = 0.0, 0
    for part in x.split(1):
        total += part.sum().item()
        count += 1
    return total / count, x * 2


def signs(x: Any) -> Any:
    a = x.sum().item()
    return -a, +a, abs(a), -abs(-a), a - 1, 1 - a, a * 2, 2 * a, a / 3, a // 2, a % 2


def among_themselves(x: Any) -> Any:
    a, b = x[0].item(), x[1].item()
    return a + b, a - b, a * b, (a + b) / 2


def of_ints(x: Any) -> Any:
    y = x.to(torch.int64)
    n, m = y.sum().item(), y.max().item()
    parts = n + m, n - 1, n * m, n / 4, n // 3, n % 3, n & 6, n | 1, n ^ m, ~n, -n, abs(n)
    return parts, n**3, float(n), int(n), 2.5 * n, n + 1j, n * True


def of_bools(x: Any) -> Any:
    p, q = (x > 0).all().item(), (x > -9).all().item()
    return p & q, p | q, p ^ True, p + q, -p, +q, abs(p), float(p), int(q), p * 2.5, q / 2


def of_complex(x: Any) -> Any:
    z = torch.complex(x, x + 1).sum().item()
    return z, z * 2, z + 1j, z - 0.5, -z, z / 2, z * z


def with_python(x: Any, n: int, f: float) -> Any:
    a = x.sum().item()
    return a * f, f - a, a * a * f, x + 1


ARITHMETIC = [averaged, signs, among_themselves, of_ints, of_bools, of_complex]


@pytest.mark.parametrize("way", WAYS)
def test_with_numbers_that_vary(way: str) -> None:
    def program(x: Any, n: int, f: float) -> Any:
        a = x.sum().item()
        parts = a * n, a / n, a + f, f - a, a % n, x.size(0) * a, a / x.size(0)
        return parts, (x > 0).sum().item() * n, (x + 1) * a

    numbers = [(2, 0.5), (3, 1.5), (4, -2.5), (7, 0.0), (-3, math.inf), (2**70, 1.0), (5, 1e30)]
    calls = [call(torch.arange(n % 5 + 2.0), n, f) for n, f in numbers]
    Comparison(**{**WAYS[way], "fullgraph": False}).assert_same_calls(program, *calls)


def test_numbers_that_vary_are_one_graph() -> None:
    compiled = jitpkg.compile(
        lambda x, n, f: (x * 2).sum().item() / n + f, backend="eager", fullgraph=True, dynamic=True
    )
    heard: list[events.Event] = []
    with events.STREAM.listening(heard.append):
        found = [compiled(torch.ones(n), n, n / 2) for n in range(3, 9)]
    assert found == [2 + n / 2 for n in range(3, 9)]
    assert sum(isinstance(e, events.GraphCompiled) for e in heard) == 1


# Operands


def scaled(x: Any) -> Any:
    s = x.abs().max().item()
    return x * s, s * x, x + s, s + x, x - s, s - x, x / s


def scaled_in_place(x: Any) -> Any:
    s = x.abs().max().item()
    y = x + 1
    y *= s
    y += s
    y.sub_(s)
    y.div_(s)
    return y, s


def scaled_again(x: Any) -> Any:
    for _ in range(3):
        x = x * x.abs().max().item() + 1
    return x


def filled(x: Any) -> Any:
    s = x.sum().item()
    return torch.full_like(x, s), x.masked_fill(x > 0, s), torch.where(x > 0, x, s), x.clamp(max=s)


def compared(x: Any) -> Any:
    s = x.mean().item()
    return x > s, x == s, s <= x, torch.lt(x, s)


def by_an_int(x: Any) -> Any:
    n = (x > 0).sum().item()
    return x * n, x.to(torch.int64) + n, x / n, n * x, torch.add(x, n)


def by_a_bool(x: Any) -> Any:
    p = (x > 0).any().item()
    return x * p, x.to(torch.int64) + p, torch.mul(x, p)


def by_a_complex_number(x: Any) -> Any:
    z = torch.complex(x, x + 1).sum().item()
    return x * z, x + z


def promoted(x: Any) -> Any:
    s = x.double().sum().item()
    n = x.to(torch.int64)
    return n * s, n.sum() * s, x.half() * s, x.double() + s, (n > 0) * s, x.sum() * s


def computed_between(x: Any) -> Any:
    s = x.sum().item() / 3 + 1
    y = x * s
    t = y.max().item() * s
    return y + t, s, t


def with_views(x: Any) -> Any:
    y = x * 2
    v = y[1:]
    s = v.sum().item()
    return v * s, y, v, y.t(), s


def with_random_numbers(x: Any) -> Any:
    y = x + torch.rand(3)
    s = y.sum().item()
    return y * s + torch.rand(3), nn.functional.dropout(x * s, 0.5)


def written_in_between(x: Any) -> Any:
    y = x * 2
    s = y.sum().item()
    y.mul_(s)
    x.add_(s)
    return y, x, s


def stored(x: Any) -> Any:
    losses = torch.zeros(4)
    for k in range(3):
        x = x * 2 + k
        losses[k] = x.sum().item()
    return losses * 2, x


def stored_in_an_argument(x: Any) -> Any:
    y = x * 2
    x[0] = y.sum().item()
    return y * 4 + x, x.sum().item()


def out_of_bounds(x: Any) -> Any:
    """Whether the write raises depends on the number."""
    y = x * 2
    n = (x > 0).sum().item() * 200
    z = torch.zeros(3, dtype=torch.int8)
    z.fill_(n)
    return y, z


def asked_for(x: Any) -> Any:
    s, n = x.sum().item(), (x > 0).sum().item()
    a = (s > 2, s < 2, s == s, s != n, n <= len(x), n >= s, n != 5)
    return a, not s, not n > 1, not bool(n), bool(s), math.isnan(s), math.isfinite(s), x * 2


def answers_as_numbers(x: Any) -> Any:
    s = x.sum().item()
    positive = s > 0
    return positive + 1, x * positive, -positive, torch.full_like(x, positive), positive | (s == 3)


def smallest_and_largest(x: Any) -> Any:
    s, n = x.sum().item(), (x > 0).sum().item()
    return max(s, 0.5), min(0.5, s), max(n, 1), min(3, n, 7), x / max(n, 1), max(1.0, s, -s)


def compared_exactly(x: Any) -> Any:
    y = (x * 0 + 0.1)[0]
    n = (x.detach() * 0).long()[0] + 2**53 + 1
    return y.item() <= 0.1, y.item() == 0.1, n.item() == 2.0**53, n.item() > 2.0**53, y


def in_lists(x: Any) -> Any:
    s = x.sum().item()
    a, b = torch._foreach_mul([x, x + 1], s)
    return a + b, s


OPERANDS = [
    *(stored, stored_in_an_argument, out_of_bounds, in_lists, asked_for, answers_as_numbers),
    *(smallest_and_largest, compared_exactly),
    *(scaled, scaled_in_place, scaled_again, filled, compared, by_an_int, by_a_bool),
    *(by_a_complex_number, promoted, computed_between, with_views, with_random_numbers),
    written_in_between,
]
PROGRAMS = [*HANDED_OUT, *ARITHMETIC, *OPERANDS]
_WITH_INTS = (as_classes, by_an_int, promoted)
"""What a float that is no number becomes differs from one kernel to the next."""
_WITH_NAN = (computed_between,)
"""Which of two NaNs an operator of Python's gives depends on how often it has run."""
ORDINARY = [p for p in (*HANDED_OUT, *OPERANDS) if p not in (*_WITH_INTS, *_WITH_NAN)]
SPECIAL = [
    torch.tensor([float("nan"), 1.0, 2.0]),
    torch.tensor([float("inf"), 1.0, -float("inf")]),
    torch.tensor([-0.0, -0.0, -0.0]),
    torch.tensor([3e38, 3e38, 1e-45]),
]


@pytest.fixture(autouse=True)
def _same_random_numbers() -> Iterator[None]:
    """Such of which no sum comes to nearly nothing: rounding would be a large part of it."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, way: str) -> None:
    calls = [call(x.clone()) for x in (X, X, Y, -X, X + Y)]
    Comparison(**WAYS[way]).assert_same_calls(program, *calls)


@pytest.mark.parametrize("way", ["eager", "jitpkg", "breaks"])
@pytest.mark.parametrize("program", ORDINARY, ids=lambda program: program.__name__)
def test_special_numbers(program: Program, way: str) -> None:
    calls = [call(x.clone()) for x in (X, *SPECIAL, X)]
    Comparison(**WAYS[way]).assert_same_calls(program, *calls)


@pytest.mark.parametrize("way", ["eager", "jitpkg", "aot_eager", "custom", "breaks"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code_in_training(program: Program, way: str) -> None:
    """The arguments are no leaves, so that programs may write to them."""

    def trained(x: Any) -> Any:
        return program(x * weight)

    weight = torch.tensor([1.0, 1.5, 0.5], requires_grad=True)
    calls = [call(x.clone()) for x in (X, X, Y, -X)]
    Comparison(**WAYS[way]).assert_same_calls(trained, *calls)


DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.complex128, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8),
    *(torch.uint16, torch.uint32, torch.uint64, torch.bool),
]


def numbers_of(x: Any) -> Any:
    y = torch.cat([x, x])
    return y[0].item(), y.tolist(), y[1].view(1, 1).item(), y[2].tolist(), y


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype, backend: str) -> None:
    if dtype.is_floating_point or dtype.is_complex:
        limits = torch.finfo(dtype)
        special = [limits.max, limits.min, limits.tiny, math.nan, math.inf, -0.0]
    elif dtype is torch.bool:
        special = [True, False, True]
    else:
        special = [torch.iinfo(dtype).max, torch.iinfo(dtype).min, 1]
    comparison = Comparison(backend=backend, fullgraph=True, ignore=HOW_COMPUTED, backward=False)
    calls = [call(torch.tensor(given, dtype=dtype)) for given in (special, special[::-1])]
    comparison.assert_same_calls(numbers_of, *calls)


def test_sums_of_the_largest_ints() -> None:
    def program(x: Any) -> Any:
        y = x + 0
        n = y.max().item()
        return n + n, n * n * n, n - y.min().item(), n / 3, n + 0.5

    ends = torch.iinfo(torch.int64)
    Comparison(fullgraph=True).assert_same(program, torch.tensor([ends.max, ends.min]))


def grown(x: Any) -> Any:
    n = (x + 1).max().item()
    for _ in range(6):
        n = n * n
    return n * 1.0


def divided(x: Any) -> Any:
    return 1 / (x * 2).sum().item()


def of_several(x: Any) -> Any:
    return (x * 2).item()


def not_a_number(x: Any) -> Any:
    return int((x * 2).sum().item())


def float_of_several(x: Any) -> Any:
    return float(x * 2)


def added_to_a_text(x: Any) -> Any:
    return "a" + (x * 2).sum().item()


def caught_division(x: Any) -> Any:
    y = x * 2
    try:
        return 1 / y.sum().item()
    except ZeroDivisionError as error:
        return str(error), y


RAISING = [grown, divided, of_several, not_a_number, float_of_several, added_to_a_text]


@pytest.mark.parametrize("way", ["eager", "jitpkg", "breaks"])
@pytest.mark.parametrize("program", [*RAISING, caught_division], ids=lambda p: p.__name__)
def test_exceptions(program: Program, way: str) -> None:
    options = {**WAYS[way], "fullgraph": False}
    given = torch.ones(2), torch.zeros(2), torch.tensor([math.nan, 1.0]), torch.tensor([math.inf])
    calls = [call(x.to(torch.int64) if program is grown else x) for x in given[:2]]
    calls += [call(x) for x in given[2:] if program is not grown]
    calls.append(call(torch.full((2,), 2**62)))
    Comparison(**options).assert_same_calls(program, *calls)
