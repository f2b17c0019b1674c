"""NumPy's numbers and functions in traced code: constants, as eager code has them."""

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import jitpkg
from jitpkg.testing import assert_same

NUMBERS = [
    np.float64(2.5),
    np.float32(0.1),
    np.float16(1.5),
    np.int64(2),
    np.int32(3),
    np.int8(-2),
    np.uint8(3),
    np.bool_(True),
    np.float64("nan"),
    np.float64(-0.0),
]
DTYPES = (torch.float32, torch.int64, torch.bfloat16, torch.bool)
OPERATORS = [
    getattr(operator, name)
    for name in """
    add sub mul truediv floordiv mod pow lt le gt ge eq ne and_ or_ lshift iadd imul isub itruediv
    """.split()
]


def shown(result: object) -> object:
    """A result and its class: those of NumPy are told from Python's."""
    if isinstance(result, tuple | list):
        return [shown(item) for item in result]
    return type(result).__name__, repr(result), getattr(result, "dtype", None)


def outcome(function: Callable[..., Any], *args: Any) -> object:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = shown(function(*args))
        except Exception as error:
            result = type(error).__name__
    return result, [str(warning.message) for warning in heard]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__} {n}")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_operators_with_tensors(number: Any, dtype: torch.dtype) -> None:
    for function in OPERATORS:

        def right(x: torch.Tensor, n: Any = number, f: Any = function) -> Any:
            return f(x.clone(), n)

        def left(x: torch.Tensor, n: Any = number, f: Any = function) -> Any:
            return f(n, x.clone())

        x = torch.tensor([1, 2, 3]).to(dtype)
        for f in (right, left):
            compiled = jitpkg.compile(f, backend="eager")
            for _ in range(2):
                assert outcome(compiled, x) == outcome(f, x), function


CALLS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    "full": lambda x, n: torch.full((2,), n) + x,
    "clamp": lambda x, n: torch.clamp(x, min=n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "tensor": lambda x, n: torch.tensor(n) * x,
    "tensor of a dtype": lambda x, n: torch.tensor(n, dtype=torch.float32) * x,
    "as_tensor": lambda x, n: torch.as_tensor(n) * x,
    "in a list": lambda x, n: torch.tensor([n, n]) * x,
    "new_tensor": lambda x, n: x.new_tensor(n),
    "arange": lambda x, n: torch.arange(n),
    "zeros": lambda x, n: torch.zeros(n) + x[0],
    "view": lambda x, n: torch.ones(6).view(n, -1) + x[0],
    "index": lambda x, n: torch.arange(4)[n] + x,
    "slice": lambda x, n: torch.arange(4)[:n] + x[0],
    "store": lambda x, n: x.clone().__setitem__(0, n),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "where": lambda x, n: torch.where(x > 1, n, x),
    "dropout": lambda x, n: torch.nn.functional.dropout(x, n, False),
    "leaky_relu": lambda x, n: torch.nn.functional.leaky_relu(x, n),
    "sum": lambda x, n: torch.ones(2, 2, 2, 2).sum(n) + x[0],
    "compared": lambda x, n: (x == n, n == x, x != n),
    "is in": lambda x, n: (x + 1, n in (1, 2.5, 3), {2: "a", 2.5: "b"}.get(n)),
    "of Python": lambda x, n: (x + 1, n + 1, 2 * n, n / 2, -n, abs(n), n == 2, n > 1, n**2),
    "with each other": lambda x, n: (x + 1, n + n, n * np.float32(2), n - np.int64(1)),
    "int": lambda x, n: (x + 1, int(n) if n == n else 0, float(n), bool(n), complex(n)),
    "text": lambda x, n: (x + 1, str(n), repr(n), f"{n:.3f}" if n == n else "", f"{n}"),
    "class": lambda x, n: (x + 1, type(n).__name__, isinstance(n, float), isinstance(n, np.number)),
    "identity": lambda x, n: (x + 1, n is True, n is n, n == True),  # noqa: E712
    "branch": lambda x, n: x + 1 if n > 2 else x - 1,
    "not": lambda x, n: x + (not n),
    "item": lambda x, n: (x + 1, n.item()),
    "astype": lambda x, n: (x + 1, n.astype(np.float32)),
    "range": lambda x, n: (x + 1, list(range(n))),
    "list": lambda x, n: (x + 1, [0, 1, 2, 3][n], [0] * n),
    "divmod": lambda x, n: (x + 1, divmod(n, 2), round(n, 1)),
    "sqrt": lambda x, n: x / np.sqrt(n),
    "several": lambda x, n: (
        x * np.exp(n),
        np.log(n + 3),
        np.ceil(n),
        np.maximum(n, 1),
        np.sign(n),
    ),
    "of a constructor": lambda x, n: (x * np.float32(n), np.float64(n), np.int64(3) * x),
    "kept at a break": lambda x, n: (x + n, jitpkg.graph_break(), x * n, n + 1),
    "min": lambda x, n: (x + 1, min(n, 1), max(n, 1), sum([n, n])),
    "list times": lambda x, n: (x + 1, n * [1, 2]),
    "object": lambda x, n: (x + 1, n == "a", n != None),  # noqa: E711
}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__} {n}")
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, number: Any) -> None:
    function = CALLS[name]
    x = torch.tensor([1.0, 2.0])
    for backend in ("eager", "jitpkg"):
        compiled = jitpkg.jit(lambda x, n: function(x, n), backend=backend)
        for _ in range(2):
            assert outcome(compiled, x, number) == outcome(function, x, number)


