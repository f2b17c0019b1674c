"""Dtypes that FakeTensor gets wrong, against the real ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from jitpkg.facts.corrected import corrected_mode

aten = torch.ops.aten
NARROW = (torch.bfloat16, torch.float16)
P = Tensor | None


def wanted(w: P, b: P) -> list[bool]:
    return [True, w is not None, b is not None]


def layer_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_layer_norm(x, [2], w, b, 1e-5)


def layer_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = layer_norm(x, w, b, s)
    return aten.native_layer_norm_backward(x, x, [2], mean, scale, w, b, wanted(w, b))


def group_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_group_norm(x, w, b, 3, 2, 1, 2, 1e-5)


def group_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = group_norm(x, w, b, s)
    return aten.native_group_norm_backward(x, x, mean, scale, w, 3, 2, 1, 2, wanted(w, w))


def batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten.native_batch_norm(x, w, b, s, s, True, 0.1, 1e-5)


def batch_norm_of_a_batch(x: Tensor, w: P, b: P, s: P) -> Any:
    return aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)


def functional_batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    s = torch.ones(2, dtype=x.dtype if w is None else w.dtype) if s is None else s
    return aten._native_batch_norm_legit_functional(x, w, b, s, s, True, 0.1, 1e-5)


def updating_batch_norm(x: Tensor, w: P, b: P, s: P) -> Any:
    if w is None or b is None or s is None:
        raise RuntimeError("the process may die")
    return aten._batch_norm_with_update_functional(x, w, b, s, s, 0.1, 1e-5)


def batch_norm_backward(x: Tensor, w: P, b: P, s: P) -> Any:
    _, mean, scale = batch_norm(x, w, b, s)
    return aten.native_batch_norm_backward(x, x, w, s, s, mean, scale, True, 1e-5, wanted(w, b))


def evaluated(x: Tensor, w: P, b: P, s: P) -> Any:
    s = torch.ones(2, dtype=x.dtype if w is None else w.dtype) if s is None else s
    return aten._native_batch_norm_legit_no_training(x, w, b, s, s, 0.1, 1e-5)


@pytest.mark.parametrize(
    "call",
    [
        layer_norm,
        layer_norm_backward,
        group_norm,
        group_norm_backward,
        batch_norm,
        batch_norm_of_a_batch,
        functional_batch_norm,
        updating_batch_norm,
        batch_norm_backward,
        evaluated,
    ],
)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("given", ["", "w", "b", "s", "wb", "ws", "wbs"])
@pytest.mark.parametrize("wide", [False, True])
def test_statistics_of_norms(
    call: Callable[..., Any], dtype: torch.dtype, given: str, wide: bool
) -> None:
    parameter = torch.ones(2, dtype=torch.float32 if wide else dtype)
    x = torch.randn(3, 2).to(dtype)
    tensors = [parameter.clone() if name in given else None for name in "wbs"]
    try:
        real = call(x, *tensors)
    except RuntimeError:
        return  # nothing to be right about
    with corrected_mode() as mode:
        fake = call(
            mode.from_tensor(x), *(t if t is None else mode.from_tensor(t) for t in tensors)
        )
    assert [t.dtype for t in fake if t is not None] == [t.dtype for t in real if t is not None]
