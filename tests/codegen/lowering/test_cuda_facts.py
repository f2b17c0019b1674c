"""What lowerings return on a GPU is what FakeTensor says that ATen returns there."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from jitpkg import config
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Buffer
from jitpkg.codegen.lowering.calls import lower
from jitpkg.codegen.lowering.table import Lowering, NotLowered
from jitpkg.facts.corrected import corrected_mode
from jitpkg.facts.tensor import facts_of
from tests.codegen.fake_cuda import CUDA
from tests.codegen.lowering import calls
from tests.codegen.lowering.test_calls import sampled


def on_gpu(value: Any) -> Any:
    def there(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=CUDA)

    return pytree.tree_map_only(torch.Tensor, there, value)


def check(op: Any, args: Any, kwargs: Any) -> None:
    facts = facts_on_gpu(op, args, kwargs)
    if facts is None:
        return
    k = Lowering(Builder(), CUDA)
    with config.patch(strict=True), contextlib.suppress(NotLowered):
        lower(k, op, *buffers(k, (args, kwargs)), facts)


@pytest.mark.parametrize("name", sorted(calls.CALLS))
def test_dtypes_and_sizes(name: str) -> None:
    try:
        samples = list(sampled(name, torch.bfloat16, "contiguous"))
    except RuntimeError:
        pytest.skip("no such samples")
    for sample in samples:
        check(*sample)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("count", [1, 2])
def test_dtypes_and_sizes_of_elementwise_ops(dtype: torch.dtype, count: int) -> None:
    for name in calls.ONE if count == 1 else calls.TWO:
        packet, _, overload = name.partition(".")
        found = getattr(torch.ops.aten, packet)
        op = getattr(found, overload or ("Tensor" if "Tensor" in found.overloads() else "default"))
        check(op, tuple(torch.ones(3, 5, dtype=dtype) for _ in range(count)), {})


def facts_on_gpu(op: Any, args: Any, kwargs: Any) -> Any:
    """None where nobody knows."""
    with corrected_mode():
        args, kwargs = on_gpu((args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = CUDA
        try:
            found = op(*args, **kwargs)
        except Exception:  # of whatever kind
            return None
        return pytree.tree_map_only(torch.Tensor, facts_of, found)


def buffers(k: Lowering, value: Any) -> Any:
    def buffer(x: torch.Tensor) -> Any:
        return k.of_buffer(Buffer("x", x.dtype, tuple(x.shape), tuple(x.stride())))

    return pytree.tree_map_only(torch.Tensor, buffer, value)
