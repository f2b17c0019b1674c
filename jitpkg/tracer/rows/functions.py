"""The builtin functions."""

from __future__ import annotations

import builtins
import math
import operator
import types
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from jitpkg.code.versions import SUM_COMPENSATES
from jitpkg.guards.kinds import Is
from jitpkg.tracer import (
    classes,
    constants,
    containers,
    formatting,
    numbers,
    numpy_arrays,
    operators,
    protocols,
    reasons,
    subscripts,
    typechecks,
)
from jitpkg.tracer.generators import resume, stop_iteration
from jitpkg.tracer.iterators import backwards, each
from jitpkg.tracer.polyfills.builtin_functions import call_until
from jitpkg.tracer.rows.table import CallTable
from jitpkg.tracer.values import (
    NONE,
    Array,
    Cell,
    Constant,
    DictView,
    Generator,
    InstanceDict,
    Iterator,
    Known,
    Object,
    Slice,
    Super,
    Tensor,
    Tuple,
    Value,
    class_in,
)
from jitpkg.tracer.vm import VM

TABLE = CallTable()


def _refuse(reason: Any, name: str) -> Callable[..., Value]:
    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        vm.stop(reason, name)

    return row


for _name in ("locals", "globals", "dir", "eval", "exec", "breakpoint"):
    TABLE.add(getattr(builtins, _name), _refuse(reasons.FRAMES, f"{_name}()"))


@TABLE.row(id)
def id_(vm: VM, value: Value, /) -> Value:
    """Of what lives as long as the entry that is guarded by it."""
    value = vm.identify(vm.look(value))
    match value:
        case Known(type() | FunctionType() | types.ModuleType() as obj):
            return Constant(id(obj))
        case Object(_, source, obj) if source is not None:
            if not vm.history.is_one_of_few(source, obj):
                vm.stop(reasons.IDENTITY, "id() of another object each time")
            vm.guard(Is(source, obj))
            return Constant(id(obj))
    vm.stop(reasons.IDENTITY, "id()")


# Length, truth, types


@TABLE.row(len)
def len_(vm: VM, value: Value, /) -> Value:
    value = vm.look(value)
    match value:
        case Tuple(items, cls) if classes.inherits(vm, cls, tuple, "__len__"):
            return Constant(len(items))
        case Constant(str() | bytes() | range()):
            return constants.fold(vm, len, (value,))
        case InstanceDict():
            return Constant(len(containers.instance_items(vm, value)))
        case DictView(of):
            return Constant(len(containers.mapping_items(vm, of)))
        case Object(cls) if (length := _container_length(vm, value)) is not None:
            return Constant(length)
        case Array():
            return numpy_arrays.length(vm, value)
        case Tensor():
            vm.stop_under_a_mode("the length of a tensor")
            size = vm.facts(value).size
            if not size:
                vm.raise_new(TypeError, "len() of a 0-d tensor")
            return numbers.length(vm, size[0])
    method = vm.method_of_class(value, "__len__")
    if method is None:
        vm.raise_new(
            TypeError, f"object of type '{classes.shown(vm.class_of(value))}' has no len()"
        )
    return protocols.length(vm, vm.call(method, ()))


def _container_length(vm: VM, value: Object) -> int | None:
    base = containers.base_class(value.cls)
    if base is None or not classes.inherits(vm, value.cls, base, "__len__"):
        return None
    return containers.length(vm, value)


@TABLE.row(callable)
def callable_(vm: VM, value: Value, /) -> Value:
    return Constant(classes.is_callable(vm, value))


@TABLE.row(isinstance)
def isinstance_(vm: VM, value: Value, cls: Value, /) -> Value:
    return Constant(typechecks.is_instance(vm, value, cls))


@TABLE.row(issubclass)
def issubclass_(vm: VM, value: Value, cls: Value, /) -> Value:
    return Constant(typechecks.is_subclass(vm, value, cls))


