"""Arguments: a call with another value is another call; one with an equal value is not."""

import collections
import copy
import dataclasses
import datetime
import enum
import functools
import math
import operator
import pathlib
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

from tests.guards.support import WAYS, Compiler, Way, X, check, entries


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = 1
    B = 2


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any
    y: Any


class Plain:
    def __init__(self, k: Any) -> None:
        self.k = k


class Slotted:
    __slots__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k


class Whole(int):
    pass


class Words(str):
    __slots__ = ()


class Items(list):
    pass


class Mapping(dict):
    pass


class First:
    scale = 1


class Second:
    scale = 2


def kind(k: object) -> int:
    """A number for each class that a test tells apart by exact class."""
    return [bool, int, float, str, tuple, list, Whole, Words].index(type(k))


def total(value: Any) -> float:
    """Walks a nested structure of containers and numbers."""
    match value:
        case dict():
            return sum(total(v) for v in value.values())
        case list() | tuple():
            return sum(total(v) for v in value)
        case _:
            return value


Use = Callable[[torch.Tensor, Any], Any]
Make = Callable[[], Any]
Row = tuple[Use, Make, Make]

CHANGES: dict[str, Row] = {
    # Numbers and other atoms
    "int": (lambda x, k: x + k, lambda: 1, lambda: 2),
    "int, large": (lambda x, k: x + k % 7, lambda: 10**40, lambda: 10**40 + 1),
    "int, thousands of digits": (lambda x, k: x + k % 7, lambda: 10**5000, lambda: 10**5000 + 1),
    "bool": (lambda x, k: x + 1 if k else x - 1, lambda: True, lambda: False),
    "bool or int": (lambda x, k: x + (10 if k is True else k), lambda: 1, lambda: True),
    "int or float": (lambda x, k: x.int() * k, lambda: 1, lambda: 1.0),
    "float": (lambda x, k: x * k, lambda: 0.5, lambda: 0.25),
    "float, sign of zero": (lambda x, k: x + math.copysign(1.0, k), lambda: 0.0, lambda: -0.0),
    "float, sign of zero, back": (lambda x, k: x + math.copysign(1, k), lambda: -0.0, lambda: 0.0),
    "float, nan": (lambda x, k: x + (1 if k != k else 2), lambda: math.nan, lambda: 1.0),
    "float, to nan": (lambda x, k: x + (1 if k != k else 2), lambda: 1.0, lambda: math.nan),
    "float, inf": (lambda x, k: x + (1 if k > 9 else 2), lambda: math.inf, lambda: -math.inf),
    "complex": (lambda x, k: x * k.imag, lambda: 1 + 2j, lambda: 1 + 3j),
    "complex, sign of zero": (
        lambda x, k: x + math.copysign(1, k.imag),
        lambda: complex(1, 0.0),
        lambda: complex(1, -0.0),
    ),
    "str": (lambda x, k: x + len(k), lambda: "a", lambda: "bc"),
    "str, lone surrogate": (lambda x, k: x + ord(k), lambda: "\ud800", lambda: "\udc00"),
    "str or bytes": (lambda x, k: x + len(k) + isinstance(k, str), lambda: "a", lambda: b"a"),
    "bytes": (lambda x, k: x + k[0], lambda: b"a", lambda: b"b"),
    "None": (lambda x, k: x - 1 if k is None else x + k, lambda: None, lambda: 1),
    "Ellipsis": (lambda x, k: x[k] + 1, lambda: ..., lambda: 0),
    "int subclass": (lambda x, k: x + kind(k), lambda: 3, lambda: Whole(3)),
    "str subclass": (lambda x, k: x + kind(k), lambda: "a", lambda: Words("a")),
    # Tuples, slices, ranges
    "tuple, item": (lambda x, k: x + k[1], lambda: (1, 2), lambda: (1, 3)),
    "tuple, length": (lambda x, k: x + len(k), lambda: (1, 2), lambda: (1, 2, 3)),
    "tuple, class of an item": (lambda x, k: x + kind(k[0]), lambda: (1, 2), lambda: (True, 2)),
    "tuple, float item": (lambda x, k: x + kind(k[0]), lambda: (1, 2), lambda: (1.0, 2)),
    "tuple or list": (lambda x, k: x + kind(k), lambda: (1, 2), lambda: [1, 2]),
    "tuple, nested": (lambda x, k: x + k[0][1][0], lambda: ((0, (1,)),), lambda: ((0, (2,)),)),
    "namedtuple": (lambda x, k: x + k.b, lambda: Pair(1, 2), lambda: Pair(1, 3)),
    "namedtuple or tuple": (lambda x, k: x + hasattr(k, "a"), lambda: Pair(1, 2), lambda: (1, 2)),
    "Size": (lambda x, k: x.reshape(k), lambda: torch.Size([2]), lambda: torch.Size([2, 1])),
    "Size or tuple": (
        lambda x, k: x + isinstance(k, torch.Size),
        lambda: torch.Size([2]),
        lambda: (2,),
    ),
    "slice, start": (lambda x, k: x[k] + 1, lambda: slice(0, 2), lambda: slice(1, 2)),
    "slice, stop": (lambda x, k: x[k] + 1, lambda: slice(0, 2), lambda: slice(0, 1)),
    "slice, step": (lambda x, k: x[k] + 1, lambda: slice(0, 2, 1), lambda: slice(0, 2, 2)),
    "slice, None": (lambda x, k: x[k] + 1, lambda: slice(None), lambda: slice(1, None)),
    "range, stop": (lambda x, k: x + sum(k), lambda: range(3), lambda: range(4)),
    "range, equal but other bounds": (
        lambda x, k: x + k.stop,
        lambda: range(0, 3, 2),
        lambda: range(0, 4, 2),
    ),
    # Lists, dicts, sets
    "list, item": (lambda x, k: x + k[0], lambda: [1, 2], lambda: [3, 2]),
    "list, length": (lambda x, k: x + len(k), lambda: [1, 2], lambda: [1]),
    "list, order": (lambda x, k: x * k[0] - k[1], lambda: [1, 2], lambda: [2, 1]),
    "list, emptiness": (lambda x, k: x + 1 if k else x - 1, lambda: [1], list),
    "list, membership": (lambda x, k: x + 1 if 2 in k else x - 1, lambda: [1, 2], lambda: [1, 3]),
    "list subclass": (lambda x, k: x + (type(k) is list), lambda: [1], lambda: Items([1])),
    "list of tensors": (lambda x, k: x + k[0], lambda: [X], lambda: [X.double()]),
    "dict, value": (lambda x, k: x + k["a"], lambda: {"a": 1}, lambda: {"a": 2}),
    "dict, missing key": (lambda x, k: x + k.get("a", 5), lambda: {"a": 1}, lambda: {"b": 1}),
    "dict, extra key": (lambda x, k: x + len(k), lambda: {"a": 1}, lambda: {"a": 1, "b": 2}),
    "dict, order": (
        lambda x, k: x + next(iter(k.values())),
        lambda: {"a": 1, "b": 2},
        lambda: {"b": 2, "a": 1},
    ),
    "dict, key by class": (
        lambda x, k: x + sum(type(key) is int for key in k),
        lambda: {1: 0},
        lambda: {True: 0},
    ),
    "dict, keys of several classes": (
        lambda x, k: x + sum(k.values()),
        lambda: {1: 1, "a": 2, None: 3, (1, "b"): 4, 0.5: 5},
        lambda: {1: 1, "a": 2, None: 3, (1, "c"): 4, 0.5: 6},
    ),
    "dict, membership": (lambda x, k: x + ("a" in k), lambda: {"a": 1}, lambda: {"b": 1}),
    "dict, emptiness": (lambda x, k: x + 1 if k else x - 1, lambda: {1: 1}, dict),
    "dict, enum key": (
        lambda x, k: x + k[Color.RED],
        lambda: {Color.RED: 1},
        lambda: {Color.RED: 2},
    ),
    "dict, keyword arguments": (
        lambda x, k: x + keyword_only(**k),
        lambda: {"a": 1, "b": 2},
        lambda: {"a": 1},
    ),
    "dict subclass": (lambda x, k: x + (type(k) is dict), lambda: {1: 1}, lambda: Mapping({1: 1})),
    "OrderedDict, order": (
        lambda x, k: x + next(iter(k.values())),
        lambda: collections.OrderedDict(a=1, b=2),
        lambda: collections.OrderedDict(b=2, a=1),
    ),
    "defaultdict, value": (
        lambda x, k: x + k["a"],
        lambda: collections.defaultdict(int, a=1),
        lambda: collections.defaultdict(int, a=2),
    ),
    "defaultdict, factory": (
        lambda x, k: x + len(k["z"]),
        lambda: collections.defaultdict(list),
        lambda: collections.defaultdict(functools.partial(str, 12)),
    ),
    "mapping proxy": (
        lambda x, k: x + k["a"],
        lambda: types.MappingProxyType({"a": 1}),
        lambda: types.MappingProxyType({"a": 2}),
    ),
    "set, membership": (lambda x, k: x + ("a" in k), lambda: {"a"}, lambda: {"b"}),
    "set, size": (lambda x, k: x + len(k), lambda: {1, 2}, lambda: {1}),
    "set, elements": (lambda x, k: x + sum(k), lambda: {1, 2}, lambda: {1, 3}),
    "set, class of an element": (
        lambda x, k: x + sum(type(e) is int for e in k),
        lambda: {1, 2},
        lambda: {1.0, 2},
    ),
    "frozenset": (lambda x, k: x + max(k), lambda: frozenset({1, 2}), lambda: frozenset({1, 3})),
    "set or frozenset": (lambda x, k: x + hasattr(k, "add"), lambda: {1}, lambda: frozenset({1})),
    "deque, item": (
        lambda x, k: x + k[0],
        lambda: collections.deque([1, 2]),
        lambda: collections.deque([2, 1]),
    ),
    "deque, maxlen": (
        lambda x, k: x + (k.maxlen or 9),
        lambda: collections.deque([1, 2]),
        lambda: collections.deque([1, 2], maxlen=2),
    ),
    "Counter": (
        lambda x, k: x + k["a"],
        lambda: collections.Counter("aab"),
        lambda: collections.Counter("ab"),
    ),
    "nested": (
        lambda x, k: x + total(k),
        lambda: {"a": [1, (2, {"b": [3]})], "c": 4},
        lambda: {"a": [1, (2, {"b": [5]})], "c": 4},
    ),
    # Instances
    "dataclass": (lambda x, k: x * k.x + k.y, lambda: Point(1, 2), lambda: Point(1, 3)),
    "dataclass, frozen with slots": (
        lambda x, k: x * k.x + k.y,
        lambda: Frozen(1, 2),
        lambda: Frozen(1, 3),
    ),
    "dataclass, tensor field": (
        lambda x, k: x + k.x,
        lambda: Point(X, 2),
        lambda: Point(X.double(), 3),
    ),
    "attribute": (lambda x, k: x + k.k, lambda: Plain(1), lambda: Plain(2)),
    "attribute of an attribute": (
        lambda x, k: x + k.k.k,
        lambda: Plain(Plain(1)),
        lambda: Plain(Plain(2)),
    ),
    "attribute of an item": (lambda x, k: x + k[0].k, lambda: [Plain(1)], lambda: [Plain(2)]),
    "slot": (lambda x, k: x + k.k, lambda: Slotted(1), lambda: Slotted(2)),
    "namespace": (
        lambda x, k: x + k.a,
        lambda: types.SimpleNamespace(a=1),
        lambda: types.SimpleNamespace(a=2),
    ),
    "class of an instance": (lambda x, k: x + k.scale, First, Second),
    "class": (lambda x, k: x + k.scale, lambda: First, lambda: Second),
    "enum member": (
        lambda x, k: x + (1 if k is Color.RED else 2),
        lambda: Color.RED,
        lambda: Color.BLUE,
    ),
    "enum value": (lambda x, k: x + k.value, lambda: Color.RED, lambda: Color.BLUE),
    "IntEnum": (lambda x, k: x + k, lambda: Level.LOW, lambda: Level.HIGH),
    "IntEnum or int": (lambda x, k: x + (type(k) is int), lambda: Level.LOW, lambda: 1),
    "Flag": (lambda x, k: x + k.value, lambda: Bits.A, lambda: Bits.A | Bits.B),
    "exception": (
        lambda x, k: x + k.args[0],
        lambda: ValueError(1),
        lambda: ValueError(2),
    ),
    # Callables and modules
    "builtin": (lambda x, k: x + k([1, 2]), lambda: len, lambda: sum),
    "operator": (lambda x, k: k(x, 2), lambda: operator.add, lambda: operator.mul),
    "torch function": (lambda x, k: k(x), lambda: torch.sin, lambda: torch.cos),
    "method descriptor": (lambda x, k: k(x), lambda: torch.Tensor.sin, lambda: torch.Tensor.cos),
    "module": (lambda x, k: x + k.pi, lambda: math, lambda: types.SimpleNamespace(pi=3)),
    "constructor": (lambda x, k: x + k("12").__len__(), lambda: str, lambda: list),
    "partial, function": (
        lambda x, k: k(x),
        lambda: functools.partial(torch.add, other=1),
        lambda: functools.partial(torch.mul, other=1),
    ),
    "partial, argument": (
        lambda x, k: k(x),
        lambda: functools.partial(operator.add, 1),
        lambda: functools.partial(operator.add, 2),
    ),
    "partial, keyword": (
        lambda x, k: k(x),
        lambda: functools.partial(torch.add, alpha=1, other=3),
        lambda: functools.partial(torch.add, alpha=2, other=3),
    ),
    "torch dtype": (lambda x, k: x.to(k), lambda: torch.float64, lambda: torch.int32),
    "torch device": (
        lambda x, k: torch.ones(2, device=k) + 1,
        lambda: torch.device("cpu"),
        lambda: torch.device("meta"),
    ),
    "torch device, index": (
        lambda x, k: x + (k.index or 0),
        lambda: torch.device("cuda", 1),
        lambda: torch.device("cuda", 2),
    ),
    "torch memory format": (
        lambda x, k: x.reshape(1, 1, 1, 2).expand(2, 2, 1, 2).clone(memory_format=k),
        lambda: torch.contiguous_format,
        lambda: torch.channels_last,
    ),
}
"""How a value is used, the value, and another; each is made afresh for each call."""

