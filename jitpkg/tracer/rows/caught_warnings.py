"""`warnings.catch_warnings`: what it changes is undone at its end, and what it sees is a break.

So where nothing warns in a block, or all warnings are ignored there, nothing of it is left but that
Python forgets which warnings were shown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from jitpkg.tracer import reasons, replayed
from jitpkg.tracer.effects import CallMethod
from jitpkg.tracer.polyfills import catching
from jitpkg.tracer.rows.table import CallTable, by_polyfill, text_of
from jitpkg.tracer.values import NONE, Constant, Known, Value
from jitpkg.tracer.vm import VM

TABLE = CallTable()


@TABLE.row(catching.begin)
def begin(vm: VM) -> Value:
    vm.catching = (*vm.catching, bool(vm.catching) and vm.catching[-1])
    return NONE


@TABLE.row(catching.end)
def end(vm: VM) -> Value:
    if not vm.catching:
        vm.stop(reasons.LIBRARY, "catch_warnings that the graph has not entered")
    vm.catching = vm.catching[:-1]
    vm.effect(CallMethod(replayed.filters_were_caught, vm.trusted(warnings), ()))
    return NONE


@TABLE.row(catching.refused)
def not_caught(vm: VM, why: Value) -> Value:
    vm.stop(reasons.LIBRARY, f"catch_warnings with {text_of(vm, why)}")


TABLE.add(warnings.catch_warnings.__init__, by_polyfill(catching.init))
TABLE.add(warnings.catch_warnings.__enter__, by_polyfill(catching.enter))
TABLE.add(warnings.catch_warnings.__exit__, by_polyfill(catching.exit_))


def _filtering(change: Callable[..., None]) -> Callable[..., Value]:
    """A change of what warnings are shown, until the end of a block."""

    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        name = f"warnings.{change.__name__}"
        if not vm.catching:
            vm.stop(reasons.LIBRARY, name)
        given = [_known(vm, value, name) for value in args]
        named = {key: _known(vm, value, name) for key, value in kwargs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("default", lineno=1)  # behind which another may be put
            try:
                change(*given, **named)
            except (AssertionError, TypeError, ValueError) as error:
                vm.stop(reasons.RAISES, f"{name} raises {type(error).__name__}")
            ignores = list(warnings.filters[:1]) == _IGNORING
        vm.catching = (*vm.catching[:-1], ignores)
        return NONE

    return row


def _known(vm: VM, value: Value, name: str) -> Any:
    match vm.look(value):
        case Constant(constant):
            return constant
        case Known(type() as cls):
            return cls
        case _:
            vm.stop(reasons.LIBRARY, f"{name} of what is no constant")


_IGNORING = [("ignore", None, Warning, None, 0)]

for _change in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    TABLE.add(_change, _filtering(_change))
