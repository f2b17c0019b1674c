"""Calls of what `functools.lru_cache` has made.

A result that is remembered is read, as a call would: the cache has it, which is guarded. Where it
is not there, and the function changes nothing, it is called while tracing. Otherwise the trace
ends, for that would be too early; Python calls the function, and the next time the result is there.
With arguments that vary, the function is traced.

A function that can return nothing but None, and that writes messages at most, is the same to the
rest of the program either way: its call is replayed as it is, and writes what it would have
written. One that is marked as constant is called, as the mark asks for.
"""

from __future__ import annotations

import dis
import functools
import gc
import operator
import types
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import torch

from jitpkg.code.analysis import is_generator
from jitpkg.guards.kinds import Answers, Is
from jitpkg.guards.sources import Held, Remembered, call_of
from jitpkg.internals import library
from jitpkg.tracer import marked, pure_calls, reasons, replayed
from jitpkg.tracer.effects import CallMethod, Effect
from jitpkg.tracer.keys import hashes_by_identity
from jitpkg.tracer.values import NONE, Constant, Known, Number, Object, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Raised

Memoized = type(functools.lru_cache(len))


def call(vm: VM, function: Known, args: Args, kwargs: Mapping[str, Value]) -> Value:
    """`function(*args)`"""
    inner = _function(function.obj)
    if inner is None:
        _refuse(vm, function)
    if library.is_constant(inner):
        return marked.constant(vm, function, args, kwargs)
    args, kwargs = tuple(map(vm.peek, args)), {name: vm.peek(v) for name, v in kwargs.items()}
    if any(_varies(vm, value) for value in (*args, *kwargs.values())):
        return _traced(vm, function, inner, args, kwargs)
    given = tuple(_plain(vm, function, arg) for arg in args)
    named = {name: _plain(vm, function, value) for name, value in kwargs.items()}
    if named or not _returns_nothing(vm.originals.of(inner.__code__)):
        return _result(vm, function, inner, given, named)
    key = _key(function.obj, *_real(given, {}))
    if remembers(function.obj, key):
        _guard(vm, function, given, key, answer=True)
    else:
        _check_messages(vm, function, inner, args)
    vm.effect(CallMethod(replayed.call, function, given))
    return NONE


_MOST = 1024
"""Results of a bounded cache, all of which are walked to find what it keeps them in."""


def _varies(vm: VM, value: Value) -> bool:
    """Whether an argument is, or has, a number that is computed anew on each call."""
    if isinstance(value, Tuple):
        return any(_varies(vm, vm.peek(item)) for item in value.items)
    return isinstance(value, Number)


def _traced(
    vm: VM, function: Known, inner: types.FunctionType, args: Args, kwargs: Mapping[str, Value]
) -> Value:
    """The result for numbers that vary, where what the cache has is known by them alone."""
    given = tuple(_plain(vm, function, arg, varies=True) for arg in args)
    named = {name: _plain(vm, function, v, varies=True) for name, v in kwargs.items()}
    vm.identify(function)
    result = pure_calls.traced(vm, inner, given, named)
    if result is None:
        _refuse(vm, function)
    return result


def _result(
    vm: VM, function: Known, inner: types.FunctionType, args: Args, kwargs: Mapping[str, Value]
) -> Value:
    """What the cache has; a call of the function gives that, and nothing is run."""
    most = function.obj.cache_info().maxsize  # type: ignore[attr-defined]
    if most is not None and most > _MOST:
        _refuse(vm, function)
    call = _real(args, kwargs)
    key = _key(function.obj, *call)
    is_there = remembers(function.obj, key)
    if not is_there and pure_calls.is_pure(vm, inner, args, kwargs, call):
        call_of(function.obj, call)
        is_there = remembers(function.obj, key)
    _guard(vm, function, (*args, *kwargs.values()), key, answer=is_there)
    if not is_there:
        _refuse(vm, function)
    return vm.wrap(call_of(function.obj, call), Remembered(function.source, Held(call)))


def _guard(vm: VM, function: Known, given: Args, key: object, *, answer: bool) -> None:
    """Guard whether a call with these arguments was made before."""
    for arg in given:
        _guard_identity(vm, arg)
    vm.identify(function)
    results = _parts(function.obj).results  # the same dict as long as there is the function
    asked = f"what {_name(function.obj)} remembers"
    vm.guard(Answers(Held(results), operator.contains, (key,), answer=answer, what=asked))


def _guard_identity(vm: VM, arg: Value) -> None:
    if isinstance(arg, Tuple):
        for item in arg.items:
            _guard_identity(vm, item)
    if isinstance(arg, Object) and arg.source is not None:
        vm.guard(Is(arg.source, arg.obj))


