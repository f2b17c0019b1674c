"""Sizes and Python numbers that differ from call to call: one entry for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import jitpkg
from jitpkg import config
from jitpkg.errors import InvalidArgument


class Counted:
    """A backend that counts the graphs."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(gm)
        return gm.forward


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
            and torch.equal(a, b)
        )
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


def graphs(f: Callable[..., Any], calls: list[tuple[Any, ...]], **settings: Any) -> int:
    """How many graphs these calls take; each is compared with eager."""
    backend = Counted()
    compiled = jitpkg.compile(f, backend=backend, **settings)
    for args in calls:
        torch.manual_seed(0)
        expected = f(*args)
        torch.manual_seed(0)
        found = compiled(*args)
        assert same(expected, found), (f, args, expected, found)
    return len(backend.graphs)


def branch(x, n):
    y = x**2
    if n >= 0:
        return (n + 1) * y
    return y / n


def step(x, lr):
    return x - lr * x.sin()


def flattened(x):
    batch, features = x.shape
    return x.view(batch * features // 2, 2).sum() * features, batch * 2 + 1, x.numel()


def windows(x, y):
    rows, columns = x.size()
    return torch.cat([x, y], 0)[:, : columns // 2], torch.arange(rows), x[1:] - x[:-1]


def scaled(q, k):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    mask = torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril(k.size(-2) - q.size(-2))
    return scores.masked_fill(~mask, -1e9).softmax(-1)


def sliced(x, n):
    length = x.shape[1] // 2
    return x[:, :length], x[1:, length:], x[..., :n].sum(), x[: x.shape[0] - 1, -length:]


def joined(x):
    lead: tuple[int, ...] = (2,)
    return x.reshape(lead + x.shape[1:] + (-1,))


def padded(x):
    length = x.shape[-1]
    missing = -length % 8
    return torch.nn.functional.pad(x, (0, missing)), max(length, 16), min(length, 4)


def made(n):
    return torch.zeros(n, 3) + torch.arange(n).unsqueeze(1), torch.full((n,), 2.0)


def heads(x):
    b, t, c = x.shape
    q = x.reshape(b, t, 2, c // 2).transpose(1, 2)
    return q.contiguous().view(b, t, c), q.stride()


def strided(x):
    return x.t() + 1, x.t().is_contiguous(), x[::2].stride()


def decides(x):
    if x.shape[0] % 2:
        return x * 2
    return x + 1


EACH = [(torch.randn(2, n, 3),) for n in range(2, 9)]
BATCHES = [*range(2, 30), 64, 1, 0, 50]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    ("f", "calls", "most"),
    [
        (lambda x: x.relu() + 1, [(torch.randn(n, 3),) for n in BATCHES], 4),
        (step, [(torch.randn(4), k / 7) for k in range(1, 30)], 2),
        (flattened, [(torch.randn(n, 4),) for n in BATCHES if n], 3),
        (windows, [(torch.randn(n, 6), torch.randn(n + 2, 6)) for n in range(3, 12)], 2),
        (scaled, [(torch.randn(2, n, 4), torch.randn(2, n, 4)) for n in range(2, 12)], 2),
        (sliced, [(torch.randn(4, n), n) for n in range(4, 12)], 2),
        (lambda x: x.new_zeros(x.shape[:-1] + x.shape[2:]) + x.shape.numel(), EACH, 3),
        (joined, EACH, 3),
        (padded, [(torch.randn(3, n),) for n in range(2, 40)], 9),
        (made, [(n,) for n in range(2, 12)], 2),
        (heads, [(torch.randn(n, n + 1, 4),) for n in range(2, 9)], 2),
        (strided, [(torch.randn(n, 3),) for n in range(3, 9)], 3),
        (decides, [(torch.randn(n),) for n in range(2, 12)], 3),
    ],
)
def test_further_sizes_share_an_entry(f: Any, calls: Any, most: int, dynamic: bool | None) -> None:
    assert graphs(f, calls, dynamic=dynamic) <= most


def test_one_symbolic_entry_for_each_way_of_a_branch() -> None:
    calls = [(torch.randn(3), n) for n in (2, 3, -2, 7, -5)]
    assert graphs(branch, calls) == 3


def test_nothing_varies_with_dynamic_false() -> None:
    assert graphs(step, [(torch.randn(4), k / 7) for k in range(1, 5)], dynamic=False) == 4


def test_settings() -> None:
    calls = [(torch.randn(n, 3),) for n in range(2, 7)]
    with config.patch(automatic_dynamic_shapes=False):
        assert graphs(lambda x: x + 1, calls) == 5
    with config.patch(assume_static_by_default=False):
        assert graphs(lambda x: x + 1, calls) == 1


def test_marks() -> None:
    def marked(n: int) -> torch.Tensor:
        x = torch.randn(n, 3)
        jitpkg.mark_dynamic(x, 0)
        return x

    assert graphs(lambda x: x + 1, [(marked(n),) for n in range(2, 7)]) == 1

    def fixed(n: int) -> torch.Tensor:
        x = torch.randn(n, 3)
        jitpkg.mark_static(x)
        return x

    assert graphs(lambda x: x + 1, [(fixed(n),) for n in range(2, 6)]) == 4
    with pytest.raises(InvalidArgument, match="has 1 dims, and no dim 3"):
        jitpkg.mark_dynamic(torch.ones(2), 3)
    with pytest.raises(InvalidArgument, match="takes a tensor, not int"):
        jitpkg.mark_static(3)
    with pytest.raises(InvalidArgument, match="use mark_dynamic"):
        jitpkg.mark_unbacked(torch.ones(2), 0)


def test_the_sentence_names_the_size() -> None:
    f = jitpkg.compile(decides)
    for n in (4, 6):
        f(torch.ones(n))
    explanation = jitpkg.explain(decides)(torch.ones(5))
    assert explanation.graph_count == 1
    heard: list[Any] = []
    with jitpkg.events.STREAM.listening(heard.append):
        f(torch.ones(7))
    (reasons,) = [e.reasons for e in heard if isinstance(e, jitpkg.events.Recompiled)]
    assert reasons == (
        "x has size 7 in dim 0; built for 4",
        "x.shape[0] is 7; built for x.shape[0] % 2 == 0",
    )


def test_gradients_of_sizes_that_vary() -> None:
    layer = torch.nn.Linear(3, 2)
    compiled = jitpkg.compile(lambda x: layer(x).relu().sum(0) / x.shape[0])
    for n in range(2, 7):
        x = torch.randn(n, 3)
        expected = torch.autograd.grad((layer(x).relu().sum(0) / n).sum(), layer.weight)[0]
        found = torch.autograd.grad(compiled(x).sum(), layer.weight)[0]
        assert torch.equal(expected, found)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else a,
    "%": lambda a, b: a % b if b else b,
    "/": lambda a, b: a / b if b else 0.5,
    "min": min,
    "max": max,
    "<": lambda a, b: a if a < b else b,
    "==": lambda a, b: 1 if a == b else a,
    "abs": lambda a, b: abs(a) + b,
    "int": lambda a, b: int(a) + b,
    "float": lambda a, b: float(a) - b,
    "ceil": lambda a, b: math.ceil(a / 2) + b,
    "**": lambda a, b: a**b if abs(a) < 9 and abs(b) < 5 else a,
    "power of 2": lambda a, b: 0.5**b + 2**a if abs(a) < 9 and abs(b) < 9 else b,
    "<<": lambda a, b: a << b if isinstance(a, int) and isinstance(b, int) and 0 <= b < 5 else a,
    "&": lambda a, b: a & ~b | 1 if isinstance(a, int) and isinstance(b, int) else b,
    "//.": lambda a, b: a // (b + 0.5) + a % (b + 0.5) if b + 0.5 else a,
}

trees = st.recursive(
    st.sampled_from(["n", "m", "f", "rows"]) | st.integers(-3, 5) | st.sampled_from([0.5, 2.0]),
    lambda inner: st.tuples(st.sampled_from(sorted(OPERATIONS)), inner, inner),
    max_leaves=6,
)


def evaluated(tree: Any, names: dict[str, Any]) -> Any:
    if isinstance(tree, tuple):
        operation, left, right = tree
        return OPERATIONS[operation](evaluated(left, names), evaluated(right, names))
    return names[tree] if isinstance(tree, str) else tree


@settings(max_examples=60, deadline=None)
@given(
    trees,
    st.lists(
        st.tuples(
            st.integers(-9, 9), st.integers(0, 5), st.floats(-4, 4, width=16), st.integers(0, 6)
        ),
        min_size=3,
        max_size=6,
    ),
    st.sampled_from([None, True]),
)
def test_arithmetic_of_numbers_that_vary(tree: Any, calls: Any, dynamic: bool | None) -> None:
    def f(x, n, m, f):
        number = evaluated(tree, {"n": n, "m": m, "f": f, "rows": x.shape[0]})
        text = f"{number} of {n:3d}, {f:.2f}" + str(m)
        return x * number, number, text, "%s/%r" % (number, f)  # noqa: UP031

    compiled = jitpkg.compile(f, dynamic=dynamic)
    with config.patch(recompile_limit=20):
        for n, m, fraction, rows in calls:
            x = torch.ones(rows, 2, dtype=torch.float64)
            try:
                expected = f(x, n, m, fraction)
            except (ArithmeticError, RuntimeError, TypeError) as error:
                with pytest.raises(type(error)):
                    compiled(x, n, m, fraction)
                continue
            assert same(expected, compiled(x, n, m, fraction))


def test_inputs_of_one_name() -> None:
    def f(x, a, b):
        return x * (a / 2) + x * (b / 3) + a * b

    assert graphs(f, [(torch.ones(2), k / 7, k / 5) for k in range(1, 6)]) == 2
