"""A stream of random numbers that is a function of a position: Philox 4x32-10.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (2011). A counter of 128
bits is enciphered under a key of 64. Words of 32 bits are held in int64s: the product of two is
whole there, up to its sign.
"""

from __future__ import annotations

import torch

from jitpkg.codegen.ir.extents import varies
from jitpkg.codegen.lowering.expression import Expr
from jitpkg.codegen.lowering.table import Lowering, product
from jitpkg.dataclass import dataclass

Words = tuple[Expr, Expr, Expr, Expr]

_FACTORS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
"""What the key's words grow by with each round."""
_ROUNDS = 10
_WORD = (1 << 32) - 1


def low(x: Expr) -> Expr:
    """The lower 32 bits of an int64."""
    return x & _WORD


def high(x: Expr) -> Expr:
    """And the upper ones."""
    return low(x.apply("shr", 32))


def philox(counter: Words, key: tuple[Expr, Expr]) -> Words:
    """Four random words."""
    a, b, c, d = counter
    for n in range(_ROUNDS):
        one, two = (low(word + weyl * n) for word, weyl in zip(key, _WEYL, strict=True))
        first, second = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = high(second) ^ b ^ one, low(second), high(first) ^ d ^ two, low(first)
    return a, b, c, d


@dataclass(frozen=True, slots=True)
class Stream:
    """The random numbers of one op of a graph, in one call of it."""

    k: Lowering
    seed: Expr
    """An int64, drawn at each call."""
    number: int
    """Among the graph's ops that draw: none shares a counter with another."""

    def words(self, sizes: tuple[int, ...], at: tuple[Expr, ...]) -> Words:
        """The words of an element of a tensor: its position, row by row, is the counter."""
        position = self.k.index(0)
        for size, index in zip(sizes, at, strict=True):
            position = position * self.k.index(size) + index
        long = product(sizes)
        upper = high(position) if varies(long) or long > _WORD else self.k.index(0)
        counter = low(position), upper, self.k.index(self.number), self.k.index(0)
        return philox(counter, (low(self.seed), high(self.seed)))


def uniform(words: Words, dtype: torch.dtype) -> Expr:
    """From 0 to below 1: multiples of `2**-24`, in float32, or of `2**-53`, in float64.

    They have as many bits as ATen's; those for bfloat16 and float16 are exact in them.
    """
    if dtype is torch.float64:
        return _bits53(*words[:2]).cast(torch.float64) * 2.0**-53
    bits = _BITS[dtype]
    return words[0].apply("shr", 32 - bits).cast(torch.int32).cast(torch.float32) * 2.0**-bits


_BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def normal(words: Words, dtype: torch.dtype) -> Expr:
    """Of mean 0 and variance 1, by Box and Muller; in float64, or in float32 for lesser dtypes."""
    if dtype is torch.float64:
        length, angle = (_bits53(*words[n : n + 2]).cast(dtype) for n in (0, 2))
        length, angle = (length + 1) * 2.0**-53, angle * 2.0**-53
    else:
        length = words[0].apply("shr", 1).cast(torch.int32).cast(torch.float32)
        length, angle = (length + 1) * 2.0**-31, uniform(words[1:] + words[:1], torch.float32)
    return (length.log() * -2).sqrt() * (angle * (2 * torch.pi)).apply("cos")


def exponential(words: Words, dtype: torch.dtype) -> Expr:
    """Of mean 1, and above 0."""
    if dtype is torch.float64:
        middle = (_bits53(*words[:2]).apply("shr", 1).cast(dtype) + 0.5) * 2.0**-52
    else:
        bits = words[0].apply("shr", 9).cast(torch.int32).cast(torch.float32)
        middle = (bits + 0.5) * 2.0**-23
    return -middle.log()


def happens(words: Words, chance: float) -> Expr:
    """True with a chance, to `2**-32`."""
    return words[0] < round(chance * 2.0**32)


def _bits53(one: Expr, two: Expr) -> Expr:
    return one.apply("shl", 21) | two.apply("shr", 11)
