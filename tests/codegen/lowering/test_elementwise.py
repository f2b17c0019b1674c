"""Elementwise rows against ATen: dtypes, sizes, layouts, numbers, NaN and infinities."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.triton.frame import NotPrinted
from tests.codegen.lowering import values
from tests.codegen.lowering.calls import DERIVATIVES, ONE, TWO, WITH_NUMBER
from tests.codegen.lowering.oracle import (
    Call,
    Evaluate,
    compare,
    compare_by,
    each_evaluate,
    lowered,
)

ATEN = torch.ops.aten

VAGUE_AT_INFINITY = frozenset({"gelu", "gelu_backward", "mish", "mish_backward", "silu_backward"})
"""ATen's vectors and tails disagree there: `gelu(inf)` is NaN in one, infinite in the other."""

VAGUE_AT_NEGATIVE_ZERO = frozenset({"logit_backward"})
"""In float64 they disagree on the sign of an infinity there."""

seeds = st.integers(0, 2**32)


def overload(name: str) -> Any:
    name, _, which = name.partition(".")
    packet = getattr(ATEN, name)
    if not which:
        which = next(o for o in ("Tensor", "default", "Scalar") if o in packet.overloads())
    return getattr(packet, which)


def check(name: str, *args: Any, by: Evaluate = Call.value, **kwargs: Any) -> bool:
    """Whether ATen takes these, and a lowering too."""
    target = overload(name)
    try:
        target(*args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    try:
        compare_by(by, target, *args, **kwargs)
    except (NotLowered, NotPrinted):
        return False
    return True


def drawn(rng: random.Random, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    shape = rng.choice(values.SHAPES) if shape is None else shape
    odd = name.partition(".")[0] not in VAGUE_AT_INFINITY
    return values.tensor(rng, shape, rng.choice(values.EVERY), rng.choice(values.LAYOUTS), odd)


def partner(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Of a tensor that goes together with this one."""
    cut = shape[rng.randint(0, len(shape)) :]
    return tuple(1 if rng.random() < 0.3 else n for n in cut)


@each_evaluate
@pytest.mark.parametrize("name", ONE)
@settings(max_examples=20, derandomize=True, deadline=None)
@given(seed=seeds)
def test_of_one(name: str, by: Evaluate, seed: int) -> None:
    check(name, drawn(random.Random(seed), name), by=by)


@each_evaluate
@pytest.mark.parametrize("name", TWO)
@settings(max_examples=30, derandomize=True, deadline=None)
@given(seed=seeds)
def test_of_two(name: str, by: Evaluate, seed: int) -> None:
    rng = random.Random(seed)
    a = drawn(rng, name)
    b = drawn(rng, name, partner(rng, tuple(a.shape)))
    check(name, *rng.choice([(a, b), (b, a)]), by=by)


@each_evaluate
@pytest.mark.parametrize("name", WITH_NUMBER)
@settings(max_examples=30, derandomize=True, deadline=None)
@given(seed=seeds)
def test_with_a_number(name: str, by: Evaluate, seed: int) -> None:
    rng = random.Random(seed)
    number = rng.choice([0, 1, 2, 3, -1, -2, 7, 0.5, -0.5, 0.1, 2.5, -3.0, True, 1e-3])
    check(name, drawn(rng, name), number, by=by)


@each_evaluate
@pytest.mark.parametrize("name", DERIVATIVES)
@settings(max_examples=20, derandomize=True, deadline=None)
@given(seed=seeds)
def test_derivatives(name: str, by: Evaluate, seed: int) -> None:
    rng = random.Random(seed)
    x = values.tensor(rng, rng.choice(values.SHAPES), rng.choice(values.FLOATS))
    grad = values.tensor(rng, tuple(x.shape), x.dtype, rng.choice(values.LAYOUTS))
    if name in VAGUE_AT_NEGATIVE_ZERO:
        x = x + 0.0
    check(name, grad, x, by=by)


@each_evaluate
@pytest.mark.parametrize("mode", ["floor", "trunc", None])
@settings(max_examples=30, derandomize=True, deadline=None)
@given(seed=seeds)
def test_rounded_quotients(mode: str | None, by: Evaluate, seed: int) -> None:
    rng = random.Random(seed)
    x = values.tensor(rng, (5,), rng.choice([torch.float32, torch.float64, *values.INTEGERS]))
    check("div.Scalar_mode", x, rng.choice([1, 2, 3, 7, -2, 0.5, 2.5]), rounding_mode=mode, by=by)


@each_evaluate
@settings(max_examples=60, derandomize=True, deadline=None)
@given(seed=seeds)
def test_choice(by: Evaluate, seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice(values.SHAPES)
    condition = values.tensor(rng, partner(rng, shape), torch.bool)
    a, b = drawn(rng, "where", shape), drawn(rng, "where", partner(rng, shape))
    check("where.self", condition, a, b, by=by)
    check("where.ScalarOther", condition, a, rng.choice([1, 0.5, -2]), by=by)
    check("masked_fill.Scalar", a, condition, rng.choice([0, 1, -float("inf"), 0.1]), by=by)
    check("addcmul", a, a, b, value=rng.choice([1, 2, 0.5]), by=by)
    check("addcdiv", a, b, a, value=rng.choice([1, 2, 0.5]), by=by)
    check("lerp.Scalar", a, a.flip(0) if a.dim() else a, rng.choice([0.1, 0.5, 0.9]), by=by)
    check("clamp.Tensor", a, b, None, by=by)


def test_most_calls_are_lowered() -> None:
    """The tests above would pass if nothing was."""
    x, y = torch.randn(3, 4), torch.randn(4)
    for name in ONE:
        assert check(name, x) or check(name, x > 0), name
    for name in TWO:
        assert check(name, x, y) or check(name, x > 0, y > 0) or "shift" in name, name
    for name in WITH_NUMBER:
        assert check(name, x, 2) or check(name, torch.arange(5), 2), name
    for name in DERIVATIVES:
        assert check(name, x, x), name
    assert check("bitwise_left_shift", torch.arange(5), torch.arange(5) * 17)


@pytest.mark.parametrize("dtype", values.EVERY, ids=str)
def test_casts(dtype: torch.dtype) -> None:
    rng = random.Random(0)
    for source in values.EVERY:
        given = values.tensor(rng, (3, 5), source)
        negative = given < 0  # as an unsigned number: undefined
        compare(ATEN._to_copy.default, given.masked_fill(negative, 1), dtype=dtype)


ROUNDED_ALIKE = {
    "add.Scalar": (0.7,),
    "sub.Scalar": (0.7, 1.3),
    "rsub.Scalar": (0.7,),
    "mul.Scalar": (0.7,),
    "div.Scalar": (0.7,),
    "floor_divide.Scalar": (0.7,),
    "remainder.Scalar": (0.7,),
    "fmod.Scalar": (0.7,),
    "pow.Tensor_Scalar": (3,),
    "eq.Scalar": (0.7,),
    "gt.Scalar": (0.7,),
    "clamp.default": (-0.7, 1.3),
    "threshold": (0.7, 1.3),
    "leaky_relu": (0.3,),
    "silu": (),
    "sigmoid": (),
}


@pytest.mark.parametrize("name", ROUNDED_ALIKE)
def test_bfloat16_is_rounded_where_aten_rounds_it(name: str) -> None:
    torch.manual_seed(0)
    given = (torch.randn(2000) * 3).to(torch.bfloat16)
    target = overload(name)
    expected = target(given, *ROUNDED_ALIKE[name])
    (found,) = lowered(target, (given, *ROUNDED_ALIKE[name]), {}, expected)
    assert found is not None
    assert int((found != expected).sum()) <= 1


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", values.FLOATS, ids=str)
def test_rounded_quotients_are_exact(dtype: torch.dtype, mode: str) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(2000) * 30).to(dtype), torch.randn(2000).to(dtype)
    target = ATEN.div.Tensor_mode
    expected = target(a, b, rounding_mode=mode)
    (found,) = lowered(target, (a, b), {"rounding_mode": mode}, expected)
    assert found is not None
    assert torch.equal(found, expected)
