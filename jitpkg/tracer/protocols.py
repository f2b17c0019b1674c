"""What special methods must give back: where they do not, Python raises in its own words."""

from __future__ import annotations

import sys
from typing import NoReturn

from jitpkg.tracer import classes, reasons
from jitpkg.tracer.values import Constant, Generator, Iterator, Number, String, Value
from jitpkg.tracer.vm import VM


def _refused(vm: VM, special: str, result: Value) -> NoReturn:
    vm.stop(reasons.RAISES, f"{special} returned a {classes.shown(vm.class_of(result))}")


def length(vm: VM, result: Value) -> Value:
    """The length that `__len__` gave."""
    found = vm.peek(result)
    if isinstance(found, Constant | Number) and type(found.value) is int:
        within = vm.compare("<=", found, Constant(sys.maxsize))
        if vm.truth(vm.compare(">=", found, Constant(0))) and vm.truth(within):
            return found
    _refused(vm, "__len__", vm.look(found))


def hash_value(vm: VM, result: Value) -> Value:
    """The hash that `__hash__` gave: -1 is never one, and large numbers are reduced."""
    found = vm.look(result)
    if not isinstance(found, Constant) or not isinstance(found.value, int):
        _refused(vm, "__hash__", found)
    number = int(found.value)
    if not -sys.maxsize - 1 <= number <= sys.maxsize:
        number = hash(number)
    return Constant(-2 if number == -1 else number)


def text(vm: VM, special: str, result: Value) -> Value:
    """The text that `__str__`, `__repr__` or `__format__` gave."""
    if isinstance(result, String):
        return result
    found = vm.look(result)
    if isinstance(found, Constant) and isinstance(found.value, str):
        return found
    _refused(vm, special, found)


def of_class(vm: VM, cls: type, special: str, result: Value) -> Value:
    """What `__int__`, `__index__`, `__float__`, `__complex__` or `__bytes__` gave."""
    found = vm.peek(result)
    if type(getattr(found, "value", None)) is cls:
        return found
    _refused(vm, special, vm.look(found))


def nothing(vm: VM, special: str, result: Value) -> None:
    """`__init__` gives None."""
    found = vm.look(result)
    if not isinstance(found, Constant) or found.value is not None:
        _refused(vm, special, found)


def iterator(vm: VM, result: Value) -> Value:
    """The iterator that `__iter__` gave."""
    found = vm.look(result)
    if isinstance(found, Iterator | Generator) or vm.method_of_class(found, "__next__") is not None:
        return found
    vm.raise_new(
        TypeError, f"iter() returned non-iterator of type '{classes.shown(vm.class_of(found))}'"
    )