FOLDED: list[Callable[[torch.Tensor], Any]] = [
    lambda x: x / np.sqrt(x.shape[-1]),
    lambda x: x * np.float64(2.5) + np.pi,
    lambda x: x.view(int(np.prod(x.shape))),
    lambda x: x.reshape(np.prod(x.shape[:1]), -1),
    lambda x: x * np.log(10000.0) / np.power(2, 3),
    lambda x: x + np.cos(np.pi / 4) ** 2,
    lambda x: torch.tensor(np.sqrt(2.0)) * x,
    lambda x: torch.nn.functional.softmax(x / np.sqrt(np.float32(64)), dim=np.int64(-1)),
    lambda x: x * int(np.ceil(2.1)) + round(np.float64(2.5)),
    lambda x: x.clamp(np.float32(-0.5), np.max((0.25, 0.5))),
    lambda x: x + np.clip(5, 0, 3) + np.abs(-2) + np.floor(1.5),
    lambda x: x * (1 if np.isclose(0.1 + 0.2, 0.3, atol=0) else 2) if False else x * np.int32(3),
]


@pytest.mark.parametrize("function", FOLDED)
@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
def test_numbers_of_functions_are_constants_of_one_graph(
    function: Callable[[torch.Tensor], Any], backend: str
) -> None:
    x = torch.randn(2, 4)
    compiled = jitpkg.jit(lambda x: function(x), fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(x), function(x), rtol=1e-6, atol=1e-6)
    assert compiled(x).dtype is function(x).dtype


def test_what_warns_warns_each_time() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, np.log(0.0), np.float64(1.0) / 0, np.float32(3e38) * 10

    compiled = jitpkg.compile(f)
    for _ in range(3):
        assert outcome(compiled, torch.ones(2)) == outcome(f, torch.ones(2))


def test_errors_as_the_program_has_set_them() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, np.float64(1.0) / 0

    compiled = jitpkg.compile(f)
    for setting in ("ignore", "raise", "warn", "ignore"):
        with np.errstate(all=setting):
            assert outcome(compiled, torch.ones(2)) == outcome(f, torch.ones(2))


def test_numbers_change_between_calls() -> None:
    def f(x: torch.Tensor, n: Any) -> Any:
        return x * n, n

    compiled = jitpkg.compile(f)
    x = torch.ones(2)
    numbers = (
        np.float64(2),
        np.float64(3),
        2.0,
        np.float32(2),
        np.int64(2),
        2,
        np.bool_(True),
        True,
    )
    for n in (*numbers, *numbers):
        assert outcome(compiled, x, n) == outcome(f, x, n)


def test_a_number_that_varies_makes_no_entry_for_each_value() -> None:
    def f(x: torch.Tensor, n: Any) -> Any:
        return x * n

    compiled = jitpkg.jit(f)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for k in range(12):
            assert_same(torch.mul, torch.ones(2), np.float64(k))
            assert torch.equal(compiled(torch.ones(2), np.float64(k)), torch.ones(2) * k)
    traced = [e for e in found if isinstance(e, jitpkg.events.Recompiled)]
    assert len(traced) <= 2


def test_sizes_that_vary_are_one_graph_with_a_function_of_them() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) / np.sqrt(x.shape[0])

    compiled = jitpkg.compile(f)
    found: list[jitpkg.events.Event] = []
    with jitpkg.events.STREAM.listening(found.append):
        for n in range(2, 14):
            torch.testing.assert_close(compiled(torch.ones(n)), f(torch.ones(n)))
    assert sum(isinstance(e, jitpkg.events.Recompiled) for e in found) <= 3


THINGS = (np.float32(2), np.int64(0), np.bool_(True), (), (1,), [], {}, "", 0, 2.0, None, ..., np)


@pytest.mark.parametrize("number", THINGS[:3], ids=repr)
def test_identity(number: Any) -> None:
    """With what NumPy would compare as an array."""

    def f(x: torch.Tensor, n: Any) -> Any:
        made = x.detach().numpy().sum()
        found = [(n is each, each is n, n is not each, made is each) for each in THINGS]
        return x + 1, found, n is n, (n,)[0] is n, n in [n]

    compiled = jitpkg.compile(f)
    for _ in range(2):
        assert outcome(compiled, torch.ones(2), number) == outcome(f, torch.ones(2), number)
