"""Numbers that vary: where they come from, arithmetic with them, comparisons that become guards."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import fx

from jitpkg.facts import sizes
from jitpkg.facts.sizes import Comparison, Length, Relation, Size, Symbol
from jitpkg.facts.tensor import (
    TensorFacts,
    is_idle,
    size_of,
    stride_of,
    strides_in_terms_of,
)
from jitpkg.guards.kinds import ConstantIs, TypeIs
from jitpkg.guards.metadata import size_source, stride_source
from jitpkg.guards.numbers import Compared, Computable, Expression, Formula, Holds
from jitpkg.guards.sources import Source
from jitpkg.marks import Dims, Range
from jitpkg.tracer.values import Constant, Lazy, Number, String, Value
from jitpkg.tracer.vm import VM, Args

# Where they come from


def existing(vm: VM, lazy: Lazy) -> Number | None:
    """An existing number that varies; None where it is a constant."""
    obj, source = lazy.obj, lazy.source
    kind = type(obj)
    if kind is not int and kind is not float:
        return None
    assert isinstance(obj, int | float)
    if not vm.history.varies(source, obj):
        return None
    vm.guard(TypeIs(source, kind))
    symbol = symbol_of(vm, source, obj)
    if kind is int:
        return Number(Size((((symbol,), 1),)), obj, source)
    return Number(symbol, obj, source)


def symbol_of(
    vm: VM,
    origin: Source | Formula,
    value: int | float,
    least: int | None = None,
    most: int | None = None,
) -> Symbol:
    known = vm.symbols.get(origin)
    if known is None:
        known = Symbol(f"s{len(vm.symbols)}", least, most, origin)
        vm.symbols[origin] = known
        vm.symbol_values[known.name] = value
    return known


def symbolic_facts(
    vm: VM, facts: TensorFacts, source: Source, dims: Dims, ranges: Mapping[int, Range]
) -> TensorFacts:
    """The facts of an existing tensor, of which the sizes and strides of some dims vary.

    Sizes that are equal now share a symbol, as equal sizes mostly do, and so do strides. A stride
    that says nothing shares none.

    Args:
        ranges: of sizes, as the program has marked them.
    """
    size: list[Length] = list(facts.size)
    for dim in sorted(dims.sizes):
        at, length = size_source(source, dim), size_of(facts)[dim]
        sizes_ = ranges.get(dim, _ANY)
        known = vm.sizes_by_value.setdefault((sizes_.least, sizes_.most), {})
        size[dim] = _shared(vm, known, at, length, sizes_ if length in sizes_ else _ANY)
    own: dict[int, Length] = {}
    for dim in sorted(dims.strides):
        at, step = stride_source(source, dim), stride_of(facts)[dim]
        if is_idle(facts.size, dim):
            own[dim] = Size((((symbol_of(vm, at, step, least=0),), 1),))
        else:
            own[dim] = _shared(vm, vm.strides_by_value, at, step)
    return replace(facts, size=tuple(size), stride=strides_in_terms_of(facts, size, own))


_ANY = Range()


def _shared(vm: VM, known: dict[int, Symbol], at: Source, value: int, range_: Range = _ANY) -> Size:
    if value not in known:
        known[value] = symbol_of(vm, at, value, range_.least, range_.most)
    if range_.strict:
        vm.strict.setdefault(known[value], at)
    return Size((((known[value],), 1),))


def length(vm: VM, size: Length) -> Value:
    """A size as a value of the program."""
    if isinstance(size, int):
        return Constant(size)
    if size.constant is not None:
        return Constant(size.constant)
    return Number(size, size.value(vm.int_values()))


# What they are


def constant(vm: VM, number: Number | String) -> Constant:
    """The number or text that it is now, for a use that needs to know it: a guard says so."""
    expression = number.expression
    if isinstance(number, String):
        vm.guard(Holds(Compared("==", expression, number.value, True)))
        return Constant(number.value)
    if isinstance(expression, Symbol):
        assert not isinstance(expression.origin, Formula)
        vm.guard(ConstantIs(_source(expression), number.value))
    elif isinstance(expression, Size):
        require(vm, sizes.compare("==", expression, int(number.value)))
    else:
        vm.guard(Holds(Compared("==", expression, number.value, True)))
        if number.value == 0:  # which of the two
            sign = math.copysign(1.0, number.value)
            vm.guard(Holds(Compared("==", Formula(math.copysign, (1.0, expression)), sign, True)))
    return Constant(number.value, number.source)


def _origin(expression: Symbol | Formula) -> Source | Formula:
    if isinstance(expression, Formula):
        return expression
    return cast(Source | Formula, expression.origin)


def _source(symbol: Symbol) -> Source:
    return cast(Source, symbol.origin)


def now(vm: VM, length: Length) -> int:
    """What a length is in the call at hand, which is guarded."""
    size = sizes.of(length)
    value = size.value(vm.int_values())
    require(vm, sizes.compare("==", size, value), of_program=False)
    return value


def require(vm: VM, relation: bool | Relation, *, of_program: bool = True) -> bool:
    """What a relation says now; a guard says that it goes on saying so.

    Args:
        of_program: whether the program relies on it, and not only the compiler.
    """
    if isinstance(relation, bool):
        return relation
    holds = relation.holds(vm.int_values())
    guard = Holds(relation if holds else relation.negated())
    vm.guard(guard)
    if vm.strict and of_program:
        _note_if_decided(vm, guard)
    return holds


def _note_if_decided(vm: VM, guard: Holds) -> None:
    """Note a relation under which a size that is to vary is one number."""
    assert isinstance(guard.relation, Relation)
    symbols = set(guard.relation.symbols())
    if guard.relation.comparison == "==" and len(symbols) == 1 and symbols <= vm.strict.keys():
        vm.decided[guard] = vm.stack_here()


def _of_constant(value: Value) -> int | float | None:
    if isinstance(value, Constant) and type(value.value) in (int, float, bool):
        number: Any = value.value
        return int(number) if type(number) is bool else number
    return None


def _operand(value: Value) -> Expression | int | float | None:
    """A number as an operand; None for anything else."""
    if isinstance(value, Number):
        return value.expression
    return _of_constant(value)


def _now(value: Value) -> int | float:
    if isinstance(value, Number):
        return value.value
    number = _of_constant(value)
    assert number is not None
    return number


def among(vm: VM, values: Iterable[Value]) -> bool:
    """Whether a number that varies is among these."""
    return any(isinstance(vm.peek(value), Number) for value in values)


# Operations


def compare(vm: VM, name: str, a: Value, b: Value) -> Value | None:
    """`a < b` and its like; None where one is no number."""
    left, right = _operand(a), _operand(b)
    if left is None or right is None:
        return None
    name = cast(Comparison, name)
    if isinstance(left, Size | int) and isinstance(right, Size | int):
        return Constant(require(vm, sizes.compare(name, left, right)))
    result = bool(_COMPARISONS[name](_now(a), _now(b)))
    vm.guard(Holds(Compared(name, left, right, result)))
    return Constant(result)


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


def truth(vm: VM, number: Number) -> bool:
    """`bool(number)`"""
    found = compare(vm, "!=", number, Constant(0))
    assert isinstance(found, Constant)
    return bool(found.value)


def binary(vm: VM, name: str, a: Value, b: Value) -> Value | None:
    """`a + b` and its like; None where the numbers must be known for it."""
    left, right = _operand(a), _operand(b)
    if left is None or right is None:
        return None
    if isinstance(left, Size | int) and isinstance(right, Size | int):
        whole = _whole(vm, name, left, right)
        if whole is not None:
            return length(vm, whole)
    function = FUNCTIONS.get(name)
    if function is None or (name == "**" and not _keeps_class(vm, a, b)):
        return None
    try:
        value = function(_now(a), _now(b))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return computed(vm, function, (left, right), value, f"{{}} {name} {{}}")


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": operator.floordiv,
        "%": operator.mod,
        "**": operator.pow,
        "<<": operator.lshift,
        ">>": operator.rshift,
        "&": operator.and_,
        "|": operator.or_,
        "^": operator.xor,
    }
)
"""Of two numbers each gives one of a class that depends on theirs only, but for powers."""


def _keeps_class(vm: VM, base: Value, exponent: Value) -> bool:
    """Whether a power is of the same class for all such numbers; a guard says which these are.

    A negative power of an int is a float, and a broken power of a negative number is complex.
    """
    is_whole = type(_now(exponent)) is int
    if is_whole and type(_now(base)) is float:
        return True
    decisive = exponent if is_whole else base
    if not isinstance(decisive, Number):
        return _now(decisive) >= 0
    found = compare(vm, ">=", decisive, Constant(0))
    return isinstance(found, Constant) and found.value is True


def _whole(vm: VM, name: str, left: Length, right: Length) -> Size | None:
    """Of whole numbers, a whole number."""
    a = sizes.of(left)
    match name:
        case "+":
            return a + right
        case "-":
            return a - right
        case "*":
            return a * right
        case "//" | "%":
            if not require(vm, sizes.compare("!=", right, 0)):
                return None
            return a // right if name == "//" else a % right
        case "**" if isinstance(right, int) and 0 <= right <= _POWERS:
            return math.prod([a] * right, start=sizes.of(1))
    return None


_POWERS = 4
"""A higher power of a number is left to the number itself."""


def unary(vm: VM, name: str, number: Number) -> Value | None:
    """`-number` and its like."""
    if name == "+":
        return number
    if name == "-" and isinstance(number.expression, Size):
        return length(vm, -number.expression)
    if name == "~" and isinstance(number.expression, Size):
        return length(vm, -number.expression - 1)
    if name == "-":
        return computed(vm, operator.neg, (number.expression,), -number.value, "-{}")
    return None


def computed(
    vm: VM,
    function: Callable[..., Any],
    operands: tuple[Expression | int | float, ...],
    value: Any,
    template: str | None = None,
) -> Value | None:
    """What a function makes of numbers, as Python computes it."""
    formula = Formula(function, operands, template)
    if type(value) is not int and not (type(value) is float and math.isfinite(value)):
        return None
    if not _is_total(function, operands):
        vm.guard(Holds(Computable(formula)))
    if type(value) is int:
        symbol = symbol_of(vm, formula, value)
        return Number(Size((((symbol,), 1),)), value)
    return Number(formula, value)


_TOTAL: frozenset[Any] = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.neg, operator.and_, operator.or_,
        operator.xor, abs, float, math.fabs, math.tanh, math.atan, math.atan2, math.erf,
        math.copysign, math.hypot, math.gcd,
    }
)  # fmt: skip
"""Functions that raise nothing, whichever numbers they are given."""
_OF_FLOATS: frozenset[Any] = frozenset({int, math.floor, math.ceil, math.trunc, builtins.round})
"""Functions that raise nothing if given whole numbers."""
_BY: frozenset[Any] = frozenset(
    {operator.truediv, operator.floordiv, operator.mod, operator.lshift, operator.rshift}
)
"""Functions that raise nothing if the second number is positive, if it is a constant."""


def _is_total(function: Callable[..., Any], operands: Sequence[Expression | int | float]) -> bool:
    """Whether Python raises nothing when it computes this, whatever the numbers are."""
    if function in _OF_FLOATS:
        return all(isinstance(operand, Size | int) for operand in operands)
    if function in _BY:
        divisor = operands[1]
        return isinstance(divisor, int | float) and divisor > 0
    return function in _TOTAL


def call(vm: VM, function: Any, args: Args) -> Value | None:
    """A call of a function that computes with numbers; None where it must know them."""
    row = _ROWS.get(function)
    if row is not None:
        return row(vm, *args)
    if function not in _PURE or not all(_operand(arg) is not None for arg in args):
        return None
    try:
        value = function(*map(_now, args))
    except (ArithmeticError, ValueError, TypeError):
        return None
    operands = tuple(operand for arg in args if (operand := _operand(arg)) is not None)
    return computed(vm, function, operands, value)


_PURE: frozenset[Any] = frozenset(
    {
        math.sqrt,
        math.log,
        math.log2,
        math.log10,
        math.exp,
        math.cos,
        math.sin,
        math.tanh,
        math.floor,
        math.ceil,
        math.pow,
        math.fabs,
        math.trunc,
        math.log1p,
        math.expm1,
        math.tan,
        math.atan,
        math.atan2,
        math.sinh,
        math.cosh,
        math.erf,
        math.hypot,
        math.fmod,
        math.copysign,
        math.isqrt,
        math.gcd,
        builtins.round,
        float,
        int,
    }
)


def _extreme(name: Any) -> Callable[..., Value | None]:
    def row(vm: VM, *args: Value) -> Value | None:
        if len(args) < 2 or any(map(_is_bool, args)):
            return None  # a bool is returned as it is
        operands = [_operand(arg) for arg in args]
        found: Size | None = None
        for operand in operands:
            if not isinstance(operand, Size | int):
                return None
            found = sizes.of(operand) if found is None else found.extreme(name, operand)
        assert found is not None
        return length(vm, found)

    return row


def _is_bool(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, bool)


def _of_one(row: Callable[[VM, Value], Value | None]) -> Callable[..., Value | None]:
    return lambda vm, *args: row(vm, *args) if len(args) == 1 else None


def _absolute(vm: VM, value: Value) -> Value | None:
    if not isinstance(value, Number):
        return None
    if not isinstance(value.expression, Size):
        return computed(vm, abs, (value.expression,), abs(value.value))
    positive = compare(vm, ">=", value, Constant(0))
    assert isinstance(positive, Constant)
    return value if positive.value else unary(vm, "-", value)


def _int(vm: VM, value: Value) -> Value | None:
    if isinstance(value, Number) and isinstance(value.expression, Size):
        return value
    return None


def _operator(name: str) -> Callable[..., Value | None]:
    return lambda vm, *args: binary(vm, name, *args) if len(args) == 2 else None


_ROWS: Mapping[Any, Callable[..., Value | None]] = MappingProxyType(
    {
        min: _extreme("min"),
        max: _extreme("max"),
        abs: _of_one(_absolute),
        operator.index: _of_one(_int),
        operator.add: _operator("+"),
        operator.sub: _operator("-"),
        operator.mul: _operator("*"),
        operator.truediv: _operator("/"),
        operator.floordiv: _operator("//"),
        operator.mod: _operator("%"),
        operator.pow: _operator("**"),
    }
)

HANDLED: frozenset[Any] = frozenset({*_ROWS, *_PURE})
"""Functions that `call` may know an answer for."""


# In the graph


def node(vm: VM, number: Number) -> fx.Node:
    """The graph's node for a number."""
    known = vm.number_nodes.get(number.expression)
    if known is None:
        known = _node(vm, number.expression)
    return known


