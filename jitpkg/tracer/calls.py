"""What calling something means."""

from __future__ import annotations

import dataclasses
import functools
import operator
import reprlib
import types
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import torch

from jitpkg.code.analysis import is_generator
from jitpkg.code.dialect import translate
from jitpkg.guards.kinds import CodeIs, Is, KeysAre, LengthIs, TypeIs
from jitpkg.guards.sources import Attr, Held, Item, OriginalOf, Referent, Source
from jitpkg.internals.ops import OpOverload, OpOverloadPacket
from jitpkg.tracer import (
    autograd_functions,
    constants,
    construction,
    containers,
    counters,
    default_device,
    function_modes,
    libraries,
    marked,
    memoized,
    namespaces,
    numbers,
    numpy_scalars,
    readings,
    reasons,
    state,
    subclasses,
    tensor_attributes,
    torch_calls,
    torch_script,
)
from jitpkg.tracer.binding import Signature, bind
from jitpkg.tracer.frames import Frame, Return
from jitpkg.tracer.look import is_stable, source_of
from jitpkg.tracer.polyfills import operator_functions
from jitpkg.tracer.rows import ROWS, numpy_arrays
from jitpkg.tracer.values import (
    Cell,
    Constant,
    Function,
    Generator,
    Kept,
    Known,
    Lazy,
    Method,
    Number,
    Object,
    Opaque,
    Reading,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Args, Kwargs

_DEPTH = 60
"""How deep calls may nest: each takes several frames of the tracer's own."""


def call(
    vm: VM, function: Value, args: Args, kwargs: Kwargs | None = None, *, direct: bool = False
) -> Value:
    """`function(*args, **kwargs)`; `direct` where it is all that an instruction does."""
    kwargs = kwargs or {}
    function = vm.look(function)
    if isinstance(function, Object | Opaque):
        marked.stop_at(vm, function.obj)
    match function:
        case Method():
            applied = autograd_functions.applied(
                vm, function.function, function.receiver, args, kwargs
            )
            if applied is not None:
                return applied
            return call(vm, function.function, (function.receiver, *args), kwargs, direct=direct)
        case Function():
            return _call_new(vm, function, args, kwargs, direct=direct)
        case Known():
            return _call_known(vm, function, args, kwargs, direct=direct)
        case Object(functools.partial):
            return _call_partial(vm, function, args, kwargs, direct=direct)
        case Object(cls) if cls in _FROM_ARGUMENTS:
            return _FROM_ARGUMENTS[cls](vm, function, args, kwargs)
        case Opaque():
            vm.refuse(function)
        case Kept():
            vm.stop(reasons.OPAQUE, "a callable from before the hook")
        case Object(_, source, obj) if source and (original := _original(vm, obj, source)):
            return call(vm, original, args, kwargs, direct=direct)
    method = vm.method_of_class(function, "__call__")
    if method is None:
        vm.stop(reasons.RAISES, f"a call of a {vm.class_of(function).__qualname__}")
    return call(vm, method, args, kwargs, direct=direct)


def _original(vm: VM, obj: object, source: Source) -> Value | None:
    """What a compiled callable was made from, which is traced in its place."""
    original = vm.originals.callable_of(obj)
    if original is obj:
        return None
    if isinstance(original, types.FunctionType) and is_stable(source):
        return Known(original, Held(original))
    return vm.wrap(original, OriginalOf(source, vm.originals.callable_of))


def _call_known(vm: VM, function: Known, args: Args, kwargs: Kwargs, *, direct: bool) -> Value:
    obj: Any = function.obj
    if vm.devices:
        kwargs = default_device.told(vm, obj, kwargs)
    result = marked.call(vm, function, args, kwargs)
    if result is None and vm.asked_modes:
        by_row = ROWS.get(obj) is not None
        result = function_modes.of_call(vm, obj, args, kwargs, by_row=by_row)
    if result is None and subclasses.may_be_among(vm, (*args, *kwargs.values())):
        by_row = ROWS.get(obj) is not None
        result = subclasses.of_call(vm, obj, args, kwargs, by_row=by_row)
    if result is not None:
        return result
    if id(obj) in _OF_NUMBERS and (number := _number(vm, obj, args, kwargs)) is not None:
        return number
    row = ROWS.get(obj)
    if row is not None:
        return row(vm, args, kwargs)
    row = state.rows().get(obj)
    if row is not None:
        return row(vm, args, kwargs)
    if torch_calls.is_graph_function(obj):
        return vm.op(obj, args, kwargs)
    if constants.is_pure(obj):
        if numpy_scalars.is_pure(obj) and numbers.among(vm, (*args, *kwargs.values())):
            vm.stop(reasons.FOREIGN_CALL, f"{obj.__name__}() of a number that varies")
        if constants.foldable(vm, args, kwargs):
            return constants.fold(vm, obj, args, kwargs)
    row = numpy_arrays.row(obj)
    if row is not None:
        return row(vm, args, kwargs)
    match obj:
        case types.FunctionType():
            return _call_existing(vm, function, obj, args, kwargs, direct=direct)
        case type():
            return construction.construct(vm, function, obj, args, kwargs)
        case (
            types.MethodDescriptorType()
            | types.WrapperDescriptorType()
            | types.ClassMethodDescriptorType()
        ):
            return _call_descriptor(vm, obj, args, kwargs)
        case OpOverloadPacket() | OpOverload():
            return vm.op(obj, args, kwargs)
        case types.MethodWrapperType(
            __name__="__get__", __self__=types.GetSetDescriptorType() as read
        ) if _reads_of_tensor(vm, read, args):
            return vm.attribute(args[0], read.__name__)  # as a torch-function mode is told
        case types.BuiltinFunctionType():
            applied = autograd_functions.applied_by_builtin(vm, function, args, kwargs)
            return _refuse_builtin(vm, obj) if applied is None else applied
        case torch.jit.ScriptFunction():
            return torch_script.call(vm, function, args, kwargs)
        case memoized.Memoized():
            return memoized.call(vm, function, args, kwargs)
    method = vm.method_of_class(function, "__call__")
    if method is None:
        vm.stop(reasons.RAISES, f"a call of a {type(obj).__qualname__}")
    return call(vm, method, args, kwargs, direct=direct)


def _reads_of_tensor(vm: VM, read: types.GetSetDescriptorType, args: Args) -> bool:
    of_tensors = read.__objclass__ in torch.Tensor.__mro__
    return of_tensors and len(args) == 1 and isinstance(vm.look(args[0]), Tensor)


_OF_NUMBERS = frozenset(map(id, numbers.HANDLED | readings.HANDLED))


def _number(vm: VM, function: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """A call of a function that computes with numbers that vary."""
    if kwargs:
        return None
    if len(args) == 1 and isinstance(args[0], Reading):
        return readings.of_one(vm, function, args[0])
    if function in (min, max) and any(isinstance(arg, Reading) for arg in args):
        return readings.extreme(vm, function, args)
    args = tuple(map(vm.peek, args))
    if not any(isinstance(arg, Number) for arg in args):
        return None
    return numbers.call(vm, function, args)


def _refuse_builtin(vm: VM, obj: types.BuiltinFunctionType) -> NoReturn:
    if obj is print:
        vm.stop(reasons.PRINT)
    name = f"{obj.__module__ or ''}.{obj.__qualname__}".lstrip(".")
    name = name.replace("_VariableFunctionsClass.", "")
    is_setting = name.startswith("torch.") and obj.__name__.lstrip("_").startswith("set_")
    vm.stop(reasons.RANDOM_STATE if is_setting else reasons.FOREIGN_CALL, name)


def _call_descriptor(
    vm: VM,
    obj: types.MethodDescriptorType | types.WrapperDescriptorType | types.ClassMethodDescriptorType,
    args: Args,
    kwargs: Kwargs,
) -> Value:
    """A method of a builtin class."""
    name = torch_calls.tensor_methods().get(obj)
    if name is not None and args and isinstance(vm.look(args[0]), Tensor):
        return tensor_attributes.metadata_method(vm, name, args, kwargs) or vm.op(
            name, args, kwargs
        )
    if obj in torch_calls.real_methods():
        name = torch_calls.real_methods()[obj]
        known = counters.number(vm, args[0]) if (name, len(args)) == ("item", 1) else None
        if known is not None:
            return known
        read = readings.by_method(vm, name, args, kwargs)
        if read is not None:
            return read
        kind = torch_calls.REAL_METHODS[name]
        reason = reasons.DATA_VALUE if kind == "value" else reasons.TENSOR_USE
        vm.stop(reason, f"Tensor.{obj.__name__}")
    vm.stop(reasons.FOREIGN_CALL, f"{obj.__objclass__.__qualname__}.{obj.__name__}")


# Python functions


def _plain_repr(obj: object) -> str:
    return ""


_GUARDED_REPRS = frozenset(
    {
        reprlib.recursive_repr()(_plain_repr).__code__,
        *(
            getattr(dataclasses, name)(_plain_repr).__code__
            for name in ("_recursive_repr",)
            if hasattr(dataclasses, name)
        ),
    }
)
"""What guards a `__repr__` against recursion, by a set of the objects that are being shown."""


def _guarded_repr(vm: VM, code: types.CodeType, cells: tuple[Cell, ...], args: Args) -> Value:
    """The text of an object. Nothing is being shown outside, and nothing twice in the trace.

    A break inside is one at the whole `repr()`, so that the set is never seen half way.
    """
    running, inner = (
        namespaces.cell_content(vm, cells[code.co_freevars.index(name)])
        for name in ("repr_running", "user_function")
    )
    shown, count = vm.look(args[0]), vm.call_object(len, running)
    busy = not isinstance(count, Constant) or count.value
    if busy or any(shown is other for other in vm.reprs):
        vm.stop(reasons.IDENTITY, "the repr() of an object inside of itself")
    vm.reprs.append(shown)
    try:
        return call(vm, inner, args, {})
    finally:
        vm.reprs.pop()


def _call_existing(
    vm: VM,
    known: Known,
    function: types.FunctionType,
    args: Args,
    kwargs: Kwargs,
    *,
    direct: bool,
) -> Value:
    name = torch_calls.tensor_methods().get(function)
    if name is not None:
        return vm.op(name, args, kwargs)
    if function in torch_calls.real_methods():
        vm.stop(reasons.TENSOR_USE, f"Tensor.{function.__name__}")
    wrapper = libraries.wrapper(function)
    if wrapper is not None and wrapper.cell in function.__code__.co_freevars:
        vm.guard(CodeIs(known.source, function.__code__, vm.originals.of))
        cells = _existing_closure(vm, known.source, function)
        wrapped = namespaces.cell_content(
            vm, cells[function.__code__.co_freevars.index(wrapper.cell)]
        )
        if wrapper.polyfill is None:
            return call(vm, wrapped, args, kwargs)
        return call(vm, vm.trusted(wrapper.polyfill), (wrapped, *args), kwargs)
    standing_in = libraries.standing_in(function)
    if standing_in is not None:
        return call(vm, vm.trusted(standing_in), args, kwargs)
    refusal = libraries.refusal(function)
    if refusal is not None:
        vm.stop(*refusal)
    original = _original(vm, function, known.source)
    if original is not None:
        return call(vm, original, args, kwargs, direct=direct)
    trusted = libraries.is_own(function)
    code = vm.originals.of(function.__code__)
    if not trusted:
        vm.guard(CodeIs(known.source, code, vm.originals.of))
    if code in _GUARDED_REPRS and len(args) == 1 and not kwargs:
        return _guarded_repr(vm, code, _existing_closure(vm, known.source, function), args)
    signature = Signature(
        function.__name__,
        _existing_defaults(vm, known.source, function, trusted=trusted),
        _existing_keyword_defaults(vm, known.source, function, trusted=trusted),
        _existing_closure(vm, known.source, function),
    )
    slots = bind(vm, code, signature, args, kwargs)
    frame = Frame(
        translate(code),
        slots,
        _globals_source(vm, known.source, function),
        function.__globals__,
        trusted=trusted,
        direct=direct and not trusted,
    )
    return _run(vm, frame)


def _globals_source(vm: VM, source: Source, function: types.FunctionType) -> Source:
    """A function's globals never change; one that is known by its code alone may be another."""
    if not is_stable(source):
        vm.guard(Is(Attr(source, "__globals__"), function.__globals__))
    return Held(function.__globals__)


def _existing_defaults(
    vm: VM, source: Source, function: types.FunctionType, *, trusted: bool
) -> Args:
    if trusted:
        return tuple(vm.trusted(value) for value in function.__defaults__ or ())
    defaults = Attr(source, "__defaults__")
    if function.__defaults__ is None:
        vm.guard(Is(defaults, None))
        return ()
    vm.guard(TypeIs(defaults, type(function.__defaults__)))
    vm.guard(LengthIs(defaults, len(function.__defaults__)))
    return tuple(vm.wrap(v, Item(defaults, k)) for k, v in enumerate(function.__defaults__))


def _existing_keyword_defaults(
    vm: VM, source: Source, function: types.FunctionType, *, trusted: bool
) -> dict[str, Value]:
    """Which parameters have one counts even where the body reads none: a call may lack them."""
    if trusted:
        return {k: vm.trusted(v) for k, v in (function.__kwdefaults__ or {}).items()}
    if not function.__code__.co_kwonlyargcount:
        return {}
    defaults = Attr(source, "__kwdefaults__")
    if function.__kwdefaults__ is None:
        vm.guard(Is(defaults, None))
        return {}
    vm.guard(TypeIs(defaults, type(function.__kwdefaults__)))
    vm.guard(KeysAre(defaults, tuple(function.__kwdefaults__)))
    return {name: vm.wrap(v, Item(defaults, name)) for name, v in function.__kwdefaults__.items()}


def _existing_closure(vm: VM, source: Source, function: types.FunctionType) -> tuple[Cell, ...]:
    cells = []
    for k, real in enumerate(function.__closure__ or ()):
        cell = vm.look(Lazy(Item(Attr(source, "__closure__"), k), real))
        assert isinstance(cell, Cell)
        cells.append(cell)
    return tuple(cells)


def _call_new(vm: VM, function: Function, args: Args, kwargs: Kwargs, *, direct: bool) -> Value:
    keyword_defaults: dict[str, Value] = {}
    if function.keyword_defaults is not None:
        defaults = containers.all_entries(vm, function.keyword_defaults)
        keyword_defaults = {str(name): entry.value for name, entry in defaults.entries.items()}
    signature = Signature(
        function.code.co_name,
        function.defaults.items if function.defaults else (),
        keyword_defaults,
        function.closure,
    )
    code = vm.originals.of(function.code)
    slots = bind(vm, code, signature, args, kwargs)
    frame = Frame(translate(code), slots, function.globals, function.namespace, direct=direct)
    return _run(vm, frame)


def _run(vm: VM, frame: Frame) -> Value:
    """Trace the body of a function."""
    code = frame.program.code
    if len(vm.frames) >= _DEPTH:
        vm.stop(reasons.TOO_DEEP)
    if code.co_flags & 0x280:  # coroutines and asynchronous generators
        vm.stop(reasons.GENERATOR, "an asynchronous function")
    if is_generator(code):
        generator = Generator(code.co_name)
        frame.direct = False
        vm.heap.write(generator, "frame", frame)
        vm.generators.append(generator)
        return generator
    finished = vm.resume_frame(frame)
    assert isinstance(finished, Return)
    return finished.value


# Other callables


def _call_partial(vm: VM, partial: Object, args: Args, kwargs: Kwargs, *, direct: bool) -> Value:
    function, first, named = construction.arguments_of(vm, partial)
    merged = {**dict(construction.keyword_items(vm, named)), **kwargs}
    return call(vm, function, (*vm.unpack(first), *args), merged, direct=direct)


def _call_getter(polyfill: Callable[..., Any]) -> Callable[[VM, Object, Args, Kwargs], Value]:
    def row(vm: VM, getter: Object, args: Args, kwargs: Kwargs) -> Value:
        if len(args) != 1 or kwargs:
            vm.stop(reasons.RAISES, f"{getter.cls.__name__} takes one argument")
        first, others, _ = construction.arguments_of(vm, getter)
        return vm.call(vm.trusted(polyfill), (Tuple((first, *vm.unpack(others))), *args))

    return row


def _call_method_caller(vm: VM, caller: Object, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 1 or kwargs:
        vm.stop(reasons.RAISES, "methodcaller takes one argument")
    name, given, named = construction.arguments_of(vm, caller)
    method = vm.call_object(getattr, args[0], name)
    return call(vm, method, tuple(vm.unpack(given)), dict(construction.keyword_items(vm, named)))


def _referent(vm: VM, reference: Object, args: Args, kwargs: Kwargs) -> Value:
    """What was there before is taken to live on; what the function has made may not."""
    if args or kwargs:
        vm.stop(reasons.RAISES, "a weak reference takes no arguments")
    if isinstance(reference.obj, weakref.ref) and reference.source is not None:
        return vm.wrap(reference.obj(), Referent(reference.source))
    referent, _, _ = construction.arguments_of(vm, reference)
    if source_of(vm.look(referent)) is None:
        vm.stop(reasons.UNSUPPORTED, "a weak reference to what the function has made")
    return referent


_FROM_ARGUMENTS: Mapping[type, Callable[[VM, Object, Args, Kwargs], Value]] = MappingProxyType(
    {
        operator.itemgetter: _call_getter(operator_functions.itemgetter),
        operator.attrgetter: _call_getter(operator_functions.attrgetter),
        operator.methodcaller: _call_method_caller,
        weakref.ref: _referent,
    }
)
"""What calling an instance of a class in `construction.FROM_ARGUMENTS` means."""
