"""Methods, partials, properties and other callables and descriptors."""

import abc
import functools
import types
import weakref
from collections.abc import Mapping, Sequence

import torch

from tests.guards.support import X, entries, seen_and_back, unnoticed

# Methods


class Counter:
    def __init__(self, k):
        self.k = k

    def add(self, v):
        return v + self.k

    @classmethod
    def make(cls, v):
        return v + cls.step

    @staticmethod
    def twice(v):
        return v * 2

    step = 1


@entries(1, 2, 2, 1 + 1)
def test_bound_method(C):
    f = C(lambda x, g: g(x))
    yield f(X, Counter(1).add)
    yield f(X, Counter(2).add)
    yield f(X, Counter(1).add)
    yield f(X, Counter(2).add)


@seen_and_back
def test_bound_method_of_another_function(C):
    f = C(lambda x, g: g(x))
    yield f(X, Counter(1).add)
    yield f(X, types.MethodType(lambda self, v: v - self.k, Counter(1)))
    yield f(X, Counter(1).add)


@seen_and_back
def test_class_method(C):
    class Derived(Counter):
        step = 5

    f = C(lambda x, g: g(x))
    yield f(X, Counter.make)
    yield f(X, Derived.make)
    yield f(X, Counter.make)


@seen_and_back
def test_static_method_replaced(C):
    class Local(Counter):
        pass

    f = C(lambda x: Local.twice(x))
    yield f(X)
    Local.twice = staticmethod(lambda v: v * 3)
    yield f(X)
    del Local.twice
    yield f(X)


@seen_and_back
def test_method_becomes_static(C):
    class Local:
        def scaled(*args):
            return args[-1] * len(args)

    function = Local.scaled
    f, o = C(lambda x, o: o.scaled(x)), Local()
    yield f(X, o)
    Local.scaled = staticmethod(function)
    yield f(X, o)
    Local.scaled = function
    yield f(X, o)


@seen_and_back
def test_call_patched(C):
    class Local:
        def __call__(self, v):
            return v + 1

    call = Local.__call__
    f, o = C(lambda x, o: o(x)), Local()
    yield f(X, o)
    Local.__call__ = lambda self, v: v - 1
    yield f(X, o)
    Local.__call__ = call
    yield f(X, o)


@entries(1, 1)
def test_call_on_the_instance_is_not_used(C):
    class Local:
        def __call__(self, v):
            return v + 1

    f, o = C(lambda x, o: o(x)), Local()
    yield f(X, o)
    o.__call__ = lambda v: v - 1
    yield f(X, o)


# Partials, caches, wrappers


@entries(1, 2, 3, 3)
def test_partial(C):
    def plus(v, k):
        return v + k

    f = C(lambda x, g: g(x))
    yield f(X, functools.partial(plus, k=1))
    yield f(X, functools.partial(plus, k=2))
    yield f(X, functools.partial(plus, 1))
    yield f(X, functools.partial(plus, 1))


@entries(None)
def test_partial_method(C):
    class Local:
        def scaled(self, v, k):
            return v * k

        double = functools.partialmethod(scaled, k=2)

    f, o, double = C(lambda x, o: o.double(x)), Local(), Local.__dict__["double"]
    yield f(X, o)
    Local.double = functools.partialmethod(Local.scaled, k=3)
    yield f(X, o)
    Local.double = double
    yield f(X, o)


@seen_and_back
def test_wrapped_function(C):
    def decorated(g):
        @functools.wraps(g)
        def wrapper(*args, **kwargs):
            return g(*args, **kwargs) + 1

        return wrapper

    def one(v):
        return v

    def two(v):
        return -v

    f = C(lambda x, g: g(x))
    yield f(X, decorated(one))
    yield f(X, decorated(two))
    yield f(X, decorated(one))


@entries(None)
def test_bound_builtin_method(C):
    f = C(lambda x, g: x + g("ab"))
    yield f(X, "abc".count)
    yield f(X, "ababc".count)
    yield f(X, "abc".count)


# Properties and other descriptors


@seen_and_back
def test_property_that_reads_a_closure(C):
    values = {"k": 1}

    class Local:
        @property
        def k(self):
            return values["k"]

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    values["k"] = 4
    yield f(X, o)
    values["k"] = 1
    yield f(X, o)


@seen_and_back
def test_property_replaced(C):
    class Local:
        @property
        def k(self):
            return 1

    f, o, before = C(lambda x, o: x + o.k), Local(), Local.k
    yield f(X, o)
    Local.k = property(lambda self: 5)
    yield f(X, o)
    Local.k = before
    yield f(X, o)