def _node(vm: VM, expression: Expression) -> fx.Node:
    known = vm.number_nodes.get(expression)
    if known is not None:
        return known
    match expression:
        case Symbol() | Formula():
            value = _value(vm, expression)
            found = vm.graph.number(_origin(expression), value)
        case Size():
            found = _size_node(vm, expression)
    vm.number_nodes[expression] = found
    return found


def _value(vm: VM, expression: Symbol | Formula) -> int | float:
    if isinstance(expression, Symbol):
        return vm.symbol_values[expression.name]
    operands = (
        _value(vm, operand)
        if isinstance(operand, Symbol | Formula)
        else operand.value(vm.int_values())
        if isinstance(operand, Size)
        else operand
        for operand in expression.operands
    )
    found: int | float = expression.function(*operands)
    return found


def _size_node(vm: VM, size: Size) -> fx.Node:
    total: Any = None
    for product, factor in size.terms:
        term: Any = None
        for atom in product:
            part = _atom_node(vm, atom)
            term = part if term is None else vm.graph.arithmetic(operator.mul, (term, part))
        if term is None:
            term = factor
        elif factor != 1:
            term = vm.graph.arithmetic(operator.mul, (term, factor))
        total = term if total is None else vm.graph.arithmetic(operator.add, (total, term))
    found: fx.Node = total
    return found


def _atom_node(vm: VM, atom: Any) -> fx.Node:
    if isinstance(atom, Symbol):
        return _node(vm, atom)
    sides = tuple(
        side.constant if side.constant is not None else _node(vm, side)
        for side in (atom.left, atom.right)
    )
    function = _ATOMS[getattr(atom, "which", type(atom).__name__)]
    return vm.graph.arithmetic(function, sides)


_ATOMS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "FloorDiv": operator.floordiv,
        "Remainder": operator.mod,
        "min": torch.sym_min,
        "max": torch.sym_max,
    }
)
