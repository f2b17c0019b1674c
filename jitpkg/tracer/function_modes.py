"""Torch-function modes that are entered inside of a trace: torch's calls ask them first.

What torch would hand a mode is asked of torch itself: the same call is made on tensors without
data, under a mode that only listens. What the innermost mode does with it is traced, and the calls
in there ask the next one. The graph knows of no mode.
"""

from __future__ import annotations

import operator
import types
from dataclasses import field
from functools import cache
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode, get_overridable_functions, handle_torch_function

from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Length
from jitpkg.facts.tensor import TensorFacts
from jitpkg.facts.thread_state import snapshot
from jitpkg.internals import Row, library, modes
from jitpkg.internals.ops import OpOverload, OpOverloadPacket
from jitpkg.tracer import classes, constants, containers, reasons, state, torch_calls
from jitpkg.tracer.polyfills import indexing_modes
from jitpkg.tracer.values import (
    Constant,
    Known,
    Number,
    Object,
    Opaque,
    Reading,
    Slice,
    Tensor,
    Tuple,
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
    if _is_silent(function):
        return None
    if not _is_asked(function):
        if _may_ask(function, by_row=by_row):
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


@cache
def _asked() -> frozenset[object]:
    """Functions and methods of which torch tells a mode."""
    listed = {
        function for functions in get_overridable_functions().values() for function in functions
    }
    ops = (
        *torch_calls.graph_functions(),
        *torch_calls.tensor_methods(),
        *torch_calls.real_methods(),
    )
    return frozenset({*listed, *ops, *state.rows()})


def _is_asked(function: object) -> bool:
    if isinstance(function, OpOverload | OpOverloadPacket | types.MethodWrapperType):
        return True
    try:
        known = function in _asked()
    except TypeError:
        return False
    is_python = isinstance(function, types.FunctionType)
    return known and (not is_python or not _is_traced(function))


def _is_traced(function: object) -> bool:
    """Whether a function in Python is traced, and hands over its calls itself."""
    leaves = (
        torch_calls.graph_functions(),
        torch_calls.tensor_methods(),
        torch_calls.real_methods(),
    )
    return not any(function in each for each in leaves)


def _may_ask(function: object, *, by_row: bool) -> bool:
    """Whether it is a function of torch's that is not traced, and of which nobody knows."""
    is_c = isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType)
    return (is_c or by_row) and (getattr(function, "__module__", None) or "").startswith("torch")


def _is_silent(function: object) -> bool:
    """Whether it is one that asks no mode."""
    private = (row.found() for row in _SILENT_AND_PRIVATE)
    return any(function is each for each in (*_SILENT, *private))


