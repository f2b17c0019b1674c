"""Rows say what the real ops do: sizes, strides, dtypes, gradients, views, writes.

Each function is called with tensors of many layouts and dtypes, on real tensors and by rows. Where
rows answer, the answers agree; where the real call raises, rows do not answer.
"""

from __future__ import annotations

import itertools
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.facts import meta
from jitpkg.facts.layout import Operand, broadcast, strides
from jitpkg.facts.outcome import Outcome, StandIns, WouldRaise
from jitpkg.facts.rows import ROWS
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.rows.functions import FUNCTION_ROWS
from jitpkg.facts.tensor import TensorFacts, facts_of
from tests.facts import varying

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")

LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "matrix": lambda: torch.zeros(3, 4),
    "transposed": lambda: torch.zeros(4, 3).t(),
    "sliced": lambda: torch.zeros(6, 4)[::2],
    "columns": lambda: torch.zeros(3, 8)[:, ::2],
    "expanded": lambda: torch.zeros(3, 1).expand(3, 4),
    "row": lambda: torch.zeros(4),
    "column": lambda: torch.zeros(3, 1),
    "number": lambda: torch.zeros(()),
    "one": lambda: torch.zeros(1, 1),
    "empty": lambda: torch.zeros(0, 4),
    "cube": lambda: torch.zeros(2, 3, 4),
    "turned cube": lambda: torch.zeros(4, 2, 3).permute(1, 2, 0),
    "images": lambda: torch.zeros(2, 3, 6, 6),
    "channels last": lambda: torch.zeros(2, 3, 6, 6).to(memory_format=torch.channels_last),
}

FLOATS = (torch.float32, torch.float64, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.bool)


EXAMPLES = [
    *((layout, torch.float32, grad) for layout in LAYOUTS for grad in (False, True)),
    *((layout, dtype, False) for layout in ("matrix", "number") for dtype in DTYPES),
]
"""Layouts, dtypes, and whether a gradient is required."""


def facts(layout: str = "matrix", dtype: torch.dtype = torch.float32, grad: bool = False) -> Any:
    """Facts of an example, as those of an intermediate result where it requires grad."""
    real = LAYOUTS[layout]()
    found = facts_of(real)
    return replace(found, dtype=dtype, requires_grad=grad, is_leaf=not grad)


def of(*size: int, dtype: torch.dtype = torch.float32) -> TensorFacts:
    return replace(facts_of(torch.zeros(size)), dtype=dtype)