@seen_and_back
def test_property_becomes_a_class_attribute(C):
    class Local:
        @property
        def k(self):
            return 1

    f, o, before = C(lambda x, o: x + o.k), Local(), Local.k
    yield f(X, o)
    Local.k = 5
    yield f(X, o)
    Local.k = before
    yield f(X, o)


@seen_and_back
def test_code_of_a_property_replaced(C):
    class Local:
        @property
        def k(self):
            return 1

    f, o, getter = C(lambda x, o: x + o.k), Local(), Local.k.fget
    code = getter.__code__
    yield f(X, o)
    getter.__code__ = (lambda self: 5).__code__
    yield f(X, o)
    getter.__code__ = code
    yield f(X, o)


@seen_and_back
def test_descriptor_with_state(C):
    class Scaled:
        def __init__(self, k):
            self.k = k

        def __get__(self, instance, owner):
            return self.k * instance.base

    class Local:
        base = 2
        scaled = Scaled(3)

    f, o = C(lambda x, o: x + o.scaled), Local()
    yield f(X, o)
    Local.__dict__["scaled"].k = 7
    yield f(X, o)
    Local.__dict__["scaled"].k = 3
    yield f(X, o)


@seen_and_back
def test_descriptor_becomes_a_data_descriptor(C):
    class Plain:
        def __get__(self, instance, owner):
            return 5

    class Local:
        pass

    Local.k = Plain()
    f, o = C(lambda x, o: x + o.k), Local()
    o.__dict__["k"] = 1
    yield f(X, o)
    Plain.__set__ = lambda self, instance, value: None
    yield f(X, o)
    del Plain.__set__
    yield f(X, o)


@entries(None)
def test_cached_property(C):
    class Local:
        @functools.cached_property
        def k(self):
            return 3

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o), dict(o.__dict__)
    yield f(X, o), dict(o.__dict__)
    del o.k
    yield f(X, o), dict(o.__dict__)


# Weak references, abstract classes


@entries(1, 2)
def test_weak_reference_dies(C):
    class Local:
        k = 3

    o = Local()
    reference = weakref.ref(o)
    f = C(lambda x, r: x + (r().k if r() is not None else -1))
    yield f(X, reference)
    del o
    yield f(X, reference)


@seen_and_back
def test_weak_reference_to_something_else(C):
    first, second = Counter(1), Counter(2)
    f = C(lambda x, r: x + r().k)
    yield f(X, weakref.ref(first))
    yield f(X, weakref.ref(second))
    yield f(X, weakref.ref(first))


@entries(1, 2)
def test_registered_with_an_abstract_class(C):
    class Shape(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class Square:
        pass

    f = C(lambda x, o: x + (1 if isinstance(o, Shape) else 2))
    yield f(X, Square())
    Shape.register(Square)
    yield f(X, Square())


@unnoticed
def test_something_else_registered_with_an_abstract_class(C):
    class Other:
        pass

    class Own(dict):
        pass

    def kind(x, o):
        return x + (isinstance(o, Mapping) + 2 * isinstance(o, Sequence) + issubclass(Own, Mapping))

    f = C(kind)
    yield f(X, Own())
    Sequence.register(Other)
    yield f(X, Own())


@entries(1, 1, 2, 2)
def test_registered_after_others_with_an_abstract_class(C):
    class Shape(metaclass=abc.ABCMeta):  # noqa: B024
        pass

    class Square:
        pass

    f = C(lambda x, o: x + (1 if isinstance(o, Shape) else 2))
    yield f(X, Square())
    Shape.register(type("Circle", (), {}))
    yield f(X, Square())
    Shape.register(Square)
    yield f(X, Square())
    Sequence.register(type("Other", (), {}))
    yield f(X, Square())


@seen_and_back
def test_instance_check_of_a_metaclass(C):
    class Meta(type):
        answer = True

        def __instancecheck__(cls, instance):
            return Meta.answer

    class Shape(metaclass=Meta):
        pass

    f = C(lambda x: x + (1 if isinstance(3, Shape) else 2))
    yield f(X)
    Meta.answer = False
    yield f(X)
    Meta.answer = True
    yield f(X)


@entries(None)
def test_subclass_hook_of_an_abstract_class(C):
    class Shape(metaclass=abc.ABCMeta):  # noqa: B024
        answer = True

        @classmethod
        def __subclasshook__(cls, other):
            return Shape.answer

    f = C(lambda x, o: x + (1 if isinstance(o, Shape) else 2))
    yield f(X, object())
    Shape.answer = False
    Shape._abc_caches_clear()
    yield f(X, object())


@unnoticed
def test_a_partial_made_anew(C):
    f = C(lambda x, g: g(x))
    yield f(X, functools.partial(torch.add, other=1))
    yield f(X, functools.partial(torch.add, other=1))
