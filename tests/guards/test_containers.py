"""Containers that change between calls: contents, order, identity, and who shares them."""

import collections
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.guards.support import (
    WAYS,
    Compiler,
    Way,
    X,
    check,
    entries,
    outcome,
    seen_and_back,
    unnoticed,
)


class Items(list):
    pass


class Table(dict):
    pass


Row = tuple[Callable[[torch.Tensor, Any], Any], Callable[[], Any], Any, Any]


def put(key: Any, value: Any) -> Callable[[Any], None]:
    """What stores an item."""

    def change(container: Any) -> None:
        container[key] = value

    return change


def ordered(*keys: str) -> Callable[[Any], None]:
    """What gives a dict these keys in this order."""

    def change(d: Any) -> None:
        values = dict(d)
        d.clear()
        d.update((key, values[key]) for key in keys)

    return change


CHANGES: dict[str, Row] = {
    # Lists
    "list, item": (lambda x, c: x + c[1], lambda: [1, 2], put(1, 5), put(1, 2)),
    "list, item by negative index": (lambda x, c: x + c[-1], lambda: [1, 2], put(1, 5), put(1, 2)),
    "list, class of an item": (lambda x, c: x.int() * c[0], lambda: [1], put(0, 1.0), put(0, 1)),
    "list, appended": (
        lambda x, c: x + sum(c),
        lambda: [1],
        lambda c: c.append(2),
        lambda c: c.pop(),
    ),
    "list, cleared": (
        lambda x, c: x + len(c),
        lambda: [1],
        lambda c: c.clear(),
        put(slice(0), [1]),
    ),
    "list, sorted": (
        lambda x, c: x + c[0],
        lambda: [2, 1],
        lambda c: c.sort(),
        lambda c: c.reverse(),
    ),
    "list, slice": (lambda x, c: x + sum(c[1:]), lambda: [1, 2, 3], put(2, 7), put(2, 3)),
    "list, unpacked": (lambda x, c: x + [*c, 0][0], lambda: [1], put(0, 7), put(0, 1)),
    "list, in a comprehension": (
        lambda x, c: x + sum([k * k for k in c if k > 1]),
        lambda: [1, 2],
        put(0, 3),
        put(0, 1),
    ),
    "list, index of an item": (lambda x, c: x + c.index(2), lambda: [1, 2], put(0, 2), put(0, 1)),
    "list, count of an item": (lambda x, c: x + c.count(2), lambda: [1, 2], put(0, 2), put(0, 1)),
    "list, compared": (lambda x, c: x + (c == [1, 2]), lambda: [1, 2], put(0, 2), put(0, 1)),
    "list subclass, item": (lambda x, c: x + c[0], lambda: Items([1]), put(0, 5), put(0, 1)),
    "list of lists": (
        lambda x, c: x + c[0][0],
        lambda: [[1]],
        lambda c: put(0, 5)(c[0]),
        put(0, [1]),
    ),
    "list of tensors": (
        lambda x, c: x + c[0].dtype.itemsize,
        lambda: [X + 1],
        put(0, X.double()),
        put(0, X + 1),
    ),
    # Dicts
    "dict, value": (lambda x, c: x + c["a"], lambda: {"a": 1}, put("a", 2), put("a", 1)),
    "dict, key that was absent": (
        lambda x, c: x + c.get("b", 9),
        lambda: {"a": 1},
        put("b", 2),
        lambda c: c.pop("b"),
    ),
    "dict, membership": (
        lambda x, c: x + ("b" in c),
        lambda: {"a": 1},
        put("b", 2),
        lambda c: c.pop("b"),
    ),
    "dict, size": (lambda x, c: x + len(c), lambda: {"a": 1}, put("b", 2), lambda c: c.pop("b")),
    "dict, order": (
        lambda x, c: x + int("".join(map(str, c.values()))),
        lambda: {"a": 1, "b": 2},
        ordered("b", "a"),
        ordered("a", "b"),
    ),
    "dict, order of items": (
        lambda x, c: x + len(next(iter(c.items()))[0]),
        lambda: {"a": 1, "bb": 2},
        ordered("bb", "a"),
        ordered("a", "bb"),
    ),
    "dict, value while it is walked": (
        lambda x, c: x + sum(v for k, v in c.items() if k != "a"),
        lambda: {"a": 1, "b": 2},
        put("b", 5),
        put("b", 2),
    ),
    "dict, unpacked": (
        lambda x, c: x + (lambda a, b=7: a * b)(**c),
        lambda: {"a": 1},
        put("b", 2),
        lambda c: c.pop("b"),
    ),
    "dict, merged": (
        lambda x, c: x + ({"a": 5} | c)["a"],
        lambda: {"a": 1},
        put("a", 2),
        put("a", 1),
    ),
    "dict, compared": (
        lambda x, c: x + (c == {"a": 1}),
        lambda: {"a": 1},
        put("a", 2),
        put("a", 1),
    ),
    "dict, matched": (lambda x, c: x + matched(c), lambda: {"a": 1}, put("a", 2), put("a", 1)),
    "dict subclass, value": (lambda x, c: x + c["a"], lambda: Table(a=1), put("a", 2), put("a", 1)),
    "dict, last item": (
        lambda x, c: x + list(c)[-1],
        lambda: {1: 1, 2: 2},
        put(3, 3),
        lambda c: c.pop(3),
    ),
    "ordered dict, moved": (
        lambda x, c: x + next(iter(c)),
        lambda: collections.OrderedDict({1: 1, 2: 2}),
        lambda c: c.move_to_end(1),
        lambda c: c.move_to_end(2),
    ),
    "counter": (
        lambda x, c: x + c["a"],
        lambda: collections.Counter("aab"),
        put("a", 1),
        put("a", 2),
    ),
    "dict of dicts": (
        lambda x, c: x + c["a"]["b"],
        lambda: {"a": {"b": 1}},
        lambda c: put("b", 5)(c["a"]),
        put("a", {"b": 1}),
    ),
    # Sets, deques, and what shows the contents of something else
    "set, membership": (
        lambda x, c: x + (2 in c),
        lambda: {1},
        lambda c: c.add(2),
        lambda c: c.discard(2),
    ),
    "set, size": (lambda x, c: x + len(c), lambda: {1}, lambda c: c.add(2), lambda c: c.discard(2)),
    "set, sum": (lambda x, c: x + sum(c), lambda: {1}, lambda c: c.add(2), lambda c: c.discard(2)),
    "set, class of an element": (
        lambda x, c: x + sum(type(k) is int for k in c),
        lambda: {1},
        lambda c: (c.clear(), c.add(True)),
        lambda c: (c.clear(), c.add(1)),
    ),
    "set, subset": (
        lambda x, c: x + (c <= {1, 3}),
        lambda: {1},
        lambda c: c.add(2),
        lambda c: c.discard(2),
    ),
    "set, of strings": (
        lambda x, c: x + len(sorted(c)[0]),
        lambda: {"bb"},
        lambda c: c.add("a"),
        lambda c: c.discard("a"),
    ),
    "deque, item": (
        lambda x, c: x + c[0],
        lambda: collections.deque([1, 2]),
        lambda c: c.rotate(1),
        lambda c: c.rotate(1),
    ),
    "deque, size": (
        lambda x, c: x + len(c),
        lambda: collections.deque([1, 2]),
        lambda c: c.append(3),
        lambda c: c.pop(),
    ),
    "mapping proxy": (
        lambda x, c: x.sin() + c[1]["a"],
        lambda: (lambda d: (d, types.MappingProxyType(d)))({"a": 1}),
        lambda c: put("a", 5)(c[0]),
        lambda c: put("a", 1)(c[0]),
    ),
    "view of a dict": (
        lambda x, c: x.sin() + sum(c[1]),
        lambda: (lambda d: (d, d.values()))({"a": 1}),
        lambda c: put("a", 5)(c[0]),
        lambda c: put("a", 1)(c[0]),
    ),
    "namespace": (
        lambda x, c: x + c.a,
        lambda: types.SimpleNamespace(a=1),
        lambda c: setattr(c, "a", 5),
        lambda c: setattr(c, "a", 1),
    ),
    "tuple with a list": (
        lambda x, c: x + c[0][0],
        lambda: ([1],),
        lambda c: put(0, 5)(c[0]),
        lambda c: put(0, 1)(c[0]),
    ),
    "deep": (
        lambda x, c: x + c["a"][0].b["c"][1],
        lambda: {"a": [types.SimpleNamespace(b={"c": (0, 1)})]},
        lambda c: put("c", (0, 5))(c["a"][0].b),
        lambda c: put("c", (0, 1))(c["a"][0].b),
    ),
}
"""How a container is used, the container, a change, and the change back."""

