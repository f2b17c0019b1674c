"""Calls of `logging` and `warnings`: no break where they are replayed like other effects.

A message that becomes text in a stream can be written after the graph has run: what is printed
breaks the graph, so that the order of all output stays. Where anything else could see the message,
or see it late, the call is a break.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from typing import NoReturn

import torch

from jitpkg.errors import Location
from jitpkg.guards.kinds import Answers, static_lookup
from jitpkg.guards.messages import logs_plainly, names_logger, warns_plainly
from jitpkg.guards.sources import Held
from jitpkg.tracer import reasons, replayed
from jitpkg.tracer.effects import CallMethod
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import (
    FALSE,
    NONE,
    TRUE,
    Constant,
    Lazy,
    Number,
    Object,
    Tuple,
    Value,
    class_in,
)
from jitpkg.tracer.vm import VM

TABLE = CallTable()

_LOGGING = logging.addLevelName.__code__.co_filename


# logging


@TABLE.row(logging.getLogger)
def get_logger(vm: VM, name: Value = NONE) -> Value:
    """One that there is; Python makes others."""
    text = _constant(vm, name)
    found = logging.root.manager.loggerDict.get(text) if text else logging.root  # type: ignore[call-overload]
    if not isinstance(found, logging.Logger):
        vm.stop(reasons.LIBRARY, "logging.getLogger")
    vm.guard(Answers(Held(None), names_logger, (text, found), True, "which logger has a name"))
    return vm.look(vm.wrap(found, Held(found)))


@TABLE.row(logging.Logger.isEnabledFor)
def is_enabled_for(vm: VM, logger: Value, level: Value, /) -> Value:
    known, number = _logger(vm, logger), _level(vm, level)
    assert known.source is not None and isinstance(known.obj, logging.Logger)
    enabled = known.obj.isEnabledFor(number)
    ask = logging.Logger.isEnabledFor
    vm.guard(Answers(known.source, ask, (number,), enabled, "whether a logger is enabled"))
    return TRUE if enabled else FALSE


@TABLE.row(logging.Logger._log)
def log(
    vm: VM,
    logger: Value,
    level: Value,
    message: Value,
    args: Value,
    exc_info: Value = NONE,
    extra: Value = NONE,
    stack_info: Value = FALSE,
    stacklevel: Value | None = None,
) -> Value:
    """Of plain values, with no more than plain handlers."""
    known, number = _logger(vm, logger), _level(vm, level)
    assert known.source is not None and isinstance(known.obj, logging.Logger)
    if any(_constant(vm, v) not in (None, False) for v in (exc_info, extra, stack_info)):
        _refuse_log(vm)
    text, given = _constant(vm, message), vm.look(args)
    if not isinstance(text, str) or not isinstance(given, Tuple):
        _refuse_log(vm)
    if type(text) is not str or not _is_writable(vm, text, given):
        _refuse_log(vm)
    if not logs_plainly(known.obj, number):
        _refuse_log(vm)
    vm.guard(Answers(known.source, logs_plainly, (number,), True, "who sees a logger's records"))
    frame = _caller(vm, _steps(vm, stacklevel), _LOGGING)
    if frame is None:
        _refuse_log(vm)
    place = frame.location(frame.program.ops[frame.at - 1])
    where = (Constant(place.file), Constant(place.line), Constant(place.function))
    given = Tuple(tuple(map(vm.peek, given.items)))
    vm.effect(CallMethod(replayed.log, known, (level, message, given, exc_info, *where)))
    return NONE


def _refuse_log(vm: VM) -> NoReturn:
    vm.stop(reasons.LIBRARY, "logging.Logger._log")


def _logger(vm: VM, value: Value) -> Object:
    value = vm.look(value)
    match value:
        case Object(obj=logging.Logger() as logger) if not _is_changed(vm, logger):
            return value
    vm.stop(reasons.LIBRARY, "logging.Logger.isEnabledFor")


def _is_changed(vm: VM, logger: logging.Logger) -> bool:
    """Whether the trace itself has changed something that decides what is logged."""
    parties: list[object] = [logger.manager]
    at: logging.Logger | None = logger
    while at is not None:
        parties.extend((at, *at.handlers, *(handler.formatter for handler in at.handlers)))
        at = at.parent
    watched = {id(obj) for p in parties for obj in (p, *getattr(p, "__dict__", {}).values())}
    return any(id(getattr(effect.target, "obj", effect)) in watched for effect in _others(vm))


def _others(vm: VM) -> Iterator[CallMethod]:
    """Effects that change objects."""
    for effect in vm.effects:
        if not (isinstance(effect, CallMethod) and effect.method in replayed.MESSAGES):
            yield effect  # type: ignore[misc]


def _level(vm: VM, value: Value) -> int:
    level = _constant(vm, value)
    if not isinstance(level, int) or type(level) is not int:
        vm.stop(reasons.LIBRARY, "logging.Logger.isEnabledFor")
    return level


_ATOMS = (str, int, float, bool, complex, type(None), torch.dtype, torch.device)


def _is_writable(vm: VM, text: str, args: Tuple) -> bool:
    """Whether a message is of plain values, can be formatted, and written to any stream."""
    plain = _plain(vm, args)
    if plain is None:
        return False
    try:
        return (text % plain if plain else text).isascii()
    except Exception:
        return False


def _plain(vm: VM, args: Tuple) -> tuple[object, ...] | None:
    found: list[object] = []
    for item in map(vm.peek, args.items):
        match item:
            case Constant(value) if type(value) in _ATOMS:
                found.append(value)
            case Number(value=number):
                found.append(number)
            case Tuple(cls=cls) if cls in (tuple, torch.Size):
                inner = _plain(vm, item)
                if inner is None:
                    return None
                found.append(inner)
            case _:
                return None
    return tuple(found)


# warnings


@TABLE.row(warnings.warn)
def warn(
    vm: VM,
    message: Value,
    category: Value = NONE,
    stacklevel: Value | None = None,
    source: Value = NONE,
    **others: Value,
) -> Value:
    """Of a text, where `sys.stderr` is all that the warning goes to."""
    text = _constant(vm, message)
    cls: type[Warning] = UserWarning
    if _constant(vm, category) is not None:
        named = class_in(vm.look(category))
        cls = named if named is not None and _is_plain_category(named) else Warning
    plain = type(text) is str and text.isascii() and cls is not Warning
    if not plain or others or _constant(vm, source) is not None:
        _refuse_warning(vm)
    assert isinstance(text, str)
    frame = _caller(vm, _steps(vm, stacklevel))
    if frame is None or not frame.namespace:  # a hook hands over no globals where none is read
        _refuse_warning(vm)
    place = frame.location(frame.program.ops[frame.at - 1])
    if vm.catching:
        _warn_ignored(vm, message, cls, frame, place)
        return NONE
    asked = (cls, text, replayed.module_name(frame.namespace), place.line or 1)
    if place.line is None or not warns_plainly(None, *asked):
        _refuse_warning(vm)
    if any(getattr(effect.target, "obj", None) is warnings.filters for effect in _others(vm)):
        _refuse_warning(vm)
    vm.guard(Answers(Held(None), warns_plainly, asked, True, "what happens to a warning"))
    where = (Constant(place.file), Constant(place.line))
    globals_ = Lazy(frame.globals, frame.namespace)
    given = (message, vm.trusted(cls), *where)
    vm.effect(CallMethod(replayed.warn, globals_, given))
    return NONE


def _warn_ignored(vm: VM, text: Value, cls: type, frame: Frame, place: Location) -> None:
    if not vm.catching[-1] or place.line is None:
        _refuse_warning(vm)
    where = (Constant(place.file), Constant(place.line))
    globals_ = Lazy(frame.globals, frame.namespace)
    vm.effect(CallMethod(replayed.ignored, globals_, (text, vm.trusted(cls), *where)))


def _refuse_warning(vm: VM) -> NoReturn:
    vm.stop(reasons.FOREIGN_CALL, "_warnings.warn")


def _descendants(cls: type) -> Iterator[type]:
    """The builtin subclasses of a class."""
    yield cls
    children: list[type] = cls.__subclasses__()
    for child in children:
        if child.__module__ == "builtins":
            yield from _descendants(child)


def _is_plain_category(cls: type) -> bool:
    """Whether making such a warning, and its text, run no code of the program's."""
    own = (static_lookup(cls, name) for name in ("__init__", "__new__", "__str__"))
    return (
        issubclass(cls, Warning)
        and type(cls) is type
        and all(found in _BUILTIN_METHODS for found in own)
    )


_BUILTIN_METHODS = tuple(
    vars(cls)[name]
    for cls in (object, BaseException, Exception, *_descendants(Warning))
    for name in ("__init__", "__new__", "__str__")
    if name in vars(cls)
)


# Both


def _constant(vm: VM, value: Value) -> object:
    """A constant's value; for anything else, an object that is no constant."""
    value = vm.look(value)
    return value.value if isinstance(value, Constant) else value


def _steps(vm: VM, stacklevel: Value | None) -> int:
    level = 1 if stacklevel is None else _constant(vm, stacklevel)
    return level if isinstance(level, int) and type(level) is int else 0


def _caller(vm: VM, steps: int, passed: str = "") -> Frame | None:
    """The frame that a message is said to come from; frames of the file `passed` do not count.

    It must be among those that are traced, and Python must have a frame where tracing has one.
    """
    for frame in reversed(vm.frames):
        code = frame.program.code
        if frame.trusted or steps < 1:
            break
        if code.co_filename != passed:
            steps -= 1
            if not steps:
                return frame
            if code.co_name == "__repr__":  # what guards it against recursion has no frame here
                break
    return None
