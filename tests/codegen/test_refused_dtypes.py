"""Dtypes that an op refuses in eager code are refused by compiled code, in the same words."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jitpkg
from jitpkg.codegen.lowering.calls import ROWS
from jitpkg.internals.ops import OpOverload, schema
from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm
from tests.portions import WHOLE, portion

Tensor = torch.Tensor

DTYPES = (torch.bool, torch.int64, torch.float16, torch.float32)
NUMBERS = {torch.bool: True, torch.int64: 2, torch.float32: 0.5}
OTHERS = {"int": 1, "float": 0.5, "bool": True, "List[int]": [1], "str": "none"}
PRIVATE = {"_softmax", "_log_softmax", "_native_batch_norm_legit_functional"}
"""No public function calls these with what they are given here."""


def overloads() -> list[OpOverload]:
    found = set()
    for row in ROWS:
        name = row.partition(".")[0]
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None and name not in PRIVATE:
            found |= {getattr(packet, each) for each in packet.overloads()}
    return sorted((op for op in found if not schema(op).is_mutable), key=str)


def given(kind: str, dtype: torch.dtype | None) -> Any:
    if kind in ("Tensor", "List[Tensor]"):
        tensor = torch.ones(2, 3, dtype=dtype)
        return tensor if kind == "Tensor" else [tensor, tensor.clone()]
    return NUMBERS.get(dtype) if dtype is not None else OTHERS.get(kind)


def calls(op: OpOverload) -> Iterator[list[Any]]:
    """Arguments of each choice of dtypes."""
    kinds = [str(a.type) for a in schema(op).arguments if not a.has_default_value()]
    slots = [k for k, kind in enumerate(kinds) if kind in ("Tensor", "number", "List[Tensor]")]
    if not 0 < len(slots) <= 3:
        return
    for dtypes in itertools.product(DTYPES, repeat=len(slots)):
        of = dict(zip(slots, dtypes, strict=True))
        values = [given(kind, of.get(k)) for k, kind in enumerate(kinds)]
        if all(values[k] is not None for k in slots) and len({*dtypes}) <= 2:
            yield values


def raised(f: Any, *args: Any) -> str | None:
    try:
        f(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def differing(op: Any, values: list[Any], *, used: bool = True, name: str = "") -> str | None:
    expected = raised(op, *values)
    if expected is None:
        return None
    places = [k for k, value in enumerate(values) if isinstance(value, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> Any:
        args = list(values)
        for k, tensor in zip(places, tensors, strict=True):
            args[k] = tensor
        result = op(*args)
        return result if used else None

    found = raised(
        jitpkg.compile(call, backend="jitpkg", dynamic=False), *(values[k] for k in places)
    )
    dtypes = [str(getattr(value, "dtype", value)) for value in values]
    return None if found == expected else f"{name or op} of {dtypes}: {found}, not {expected}"


@needs_llvm
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_refused_as_in_eager_code(part: int) -> None:
    ops = portion(overloads()[part::4], 2, part)
    found = [differing(op, values) for op in ops for values in calls(op)]
    assert len(found) > (500 if WHOLE else 200)
    assert not [each for each in found if each]


IMAGES = torch.ones(1, 2, 4, 4), torch.ones(1, 2, 4), torch.ones(1, 2, 4, 4, 4)
DECOMPOSED = {
    "max_pool1d": lambda x: F.max_pool1d(x.flatten(1)[None], 2),
    "hardshrink": F.hardshrink,
    **{
        f"{mode}, {x.dim() - 2} dims": lambda x, mode=mode: F.interpolate(
            x, scale_factor=2, mode=mode
        )
        for x in IMAGES
        for mode in ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear")
    },
    "hardsigmoid": F.hardsigmoid,
    "softshrink": F.softshrink,
    "logsigmoid": F.logsigmoid,
    "glu": lambda x: F.glu(x, 1),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.flatten(1)[None], 2),
    "avg_pool1d": lambda x: F.avg_pool1d(x.flatten(1)[None], 2),
    "group_norm": lambda x: F.group_norm(x, 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_what_kernels_refuse_and_decompositions_take(dtype: torch.dtype) -> None:
    """In graphs with gradients, and by torch's own decompositions."""
    leaf = torch.ones(2, requires_grad=True)
    refused = 0
    for name, function in DECOMPOSED.items():
        for x in IMAGES:
            given = x.to(dtype)
            expected = raised(function, given)
            if "not implemented for" not in str(expected):
                continue
            refused += 1

            def beside_a_gradient(x: torch.Tensor, function: Any = function) -> Any:
                return function(x), leaf * 2

            for backend in ("jitpkg", "aot_eager"):
                compiled = jitpkg.compile(beside_a_gradient, backend=backend, dynamic=False)
                assert raised(compiled, given) == expected, (name, backend, x.shape)
    assert refused > 10


def normed(x: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    return torch.native_batch_norm(x, None, bias, mean, var, True, 0.5, 1e-5)[0]


def normed_by_hand(x: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    y = x * 2
    return F.batch_norm(y, mean, var, None, bias, training=True) + 1


@needs_llvm
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("norm", [normed, normed_by_hand])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.bool])
def test_statistics_are_updated_once_before_a_bias_is_refused(
    norm: Callable[..., Tensor], dtype: torch.dtype, backend: str
) -> None:
    x = torch.arange(24.0).view(2, 3, 4)
    given = call(x, torch.ones(3).to(dtype), torch.zeros(3), torch.ones(3))
    Comparison(backend=backend).assert_same_calls(norm, given)
