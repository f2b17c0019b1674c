"""Instances: their dictionaries and slots, fall-backs, and special methods."""

import collections
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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

# Dictionaries, slots, fall-backs


@seen_and_back
def test_dictionary_of_an_object_replaced(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    o.k = 1
    yield f(X, o)
    o.__dict__ = {"k": 2}
    yield f(X, o)
    o.__dict__ = {"k": 1}
    yield f(X, o)


@seen_and_back
def test_dictionary_of_an_object_written_to(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    o.k = 1
    yield f(X, o)
    vars(o)["k"] = 2
    yield f(X, o)
    vars(o).update(k=1)
    yield f(X, o)


@seen_and_back
def test_data_descriptor_hides_the_instance(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    o.k = 1
    yield f(X, o)
    Local.k = property(lambda self: 2)
    yield f(X, o)
    del Local.k
    yield f(X, o)


@entries(None)
def test_slot_set_deleted_and_set_again(C):
    class Local:
        __slots__ = ("k",)

    f, o = C(lambda x, o: x + getattr(o, "k", 5)), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)
    o.k = 1
    yield f(X, o)


@entries(None)
def test_slot_empty_at_first(C):
    class Local:
        __slots__ = ("k",)

    f, o = C(lambda x, o: x.sin() + getattr(o, "k", 5)), Local()
    yield f(X, o)
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)


@seen_and_back
def test_slot_replaced_by_a_class_attribute(C):
    class Local:
        __slots__ = ("k",)

    f, o, slot = C(lambda x, o: x + o.k), Local(), Local.k
    o.k = 1
    yield f(X, o)
    Local.k = 2
    yield f(X, o)
    Local.k = slot
    yield f(X, o)


@seen_and_back
def test_hasattr_toggles(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + (1 if hasattr(o, "k") else 2)), Local()
    yield f(X, o)
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)


@seen_and_back
def test_hasattr_toggles_from_present(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + (1 if hasattr(o, "k") else 2)), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)
    o.k = 2
    yield f(X, o)


@entries(None)
def test_hasattr_of_a_slot(C):
    class Local:
        __slots__ = ("k",)

    f, o = C(lambda x, o: x.sin() + (1 if hasattr(o, "k") else 2)), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)
    o.k = 2
    yield f(X, o)


@seen_and_back
def test_membership_in_the_dictionary(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + (1 if "k" in o.__dict__ else 2)), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield f(X, o)
    o.k = 2
    yield f(X, o)


@unnoticed
def test_other_names_in_the_dictionary(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + ("k" in o.__dict__) + o.__dict__["k"]), Local()
    o.k = 1
    yield f(X, o)
    o.other = 5
    yield f(X, o)


@entries(None)
def test_attribute_read_and_not_used(C):
    class Local:
        pass

    def ignore(v, k):
        return v + 1

    f, o = C(lambda x, o: ignore(x, o.k)), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield outcome(f, X, o)


@entries(None)
def test_dictionary_of_a_class_of_its_own(C):
    class Local:
        pass

    f, o = C(lambda x, o: x.sin() + getattr(o, "k", 5)), Local()
    o.__dict__ = collections.defaultdict(int)
    yield f(X, o), dict(o.__dict__)
    o.k = 3
    yield f(X, o), dict(o.__dict__)


@seen_and_back
def test_getattr_added_to_the_class(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + getattr(o, "k", 1)), Local()
    yield f(X, o)
    Local.__getattr__ = lambda self, name: 5
    yield f(X, o)
    del Local.__getattr__
    yield f(X, o)


@seen_and_back
def test_getattr_replaced(C):
    class Local:
        def __getattr__(self, name):
            return len(name)

    f, o, before = C(lambda x, o: x + o.abc), Local(), Local.__getattr__
    yield f(X, o)
    Local.__getattr__ = lambda self, name: 5
    yield f(X, o)
    Local.__getattr__ = before
    yield f(X, o)


