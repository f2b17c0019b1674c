"""Instructions on scalars and vectors of one dtype, as text."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch

REGISTERS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "half",
    torch.bfloat16: "float",  # one that it holds: there is no arithmetic on it
    torch.bool: "i1",
    torch.uint8: "i8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
}
"""What a value is in a register; in memory a bool is a byte, and a bfloat16 has two."""

_INTRINSICS = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
_FLOATS = (torch.float32, torch.float64)


@cache
def vector(element: str, lanes: int) -> str:
    """The type of that many lanes; one lane is a scalar."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def register(dtype: torch.dtype, lanes: int) -> str:
    return vector(REGISTERS[dtype], lanes)


@cache
def memory(dtype: torch.dtype) -> str:
    return "i8" if dtype is torch.bool else "i16" if dtype is torch.bfloat16 else REGISTERS[dtype]


@cache
def suffix(element: str, lanes: int) -> str:
    """How intrinsics spell a type."""
    one = _INTRINSICS.get(element, element)
    return one if lanes == 1 else f"v{lanes}{one}"


def literal(value: bool | int | float, dtype: torch.dtype) -> str:
    """A number of a dtype that holds it."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype is torch.float16:
        return f"0xH{_bits('<e', float(value)):04X}" if value == value else "0xH7E00"
    if dtype in (torch.float32, torch.bfloat16):
        value = _round32(float(value))
    if dtype.is_floating_point:
        return f"0x{_bits('<d', float(value)):016X}"
    return str(int(value))


def _round32(value: float) -> float:
    if math.isfinite(value):
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    return value


def _bits(form: str, value: float) -> int:
    return int.from_bytes(struct.pack(form, value), "little")


def constant(text: str, element: str, lanes: int) -> str:
    """A literal in all lanes."""
    return text if lanes == 1 else f"splat ({element} {text})"


def constants(element: str, texts: Sequence[object]) -> str:
    """A vector of literals."""
    return "<" + ", ".join(f"{element} {text}" for text in texts) + ">"


class Writer:
    """Lines of a function. Each instruction gets a name of its own."""

    def __init__(self) -> None:
        self.lines: list[str | list[str]] = []
        self.declared: set[str] = set()
        self.block = "entry"
        """The label of what is being printed."""
        self._count = 0
        self._known: dict[str, str] = {}
        """The names of what was computed where that is always done before what is printed now."""

    def fresh(self) -> int:
        self._count += 1
        return self._count

    def op(self, text: str, into: list[str] | None = None) -> str:
        self._count += 1
        name = f"%v{self._count}"
        if into is None:
            self.lines.append(f"  {name} = {text}")
        else:
            into.append(f"  {name} = {text}")
        return name

    def value(self, text: str) -> str:
        """An instruction that has no effect and always gives the same: it is printed once."""
        if text not in self._known:
            self._known[text] = self.op(text)
        return self._known[text]

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name
        self._known = {}

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Blocks of which the last one is always reached, and the others perhaps."""
        known = self._known
        yield
        self._known = known

    def declare(self, text: str) -> None:
        self.declared.add(text)

    def body(self) -> list[str]:
        """The lines, with those that were put before loops later on."""
        flat: list[str] = []
        for line in self.lines:
            if isinstance(line, str):
                flat.append(line)
            else:
                flat.extend(line)
        return flat


def any_lane(w: Writer, condition: str, lanes: int) -> str:
    """Whether a condition holds in any lane."""
    if lanes == 1:
        return condition
    bits = w.value(f"bitcast {vector('i1', lanes)} {condition} to i{lanes}")
    return w.value(f"icmp ne i{lanes} {bits}, 0")


class Arithmetic:
    """Instructions on `lanes` values of a dtype."""

    __slots__ = ("bits", "dtype", "element", "lanes", "type", "vector_bits", "w")

    def __init__(self, writer: Writer, dtype: torch.dtype, lanes: int, vector_bits: int) -> None:
        self.w = writer
        self.dtype = dtype
        self.lanes = lanes
        self.element = REGISTERS[dtype]
        self.type = register(dtype, lanes)
        self.bits = 8 * dtype.itemsize if dtype is not torch.bool else 1
        self.vector_bits = vector_bits

    def of(self, dtype: torch.dtype) -> Arithmetic:
        """The same lanes of another dtype."""
        return Arithmetic(self.w, dtype, self.lanes, self.vector_bits)

    def const(self, value: bool | int | float) -> str:
        return constant(literal(value, self.dtype), self.element, self.lanes)

    def op(self, name: str, a: str, b: str) -> str:
        return self.w.value(f"{name} {self.type} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.op("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.op("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.op("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        return self.op("fdiv", a, b)

    def neg(self, a: str) -> str:
        return self.w.value(f"fneg {self.type} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.intrinsic("fma", a, b, c)

    def abs(self, a: str) -> str:
        return self.intrinsic("fabs", a)

    def copysign(self, a: str, b: str) -> str:
        return self.intrinsic("copysign", a, b)

    def at_most(self, x: str, most: float) -> str:
        """A NaN stays one."""
        return self.select(self.compare("ogt", x, self.const(most)), self.const(most), x)

    def between(self, x: str, least: float, most: float) -> str:
        x = self.at_most(x, most)
        return self.select(self.compare("olt", x, self.const(least)), self.const(least), x)

    def polynomial(self, x: str, *factors: float) -> str:
        """By Horner's rule; the highest power's factor first."""
        total = self.const(factors[0])
        for factor in factors[1:]:
            total = self.fma(total, x, self.const(factor))
        return total

    def intrinsic(self, name: str, *args: str) -> str:
        whole = f"@llvm.{name}.{suffix(self.element, self.lanes)}"
        self.w.declare(f"declare {self.type} {whole}({', '.join([self.type] * len(args))})")
        return self.w.value(
            f"call {self.type} {whole}({', '.join(f'{self.type} {a}' for a in args)})"
        )

    def compare(self, test: str, a: str, b: str) -> str:
        """`test` is a predicate of `fcmp` or `icmp`, in one lane an i1."""
        kind = "fcmp" if self.element in ("float", "double", "half") else "icmp"
        return self.w.value(f"{kind} {test} {self.type} {a}, {b}")

    def select(self, condition: str, yes: str, no: str) -> str:
        ones = vector("i1", self.lanes)
        return self.w.value(f"select {ones} {condition}, {self.type} {yes}, {self.type} {no}")

    def mask(self, name: str, a: str, b: str) -> str:
        """Logic on conditions."""
        return self.w.value(f"{name} {vector('i1', self.lanes)} {a}, {b}")

    def rarely(self, condition: str, usual: str, otherwise: Callable[[], str]) -> str:
        """`usual`, or, where the condition holds in any lane, what `otherwise` prints."""
        some = any_lane(self.w, condition, self.lanes)
        k, before = self.w.fresh(), self.w.block
        with self.w.aside():
            self.w.do(f"br i1 {some}, label %rare.{k}, label %usual.{k}, !prof !1")
            self.w.label(f"rare.{k}")
            other, inside = otherwise(), self.w.block
            self.w.do(f"br label %usual.{k}")
            self.w.label(f"usual.{k}")
        return self.w.op(f"phi {self.type} [ {usual}, %{before} ], [ {other}, %{inside} ]")

    def to(self, name: str, a: str, dtype: torch.dtype) -> str:
        """A conversion instruction."""
        return self.w.value(f"{name} {self.type} {a} to {register(dtype, self.lanes)}")
