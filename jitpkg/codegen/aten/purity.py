"""What a node does besides returning a value: which may be left out, and which may be shared."""

from __future__ import annotations

from operator import getitem
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.aten.views import VIEWS
from jitpkg.internals.ops import OpOverload, op_name, schema

Op = OpOverload


def is_random(node: fx.Node) -> bool:
    """Whether it draws from a random stream: then it stays, and stays in its place."""
    return bool(node.meta.get("random"))


def name_of(node: fx.Node) -> str:
    """The name of the ATen op that a node calls, without namespace and overload; or nothing."""
    target: Any = node.target
    if not isinstance(target, Op) or target.namespace != "aten":
        return ""
    return op_name(target).removeprefix("aten::")


def is_view(node: fx.Node) -> bool:
    """Whether its result shows the memory of its first argument."""
    return isinstance(node.target, Op) and op_name(node.target) in VIEWS


def may_raise(node: fx.Node) -> bool:
    """Whether it may raise for what its arguments hold: then it stays even if nothing uses it."""
    if takes_result(node) or is_view(node):
        return False
    name = name_of(node)
    if name in _NEVER_RAISE:
        return _dim_is_wrong(node)
    facts = node.meta["facts"]
    return name not in _RAISE_ON_INTEGERS or isinstance(facts, tuple) or not _is_float(facts.dtype)


def _dim_is_wrong(node: fx.Node) -> bool:
    """Whether a node names a dim that its tensor has not, which FakeTensor may not notice."""
    dim = _given(node).get("dim")
    first = node.all_input_nodes[0].meta.get("facts") if node.all_input_nodes else None
    if type(dim) is not int or first is None:
        return False
    rank = max(len(first.size), 1)
    return not -rank <= dim < rank


def is_pure(node: fx.Node) -> bool:
    """Whether a node, if it does not raise for its dtypes, does nothing but return a value."""
    return node.op == "call_function" and not is_random(node) and not may_raise(node)


def may_be_dropped(node: fx.Node) -> bool:
    """Whether a node may be left out if nothing uses it.

    Eager code may refuse dtypes. What stays for that, lowering drops, or leaves to ATen.
    """
    if not is_pure(node):
        return False
    takes_any = takes_result(node) or is_view(node) or name_of(node) in _TAKE_ANY_DTYPE
    return takes_any or not node.all_input_nodes or _is_of_one_float(node)


def takes_result(node: fx.Node) -> bool:
    """Whether it is one of the results of another node."""
    if node.target is not getitem:
        return False
    (several, _) = node.args
    return isinstance(several, fx.Node) and isinstance(several.meta["facts"], tuple)


def _is_of_one_float(node: fx.Node) -> bool:
    """Whether all operands are of one usual dtype, and no number is a bool."""
    facts = [each.meta["facts"] for each in node.all_input_nodes if "facts" in each.meta]
    dtypes = {getattr(each, "dtype", None) for each in facts}
    return len(dtypes) <= 1 and dtypes <= {torch.float32, torch.float64} and not _has_bool(node)


def _has_bool(node: fx.Node) -> bool:
    """Whether True or False is given for a number, or for a tensor."""
    target: Any = node.target
    parameters = schema(target).arguments
    given = _given(node)
    numbers = [each.name for each in parameters if str(each.type) in ("number", "Tensor")]
    return any(isinstance(given.get(name), bool) for name in numbers)


def _given(node: fx.Node) -> dict[str, Any]:
    """The arguments of an op that are given, by name."""
    target: Any = node.target
    names = (each.name for each in schema(target).arguments)
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _is_float(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


_RAISE_ON_INTEGERS = frozenset("floor_divide remainder fmod div pow".split())
"""Which divide by zero, or take negative powers."""

_TAKE_ANY_DTYPE = frozenset(
    """
    clone copy empty_like full_like new_empty new_full new_ones new_zeros ones_like zeros_like
    _to_copy
    """.split()
)

_NEVER_RAISE = frozenset(
    """
    abs acos add addcdiv addcmul addmm all amax amin any arange argmax argmin asin atan atan2
    avg_pool2d bitwise_and bitwise_not bitwise_or bitwise_xor bmm cat ceil clamp clamp_max
    clamp_min clone constant_pad_nd convolution copy cos cosh cumprod cumsum diagonal_scatter dot
    elu empty empty_like eq erf erfc exp exp2 expm1 floor frac full full_like ge gelu gt
    hardsigmoid hardswish hardtanh histc huber_loss isinf isnan le leaky_relu lerp linear log
    log10 log1p log2 logical_and logical_not logical_or logical_xor logit lt masked_fill max
    max_pool2d_with_indices maximum mean min minimum mish mm mse_loss mul mv native_batch_norm
    native_group_norm native_layer_norm ne neg new_empty new_full new_ones new_zeros ones
    ones_like prod reciprocal relu repeat round rsqrt rsub scalar_tensor select_scatter sigmoid
    sign silu sin sinh slice_scatter smooth_l1_loss softplus sort sqrt stack std sub sum tan tanh
    topk tril triu trunc var where zeros zeros_like _adaptive_avg_pool2d _log_softmax _softmax
    _to_copy
    """.split()
)
"""Ops that return for all tensors of the same facts if they return for some."""
