"""Functions of 16 floats by tables of 16 numbers, which AVX-512 looks up in one instruction.

Each function is a polynomial of its own on each of 16 intervals: half as many instructions as one
for all numbers, none of them a division. Errors are below 1.5 ulp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic, constants, literal

LANES = 16

_ROUNDS = 786432.0
"""1.5 * 2**19, whose last bit is a sixteenth."""


def there_are(f: Arithmetic) -> bool:
    """Whether this machine has them, for vectors of `by_parts`."""
    return f.vector_bits == 32 * LANES and f.lanes > 1


def looked_up(f: Arithmetic, table: Sequence[float], index: str) -> str:
    """For each lane the number that the low four bits of its int32 say."""
    name, i = "@llvm.x86.avx512.permvar.sf.512", f.of(torch.int32)
    f.w.declare(f"declare {f.type} {name}({f.type}, {i.type})")
    numbers = constants("float", [literal(number, f.dtype) for number in table])
    return f.w.op(f"call {f.type} {name}({f.type} {numbers}, {i.type} {index})")


def scaled(f: Arithmetic, x: str, n: str) -> str:
    """`x * 2**floor(n)`."""
    name = "@llvm.x86.avx512.mask.scalef.ps.512"
    f.w.declare(f"declare {f.type} {name}({f.type}, {f.type}, {f.type}, i16, i32)")
    return f.w.op(
        f"call {f.type} {name}({f.type} {x}, {f.type} {n}, {f.type} zeroinitializer, i16 -1, i32 4)"
    )


def _polynomial(f: Arithmetic, x: str, tables: Sequence[Sequence[float]], index: str) -> str:
    total = looked_up(f, tables[0], index)
    for table in tables[1:]:
        total = f.fma(total, x, looked_up(f, table, index))
    return total


def reduced(f: Arithmetic, x: str, rounds: float) -> tuple[str, str, str]:
    """`n + rounds`, n, and r, where `x = n log 2 + r`, and the sum with `rounds` rounds n."""
    shifted = f.fma(x, f.const(1.44269504088896341), f.const(rounds))
    n = f.sub(shifted, f.const(rounds))
    r = f.fma(n, f.const(-0.693145751953125), x)
    return shifted, n, f.fma(n, f.const(-1.42860682030941723212e-6), r)


def exp(f: Arithmetic, x: str, power: int) -> str:
    """`2**power * exp(x)`: `2**n * exp(r)`, where n is a number of sixteenths."""
    x = f.between(x, -104.0, 90.0)
    shifted, n, r = reduced(f, x, _ROUNDS)
    p = f.fma(r, f.const(0.16667026), f.const(0.50001623))
    p = f.fma(f.mul(r, r), p, r)
    root = looked_up(f, ROOTS, f.to("bitcast", shifted, torch.int32))
    return scaled(f, f.fma(root, p, root), f.add(n, f.const(float(power))) if power else n)


def exp2(f: Arithmetic, x: str) -> str:
    """`2**n * 2**r`, where n is a number of sixteenths."""
    x = f.between(x, -151.0, 129.0)
    rounds = f.const(_ROUNDS)
    shifted = f.add(x, rounds)
    n = f.sub(shifted, rounds)
    r = f.sub(x, n)
    p = f.polynomial(r, *POWER)
    root = looked_up(f, ROOTS, f.to("bitcast", shifted, torch.int32))
    return scaled(f, f.fma(f.mul(root, r), p, root), n)


class Base(NamedTuple):
    """Of a logarithm: those of 2 and of e, each as the sum of two floats."""

    two: tuple[float, float]
    e: tuple[float, float]
    log: Callable[[float], float]


def log(f: Arithmetic, x: str, base: Base) -> str:
    """`n log 2 - log(c) + log(1 + r)`: x is `2**n m`, and c is about `1 / m`.

    Infinity and zero are infinite powers, and less than zero has no m: they need no other code.
    """
    n, m = _split(f, x)
    index = _interval(f, m)
    c = looked_up(f, RECIPROCALS, index)
    return _log(f, n, index, f.fma(m, c, f.const(-1.0)), base)


def log1p(f: Arithmetic, x: str, base: Base) -> str:
    """That of `1 + x`, and what is lost where that is rounded."""
    whole = f.add(x, f.const(1.0))
    n, m = _split(f, whole)
    index = _interval(f, m)
    c = looked_up(f, RECIPROCALS, index)
    lost = f.sub(x, f.sub(whole, f.const(1.0)))
    counts = f.compare("olt", f.abs(n), f.const(30.0))  # neither from 2**30 on, nor of zero
    lost = f.select(counts, scaled(f, lost, f.neg(n)), f.const(0.0))
    r = f.fma(lost, c, f.fma(m, c, f.const(-1.0)))
    return f.copysign(_log(f, n, index, r, base), x)


def _split(f: Arithmetic, x: str) -> tuple[str, str]:
    """n and m, from 3/4 to below 3/2; a NaN for what is below zero."""
    name = "@llvm.x86.avx512.mask.getmant.ps.512"
    f.w.declare(f"declare {f.type} {name}({f.type}, i32, {f.type}, i16, i32)")
    given = f"{f.type} {x}, i32 11, {f.type} zeroinitializer, i16 -1, i32 4"
    m = f.w.op(f"call {f.type} {name}({given})")
    return f.sub(_exponent(f, x), _exponent(f, m)), m


def _exponent(f: Arithmetic, x: str) -> str:
    name = "@llvm.x86.avx512.mask.getexp.ps.512"
    f.w.declare(f"declare {f.type} {name}({f.type}, {f.type}, i16, i32)")
    return f.w.op(f"call {f.type} {name}({f.type} {x}, {f.type} zeroinitializer, i16 -1, i32 4)")


def _interval(f: Arithmetic, m: str) -> str:
    """Eight from 1 to 3/2, then eight from 3/4 to 1."""
    i = f.of(torch.int32)
    return i.op("lshr", f.to("bitcast", m, torch.int32), i.const(19))


def _log(f: Arithmetic, n: str, index: str, r: str, base: Base) -> str:
    start = looked_up(f, [-base.log(number) for number in RECIPROCALS], index)
    start = f.fma(n, f.const(base.two[0]), start)
    low = f.mul(n, f.const(base.two[1])) if base.two[1] else f.const(0.0)
    p = f.polynomial(r, *LOG)
    if not base.e[1]:
        return f.add(start, f.add(r, f.fma(p, f.mul(r, r), low)))
    low = f.fma(r, f.const(base.e[1]), low)
    low = f.fma(f.mul(p, f.mul(r, r)), f.const(base.e[0]), low)
    return f.add(start, f.fma(r, f.const(base.e[0]), low))


def erf(f: Arithmetic, x: str) -> str:
    """Intervals around the multiples of 33 / 128; around 0 it is `x` and a polynomial."""
    size = f.at_most(f.abs(x), 3.99)  # from 3.93 on it is 1
    rounds = f.const(8388608.0)
    shifted = f.fma(size, f.const(128 / 33), rounds)
    apart = f.fma(f.sub(shifted, rounds), f.const(-33 / 128), size)
    index = f.to("bitcast", shifted, torch.int32)
    slope = _polynomial(f, apart, ERF[:-1], index)
    start = looked_up(f, ERF[-1], index)
    start = f.select(f.compare("oeq", shifted, rounds), size, start)
    return f.copysign(f.fma(slope, apart, start), x)


def tanh(f: Arithmetic, x: str) -> str:
    """Intervals between powers of two and the middles of these; the first one reaches to 0."""
    size = f.at_most(f.abs(x), 9.5)  # from 9.02 on it is 1
    at = f.select(f.compare("olt", size, f.const(0.1875)), f.const(0.1875), size)
    i = f.of(torch.int32)
    index = i.op("lshr", f.to("bitcast", at, torch.int32), i.const(22))
    apart = f.sub(size, looked_up(f, CENTRES, index))
    return f.copysign(_polynomial(f, apart, TANH, index), x)


POWER = (0.0555023514, 0.240234286, 0.693147182)
"""(2**r - 1) / r, up to 1 / 32 on both sides."""

LOG = (0.18864356, -0.250072926, 0.33334434, -0.5)
"""(log(1 + r) - r) / r**2, from -1/32 to 1/16."""

RECIPROCALS = (
    1.0,
    0.9143301248550415,
    0.8649165034294128,
    0.8205561637878418,
    0.780449628829956,
    0.7442194223403931,
    0.7111349105834961,
    0.6808831691741943,
    1.3061045408248901,
    1.254960536956787,
    1.20758855342865,
    1.1636414527893066,
    1.1228523254394531,
    1.0847986936569214,
    1.049146056175232,
    1.0,
)
"""About those of the middles of intervals, floats of which the logarithms are very nearly floats,
too."""

ROOTS = tuple(2.0 ** (k / 16) for k in range(16))

# The factors of the polynomials, the highest power's first, and in each row those of all intervals.

ERF = (
    (
        0.110861175,
        0.0791011676,
        0.00137290079,
        -0.0561531223,
        -0.0677312464,
        -0.0419086032,
        -0.00983058382,
        0.00903962366,
        0.0129525224,
        0.00937481876,
        0.00489844987,
        0.00201290753,
        0.000674834533,
        0.00018844282,
        4.4324217e-05,
        5.54784747e-05,
    ),
    (
        0.000312387099,
        0.129251897,
        0.18141298,
        0.143637434,
        0.0588078201,
        -0.0140744187,
        -0.0470866263,
        -0.0460623354,
        -0.0296744872,
        -0.0162350591,
        -0.00596374692,
        -0.00225249957,
        -0.00147482532,
        -0.00035724105,
        -0.000766709563,
        -0.000408868247,
    ),
    (
        -0.376143634,
        -0.305174887,
        -0.134984642,
        0.0406099334,
        0.146344781,
        0.165876195,
        0.130103424,
        0.0798614174,
        0.0401237346,
        0.0168636199,
        0.00600290904,
        0.00182401342,
        0.000475595443,
        0.000106807347,
        2.07166777e-05,
        3.10508517e-06,
    ),
    (
        3.23833063e-07,
        -0.272200435,
        -0.445967585,
        -0.479821265,
        -0.401754767,
        -0.276109487,
        -0.159486845,
        -0.0784117803,
        -0.033079125,
        -0.0120073082,
        -0.00378612126,
        -0.00102898735,
        -0.000229697485,
        -4.6810288e-05,
        3.32598461e-06,
        5.39314624e-06,
    ),
    (
        0.128379166,
        1.05581713,
        0.864947081,
        0.620379865,
        0.389576763,
        0.214188278,
        0.103101633,
        0.0434512906,
        0.0160327144,
        0.00517939078,
        0.00146493234,
        0.00036276356,
        7.86496894e-05,
        1.49292382e-05,
        2.481107e-06,
        3.61011161e-07,
    ),
    (
        0.0,
        0.284591436,
        0.534123003,
        0.725959837,
        0.855271816,
        0.931698084,
        0.971302092,
        0.9892959,
        0.996463776,
        0.998967111,
        0.999733686,
        0.999939442,
        0.999987841,
        0.999997854,
        0.999999642,
        0.99999994,
    ),
)

TANH = (
    (
        -0.000694267219,
        -0.000150252017,
        -9.43708528e-06,
        -2.98939966e-08,
        5.83712449e-07,
        -0.0369775631,
        -0.0369775631,
        -0.0369775631,
        -0.0369775631,
        -0.0369775631,
        0.225297943,
        5.94073391,
        0.10901849,
        0.179583997,
        0.0149183925,
        0.000665575964,
    ),
    (
        0.00288417679,
        0.000486766192,
        2.8419141e-05,
        4.93633877e-07,
        -2.0888242e-06,
        0.143084541,
        0.143084541,
        0.143084541,
        0.143084541,
        0.143084541,
        0.0388641134,
        -0.038183134,
        -0.0562257916,
        -0.058866661,
        -0.0196014978,
        0.00356296939,
    ),
    (
        -0.0080529172,
        -0.00120081252,
        -5.94330777e-05,
        -1.32353182e-06,
        1.67635301e-06,
        -0.00118376489,
        -0.00118376489,
        -0.00118376489,
        -0.00118376489,
        -0.00118376489,
        0.156150952,
        0.1329844,
        0.134555236,
        0.0568228737,
        -0.0125616798,
        -0.0233770311,
    ),
    (
        0.0170185622,
        0.00241286424,
        0.00011891123,
        2.20680977e-06,
        4.57420072e-07,
        -0.333270192,
        -0.333270192,
        -0.333270192,
        -0.333270192,
        -0.333270192,
        -0.219524607,
        -0.136062697,
        -0.0178118534,
        0.0818082541,
        0.108318672,
        0.0629231483,
    ),
    (
        -0.0262358598,
        -0.00363384234,
        -0.000181846277,
        -3.23373501e-06,
        -7.29564761e-07,
        -1.0973024e-06,
        -1.0973024e-06,
        -1.0973024e-06,
        -1.0973024e-06,
        -1.0973024e-06,
        -0.274968147,
        -0.341796786,
        -0.383994311,
        -0.355108529,
        -0.237872258,
        -0.107143722,
    ),
    (
        0.0265922491,
        0.00364088453,
        0.00018183238,
        3.32610762e-06,
        1.65357605e-07,
        1.0,
        1.0,
        1.0,
        1.0,
        1.0,
        0.908366799,
        0.830610037,
        0.692419112,
        0.5045169,
        0.280414879,
        0.113812096,
    ),
    (
        0.986614287,
        0.998177886,
        0.999909222,
        0.999998331,
        0.99999994,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.302709728,
        0.411570042,
        0.554599702,
        0.703905582,
        0.848283648,
        0.941375554,
    ),
)

CENTRES = (
    2.5,
    3.5,
    5.0,
    7.0,
    8.5,
    0.0,
    0.0,
    0.0,
    0.0,
    0.0,
    0.3125,
    0.4375,
    0.625,
    0.875,
    1.25,
    1.75,
)
"""Of the intervals of tanh."""
