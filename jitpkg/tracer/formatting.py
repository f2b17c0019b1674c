"""Text of values: f-strings, str(), repr(), format()."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import cast

import torch

from jitpkg.guards.numbers import Computable, Expression, Formula, Holds
from jitpkg.tracer import classes, constants, protocols, reasons
from jitpkg.tracer.values import (
    Constant,
    DictView,
    Known,
    Number,
    Object,
    String,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM

_CONVERSIONS = {1: str, 2: repr, 3: ascii}


def converted(vm: VM, value: Value, conversion: int) -> Value:
    """`!s`, `!r`, `!a` of an f-string; 0 is none."""
    return vm.call_object(_CONVERSIONS[conversion], value) if conversion else value


def formatted(vm: VM, value: Value, spec: Value) -> Value:
    """`format(value, spec)`"""
    spec = vm.look(spec)
    if isinstance(value, String) and _is_empty(spec):
        return value
    value = vm.peek(value)
    if isinstance(value, Number) and isinstance(spec, Constant):
        made = of_numbers(vm, format, (value, spec))
        if made is not None:
            return made
    value = vm.look(value)
    if isinstance(value, Constant) and isinstance(spec, Constant):
        return constants.fold(vm, format, (value, spec))
    if isinstance(value, Tensor):
        vm.stop(reasons.DATA_VALUE, "the text of a tensor")
    if classes.inherits(vm, vm.class_of(value), object, "__format__") and _is_empty(spec):
        return text(vm, value)
    method = vm.method_of_class(value, "__format__")
    assert method is not None
    return protocols.text(vm, "__format__", vm.call(method, (spec,)))


def _is_empty(spec: Value) -> bool:
    return isinstance(spec, Constant) and spec.value == ""


def of_numbers(
    vm: VM, function: Callable[..., str], values: Sequence[Value], template: str | None = None
) -> String | None:
    """The text that a function makes of numbers that vary, of other texts and of constants.

    None where it is made of anything else, or of constants alone; or where it cannot be made.
    """
    values = [value if isinstance(value, String) else vm.peek(value) for value in values]
    if not any(isinstance(value, String | Number) for value in values):
        return None
    operands: list[Expression | int | float | str] = []
    for value in values:
        match value:
            case String() | Number():
                operands.append(value.expression)
            case Constant(int() | float() | str() as constant) if type(constant) in _PLAIN:
                operands.append(constant)
            case _:
                return None
    try:
        now = function(*(getattr(value, "value") for value in values))  # noqa: B009
    except Exception:  # Python will raise it itself
        return None
    formula = Formula(function, tuple(operands), template)
    if function not in _TOTAL:
        vm.guard(Holds(Computable(formula)))
    return String(formula, now)


_PLAIN = (int, float, str)


def joined(vm: VM, pieces: Sequence[Value]) -> Value:
    """The pieces of an f-string, or texts that are added."""
    template = " + ".join("{}" for _ in pieces)
    made = of_numbers(vm, _together, pieces, template)
    if made is not None:
        return made
    return Constant(_together(*(cast(str, cast(Constant, vm.look(p)).value) for p in pieces)))


def _together(*pieces: str) -> str:
    return "".join(pieces)


_TOTAL = frozenset({str, repr, _together})
"""Functions that raise nothing, whichever numbers they are given."""


def text(vm: VM, value: Value) -> Value:
    """`str(value)`"""
    if isinstance(value, String):
        return value
    value = vm.peek(value)
    if isinstance(value, Number):
        return of_numbers(vm, str, (value,)) or text(vm, vm.look(value))
    if isinstance(value, Constant):
        return Constant(str(value.value))
    if isinstance(value, Tensor):
        vm.stop(reasons.DATA_VALUE, "the text of a tensor")
    cls = vm.class_of(value)
    if classes.inherits(vm, cls, object, "__str__"):
        return representation(vm, value)
    method = vm.method_of_class(value, "__str__")
    assert method is not None
    return protocols.text(vm, "__str__", vm.call(method, ()))


_DEEPEST = 20


def representation(vm: VM, value: Value, depth: int = 0) -> Value:
    """`repr(value)`, inside of so many containers."""
    if depth > _DEEPEST:
        vm.stop(reasons.TOO_LONG, "the text of a container that may hold itself")
    value = vm.peek(value)
    if isinstance(value, Number):
        return of_numbers(vm, repr, (value,)) or representation(vm, vm.look(value))
    match value:
        case Constant():
            return Constant(repr(value.value))
        case Tensor():
            vm.stop(reasons.DATA_VALUE, "the text of a tensor")
        case Tuple(items, cls) if cls is tuple:
            pieces = [_repr(vm, item, depth) for item in items]
            return Constant(f"({pieces[0]},)" if len(pieces) == 1 else f"({', '.join(pieces)})")
        case Tuple(items, cls) if cls is torch.Size:
            return Constant(f"torch.Size([{', '.join(_repr(vm, item, depth) for item in items)}])")
        case Object(cls) if cls is list:
            return Constant(f"[{', '.join(_repr(vm, item, depth) for item in vm.unpack(value))}]")
        case Object(cls) if cls is dict:
            items_ = vm.unpack(DictView(value, "items"))
            pairs = [pair.items for pair in items_ if isinstance(pair, Tuple)]
            inner = ", ".join(f"{_repr(vm, k, depth)}: {_repr(vm, v, depth)}" for k, v in pairs)
            return Constant("{" + inner + "}")
        case Object(cls) if cls in (set, frozenset):
            inner = ", ".join(_repr(vm, item, depth) for item in vm.unpack(value))
            if not inner:
                return Constant(f"{cls.__name__}()")
            return Constant(f"{{{inner}}}" if cls is set else f"frozenset({{{inner}}})")
        case Known(enum.Enum() as member) if classes.inherits(
            vm, type(member), enum.Enum, "__repr__"
        ):
            return Constant(repr(member))
    cls = vm.class_of(value)
    if classes.inherits(vm, cls, object, "__repr__"):
        vm.stop(reasons.IDENTITY, "the default repr(), which shows an address")
    method = vm.method_of_class(value, "__repr__")
    if method is None:
        vm.stop(reasons.UNSUPPORTED, f"repr() of a {cls.__qualname__}")
    return protocols.text(vm, "__repr__", vm.call(method, ()))


def _repr(vm: VM, value: Value, depth: int) -> str:
    result = vm.look(representation(vm, value, depth + 1))
    if not isinstance(result, Constant) or not isinstance(result.value, str):
        vm.stop(reasons.UNSUPPORTED, "a repr() that is no constant")
    return result.value
