"""Traced exceptions: making, raising, matching, and what can be read from one."""

from __future__ import annotations

import builtins
import sys
import types
from typing import NoReturn

from jitpkg.guards.kinds import StateIs
from jitpkg.guards.sources import Held
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Constant,
    Kept,
    Known,
    Object,
    OfOp,
    OfProgram,
    Opaque,
    Tuple,
    Value,
    class_in,
)
from jitpkg.tracer.vm import VM, Args, Kwargs, Raised

OTHERS = frozenset(
    {
        BaseExceptionGroup,
        ExceptionGroup,
        ImportError,
        ModuleNotFoundError,
        OSError,
        *OSError.__subclasses__(),
        *(c for b in OSError.__subclasses__() for c in b.__subclasses__()),
        SyntaxError,
        IndentationError,
        TabError,
        UnicodeDecodeError,
        UnicodeEncodeError,
        UnicodeTranslateError,
        SystemExit,
    }
)
"""Builtin exception classes with more state than others."""

SIMPLE = (
    frozenset(
        cls
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException)
    )
    - OTHERS
)
"""Builtin exception classes whose state is their arguments, notes, cause and context."""


BY_TYPES = (
    AttributeError,
    ImportError,
    KeyError,
    NameError,
    NotImplementedError,
    StopIteration,
    UnicodeError,
)
"""What an op of torch may raise for the types of its arguments, but not for their values: that is
seen when it is traced, and guarded."""


def may_be_of_op(cls: object, *, by_program: bool) -> bool:
    """Whether what an op raises may be of a class, for some data.

    Args:
        by_program: whether the op runs code of the program's own, which may raise anything.
    """
    if not isinstance(cls, type) or cls in BY_TYPES:
        return cls not in BY_TYPES
    library = cls.__module__.partition(".")[0]
    is_program_s = bool(cls.__flags__ & _HEAP_TYPE) and library not in ("torch", "numpy", "jitpkg")
    return by_program or not is_program_s


_HEAP_TYPE = 1 << 9
"""The flag of a class that was made at run time, as by a `class` statement."""


def of_op(vm: VM, *, by_program: bool) -> Object:
    """An exception of which no more is known than that an op raises it where the trace stands."""
    made = Object(OfProgram if by_program else OfOp)
    _set_context(vm, made, _current(vm))
    _write(vm, made, "__traceback__", Object(types.TracebackType))
    return made


def class_for_exit(vm: VM, exception: Value) -> Value:
    """The class that an `__exit__` is given."""
    if isinstance(exception, Object) and issubclass(exception.cls, OfOp):
        return Opaque(Held(OfOp), OfOp, "the class of what an op raises")
    return vm.trusted(vm.class_of(exception))


def new(vm: VM, cls: type, args: Args) -> Object:
    """`cls.__new__(cls, *args)` of an exception class."""
    base = next(c for c in classes.mro(cls) if c.__module__ == "builtins")
    if base not in SIMPLE:
        vm.stop(reasons.UNSUPPORTED, f"making a {cls.__qualname__}")
    made = Object(cls)
    vm.heap.write(made, "content", Tuple(args))
    return made


def initialise(vm: VM, value: Object, args: Args, kwargs: Kwargs) -> None:
    """`BaseException.__init__`"""
    if kwargs or value.source is not None:
        vm.stop(reasons.UNSUPPORTED, f"keyword arguments of {value.cls.__qualname__}")
    vm.heap.write(value, "content", Tuple(args))


def raise_new(vm: VM, cls: type[BaseException], *args: object) -> NoReturn:
    """Raise what the interpreter itself would raise here; arguments are values or constants."""
    if cls not in SIMPLE:
        vm.stop(reasons.RAISES, f"{cls.__name__}: {args}")
    exception = new(vm, cls, tuple(a if isinstance(a, Value) else vm.trusted(a) for a in args))
    _set_context(vm, exception, _current(vm))
    raise Raised(exception)


def raise_(vm: VM, *operands: Value) -> NoReturn:
    """`raise`, `raise exception`, `raise exception from cause`"""
    current = _current(vm)
    if not operands:
        if current is None:
            vm.stop(reasons.RAISES, "raise of the exception that is being handled")
        raise Raised(current)
    exception = instance(vm, operands[0])
    if len(operands) > 1:
        cause = vm.look(operands[1])
        if not isinstance(cause, Constant):
            cause = instance(vm, cause)
        set_attribute(vm, exception, "__cause__", cause)
        set_attribute(vm, exception, "__suppress_context__", TRUE)
    _set_context(vm, exception, current)
    raise Raised(exception)


def raise_from(vm: VM, cls: type[BaseException], message: str, cause: Object) -> NoReturn:
    """Raise what the interpreter itself raises here because of another exception."""
    exception = new(vm, cls, (Constant(message),))
    set_attribute(vm, exception, "__cause__", cause)
    set_attribute(vm, exception, "__suppress_context__", TRUE)
    _set_context(vm, exception, cause)
    raise Raised(exception)