@TABLE.row(vars(type)["__or__"], vars(type)["__ror__"], types.UnionType.__or__)
def union(vm: VM, a: Value, b: Value, /) -> Value:
    sides = [vm.look(side) for side in (a, b)]
    found = [s.obj if isinstance(s, Known) else None for s in sides]
    plain = [s if isinstance(s, types.UnionType) or type(s) is type else None for s in found]
    nothing = [isinstance(s, Constant) and s.value is None for s in sides]
    if any(p is None and not n for p, n in zip(plain, nothing, strict=True)):
        vm.stop(reasons.UNSUPPORTED, "a union of something else than classes")
    return vm.trusted(operator.or_(*plain))


@TABLE.row(hash)
def hash_(vm: VM, value: Value, /) -> Value:
    value = vm.look(value)
    if constants.is_constant(vm, value):
        return constants.fold(vm, hash, (value,))
    method = vm.method_of_class(value, "__hash__")
    if method is None:
        vm.raise_new(TypeError, f"unhashable type: '{classes.shown(vm.class_of(value))}'")
    return protocols.hash_value(vm, vm.call(method, ()))


# Attributes


def _attribute_name(vm: VM, name: Value) -> str:
    name = vm.look(name)
    if isinstance(name, Constant) and isinstance(name.value, str):
        return name.value
    vm.stop(reasons.RAISES, "an attribute name that is no string")


@TABLE.row(getattr)
def getattr_(vm: VM, value: Value, name: Value, default: Value | None = None, /) -> Value:
    attribute = _attribute_name(vm, name)
    if default is None:
        return vm.attribute(value, attribute)
    return vm.attribute_or_none(value, attribute) or default


@TABLE.row(hasattr)
def hasattr_(vm: VM, value: Value, name: Value, /) -> Value:
    return Constant(vm.attribute_or_none(value, _attribute_name(vm, name)) is not None)


@TABLE.row(setattr)
def setattr_(vm: VM, value: Value, name: Value, new: Value, /) -> Value:
    vm.set_attribute(value, _attribute_name(vm, name), new)
    return NONE


@TABLE.row(delattr)
def delattr_(vm: VM, value: Value, name: Value, /) -> Value:
    vm.delete_attribute(value, _attribute_name(vm, name))
    return NONE


@TABLE.row(vars)
def vars_(vm: VM, value: Value | None = None, /) -> Value:
    if value is None:
        vm.stop(reasons.FRAMES, "vars()")
    return vm.attribute(value, "__dict__")


@TABLE.row(super)
def super_(vm: VM, start: Value | None = None, receiver: Value | None = None, /) -> Value:
    if start is None:
        start, receiver = _implicit_super(vm)
    start = vm.look(start)
    if receiver is None or not isinstance(start, Known) or not isinstance(start.obj, type):
        vm.stop(reasons.UNSUPPORTED, "super() of one argument")
    receiver = vm.look(receiver)
    own = class_in(receiver)
    if own is not None and classes.derives(vm, own, start.obj):
        return Super(start.obj, receiver, own)
    cls = vm.class_of(receiver)
    if not classes.derives(vm, cls, start.obj):
        vm.stop(reasons.RAISES, "super() of an object of another class")
    return Super(start.obj, receiver, cls)


def _implicit_super(vm: VM) -> tuple[Value, Value]:
    """The `__class__` cell and the first argument of the calling frame."""
    frame = vm.frames[-1]
    slots = frame.program.slots
    if "__class__" not in slots or not frame.program.code.co_argcount:
        vm.stop(reasons.RAISES, "super() without arguments")
    cell, first = frame.locals[slots.index("__class__")], frame.locals[0]
    content = vm.heap.read(cell, "content")
    if isinstance(first, Cell):
        first = vm.heap.read(first, "content") or first
    if content is None:
        vm.stop(reasons.RAISES, "super() in a class that is not made yet")
    return content, first


# Iteration


@TABLE.row(iter)
def iter_(vm: VM, value: Value, sentinel: Value | None = None, /) -> Value:
    if sentinel is not None:
        return vm.call_object(call_until, value, sentinel)
    return vm.iterate(value)


