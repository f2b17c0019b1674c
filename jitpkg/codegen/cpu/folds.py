"""What loops carry for folds: start, one step, two parts together, the result."""

from __future__ import annotations

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic, constants, vector
from jitpkg.codegen.cpu.scalar_ops import compared, rows
from jitpkg.codegen.ir import ops

_FLOATS = (torch.float32, torch.float64)


class Fold:
    """A fold in `lanes` lanes, each of which folds what it sees.

    The state is a list of values; `types` are theirs.
    """

    def __init__(self, a: Arithmetic, op: str) -> None:
        self.a = a
        self.op = op
        self.types = [a.type]

    @property
    def is_inexact_sum(self) -> bool:
        """Whether adding up many elements one after the other would lose too much."""
        return self.op == "sum" and self.a.dtype in _FLOATS

    def between_blocks(self) -> Fold:
        """What many parts are folded into: sums of float32 in float64."""
        if self.is_inexact_sum and self.a.dtype is torch.float32:
            return Fold(self.a.of(torch.float64), self.op)
        return self

    def start(self) -> list[str]:
        identity = ops.REDUCTIONS[self.op].identity
        assert identity is not None
        return [self.a.const(identity(self.a.dtype))]

    def step(self, state: list[str], value: str, position: str, mask: str | None) -> list[str]:
        """`position` is that of the first lane, as an i64."""
        return self.merge(state, self.masked([value], mask))

    def masked(self, state: list[str], mask: str | None) -> list[str]:
        """Nothing in the lanes where the mask is false."""
        if mask is None:
            return state
        return [self.a.select(mask, state[0], self.start()[0])]

    def merge(self, state: list[str], other: list[str]) -> list[str]:
        combine = ops.REDUCTIONS[self.op].combine
        assert combine is not None
        if combine in ("maximum", "minimum") and self.a.dtype in _FLOATS:
            # One compare of each value: takes the new one where it is more or a NaN.
            test = "ogt" if combine == "maximum" else "olt"
            more = self.a.compare(test, other[0], state[0])
            odd = self.a.compare("uno", other[0], other[0])
            return [self.a.select(self.a.mask("or", more, odd), other[0], state[0])]
        return [rows(self.a.dtype)[combine](self.a, state[0], other[0])]

    def result(self, state: list[str]) -> str:
        """All lanes together."""
        a, value = self.a, state[0]
        one = Arithmetic(a.w, a.dtype, 1, a.vector_bits)
        if a.lanes == 1:
            return value
        lanes = a.lanes
        while lanes > 1:
            half = Arithmetic(a.w, a.dtype, lanes // 2, a.vector_bits)
            low, high = (_part(a, value, lanes, first) for first in (0, lanes // 2))
            value = Fold(half if lanes > 2 else one, self.op).merge([low], [high])[0]
            lanes //= 2
        return value


def _part(a: Arithmetic, value: str, lanes: int, first: int) -> str:
    whole = vector(a.element, lanes)
    if lanes == 2:
        return a.w.op(f"extractelement {whole} {value}, i32 {first}")
    mask = f"<{lanes // 2} x i32> {constants('i32', range(first, first + lanes // 2))}"
    return a.w.op(f"shufflevector {whole} {value}, {whole} poison, {mask}")


class Position(Fold):
    """argmax and argmin: the best value of each lane, and at which iteration's start it came."""

    def __init__(self, a: Arithmetic, op: str, across: bool) -> None:
        """`across`: the lanes are positions of one fold, not one fold each."""
        super().__init__(a, op)
        self.index = a.of(torch.int64)
        self.across = across
        self.types = [a.type, self.index.type]

    def start(self) -> list[str]:
        most = "max" if self.op == "argmax" else "min"
        identity = ops.REDUCTIONS[most].identity
        assert identity is not None
        return [self.a.const(identity(self.a.dtype)), self.index.const(0)]

    def step(self, state: list[str], value: str, position: str, mask: str | None) -> list[str]:
        a = self.a
        if self.a.lanes > 1:
            one = a.w.op(f"insertelement {self.index.type} poison, i64 {position}, i32 0")
            position = a.w.op(
                f"shufflevector {self.index.type} {one}, {self.index.type} poison, "
                f"<{a.lanes} x i32> zeroinitializer"
            )
        better = self._better(value, state[0])
        if mask is not None:
            better = a.mask("and", better, mask)
        return [a.select(better, value, state[0]), self.index.select(better, position, state[1])]

    def _better(self, value: str, best: str) -> str:
        a = self.a
        if a.dtype not in _FLOATS:
            return compared(a, "gt" if self.op == "argmax" else "lt", value, best)
        # Also where one is a NaN, unless the best one is.
        more = a.compare("ugt" if self.op == "argmax" else "ult", value, best)
        return a.mask("and", more, a.compare("ord", best, best))

    def masked(self, state: list[str], mask: str | None) -> list[str]:
        if mask is None:
            return state
        pairs = zip((self.a, self.index), state, self.start(), strict=True)
        return [a.select(mask, found, nothing) for a, found, nothing in pairs]

    def merge(self, state: list[str], other: list[str]) -> list[str]:
        """`other` comes from later iterations."""
        better = self._better(other[0], state[0])
        return [
            self.a.select(better, other[0], state[0]),
            self.index.select(better, other[1], state[1]),
        ]

    def result(self, state: list[str]) -> str:
        a, index = self.a, self.index
        if a.lanes == 1 or not self.across:
            return state[1]
        most = Fold(a, "max" if self.op == "argmax" else "min").result([state[0]])
        one = a.w.op(f"insertelement {a.type} poison, {a.element} {most}, i32 0")
        zeros = f"<{a.lanes} x i32> zeroinitializer"
        most = a.w.op(f"shufflevector {a.type} {one}, {a.type} poison, {zeros}")
        is_best = compared(a, "eq", state[0], most)
        if a.dtype in _FLOATS:
            is_best = a.mask("or", is_best, a.compare("uno", state[0], state[0]))
        lane = f"{constants('i64', range(a.lanes))}"
        places = index.op("add", state[1], lane)
        places = index.select(is_best, places, index.const(2**63 - 1))
        whole = f"@llvm.vector.reduce.smin.v{a.lanes}i64"
        a.w.declare(f"declare i64 {whole}({index.type})")
        return a.w.op(f"call i64 {whole}({index.type} {places})")


def fold(a: Arithmetic, op: str, across: bool) -> Fold:
    if ops.REDUCTIONS[op].combine is None:
        return Position(a, op, across)
    return Fold(a, op)