BREAKING = frozenset({"exception", "mapping proxy"})
"""Uses that break the graph: how many entries that takes is not this test's business."""


def keyword_only(*, a: int, b: int = 5) -> int:
    return a * 10 + b


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_another_value(name: str, way: Way) -> None:
    """First, second, and first again, which is another object with the same value."""
    use, first, second = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        f = C(copied(use))
        yield f(X, first())
        yield f(X, second())
        yield f(X, first())
        yield f(X, second())

    check(case, way, None if name in BREAKING else (1, 2, 2, 2))


def copied(f: Any) -> Any:
    """A function of its own, so that each test compiles anew."""
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = copy.copy(f.__kwdefaults__)
    return made


UNREAD: dict[str, Row] = {
    "argument": (lambda x, k: x + 1, lambda: 1, lambda: "a"),
    "items of a list": (lambda x, k: x + len(k), lambda: [1, 2], lambda: ["a", "b"]),
    "other items of a list": (lambda x, k: x + k[0], lambda: [1, 2], lambda: [1, 3]),
    "values of a dict": (lambda x, k: x + len(k), lambda: {"a": 1}, lambda: {"a": 2}),
    "other keys of a dict": (lambda x, k: x + k["a"], lambda: {"a": 1}, lambda: {"b": 2, "a": 1}),
    "other attributes": (
        lambda x, k: x + k.x,
        lambda: Point(1, 2),
        lambda: Point(1, object()),
    ),
    "an object": (lambda x, k: x + 1 if k is not None else x, object, object),
    "an object that is stored": (lambda x, k: (x + 1, [k]), object, object),
    "a fresh lambda": (lambda x, k: k(x), lambda: adder(), lambda: adder()),
    "a path": (lambda x, k: (x + 1, k), lambda: pathlib.Path("a"), lambda: pathlib.Path("b")),
    "an object nobody understands": (
        lambda x, k: (x + 1, k),
        lambda: datetime.date(2000, 1, 1),
        lambda: datetime.date(2001, 1, 1),
    ),
}
"""What a function does not look at may differ."""


