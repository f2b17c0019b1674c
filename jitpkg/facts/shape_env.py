"""The bridge to torch's own symbolic integers: for FakeTensor, and for backends.

One question has one `ShapeEnv`: our expressions become SymInts, and what comes back, sizes and the
guards that torch has added, is read into ours. What has no counterpart raises `NeedsNumbers`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from jitpkg.facts.outcome import NeedsNumbers
from jitpkg.facts.sizes import Comparison, Length, Relation, Size, Symbol, compare, of, plain
from jitpkg.internals import fake_tensors
from jitpkg.marks import Dims


class Bridge:
    """Between expressions and SymInts, for one question."""

    def __init__(self, values: Mapping[str, int]) -> None:
        """`values` are those that the symbols have in the call at hand."""
        self.env = fake_tensors.SHAPE_ENV.get()()
        self._values = values
        self._ours: dict[sympy.Symbol, Size] = {}
        self._theirs: dict[Symbol, Any] = {}

    def symint(self, size: Length) -> Any:
        """A SymInt for an expression; a number is itself."""
        if isinstance(size, int):
            return size
        total: Any = 0
        for product, factor in size.terms:
            term: Any = factor
            for atom in product:
                term = (
                    self._atom(atom) if type(term) is int and term == 1 else term * self._atom(atom)
                )
            total = term if type(total) is int and total == 0 else total + term
        return total

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, Symbol):
            return self._symbol(atom)
        left, right = self.symint(atom.left), self.symint(atom.right)
        return _OPERATIONS[getattr(atom, "which", type(atom).__name__)](left, right)

    def _symbol(self, symbol: Symbol) -> Any:
        known = self._theirs.get(symbol)
        if known is None:
            value, source = self._values[symbol.name], fake_tensors.named(symbol.name)
            is_size = symbol.least is not None and symbol.least >= 2
            theirs = self.env.create_symbol(
                value,
                source,
                dynamic_dim=fake_tensors.DIM_DYNAMIC.get().DYNAMIC,
                positive=True if is_size else None,
                do_not_specialize_zero_one=not is_size,
            )
            self._ours[theirs] = Size((((symbol,), 1),))
            known = self.env.create_symintnode(theirs, hint=value, source=source)
            self._theirs[symbol] = known
        return known

    def length(self, number: Any) -> Length:
        """What a SymInt is; a number is itself."""
        if isinstance(number, torch.SymInt):
            expr = number.node.expr
            return plain(self._size(expr))
        return int(number)

    def relations(self) -> tuple[Relation, ...]:
        """What torch has relied on, and does not always hold."""
        found = (
            self._relation(part)
            for guard in self.env.guards
            for part in sympy.And.make_args(guard.expr)
        )
        compared = [compare(each.comparison, each.difference, 0) for each in found]
        return tuple(each for each in compared if isinstance(each, Relation))

    def _relation(self, expr: Any) -> Relation:
        if isinstance(expr, sympy.Not):
            return self._relation(expr.args[0]).negated()
        comparison = _COMPARISONS.get(type(expr))
        if comparison is None:
            raise NeedsNumbers(str(expr))
        left, right = (self._size(side) for side in expr.args)
        return Relation(comparison, left - right)

    def _size(self, expr: Any) -> Size:
        return size_of_expression(expr, self._ours)


def size_of_expression(expr: Any, symbols: Mapping[Any, Size]) -> Size:
    """One of torch's expressions, with sizes for its symbols.

    Raises:
        NeedsNumbers: it has no counterpart.
    """
    if expr.is_Integer:
        return of(int(expr))
    if expr.is_Symbol:
        known = symbols.get(expr)
        if known is None:
            raise NeedsNumbers(str(expr))
        return known
    make = _MAKERS.get(type(expr).__name__)
    if make is None:
        raise NeedsNumbers(str(expr))
    return make(*(size_of_expression(arg, symbols) for arg in expr.args))


# For a backend


def name_of(k: int) -> str:
    """How guards name an input."""
    return f"t{k}"


def context_of(tensor: torch.Tensor, dims: Dims) -> Any:
    """Says that only these dims have symbols."""
    kind, every = fake_tensors.DIM_DYNAMIC.get(), range(tensor.dim())
    own, follows = kind.DYNAMIC, kind.INFER_STRIDE
    return fake_tensors.SYMBOLIC_CONTEXT.get()(
        dynamic_sizes=[kind.DYNAMIC if dim in dims.sizes else kind.STATIC for dim in every],
        dynamic_strides=[own if dim in dims.strides else follows for dim in every],
    )


def symint(env: Any, value: int, source: Any) -> Any:
    """A SymInt for any int, 0, 1 and negative ones too."""
    symbol = env.create_symbol(
        value,
        source,
        dynamic_dim=fake_tensors.DIM_DYNAMIC.get().DYNAMIC,
        positive=None,
        do_not_specialize_zero_one=True,
    )
    return env.create_symintnode(symbol, hint=value, source=source)


def test_of(env: Any, values: Sequence[Any], varies: Collection[int]) -> Callable[..., bool]:
    """A function of real inputs: whether all holds for them that torch has relied on.

    Inputs without symbols are left out, as are places in memory: others test those. What relies
    on more afterwards must not be used: see `fake.relied_on`.
    """
    names = [name_of(k) for k in range(len(values))]
    produced: list[str] = env.produce_guards(
        values, list(map(fake_tensors.named, names)), ignore_static=False
    )
    tests = [
        test
        for test in produced
        if any(int(k) in varies for k in _NAMES.findall(test)) and not _PLACE.fullmatch(test)
    ]
    source = f"lambda {', '.join(names)}: {' and '.join(f'({test})' for test in tests) or True}"
    function: Callable[..., bool] = eval(source, dict(fake_tensors.GUARD_NAMES.get()))

    def test(*inputs: Any) -> bool:
        try:
            return bool(function(*inputs))
        except (AttributeError, IndexError):  # it is no view, or has other dims
            return False

    return test


_NAMES = re.compile(r"\bt(\d+)\b")
_PLACE = re.compile(r"t\d+\.storage_offset\(\) == \d+")

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "FloorDiv": lambda a, b: a // b,
        "Remainder": lambda a, b: a % b,
        "min": torch.sym_min,
        "max": torch.sym_max,
    }
)

_COMPARISONS: Mapping[type, Comparison] = MappingProxyType(
    {
        sympy.Eq: "==",
        sympy.Ne: "!=",
        sympy.StrictLessThan: "<",
        sympy.LessThan: "<=",
        sympy.StrictGreaterThan: ">",
        sympy.GreaterThan: ">=",
    }
)


def _sum(*sizes: Size) -> Size:
    total = of(0)
    for size in sizes:
        total = total + size
    return total


def _product(*sizes: Size) -> Size:
    total = of(1)
    for size in sizes:
        total = total * size
    return total


def _power(base: Size, exponent: Size) -> Size:
    if exponent.constant is None or not 0 <= exponent.constant <= 8:
        raise NeedsNumbers("a power")
    return _product(*[base] * exponent.constant)


def _extreme(which: Any) -> Callable[..., Size]:
    def make(first: Size, *others: Size) -> Size:
        for other in others:
            first = first.extreme(which, other)
        return first

    return make


_MAKERS: Mapping[str, Callable[..., Size]] = MappingProxyType(
    {
        "Add": _sum,
        "Mul": _product,
        "Pow": _power,
        "PowByNatural": _power,
        "FloorDiv": lambda a, b: a // b,
        "CleanDiv": lambda a, b: a // b,
        "Mod": lambda a, b: a % b,
        "PythonMod": lambda a, b: a % b,
        "Max": _extreme("max"),
        "Min": _extreme("min"),
        "Identity": lambda a: a,
    }
)
"""By the name of the class of an expression: sympy's, or torch's own."""