BREAKING = frozenset({"mapping proxy", "view of a dict"})


def matched(value: Any) -> int:
    match value:
        case {"a": 1}:
            return 1
        case {"a": int(k)}:
            return 10 * k
        case _:
            return 0


def as_argument(C: Compiler, use: Any, container: Any) -> Callable[[], Any]:
    f = C(lambda x, c: use(x, c))
    return lambda: f(X, container)


def as_cell(C: Compiler, use: Any, container: Any) -> Callable[[], Any]:
    f = C(lambda x: use(x, container))
    return lambda: f(X)


def as_default(C: Compiler, use: Any, container: Any) -> Callable[[], Any]:
    f = C(lambda x, c=container: use(x, c))
    return lambda: f(X)


def as_attribute(C: Compiler, use: Any, container: Any) -> Callable[[], Any]:
    f, o = C(lambda x, o: use(x, o.c)), types.SimpleNamespace(c=container)
    return lambda: f(X, o)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    "place", [as_argument, as_cell, as_default, as_attribute], ids=lambda p: p.__name__
)
@pytest.mark.parametrize("name", CHANGES)
def test_contents_change(name: str, place: Any, way: Way) -> None:
    use, make, change, back = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        container = make()
        call = place(C, use, container)
        yield call()
        change(container)
        yield call()
        back(container)
        yield call()

    check(case, way, None if name in BREAKING else (1, 2, 2))