def instance(vm: VM, value: Value) -> Object:
    """The exception that a `raise` of a value raises."""
    value = vm.look(value)
    if isinstance(value, Known) and isinstance(value.obj, type):
        if not issubclass(value.obj, BaseException):
            vm.stop(reasons.RAISES, "raise of something that is no exception")
        value = vm.look(vm.call(value, ()))
    if isinstance(value, Object) and issubclass(value.cls, BaseException):
        if value.source is not None:
            vm.stop(reasons.RAISES, "raise of an exception that exists already")
        return value
    vm.stop(reasons.RAISES, "raise of something that is no exception")


def handled(vm: VM) -> Value:
    """`sys.exception()`; if the trace handles none, neither does whoever called the function."""
    current = _current(vm)
    if current is not None:
        return current
    if sys.exception() is not None:
        vm.stop(reasons.OPAQUE, "an exception from before the hook")
    vm.guard(
        StateIs(
            "an exception being handled", "{exception}() is None", (("exception", sys.exception),)
        )
    )
    return NONE


def _current(vm: VM) -> Object | None:
    """The exception that is being handled, or None if the trace knows of none."""
    for frame in reversed(vm.frames):
        if frame.handled:
            exception = frame.handled[-1]
            assert isinstance(exception, Object)
            return exception
    return None


def _set_context(vm: VM, exception: Object, current: Object | None) -> None:
    if current is not None and current is not exception:
        _write(vm, exception, "__context__", current)
    _write(vm, exception, "__traceback__", Object(types.TracebackType))


def _write(vm: VM, exception: Object, name: str, value: Value) -> None:
    attributes = dict(vm.heap.read(exception, "attributes") or {})
    attributes[name] = value
    vm.heap.write(exception, "attributes", attributes)


def was_raised(vm: VM, exception: Object) -> bool:
    """Whether a real exception in its place would have a traceback."""
    return "__traceback__" in (vm.heap.read(exception, "attributes") or {})


def reraise(vm: VM, value: Value) -> NoReturn:
    """RERAISE: go on with an exception that was caught."""
    value = vm.look(value)
    if isinstance(value, Object) and issubclass(value.cls, BaseException) and value.source is None:
        raise Raised(value)
    vm.stop(reasons.RAISES, "an exception goes on")


def matches(vm: VM, exception: Value, handled: Value) -> bool:
    """Whether `except handled:` catches the exception."""
    handled = vm.look(handled)
    if isinstance(exception, Kept):
        vm.stop(reasons.RAISES, "an exception from before the hook")
    items = handled.items if isinstance(handled, Tuple) else (handled,)
    handled_classes = [class_in(vm.look(item)) for item in items]
    if any(cls is None or not issubclass(cls, BaseException) for cls in handled_classes):
        vm.stop(reasons.RAISES, "except of something that is no exception class")
    return any(_is_a(vm, exception, cls) for cls in handled_classes if cls is not None)


def _is_a(vm: VM, exception: Value, cls: type) -> bool:
    if isinstance(exception, Object) and issubclass(exception.cls, OfOp):
        by_program = issubclass(exception.cls, OfProgram)
        if cls is not BaseException and may_be_of_op(cls, by_program=by_program):
            vm.stop(reasons.RAISES, "except of what an op may raise")
        return cls is BaseException
    return classes.derives(vm, vm.class_of(exception), cls)


def traceback_of(vm: VM, exception: Value) -> Value:
    """The traceback that a handler is given: it is there, and no more is known of it."""
    if isinstance(exception, Object):
        return (vm.heap.read(exception, "attributes") or {}).get("__traceback__", NONE)
    vm.stop(reasons.RAISES, "the traceback of an exception from before the hook")


_DEFAULTS = {
    "__cause__": NONE,
    "__context__": NONE,
    "__traceback__": NONE,
    "__suppress_context__": FALSE,
}


def attribute(vm: VM, value: Object, name: str) -> Value:
    """An attribute of an exception that is kept in C."""
    vm.class_of(value)  # stops where it is not known
    if value.source is not None:
        vm.stop(reasons.ATTRIBUTE, f"{name} of an exception that exists already")
    if name == "args":
        content = vm.heap.read(value, "content")
        assert content is not None
        return content
    if name in _DEFAULTS:
        return (vm.heap.read(value, "attributes") or {}).get(name, _DEFAULTS[name])
    if name == "value" and issubclass(value.cls, StopIteration):
        return stop_value(vm, value)
    vm.stop(reasons.ATTRIBUTE, f"{name} of a {value.cls.__qualname__}")


def set_attribute(vm: VM, value: Object, name: str, new: Value) -> None:
    """Set an attribute of an exception that is kept in C."""
    vm.class_of(value)  # stops where it is not known
    if name == "args":
        vm.heap.write(value, "content", Tuple(tuple(vm.unpack(new))))
    elif name in _DEFAULTS:
        _write(vm, value, name, new)
    else:
        vm.stop(reasons.ATTRIBUTE, f"{name} of a {value.cls.__qualname__}")


def stop_value(vm: VM, value: Object) -> Value:
    """`StopIteration.value`"""
    content = vm.heap.read(value, "content")
    assert isinstance(content, Tuple)
    return content.items[0] if content.items else NONE


__all__ = ["SIMPLE", "UNBOUND", "attribute", "matches", "new", "raise_", "raise_new", "reraise"]