_SILENT_AND_PRIVATE: tuple[Row[Any], ...] = (
    modes.ENTER_FUNCTION_MODE,
    modes.LEAVE_FUNCTION_MODE,
    modes.LOG_USAGE,
    modes.CHECK,
    modes.CHECK_WITH,
    modes.INFERENCE_MODE,
)
_SILENT = (
    torch.is_tensor,
    torch.Size,
    torch.compiler.is_compiling,
    torch.compiler.is_dynamo_compiling,
    torch.compiler.is_exporting,
    torch.overrides.is_tensor_like,
    torch.overrides.handle_torch_function,
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
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
    standing = _Standing(vm)
    real_args = [standing.for_(value) for value in args]
    real_kwargs = {name: standing.for_(value) for name, value in kwargs.items()}
    told = _overheard(vm, function, real_args, real_kwargs)
    if told is None:
        return None
    heard, classes_, *rest = told
    given, named = (*rest, {})[:2] if rest else ((), {})
    vm_args = Tuple(tuple(map(standing.value, given)))
    mode = vm.function_modes[vm.asked_modes - 1]
    handler = vm.attribute(mode, "__torch_function__")
    call_args: list[Value] = [vm.trusted(heard), vm.trusted(tuple(classes_)), vm_args]
    if len(rest) > 1:
        items = [(Constant(name), standing.value(each)) for name, each in (named or {}).items()]
        call_args.append(Constant(None) if named is None else vm.new_dict(items))
    result = _within(vm, vm.asked_modes - 1, handler, tuple(call_args), {})
    if vm.same(result, Constant(NotImplemented)):
        vm.stop(reasons.UNSUPPORTED, "a torch-function mode that returns NotImplemented")
    return result


def _within(vm: VM, asked: int, function: Value, args: Args, kwargs: Kwargs) -> Value:
    """Call what a mode does: of the modes only the first `asked` ones are asked inside."""
    before, vm.asked_modes = vm.asked_modes, asked
    try:
        return vm.call(function, args, kwargs)
    finally:
        vm.asked_modes = before


class _Heard(BaseException):
    """What a mode is told, on its way out of the call."""

    def __init__(self, told: tuple[Any, ...]) -> None:
        self.told = told


class _Listening(TorchFunctionMode):
    def __torch_function__(self, *told: Any) -> Any:
        raise _Heard(told)


def _overheard(
    vm: VM, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> tuple[Any, ...] | None:
    restore = snapshot()
    try:
        with _Listening():
            function(*args, **kwargs)
    except _Heard as heard:
        return heard.told
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        if function is getattr:
            return None
        vm.stop(reasons.RAISES, f"{function.__name__} raises {type(error).__name__}: {error}")
    finally:
        restore()
    return None


class _Int(int):
    """A number that is told from any other one."""


class _Float(float):
    """The same of a float."""


class _Other:
    """What stands for an object that is no argument of an op's."""


@dataclass
class _Standing:
    """Objects that stand for values in a call."""

    vm: VM
    known: dict[int, tuple[Any, Value]] = field(default_factory=dict)
    """By identity: an object, which is kept alive, and what it stands for."""
    tensors: dict[Tensor, torch.Tensor] = field(default_factory=dict)

    def for_(self, value: Value) -> Any:
        value = self.vm.glance(value)
        made = self._made(value)
        if not isinstance(value, Constant):
            self.known[id(made)] = (made, value)
        return made

    def _made(self, value: Value) -> Any:
        match value:
            case Tensor():
                if value not in self.tensors:
                    self.tensors[value] = _without_data(self.vm, self.vm.facts(value))
                return self.tensors[value]
            case Constant() | Known():
                return constants.python_value(self.vm, value)
            case Number() if type(value.value) is int:
                return _Int(value.value)
            case Number():
                return _Float(value.value)
            case Reading():
                return _Other()
            case Tuple(items, cls) if hasattr(cls, "_make"):
                return cls._make(map(self.for_, items))
            case Tuple(items, _):
                return tuple(map(self.for_, items))
            case Slice(start, stop, step):
                return slice(*map(self.for_, (start, stop, step)))
            case Object(cls=cls) if cls is list:
                return list(map(self.for_, containers.list_items(self.vm, value)))
            case Opaque():
                self.vm.refuse(value)
            case _:
                return _Other()

    def value(self, heard: Any) -> Value:
        """The value that an object stands for."""
        found = self.known.get(id(heard))
        if found is not None:
            return found[1]
        match heard:
            case tuple() if type(heard) is tuple:
                return Tuple(tuple(map(self.value, heard)))
            case list():
                return self.vm.new_list([self.value(each) for each in heard])
            case torch.Tensor() | _Other() | _Int() | _Float():
                self.vm.stop(reasons.UNSUPPORTED, "a call that torch changes for a mode")
            case type() | types.FunctionType() | types.BuiltinFunctionType():
                return self.vm.trusted(heard)
        return constants.wrapped(self.vm, heard)


def _without_data(vm: VM, facts: TensorFacts) -> torch.Tensor:
    def now(length: Length) -> int:
        return length if isinstance(length, int) else length.value(vm.int_values())

    size, stride = tuple(map(now, facts.size)), tuple(map(now, facts.stride))
    made = torch.empty_strided(size, stride, dtype=facts.dtype, device="meta")
    if facts.cls is not torch.Tensor:
        return torch.nn.Parameter(made, requires_grad=facts.requires_grad)
    return made.requires_grad_(facts.requires_grad)


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
