"""The state of printing: what is known, under which name, and along which dims of the tile."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch

from jitpkg.codegen.ir.extents import at_least, less, same, varies
from jitpkg.codegen.ir.nodes import Apply, Axis, Buffer, Checked, Const, Extent, Given, Node, Reduce
from jitpkg.codegen.ir.ranges import range_of
from jitpkg.codegen.triton.dims import Dim, Dims
from jitpkg.codegen.triton.scalar_ops import constant
from jitpkg.codegen.triton.source import Config
from jitpkg.dataclass import dataclass

ORDER = ("y", "x", "r")
"""Of the dims in a tile."""

_TAKEN = ("tl", "jl", "triton", "float", "range")


class NotPrinted(Exception):
    """A kernel that Triton has no words for; the reason is for people. ATen computes it instead."""


@dataclass(frozen=True, slots=True)
class Value:
    """A node's value: a tile, with one position in each dim that it does not depend on; without
    any dim a scalar."""

    text: str
    dims: frozenset[str]

    @property
    def operand(self) -> str:
        """As it may stand inside of a longer expression."""
        return self.text if _is_atom(self.text) else f"({self.text})"


def _is_atom(text: str) -> bool:
    if text.replace("_", "a").replace(".", "0").isalnum():
        return True
    opened = text.find("(")
    if (
        opened < 0
        or not text.endswith(")")
        or not text[:opened].replace(".", "a").replace("_", "a").isalnum()
    ):
        return False
    depth = 0
    for k, character in enumerate(text[opened:]):
        depth += (character in "([") - (character in ")]")
        if depth == 0:
            return opened + k == len(text) - 1
    return False


class Frame:
    def __init__(
        self, dims: Dims, names: dict[Axis, str], configs: Sequence[Config], *, wide: bool
    ) -> None:
        self.inside = dims.inside
        self.programs = frozenset(dims.programs)
        self.names = names
        self.wide = wide
        self.lines: list[str] = []
        self.values: dict[Node, Value] = {}
        self.pointers: dict[Buffer, str] = {}
        self.index = "tl.int64" if wide else "tl.int32"
        """The type of indices."""
        used = {dim.letter for dim in (*dims.grid, *dims.inside.values())}
        self.dims = tuple(letter for letter in ORDER if letter in used)
        """Those of a tile, in order."""
        self.active: dict[str, Dim] = {}
        """What they stand for here."""
        self.masked: dict[Dim, str] = {}
        """The names of masks, of those that need one."""
        self.numbers: dict[Extent, int] = {}
        self._counters: dict[str, str] = {}
        self._fixed: set[str] = set()
        self._names: dict[Dim, tuple[str, ...]] = {}
        """Of the positions of a dim's axes."""
        self._depth = 1
        self._used = {*_TAKEN, *names.values()}
        self._narrow: dict[Node, bool] = {}
        self._configs = configs

    # Text

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    def fresh(self, base: str) -> str:
        """A name that nothing else has."""
        base = "".join(c if c.isalnum() and c.isascii() else "_" for c in base)
        name, k = base, 0
        is_number = base[:1] == "n" and base[1:].isdigit()
        while name in self._used or keyword.iskeyword(name) or not name.isidentifier() or is_number:
            is_number = False
            name = f"{base}_{k}" if base[:1].isalpha() else f"b{base}_{k}"
            k += 1
        self._used.add(name)
        return name

    def named(self, base: str, text: str) -> str:
        """A variable."""
        name = self.fresh(base)
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """What is printed inside is in a loop: what becomes known there is unknown behind."""
        before = dict(self.values)
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1
        self.values = before

    # Positions

    def fixed(self, axis: Axis) -> str:
        """The name of a position that holds for the whole kernel."""
        letter = self.names[axis]
        name = self.fresh(letter) if letter in self._fixed else letter
        self._fixed.add(name)
        return name

    def loop_name(self, axis: Axis | None) -> str:
        """The name of a position that a loop changes."""
        letter = self.names[axis] if axis is not None else "r"
        return letter if letter not in self._fixed else self.fresh(letter)

    def counter(self, name: str) -> str:
        """What Python's `range` gives, for a position that a loop changes."""
        if name not in self._counters:
            self._counters[name] = self.fresh(f"{name}_at")
        return self._counters[name]

    def begin(self, dim: Dim, start: str) -> None:
        """Say where a dim's positions are, for the whole kernel."""
        if len(dim.axes) == 1:
            name = self.fixed(dim.axes[0])
        else:
            name = dim.name
            self._fixed.add(name)
        self.line(f"{name} = {self.across(dim, start)}")
        self.define_dim(dim, name)

    def define_dim(self, dim: Dim, name: str) -> None:
        """A dim's positions are known: so is where each of its axes stands."""
        if not self.is_whole(dim):
            mask = self.masked.get(dim) or self.fresh(f"{name}_mask")
            self.line(f"{mask} = {name} < {self.number(dim.extent)}")
            self.masked[dim] = mask
        names = [name]
        if len(dim.axes) > 1:
            names, rest = [], name
            for k in reversed(range(len(dim.axes))):
                axis = dim.axes[k]
                size = self.number(axis.extent)
                own = self.loop_name(axis) if dim.looped else self.fixed(axis)
                self.line(f"{own} = {rest} % {size}" if k else f"{own} = {rest}")
                if k:
                    rest = f"{rest} // {size}"
                    rest = self.named("rest", rest) if k > 1 else rest
                names.insert(0, own)
        self._names[dim] = tuple(names)
        self.define_axes(dim, dim.axes)

    def define_axes(self, dim: Dim, axes: tuple[Axis, ...]) -> None:
        """These axes stand where the dim's positions are."""
        for axis, name in zip(axes, self._names[dim], strict=True):
            self.define(axis, Value(name, frozenset({dim.letter})))

    def is_whole(self, dim: Dim) -> bool:
        """Whether no block reaches beyond the end, whatever the config."""
        widest = max(dict(config.blocks)[dim.block] for config in self._configs)
        return same(dim.extent % widest, 0)

    # Numbers

    def number(self, value: Extent) -> str:
        """A number, or the parameter that one is in."""
        if not varies(value):
            return str(value)
        return f"n{self.numbers.setdefault(value, len(self.numbers))}"

    # Values

    def define(self, node: Node, value: Value) -> None:
        self.values[node] = value

    def of(self, node: Node) -> Value:
        match node:
            case Const(value=value):
                return Value(constant(value, node.dtype), frozenset())
            case Given(value=value):
                return Value(self.number(value), frozenset())
            case _:
                assert node in self.values, f"{node} is used before it is known"
                return self.values[node]

    def dims_of(self, axes: Iterable[Axis]) -> frozenset[str]:
        """The dims that these axes stand along, here."""
        return frozenset[str]().union(*(self.of(axis).dims for axis in axes))

    def is_index(self, node: Node) -> bool:
        """Whether an int64 is held in the type of indices."""
        if node not in self._narrow:
            self._narrow[node] = self._is_index(node)
        return self._narrow[node]

    def _is_index(self, node: Node) -> bool:
        if node.dtype is not torch.int64:
            return False
        low, high = range_of(node)
        if low is None or high is None or not self._fits(low, high):
            return False
        match node:
            case Axis() | Given() | Checked() | Const():
                return True
            case Reduce(op="argmax" | "argmin"):
                return True
            case Apply(op="cast", args=(value,)):
                return value.dtype is torch.bool
            case Apply(op="add" | "sub" | "mul" | "floordiv" | "mod", args=args):
                return all(self.is_index(arg) for arg in args)
            case _:
                return False

    def _fits(self, low: int, high: int) -> bool:
        return self.wide or (at_least(low, -(1 << 31)) and less(high, 1 << 31))

    def is_positive(self, node: Node) -> bool:
        """Whether an index is surely not negative."""
        low, _ = range_of(node)
        return low is not None and at_least(low, 0)

    # Tiles

    def masks(self, dims: Iterable[str]) -> list[str]:
        """What holds for the positions that there are, in these dims."""
        inside = set(dims)
        here = [self.active[letter] for letter in self.dims if letter in inside]
        return [self.masked[dim] for dim in here if dim in self.masked]

    def shape(self, dims: Iterable[str], active: dict[str, Dim] | None = None) -> str:
        """Of a tile that has these dims; without any, of a scalar."""
        active = self.active if active is None else active
        inside = set(dims)
        sizes = [active[letter].block if letter in inside else "1" for letter in self.dims]
        return f"[{', '.join(sizes)}]" if inside else "[]"

    def zeros(self, dims: Iterable[str]) -> str:
        return f"tl.zeros({self.shape(dims)}, {self.index})"

    def across(self, dim: Dim, text: str) -> str:
        """A row of numbers, laid along a dim."""
        if len(self.dims) == 1:
            return text
        places = ", ".join(":" if letter == dim.letter else "None" for letter in self.dims)
        return f"({text})[{places}]"

    def spread(self, value: Value, dims: frozenset[str]) -> str:
        """A value, repeated along dims that it does not depend on."""
        if value.dims == dims:
            return value.text
        return f"tl.broadcast_to({value.text}, {self.shape(dims)})"

    def row(self, text: str, dim: Dim, dims: frozenset[str]) -> str:
        """What is left of tiles of these dims, folded along one of them, in the dims of a tile."""
        if dims == {dim.letter}:
            return text
        places = ", ".join("None" if letter == dim.letter else ":" for letter in self.dims)
        return f"{text}[{places}]"
