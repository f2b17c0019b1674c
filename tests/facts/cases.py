"""Calls of functions that rows answer for: many layouts, dtypes and settings; some that raise."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from jitpkg.facts.tensor import TensorFacts, facts_of
from tests.facts.examples import FLOATS, I64, IMAGES, MASK, C, M, case, facts, of
from tests.facts.losses import LOSSES

AT = of(2, dtype=torch.int64)
HEADS = replace(of(2, 3, 5, 8), stride=(120, 8, 24, 1), requires_grad=True, is_leaf=False)
MASKS = ((5, 5), (2, 1, 5, 5), (2, 3, 5, 7), (1, 1, 1, 5), (3, 5, 5))


def recurrent(name: str, gates: int, biases: bool, both: bool, first: bool) -> Iterator[Any]:
    """Input, state and weights of two layers of width 4, that fit: the ops do not check it."""
    weights: list[TensorFacts] = []
    for inner in (3, 3, 8, 8) if both else (3, 4):
        weights += [of(gates * 4, inner), of(gates * 4, 4)]
        weights += [of(gates * 4), of(gates * 4)] if biases else []
    weights[0] = replace(weights[0], requires_grad=True)
    state = of(4 if both else 2, 5 if first else 6, 4)
    yield of(5, 6, 3), (state, state) if name == "lstm" else state, weights


TOKENS = (
    of(2, 4, 8),
    facts_of(torch.zeros(4, 2, 8).transpose(0, 1)),
    of(2, 4, 8, dtype=torch.float64),
    of(4, 8),
)

CASES = [
    *(
        case(name, facts(layout, grad=True), *args)
        for layout in ("cube", "turned cube", "images", "channels last", "matrix")
        for name, args in (
            ("view", (-1,)),
            ("reshape", (-1,)),
            ("reshape", (4, -1)),
            ("flatten", ()),
            ("flatten", (1,)),
            ("transpose", (0, 1)),
            ("swapaxes", (0, -1)),
            ("swapdims", (0, -1)),
            ("movedim", (0, -1)),
            ("unsqueeze", (0,)),
            ("unsqueeze", (-1,)),
            ("squeeze", ()),
            ("select", (0, 1)),
            ("narrow", (1, 0, 2)),
            ("chunk", (2, 1)),
            ("split", (2, -1)),
            ("split_with_sizes", ([1, 2], 1)),
            ("unsafe_split", (2, -1)),
            ("unbind", (1,)),
            ("diagonal", ()),
            ("unflatten", (0, (-1, 1))),
            ("tril", ()),
            ("triu", (1,)),
            ("sum", (-1,)),
            ("sum", (-1, True)),
            ("mean", (1,)),
            ("mean", ((0, 1), True)),
            ("amax", (0,)),
            ("amin", (0, True)),
            ("max", (1,)),
            ("min", (-1, True)),
            ("argmax", (1,)),
            ("argmin", (1, True)),
            ("var", (1,)),
            ("std", (1,)),
            ("prod", (1,)),
            ("softmax", (-1,)),
            ("softmax", (0,)),
            ("log_softmax", (1,)),
            ("cumsum", (1,)),
            ("cumprod", (-1,)),
            ("topk", (2,)),
            ("clamp", (0, 1)),
            ("clamp_min", (0,)),
            ("clamp_max", (0.5,)),
            ("masked_fill", (facts("number", torch.bool), 0.0)),
            ("to", (torch.float64,)),
            ("to", (torch.float32,)),
            ("type_as", (of(1, dtype=torch.float64),)),
            ("new_zeros", ((2, 3),)),
            ("new_ones", (3,)),
            ("new_full", ((2,), 1.5)),
            ("new_empty", ((2,),)),
        )
    ),
    *LOSSES,
    case("permute", C, 2, 0, 1),
    case("expand", facts("column", grad=True), 3, 4),
    case("expand", facts("row"), 5, -1, 4),
    case("expand_as", facts("row"), M),
    case("view_as", M, facts("transposed")),
    case("reshape_as", M, facts("transposed")),
    case("T", facts(grad=True), "T", call=getattr),
    case("mT", facts("turned cube"), "mT", call=getattr),
    case("data", facts(grad=True), "data", call=getattr),
    case("data", facts("transposed"), "data", call=getattr),
    case("data", I64, "data", call=getattr),
    *(
        case("getitem", facts(layout, grad=True), key, call=operator.getitem)
        for layout in ("matrix", "turned cube", "channels last")
        for key in (0, -1, slice(1, None), slice(None, None, 2), None, Ellipsis, (0, 1))
    ),
    case("getitem", C, (slice(None), None, 1, Ellipsis), call=operator.getitem),
    case("getitem", C, I64, call=operator.getitem),
    case("getitem", C, (slice(None), I64), call=operator.getitem),
    case("getitem", facts("turned cube"), (I64, I64), call=operator.getitem),
    case("invert", MASK, call=operator.invert),
    case("invert", I64, call=operator.invert),
    case("neg", facts("transposed"), call=operator.neg),
    case("abs", facts("transposed"), call=operator.abs),
    case("rsub", M, 1, call=torch.rsub),
    *(
        case(name, a, b, call=call)
        for a, b in (
            *((M, of(4, 5)), (of(4), of(4)), (M, of(4)), (of(4), of(4, 5))),
            *((C, of(4, 5)), (C, of(2, 4, 5)), (facts("transposed"), facts("sliced"))),
            *((of(4, 3), facts("transposed")), (facts("turned cube"), of(4, 2))),
        )
        for name, call in (("matmul", torch.matmul), ("matmul", operator.matmul), ("mm", torch.mm))
    ),
    case("bmm", C, of(2, 4, 5)),
    case("mv", M, of(4)),
    case("dot", of(4), of(4)),
    case("addmm", of(5), M, of(4, 5)),
    case("einsum", "ij,kj->ik", M, of(5, 4), call=torch.einsum),
    case("einsum", "bij,bjk->bik", C, of(2, 4, 5), call=torch.einsum),
    *(
        case("linear", x, of(5, 4), bias, call=F.linear)
        for x in (M, C, facts("turned cube", grad=True), of(4), facts("sliced"))
        for bias in (None, of(5))
    ),
    *(
        case(call.__name__, [a, b], dim, call=call)
        for call in (torch.cat, torch.concat, torch.stack)
        for a, b in ((M, facts("transposed")), (M, M), (of(0), M), (C, C), (M, MASK), (IMAGES,) * 2)
        for dim in (0, 1, -1)
    ),
    *(
        case(name, facts(layout, grad=True), call=getattr(F, name), **kwargs)
        for layout in ("matrix", "turned cube", "images")
        for name, kwargs in (
            ("softmax", {"dim": -1}),
            ("softmin", {"dim": -1}),
            ("log_softmax", {"dim": 0}),
            ("dropout", {"p": 0.5}),
            ("dropout", {"p": 0.5, "training": False}),
            ("gelu", {"approximate": "tanh"}),
            ("leaky_relu", {"negative_slope": 0.2}),
            ("relu", {"inplace": False}),
            ("elu", {"alpha": 0.5}),
        )
    ),
    *(
        case("layer_norm", facts(layout, dtype), (4,), weight, weight, call=F.layer_norm)
        for layout in ("matrix", "cube", "turned cube", "row")
        for dtype in FLOATS
        for weight in (None, of(4), of(4, dtype=dtype))
    ),
    *(
        case("group_norm", facts("images", dtype), 3, weight, weight, call=F.group_norm)
        for dtype in FLOATS
        for weight in (None, of(3, dtype=dtype))
    ),
    case("rms_norm", M, (4,), of(4), call=F.rms_norm),
    case("group_norm", IMAGES, 3, of(3), of(3), call=F.group_norm),
    *(
        case("batch_norm", x, of(3), of(3), of(3), of(3), call=F.batch_norm, training=training)
        for x in (IMAGES, facts("channels last"), facts("cube"), of(2, 3))
        for training in (False, True)
    ),
    *(
        case("conv2d", x, of(5, 3, 3, 3), bias, call=F.conv2d, **kwargs)
        for x in (facts("images"), IMAGES, facts("channels last"), of(3, 6, 6))
        for bias in (None, of(5))
        for kwargs in ({}, {"padding": 1}, {"stride": 2, "padding": "valid"}, {"padding": "same"})
    ),
    case("conv1d", C, of(5, 3, 2), call=F.conv1d),
    case("one_hot", facts("matrix", torch.int64), 3, call=F.one_hot),
    case("one_hot", facts("turned cube", torch.int64), 3, call=F.one_hot),
    *(
        case("max_pool1d", facts(layout, grad=grad), 2, call=torch.max_pool1d)
        for layout in ("cube", "turned cube")
        for grad in (False, True)
    ),
    case("group_norm", facts("channels last"), 3, of(3), of(3), call=F.group_norm),
    case("max_pool2d", IMAGES, 2, call=F.max_pool2d),
    case("max_pool2d", facts("channels last"), 2, call=F.max_pool2d),
    case("avg_pool2d", IMAGES, 2, call=F.avg_pool2d),
    case("adaptive_avg_pool2d", IMAGES, 1, call=F.adaptive_avg_pool2d),
    case("adaptive_avg_pool2d", IMAGES, (2, 3), call=F.adaptive_avg_pool2d),
    case("adaptive_avg_pool2d", facts("channels last"), 1, call=F.adaptive_avg_pool2d),
    *(
        case(name, M, call=getattr(torch, name), **kwargs)
        for name in ("zeros_like", "ones_like", "rand_like", "empty_like")
        for kwargs in ({}, {"dtype": torch.float64}, {"requires_grad": True})
    ),
    case("zeros_like", facts("transposed"), call=torch.zeros_like),
    case("zeros_like", facts("sliced"), call=torch.zeros_like),
    case("full_like", M, 2.0, call=torch.full_like),
    *(
        case(name, 2, 3, call=getattr(torch, name), **kwargs)
        for name in ("zeros", "ones", "rand", "empty")
        for kwargs in ({}, {"dtype": torch.float64}, {"device": torch.device("cpu")})
    ),
    case("full", (2, 3), 1, call=torch.full),
    case("tensor", [[1, 2], [3, 4]], call=torch.tensor),
    case("as_tensor", (1.5, 2), call=torch.as_tensor),
    case("mod", M, 2, call=operator.mod),
    case("full", (2, 3), 1.5, call=torch.full),
    case("arange", 5, call=torch.arange),
    case("arange", 5, dtype=torch.int32, call=torch.arange),
    case("arange", 5, dtype=torch.int16, call=torch.arange),
    *(
        case("to", facts(layout), dtype, memory_format=torch.contiguous_format)
        for layout in ("turned cube", "channels last", "gray", "number")
        for dtype in (torch.int32, torch.float32)
    ),
    *(
        case("index", facts(layout, grad=True), indices, call=torch.ops.aten.index)
        for layout in ("cube", "turned cube")
        for indices in ([I64], [None, I64], [I64, I64], [of(dtype=torch.int64)])
    ),
    case("arange", 1, 5, 0.5, call=torch.arange),
    *(
        case("where", MASK, a, b, call=torch.where)
        for a, b in ((M, M), (M, 0.0), (1.0, M), (facts("row"), facts("column")))
    ),
    case("where", facts("transposed", torch.bool), facts("transposed"), M, call=torch.where),
    *(
        case("masked_fill", facts(layout, dtype), mask, 1.0)
        for layout in ("matrix", "transposed", "columns", "expanded", "sliced")
        for mask in (MASK, facts("transposed", torch.bool), of(4, dtype=torch.bool))
        for dtype in FLOATS
    ),
    *(
        case("masked_fill", facts(layout), of(2, 3, 1, 1, dtype=torch.bool), 1.0)
        for layout in ("images", "channels last")
    ),
    *(
        case("stack", [facts(a), facts(b)], dim, call=torch.stack)
        for a, b in itertools.product(
            ("matrix", "transposed", "columns", "expanded", "sliced"), repeat=2
        )
        for dim in (0, 1, -1)
    ),
    *(
        case("stack", [facts(a), facts(a)], dim, call=torch.stack)
        for a in ("cube", "turned cube", "images", "channels last")
        for dim in (0, 1, -1)
    ),
    *(
        case(name, facts(layout, dtype), *args, call=call)
        for layout in ("matrix", "transposed", "sliced", "expanded", "images", "channels last")
        for dtype in (*FLOATS, torch.int64)
        for name, call, args in (
            ("log_sigmoid", F.logsigmoid, ()),
            ("_threshold", F.threshold, (0.5, 2.0)),
        )
    ),
    case("masked_fill_", M, MASK, 1.0),
    case("lerp", M, facts("transposed"), 0.5),
    case("addcmul", M, facts("transposed"), facts("row")),
    case("addcdiv", M, facts("transposed"), facts("row")),
    case("addcmul_", M, M, facts("row")),
    case("addcdiv_", M, M, facts("row")),
    *(
        case(name, facts(layout, grad=True), *args)
        for layout in ("matrix", "transposed", "cube", "turned cube", "images", "channels last")
        for name, args in (
            *(("logsumexp", (0,)), ("logsumexp", (-1, True))),
            *(("norm", (2, -1)), ("norm", (1, 0, True)), ("norm", ("fro", 1)), ("norm", (3,))),
            *(("nanmean", (0,)), ("nanmean", (-1, True)), ("nansum", (0, True)), ("nansum", (1,))),
            *(("roll", (1,)), ("roll", (1, 0)), ("roll", ((1, 2), (0, 1))), ("roll", ((1, 2), 0))),
            *(("flip", (0,)), ("flip", ((0, -1),)), ("flip", ((0, 0),)), ("unfold", (0, 2, 1))),
            *(("tile", (2,)), ("tile", ((2, 1),)), ("argsort", (-1, True)), ("clip", (0, 1))),
            *(("repeat_interleave", (2,)), ("repeat_interleave", (2, 0)), ("normal_", ())),
            *(("uniform_", ()), ("clip", (None, 1.5))),
        )
    ),
    *(
        case("clip", facts(layout, dtype), facts(other), facts(layout, dtype))
        for layout in ("matrix", "transposed", "cube")
        for other in ("row", "number", "matrix")
        for dtype in FLOATS
    ),
    *(
        case(name, facts(layout), dim, of(2, 3, dtype=torch.int64), value)
        for name in ("scatter", "scatter_", "scatter_add", "scatter_add_")
        for layout in ("matrix", "transposed")
        for dim in (0, -1, 2)
        for value in (of(2, 3), of(3, 5), of(2, 2), of(2, 3, dtype=torch.float64), 2.0)
        if name.startswith("scatter_add") is False or value != 2.0
    ),
    *(
        case("baddbmm", added, C, of(2, 4, 5), **kwargs)
        for added in (of(2, 3, 5), of(5), of(2, 1, 1), of(3), of(5, dtype=torch.float64))
        for kwargs in ({}, {"beta": 0.5}, {"beta": 1, "alpha": 0.25})
    ),
    *(case("outer", of(3), b, call=torch.outer) for b in (of(4), of(4, dtype=torch.float64), M)),
    *(
        case("meshgrid", of(3), of(4), call=torch.meshgrid, indexing=indexing)
        for indexing in ("ij", "xy")
    ),
    *(
        case("pad", facts(layout, grad=True), ends, call=F.pad, mode=mode)
        for layout in ("cube", "turned cube", "images", "channels last", "matrix")
        for ends in ((1, 1), (1, 0), (1, 1, 0, 1), (9, 9))
        for mode in ("reflect", "replicate")
    ),
    *(
        case("interpolate", facts(layout, grad=True), call=F.interpolate, **kwargs)
        for layout in ("images", "channels last", "cube")
        for kwargs in (
            *({"scale_factor": 2}, {"size": (5, 7)}, {"size": 9, "mode": "bilinear"}),
            {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True},
            *({"size": 7, "mode": "linear"}, {"size": (7, 8), "mode": "bicubic"}),
        )
    ),
    *(
        case("conv_transpose2d", x, of(3, 4, 3, 3), bias, call=F.conv_transpose2d, **kwargs)
        for x in (IMAGES, facts("channels last"), of(3, 6, 6))
        for bias in (None, of(4))
        for kwargs in (
            *({}, {"padding": 1}, {"stride": 2, "output_padding": 1}, {"output_padding": 1}),
            {"dilation": 2, "groups": 3},
        )
    ),
    case("conv_transpose1d", C, of(3, 5, 2), call=F.conv_transpose1d, stride=2),
    case("conv3d", of(2, 3, 4, 5, 6), of(5, 3, 2, 2, 2), call=F.conv3d, padding=1),
    *(case("randn", 2, 3, call=torch.randn, **kwargs) for kwargs in ({}, {"dtype": torch.float64})),
    *(
        case(name, facts(layout), *args, call=getattr(torch, name))
        for name in ("std_mean", "var_mean")
        for layout in ("matrix", "transposed", "images")
        for args in ((), (0,), ((0, 1),), (-1, False))
    ),
    case("randn_like", facts("transposed"), call=torch.randn_like),
    case("randint", 5, (2, 3), call=torch.randint),
    case("randint", 1, 5, (2, 3), call=torch.randint, dtype=torch.int32),
    case("linspace", 0, 1, 5, call=torch.linspace),
    case("linspace", 0.0, 1, 5, call=torch.linspace, dtype=torch.float64),
    case("copy_", M, facts("transposed", torch.float64)),
    case("fill_", M, 2.0),
    case("clamp_", M, 0, 1),
    case("clamp_min_", M, 0),
    case("clamp_max_", M, 0),
    case("gather", M, 1, of(3, 2, dtype=torch.int64)),
    case("index_select", M, 0, I64),
    case("embedding", I64, of(5, 4), call=F.embedding),
    case("embedding", of(2, 3, dtype=torch.int64), of(5, 4), call=F.embedding),
    *(
        case(name, M, facts("transposed"), call=getattr(F, name), reduction=reduction)
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
        for reduction in ("none", "mean", "sum")
    ),
    *(
        case(name, facts(grad=True), I64, call=getattr(F, name), reduction=reduction)
        for name in ("cross_entropy", "nll_loss")
        for reduction in ("none", "mean", "sum")
    ),
    case("cross_entropy", M, I64, of(4), call=F.cross_entropy, label_smoothing=0.1),
    case("cross_entropy", facts("matrix", torch.bfloat16), I64, call=F.cross_entropy),
    *(
        case(
            "_native_multi_head_attention",
            *(x, x, x, 8, 2, of(24, 8), of(24), of(8, 8), of(8), None, *asked),
            call=torch._native_multi_head_attention,
        )
        for x in TOKENS
        for asked in ((), (False,), (True, False))
    ),
    *(
        case(
            "_transformer_encoder_layer_fwd",
            *(x, 8, 2, of(24, 8), of(24), of(8, 8), of(8), True, first, 1e-5),
            *(*(of(8),) * 4, of(16, 8), of(16), of(8, 16), of(8), mask),
            call=torch._transformer_encoder_layer_fwd,
        )
        for x in TOKENS
        for first in (False, True)
        for mask in (None, of(4, 4))
    ),
    case("concatenate", [M, M], call=torch.concatenate),
    case("add", M, M, call=torch.add, alpha=2),
    case("sub", M, facts("row", torch.int64), call=torch.sub, alpha=0.5),
    case("div", M, M, call=torch.div, rounding_mode="floor"),
    *(
        case("scaled_dot_product_attention", q, k, v, call=F.scaled_dot_product_attention, **kwargs)
        for q, k, v in (
            (of(2, 3, 5, 8),) * 3,
            (of(2, 3, 5, 8), of(2, 3, 7, 8), of(2, 3, 7, 8)),
            (of(2, 3, 5, 8), of(2, 3, 7, 8), of(2, 3, 7, 4)),
            (of(2, 3, 5, 8), of(2, 1, 5, 8), of(2, 1, 5, 8)),
            (of(3, 5, 8),) * 3,
            (HEADS,) * 3,
            (facts("images", dtype=torch.bfloat16),) * 3,
            (facts("channels last"),) * 3,
        )
        for kwargs in (
            *({}, {"is_causal": True}, {"scale": 0.5}, {"dropout_p": 0.5}),
            *({"attn_mask": of(*size, dtype=torch.bool)} for size in MASKS),
            *({"attn_mask": of(*size)} for size in MASKS),
            {"attn_mask": replace(of(5, 5), requires_grad=True)},
            {"attn_mask": replace(of(2, 3, 5, 5), requires_grad=True, is_leaf=False)},
        )
    ),
    *(
        case(name, x, hx, weights, biases, 2, 0.5, train, both, first, call=getattr(torch, name))
        for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))
        for biases in (False, True)
        for both in (False, True)
        for first in (False, True)
        for train in (False, True)
        for x, hx, weights in recurrent(name, gates, biases, both, first)
    ),
    *(
        case("getitem", facts(layout, grad=True), key, call=operator.getitem)
        for layout in (
            "matrix",
            "transposed",
            "columns",
            "expanded",
            "cube",
            "turned cube",
            "channels last",
        )
        for key in (
            *((AT, AT), (AT, slice(None), AT), (None, AT), (slice(None), AT)),
            *((of(2, 1, 1, dtype=torch.int64), of(1, 3, dtype=torch.int64)), (AT, ..., AT)),
            (of(2, 1, 1, 1, dtype=torch.int64), of(1, 1, 3, 1, dtype=torch.int64)),
            *((facts("transposed", torch.int64),), (of(2, dtype=torch.int32), 0), (MASK,)),
        )
    ),
    *(
        case("setitem", facts(layout), key, value, call=operator.setitem)
        for layout in ("matrix", "transposed", "cube")
        for key in (AT, (AT, AT), 0, slice(1, None), (slice(None), 1), MASK)
        for value in (0.0, facts("number"), facts("row"), facts("number", torch.float64))
    ),
    *(
        case(name, facts(layout), indices, value)
        for name in ("index_put", "index_put_")
        for layout in ("matrix", "transposed", "columns", "cube")
        for indices in ((AT,), (AT, AT), (None, AT), (MASK,))
        for value in (facts("number"), facts("row"), facts("number", torch.float64))
    ),
    *(
        case(name, x, dim, at, value)
        for name in ("index_fill", "index_fill_")
        for x in (*map(facts, ("matrix", "transposed", "cube", "number")), of(3, dtype=torch.int64))
        for dim in (0, 1, -1, 2)
        for at in (AT, of(2, dtype=torch.int32))
        for value in (1.5, 2, True, facts("number"))
    ),
    *(
        case("cat", [facts(a), facts(b)], dim, call=torch.cat)
        for a, b in itertools.product(
            ("images", "channels last", "cube", "turned cube", "expanded", "columns"), repeat=2
        )
        for dim in (0, 1, -1)
    ),
    case("cat", [of(2, 3, 1, 1), of(2, 3, 1, 1)], call=torch.cat),
    case("cat", [of(2, 1, 3, 3), of(2, 1, 3, 3)], 1, call=torch.cat),
    case("cat", [of(2, 1, 3, 1), of(2, 1, 3, 1)], 1, call=torch.cat),
    *(
        case("pad", facts(layout), ends, call=F.pad, value=2)
        for layout in ("matrix", "transposed", "turned cube", "images", "channels last")
        for ends in ((0, 1), (1, 0, 2, 1), (-1, 0), (0, -1, -1, 0), (1, -1), (0, 0), (-9, 0))
    ),
    *(
        case(name, facts(layout, dtype), dim, **kwargs)
        for name in ("cumsum", "cumprod")
        for layout in ("matrix", "transposed", "expanded", "number", "empty", "channels last")
        for dtype in (torch.float32, torch.int32, torch.bool)
        for dim in (0, -1)
        for kwargs in ({}, {"dtype": torch.int32})
    ),
    *(
        case("diff", facts(layout, torch.int64), prepend=of(3, 1, dtype=torch.int64), dim=-1)
        for layout in ("matrix", "expanded", "transposed")
    ),
    case("diff", M),
    *(
        case("repeat", facts(layout, grad=True), *counts)
        for layout in ("matrix", "transposed", "expanded")
        for counts in ((2, 1), (2, 2, 1), (0, 1), (2,))
    ),
    *(
        case("sort", facts(layout), *rest, **kwargs)
        for layout in ("matrix", "transposed", "row", "number")
        for rest in ((), (0,))
        for kwargs in ({}, {"descending": True})
    ),
    case("histc", facts("row"), bins=2, min=0, max=1),
    case("histc", I64, bins=2, min=0, max=1, call=torch.histc),
    *(
        case("floordiv", a, b, call=operator.floordiv)
        for a in (I64, facts("row"), facts("transposed"), facts("number", torch.int32))
        for b in (2, 2.0, I64, facts("transposed"))
    ),
    case("hardtanh_", facts("transposed"), call=F.hardtanh_),
    case("to", facts(grad=True), torch.device("cpu")),
    case("to", facts(grad=True), torch.device("cpu"), torch.float64),
    case("to", MASK, device=torch.device("cpu"), dtype=torch.bool),
    case("to", MASK, device="cpu", dtype=torch.int64),
    case("embedding", facts("transposed", torch.int64), of(5, 4), call=F.embedding),
    case("layer_norm", facts("turned cube", grad=True), (4,), of(4), of(4), call=F.layer_norm),
    case("div", I64, I64, call=torch.div, rounding_mode="trunc"),
]
