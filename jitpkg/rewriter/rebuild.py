"""Traced values -> Python text that makes the real objects.

Objects that exist are read by their path. Of new ones, those with identity are made empty first and
filled then, so that they may refer to each other.
"""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Iterable, Sequence
from typing import cast

import torch

from jitpkg.guards.kinds import static_lookup
from jitpkg.guards.numbers import Expression, number_text, read_by
from jitpkg.guards.sources import Held, Source
from jitpkg.guards.special import special
from jitpkg.guards.text import Text
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
from jitpkg.tracer.iterators import FINISHED, walks_as_begun
from jitpkg.tracer.look import source_of
from jitpkg.tracer.values import (
    NULL,
    UNBOUND,
    Cell,
    Constant,
    Continuation,
    DictView,
    Function,
    Generator,
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


def reachable(heap: Heap, values: Sequence[Value], *, cells: bool = False) -> set[Value]:
    """All of these values, and what they refer to; with `cells` what existing cells hold, too."""
    seen: set[Value] = set()
    todo = list(values)
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if source_of(value) is None or isinstance(value, Object | Cell if cells else Object):
            todo.extend(parts(heap, value))
    return seen


def can_rebuild(heap: Heap, values: Sequence[Value]) -> bool:
    """Whether all of these values, and what they refer to, can be made real."""
    return all(
        _has_row(heap, value) and not (isinstance(value, Iterator) and _holds_itself(heap, value))
        for value in reachable(heap, values)
    )


def _holds_itself(heap: Heap, iterator: Iterator) -> bool:
    """Whether an iterator is among the items that it walks."""
    seen: set[Value] = set()
    todo = list(iterator.parts)
    while todo:
        value = todo.pop()
        if value is iterator:
            return True
        if value not in seen and source_of(value) is None:
            seen.add(value)
            todo.extend(parts(heap, value))
    return False


def _has_row(heap: Heap, value: Value) -> bool:
    match value:
        case Generator():
            return False
        case Iterator():
            return walks_as_begun(heap, value)
        case Function(code, closure=closure):
            return len(closure) == len(code.co_freevars)  # else it is still in the making
        case Object(cls, None):
            raised = "__traceback__" in (heap.read(value, "attributes") or {})
            return cls is not types.TracebackType and not raised
        case _:
            return True


def parts(heap: Heap, value: Value) -> list[Value]:
    """What a new value refers to."""
    match value:
        case Tuple():
            return list(value.items)
        case Slice():
            return [value.start, value.stop, value.step]
        case Object():
            return _object_parts(heap, value)
        case InstanceDict() | DictView():
            return [value.of]
        case Cell():
            content = heap.read(value, "content")
            return [] if content is None else [content]
        case Function():
            optional = (value.defaults, value.keyword_defaults, value.annotations)
            attributes = heap.read(value, "attributes") or {}
            return [*value.closure, *(v for v in optional if v is not None), *attributes.values()]
        case Method():
            return [value.function, value.receiver]
        case Super():
            return [value.receiver]
        case Iterator():
            return list(value.parts)
        case Continuation():
            return [*value.locals, *value.stack]
        case _:
            return []


def _object_parts(heap: Heap, value: Object) -> list[Value]:
    if value.source is not None:
        return []
    found: list[Value] = []
    if (items := heap.read(value, "items")) is not None:
        found.extend(items.items)
    if (entries := heap.read(value, "entries")) is not None:
        for entry in entries.entries.values():
            found.extend((entry.key, entry.value))
        if entries.factory is not None:
            found.append(entries.factory)
    if (content := heap.read(value, "content")) is not None:
        found.append(content)
    found.extend((heap.read(value, "attributes") or {}).values())
    return found


def needed(
    heap: Heap, values: Sequence[Value]
) -> tuple[list[Source], list[Tensor], list[Expression]]:
    """The paths to read and the numbers to compute before the graph runs, and the tensors that it
    must return."""
    sources: list[Source] = []
    numbers: list[Expression] = []
    tensors: list[Tensor] = []
    seen: set[Value] = set()
    todo = list(reversed(values))
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        source = source_of(value)
        if source is not None:
            sources.append(source)
        elif isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, Number | String):
            sources.extend(read_by(value.expression))
            numbers.append(value.expression)
        else:
            if isinstance(value, Function | Continuation):
                sources.append(value.globals)
            todo.extend(reversed(parts(heap, value)))
    return sources, tensors, list(dict.fromkeys(numbers))


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
            case Slice():
                bounds = (value.start, value.stop, value.step)
                return f"{self._hold(slice)}({', '.join(map(self.expression, bounds))})"
            case Object():
                return self._object(value)
            case Cell():
                return self._later(value, "cell", f"{self._hold(types.CellType)}()")
            case Function():
                return self._function(value)
            case Method():
                return self._method(value)
            case Super():
                start = self._hold(value.start)
                return f"{self._hold(super)}({start}, {self.expression(value.receiver)})"
            case Iterator():
                return self._iterator(value)
            case InstanceDict():
                return f"{self.expression(value.of)}.__dict__"
            case DictView():
                return f"{self.expression(value.of)}.{value.kind}()"
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

    # Objects

    def _object(self, value: Object) -> str:
        cls, base = value.cls, base_class(value.cls)
        if base is frozenset:
            return self._named(value, "frozenset", self._frozenset(value))
        if cls in _PLAIN:
            return self._later(value, cls.__name__, f"{self._hold(cls)}({self._arguments(value)})")
        held = self._hold(cls)
        if cls in FROM_ARGUMENTS:
            return self._named(value, cls.__name__, self._from_arguments(value))
        if cls is types.MappingProxyType:
            return self._proxy(value)
        if base is not None or issubclass(cls, BaseException):
            new = self.text.hold(cls.__new__, f"new_{cls.__name__}")
            return self._later(value, cls.__name__, f"{new}({held})")
        new_of = types.SimpleNamespace if issubclass(cls, types.SimpleNamespace) else object
        new = self.text.hold(special(new_of, "__new__"), "new_object")
        return self._later(value, cls.__name__, f"{new}({held})")

    def _arguments(self, value: Object) -> str:
        """What an empty container is made with."""
        if value.cls is collections.deque:
            items = self.heap.read(value, "items")
            return f"(), {items.limit if items else None}"
        if value.cls is collections.defaultdict:
            entries = self.heap.read(value, "entries")
            if entries is not None and entries.factory is not None:
                return self.expression(entries.factory)
        return ""

    def _frozenset(self, value: Object) -> str:
        entries = self.heap.read(value, "entries")
        keys = [self.expression(e.key) for e in entries.entries.values()] if entries else []
        inner = "".join(f"{key}, " for key in keys)
        return f"{self._hold(value.cls)}(({inner}))"

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
        if entries is None:
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
        args = self.expression(content)
        self.text.line(f"{self.names[value]}.args = {args}")
        if issubclass(value.cls, StopIteration) and content.items:
            self.text.line(f"{self.names[value]}.value = {args}[0]")

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
                self.text.line(f"{name}.__dict__[{attribute!r}] = {text}")

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
                return f"{function}.__get__({receiver})"
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
        make = self._hold(reversed if value.kind == "reversed" else iter)
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