@TABLE.row(next)
def next_(vm: VM, iterator: Value, default: Value | None = None, /) -> Value:
    iterator = vm.look(iterator)
    if isinstance(iterator, Generator):
        yielded, result = resume(vm, iterator, NONE)
        if yielded is not None:
            return yielded
        if default is not None:
            return default
        assert result is not None
        stop_iteration(vm, result)
    item = vm.advance(iterator)
    if item is None and default is None:
        vm.raise_new(StopIteration)
    return item or default or NONE


@TABLE.row(enumerate)
def enumerate_(vm: VM, iterable: Value, start: Value | None = None) -> Value:
    first = Constant(0) if start is None else Constant(subscripts.constant_index(vm, start))
    return Iterator("enumerate", (vm.iterate(iterable), first))


@TABLE.row(zip)
def zip_(vm: VM, *iterables: Value, strict: Value | None = None) -> Value:
    is_strict = strict is not None and vm.truth(strict)
    return Iterator("zip", tuple(map(vm.iterate, iterables)), is_strict)


@TABLE.row(map)
def map_(vm: VM, function: Value, *iterables: Value) -> Value:
    if not iterables:
        vm.stop(reasons.RAISES, "map() without iterables")
    return Iterator("map", (function, *map(vm.iterate, iterables)))


@TABLE.row(filter)
def filter_(vm: VM, function: Value, iterable: Value, /) -> Value:
    return Iterator("filter", (function, vm.iterate(iterable)))


@TABLE.row(reversed)
def reversed_(vm: VM, value: Value, /) -> Value:
    value = vm.look(value)
    method = vm.method_of_class(value, "__reversed__")
    match value:
        case Tuple():
            return Iterator("reversed", (value,), backwards=True)
        case Object(cls) if cls is list:
            return backwards(vm, value)
        case Constant(range() as numbers):
            return Iterator("range", (Constant(numbers[::-1]),))
        case Constant(str() as text):
            return Iterator("reversed", (Tuple(tuple(map(Constant, text))),), backwards=True)
        case Object(cls) if issubclass(cls, dict) and classes.inherits(
            vm, cls, dict, "__reversed__"
        ):
            return backwards(vm, value)
    if method is not None:
        return vm.call(method, ())
    cls = vm.class_of(value)
    length = classes.lookup(vm, cls, "__len__")
    if not _is_of_torch(length) or vm.method_of_class(value, "__getitem__") is None:
        vm.stop(reasons.UNSUPPORTED, f"reversed() of a {cls.__qualname__}")
    return Iterator("reversed", (value, len_(vm, value)), backwards=True)


def _is_of_torch(length: object) -> bool:
    """Whether a length may be asked for again, where an iterator is made for code after a break:
    that runs no code of the program's."""
    return isinstance(length, types.FunctionType) and length.__module__.startswith("torch.nn.")


class _Sortable:
    """A key of a sort, compared by the traced program's `<`."""

    def __init__(self, vm: VM, key: Value) -> None:
        self.vm = vm
        self.key = key

    def __lt__(self, other: _Sortable) -> bool:
        return self.vm.truth(self.vm.compare("<", self.key, other.key))


def sorted_items(
    vm: VM, items: list[Value], key: Value | None, reverse: Value | None
) -> list[Value]:
    """The items in order, as `sorted` and `list.sort` give them."""
    by = None if key is None or vm.same(key, NONE) else key
    keys = [_Sortable(vm, item if by is None else vm.call(by, (item,))) for item in items]
    descending = reverse is not None and vm.truth(reverse)
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=descending)
    return [items[k] for k in order]


@TABLE.row(sorted)
def sorted_(
    vm: VM, iterable: Value, /, *, key: Value | None = None, reverse: Value | None = None
) -> Value:
    return containers.new_list(vm, sorted_items(vm, list(_any_order(vm, iterable)), key, reverse))


def _any_order(vm: VM, iterable: Value) -> Any:
    """All items; a set's in any order, if they are constants that sort in one way only."""
    iterable = vm.look(iterable)
    if (
        isinstance(iterable, Object)
        and issubclass(iterable.cls, set | frozenset)
        and not any(
            isinstance(classes.lookup(vm, iterable.cls, name), FunctionType)
            for name in ("__iter__", "__len__")
        )
    ):
        entries = containers.all_entries(vm, iterable).entries.values()
        if all(constants.is_constant(vm, entry.key) for entry in entries):
            return [entry.key for entry in entries]
    return vm.unpack(iterable, hinted=True)