@seen_and_back
def test_getattr_answered_and_then_the_attribute_appears(C):
    class Local:
        def __getattr__(self, name):
            return len(name)

    f, o = C(lambda x, o: x + o.abc), Local()
    yield f(X, o)
    o.abc = 7
    yield f(X, o)
    del o.abc
    yield f(X, o)


@seen_and_back
def test_state_that_getattr_reads(C):
    class Local:
        def __init__(self):
            self.known = {"abc": 1}

        def __getattr__(self, name):
            return self.known[name]

    f, o = C(lambda x, o: x + o.abc), Local()
    yield f(X, o)
    o.known["abc"] = 2
    yield f(X, o)
    o.known["abc"] = 1
    yield f(X, o)


@seen_and_back
def test_getattribute_added(C):
    class Local:
        k = 1

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Local.__getattribute__ = lambda self, name: 5
    yield f(X, o)
    del Local.__getattribute__
    yield f(X, o)


@seen_and_back
def test_setattr_added(C):
    class Local:
        pass

    def f(x, o):
        o.k = 1
        return x + o.k

    f, o = C(f), Local()
    yield f(X, o), dict(o.__dict__)
    Local.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)
    yield f(X, o), dict(o.__dict__)
    del Local.__setattr__
    yield f(X, o), dict(o.__dict__)


@seen_and_back
def test_attribute_missing_and_found(C):
    class Local:
        pass

    f, o = C(lambda x, o: x.sin() + o.k), Local()
    o.k = 1
    yield f(X, o)
    del o.k
    yield outcome(f, X, o)
    o.k = 1
    yield f(X, o)


@seen_and_back
def test_dictionary_of_attributes_walked(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + sum(vars(o).values()) + 10 * next(iter(vars(o).values()))), Local()
    o.a, o.b = 1, 2
    yield f(X, o)
    del o.a
    o.a = 1
    yield f(X, o)
    o.__dict__ = {"a": 1, "b": 2}
    yield f(X, o)


# Special methods


Patch = tuple[Callable[[Any, Any], Any], str, Any, Any]

SPECIAL: dict[str, Patch] = {
    "bool": (lambda x, o: x + 1 if o else x - 1, "__bool__", lambda s: True, lambda s: False),
    "len": (lambda x, o: x + len(o), "__len__", lambda s: 1, lambda s: 2),
    "truth by len": (lambda x, o: x + 1 if o else x - 1, "__len__", lambda s: 1, lambda s: 0),
    "eq": (lambda x, o: x + (o == 3), "__eq__", lambda s, v: True, lambda s, v: False),
    "ne by eq": (lambda x, o: x + (o != 3), "__eq__", lambda s, v: True, lambda s, v: False),
    "lt": (lambda x, o: x + (o < 3), "__lt__", lambda s, v: True, lambda s, v: False),
    "gt by mirror": (lambda x, o: x + (3 > o), "__lt__", lambda s, v: True, lambda s, v: False),  # noqa: SIM300
    "add": (lambda x, o: x + (o + 3), "__add__", lambda s, v: v, lambda s, v: 2 * v),
    "radd": (lambda x, o: x + (3 + o), "__radd__", lambda s, v: v, lambda s, v: 2 * v),
    "radd of a tensor": (lambda x, o: x + o, "__radd__", lambda s, v: v, lambda s, v: 2 * v),
    "matmul": (lambda x, o: x + (o @ 3), "__matmul__", lambda s, v: v, lambda s, v: 2 * v),
    "neg": (lambda x, o: x + (-o), "__neg__", lambda s: 1, lambda s: 2),
    "abs": (lambda x, o: x + abs(o), "__abs__", lambda s: 1, lambda s: 2),
    "getitem": (lambda x, o: x + o[3], "__getitem__", lambda s, k: k, lambda s, k: 2 * k),
    "contains": (lambda x, o: x + (3 in o), "__contains__", lambda s, v: True, lambda s, v: False),
    "iter": (lambda x, o: x + sum(o), "__iter__", lambda s: iter([1]), lambda s: iter([1, 2])),
    "call": (lambda x, o: o(x), "__call__", lambda s, v: v + 1, lambda s, v: v - 1),
    "enter": (lambda x, o: entered(x, o), "__enter__", lambda s: 1, lambda s: 2),
    "index": (lambda x, o: x + [5, 6][o], "__index__", lambda s: 0, lambda s: 1),
    "str": (lambda x, o: x + len(str(o)), "__str__", lambda s: "a", lambda s: "ab"),
    "repr": (lambda x, o: x + len(f"{o!r}"), "__repr__", lambda s: "a", lambda s: "ab"),
    "format": (lambda x, o: x + len(f"{o}"), "__format__", lambda s, t: "a", lambda s, t: "ab"),
    "hash": (lambda x, o: x + hash(o), "__hash__", lambda s: 1, lambda s: 2),
    "reversed": (
        lambda x, o: x + sum(reversed(o)),
        "__reversed__",
        lambda s: iter([1]),
        lambda s: iter([1, 2]),
    ),
}
"""A use of an object, and two versions of the special method that the use calls."""


