"""Torch-function modes that are entered inside of a trace: torch's calls ask them first.

What torch would hand a mode is asked of torch itself: the same call is made on tensors without
data, under a mode that only listens. What the innermost mode does with it is traced, and the calls
in there ask the next one. The graph knows of no mode.
"""

from __future__ import annotations

import operator
import types
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode, handle_torch_function

from jitpkg.internals import library
from jitpkg.tracer import classes, overheard, reasons
from jitpkg.tracer.polyfills import indexing_modes
from jitpkg.tracer.values import (
    Constant,
    Known,
    Object,
    Tensor,
    Value,
)
from jitpkg.tracer.vm import VM, Args, Kwargs


def enter(vm: VM, mode: Value) -> None:
    """What `with mode:` does in the end."""
    if vm.devices:
        vm.stop(reasons.UNSUPPORTED, "a torch-function mode inside of a default device")
    vm.function_modes = (*vm.function_modes, mode)
    vm.asked_modes = len(vm.function_modes)


def leave(vm: VM) -> Value:
    """Leave the innermost mode, which is returned."""
    if not vm.function_modes:
        vm.stop(
            reasons.FOREIGN_CALL, "leaving a torch-function mode that the graph has not entered"
        )
    *outer, mode = vm.function_modes
    vm.function_modes = tuple(outer)
    vm.asked_modes = len(outer)
    return mode


# Where torch would ask


def of_call(vm: VM, function: Any, args: Args, kwargs: Kwargs, *, by_row: bool) -> Value | None:
    """What the innermost mode makes of a call; None where torch asks none.

    Args:
        by_row: whether the tracer has a row for the function, and would not trace it.
    """
    if not _asks(vm):
        return _of_index(vm, args) if function is torch.Tensor.__getitem__ else None
    if overheard.is_silent(function):
        return None
    if not overheard.is_told(function):
        if overheard.may_tell(function, by_row=by_row):
            vm.stop(reasons.UNSUPPORTED, f"{function.__name__} under a torch-function mode")
        return None
    return _heard(vm, function, args, kwargs)


def of_op(vm: VM, target: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """The same of an operator, or of an op that stands for something else."""
    if not _asks(vm):
        return _of_index(vm, args) if target is operator.getitem else None
    name = target if isinstance(target, str) else target.__name__
    if isinstance(target, str) or target.__module__ not in ("_operator", "builtins"):
        vm.stop(reasons.UNSUPPORTED, f"what comes to {name} under a torch-function mode")
    return _heard(vm, target, args, kwargs) or _told_nothing(vm, name)


def of_attribute(vm: VM, tensor: Tensor, name: str) -> Value | None:
    """The same of `tensor.name`."""
    return _heard(vm, getattr, (tensor, Constant(name)), {}) if _asks(vm) else None


def of_python(vm: VM, args: Args, kwargs: Kwargs) -> Value:
    """The same of a function of torch's in Python, which hands its call over itself."""
    return _heard(vm, handle_torch_function, args, kwargs) or _told_nothing(vm, "a function")


def stop_at(vm: VM, what: str) -> None:
    """End the trace where a mode would be asked of what no op stands for."""
    if _asks(vm):
        vm.stop(reasons.UNSUPPORTED, f"{what} under a torch-function mode")


def are_asked(vm: VM) -> bool:
    """Whether a function of torch's in Python has to ask."""
    return vm.asked_modes > 0 and _asks(vm)


def _told_nothing(vm: VM, name: str) -> NoReturn:
    vm.stop(reasons.UNSUPPORTED, f"{name}, of which torch tells no torch-function mode")


def _asks(vm: VM) -> bool:
    """Whether a mode is asked of more than indexing. What stands for a function of torch's own is
    no call of the program's."""
    if all(_is_of_indexing(vm, mode) for mode in vm.function_modes[: vm.asked_modes]):
        return False
    frame = vm.frames[-1]
    if frame.trusted and frame.namespace.get("__name__") in _STANDING_FOR_TORCH:
        vm.stop(reasons.UNSUPPORTED, "a function in Python of torch's under a torch-function mode")
    return True


_STANDING_FOR_TORCH = frozenset(
    f"jitpkg.tracer.polyfills.{name}"
    for name in """
        attention autograd_functions differentiation optimizers recurrent_cells torch_functions
        transforms
        """.split()
)


# Modes of indexing


def _is_of_indexing(vm: VM, mode: Value) -> bool:
    """Whether a mode is asked of nothing but `x[…]`: torch's own, which a transform needs."""
    if isinstance(mode, Known):
        return mode.obj is indexing_modes.indexed
    if not isinstance(mode, Object):
        return False
    found = classes.lookup(vm, mode.cls, "__torch_function__")
    if not isinstance(found, types.FunctionType):
        return False
    return f"{found.__module__}.{found.__qualname__}" == library.INDEXING_MODE


def _of_index(vm: VM, args: Args) -> Value:
    *outer, _ = vm.function_modes[: vm.asked_modes]
    return _within(vm, len(outer), vm.trusted(indexing_modes.indexed), args, {})


# What torch hands over


def _heard(vm: VM, function: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """What the innermost mode makes of a call; None where torch tells none."""
    told = overheard.told(vm, function, args, kwargs, listening=_Listening())
    if told is None:
        return None
    mode = vm.function_modes[vm.asked_modes - 1]
    handler = vm.attribute(mode, "__torch_function__")
    given = told.given(vm, told.classes)
    result = _within(vm, vm.asked_modes - 1, handler, given, {})
    if vm.same(result, Constant(NotImplemented)):
        vm.stop(reasons.UNSUPPORTED, "a torch-function mode that returns NotImplemented")
    return result


class _Listening(TorchFunctionMode):
    def __torch_function__(self, *told: Any) -> Any:
        raise overheard.Heard(told)


def _within(vm: VM, asked: int, function: Value, args: Args, kwargs: Kwargs) -> Value:
    """Call what a mode does: of the modes only the first `asked` ones are asked inside."""
    before, vm.asked_modes = vm.asked_modes, asked
    try:
        return vm.call(function, args, kwargs)
    finally:
        vm.asked_modes = before


__all__ = [
    "are_asked",
    "enter",
    "leave",
    "of_attribute",
    "of_call",
    "of_op",
    "of_python",
    "stop_at",
]
