"""FakeTensor, with what it gets wrong put right.

On the CPU the norms keep the statistics of a bfloat16 or float16 input in the dtype of their
parameters, where FakeTensor takes that of the input. Elementwise ops lay their results out as
TensorIterator does, of which FakeTensor has a version of its own; others do not keep the order of
dims that FakeTensor keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts.layout import (
    Operand,
    broadcast,
    is_contiguous,
    preserved,
    strides,
    strides_of_format,
)
from jitpkg.facts.tensor import contiguous_stride
from jitpkg.internals import fake_tensors
from jitpkg.internals.ops import op_name, overload_name, schema

_NARROW = (torch.bfloat16, torch.float16)

Dtypes = tuple[torch.dtype, ...]


def _norm(args: Sequence[Any], parameters: Sequence[Any]) -> Dtypes:
    x = args[0]
    known = [t.dtype for t in parameters if isinstance(t, torch.Tensor)]
    kept = torch.float32 if torch.float32 in known else x.dtype
    return x.dtype, kept, kept


def _layer_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[2:4])


def _group_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[1:3])


def _batch_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[1:5])


def _functional_batch_norm(args: Sequence[Any]) -> Dtypes:
    return (*_batch_norm(args), args[3].dtype, args[4].dtype)


def _batch_norm_backward(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[2:7])


def _group_norm_backward(args: Sequence[Any]) -> Dtypes:
    weight = args[4]
    kept = args[1].dtype if weight is None else weight.dtype
    return args[1].dtype, kept, kept


_DTYPES: Mapping[str, Callable[[Sequence[Any]], Dtypes]] = MappingProxyType(
    {
        "aten::native_layer_norm": _layer_norm,
        "aten::native_group_norm": _group_norm,
        "aten::native_group_norm_backward": _group_norm_backward,
        "aten::native_batch_norm": _batch_norm,
        "aten::native_batch_norm_backward": _batch_norm_backward,
        "aten::_native_batch_norm_legit": _batch_norm,
        "aten::_native_batch_norm_legit.no_stats": lambda args: _norm(args, args[1:3]),
        "aten::_native_batch_norm_legit_no_training": _batch_norm,
        "aten::_native_batch_norm_legit_functional": _functional_batch_norm,
    }
)
"""The dtypes of the results, for a narrow input on the CPU; compared with the ops by the tests."""


Strides = tuple[int, ...]


def _in_order(size: Strides, stride: Strides) -> Strides:
    return contiguous_stride(size)


def _of_batch_norm(size: Strides, stride: Strides) -> Strides:
    return (
        _in_order(size, stride) if is_contiguous(size, stride) else strides_of_format(size, stride)
    )


_LAYOUTS: Mapping[str, Callable[[Strides, Strides], Strides]] = MappingProxyType(
    {
        **dict.fromkeys(
            """
            native_batch_norm native_batch_norm_backward _native_batch_norm_legit
            _native_batch_norm_legit_no_training _native_batch_norm_legit_functional
            """.split(),
            _of_batch_norm,
        ),
        **dict.fromkeys(
            "channel_shuffle native_group_norm native_group_norm_backward roll".split(),
            strides_of_format,
        ),
        **dict.fromkeys(
            """
            isin log_sigmoid_forward masked_fill native_layer_norm normal renorm rrelu_with_noise
            tril triu
            """.split(),
            _in_order,
        ),
        **dict.fromkeys("clone flip hardtanh nan_to_num sort".split(), preserved),
    }
)
"""How a first result of the first argument's size is laid out, on the CPU, by that one's strides;
compared with the ops by the tests."""

_AS_THEY_ARE = frozenset("ldexp lerp mvlgamma deg2rad rad2deg".split())
"""Elementwise ops that allocate their results in other ways."""


def _layout(func: Any, made: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Strides | None:
    """The strides of a result, where they are others than those of `made`."""
    name = op_name(func).removeprefix("aten::")
    rule = _LAYOUTS.get(name)
    if rule is None and (torch.Tag.pointwise not in func.tags or name in _AS_THEY_ARE):
        return None
    if not isinstance(made, torch.Tensor) or (schema(func).is_mutable and rule is None):
        return None
    if kwargs.get("memory_format") not in (None, torch.preserve_format):
        return None
    operands = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
    if any(type(n) is not int for x in (*operands, made) for n in (*x.shape, *x.stride())):
        return None
    size = tuple(made.shape)
    if rule is not None and made.device.type == "cpu" and operands[0].shape == made.shape:
        found = rule(size, operands[0].stride())
    elif rule is None and broadcast([tuple(x.shape) for x in operands]) == size:
        numbers = [Operand((), ())] if _has_number(func, args) else []
        shapes = [Operand(tuple(x.shape), x.stride()) for x in operands]
        found = strides(size, [*shapes, *numbers])
    else:
        return None
    return None if found == made.stride() else found


def _has_number(func: Any, args: Sequence[Any]) -> bool:
    """Whether a number stands in place of a tensor, which makes it an operand."""
    if overload_name(func) == "Scalar":
        return True
    arguments = zip(schema(func).arguments, args, strict=False)
    return any(
        str(argument.type) == "Tensor" and isinstance(given, int | float)
        for argument, given in arguments
    )


def corrected_mode(**settings: Any) -> Any:
    """A mode of FakeTensor that is right.

    Raises:
        Missing: there is no FakeTensor.
    """
    return fake_tensors.mode(_corrected, **settings)


def _corrected(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> Any:
    several = isinstance(made, tuple | list) and len(made) > 0
    first = made[0] if several else made
    layout = _layout(func, first, args, kwargs)
    if layout is not None:
        first = first.new_empty_strided(first.shape, layout)
        made = (first, *made[1:]) if several else first
    dtypes = _DTYPES.get(func.name())
    if dtypes is None or args[0].dtype not in _NARROW or args[0].device.type != "cpu":
        return made
    return tuple(
        t if t is None or t.dtype is dtype else torch.empty_like(t, dtype=dtype)
        for t, dtype in zip(made, dtypes(args), strict=True)
    )
