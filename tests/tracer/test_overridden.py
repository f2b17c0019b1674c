"""Subclasses of containers: which of their own methods the inherited ones call, and with what."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from tests.portions import portion

MAKE: dict[type, Callable[[type], Any]] = {
    list: lambda cls: cls([3, 1, 2]),
    dict: lambda cls: cls({"a": 1, "b": 2}),
    collections.OrderedDict: lambda cls: cls({"a": 1, "b": 2}),
    collections.defaultdict: lambda cls: cls(int, {"a": 1, "b": 2}),
    collections.Counter: lambda cls: cls({"a": 1, "b": 2}),
    set: lambda cls: cls((1, 2)),
    frozenset: lambda cls: cls((1, 2)),
    tuple: lambda cls: cls((3, 1, 2)),
    collections.deque: lambda cls: cls((3, 1, 2)),
}
OVERRIDDEN = """
    __setitem__ __getitem__ __delitem__ __contains__ __len__ __iter__ __missing__ keys items values
    __eq__ __init__ update append extend add __reversed__ __bool__ get pop setdefault __or__ copy
    nothing
""".split()


def _begun(iterator: Any) -> Any:
    next(iterator)
    return iterator


USES: Mapping[str, Callable[[Any], Any]] = {
    "make": lambda c: None,
    "update": lambda c: c.update({"c": 3}),
    "update, named": lambda c: c.update(c=3),
    "update, by a set": lambda c: c.update({5}),
    "|": lambda c: c | {"c": 3},
    "| sets": lambda c: c | {5},
    "|=": lambda c: c.__ior__({"c": 3}),
    "|= sets": lambda c: c.__ior__({5}),
    "setdefault": lambda c: c.setdefault("z", 5),
    "setdefault, there": lambda c: c.setdefault("a", 5),
    "get": lambda c: (c.get("a"), c.get("z", 7)),
    "pop a": lambda c: c.pop("a"),
    "pop z": lambda c: c.pop("z", 5),
    "pop": lambda c: c.pop(),
    "popitem": lambda c: c.popitem(),
    "clear": lambda c: c.clear(),
    "copy": lambda c: c.copy(),
    "move_to_end": lambda c: c.move_to_end("a"),
    "keys": lambda c: list(c.keys()),
    "items": lambda c: list(c.items()),
    "values": lambda c: list(c.values()),
    "dict": lambda c: dict(c),
    "dict **": lambda c: {**c},
    "list": lambda c: list(c),
    "tuple": lambda c: tuple(c),
    "set": lambda c: set(c),
    "sorted": lambda c: sorted(c),
    "reversed": lambda c: list(reversed(c)),
    "star": lambda c: [*c],
    "unpack": lambda c: (lambda *a: a)(*c),
    "len": lambda c: len(c),
    "bool": lambda c: bool(c),
    "not": lambda c: not c,
    "in": lambda c: (1 in c, "a" in c),
    "==": lambda c: (c == {"a": 1}, c == [3, 1, 2], c != (3, 1, 2)),
    "item": lambda c: (c[0], c[-1]),
    "item a": lambda c: c["a"],
    "item z": lambda c: c["z"],
    "slice": lambda c: c[:2],
    "append": lambda c: c.append(5),
    "extend": lambda c: c.extend([5, 6]),
    "+=": lambda c: c.__iadd__([5]),
    "+": lambda c: c + type(c)([5]),
    "*": lambda c: c * 2,
    "insert": lambda c: c.insert(0, 5),
    "sort": lambda c: c.sort(),
    "reverse": lambda c: c.reverse(),
    "index": lambda c: (c.index(1), c.count(1)),
    "add": lambda c: c.add(7),
    "union": lambda c: c.union({5}),
    "&": lambda c: c & {1},
    "most_common": lambda c: c.most_common(1),
    "total": lambda c: c.total(),
    "subtract": lambda c: c.subtract({"a": 1}),
    "elements": lambda c: list(c.elements()),
    "+ counters": lambda c: c + collections.Counter("a"),
    "fromkeys": lambda c: type(c).fromkeys("ab", 3),
    "set item": lambda c: c.__setitem__("a", 5),
    "delete": lambda c: c.__delitem__("a"),
    "sum": lambda c: sum(c),
    "max": lambda c: max(c),
    "zip": lambda c: list(zip(c, c, strict=True)),
    "enumerate": lambda c: list(enumerate(c)),
    "any": lambda c: any(c),
    "join": lambda c: ",".join(c),
    "list.extend": lambda c: [0].extend(c),
    "dict.update": lambda c: {}.update(c),
    "isdisjoint": lambda c: {5}.isdisjoint(c),
    "an iterator": lambda c: _begun(iter(c)),
    "an iterator, backwards": lambda c: _begun(reversed(c)),
    "issubset": lambda c: {1}.issubset(c),
}


def telling(base: type, name: str, told: list[object]) -> type:
    """A subclass with a method of its own, which is noted when it is called."""
    own = getattr(base, name, None)
    if own is None and name not in ("__missing__", "__bool__", "nothing"):
        pytest.skip(f"a {base.__name__} has no {name}")

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        told.append((name, len(args), len(kwargs)))
        return own(self, *args, **kwargs) if own is not None else True

    return type("Own", (base,), {name: method})


@pytest.mark.parametrize("breaks", [True, False])
@pytest.mark.parametrize("base", MAKE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", OVERRIDDEN)
def test_who_calls_whom(name: str, base: type, breaks: bool) -> None:
    told: list[object] = []
    cls = telling(base, name, told)
    for use, act in portion(USES.items(), 8, name, base.__name__, breaks):

        def program(x: Tensor, act: Any = act) -> Any:
            made = MAKE[base](cls)
            found = act(made)
            if breaks:
                jitpkg.graph_break()
            return x + 1, found, made

        def observed(function: Callable[[Tensor], Any]) -> Any:
            told.clear()
            try:
                _, found, made = function(torch.ones(2))
            except Exception as error:
                return type(error), list(told)
            called = list(told)
            return called, type(found), _content(found), type(made), _content(made)

        assert observed(jitpkg.compile(program)) == observed(program), use


@pytest.mark.parametrize("base", MAKE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("name", OVERRIDDEN)
def test_who_calls_whom_of_an_argument(name: str, base: type) -> None:
    """Guards call none of them, nor does what changes the container behind the graph."""
    told: list[object] = []
    cls = telling(base, name, told)
    for use, act in portion(USES.items(), 6, name, base.__name__):

        def program(x: Tensor, given: Any, act: Any = act) -> Any:
            x += 1
            return x, act(given)

        def observed(function: Callable[..., Any]) -> Any:
            x, given = torch.ones(2), None
            told.clear()
            try:
                given = MAKE[base](cls)
                _, found = function(x, given)
            except Exception as error:
                return type(error), list(told), x.tolist(), _content(given)
            called = list(told)
            return called, type(found), _content(found), _content(given), x.tolist()

        compiled = jitpkg.compile(program)
        for k in range(3):
            assert observed(compiled) == observed(program), (use, k)


def _content(value: Any) -> Any:
    if hasattr(value, "__next__"):
        return list(value)
    return _items(value), getattr(value, "default_factory", 0), getattr(value, "maxlen", 0)


def _items(value: Any) -> Any:
    for base in (collections.OrderedDict, dict, list, tuple, set, frozenset, collections.deque):
        if base is collections.OrderedDict and isinstance(value, base) and not dict.__len__(value):
            return []  # walked, one of a subclass raises after `clear`
        if isinstance(value, base):
            return list(base.items(value) if issubclass(base, dict) else base.__iter__(value))  # type: ignore[attr-defined]
    return value


class Telling:
    """Says which of its attributes are read, but for its class, for which `isinstance` asks."""

    def __init__(self) -> None:
        self.a, self.told = 1, []

    def __getattribute__(self, name: str) -> Any:
        if name not in ("told", "__class__"):
            self.told.append(name)
        return object.__getattribute__(self, name)


class Slotted(Telling):
    __slots__ = ("slot",)

    def __init__(self) -> None:
        super().__init__()
        self.slot = 5


READS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda o: 0,
    "an attribute": lambda o: o.a,
    "twice": lambda o: o.a + o.a,
    "what it has not": lambda o: getattr(o, "b", 3),
    "vars": lambda o: len(vars(o)),
    "the dictionary": lambda o: o.__dict__["a"],
    "its keys": lambda o: list(o.__dict__),
    "by object": lambda o: object.__getattribute__(o, "a"),
    "a method": lambda o: o.__init__() or o.a,
    "a change": lambda o: setattr(o, "b", 2) or 1,
    "a deletion": lambda o: delattr(o, "a") or 1,
    "a change and a read": lambda o: setattr(o, "a", 2) or o.a,
}


@pytest.mark.parametrize("cls", [Telling, Slotted])
@pytest.mark.parametrize("read", READS)
def test_nobody_else_reads_attributes(read: str, cls: type) -> None:
    """Neither guards nor what writes an entry's effects."""

    def program(x: Tensor, o: Telling) -> tuple[Tensor, Any]:
        return x * 2, READS[read](o)

    compiled = jitpkg.compile(program)
    for _ in range(3):
        found = []
        for function in (compiled, program):
            o = cls()
            o.told.clear()
            found.append((function(torch.ones(2), o)[1], o.told))
        assert found[0] == found[1]


def test_what_is_read_of_such_an_object_is_guarded() -> None:
    def program(x: Tensor, o: Telling) -> Tensor:
        return x * o.a + getattr(o, "b", 0)

    compiled, o = jitpkg.compile(program), Telling()
    for a, b in ((1, None), (2, None), (2, 3), (1, 3)):
        o.a = a
        if b is not None:
            o.b = b
        assert compiled(torch.ones(2), o).tolist() == [a + (b or 0)] * 2


def test_isdisjoint_takes_no_more_than_it_needs() -> None:
    def program(x: Tensor) -> tuple[Tensor, Any]:
        items = iter([1, 2, 3])
        return x * 2, ({1}.isdisjoint(items), list(items), {5}.isdisjoint([1]), {5}.isdisjoint({5}))

    assert jitpkg.compile(program)(torch.ones(2))[1] == program(torch.ones(2))[1]
