"""What the strategies make, and that they reach the cases that they are for."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from jitpkg.testing.strategies import (
    DTYPES,
    Frozen,
    Pair,
    Record,
    aliasing_tensors,
    shapes,
    shared_structures,
    structures,
    tensors,
)

FEW = settings(max_examples=60, deadline=None, derandomize=True, database=None)
MANY = settings(
    max_examples=3000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@FEW
@given(tensors())
def test_a_tensor_can_be_read_and_copied(x: torch.Tensor) -> None:
    assert x.dtype in DTYPES
    assert x.clone().shape == x.shape
    assert x._version == 0
    assert x.is_leaf


def shared(xs: list[torch.Tensor]) -> bool:
    memories = {x.untyped_storage().data_ptr() for x in xs if x.numel()}
    return len(memories) < len([x for x in xs if x.numel()])


def contains(kind: type) -> Callable[[Any], bool]:
    def has(obj: Any) -> bool:
        if isinstance(obj, kind):
            return True
        if dataclasses.is_dataclass(obj):
            return any(has(getattr(obj, f.name)) for f in dataclasses.fields(obj))
        inner = obj.values() if isinstance(obj, dict) else obj
        return isinstance(obj, dict | list | tuple) and any(map(has, inner))

    return has


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (tensors(), lambda x: x.dim() == 0),
        (tensors(), lambda x: x.dim() == 3 and 0 in x.shape),
        (tensors(), lambda x: x.dim() == 2 and 1 in x.shape),
        (tensors(), lambda x: not x.is_contiguous() and x.numel() > 2),
        (tensors(), lambda x: 0 in x.stride() and x.numel() > 2),
        (tensors(), lambda x: x.storage_offset() > 0),
        (tensors(), lambda x: x.requires_grad),
        *[(tensors(), lambda x, dtype=dtype: x.dtype == dtype) for dtype in DTYPES],
        (tensors(dtype=torch.float32, odd_values=True), lambda x: bool(x.isnan().any())),
        (tensors(dtype=torch.int8, odd_values=True), lambda x: bool((x == 127).any())),
        (aliasing_tensors(), lambda xs: any(a is b for a, b in itertools.pairwise(xs))),
        (aliasing_tensors(), lambda xs: any(x._base is not None for x in xs)),
        (aliasing_tensors(), lambda xs: shared([x for x in xs if x._base is None])),
        *[(structures(), contains(kind)) for kind in (list, tuple, dict, Pair, Record, Frozen)],
        (shared_structures(), contains(torch.Tensor)),
    ],
)
def test_a_strategy_reaches(strategy: st.SearchStrategy[Any], wanted: Callable[..., bool]) -> None:
    find(strategy, wanted, settings=MANY)


@FEW
@given(shapes(min_dims=2, max_dims=2, min_size=2, max_size=5), st.data())
def test_settings_are_kept(shape: tuple[int, ...], data: st.DataObject) -> None:
    assert len(shape) == 2 and all(2 <= n <= 5 for n in shape)
    x = data.draw(tensors(dtype=torch.float64, shape=shape, requires_grad=True, contiguous=True))
    assert (x.dtype, tuple(x.shape)) == (torch.float64, shape)
    assert x.requires_grad and x.is_contiguous() and x.storage_offset() == 0
