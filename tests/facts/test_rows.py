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
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg.facts import meta
from jitpkg.facts.layout import Operand, broadcast, strides
from jitpkg.facts.outcome import Outcome, StandIns, WouldRaise
from jitpkg.facts.rows import ROWS, gradients
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.rows.functions import FUNCTION_ROWS
from jitpkg.facts.tensor import facts_of
from tests.facts import varying
from tests.facts.cases import CASES
from tests.facts.examples import (
    DTYPES,
    EXAMPLES,
    I64,
    IMAGES,
    LAYOUTS,
    MASK,
    Case,
    M,
    facts,
    method,
    of,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")


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


UNARY = """
    abs abs_ absolute acos all amax amin any argmax argmin asin atan ceil clone contiguous cos
    cos_ cosh detach double erf erfc exp exp2 exp_ expm1 float floor frac half int isinf isnan
    log log10 log1p log2 log_ logical_not logit long max mean min neg neg_ negative prod ravel
    reciprocal reciprocal_ relu relu_ round rsqrt rsqrt_ sigmoid sigmoid_ sign sin sin_ sinh
    sqrt sqrt_ square std sum t tan tanh tanh_ trunc var zero_ acosh asinh atanh erfinv lgamma
    digamma nan_to_num sinc isfinite argsort norm nanmean nansum
""".split()

ACTIVATIONS = """
    elu gelu hardsigmoid hardswish hardtanh leaky_relu mish relu relu6 sigmoid silu softplus
    tanh tanhshrink celu selu softsign normalize
""".split()

BINARY = """
    add add_ atan2 div div_ divide eq fmod ge greater greater_equal gt le less less_equal
    logical_and logical_or logical_xor lt maximum minimum mul mul_ multiply ne not_equal pow
    pow_ remainder sub sub_ subtract true_divide xlogy copysign fmax fmin hypot
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


def test_autocast_casts_stand_ins() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answer = by_rows("mm", torch.mm, (of(2, 3), of(3, 4)), {})
        assert answer is not None
        assert answer.result.dtype is torch.bfloat16
        # its code in C++ joins parts, which autocast refuses
        assert by_rows("roll", torch.roll, (of(2, 3, dtype=torch.float16), 1, 0), {}) is None


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
    assert sorted(set(ROWS) - set(gradients.ROWS) - seen) == ["aten::native_group_norm"]


@pytest.mark.parametrize("weight", [M, of(4), of(4, dtype=torch.float64)], ids=str)
def test_weighted_binary_cross_entropy(weight: Any) -> None:
    """Apart from the cases, for torch itself imports sympy there."""
    answered = [
        agree("binary_cross_entropy", F.binary_cross_entropy, M, M, weight=weight, reduction=each)
        for each in ("none", "mean", "sum")
    ]
    assert any(answered) == (weight is M)