def really(call: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
    """What the real call does to real tensors."""
    stand_ins = StandIns(args, kwargs)
    for tensor in stand_ins.tensors:
        tensor.data.fill_(1)  # it counts versions apart
    return stand_ins.outcome(stand_ins.call(call), facts_of, written=frozenset(), random=False)


def by_rows(name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Outcome | None:
    try:
        return meta.of_call(name, call, args, kwargs, {})
    except (Unsure, WouldRaise):
        return None


def agree(name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Whether rows answer; that they are right is asserted."""
    answer = by_rows(name, call, args, kwargs)
    try:
        real = really(call, args, kwargs)
    except Exception:
        assert answer is None, f"{name}{args} raises"
        return False
    if answer is None:
        return False
    shown = f"{name}({', '.join(map(str, args))}, {kwargs})"
    assert str(answer.result) == str(real.result), shown
    assert answer.result == real.result, shown
    assert answer.shares == real.shares, shown
    assert answer.arguments == real.arguments, shown
    if name != "batch_norm":  # its running statistics, see below
        assert answer.mutated == real.mutated, shown
    varying.agree(name, call, args, kwargs, really)
    return True


def method(name: str) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: getattr(tensor, name)(*args, **kwargs)


UNARY = """
    abs abs_ absolute acos all amax amin any argmax argmin asin atan ceil clone contiguous cos
    cos_ cosh detach double erf erfc exp exp2 exp_ expm1 float floor frac half int isinf isnan
    log log10 log1p log2 log_ logical_not logit long max mean min neg neg_ negative prod ravel
    reciprocal reciprocal_ relu relu_ round rsqrt rsqrt_ sigmoid sigmoid_ sign sin sin_ sinh
    sqrt sqrt_ square std sum t tan tanh tanh_ trunc var zero_
""".split()

ACTIVATIONS = """
    elu gelu hardsigmoid hardswish hardtanh leaky_relu mish relu relu6 sigmoid silu softplus
    tanh tanhshrink
""".split()

BINARY = """
    add add_ atan2 div div_ divide eq fmod ge greater greater_equal gt le less less_equal
    logical_and logical_or logical_xor lt maximum minimum mul mul_ multiply ne not_equal pow
    pow_ remainder sub sub_ subtract true_divide
""".split()

OPERATORS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in """
        add mul sub truediv pow eq ne lt le gt ge iadd imul isub itruediv and_ or_ xor
    """.split()
}

NUMBERS = (2, 0.5, True)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    answered = [agree(name, method(name), facts(*example)) for example in EXAMPLES]
    assert any(answered)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    function = getattr(F, name)
    answered = [agree(name, function, facts(*example)) for example in EXAMPLES]
    assert any(answered)


def pairs(name: str) -> Iterator[tuple[str, str]]:
    """All pairs of layouts for some; the others go the same way."""
    some = ("matrix", "transposed", "row", "number")
    layouts = LAYOUTS if name in ("add", "eq", "pow") else some
    yield from itertools.product(layouts, repeat=2)


@pytest.mark.parametrize("name", [*BINARY, *OPERATORS])
def test_binary(name: str) -> None:
    call = OPERATORS.get(name) or method(name)
    answered = [agree(name, call, facts(a), facts(b, grad=True)) for a, b in pairs(name)]
    answered += [
        agree(name, call, facts(layout, a), facts("row", b))
        for layout in ("matrix", "number")
        for a, b in itertools.product(DTYPES, repeat=2)
    ]
    answered += [
        agree(name, call, facts(layout, dtype), number)
        for layout, dtype, _ in EXAMPLES
        for number in NUMBERS
    ]
    if name in OPERATORS:
        answered += [agree(name, call, number, facts()) for number in NUMBERS]
    assert any(answered)


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def case(name: str, *args: Any, call: Callable[..., Any] | None = None, **kwargs: Any) -> Case:
    """A call of a method, unless another function of the name is given."""
    return Case(name, call or method(name), args, kwargs)


M, C = facts(), facts("cube")
I64 = of(3, dtype=torch.int64)
IMAGES = facts("images", grad=True)
MASK = facts(dtype=torch.bool)

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
            ("unbind", (1,)),
            ("diagonal", ()),
            ("unflatten", (0, (-1, 1))),
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
    case("permute", C, 2, 0, 1),
    case("expand", facts("column", grad=True), 3, 4),
    case("expand", facts("row"), 5, -1, 4),
    case("expand_as", facts("row"), M),
    case("view_as", M, facts("transposed")),
    case("reshape_as", M, facts("transposed")),
    case("T", facts(grad=True), "T", call=getattr),
    case("mT", facts("turned cube"), "mT", call=getattr),
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
        for weight in (None, of(4))
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
    case("full", (2, 3), 1.5, call=torch.full),
    case("arange", 5, call=torch.arange),
    case("arange", 1, 5, 0.5, call=torch.arange),
    *(
        case("where", MASK, a, b, call=torch.where)
        for a, b in ((M, M), (M, 0.0), (1.0, M), (facts("row"), facts("column")))
    ),
    case("where", facts("transposed", torch.bool), facts("transposed"), M, call=torch.where),
    case("masked_fill", facts("transposed"), MASK, 1.0),
    case("masked_fill_", M, MASK, 1.0),
    case("lerp", M, facts("transposed"), 0.5),
    case("addcmul", M, facts("transposed"), facts("row")),
    case("addcdiv", M, facts("transposed"), facts("row")),
    case("addcmul_", M, M, facts("row")),
    case("addcdiv_", M, M, facts("row")),
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
        for ends in ((0, 1), (1, 0, 2, 1), (-1, 0), (0, 0), (-9, 0))
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


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_case(each: Case) -> None:
    agree(each.name, each.call, *each.args, **each.kwargs)


def test_every_function_is_answered_for() -> None:
    """That rows agree is of no use for functions for which they never answer."""
    elsewhere = {*UNARY, *ACTIVATIONS, *BINARY, *OPERATORS}
    answered = {c.name for c in CASES if by_rows(c.name, c.call, c.args, c.kwargs)}
    assert sorted(meta.FUNCTIONS - elsewhere - answered) == []


def test_every_function_is_tested() -> None:
    tested = {*FUNCTION_ROWS}
    assert tested <= {c.name for c in CASES if by_rows(c.name, c.call, c.args, c.kwargs)}
    tested = {*UNARY, *ACTIVATIONS, *BINARY, *OPERATORS, *(c.name for c in CASES)}
    assert sorted(meta.FUNCTIONS - tested) == []


def test_inference_mode() -> None:
    """Ops are not taken apart before they are seen, and results are inference tensors."""
    with torch.inference_mode():
        assert agree("linear", F.linear, of(2, 4), of(5, 4), of(5))
        assert agree("relu", F.relu, of(2, 4))
        assert agree("view", method("view"), of(2, 4), 8)


def test_no_grad() -> None:
    with torch.no_grad():
        assert agree("add", torch.add, facts(grad=True), 1)
        assert agree("view", method("view"), facts(grad=True), 12)


def test_another_default_dtype() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert agree("div", torch.div, I64, 2)
        assert agree("zeros", torch.zeros, 3)
    finally:
        torch.set_default_dtype(before)


def test_autocast_is_left_to_fake_tensors() -> None:
    with torch.autocast("cpu"):
        assert by_rows("mm", torch.mm, (of(2, 3), of(3, 4)), {}) is None


def test_random_ops_are_known() -> None:
    for name, call, args in (
        ("rand", torch.rand, (3,)),
        ("dropout", F.dropout, (M,)),
        ("rand_like", torch.rand_like, (M,)),
    ):
        answer = by_rows(name, call, args, {})
        assert answer is not None
        assert answer.random
    answer = by_rows("add", torch.add, (M, 1), {})
    assert answer is not None
    assert not answer.random


def test_batch_norm_writes_its_statistics() -> None:
    args = (IMAGES, of(3), of(3))
    answer = by_rows("batch_norm", F.batch_norm, args, {"training": True})
    assert answer is not None
    assert answer.mutated == {1, 2}
    answer = by_rows("batch_norm", F.batch_norm, args, {"training": False})
    assert answer is not None
    assert answer.mutated == frozenset()


def test_a_tensor_that_is_given_twice_is_one_tensor() -> None:
    answer = by_rows("add_", method("add_"), (M, M), {})
    assert answer is not None
    assert len(answer.arguments) == 1
    assert answer.mutated == {0}


LAYOUT = st.integers(0, 4).flatmap(
    lambda rank: st.tuples(
        st.lists(st.sampled_from([0, 1, 2, 3]), min_size=rank, max_size=rank),
        st.permutations(range(rank)),
        st.lists(st.sampled_from([1, 1, 1, 2]), min_size=rank, max_size=rank),
        st.lists(st.booleans(), min_size=rank, max_size=rank),
    )
)


def laid_out(layout: Any) -> torch.Tensor:
    """A tensor with dims in any order, gaps and repeated elements."""
    size, order, gaps, repeated = layout
    lengths = [1 if repeated[k] else size[k] for k in range(len(size))]
    made = torch.zeros([lengths[k] * gaps[k] for k in order])
    back = made.permute([order.index(k) for k in range(len(order))])
    for k, gap in enumerate(gaps):
        back = back[(slice(None),) * k + (slice(None, None, gap),)]
    return back.expand(size)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.lists(LAYOUT, min_size=1, max_size=3))
def test_strides_are_those_of_tensor_iterator(layouts: list[Any]) -> None:
    tensors = [laid_out(layout) for layout in layouts]
    size = broadcast([tuple(t.shape) for t in tensors])
    try:
        real = {1: torch.exp, 2: torch.add, 3: torch.addcmul}[len(tensors)](*tensors)
    except RuntimeError:
        assert size is None
        return
    assert size == tuple(real.shape)
    operands = [Operand(tuple(t.shape), t.stride()) for t in tensors]
    assert strides(size, operands) == real.stride()


def test_rows_make_torch_import_nothing() -> None:
    """Its compiler would cost a second, sympy a half."""
    program = """
import sys
sys.path[:0] = ["."]
from tests.facts import test_rows as t
for each in t.CASES:
    t.by_rows(each.name, each.call, each.args, each.kwargs)
for name in t.UNARY:
    t.by_rows(name, t.method(name), (t.M,), {})
for name in t.BINARY:
    t.by_rows(name, t.method(name), (t.M, t.M), {})
print(sorted({"torch._dynamo", "sympy"} & sys.modules.keys()))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stdout + run.stderr


def test_every_row_is_used() -> None:
    """A row that no call comes to is not tested, either."""
    seen: set[str] = set()

    class Seeing(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:  # type: ignore[override]
            seen.add(name)
            return super().get(name, default)

    before, meta.ROWS = meta.ROWS, Seeing(ROWS)  # type: ignore[misc]
    try:
        for each in CASES:
            by_rows(each.name, each.call, each.args, each.kwargs)
        for name in UNARY:
            by_rows(name, method(name), (facts(),), {})
            by_rows(name, method(name), (MASK,), {})
        for name in ACTIVATIONS:
            by_rows(name, getattr(F, name), (facts(),), {})
        for name in [*BINARY, *OPERATORS]:
            call = OPERATORS.get(name) or method(name)
            by_rows(name, call, (facts(), facts()), {})
            by_rows(name, call, (I64, I64), {})
    finally:
        meta.ROWS = before
    assert " ".join(sorted(set(ROWS) - seen)) == ""