# Aggregation


@TABLE.row(math.prod)
def prod(vm: VM, iterable: Value, /, *, start: Value | None = None) -> Value:
    total: Value = Constant(1) if start is None else start
    for item in each(vm, iterable):
        total = vm.binary("*", total, item)
    return total


@TABLE.row(math.fsum)
def fsum(vm: VM, iterable: Value, /) -> Value:
    items = Tuple(tuple(vm.unpack(iterable)))
    if not constants.foldable(vm, (items,), {}):
        vm.stop(reasons.DATA_VALUE, "math.fsum() of tensors")
    return constants.fold(vm, math.fsum, (items,))


@TABLE.row(sum)
def sum_(vm: VM, iterable: Value, /, start: Value | None = None) -> Value:
    """Numbers are added as `sum` adds them: floats are compensated from 3.12 on. What may not be
    added is added at once: nothing is done between that and the exception."""
    total: Value = Constant(0) if start is None else start
    pending: list[Value] | None = None
    if constants.is_constant(vm, total):
        total = constants.fold(vm, sum, (Tuple(()), total))
        pending = [] if _is_number(vm, total) else None
    for item in each(vm, iterable):
        if SUM_COMPENSATES and _varying_floats(vm, (total, *(pending or ()), item)):
            total, item, pending = vm.look(total), vm.look(item), pending or []
        varies = numbers.among(vm, (item,))
        if pending is not None and not varies and _is_number(vm, item):
            pending.append(item)
            continue
        if pending is not None:
            total = constants.fold(vm, sum, (Tuple(tuple(pending)), total))
            pending = None
        total = vm.binary("+", total, item)
    return total if pending is None else constants.fold(vm, sum, (Tuple(tuple(pending)), total))


def _varying_floats(vm: VM, values: Sequence[Value]) -> bool:
    """Whether all are numbers, one is a float, and one varies."""
    kinds = set(map(vm.class_of, values))
    return float in kinds and kinds <= {bool, int, float} and numbers.among(vm, values)


def _is_number(vm: VM, value: Value) -> bool:
    return vm.class_of(value) in (bool, int, float, complex) and constants.is_constant(vm, value)


# Numbers and text


@TABLE.row(abs)
def abs_(vm: VM, value: Value, /) -> Value:
    return _by_method(vm, abs, "__abs__", value)


@TABLE.row(round)
def round_(vm: VM, number: Value, ndigits: Value | None = None) -> Value:
    return _by_method(vm, round, "__round__", number, *([] if ndigits is None else [ndigits]))


@TABLE.row(divmod)
def divmod_(vm: VM, a: Value, b: Value, /) -> Value:
    return _by_method(vm, divmod, "__divmod__", a, b)


@TABLE.row(pow)
def pow_(vm: VM, base: Value, exp: Value, mod: Value | None = None) -> Value:
    if mod is None:
        return vm.binary("**", base, exp)
    return _by_method(vm, pow, "__pow__", base, exp, mod)


def _by_method(vm: VM, function: Callable[..., Any], name: str, *args: Value) -> Value:
    """Fold constants, put tensors into the graph, call the method of anything else."""
    if constants.foldable(vm, args, {}):
        return constants.fold(vm, function, args)
    value = vm.look(args[0])
    if isinstance(value, Tensor):
        return vm.op(function, args)
    method = vm.method_of_class(value, name)
    if method is None:
        vm.stop(reasons.RAISES, f"{function.__name__}() of a {vm.class_of(value).__qualname__}")
    return vm.call(method, args[1:])


@TABLE.row(repr)
def repr_(vm: VM, value: Value, /) -> Value:
    return formatting.representation(vm, value)


@TABLE.row(ascii)
def ascii_(vm: VM, value: Value, /) -> Value:
    text = constants.python_value(vm, formatting.representation(vm, value))
    return Constant(text.encode("ascii", "backslashreplace").decode("ascii"))