# Which object it is


@seen_and_back
def test_two_lists_become_one(C):
    """The write through one name is seen through the other."""

    def f(x, a, b):
        a.append(1)
        return x + len(b)

    f = C(f)
    yield f(X, [], [])
    one = []
    yield f(X, one, one), one
    yield f(X, [], [])


@entries(1, 2)
def test_one_list_becomes_two(C):
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    f, one = C(f), []
    yield f(X, one, one), one
    yield f(X, [], []), one


@unnoticed
def test_two_lists_that_are_only_read_may_be_one(C):
    f, one = C(lambda x, a, b: x + a[0] + b[0]), [1]
    yield f(X, [1], [1])
    yield f(X, one, one)


@seen_and_back
def test_identity_of_containers(C):
    f, one = C(lambda x, a, b: x + (1 if a is b else 2)), [1]
    yield f(X, [1], [1])
    yield f(X, one, one)
    yield f(X, [1], [1])


@seen_and_back
def test_nested_list_is_the_argument(C):
    def f(x, a, b):
        a.append(1)
        return x + len(b["k"][0])

    f, one = C(f), []
    yield f(X, [], {"k": [[]]})
    yield f(X, one, {"k": [one]}), one
    yield f(X, [], {"k": [[]]})


@seen_and_back
def test_two_dicts_become_one(C):
    def f(x, a, b):
        a["k"] = 5
        return x + b.get("k", 0)

    f = C(f)
    yield f(X, {}, {})
    one = {}
    yield f(X, one, one), one
    yield f(X, {}, {})


