"""What torch would hand to a `__torch_function__`: torch itself is asked.

The call is made on objects that stand for its arguments, and somebody listens: a mode, or a tensor
of a class made for it. What that is told comes back as values.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from functools import cache
from typing import Any

import torch
from torch.overrides import get_overridable_functions

from jitpkg.dataclass import dataclass
from jitpkg.facts import symbolic
from jitpkg.facts.sizes import Length, Size
from jitpkg.facts.symbolic import Decisions
from jitpkg.facts.tensor import TensorFacts
from jitpkg.facts.thread_state import snapshot
from jitpkg.internals import Row, modes
from jitpkg.internals.ops import OpOverload, OpOverloadPacket
from jitpkg.tracer import constants, containers, numbers, reasons, state, torch_calls
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

# Of which functions torch tells


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


def is_told(function: object) -> bool:
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


def may_tell(function: object, *, by_row: bool) -> bool:
    """Whether it is a function of torch's that is not traced, and of which nobody knows."""
    is_c = isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType)
    return (is_c or by_row) and (getattr(function, "__module__", None) or "").startswith("torch")


def is_silent(function: object) -> bool:
    """Whether it is one that asks no mode."""
    private = (row.found() for row in _SILENT_AND_PRIVATE)
    return any(function is each for each in (*_SILENT, *private))


_SILENT_AND_PRIVATE: tuple[Row[Any], ...] = (
    modes.ENTER_FUNCTION_MODE,
    modes.LEAVE_FUNCTION_MODE,
    modes.LOG_USAGE,
    modes.NO_FUNCTION,
    modes.WITHOUT_SUBCLASSES,
    modes.CHECK,
    modes.CHECK_WITH,
    modes.INFERENCE_MODE,
)
_SILENT = (
    vars(torch.Tensor)["__torch_function__"].__func__,
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


# What it tells


@dataclass(frozen=True, slots=True)
class Told:
    """What a `__torch_function__` is given."""

    function: Any
    classes: tuple[type, ...]
    args: Tuple
    kwargs: Value | None
    """None where torch leaves them out."""

    def given(self, vm: VM, classes: tuple[type, ...]) -> Args:
        """The arguments of the call, where torch has told of these classes."""
        given = (vm.trusted(self.function), vm.trusted(classes), self.args)
        return given if self.kwargs is None else (*given, self.kwargs)


class Heard(BaseException):
    """What somebody who listens is told, on its way out of the call."""

    def __init__(self, told: tuple[Any, ...]) -> None:
        self.told = told


def told(
    vm: VM,
    function: Any,
    args: Args,
    kwargs: Kwargs,
    *,
    listening: AbstractContextManager[object] | None = None,
    listener: Callable[[Object], Any] | None = None,
) -> Told | None:
    """What torch tells of a call; None where it tells nothing.

    Args:
        listening: a mode that raises `Heard`.
        listener: what stands for a tensor of a subclass.
    """
    standing = Standing(vm, listener)
    real_args = [standing.for_(value) for value in args]
    real_kwargs = {name: standing.for_(value) for name, value in kwargs.items()}
    heard = _overheard(vm, function, real_args, real_kwargs, listening or nullcontext())
    if heard is None:
        return None
    what, classes, *rest = heard
    given, named = (*rest, {})[:2] if rest else ((), {})
    values = Tuple(tuple(map(standing.value, given)))
    if len(rest) < 2:
        return Told(what, tuple(classes), values, None)
    items = [(Constant(name), standing.value(each)) for name, each in (named or {}).items()]
    keywords = Constant(None) if named is None else vm.new_dict(items)
    return Told(what, tuple(classes), values, keywords)


def _overheard(
    vm: VM,
    function: Any,
    args: list[Any],
    kwargs: dict[str, Any],
    listening: AbstractContextManager[object],
) -> tuple[Any, ...] | None:
    restore = snapshot()
    try:
        with listening:
            function(*args, **kwargs)
    except Heard as heard:
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
class Standing:
    """Objects that stand for values in a call."""

    vm: VM
    listener: Callable[[Object], Any] | None = None
    """What stands for a tensor of a subclass."""
    made: Callable[[VM, TensorFacts], torch.Tensor] | None = None
    """Makes what stands for a plain tensor; by default it has no data."""
    decisions: Decisions | None = None
    """For sizes that vary, where they stand for themselves; by default they are as they are now."""
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
                    make = self.made or without_data
                    self.tensors[value] = make(self.vm, self.vm.facts(value))
                return self.tensors[value]
            case Constant() | Known():
                return constants.python_value(self.vm, value)
            case Number(Size() as size) if self.decisions is not None:
                return self.decisions.symint(size)
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
            case Object(cls=cls) if issubclass(cls, torch.Tensor) and self.listener is not None:
                return self.listener(value)
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
            case tuple():
                return Tuple(tuple(map(self.value, heard)), type(heard))
            case torch.SymInt():
                return numbers.length(self.vm, symbolic.length(heard))
            case list():
                return self.vm.new_list([self.value(each) for each in heard])
            case torch.Tensor() | _Other() | _Int() | _Float():
                self.vm.stop(reasons.UNSUPPORTED, "a call that torch changes for a mode")
            case type() | types.FunctionType() | types.BuiltinFunctionType():
                return self.vm.trusted(heard)
        return constants.wrapped(self.vm, heard)


def without_data(vm: VM, facts: TensorFacts) -> torch.Tensor:
    """A tensor of these facts, that has no data."""

    def now(length: Length) -> int:
        return length if isinstance(length, int) else length.value(vm.int_values())

    size, stride = tuple(map(now, facts.size)), tuple(map(now, facts.stride))
    made = torch.empty_strided(size, stride, dtype=facts.dtype, device="meta")
    if facts.cls is not torch.Tensor:
        return torch.nn.Parameter(made, requires_grad=facts.requires_grad)
    return made.requires_grad_(facts.requires_grad)