def adder() -> Any:
    return lambda v: v + 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_may_differ(name: str, way: Way) -> None:
    use, first, second = UNREAD[name]

    def case(C: Compiler) -> Iterator[Any]:
        f = C(copied(use))
        yield f(X, first())
        yield f(X, second())

    check(case, way, (1, 1))


@entries(1, 2, 3, 4, 4)
def test_values_that_are_equal_and_of_different_classes(C):
    f = C(lambda x, k: x + kind(k))
    for k in (1, True, 1.0, Whole(1), 1):
        yield f(X, k)


@entries(1, 1, 1)
def test_nan_is_one_value(C):
    f = C(lambda x, k: x + (1 if k != k else 2))
    for k in (math.nan, float("nan"), -math.nan):
        yield f(X, k)


@entries(1, 2, 3, 3, 3)
def test_variable_arguments(C):
    def f(x, *args, **kwargs):
        return x + sum(args) + sum(k * v for k, v in enumerate(kwargs.values()))

    f = C(f)
    yield f(X, 1, 2, a=3, b=4)
    yield f(X, 1, a=3, b=4)
    yield f(X, 1, 2, b=4, a=3)
    yield f(X, 1, 2, a=3, b=4)
    yield f(X, 1, a=3, b=4)


@entries(1, 1, 2)
def test_an_argument_given_by_name_or_by_default(C):
    def f(x, k=1):
        return x + k

    f = C(f)
    yield f(X)
    yield f(x=X, k=1)
    yield f(X, 2)
