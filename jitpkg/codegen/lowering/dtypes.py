"""Dtypes that eager code refuses, though a definition would take them: such calls are ATen's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from jitpkg.codegen.lowering.table import Tensor, require

_NO_BOOLEANS = "sub subtract rsub threshold threshold_backward"
_NO_MASKS = "argmax argmin"
_NO_HALVES = "trace"
"""Nor booleans; PyTorch 2.12 takes halves."""
_ALIKE = "heaviside linalg_cross"
_FLOATING = (
    "lerp addcdiv gelu_backward huber_loss huber_loss_backward log_sigmoid_backward"
    " soft_margin_loss mse_loss_backward smooth_l1_loss_backward binary_cross_entropy_backward"
    " _prelu_kernel _prelu_kernel_backward elu_backward frac hypot logaddexp logaddexp2"
    " binary_cross_entropy logit_backward binary_cross_entropy_with_logits"
    " _softmax_backward_data _log_softmax_backward_data mm bmm addmm"
    " baddbmm mv dot linear"
)
_OF_FLOATS = (
    "_native_batch_norm_legit_functional _native_batch_norm_legit native_batch_norm"
    " _native_batch_norm_legit_no_training"
)
"""The input may be of fewer bits than the parameters and statistics, which are float32 then."""


def check(name: str, args: Sequence[object]) -> None:
    """
    Args:
        name: of the op, without the overload's.
        args: of the call.

    Raises:
        NotLowered: eager code may refuse the dtypes.
    """
    kind = _KINDS.get(name)
    if kind is None:
        return
    dtypes = [each.dtype for each in args if isinstance(each, Tensor)]
    why = f"{name} of {', '.join(map(str, dtypes))}"
    if kind in (_NO_BOOLEANS, _NO_MASKS):
        is_number = kind is _NO_BOOLEANS and any(isinstance(each, bool) for each in args)
        require(torch.bool not in dtypes and not is_number, why)
        return
    if kind is _NO_HALVES:
        require({torch.bool, torch.float16, torch.bfloat16}.isdisjoint(dtypes), why)
        return
    if kind is _OF_FLOATS and dtypes[0] in (torch.float16, torch.bfloat16):
        dtypes = dtypes[1:] if torch.float32 in dtypes else dtypes
    require(len({*dtypes}) <= 1, why)
    require(kind is _ALIKE or all(each.is_floating_point for each in dtypes), why)


_KINDS: Mapping[str, str] = {
    name: kind
    for kind in (_NO_BOOLEANS, _NO_MASKS, _NO_HALVES, _ALIKE, _FLOATING, _OF_FLOATS)
    for name in kind.split()
}
