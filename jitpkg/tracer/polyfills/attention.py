"""`torch.nn.attention.flex_attention`: what torch computes of it without a kernel of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch
from torch import Tensor

from jitpkg.tracer.polyfills import indexing_modes

Modification = Callable[..., Tensor]


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Modification | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: Any = None,
) -> Any:
    """The scores of all pairs, changed by `score_mod`, masked, and weighed: which blocks of a mask
    are empty counts for speed only."""
    _check(query, key, value, enable_gqa)
    _check_options(return_lse, kernel_options, return_aux)
    if block_mask is not None:
        _check_mask(query, key, block_mask)
    elif query.size(0) != key.size(0):
        refused("batches of different sizes, which raises")
    groups = query.size(1) // key.size(1)
    key = torch.repeat_interleave(key, groups, dim=1)
    value = torch.repeat_interleave(value, groups, dim=1)
    key = key.expand((query.size(0), *key.size()[1:]))
    value = value.expand((query.size(0), *value.size()[1:]))
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(precise) @ key.to(precise).transpose(-2, -1)
    scores = (scores * (1.0 / math.sqrt(query.size(-1)) if scale is None else scale)).to(precise)
    scores = _modified(scores, score_mod, None if block_mask is None else block_mask.mask_mod)
    weights = torch.where(_masked(scores), 0.0, torch.softmax(scores, dim=-1))
    out = _laid_out_like(query, weights.to(query.dtype) @ value.to(query.dtype))
    if return_aux is None:
        return out
    from torch.nn.attention.flex_attention import AuxOutput  # noqa: PLC0415 (half a second)

    return out, AuxOutput(lse=_logsumexp(scores) if return_aux.lse else None, max_scores=None)


def _modified(scores: Tensor, score_mod: Modification | None, mask_mod: Any) -> Tensor:
    """The scores as `score_mod` makes them, and infinitely low where the mask says so."""
    positions = [torch.arange(0, length, device=scores.device) for length in scores.size()]
    indexing_modes.enter()
    try:
        made = scores
        if score_mod is not None:
            made = _mapped(score_mod, (0,))(scores, *positions)
        if mask_mod is not None:
            lowest = torch.tensor(-float("inf"), dtype=scores.dtype, device=scores.device)
            made = torch.where(_mapped(mask_mod, ())(*positions), made, lowest)
        return made
    finally:
        indexing_modes.leave()


def _mapped(function: Modification, first: tuple[int, ...]) -> Modification:
    """A function of numbers as one of all batches, heads, queries and keys."""
    for k in (3, 2, 1, 0):
        dims: list[int | None] = [None, None, None, None]
        dims[k] = 0
        function = torch.vmap(function, in_dims=(*first, *dims))
    return function


def _masked(scores: Tensor) -> Tensor:
    """For each query, whether it may look at no key."""
    return torch.all(scores == -float("inf"), dim=-1, keepdim=True)


def _logsumexp(scores: Tensor) -> Tensor:
    """By way of base 2, in which torch's kernels compute."""
    total = scores.logsumexp(dim=-1)
    total = torch.where(_masked(scores).squeeze(-1), -float("inf"), total)
    return total / math.log(2) * math.log(2.0)


def _laid_out_like(query: Tensor, out: Tensor) -> Tensor:
    """The result with the dims in memory in the order of the query's, the last one innermost."""
    if query.is_contiguous():
        return out
    stride = query.stride()
    inner_first = sorted((0, 1, 2), key=lambda dim: (stride[dim], -dim))
    made, step = [0, 0, 0, 1], out.size(3)
    for dim in inner_first:
        made[dim] = step
        step *= out.size(dim)
    laid_out = torch.empty_strided(out.shape, made, dtype=out.dtype, device=out.device)
    laid_out.copy_(out)
    return laid_out


# What is left to torch, most of which raises


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    for each in (query, key, value):
        if each.dim() != 4:
            refused("tensors of other than four dims, which raises")
        if each.dtype != query.dtype or each.device != query.device:
            refused("tensors of several dtypes or devices")
        if each.requires_grad and each.device.type == "cpu":
            refused("tensors that require grad on a CPU, which raises")
    if not query.dtype.is_floating_point or query.dtype.itemsize == 1:
        refused(f"tensors of {query.dtype}")
    if torch.is_autocast_enabled(query.device.type):
        refused("autocast")
    heads, groups = query.size(1), key.size(1)
    if (heads != groups and not enable_gqa) or groups == 0 or heads % groups != 0:
        refused("numbers of heads that do not fit, which raises")
    if query.size(3) != key.size(3) or key.size(2) != value.size(2) or value.size(1) != groups:
        refused("sizes that do not fit, which raises")
    if key.size(0) != value.size(0):
        refused("batches of different sizes, which raises")


def _check_options(
    return_lse: bool, kernel_options: dict[str, Any] | None, return_aux: Any
) -> None:
    if return_lse:
        refused("return_lse, of which torch warns")
    if return_aux is not None and return_aux.max_scores:
        refused("max_scores")
    for name in kernel_options or ():
        if name in ("BACKEND", "FORCE_USE_FLEX_ATTENTION", "OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
            refused(f"the option {name}")


_WHOLE = 1 << 30
"""The size of blocks by which torch says that there is but one."""


def _check_mask(query: Tensor, key: Tensor, block_mask: Any) -> None:
    if query.size(0) != key.size(0) and (
        key.size(0) != 1 or block_mask.kv_num_blocks.size(0) != query.size(0)
    ):
        refused("batches of different sizes, which raises")
    if block_mask.kv_num_blocks.device != query.device:
        refused("a mask on another device, which raises")
    if block_mask.BLOCK_SIZE[0] != _WHOLE or block_mask.BLOCK_SIZE[1] != _WHOLE:
        shape = block_mask.shape
        if query.size(2) != shape[-2] or key.size(2) != shape[-1]:
            refused("a mask of other lengths, which raises")


def refused(why: str) -> NoReturn:
    """End the trace: the tracer has a row for it."""
    raise NotImplementedError


def annotate(annotation: dict[str, Any]) -> AbstractContextManager[None]:
    """`torch.fx.traceback.annotate`: what torch's own compiler is told."""
    return nullcontext()
