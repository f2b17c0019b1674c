"""Arithmetic, views and copies of NumPy's arrays in traced code."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import jitpkg
from jitpkg.testing import Comparison

Program = Callable[..., Any]
BACKENDS = ("eager", "jitpkg")
NOT_COMPARED = {"eager": (), "jitpkg": ("version", "idle strides")}
"""What kernels have of their own, for any program: `x.data.add_(1)` counts as a write to `x`."""


def matrix() -> torch.Tensor:
    return torch.arange(9.0).reshape(3, 3)


def arithmetic(x, a):
    return x + 1, a + a, a * 2, a - 3, 2 - a, -a, a == a, a < 3, a >= a


def arithmetic_of_results(x, a):
    b = (x * 2).numpy()
    b = b * 0.5 + b - 1
    return torch.from_numpy(b / 2), b > 0.25, np.sqrt(np.abs(b))


def of_integers(x, a):
    b = (a > 2).astype(np.int64) + 200
    return x + 1, b & 3, b | 4, ~b, np.maximum(b, b * 2), b.astype(np.uint8) * np.uint8(200), b ^ b


def in_place(x, a):
    b = (x + 1).numpy()
    c = b
    b += 1
    b *= b
    b[0] = 7
    b[1:, 0] -= 2
    return c is b, b, torch.from_numpy(c)


def in_place_of_an_argument(x, a):
    a[0] = 7
    a[1, 2] = 3
    a[:, 1] = a[:, 0]
    a[1:] = a[:-1]
    b = a[1:]
    b.fill(4)
    return x + 1, a, b


KEYS = (0, -1, ..., slice(1, None), (0, 0), (0, ...), (..., 0), (slice(None), 1), (0, 0, ...), ())
SHAPES = ((), (1,), (1, 1), (2,), (3,), (1, 3), (2, 3), (1, 2, 3), (2, 1))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assignments_of_every_shape(key, shape):
    """Where NumPy refuses, and tensors are spread: an element set to an array."""

    def program(x, a, new):
        try:
            a[key] = new
        except (IndexError, ValueError, TypeError) as error:
            return x + 1, type(error), str(error)
        return x + 1, a + 1

    for given in SHAPES:

        def outcome(function, given=given):
            array = np.zeros(shape, dtype=np.float32)
            new = np.arange(1, 7, dtype=np.float32)[: np.prod(given, dtype=int)].reshape(given)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                found = function(matrix(), array, new)
            said = [(each.category, str(each.message)) for each in heard]
            return repr(found), repr(array), said

        assert outcome(jitpkg.compile(program)) == outcome(program), given


def shapes(x, a):
    b = a.reshape(-1)
    c = a.reshape((1, 9)).ravel()
    return (
        x + 1,
        b,
        c,
        a.flatten(),
        a.transpose(1, 0),
        np.transpose(a),
        a.swapaxes(0, 1),
        b[2:4],
        a.T.T,
    )


def views_of_views(x, a):
    b = a[1:]
    c = b[:, ::2]
    t = torch.from_numpy(c)
    t.add_(1)
    return x + t.sum(), a, b, c, t


def copies(x, a):
    b, c, d = a.copy(), np.array(a), a.astype(np.float32)
    return b, c, d, a.T.copy(), np.copy(a), a.astype(a.dtype, copy=False) is a, x + 1


def joined(x, a):
    b = (x + 1).numpy().astype(a.dtype)
    return (
        np.concatenate([a, b]),
        np.stack((a, b, a), axis=1),
        np.concatenate((a, b), 1),
        np.zeros_like(a),
    )


def mixed_with_constants(x, a):
    b = (x + 1).numpy()
    return (
        b * np.array([1.0, 2.0, 3.0], dtype=np.float32),
        b - np.float32(0.1),
        np.ones(3, np.float32) - b,
    )


def by_rows(x, a):
    return [a[k] for k in range(len(a))], a[-1], a[..., 0], a[1:2], a[:, :], x + 1


OF_ARRAYS: list[Program] = [
    arithmetic,
    arithmetic_of_results,
    of_integers,
    in_place,
    in_place_of_an_argument,
    shapes,
    views_of_views,
    copies,
    joined,
    mixed_with_constants,
    by_rows,
]


def numbers() -> np.ndarray[Any, Any]:
    return np.arange(9.0).reshape(3, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OF_ARRAYS, ids=lambda f: f.__name__)
def test_arithmetic_in_one_graph(program: Program, backend: str) -> None:
    compared = Comparison(backend=backend, fullgraph=True, calls=3, ignore=NOT_COMPARED[backend])
    compared.assert_same(program, matrix(), numbers())


@pytest.mark.parametrize("program", OF_ARRAYS, ids=lambda f: f.__name__)
def test_a_break_anywhere_in_arithmetic(program: Program) -> None:
    for disturb in ("break", *(f"break:{k}" for k in range(0, 24, 3))):
        Comparison(settings={"disturb": disturb}).assert_same(program, matrix(), numbers())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", OF_ARRAYS, ids=lambda f: f.__name__)
def test_arithmetic_of_sizes_that_vary(program: Program, backend: str) -> None:
    compared = Comparison(backend=backend, ignore=NOT_COMPARED[backend])
    calls = [
        jitpkg.testing.call(torch.ones(n, 3), np.arange(3.0 * n).reshape(n, 3))
        for n in (3, 5, 4, 3)
    ]
    if program is not shapes:
        compared.assert_same_calls(program, *calls)


def warnings_of(function: Program, *args: Any) -> object:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        result = function(*args)
    return repr(result), [(each.category, str(each.message)) for each in heard]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_numpy_warns_of_it_warns_of(backend: str) -> None:
    def product(x, a):
        return x + 1, a * 1e300

    compiled = jitpkg.compile(product, backend=backend)
    for largest in (1.0, 1e10, 1.0, 1e10, 1e10, 1.0, 1e10, np.inf):
        a = np.array([1.0, largest])
        assert warnings_of(compiled, matrix(), a) == warnings_of(product, matrix(), a)


def test_underflow_that_numpy_tells_of() -> None:
    def product(x, a):
        return x + 1, a * 1e-300

    compiled = jitpkg.compile(product, backend="eager")
    a = np.array([1e-300])
    for state in ("ignore", "warn", "ignore"):
        with np.errstate(under=state):
            assert warnings_of(compiled, matrix(), a) == warnings_of(product, matrix(), a)


class Box:
    """What arrays are assigned to."""

    def __init__(self) -> None:
        self.array: Any = None
        self.tensor: Any = None


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_op_fails_when_an_array_was_assigned(backend: str) -> None:
    def replaced(box, x, at):
        box.array = (x + 1).numpy()
        box.tensor = torch.from_numpy(np.ones(3, dtype=np.float32))
        x.add_(1)
        found = x[at]
        box.array = (x * 2).numpy()
        box.tensor = None
        return found

    compiled = jitpkg.compile(replaced, backend=backend)
    for at in (1, 7, 1, 7):
        seen = []
        for function in (replaced, compiled):
            box, x = Box(), torch.arange(3.0)
            try:
                found: Any = function(box, x, torch.tensor(at))
            except IndexError as error:
                found = type(error)
            seen.append(repr((found, box.array, box.tensor, x)))
        assert seen[0] == seen[1]