@TABLE.row(bytes)
def bytes_(vm: VM, *args: Value, **kwargs: Value) -> Value:
    if constants.foldable(vm, args, kwargs):
        return constants.fold(vm, bytes, args, kwargs)
    method = vm.method_of_class(args[0], "__bytes__")
    if method is not None and len(args) == 1:
        return protocols.of_class(vm, bytes, "__bytes__", vm.call(method, ()))
    vm.stop(reasons.UNSUPPORTED, "bytes() of an object")


def _rounded(function: Callable[..., Any], special: str) -> Callable[..., Value]:
    def row(vm: VM, value: Value, /) -> Value:
        if constants.foldable(vm, (value,), {}):
            return constants.fold(vm, function, (value,))
        method = vm.method_of_class(value, special)
        if method is not None and not isinstance(vm.look(value), Tensor):
            return vm.call(method, ())
        if isinstance(vm.look(value), Tensor):
            vm.stop(reasons.DATA_VALUE, f"math.{function.__name__}() of a tensor")
        return constants.fold(vm, function, (vm.call_object(float, value),))

    return row


TABLE.add(math.ceil, _rounded(math.ceil, "__ceil__"))
TABLE.add(math.floor, _rounded(math.floor, "__floor__"))
TABLE.add(math.trunc, _rounded(math.trunc, "__trunc__"))


@TABLE.row(format)
def format_(vm: VM, value: Value, spec: Value | None = None, /) -> Value:
    return formatting.formatted(vm, value, Constant("") if spec is None else spec)


# operator


def _operator_row(name: str, *, in_place: bool) -> Callable[..., Value]:
    return lambda vm, a, b, /: vm.binary(name, a, b, in_place=in_place)


def _compare_row(name: str) -> Callable[..., Value]:
    return lambda vm, a, b, /: vm.compare(name, a, b)


def _unary_row(name: str) -> Callable[..., Value]:
    return lambda vm, a, /: vm.unary(name, a)


for _symbol, (_function, _in_place, _) in operators.BINARY.items():
    TABLE.add(_function, _operator_row(_symbol, in_place=False))
    TABLE.add(_in_place, _operator_row(_symbol, in_place=True))
for _symbol, (_function, _, _) in operators.COMPARE.items():
    TABLE.add(_function, _compare_row(_symbol))
for _symbol, (_unary_function, _) in operators.UNARY.items():
    TABLE.add(_unary_function, _unary_row(_symbol))


@TABLE.row(operator.not_)
def not_(vm: VM, value: Value, /) -> Value:
    return Constant(not vm.truth(value))


@TABLE.row(operator.truth)
def truth(vm: VM, value: Value, /) -> Value:
    return Constant(vm.truth(value))


@TABLE.row(operator.is_)
def is_(vm: VM, a: Value, b: Value, /) -> Value:
    return Constant(vm.same(a, b))


@TABLE.row(operator.is_not)
def is_not(vm: VM, a: Value, b: Value, /) -> Value:
    return Constant(not vm.same(a, b))


@TABLE.row(operator.contains)
def contains(vm: VM, container: Value, item: Value, /) -> Value:
    return Constant(containers.contains(vm, container, item))


@TABLE.row(operator.getitem)
def getitem(vm: VM, container: Value, key: Value, /) -> Value:
    return subscripts.get(vm, container, key)


@TABLE.row(operator.setitem)
def setitem(vm: VM, container: Value, key: Value, value: Value, /) -> Value:
    subscripts.set_(vm, container, key, value)
    return NONE


@TABLE.row(operator.delitem)
def delitem(vm: VM, container: Value, key: Value, /) -> Value:
    subscripts.delete(vm, container, key)
    return NONE


@TABLE.row(slice)
def slice_(vm: VM, *bounds: Value) -> Value:
    match bounds:
        case (stop,):
            return Slice(NONE, stop, NONE)
        case (start, stop):
            return Slice(start, stop, NONE)
        case (start, stop, step):
            return Slice(start, stop, step)
    vm.stop(reasons.RAISES, "slice() without arguments")