@seen_and_back
def test_two_objects_become_one(C):
    class Local:
        def __init__(self):
            self.k = 1

    def f(x, a, b):
        a.k = 5
        return x + b.k

    f = C(f)
    yield f(X, Local(), Local())
    one = Local()
    yield f(X, one, one), one.k
    yield f(X, Local(), Local())


@entries(None)
def test_two_objects_share_their_dictionary(C):
    class Local:
        pass

    def f(x, a, b):
        a.k = 5
        return x.sin() + b.k

    f, a, b = C(f), Local(), Local()
    a.k, b.k = 1, 1
    yield f(X, a, b), b.k
    b.__dict__ = a.__dict__
    a.k = 1
    yield f(X, a, b), b.k


@entries(None)
def test_a_dict_is_the_dictionary_of_an_object(C):
    class Local:
        pass

    def f(x, a, d):
        a.k = 5
        return x.sin() + d["k"]

    f, a = C(f), Local()
    a.k = 1
    yield f(X, a, {"k": 1})
    a.k = 1
    yield f(X, a, a.__dict__)


@entries(None)
def test_a_list_inside_itself(C):
    f, one = C(lambda x, c: x.sin() + len(c[0])), [[1]]
    yield f(X, one)
    one[0] = one
    one.append(2)
    yield f(X, one)


@seen_and_back
def test_key_by_identity(C):
    class Key:
        pass

    first, second = Key(), Key()
    f, d = C(lambda x, d, k: x + d.get(k, 9)), {first: 1}
    yield f(X, d, first)
    yield f(X, d, second)
    yield f(X, d, first)


@entries(None)
def test_key_with_an_equality_of_its_own(C):
    class Key:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return self.k

        def __eq__(self, other):
            return self.k == other.k

    f, d = C(lambda x, d, k: x.sin() + d.get(k, 9)), {Key(1): 1}
    yield f(X, d, Key(1))
    yield f(X, d, Key(2))
    d[Key(2)] = 5
    yield f(X, d, Key(2))
    Key.__eq__ = lambda self, other: False
    yield f(X, d, Key(2))


@entries(None)
def test_tensor_as_a_key(C):
    a, b = torch.ones(2), torch.ones(2)
    f, d = C(lambda x, d, t: x.sin() + d.get(t, 9)), {a: 1}
    yield f(X, d, a)
    yield f(X, d, b)
    d[b] = 2
    yield f(X, d, b)


# What the function itself changes


@unnoticed
def test_list_that_only_grows(C):
    def f(x, seen):
        seen.append(x + 1)
        return x + 1

    f, seen = C(f), []
    yield f(X, seen), len(seen)
    yield f(X, seen), len(seen)


@seen_and_back
def test_dict_that_the_function_fills(C):
    def f(x, cache):
        if "k" not in cache:
            cache["k"] = x + 1
        return cache["k"] * 2

    f, cache = C(f), {}
    yield f(X, cache), list(cache)
    yield f(X, cache), list(cache)
    cache.clear()
    yield f(X, cache), list(cache)


@entries(None)
def test_error_once_and_not_again(C):
    f, c = C(lambda x, c: x.sin() + c["k"]), {}
    yield outcome(f, X, c)
    c["k"] = 1
    yield f(X, c)
    del c["k"]
    yield outcome(f, X, c)


# Iterators and generators that exist already


@entries(None)
def test_iterator_argument(C):
    f = C(lambda x, it: x.sin() + next(it))
    it = iter([1, 2, 3])
    for _ in range(3):
        yield f(X, it)
    yield outcome(f, X, it)


@entries(None)
def test_generator_argument(C):
    f = C(lambda x, it: x.sin() + sum(it))
    for k in (3, 4, 3):
        yield f(X, (i for i in range(k)))
