"""Symbols for the sizes of inputs that vary, and the test of inputs that goes with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import torch

from jitpkg import listing
from jitpkg.codegen.sizes.specialise import LARGEST
from jitpkg.facts import sizes
from jitpkg.facts.sizes import Length, Size
from jitpkg.facts.symbolic import Decisions
from jitpkg.facts.tensor import TensorFacts, facts_of, is_idle, strides_in_terms_of
from jitpkg.marks import Dims

Find = Callable[..., tuple[int, ...] | None]
"""Of inputs: the values of the symbols, or None where something does not hold for them."""


class Symbols:
    """One symbol for each length; sizes that are equal in the example have one together, as have
    strides.

    Args:
        dims: for each input the dims in which it varies; None for a number.
        taken: names that are not to be used.
    """

    def __init__(
        self,
        examples: Sequence[Any],
        dims: Sequence[Dims | None],
        taken: Collection[str] = (),
    ) -> None:
        self._taken = taken
        self._examples = examples
        self._where: dict[str, str] = {}
        """By name of a symbol: the input that it is, or nothing where `_lines` find it."""
        self._lines: list[str] = []
        self._values: dict[str, int] = {}
        self._of_value: dict[int, Size] = {}
        self._of_stride: dict[int, Size] = {}
        self.decisions = Decisions(self._values)
        self._given: dict[int, TensorFacts | Size] = {}
        self._tests: list[str] = []
        """Inputs for which one of these is true have no place here."""
        self._numbers: list[str] = []
        """The same of inputs that must be numbers, before they are taken as such."""
        for k, (value, varying) in enumerate(zip(examples, dims, strict=True)):
            if isinstance(value, torch.Tensor):
                self._given[k] = self._tensor(k, value, varying or Dims())
        for k, value in enumerate(examples):
            if not isinstance(value, torch.Tensor):
                self._given[k] = self._number(k, value)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._where)

    def number(self, index: int) -> Any:
        """What stands for an input that is a number."""
        given = self._given[index]
        assert isinstance(given, Size)
        return self.decisions.symint(given)

    def facts(self, index: int) -> TensorFacts:
        """The facts of an input that is a tensor."""
        given = self._given[index]
        assert isinstance(given, TensorFacts)
        return given

    def _symbol(self, value: int, where: str, least: int | None) -> Size:
        name, k = f"s{len(self._where)}", 0
        while name in self._taken:
            name, k = f"s{len(self._where)}_{k}", k + 1
        self._where[name], self._values[name] = where, value
        return sizes.symbol(name, least)

    def _number(self, k: int, value: int) -> Size:
        """Often it is one of the sizes, or made of such."""
        self._numbers.append(f"type(x{k}) is not int or not -{LARGEST} < x{k} < {LARGEST}")
        if value < 2:
            return self._symbol(value, f"x{k}", None)
        known = self._of_value.get(value)
        if known is not None:
            self._tests.append(f"x{k} != {known}")
            return known
        self._tests.append(f"x{k} < 2")
        known = self._of_value[value] = self._symbol(value, f"x{k}", 2)
        return known

    def _tensor(self, k: int, given: torch.Tensor, varying: Dims) -> TensorFacts:
        facts = facts_of(given)
        if not varying:
            return facts
        size: list[Length] = list(facts.size)
        found: dict[int, str] = {}
        for dim in sorted(varying.sizes):
            size[dim] = self._shared(self._of_value, given.shape[dim], found, dim)
        self._read(f"x{k}.shape", found, len(size))
        if len(found) < len(size):
            self._tests.append(f"x{k}.shape != {_text(size)}")
        own: dict[int, Length] = {}
        found = {}
        for dim in sorted(varying.strides):
            step = given.stride(dim)
            if is_idle(given.shape, dim):
                own[dim] = self._symbol(step, "", 0)
                found[dim] = next(reversed(self._where))
            else:
                own[dim] = self._shared(self._of_stride, step, found, dim)
        strides = strides_in_terms_of(facts, size, own)
        self._read(f"x{k}.stride()", found, len(size))
        if len(found) < len(size):
            self._tests.append(f"x{k}.stride() != {_text(strides)}")
        return replace(facts, size=tuple(size), stride=strides)

    def _shared(
        self, known: dict[int, Size], value: int, found: dict[int, str], dim: int
    ) -> Length:
        """A length that varies: the symbol of all that are equal, which may be found in this dim; 0
        and 1 are themselves."""
        if value < 2:
            return value
        if value not in known:
            known[value] = self._symbol(value, "", 2)
            found[dim] = next(reversed(self._where))
            self._tests.append(f"{found[dim]} < 2")
        return known[value]

    def _read(self, where: str, found: Mapping[int, str], rank: int) -> None:
        """Find symbols in these dims."""
        if found:
            names = "".join(f"{found.get(dim, '_')}, " for dim in range(rank))
            self._lines.append(f"{names}= {where}")

    def find(self, name: str) -> Find:
        """What finds the symbols' values in inputs, and tests all that has been relied on."""
        parameters = ", ".join(f"x{k}" for k in range(len(self._examples)))
        names = {symbol: symbol for symbol in self._where}
        relations = (relation.negated().text(names) for relation in self.decisions.relations)
        lines = list(self._lines)
        if self._numbers:
            lines.append(f"if {' or '.join(self._numbers)}: return None")
        lines.extend(f"{symbol} = {where}" for symbol, where in self._where.items() if where)
        lines.append(f"if {' or '.join([*self._tests, *relations]) or False}: return None")
        lines.append(f"return ({''.join(f'{symbol}, ' for symbol in self._where)})")
        body = "\n".join(f"    {line}" for line in lines)
        source = f"def sizes({parameters}):\n{body}\n"
        namespace: dict[str, Any] = {}
        exec(compile(source, listing.file_name(f"{name}.sizes"), "exec"), namespace)
        function: FunctionType = namespace["sizes"]
        listing.keep(function, source)
        function.__qualname__ = function.__name__ = f"{name}.sizes"
        return function


def _text(lengths: Iterable[Length]) -> str:
    return f"({''.join(f'{length!r}, ' for length in lengths)})"
