"""Traced values -> Python text that makes the real objects.

Objects that exist are read by their path. Of new ones, those with identity are made empty first and
filled then, so that they may refer to each other.
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from torch.autograd.graph import increment_version

from jitpkg.guards.kinds import static_lookup
from jitpkg.guards.leaves import is_mutable
from jitpkg.guards.numbers import Expression, number_text
from jitpkg.guards.sources import Held, Source, has_own_getter
from jitpkg.guards.special import special
from jitpkg.guards.text import Text
from jitpkg.internals import dispatch, tensors
from jitpkg.rewriter.compiler import Compiler
from jitpkg.rewriter.door import UNBOUND as UNBOUND_OBJECT
from jitpkg.rewriter.handover import called_depth
from jitpkg.tracer.classes import ended_like
from jitpkg.tracer.construction import FROM_ARGUMENTS
from jitpkg.tracer.containers import base_class
from jitpkg.tracer.effects import (
    CallMethod,
    DeleteAttribute,
    DeleteItem,
    Effect,
    SetAttribute,
    SetCell,
    SetItem,
)
from jitpkg.tracer.heap import Heap
from jitpkg.tracer.iterators import FINISHED
from jitpkg.tracer.look import source_of
from jitpkg.tracer.values import (
    NULL,
    UNBOUND,
    Array,
    Call,
    Cell,
    Constant,
    Continuation,
    DictView,
    Function,
    InstanceDict,
    Iterator,
    Known,
    Lazy,
    Method,
    Number,
    Object,
    Slice,
    String,
    Super,
    Tensor,
    Tuple,
    Value,
)


class Rebuilder:
    """Writes the statements that make values real."""

    def __init__(self, text: Text, heap: Heap, compiler: Compiler | None) -> None:
        self.text = text
        self.heap = heap
        self.compiler = compiler
        self.names: dict[Value, str] = {}
        """Variables that hold values already."""
        self.numbers: dict[Expression, str] = {}
        """Variables that hold numbers which were computed before the graph ran."""
        self._fills: list[Object | Cell | Function] = []

    # Making

    def make(self, values: Sequence[Value]) -> None:
        """Make every new object among `values` and what they refer to."""
        for value in values:
            self.expression(value)
        self._fill_pending()

    def _fill_pending(self) -> None:
        while self._fills:
            self._fill(self._fills.pop(0))

    def expression(self, value: Value) -> str:
        """The text of a value; a new object with identity is made by a statement first."""
        known = self.names.get(value)
        if known is not None:
            return known
        source = source_of(value)
        if source is not None:
            return self._of_source(value, source)
        match value:
            case Constant():
                return self._constant(value.value)
            case Number() | String():
                known = self.numbers.get(value.expression)
                return known or number_text(value.expression, self.text)
            case Tuple():
                return self._named(value, "tuple", self._tuple(value))
            case Array():
                return self._named(value, "array", self._array(value))
            case Tensor() if (array := self.heap.read(value, "of_array")) is not None:
                return self._of_array(value, array)
            case Slice():
                bounds = (value.start, value.stop, value.step)
                made = f"{self._hold(slice)}({', '.join(map(self.expression, bounds))})"
                return self._named(value, "slice", made)
            case Object():
                return self._object(value)
            case Cell():
                return self._later(value, "cell", f"{self._hold(types.CellType)}()")
            case Function():
                return self._function(value)
            case Method():
                return self._named(value, "method", self._method(value))
            case Super():
                start, receiver = self._hold(value.start), self.expression(value.receiver)
                return self._named(value, "super", f"{self._hold(super)}({start}, {receiver})")
            case Iterator():
                return self._iterator(value)
            case InstanceDict():
                return f"{self.expression(value.of)}.__dict__"
            case DictView():
                return self._named(value, "view", self._view(value))
            case Continuation():
                return self._continuation(value)
        if value is UNBOUND or value is NULL:
            return self._hold(UNBOUND_OBJECT)
        raise TypeError(f"no way to make {value} real")

    def _of_source(self, value: Value, source: Source) -> str:
        if isinstance(source, Held):
            if isinstance(value, Constant) and _is_shared(value.value):
                return repr(value.value)
            return self.text.hold(source.obj, "")
        return self.text.read(source)

    def _hold(self, obj: object) -> str:
        return self.text.hold(obj, getattr(obj, "__name__", ""))

    def _named(self, value: Value, hint: str, expression: str) -> str:
        name = self.text.variable(hint)
        self.text.line(f"{name} = {expression}")
        self.names[value] = name
        return name

    def _later(self, value: Object | Cell | Function, hint: str, expression: str) -> str:
        """Make an object that is filled when all others are made."""
        name = self._named(value, hint, expression)
        self._fills.append(value)
        return name

    def _constant(self, value: object) -> str:
        if value is None or (isinstance(value, bool | int | str) and type(value) in _LITERALS):
            return repr(value)
        return self.text.hold(value, "constant")

    def _tuple(self, value: Tuple) -> str:
        items = [self.expression(item) for item in value.items]
        text = f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        if value.cls is tuple:
            if items and all(map(_is_literal, value.items)):  # or all calls would share one tuple
                return f"{self._hold(tuple)}([{', '.join(items)}])"
            return text
        cls = self._hold(value.cls)
        if value.cls is torch.Size or value.cls.__module__ == "torch.return_types":
            return f"{cls}({text})"
        return f"{self.text.hold(tuple.__new__, 'new_tuple')}({cls}, {text})"

    def _numpy(self, tensor: str) -> str:
        return f"{self.text.hold(torch.Tensor.numpy, 'numpy')}({tensor})"

    def _array(self, value: Array) -> str:
        """One with memory of its own, or that of a tensor or of another array."""
        if value.view is not None:
            return self._call(value.view)
        memory = self.heap.read(value, "content") or value.memory
        if isinstance(memory, Constant):
            copy = f"{self.text.hold(memory.value, 'array')}.copy('K')"
            return copy if value.owns else f"{copy}[...]"
        array = self._numpy(self.expression(memory))
        is_alone = value.owns and not self.heap.read(value, "shared")
        return f"{array}.copy('K')" if is_alone else array

    def _of_array(self, value: Tensor, array: Array) -> str:
        """A tensor that shares an array's memory, written to as often as the graph has done."""
        take, given = self.text.hold(torch.from_numpy, "from_numpy"), self.expression(array)
        name = self._named(value, "tensor", f"{take}({given})")
        if writes := self.heap.read(value, "writes"):
            increment = self.text.hold(increment_version, "increment_version")
            self.text.line(f"{increment}(({f'{name}, ' * writes}))")
        return name

    def _call(self, call: Call) -> str:
        named = [f"{name}={self.expression(value)}" for name, value in call.kwargs.items()]
        given = ", ".join([*map(self.expression, call.args), *named])
        return f"{self._hold(call.function)}({given})"

    # Objects

    def _object(self, value: Object) -> str:
        cls, base = value.cls, base_class(value.cls)
        if base is frozenset:
            return self._later(value, "frozenset", self._frozenset(value))
        if cls in _PLAIN:
            return self._later(value, cls.__name__, f"{self._hold(cls)}({self._arguments(value)})")
        if cls in FROM_ARGUMENTS:
            return self._named(value, cls.__name__, self._from_arguments(value))
        if cls is types.MappingProxyType:
            return self._proxy(value)
        if issubclass(cls, torch.Tensor):
            return self._later(value, cls.__name__, self._tensor_of_subclass(value))
        name = self._later(value, cls.__name__, self._new(cls))
        if issubclass(cls, collections.defaultdict) and (factory := self._factory(value)):
            set_ = self.text.hold(_set_factory, "set_factory")
            self.text.line(f"{set_}({name}, {factory})")
        return name

    def _factory(self, value: Object) -> str | None:
        """What a defaultdict calls for a key that is missing."""
        entries = self.heap.read(value, "entries")
        if entries is None or entries.factory is None:
            return None
        return self.expression(entries.factory)

    def _arguments(self, value: Object) -> str:
        """What an empty container is made with."""
        if value.cls is collections.deque:
            items = self.heap.read(value, "items")
            return f"(), {items.limit if items else None}"
        if value.cls is collections.defaultdict:
            return self._factory(value) or ""
        return ""

    def _frozenset(self, value: Object) -> str:
        entries = self.heap.read(value, "entries")
        keys = [self.expression(e.key) for e in entries.entries.values()] if entries else []
        return self._new(value.cls, _tuple_of(keys))

    def _new(self, cls: type, *arguments: str) -> str:
        """A call of the `__new__` that is not written in Python."""
        builtin = next(base for base in cls.__mro__ if not is_mutable(base))
        new = self.text.hold(special(builtin, "__new__"), f"new_{builtin.__name__}")
        return f"{new}({', '.join((self._hold(cls), *arguments))})"

    def _tensor_of_subclass(self, value: Object) -> str:
        """One with the memory of a plain tensor, or one that is wrapped around its attributes."""
        content = self.heap.read(value, "content")
        if content is None:
            return self._wrapper(value)
        tensor, cls = self.expression(content), self._hold(value.cls)
        if self.heap.read(value, "shared"):
            return f"{self.text.hold(torch.Tensor.as_subclass, 'as_subclass')}({tensor}, {cls})"
        make = self.text.hold(tensors.MAKE_SUBCLASS.get(), "make_subclass")
        return f"{make}({cls}, {tensor}, False)"

    def _wrapper(self, value: Object) -> str:
        facts = self.heap.read(value, "facts")
        assert facts is not None
        make = self.text.hold(dispatch.WRAPPER.get(), "make_wrapper")
        dtype, device = self._hold(facts.dtype), self._hold(facts.device)
        of = f"strides={facts.stride}, dtype={dtype}, device={device}"
        return f"{make}({self._hold(value.cls)}, {facts.size}, {of})"

    def _proxy(self, value: Object) -> str:
        content = self.heap.read(value, "content")
        assert content is not None
        shown = self.expression(content)
        if isinstance(content, Known):
            return f"{shown}.__dict__"
        return self._named(value, "proxy", f"{self._hold(types.MappingProxyType)}({shown})")

    def _from_arguments(self, value: Object) -> str:
        content = cast(Tuple, self.heap.read(value, "content"))
        function, args, named = content.items
        assert isinstance(args, Tuple)
        named_entries = self.heap.read(named, "entries")
        pieces = [self.expression(function), *(self.expression(item) for item in args.items)]
        if named_entries is not None:
            for name, entry in named_entries.entries.items():
                pieces.append(f"{name}={self.expression(entry.value)}")
        return f"{self._hold(value.cls)}({', '.join(pieces)})"

    def _fill(self, value: Object | Cell | Function) -> None:
        match value:
            case Cell():
                content = self.heap.read(value, "content")
                if content is not None and content is not UNBOUND:
                    text = self.expression(content)
                    self.text.line(f"{self.names[value]}.cell_contents = {text}")
            case Function():
                self._fill_attributes(value)
            case Object():
                self._fill_items(value)
                self._fill_exception(value)
                self._fill_property(value)
                self._fill_attributes(value)

    def _fill_items(self, value: Object) -> None:
        name, base = self.names[value], base_class(value.cls)
        items = self.heap.read(value, "items")
        if items is not None and items.items:
            inner = "".join(f"{self.expression(item)}, " for item in items.items)
            assert base is not None
            call = f"{name}.extend("
            if value.cls is not base:
                call = f"{self.text.hold(special(base, 'extend'), 'extend')}({name}, "
            self.text.line(f"{call}({inner}))")
        entries = self.heap.read(value, "entries")
        if entries is None or base is frozenset:
            return
        assert base is not None
        for entry in entries.entries.values():
            key = self.expression(entry.key)
            if base is set:
                self.text.line(f"{self.text.hold(set.add, 'add')}({name}, {key})")
            elif value.cls is base:
                self.text.line(f"{name}[{key}] = {self.expression(entry.value)}")
            else:
                setitem = self.text.hold(special(base, "__setitem__"), "setitem")
                self.text.line(f"{setitem}({name}, {key}, {self.expression(entry.value)})")

    def _fill_exception(self, value: Object) -> None:
        content = self.heap.read(value, "content")
        if not issubclass(value.cls, BaseException) or not isinstance(content, Tuple):
            return
        name, args = self.names[value], self.expression(content)
        self._set_slot(name, value.cls, BaseException, "args", args)
        if issubclass(value.cls, StopIteration) and content.items:
            self._set_slot(name, value.cls, StopIteration, "value", f"{args}[0]")

    def _fill_property(self, value: Object) -> None:
        content = self.heap.read(value, "content")
        if issubclass(value.cls, property) and isinstance(content, Tuple):
            functions = ", ".join(self.expression(item) for item in content.items)
            init = self.text.hold(property.__init__, "init_property")
            self.text.line(f"{init}({self.names[value]}, {functions})")

    def _set_slot(self, name: str, cls: type, base: type, attribute: str, text: str) -> None:
        if not is_mutable(cls):
            self.text.line(f"{name}.{attribute} = {text}")
            return
        set_ = self.text.hold(special(base, attribute).__set__, f"set_{attribute}")
        self.text.line(f"{set_}({name}, {text})")

    def _fill_attributes(self, value: Object | Function) -> None:
        name = self.names[value]
        cls = value.cls if isinstance(value, Object) else types.FunctionType
        for attribute, new in (self.heap.read(value, "attributes") or {}).items():
            if new is UNBOUND:
                continue
            text = self.expression(new)
            found = static_lookup(cls, attribute)
            if isinstance(found, types.MemberDescriptorType | types.GetSetDescriptorType):
                set_ = self.text.hold(object.__setattr__, "set_attribute")
                self.text.line(f"{set_}({name}, {attribute!r}, {text})")
            else:
                self.text.line(f"{self._dictionary(name, cls)}[{attribute!r}] = {text}")

    def _dictionary(self, name: str, cls: type) -> str:
        """An instance's dictionary, which the class's own `__getattribute__` may not give."""
        if not has_own_getter(cls):
            return f"{name}.__dict__"
        get = self.text.hold(special(object, "__getattribute__"), "get_attribute")
        return f"{get}({name}, '__dict__')"

    # Functions

    def _function(self, value: Function) -> str:
        make = self._hold(types.FunctionType)
        code = self.text.hold(value.code, value.code.co_name)
        globals_ = self.text.read(value.globals)
        defaults = "None" if value.defaults is None else self.expression(value.defaults)
        closure = "None"
        if value.closure:
            closure = "(" + "".join(f"{self.expression(c)}, " for c in value.closure) + ")"
        name = self._later(
            value,
            value.code.co_name,
            f"{make}({code}, {globals_}, {value.code.co_name!r}, {defaults}, {closure})",
        )
        if value.keyword_defaults is not None:
            text = self.expression(value.keyword_defaults)
            self.text.line(f"{name}.__kwdefaults__ = {text}")
        if isinstance(value.annotations, Tuple):
            items = [self.expression(item) for item in value.annotations.items]
            pairs = (f"{k}: {v}" for k, v in zip(items[::2], items[1::2], strict=True))
            self.text.line(f"{name}.__annotations__ = {{{', '.join(pairs)}}}")
        return name

    def _method(self, value: Method) -> str:
        function, receiver = self.expression(value.function), self.expression(value.receiver)
        descriptor = value.function.obj if isinstance(value.function, Known | Lazy) else None
        match descriptor:
            case types.ClassMethodDescriptorType():
                return f"{function}.__get__(None, {receiver})"
            case types.MethodDescriptorType() | types.WrapperDescriptorType():
                cls = self._hold(descriptor.__objclass__)
                return f"{function}.__get__({receiver}, {cls})"  # without it some crash
            case _:
                return f"{self._hold(types.MethodType)}({function}, {receiver})"

    # Continuations

    def _continuation(self, value: Continuation) -> str:
        assert self.compiler is not None, "effects have no continuations"
        middle = self.compiler.middle(value.code, value.code.co_qualname)
        points, p = middle.points, value.point
        passed = [place.depth for place in points.stack_above(p, 0) if place.passed]
        stack = {depth: self.expression(value.stack[depth]) for depth in passed}
        if value.calls and (called := called_depth(points, p, value.stack)) in stack:
            stack[called] = f"{self.text.hold(self.compiler.twin, 'twin')}({stack[called]})"
        restored = [*self._slots(value, points.restored_at(p)), *stack.values()]
        state = [*self._slots(value, points.only_handed_over(p)), _tuple_of(restored)]
        arguments = ", ".join(
            (
                str(p),
                self.text.read(value.globals),
                _tuple_of(self._slots(value, points.free)),
                _tuple_of(self._slots(value, points.cells_at(p))),
                _tuple_of(state),
            )
        )
        continuation = self.text.hold(middle.continuation, f"inside_{value.code.co_name}")
        return self._named(value, "go_on", f"{continuation}({arguments})")

    def _slots(self, value: Continuation, slots: Iterable[int]) -> list[str]:
        return [self.expression(value.locals[slot]) for slot in slots]

    # Iterators

    def _iterator(self, value: Iterator) -> str:
        position = self.heap.read(value, "position") or 0
        if value.kind in ("zip", "enumerate", "map", "filter"):
            made = self._composed(value, position)
        elif position >= FINISHED:
            made = f"{self.text.hold(ended_like(value), 'ended')}()"
        elif value.kind == "range":
            numbers = cast(Constant, value.parts[0]).value
            made = f"{self._hold(iter)}({self._constant(cast(range, numbers)[position:])})"
        else:
            return self._positioned(value, position)
        return self._named(value, "iterator", made)

    def _composed(self, value: Iterator, position: int) -> str:
        pieces = [self.expression(part) for part in value.parts]
        if value.kind == "enumerate":
            start = cast(int, cast(Constant, value.parts[1]).value)
            done = 0 if position >= FINISHED else position
            pieces[1] = str(start + done)
        if value.strict:
            pieces.append("strict=True")
        cls = {"zip": zip, "enumerate": enumerate, "map": map, "filter": filter}[value.kind]
        return f"{self._hold(cls)}({', '.join(pieces)})"

    def _positioned(self, value: Iterator, position: int) -> str:
        """An iterator that was advanced some steps; it must be made when its container is full."""
        sequence = self.expression(value.parts[0])
        self._fill_pending()
        make = self._walk(value)
        name = self._named(value, "iterator", f"{make}({sequence})")
        if position and value.kind == "dict":
            skip = self.text.hold(advance, "advance")
            self.text.line(f"{skip}({name}, {position})")
        elif value.kind == "reversed" and (position or len(value.parts) > 1):
            count = self.expression(value.parts[1]) if len(value.parts) > 1 else None
            count = count or f"{self._hold(len)}({sequence})"
            self.text.line(f"{name}.__setstate__({count} - 1 - {position})")
        elif position:
            self.text.line(f"{name}.__setstate__({position})")
        return name

    def _view(self, value: DictView) -> str:
        of = self.expression(value.of)
        base = base_class(value.of.cls) if isinstance(value.of, Object) else None
        if base is None or self._is_exact(value.of):
            return f"{of}.{value.kind}()"
        return f"{self.text.hold(special(base, value.kind), value.kind)}({of})"

    def _walk(self, value: Iterator) -> str:
        """What makes an iterator of its container; of a subclass's, the inherited method."""
        walked, is_reversed = value.parts[0], value.kind == "reversed"
        cls = walked.cls if isinstance(walked, Object) else list
        base = base_class(cls)
        if base is None or not is_mutable(cls):
            return self._hold(reversed if is_reversed else iter)
        name = "__reversed__" if is_reversed else "__iter__"
        return self.text.hold(special(base, name), name.strip("_"))

    # Effects

    def effect(self, effect: Effect) -> str:
        """The statement that does to the real object what the trace did."""
        target = self.expression(effect.target)
        match effect:
            case CallMethod(method=method, arguments=arguments):
                texts = [self.expression(argument) for argument in arguments]
                name = getattr(method, "__name__", "method")
                if self._is_exact(effect.target) and name.isidentifier() and name[0] != "_":
                    return f"{target}.{name}({', '.join(texts)})"
                return f"{self.text.hold(method, name.strip('_'))}({', '.join([target, *texts])})"
            case SetItem(key=key, value=value, cls=cls):
                texts = [self.expression(key), self.expression(value)]
                if self._is_exact(effect.target):
                    return f"{target}[{texts[0]}] = {texts[1]}"
                setitem = self.text.hold(special(cls, "__setitem__"), "setitem")
                return f"{setitem}({target}, {', '.join(texts)})"
            case DeleteItem(key=key, cls=cls):
                if self._is_exact(effect.target):
                    return f"del {target}[{self.expression(key)}]"
                delitem = self.text.hold(special(cls, "__delitem__"), "delitem")
                return f"{delitem}({target}, {self.expression(key)})"
            case SetAttribute(name=name, value=value):
                set_ = self.text.hold(object.__setattr__, "set_attribute")
                return f"{set_}({target}, {name!r}, {self.expression(value)})"
            case DeleteAttribute(name=name):
                delete = self.text.hold(object.__delattr__, "delete_attribute")
                return f"{delete}({target}, {name!r})"
            case SetCell(value=value) if value is UNBOUND:
                return f"del {target}.cell_contents"
            case SetCell(value=value):
                return f"{target}.cell_contents = {self.expression(value)}"

    def _is_exact(self, target: Value) -> bool:
        return isinstance(target, Object) and target.cls in _PLAIN


_set_factory: Any = special(collections.defaultdict, "default_factory").__set__


def _tuple_of(texts: Iterable[str]) -> str:
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def advance(iterator: types.GeneratorType[object, None, None], steps: int) -> None:
    """Take `steps` items from an iterator."""
    for _ in range(steps):
        next(iterator)


def _is_shared(constant: object) -> bool:
    """Whether every literal of this value is the very same object."""
    match constant:
        case None | bool():
            return True
        case int():
            return type(constant) is int and -5 <= constant <= 256
        case str():
            is_name = type(constant) is str and constant.isidentifier()
            return is_name and sys.intern(constant) is constant
        case _:
            return False


def _is_literal(value: Value) -> bool:
    if not isinstance(value, Constant):
        return False
    return value.source is None or isinstance(value.source, Held) or value.value is None


_LITERALS = frozenset({bool, int, str})
_PLAIN: frozenset[type] = frozenset(
    {
        list,
        dict,
        set,
        collections.deque,
        collections.OrderedDict,
        collections.defaultdict,
    }
)
"""Container classes that are made by calling them."""
