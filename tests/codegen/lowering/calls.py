"""Sample calls, by overload: a function of what makes their tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tests.codegen.lowering.layer_calls import LOSSES, POOLING, PRODUCTS
from tests.codegen.lowering.making import Call, Maker, both, each

OVER_DIMS = each(
    lambda t: (t(5),),
    lambda t: (t(3, 5), [0]),
    lambda t: (t(3, 5), [-1], True),
    lambda t: (t(2, 3, 4), [0, 2]),
    lambda t: (t(2, 3, 4), [1], False),
    lambda t: (t(0, 3), [0]),
    lambda t: (t(1, 7), [0]),
    lambda t: (t(), []),
)
OVER_DIM = each(
    lambda t: (t(5), 0),
    lambda t: (t(3, 5), 0),
    lambda t: (t(3, 5), -1, True),
    lambda t: (t(2, 3, 4), 1),
    lambda t: (t(1, 7), 0),
    lambda t: (t(), 0),
)
ALL = each(lambda t: (t(3, 5),), lambda t: (t(2, 3, 4),), lambda t: (t(),), lambda t: (t(1),))
SPREAD = both(
    each(lambda t: (t(3, 5),), lambda t: (t(3, 5), [0]), lambda t: (t(2, 3, 4), [0, 2])),
    each(lambda t: (t(3, 5), [1]), correction=0, keepdim=True),
)
NORMS = both(
    *(
        each(lambda t, p=p: (t(3, 5), p), lambda t, p=p: (t(2, 3, 4), p, [0, 2], True))
        for p in (2, 1, 0, 3, 0.5, float("inf"), -float("inf"))
    )
)

REDUCTIONS: dict[str, Maker] = {
    "sum": both(ALL, each(lambda t: (t(3, 5),), dtype=torch.float64)),
    "sum.dim_IntList": OVER_DIMS,
    "nansum": OVER_DIMS,
    "mean": ALL,
    "mean.dim": both(OVER_DIMS, each(lambda t: (t(3, 5), [0]), dtype=torch.float32)),
    "prod": ALL,
    "prod.dim_int": OVER_DIM,
    "count_nonzero": each(lambda t: (t(3, 5),), lambda t: (t(3, 5), 0)),
    "count_nonzero.dim_IntList": each(lambda t: (t(2, 3, 4), [0, 2])),
    "trace": each(lambda t: (t(3, 5),), lambda t: (t(4, 2),)),
    "amax": OVER_DIMS,
    "amin": OVER_DIMS,
    "max": ALL,
    "min": ALL,
    "max.dim": OVER_DIM,
    "min.dim": OVER_DIM,
    "aminmax": both(ALL, each(lambda t: (t(3, 5),), dim=1, keepdim=True)),
    "argmax": both(ALL, OVER_DIM, each(lambda t: (t(3, 5), None, True))),
    "argmin": both(ALL, OVER_DIM),
    "any": ALL,
    "all": ALL,
    "any.dim": OVER_DIM,
    "all.dim": OVER_DIM,
    "any.dims": OVER_DIMS,
    "all.dims": OVER_DIMS,
    "var": ALL,
    "std": ALL,
    "var_mean": ALL,
    "std_mean": ALL,
    "var.dim": each(lambda t: (t(3, 5), [0], False)),
    "var.correction": SPREAD,
    "std.correction": SPREAD,
    "var_mean.correction": SPREAD,
    "std_mean.correction": SPREAD,
    "linalg_vector_norm": NORMS,
    "norm.Scalar": each(lambda t: (t(3, 5),), lambda t: (t(3, 5), 1)),
    "norm.ScalarOpt_dim": each(lambda t: (t(3, 5), None, [0]), lambda t: (t(3, 5), 3, [1], True)),
    "logsumexp": OVER_DIMS,
}


def _layers(t: Any, n: int) -> tuple[Any, Any]:
    return t.smooth(n), t.smooth(n)


def _layer_norm_backward(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    x, weight, bias = t.smooth(4, 3, 8), t.smooth(8), t.smooth(8)
    _, mean, scale = torch.native_layer_norm(x, [8], weight, bias, 1e-5)
    exact = t.dtype is torch.float32  # ATen adds those up in bfloat16
    for mask in ([True, exact, exact], [False, exact, True]):
        yield (t.smooth(4, 3, 8), x, [8], mean, scale, weight, bias, mask), {}
    _, mean, scale = torch.native_layer_norm(x, [3, 8], None, None, 1e-5)
    yield (t.smooth(4, 3, 8), x, [3, 8], mean, scale, None, None, [True, False, False]), {}


def _group_norm_backward(t: Any) -> Iterable[Call]:
    if not t.dtype.is_floating_point:
        return
    x, weight = t.smooth(2, 6, 4).contiguous(), t.smooth(6).contiguous()
    grad = t.smooth(2, 6, 4).contiguous()
    _, mean, scale = torch.native_group_norm(x, weight, None, 2, 6, 4, 3, 1e-5)
    yield (grad, x, mean, scale, weight, 2, 6, 4, 3, [True, True, True]), {}
    yield (grad, x, mean, scale, None, 2, 6, 4, 3, [True, False, False]), {}


def _batch_norm_backward(t: Any) -> Iterable[Call]:
    if t.dtype is not torch.float32:
        return
    x, grad, weight = t.smooth(4, 3, 5), t.smooth(4, 3, 5), t.smooth(3)
    mean, var = t.smooth(3), t.smooth(3).abs() + 0.5
    _, center, scale = torch.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-5)
    every = [True, True, True]
    yield (grad, x, weight, mean, var, center, scale, True, 1e-5, every), {}
    yield (grad, x, weight, mean, var, None, None, False, 1e-5, every), {}


SOFTMAX = each(
    lambda t: (t.smooth(3, 5), 0, False),
    lambda t: (t.smooth(3, 5), -1, False),
    lambda t: (t.smooth(2, 3, 4), 1, False),
    lambda t: (t.smooth(), 0, False),
    lambda t: (t.smooth(1, 7), 0, False),
)
SOFTMAX_BACKWARD = each(
    lambda t: (t.smooth(3, 5), t.smooth(3, 5).softmax(0), 0, t.dtype),
    lambda t: (t.smooth(2, 3, 4), t.smooth(2, 3, 4).softmax(-1), -1, t.dtype),
)
RUNNING = (
    lambda t: (t.smooth(4, 3, 5), *_layers(t, 3), t.smooth(3), t.smooth(3).abs() + 0.5),
    lambda t: (t.smooth(4, 3), None, None, t.smooth(3), t.smooth(3).abs() + 0.5),
)

NORMALIZATION: dict[str, Maker] = {
    "_softmax": SOFTMAX,
    "_log_softmax": SOFTMAX,
    "_safe_softmax": each(
        lambda t: (t.smooth(3, 5), 1),
        lambda t: (torch.full((2, 3), -float("inf"), dtype=t.dtype), 1),
    ),
    "_softmax_backward_data": SOFTMAX_BACKWARD,
    "_log_softmax_backward_data": SOFTMAX_BACKWARD,
    "native_layer_norm": each(
        lambda t: (t.smooth(4, 8), [8], *_layers(t, 8), 1e-5),
        lambda t: (t.smooth(2, 3, 8), [3, 8], None, None, 1e-5),
    ),
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm": each(
        lambda t: (
            t.smooth(2, 6, 4).contiguous(),
            t.smooth(6).contiguous(),
            None,
            2,
            6,
            4,
            3,
            1e-5,
        ),
        lambda t: (t.smooth(2, 6, 2, 2).contiguous(), None, None, 2, 6, 4, 2, 1e-5),
    ),
    "native_group_norm_backward": _group_norm_backward,
    "native_batch_norm": each(
        *(lambda t, make=make: (*make(t), False, 0.1, 1e-5) for make in RUNNING),
        lambda t: (t.smooth(4, 3, 5), *_layers(t, 3), None, None, True, 0.1, 1e-5),
    ),
    "_native_batch_norm_legit_functional": each(
        *(lambda t, make=make: (*make(t), True, 0.1, 1e-5) for make in RUNNING),
        *(lambda t, make=make: (*make(t), False, 0.1, 1e-5) for make in RUNNING),
    ),
    "_native_batch_norm_legit_no_training": each(
        *(lambda t, make=make: (*make(t), 0.1, 1e-5) for make in RUNNING)
    ),
    "_native_batch_norm_legit.no_stats": each(
        lambda t: (t.smooth(4, 3, 5), *_layers(t, 3), True, 0.1, 1e-5)
    ),
    "native_batch_norm_backward": _batch_norm_backward,
    "_fused_rms_norm": each(
        lambda t: (t.smooth(4, 8), [8], t.smooth(8), 1e-5),
        lambda t: (t.smooth(4, 3, 8), [3, 8], None, None),
    ),
}

VIEWS: dict[str, Maker] = {
    "reshape": each(
        lambda t: (t(4, 6), [2, 2, 3, 2]),
        lambda t: (t(2, 3, 4), [-1, 4]),
        lambda t: (t(2, 3, 4), [24]),
        lambda t: (t(6, 1, 4), [4, 6]),
        lambda t: (t(), [1, 1]),
        lambda t: (t(0, 3), [3, 0, 2]),
    ),
    "view": each(lambda t: (t(4, 6).contiguous(), [3, 8])),
    "_unsafe_view": each(lambda t: (t(4, 6).contiguous(), [3, 8])),
    "view_copy": each(lambda t: (t(4, 6).contiguous(), [3, 8])),
    "_reshape_copy": each(lambda t: (t(4, 6), [3, 8])),
    "_reshape_alias": each(lambda t: (t(4, 6).contiguous(), [3, 8], [8, 1])),
    "flatten.using_ints": each(lambda t: (t(2, 3, 4), 1), lambda t: (t(),)),
    "unsqueeze": each(lambda t: (t(2, 3), 0), lambda t: (t(2, 3), -1), lambda t: (t(), 0)),
    "squeeze": each(lambda t: (t(1, 3, 1),)),
    "squeeze.dim": each(lambda t: (t(1, 3, 1), -1), lambda t: (t(1, 3, 1), 1)),
    "squeeze.dims": each(lambda t: (t(1, 3, 1), [0, 1, 2])),
    "expand": each(lambda t: (t(3, 1), [2, -1, 4]), lambda t: (t(), [2])),
    "permute": each(lambda t: (t(2, 3, 4), [2, 0, 1]), lambda t: (t(), [])),
    "transpose.int": each(lambda t: (t(2, 3, 4), 0, -1), lambda t: (t(3, 3), 0, 1)),
    "t": each(lambda t: (t(2, 3),), lambda t: (t(3),)),
    "swapaxes": each(lambda t: (t(2, 3, 4), 0, 2)),
    "swapdims": each(lambda t: (t(2, 3, 4), 0, 2)),
    "select.int": each(lambda t: (t(2, 3, 4), 1, -1), lambda t: (t(3), 0, 2)),
    "slice.Tensor": each(
        lambda t: (t(7, 3), 0, 1, -1, 2),
        lambda t: (t(7, 3), 1),
        lambda t: (t(7, 3), 0, 5, 2),
        lambda t: (t(7), 0, -3, 2**63 - 1),
    ),
    "narrow": each(lambda t: (t(7, 3), 0, 2, 3), lambda t: (t(7, 3), 1, -2, 1)),
    "split.Tensor": each(lambda t: (t(7, 3), 3), lambda t: (t(2, 6), 2, 1), lambda t: (t(0), 2)),
    "split_with_sizes": each(lambda t: (t(7, 3), [2, 5]), lambda t: (t(2, 6), [1, 0, 5], -1)),
    "split.sizes": each(lambda t: (t(7, 3), [2, 5])),
    "unbind.int": each(lambda t: (t(3, 4),), lambda t: (t(3, 2), -1)),
    "diagonal": each(
        lambda t: (t(3, 5),), lambda t: (t(3, 5), 1), lambda t: (t(2, 3, 4), -1, 1, 2)
    ),
    "unfold": each(lambda t: (t(8, 3), 0, 3, 2), lambda t: (t(2, 5), 1, 2, 1)),
    "flip": each(lambda t: (t(3, 5), [0]), lambda t: (t(2, 3, 4), [0, -1])),
    "roll": each(
        lambda t: (t(3, 5), [1]), lambda t: (t(3, 5), [2, -7], [0, 1]), lambda t: (t(4), 3, 0)
    ),
    "repeat": each(
        lambda t: (t(3, 2), [2, 3]), lambda t: (t(3), [2, 2]), lambda t: (t(3, 1), [0, 2])
    ),
    **{
        f"{name}_copy{overload}": maker
        for name, overload, maker in (
            ("unsqueeze", "", each(lambda t: (t(2, 3), 1))),
            ("squeeze", "", each(lambda t: (t(1, 3),))),
            ("expand", "", each(lambda t: (t(3, 1), [3, 4]))),
            ("permute", "", each(lambda t: (t(2, 3, 4), [2, 0, 1]))),
            ("transpose", ".int", each(lambda t: (t(2, 3), 0, 1))),
            ("t", "", each(lambda t: (t(2, 3),))),
            ("select", ".int", each(lambda t: (t(2, 3), 1, 1))),
            ("slice", ".Tensor", each(lambda t: (t(5, 3), 0, 1, 4))),
            ("narrow", "", each(lambda t: (t(5, 3), 0, 1, 2))),
            ("split", ".Tensor", each(lambda t: (t(7, 3), 3))),
            ("split_with_sizes", "", each(lambda t: (t(7, 3), [2, 5]))),
            ("unbind", ".int", each(lambda t: (t(3, 4),))),
            ("diagonal", "", each(lambda t: (t(3, 4),))),
            ("unfold", "", each(lambda t: (t(8, 3), 0, 3, 2))),
            ("detach", "", each(lambda t: (t(3, 4),))),
            ("alias", "", each(lambda t: (t(3, 4),))),
        )
    },
}

JOINING: dict[str, Maker] = {
    "cat": each(
        lambda t: ([t(3, 2), t(3, 4)], 1),
        lambda t: ([t(3, 2), t(1, 2), t(0, 2), t(2, 2)],),
        lambda t: ([t(0), t(3, 2)],),
        lambda t: ([t(3), t(4, dtype=torch.float64)],),
        lambda t: ([t(0, 2), t(0, 2)],),
    ),
    "concat": each(lambda t: ([t(3, 2), t(3, 4)], 1)),
    "concatenate": each(lambda t: ([t(3, 2), t(3, 4)], 1)),
    "stack": each(lambda t: ([t(3, 2), t(3, 2)],), lambda t: ([t(3), t(3), t(3)], -1)),
    "constant_pad_nd": each(
        lambda t: (t(3, 4), [1, 2]),
        lambda t: (t(3, 4), [1, -2, 0, 3], 1),
        lambda t: (t(2, 3), [-1, 0], 0),
    ),
    "reflection_pad1d": each(lambda t: (t.smooth(2, 5), [2, 4])),
    "reflection_pad2d": each(lambda t: (t.smooth(2, 4, 5), [2, 1, 3, 0])),
    "reflection_pad3d": each(lambda t: (t.smooth(1, 3, 4, 5), [2, 1, 3, 0, 1, 2])),
    "replication_pad1d": each(lambda t: (t.smooth(2, 5), [2, 6])),
    "replication_pad2d": each(lambda t: (t.smooth(2, 4, 5), [2, 1, 3, 0])),
    "replication_pad3d": each(lambda t: (t.smooth(1, 3, 4, 5), [2, 1, 3, 0, 1, 2])),
    "select_scatter": each(lambda t: (t(3, 4), t(3), 1, -2)),
    "slice_scatter": each(lambda t: (t(7, 3), t(3, 3), 0, 1, 6, 2), lambda t: (t(4, 2), t(4, 2))),
    "diagonal_scatter": each(lambda t: (t(3, 5), t(3), 1), lambda t: (t(3, 5), t(2), -1)),
    "select_backward": each(lambda t: (t(3), [3, 4], 1, 2)),
    "slice_backward": each(lambda t: (t(3, 3), [7, 3], 0, 1, 6, 2)),
    "diagonal_backward": each(lambda t: (t(3), [3, 5], 1, 0, 1)),
    "triu": each(lambda t: (t(4, 5),), lambda t: (t(2, 4, 5), -1)),
    "tril": each(lambda t: (t(4, 5),), lambda t: (t(2, 4, 5), 2)),
}


def _options(*makers: Callable[[Any], tuple[Any, ...]]) -> Maker:
    def calls(t: Any) -> Iterable[Call]:
        for make in makers:
            yield make(t), {}
            yield make(t), {"dtype": torch.float64, "device": torch.device("cpu")}

    return calls


CREATION: dict[str, Maker] = {
    "full": _options(lambda t: ([2, 3], 2.5), lambda t: ([], True), lambda t: ([0], 3)),
    "scalar_tensor": _options(lambda t: (3,), lambda t: (2.5,)),
    "zeros": _options(lambda t: ([2, 3],)),
    "ones": _options(lambda t: ([2, 3],)),
    "zeros_like": _options(lambda t: (t(2, 3),)),
    "ones_like": _options(lambda t: (t(2, 3),)),
    "new_zeros": _options(lambda t: (t(2), [3, 4])),
    "new_ones": _options(lambda t: (t(2), [3, 4])),
    "new_full": _options(lambda t: (t(2), [3, 4], 1)),
    "full_like": _options(lambda t: (t(2, 3), 1)),
    "zero": each(lambda t: (t(2, 3),)),
    "fill.Scalar": each(lambda t: (t(2, 3), 1)),
    "fill.Tensor": each(lambda t: (t(2, 3), t())),
    "arange": _options(lambda t: (5,), lambda t: (3.5,), lambda t: (0,)),
    "arange.start": _options(lambda t: (2, 9), lambda t: (0.5, 3)),
    "arange.start_step": _options(lambda t: (2, 9, 3), lambda t: (9, 2, -2), lambda t: (0, 1, 0.3)),
    "linspace": _options(
        lambda t: (2, 1, 1), lambda t: (2, 1, 0), lambda t: (0, 1, 7), lambda t: (-2.5, 3, 10)
    ),
    "eye": _options(lambda t: (3,)),
    "eye.m": _options(lambda t: (3, 5)),
    "one_hot": each(lambda t: (t.index(5, 3, 2), 5)),
    "diag_embed": each(lambda t: (t(2, 3),), lambda t: (t(2, 3), -1, 0, 2)),
}

INDEXING: dict[str, Maker] = {
    "embedding": each(
        lambda t: (t(7, 4), t.index(7, 2, 3)),
        lambda t: (t(7, 4), t.index(7, 3).int(), 2),
        lambda t: (t(7, 4), t.index(7)),
    ),
    "gather": each(
        lambda t: (t(4, 5), 1, t.index(5, 4, 3)), lambda t: (t(4, 5), 0, t.index(4, 2, 5))
    ),
    "index_select": each(lambda t: (t(4, 5), 1, t.index(5, 3)), lambda t: (t(4), 0, t.index(4, 6))),
    "index.Tensor": each(
        lambda t: (t(4, 5), [t.index(4, 3)]),
        lambda t: (t(4, 5), [None, t.index(5, 2, 3) - 5]),
        lambda t: (t(4, 5, 6), [t.index(4, 3, 1), t.index(5, 2)]),
        lambda t: (t(4, 5, 6), [t.index(4, 3), None, t.index(6, 3)]),
        lambda t: (t(4, 5, 6), [None, t.index(5, 3), t.index(6)]),
    ),
    "_unsafe_index.Tensor": each(lambda t: (t(4, 5), [t.index(4, 3), t.index(5, 3)])),
    "_unsafe_masked_index": each(
        lambda t: (t(4, 5), t(3, dtype=torch.bool), [t.index(4, 3) * 3 - 6, t.index(5, 3)], 1),
    ),
    "unfold_backward": each(
        lambda t: (t(3, 2, 3), [8, 2], 0, 3, 2),
        lambda t: (t(1, 9, 10), [3, 50], 1, 10, 5),  # as `torch.istft` calls it
    ),
    "take": each(lambda t: (t(4, 5), t.index(20, 2, 3))),
    "index_put": each(
        lambda t: (t(6, 5), [t.distinct(6, 3)], t(3, 5)),
        lambda t: (t(6, 5), [None, t.distinct(5, 2)], t(1)),
        lambda t: (t(6, 5), [t(6, 5, dtype=torch.bool)], t()),
        lambda t: (t(6, 5), [None, t(5, dtype=torch.bool)], t(1)),
        lambda t: (t(6, 5), [t.index(6, 4)], t(5), True),
        lambda t: (t(6, 5), [t.index(6, 4), t.index(5, 4)], t(), True),
    ),
    "index_fill.int_Scalar": each(lambda t: (t(6, 5), 1, t.index(5, 3), 1)),
    "index_fill.int_Tensor": each(lambda t: (t(6, 5), 0, t.index(6, 3) - 6, t())),
    "_unsafe_index_put": each(lambda t: (t(6, 5), [t.index(6, 4)], t(4, 5), True)),
    "scatter.src": each(lambda t: (t(6, 3), 0, t.distinct(6, 2, 3), t(4, 3))),
    "scatter.value": each(lambda t: (t(6, 3), 0, t.index(6, 2, 3), 1)),
    "scatter_add": each(
        lambda t: (t(6, 3), 0, t.index(6, 5, 3), t(5, 3)),
        lambda t: (t(3, 6), 1, t.index(6, 3, 2), t(3, 4)),
    ),
    "scatter_reduce.two": each(
        *(
            lambda t, how=how: (t(6, 3), 0, t.index(6, 5, 3), t(5, 3), how)
            for how in ("sum", "prod", "amax", "amin", "mean")
        )
    ),
    "index_add": each(lambda t: (t(6, 3), 0, t.index(6, 4), t(4, 3))),
    "embedding_dense_backward": each(
        lambda t: (t.smooth(2, 3, 4), t.index(7, 2, 3), 7, -1, False),
        lambda t: (t.smooth(2, 3, 4), t.index(7, 2, 3), 7, 2, False),
    ),
}


def _slopes(*numbers: Any) -> Maker:
    return each(lambda t: (t.smooth(3, 5), t.smooth(3, 5), *numbers))


ACTIVATIONS: dict[str, Maker] = {
    "clone": each(lambda t: (t(3, 5),)),
    "copy": each(lambda t: (t(3, 5), t(1, 5)), lambda t: (t(3), t(3, dtype=torch.float64).abs())),
    "threshold": each(lambda t: (t(3, 5), 1, 2)),
    "threshold_backward": _slopes(0),
    "leaky_relu_backward": _slopes(0.1, False),
    "hardtanh_backward": _slopes(-1, 1),
    "hardshrink_backward": _slopes(0.5),
    "softshrink_backward": _slopes(0.5),
    "softplus_backward": both(_slopes(1, 20), _slopes(2, 1)),
    "elu_backward": each(
        lambda t: (t.smooth(3, 5), 1.5, 2.0, 0.5, False, t.smooth(3, 5)),
        lambda t: (t.smooth(3, 5), 1.5, 2.0, 0.5, True, t.smooth(3, 5)),
    ),
    "elu": each(lambda t: (t.smooth(3, 5), 1.5, 2.0, 0.5)),
    "celu": each(lambda t: (t.smooth(3, 5), 1.5)),
    "softplus": each(lambda t: (t.smooth(3, 5), 2, 1)),
    "gelu": each(lambda t: (t.smooth(3, 5),), approximate="tanh"),
    "gelu_backward": each(lambda t: (t.smooth(3, 5), t.smooth(3, 5)), approximate="tanh"),
    "log_sigmoid_backward": each(
        lambda t: (t.smooth(3, 5), t.smooth(3, 5), t.smooth(3, 5).abs().neg().exp())
    ),
    "glu": each(lambda t: (t.smooth(3, 6),), lambda t: (t.smooth(4, 5), 0)),
    "glu_backward": each(lambda t: (t.smooth(3, 3), t.smooth(3, 6), -1)),
    "_prelu_kernel_backward": each(lambda t: (t.smooth(3, 5), t.smooth(3, 5), t.smooth(3, 5))),
    "native_dropout_backward": each(lambda t: (t(3, 5), t(3, 5, dtype=torch.bool), 2.0)),
    "addr": both(
        each(lambda t: (t(3, 5), t(3), t(5)), lambda t: (t(5), t(3), t(5))),
        each(lambda t: (t(3, 5), t(3), t(5)), beta=2, alpha=3),
        each(lambda t: (t(3, 5), t(3), t(5)), beta=0),
    ),
    "linalg_cross": each(lambda t: (t(4, 3), t(4, 3)), lambda t: (t(2, 3), t(1, 3))),
    "round.decimals": each(lambda t: (t.smooth(3, 5),), decimals=2),
    "logit": each(lambda t: (t.smooth(3, 5), 0.1)),
    "nan_to_num": each(lambda t: (t.smooth(3, 5).log(), 1.0, 2.0, -3.0)),
}

SCANS: dict[str, Maker] = {
    name: each(
        lambda t: (t.smooth(3, 5), 0),
        lambda t: (t(2, 3, 4), -1),
        lambda t: (t(1, 7), 0),
        lambda t: (t(0, 3), 0),
        lambda t: (t(), 0),
    )
    for name in ("cumsum", "cumprod", "cummax", "cummin")
}
SCANS["cummax"] = both(
    SCANS["cummax"], each(lambda t: (torch.tensor([1, 3, 3, float("nan"), 2, 4.0]).to(t.dtype), 0))
)

PAD_BACKWARDS: dict[str, Maker] = {
    f"{name}_pad{dims}d_backward": each(
        lambda t, dims=dims: (
            t.smooth(2, *(n + 3 for n in (4, 3, 5)[:dims])),
            t.smooth(2, *(4, 3, 5)[:dims]),
            [1, 2] * dims,
        )
    )
    for name in ("reflection", "replication")
    for dims in (1, 2, 3)
}

EMPTY = frozenset(
    {"empty_like", "empty.memory_format", "empty_strided", "new_empty", "new_empty_strided"}
)
"""Nobody may depend on what they hold."""

CALLS = (
    ACTIVATIONS
    | SCANS
    | POOLING
    | LOSSES
    | PRODUCTS
    | PAD_BACKWARDS
    | REDUCTIONS
    | NORMALIZATION
    | VIEWS
    | JOINING
    | CREATION
    | INDEXING
)

ONE = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc sqrt special_erf rsqrt reciprocal sigmoid sinc special_entr deg2rad rad2deg "
    "angle neg abs square frac sign sgn floor ceil trunc round logical_not isnan isinf isposinf "
    "isneginf isfinite signbit bitwise_not nan_to_num relu relu6 gelu silu mish elu leaky_relu "
    "hardsigmoid hardswish hardtanh softplus hardshrink softshrink log_sigmoid_forward logit"
).split()
TWO = (
    "add sub mul div floor_divide remainder fmod pow.Tensor_Tensor maximum minimum fmax fmin eq ne "
    "lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "bitwise_left_shift bitwise_right_shift atan2 hypot copysign logaddexp logaddexp2 xlogy "
    "special_xlog1py heaviside rsub _prelu_kernel max.other min.other"
).split()
WITH_NUMBER = (
    "add.Scalar sub.Scalar rsub.Scalar mul.Scalar div.Scalar floor_divide.Scalar remainder.Scalar "
    "fmod.Scalar pow.Tensor_Scalar eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar "
    "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar clamp.default clamp_min.default "
    "clamp_max.default "
    "bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar xlogy.Scalar_Other"
).split()
DERIVATIVES = (
    "gelu_backward silu_backward mish_backward hardsigmoid_backward hardswish_backward "
    "tanh_backward sigmoid_backward logit_backward"
).split()

MORE = ("addcmul addcdiv lerp where masked_fill _to_copy round clamp div").split()

ELEMENTWISE = frozenset(n for n in (*ONE, *TWO, *WITH_NUMBER, *DERIVATIVES, *MORE))
