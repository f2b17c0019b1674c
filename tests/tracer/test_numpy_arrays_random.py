"""Ops of NumPy's arrays at random: what NumPy gives, bit for bit, and what it warns of."""

import copy
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitpkg

Program = Callable[..., Any]
BACKENDS = st.sampled_from(["eager", "eager", "eager", "jitpkg"])
"""Kernels take longer to be made."""


def matrix() -> torch.Tensor:
    return torch.arange(9.0).reshape(3, 3)


DTYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in """
        add sub mul truediv and_ or_ xor lt le gt ge eq ne iadd isub imul itruediv
        """.split()
} | {
    name: getattr(np, name) for name in "add subtract multiply divide maximum minimum less".split()
}
SINGLE: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "invert": operator.invert,
    "abs": np.abs,
    "sqrt": np.sqrt,
    **{f"as {name}": lambda a, name=name: a.astype(name) for name in DTYPES},
}
NUMBERS = [
    0,
    1,
    -1,
    3,
    255,
    1 << 40,
    0.5,
    -0.0,
    0.1,
    1e30,
    math.inf,
    math.nan,
    True,
    np.float32(0.1),
]
NUMBERS += [np.int64(2), np.uint8(3)]


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    if dtype.kind == "f":
        special = [
            0.0,
            -0.0,
            1.0,
            0.1,
            math.inf,
            -math.inf,
            math.nan,
            1e4,
            float(np.finfo(dtype).max),
        ]
        usual = st.floats(-100, 100, width=16) if draw(st.booleans()) else st.sampled_from(special)
        values: Any = draw(st.lists(usual, min_size=6, max_size=6))
    elif dtype.kind == "b":
        values = draw(st.lists(st.booleans(), min_size=6, max_size=6))
    else:
        info = np.iinfo(dtype)
        values = draw(st.lists(st.integers(info.min, info.max), min_size=6, max_size=6))
    made = np.array(values, dtype=dtype)[: math.prod(shape)].reshape(shape)
    return made.T if draw(st.booleans()) and made.ndim == 2 and shape[0] == shape[1] else made


def described(function: Program, *args: Any) -> object:
    """All that can be seen of a call of NumPy's."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = function(*args)
        except Exception as error:
            return type(error), str(error)
    said = sorted((each.category.__name__, str(each.message)) for each in heard)
    return [*map(shown, found), *map(shown, args)], said


def shown(value: Any) -> object:
    if isinstance(value, np.ndarray):
        bits = np.where(np.isnan(value), 0, value) if value.dtype.kind == "f" else value
        where = np.isnan(value).tobytes() if value.dtype.kind == "f" else b""
        return value.dtype, value.shape, value.strides, repr(value.flags), bits.tobytes(), where
    return repr(value)


def compiled_as_numpy_does(program: Program, backend: str, *args: Any) -> None:
    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(2):
        given, same = copy.deepcopy(args), copy.deepcopy(args)
        assert described(compiled, matrix(), *given) == described(program, matrix(), *same)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_operators_at_random(data: st.DataObject) -> None:
    function = FUNCTIONS[data.draw(st.sampled_from(sorted(FUNCTIONS)))]
    first = data.draw(arrays(data.draw(st.sampled_from([(3,), (2, 3), (1, 3), (1,), (2, 2)]))))
    other = data.draw(
        st.one_of(
            st.sampled_from(NUMBERS),
            st.just(first),
            arrays(first.shape).map(lambda b: b.astype(first.dtype)),
            st.sampled_from([(3,), (2, 3), (1, 1)]).flatmap(arrays),
        )
    )
    turned = data.draw(st.booleans())

    def program(x, a, b):
        return x + 1, function(b, a) if turned else function(a, b)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled_as_numpy_does(program, data.draw(BACKENDS), first, other)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_functions_of_one_array_at_random(data: st.DataObject) -> None:
    function = SINGLE[data.draw(st.sampled_from(sorted(SINGLE)))]
    array = data.draw(arrays(data.draw(st.sampled_from([(3,), (2, 3), (1, 3), (2, 2)]))))

    def program(x, a):
        return x + 1, function(a)

    compiled_as_numpy_does(program, data.draw(BACKENDS), array)


SLICES = st.one_of(
    st.integers(-3, 2), st.slices(3), st.just(...), st.just(None), st.just([0, 1]), st.just(True)
)


@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_subscripts_at_random(data: st.DataObject) -> None:
    array = data.draw(arrays(data.draw(st.sampled_from([(3,), (2, 3), (2, 2)]))))
    key = data.draw(st.one_of(SLICES, st.tuples(SLICES, SLICES)))
    new = data.draw(st.one_of(st.sampled_from(NUMBERS), arrays((3,)), arrays((1,))))

    def program(x, a, new):
        found = a[key]
        try:
            a[key] = new
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            return x + 1, found, str(error)
        return x + 1, found, torch.from_numpy(a)

    compiled_as_numpy_does(program, data.draw(BACKENDS), array, new)
