"""Gradients that eager code refuses to compute: a formula of torch's writes to what is of another
size, or calls an op with what that refuses. Where it is traced it comes to something."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.layout import broadcast
from jitpkg.internals.ops import OpOverload, op_name


def is_differentiated_in_vain(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether an op with such arguments has a gradient, which eager code may refuse to compute."""
    refuses = _REFUSING.get(op_name(op).removeprefix("aten::").rstrip("_"))
    if refuses is None or not torch.is_grad_enabled():
        return False
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
    return any(x.requires_grad for x in given) and refuses(*given)


def _are_bounds_of_two_sizes(x: torch.Tensor, *bounds: torch.Tensor) -> bool:
    """To which elements are below one bound the formula writes whether they are below the other."""
    return len({broadcast([x.shape, bound.shape]) for bound in bounds}) > 1


def _are_larger(x: torch.Tensor, *targets: torch.Tensor) -> bool:
    """The formula writes to what is as large as the first."""
    return broadcast([x.shape, *(y.shape for y in targets)]) != tuple(x.shape)


def _are_booleans(*given: torch.Tensor) -> bool:
    """The formula subtracts them, which kernels refuse."""
    return any(x.dtype is torch.bool for x in given)


def _are_integers(*given: torch.Tensor) -> bool:
    """In PyTorch 2.11 the formula writes floats to them."""
    return not all(x.is_floating_point() or x.is_complex() for x in given)


_REFUSING: Mapping[str, Callable[..., bool]] = MappingProxyType(
    {
        "clamp": _are_bounds_of_two_sizes,
        **dict.fromkeys(
            "binary_cross_entropy huber_loss mse_loss smooth_l1_loss soft_margin_loss".split(),
            _are_larger,
        ),
        "addcdiv": _are_integers,
        "logaddexp": _are_booleans,
        "logaddexp2": _are_booleans,
    }
)
