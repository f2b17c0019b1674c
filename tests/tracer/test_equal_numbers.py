"""Numbers that vary beside equal ones of other types: 0, False, 0.0, -0.0, and 1, True, 1.0."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch

import jitpkg

X = torch.ones(3)

EXPRESSIONS = """
    min(a,b) max(a,b) min(a,b,a) min([a,b]) sum([a,b]) divmod(a,b) pow(a,b) round(a) int(a) abs(a)
    +a -a ~a a+b a-b a*b a&b a|b a^b a<<b a>>b a//b a%b a/b a**b a<b a==b bool(a) float(a)
    operator.index(a) math.gcd(a,b) math.floor(a) math.ceil(a) math.trunc(a) a.bit_length() str(a)
    f'{a}' hash(a) [4,5,6][a] (a)and(b) (a)or(b) not(a) sorted([a,b]) list(range(a))
    math.prod([a,b])
    math.isqrt(a) complex(a,b) a.conjugate() a.real a.numerator type(a) isinstance(a,bool) {a:1}[b]
    (a)is(b) (a)in(b,) (a,b).index(a) (a,b).count(b) math.copysign(a,b) math.fabs(a) math.sqrt(a)
    math.comb(a,b) 'x'*a [1]*a '%d,%s'%(a,b) math.isclose(a,b)
""".split()

PAIRS = (
    *((5, 2), (2, 3), (0, False), (False, 0), (True, 1), (1, True), (True, 2), (2, False)),
    *((1.0, 1), (1, 1.0), (0.0, 0), (-0.0, 0), (0, -0.0), (True, 1.0), (-3, 2)),
)


def told(function: Any, a: Any, b: Any) -> str:
    try:
        return repr(function(X, a, b)[1])
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("dynamic", [True, None])
def test_as_eager(expression: str, dynamic: bool | None) -> None:
    function = eval(f"lambda x, a, b: (x + 1, {expression})", {"math": math, "operator": operator})
    compiled = jitpkg.compile(function, backend="eager", dynamic=dynamic)
    for a, b in PAIRS:
        assert told(compiled, a, b) == told(function, a, b), (a, b)