def entered(x: Any, o: Any) -> Any:
    with o as k:
        return x + k


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_method_patched(name: str, way: Way) -> None:
    use, method, first, second = SPECIAL[name]

    def case(C: Compiler) -> Iterator[Any]:
        class Local:
            def __exit__(self, *error):
                pass

        setattr(Local, method, first)
        f, o = C(lambda x, o: use(x.cos(), o)), Local()
        yield f(X, o)
        setattr(Local, method, second)
        yield f(X, o)
        setattr(Local, method, first)
        yield f(X, o)

    check(case, way, None)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_method_of_the_instance_is_not_asked(name: str, way: Way) -> None:
    use, method, first, second = SPECIAL[name]

    def case(C: Compiler) -> Iterator[Any]:
        class Local:
            def __exit__(self, *error):
                pass

        setattr(Local, method, first)
        f, o = C(lambda x, o: use(x.cos(), o)), Local()
        yield f(X, o)
        setattr(o, method, second)
        yield f(X, o)

    check(case, way, None)


@seen_and_back
def test_new_and_init_patched(C):
    class Local:
        def __init__(self, k):
            self.k = k

    def doubled(self, k):
        self.k = 2 * k

    f, init = C(lambda x: x + Local(3).k), Local.__init__
    yield f(X)
    Local.__init__ = doubled
    yield f(X)
    Local.__init__ = init
    yield f(X)


@entries(None)
def test_operator_of_a_subclass_of_int_appears(C):
    class Whole(int):
        pass

    f = C(lambda x, k: x + (k + 1))
    yield f(X, Whole(3))
    Whole.__add__ = lambda self, other: 50
    yield f(X, Whole(3))
    del Whole.__add__
    yield f(X, Whole(3))


@seen_and_back
def test_method_of_a_subclass_of_list_appears(C):
    class Items(list):
        pass

    f, o = C(lambda x, o: x + len(o) + o[0]), Items([1, 2])
    yield f(X, o)
    Items.__len__ = lambda self: 7
    yield f(X, o)
    del Items.__len__
    yield f(X, o)


@seen_and_back
def test_iteration_of_a_subclass_of_dict_appears(C):
    class Table(dict):
        pass

    f, o = C(lambda x, o: x + sum(o)), Table({1: 2})
    yield f(X, o)
    Table.__iter__ = lambda self: iter([5, 6])
    yield f(X, o)
    del Table.__iter__
    yield f(X, o)


@seen_and_back
def test_missing_added_to_a_subclass_of_dict(C):
    class Table(dict):
        pass

    f, o = C(lambda x, o: x.sin() + o["k"]), Table({"k": 1})
    yield f(X, o)
    del o["k"]
    Table.__missing__ = lambda self, key: 9
    yield f(X, o)
    o["k"] = 1
    yield f(X, o)
