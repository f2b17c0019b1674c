"""FakeTensor, with what it gets wrong put right.

On the CPU the norms keep the statistics of a bfloat16 or float16 input in the dtype of their
parameters, where FakeTensor takes that of the input. Elementwise ops lay their results out as
TensorIterator does, of which FakeTensor has a version of its own; others do not keep the order of
dims that FakeTensor keeps. In-place ops that nobody has described do not refuse to write floats to
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, TypeVar

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


def _updating_batch_norm(args: Sequence[Any]) -> Dtypes:
    return (*_batch_norm(args), torch.uint8)


def _functional_updating_batch_norm(args: Sequence[Any]) -> Dtypes:
    return (*_updating_batch_norm(args), args[3].dtype, args[4].dtype)


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
        "aten::_batch_norm_with_update": _updating_batch_norm,
        "aten::_batch_norm_with_update_functional": _functional_updating_batch_norm,
    }
)
"""The dtypes of the results, for a narrow input on the CPU; compared with the ops by the tests."""

_WITH_STATISTICS = (_functional_batch_norm, _functional_updating_batch_norm)
"""Where the last two results are the running statistics: on a GPU, too, they stay as narrow."""


R = TypeVar("R")
Strides = tuple[int, ...]
Rule = Callable[[Strides, Sequence[Operand]], Strides | None]


def _in_order(size: Strides, operands: Sequence[Operand]) -> Strides:
    return contiguous_stride(size)


def _of_format(at: int) -> Rule:
    return lambda size, operands: strides_of_format(size, operands[at])


def _of_batch_norm(at: int) -> Rule:
    def rule(size: Strides, operands: Sequence[Operand]) -> Strides:
        x = operands[at]
        if is_contiguous(x.size, x.stride):
            return contiguous_stride(size)
        return strides_of_format(size, x)

    return rule


def _of_volumes(size: Strides, operands: Sequence[Operand]) -> Strides | None:
    """One volume alone that lies with its channels innermost, and not in order; of a batch,
    FakeTensor is right."""
    x = operands[0]
    if len(size) != 4 or is_contiguous(x.size, x.stride):
        return None
    if not is_contiguous((*x.size[1:], x.size[0]), (*x.stride[1:], x.stride[0])):
        return None
    *rest, channels = contiguous_stride((*size[1:], size[0]))
    return channels, *rest


def _preserved(at: int) -> Rule:
    def rule(size: Strides, operands: Sequence[Operand]) -> Strides | None:
        x = operands[at]
        return preserved(size, x.stride) if x.size == size else None

    return rule


def _elementwise(*order: int) -> Rule:
    """As elementwise ops do it, with tensors in this order."""

    def rule(size: Strides, operands: Sequence[Operand]) -> Strides | None:
        taken = [operands[k] for k in order]
        return strides(size, taken) if broadcast([x.size for x in taken]) == size else None

    return rule


def _names(names: str, rule: R) -> dict[str, R]:
    return dict.fromkeys(names.split(), rule)


_LAYOUTS: Mapping[str, Rule] = MappingProxyType(
    {
        **_names(
            """
            native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
            _native_batch_norm_legit_functional _batch_norm_with_update _batch_norm_no_update
            _batch_norm_with_update_functional
            """,
            _of_batch_norm(0),
        ),
        **_names("native_batch_norm_backward batch_norm_backward", _of_batch_norm(1)),
        **_names(
            """
            channel_shuffle max_unpool2d native_group_norm reflection_pad2d reflection_pad3d
            replication_pad2d replication_pad3d upsample_bicubic2d upsample_bilinear2d
            upsample_nearest2d upsample_nearest3d upsample_trilinear3d _upsample_bicubic2d_aa
            _upsample_bilinear2d_aa _upsample_nearest_exact2d _upsample_nearest_exact3d
            """,
            _of_format(0),
        ),
        **_names(
            """
            native_group_norm_backward reflection_pad2d_backward replication_pad2d_backward
            reflection_pad3d_backward replication_pad3d_backward
            """,
            _of_format(1),
        ),
        **_names(
            """
            diag_embed glu_backward huber_loss_backward isin _log_softmax_backward_data
            log_sigmoid_forward masked_fill mse_loss_backward native_layer_norm
            native_layer_norm_backward normal poisson pow.Scalar renorm rrelu_with_noise
            smooth_l1_loss_backward _standard_gamma tril triu _weight_norm_interface
            """,
            _in_order,
        ),
        **_names("binary_cross_entropy clone flip hardtanh nan_to_num sort uniform", _preserved(0)),
        "binary_cross_entropy_backward": _preserved(1),
        "max_pool3d_with_indices": _of_volumes,
        **_names(
            """
            elu_backward hardsigmoid_backward hardswish_backward hardtanh_backward
            softplus_backward
            """,
            _elementwise(0, 1),
        ),
        "threshold_backward": _elementwise(1, 0),
        "rrelu_with_noise_backward": _elementwise(2, 0),
    }
)
"""How a result is laid out, on the CPU, by how the tensors that are given lie; None where nothing
is known. Compared with the ops by the tests."""

_AS_THEY_ARE = frozenset("ldexp lerp mvlgamma deg2rad rad2deg".split())
"""Elementwise ops that allocate their results in other ways."""


def _layout(func: Any, made: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Strides | None:
    """The strides of a result, where they are others than those of `made`."""
    name = op_name(func).removeprefix("aten::")
    rule = _LAYOUTS.get(name) or _LAYOUTS.get(f"{name}.{overload_name(func)}")
    if rule is None and (torch.Tag.pointwise not in func.tags or name in _AS_THEY_ARE):
        return None
    if not isinstance(made, torch.Tensor) or (schema(func).is_mutable and rule is None):
        return None
    if kwargs.get("memory_format") not in (None, torch.preserve_format):
        return None
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
    size = tuple(made.shape)
    operands = [Operand(tuple(x.shape), x.stride()) for x in given]
    found: Strides | None = None
    if rule is not None and made.device.type == "cpu":
        found = rule(size, operands)
    elif rule is None and broadcast([x.size for x in operands]) == size:
        found = strides(size, [*operands, *([Operand((), ())] if _has_number(func, args) else [])])
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


def _check_kind(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """
    Raises:
        RuntimeError: an in-place op comes to numbers of a kind that its tensor cannot hold.
    """
    name = op_name(func).removeprefix("aten::")
    if not name.endswith("_") or name.endswith("__") or not isinstance(args[0], torch.Tensor):
        return
    if args[0].is_floating_point() or args[0].is_complex():
        return
    pure = getattr(getattr(torch.ops.aten, name[:-1], None), overload_name(func), None)
    if pure is None or schema(pure).is_mutable:
        return
    result = pure(*args, **kwargs)
    if isinstance(result, torch.Tensor) and not torch.can_cast(result.dtype, args[0].dtype):
        raise RuntimeError(f"{result.dtype} can't be cast to {args[0].dtype}")


def _cast(made: Any, dtype: torch.dtype) -> Any:
    if made.dtype is dtype:
        return made
    return made.new_empty_strided(made.shape, made.stride(), dtype=dtype)


def _embedding_bag(args: Sequence[Any], made: Any) -> Any:
    """Sums of bfloat16 are taken without noting which bag an index belongs to, as for float16. What
    is counted has the dtype of both, where indices and offsets have two."""
    counted = torch.promote_types(args[1].dtype, args[2].dtype)
    made = made[0], *(_cast(x, counted) for x in made[1:])
    weight, scale = args[0], args[6] if len(args) > 6 else None
    padding = args[8] if len(args) > 8 else -1
    steps = [weight.stride(1), *([] if scale is None else scale.stride())]
    if weight.dtype is not torch.bfloat16 or weight.device.type != "cpu":
        return made
    if any(args[4:5]) or padding >= 0 or any(step != 1 for step in steps):
        return made
    return made[0], made[1].new_empty(0), *made[2:]


def _roll(args: Sequence[Any], made: Any) -> Any:
    """Each dim's two parts are joined in the format that both suggest; without dims, the elements
    are rolled in their order."""
    x, shifts, dims = args[0], args[1], args[2] if len(args) > 2 else ()
    if x.device.type != "cpu" or (dims and x.numel() == 0):
        return made
    size, stride = tuple(x.shape), x.stride() if dims else contiguous_stride(x.shape)
    for shift, dim in zip(shifts, dims, strict=bool(dims)):
        first = shift % size[dim]
        parts = [
            strides_of_format(size, Operand(_replaced(size, dim, length), stride))
            for length in (first, size[dim] - first)
        ]
        stride = parts[0] if parts[0] == parts[1] else contiguous_stride(size)
    return made if stride == made.stride() else made.new_empty_strided(size, stride)


def _replaced(size: Strides, dim: int, length: int) -> Strides:
    dim %= len(size)
    return *size[:dim], length, *size[dim + 1 :]


def _transform(args: Sequence[Any], made: Any) -> Any:
    """MKL's: dims that are not transformed lie by their strides, and within them those that are;
    innermost is the last one, where reals are transformed. PyTorch 2.11 does not know it."""
    x, dims = args[0], [dim % args[0].dim() for dim in args[1]]
    by_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if not dims or x.device.type != "cpu" or not by_mkl:
        return made
    last = [] if x.is_complex() else [dims.pop()]
    others = [dim for dim in range(x.dim()) if dim not in (*dims, *last)]
    by_step = partial(sorted, key=x.stride().__getitem__, reverse=True)
    order = [*by_step(others), *by_step(dims), *last]
    size = tuple(made.shape)
    lies = contiguous_stride(tuple(size[dim] for dim in order))
    stride = tuple(lies[order.index(dim)] for dim in range(x.dim()))
    return made if stride == made.stride() else made.new_empty_strided(size, stride)


def _unique(args: Sequence[Any], made: Any) -> Any:
    """PyTorch 2.11 says that there is one element, whatever the data."""
    if type(made[0].shape[0]) is int:
        raise fake_tensors.DYNAMIC_SHAPE.get()("aten::_unique")
    return made


def _unfold_backward(args: Sequence[Any], made: Any) -> Any:
    """Of no dims it is a number, and not a vector of nothing."""
    return made if len(args[1]) else made.new_empty(())


def _of_dtype(dtype: Callable[[Sequence[torch.Tensor]], torch.dtype]) -> Callable[..., Any]:
    """Of tensors of several dtypes: FakeTensor promotes some, and takes the first one's of others,
    not always as kernels do."""

    def replaced(args: Sequence[Any], made: Any) -> Any:
        given = [x for x in args if isinstance(x, torch.Tensor)]
        return _cast(made, dtype(given)) if given and made.device.type == "cpu" else made

    return replaced


def _promoted(given: Sequence[torch.Tensor]) -> torch.dtype:
    return reduce(torch.promote_types, (x.dtype for x in given))


def _scaled(given: Sequence[torch.Tensor]) -> torch.dtype:
    """Of a product of these and a float."""
    dtype = _promoted(given)
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


_REPLACED: Mapping[str, Callable[[Sequence[Any], Any], Any]] = MappingProxyType(
    {
        "aten::_embedding_bag": _embedding_bag,
        "aten::_embedding_bag_forward_only": _embedding_bag,
        "aten::_fft_c2c": _transform,
        "aten::_fft_r2c": _transform,
        "aten::_unique": _unique,
        "aten::roll": _roll,
        "aten::unfold_backward": _unfold_backward,
        "aten::addr": _of_dtype(_promoted),
        "aten::native_dropout_backward": _of_dtype(_scaled),
        **_names(
            """
            aten::binary_cross_entropy aten::huber_loss aten::normal aten::soft_margin_loss
            """,
            _of_dtype(lambda given: given[0].dtype),
        ),
        **_names(
            """
            aten::binary_cross_entropy_backward aten::huber_loss_backward aten::mse_loss_backward
            aten::smooth_l1_loss_backward aten::soft_margin_loss_backward
            """,
            _of_dtype(lambda given: given[1].dtype),
        ),
    }
)
"""Other corrections; compared with the ops by the tests."""


def corrected_mode(**settings: Any) -> Any:
    """A mode of FakeTensor that is right.

    Raises:
        Missing: there is no FakeTensor.
    """
    return fake_tensors.mode(_corrected, **settings)


def _corrected(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any) -> Any:
    _check_kind(func, args, kwargs)
    replaced = _REPLACED.get(op_name(func))
    if replaced is not None:
        made = replaced(args, made)
    several = isinstance(made, tuple | list) and len(made) > 0
    first = made[0] if several else made
    layout = _layout(func, first, args, kwargs)
    if layout is not None and several:
        made = tuple(
            t.new_empty_strided(t.shape, layout)
            if isinstance(t, torch.Tensor) and t.shape == first.shape
            else t
            for t in made
        )
    elif layout is not None:
        made = first.new_empty_strided(first.shape, layout)
    rule = _DTYPES.get(func.name())
    if rule is None or args[0].dtype not in _NARROW:
        return made
    dtypes = rule(args)
    if args[0].device.type != "cpu":
        updated = 2 if rule in _WITH_STATISTICS else 0
        kept = len(dtypes) - updated
        dtypes = (*(made[k].dtype for k in range(kept)), *dtypes[kept:])
    return tuple(
        t if t is None or t.dtype is dtype else torch.empty_like(t, dtype=dtype)
        for t, dtype in zip(made, dtypes, strict=True)
    )