def _real(args: Args, kwargs: Mapping[str, Value]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments themselves, all of them plain."""

    def real(arg: Value) -> Any:
        if isinstance(arg, Tuple):
            members: Any = tuple(map(real, arg.items))
            return members if arg.cls is tuple else arg.cls(members)
        return arg.value if isinstance(arg, Constant) else arg.obj  # type: ignore[union-attr]

    return tuple(map(real, args)), {name: real(arg) for name, arg in kwargs.items()}


def _key(wrapper: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> object:
    """What a call is kept by, as functools has it."""
    if kwargs:
        named = (part for pair in kwargs.items() for part in pair)
        return (*args, _parts(wrapper).mark, *named)
    return args[0] if len(args) == 1 and type(args[0]) in (str, int) else args


class _Parts(NamedTuple):
    """What a cache is made of, as far as garbage collection is told."""

    results: dict[object, object]
    function: object
    mark: object
    """It stands in a key between arguments by position and those by name."""


def _parts(wrapper: object) -> _Parts:
    """Python's own order: the results that can be dropped, these parts, two classes, attributes."""
    return _Parts(*gc.get_referents(wrapper)[-6:-3])


def remembers(wrapper: object, key: object) -> bool:
    """Whether a cache has the result of a call."""
    return key in _parts(wrapper).results


def _check_messages(vm: VM, function: Known, inner: types.FunctionType, args: Args) -> None:
    """Trace the function's body, to see that it writes messages and does nothing else."""
    before = vm.mark()
    try:
        vm.call(Known(inner, Held(inner)), args)
    except Raised:  # that is not remembered, and a result from before may be
        _refuse(vm, function)
    after = vm.mark()
    if (after.graph, after.mutations) != (before.graph, before.mutations):
        _refuse(vm, function)
    if not all(_is_message_of(effect, inner.__code__) for effect in vm.effects[before.effects :]):
        _refuse(vm, function)
    del vm.effects[before.effects :]


def _refuse(vm: VM, function: Known) -> NoReturn:
    vm.stop(reasons.OPAQUE, f"a function that remembers its results: {_name(function.obj)}")


def _name(wrapper: Any) -> str:
    return str(getattr(wrapper, "__qualname__", Memoized.__name__))


def _function(wrapper: object) -> types.FunctionType | None:
    """What is called where no result is remembered: that never changes."""
    found = _parts(wrapper).function
    return found if isinstance(found, types.FunctionType) else None


def _plain(vm: VM, function: Known, arg: Value, *, varies: bool = False) -> Value:
    """An argument that can be looked for in a dict without running the program's code.

    Args:
        varies: whether it may be, or have, a number that varies.
    """
    arg = vm.peek(arg)
    match arg:
        case Number() if varies:
            return arg
        case Tuple(items, cls, source) if cls in (tuple, torch.Size):
            plain = tuple(_plain(vm, function, item, varies=varies) for item in items)
            return Tuple(plain, cls, source)
        case Constant(value) if type(value) in _PLAIN:
            return arg
        case Known(obj) if type(obj) in _IDENTIFIED:
            return vm.identify(arg)
        case Object(cls, source) if source is not None and hashes_by_identity(vm, cls):
            return arg
    _refuse(vm, function)


_IDENTIFIED = frozenset(
    {
        *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType),
        *(types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType),
    }
)
"""Classes of what is told apart without code of the program's."""

_PLAIN = frozenset({str, int, float, bool, type(None), torch.dtype, torch.device})


def _returns_nothing(code: types.CodeType) -> bool:
    """Whether a call can only return None."""
    if is_generator(code):
        return False
    for before, instruction in pairwise(dis.get_instructions(code)):
        if instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return False
        if instruction.opname == "RETURN_VALUE":
            is_none = before.opname == "LOAD_CONST" and before.argval is None
            if instruction.is_jump_target or not is_none:
                return False
    return True


_MESSAGES: Mapping[object, Callable[[Args], tuple[Value, Value]]] = MappingProxyType(
    {
        replayed.log: lambda args: (args[4], args[5]),
        replayed.warn: lambda args: (args[2], args[3]),
    }
)
"""Where the place that a message comes from is among the arguments of an effect."""


def _is_message_of(effect: Effect, code: types.CodeType) -> bool:
    """Whether an effect is a message of a function's own, not one that names its caller."""
    if not isinstance(effect, CallMethod) or effect.method not in _MESSAGES:
        return False
    file, line = _MESSAGES[effect.method](effect.arguments)
    lines = {line for *_, line in code.co_lines()}
    return (
        isinstance(file, Constant)
        and isinstance(line, Constant)
        and file.value == code.co_filename
        and line.value in lines
    )
