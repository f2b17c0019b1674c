"""Descriptions of ops in torch's Python, decompositions among them, that are not to be used where
FakeTensor, AOTAutograd and symbolic sizes bring them into use.

Those of recurrent layers are loops over time: trained on 200 steps, a GRU took 62 s to compile, and
again for each other length, where torch has one call. And in torch 2.11 that of an LSTM is wrong:
it leaves its last states a dim too many, but for a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, prod
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.asked import asked_once
from jitpkg.facts.layout import Operand, is_contiguous, strides_of_format
from jitpkg.facts.tensor import TensorFacts, size_of, some_floats, stride_of
from jitpkg.internals import decompositions, modes
from jitpkg.internals.usual import zeros


def is_recurrent(function: object) -> bool:
    """Whether it is a layer that walks over time, by torch's name for it."""
    return getattr(function, "__name__", None) in ("gru", "lstm", "rnn_relu", "rnn_tanh")


def reads_lengths(function: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of a recurrent layer is one on a packed sequence, whose lengths it reads: of a
    tensor without data, a GRU reads them all the same, and the process dies."""
    if not is_recurrent(function):
        return False
    second = kwargs.get("batch_sizes", args[1] if len(args) > 1 else None)
    return isinstance(second, TensorFacts) and not second.dtype.is_floating_point


def is_wrong(function: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether torch's own description of a call is not what its kernels do, in 2.11 to 2.13."""
    name = getattr(function, "__name__", "").partition(".")[0].removesuffix("_forward")
    wrong = _WRONG.get(name.rstrip("_"))
    if wrong is None:
        return False
    return not args or not isinstance(args[0], TensorFacts) or wrong(args, kwargs)


def _has_gaps(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    size, stride = size_of(args[0]), stride_of(args[0])
    if is_contiguous(size, stride):
        return False
    return strides_of_format(size, Operand(size, stride)) != stride


def _is_told_wrongly(args: Sequence[Any]) -> bool:
    size = size_of(args[0])
    return tuple(args[3:6]) != (*size[:2], prod(size[2:]))


def _is_in_order(given: Any) -> bool:
    return isinstance(given, TensorFacts) and is_contiguous(size_of(given), stride_of(given))


Rule = Callable[[Sequence[Any], Mapping[str, Any]], bool]


def _has_no_elements(at: int) -> Rule:
    return lambda args, kwargs: len(args) <= at or 0 in args[at].size


def _is_resized_to_nothing(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    size = kwargs.get("size", args[1] if len(args) > 1 else None)
    factor = kwargs.get("scale_factor", args[2] if len(args) > 2 else None)
    lengths = args[0].size[2:]
    if size is None:
        factors = factor if isinstance(factor, list | tuple) else [factor] * len(lengths)
        pairs = zip(lengths, factors, strict=False)
        sizes = [n * f for n, f in pairs if type(n) is int and isinstance(f, int | float)]
    else:
        given = size if isinstance(size, list | tuple) else [size]
        sizes = [n for n in given if type(n) is int]
    return any(n < 1 for n in sizes)


def _interpolates_otherwise(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Kernels refuse integers, or round bytes at each step, and refuse images without elements, as
    input and as output; decompositions do none of that."""
    if 0 in args[0].size[1:] or _is_resized_to_nothing(args, kwargs):
        return True
    mode = kwargs.get("mode", args[3] if len(args) > 3 else "nearest")
    if args[0].dtype is torch.uint8 and mode in ("nearest", "nearest-exact", "area"):
        return False
    return not some_floats(args)


def _of_two_dtypes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    given = (*args, *kwargs.values())
    return len({x.dtype for x in given if isinstance(x, TensorFacts)}) > 1


def _is_told_another_dtype(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("input_dtype", args[-1]) is not args[0].dtype


def _of_booleans(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return any(isinstance(x, TensorFacts) and x.dtype is torch.bool for x in args)


def _counts_margins_otherwise(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Of one label and one example without reduction, it returns a vector of one number; and it
    does not refuse integers, narrow floats on a CPU, weights of another dtype, nor other classes
    than of int64. A margin that is NaN, or infinite, is compared another way round."""
    if any(type(x) is float and not isfinite(x) for x in (*args, *kwargs.values())):
        return True
    if len(args[0].size) < 2 or not args[0].dtype.is_floating_point:
        return True
    if args[0].device.type == "cpu" and args[0].dtype.itemsize < 4:
        return True
    if len(args) < 2 or args[1].dtype is not torch.int64:
        return True
    return _of_two_dtypes([args[0], *args[2:]], kwargs)


@asked_once
def _logits_promote() -> bool:
    """Whether a loss has the dtype of all that it is made of. In PyTorch 2.11 it does not."""
    x, weight = zeros(1), zeros(1, dtype=torch.float64)
    loss = torch.binary_cross_entropy_with_logits(x, x, None, weight, 1)
    return loss.dtype is torch.float64


_WRONG: Mapping[str, Rule] = MappingProxyType(
    {
        # of several labels, it counts those behind the end of the list, too
        "multilabel_margin_loss": lambda args, kwargs: True,
        "multi_margin_loss": _counts_margins_otherwise,
        "binary_cross_entropy_with_logits": lambda args, kwargs: (
            _of_two_dtypes(args, kwargs) and not _logits_promote()
        ),
        # kernels refuse them
        "dot": _of_two_dtypes,
        "mv": _of_two_dtypes,
        # on a CPU, kernels do not look at the dtype that they are told
        "_softmax_backward_data": _is_told_another_dtype,
        "_log_softmax_backward_data": _is_told_another_dtype,
        # kernels refuse booleans
        "sub": _of_booleans,
        "rsub": _of_booleans,
        # kernels refuse what lies with gaps, or is of another size than they are told
        "native_group_norm": lambda args, kwargs: _has_gaps(args, kwargs) or _is_told_wrongly(args),
        # what a matrix without elements is added to is returned as it is, of whatever size
        "addmv": _has_no_elements(1),
        "pixel_unshuffle": _has_no_elements(0),
        # its gradient is of another size, which kernels refuse
        "pixel_shuffle": _has_no_elements(0),
        # of integers it is in float32, and it lies in memory in another way
        "ldexp": lambda args, kwargs: not some_floats(args) or not all(map(_is_in_order, args)),
        # kernels refuse integers, and decompositions do not
        "max_pool1d": lambda args, kwargs: not some_floats(args),
        "hardshrink": lambda args, kwargs: not some_floats(args),
        "interpolate": _interpolates_otherwise,
        # kernels refuse a tensor of no dims, which no index fits
        "index_put": lambda args, kwargs: not args[0].size,
    }
)


_CAST_INSIDE = frozenset(
    """
    bilinear affine_grid affine_grid_generator linalg_pinv pinverse _trilinear
    _transformer_encoder_layer_fwd _native_multi_head_attention
    """.split()
)


_JOINS_INSIDE = frozenset(
    """
    _chunk_cat fft_fftshift fft_ifftshift isin linalg_matrix_exp matrix_exp roll unique_consecutive
    """.split()
)


def is_cast_inside(function: object, args: Sequence[Any]) -> bool:
    """Whether a call runs under autocast, and is cast inside."""
    return modes.ANY_AUTOCAST.get()() and casts_inside(function, args)


def casts_inside(function: object, args: Sequence[Any]) -> bool:
    """Whether the code in C++ of a call, or an op, multiplies matrices, or joins tensors of a
    narrow dtype that is not autocast's: autocast casts there, or raises, and decompositions,
    FakeTensor and modes, which stand below it, do not."""
    name = getattr(function, "__name__", "").partition(".")[0]
    return name in _CAST_INSIDE or (name in _JOINS_INSIDE and any(map(_is_refused, args)))


def _is_refused(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_refused, value))
    if not isinstance(value, TensorFacts | torch.Tensor):
        return False
    if value.dtype not in (torch.bfloat16, torch.float16):
        return False
    return value.dtype is not torch.get_autocast_dtype(value.device.type)


def is_lstm(function: object) -> bool:
    return getattr(function, "__name__", None) == "lstm"


@asked_once
def lstm_is_right() -> bool:
    """Whether the states that come out of the decomposition have the sizes of those that go in."""
    layer = decompositions.LSTM_LAYER.found()
    if layer is None:
        return False
    state, weight = torch.empty(2, 3, device="meta"), torch.empty(12, 3, device="meta")
    given = torch.empty(1, 2, 3, device="meta")
    _, (last, _) = layer(given, [state, state], [weight, weight], has_biases=False)
    return bool(last.shape == state.shape)
