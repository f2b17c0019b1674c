"""Running folds: what loops carry for them, and lanes that run on from each other."""

from __future__ import annotations

import torch

from jitpkg.codegen.cpu.arithmetic import Arithmetic, constants
from jitpkg.codegen.cpu.casts import cast
from jitpkg.codegen.cpu.folds import Fold
from jitpkg.codegen.cpu.frame import Frame
from jitpkg.codegen.ir.nodes import Reduce, Scan


class Running:
    """A scan, in a loop along its axis.

    Sums and products of float32 run in float64, as torch's do.
    """

    is_inexact_sum = False

    def __init__(self, frame: Frame, dtype: torch.dtype, op: str, lanes: int, along: bool) -> None:
        """`lanes` of the value; `along`: they are positions of one scan, not one scan each."""
        exact = dtype is torch.float32 and op in ("sum", "prod")
        held = torch.float64 if exact else dtype
        self.frame = frame
        self.dtype = dtype
        self.along = along
        self.a = frame.arithmetic(held, lanes)
        self.carry = Fold(frame.arithmetic(held, 1 if along else lanes), op)
        self.fold = Fold(self.a, op)
        self.types = self.carry.types

    def between_blocks(self) -> Running:
        return self

    def start(self) -> list[str]:
        return self.carry.start()

    def step(self, state: list[str], value: str, mask: str | None) -> tuple[list[str], str]:
        """The state behind the iteration, and the result in it."""
        value = cast(self.frame.arithmetic(self.dtype, self.a.lanes), value, self.a.dtype)
        if not self.along:
            state = self.fold.merge(state, [value])
            return state, cast(self.a, state[0], self.dtype)
        if mask is not None:
            value = self.a.select(mask, value, self.fold.start()[0])
        value = self._run_on(self.a, value)
        # The next lanes wait for one addition of numbers only.
        last = self.a.w.op(f"extractelement {self.a.type} {value}, i32 {self.a.lanes - 1}")
        after = self.carry.merge(state, [last])
        value = self.fold.merge([self._everywhere(state[0])], [value])[0]
        return after, cast(self.a, value, self.dtype)

    def _everywhere(self, text: str) -> str:
        a = self.a
        one = a.w.op(f"insertelement {a.type} poison, {a.element} {text}, i32 0")
        zeros = f"<{a.lanes} x i32> zeroinitializer"
        return a.w.op(f"shufflevector {a.type} {one}, {a.type} poison, {zeros}")

    def _run_on(self, a: Arithmetic, value: str) -> str:
        """Each lane with all before it."""
        identity = self.fold.start()[0]
        if self.fold.op == "sum" and a.dtype.is_floating_point:
            identity = a.const(-0.0)  # LLVM fills up with 0.0 by instructions that take 14 cycles
        far = 1
        while far < a.lanes:
            order = [lane - far if lane >= far else a.lanes for lane in range(a.lanes)]
            mask = f"<{a.lanes} x i32> {constants('i32', order)}"
            moved = a.w.op(f"shufflevector {a.type} {value}, {a.type} {identity}, {mask}")
            value = self.fold.merge([moved], [value])[0]
            far *= 2
        return value


Carried = tuple[Reduce, Fold] | tuple[Scan, Running]
"""What a loop carries from one iteration to the next."""
