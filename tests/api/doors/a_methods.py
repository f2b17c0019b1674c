"""Methods and descriptors of each kind."""

import abc
import dataclasses
import enum
import functools
import typing

import torch

from tests.api.doors.support import X, outcome


def method_of_two_objects(C):
    class A:
        def __init__(self, k):
            self.k = k

        @C
        def f(self, x):
            return x * self.k

    return [A(k).f(X) for k in (2, 3)]


def method_called_on_the_class(C):
    class A:
        k = 2

        @C
        def f(self, x):
            return x * self.k

    return A.f(A(), X)


def classmethod_above(C):
    class A:
        k = 2

        @classmethod
        @C
        def f(cls, x):
            return x * cls.k

    class B(A):
        k = 3

    return A.f(X), B.f(X), B().f(X)


def classmethod_below(C):
    class A:
        k = 2

        @C
        @classmethod
        def f(cls, x):
            return x * cls.k

    class B(A):
        k = 3

    return A.f(X), B.f(X), B().f(X)


def staticmethod_in_both_orders(C):
    class A:
        @C
        @staticmethod
        def f(x):
            return x * 2

        @staticmethod
        @C
        def g(x):
            return x * 3

    return A.f(X), A().f(X), A.g(X), A().g(X)


def property_of_a_compiled_getter(C):
    class A:
        k = 2

        @property
        @C
        def f(self):
            return X * self.k

        @f.setter
        @C
        def f(self, value):
            self.k = value

    a = A()
    before = a.f
    a.f = 5
    return before, a.f


def cached_property_of_a_compiled_getter(C):
    class A:
        calls = 0

        @functools.cached_property
        @C
        def f(self):
            self.calls += 1
            return X * 2

    a = A()
    return a.f, a.f is a.f, a.calls


def overridden_method_that_calls_super(C):
    class A:
        @C
        def f(self, x):
            return x + 1

    class B(A):
        @C
        def f(self, x):
            return super().f(x) * 2

    class D(B):
        def f(self, x):
            return super().f(x) + 3

    return A().f(X), B().f(X), D().f(X)


def call_with_super(C):
    class A:
        def __call__(self, x):
            return x + 1

    class B(A):
        def __call__(self, x):
            return super().__call__(x) * 2

    A.__call__ = C(A.__call__)
    B.__call__ = C(B.__call__)
    return A()(X), B()(X)


def call_of_an_object_with_slots(C):
    class A:
        __slots__ = ("k",)

        def __init__(self, k):
            self.k = k

        @C
        def __call__(self, x):
            return x * self.k

    a = A(2)
    first = a(X)
    a.k = 3
    return first, a(X)


def special_methods(C):
    class V:
        def __init__(self, x):
            self.x = x

        @C
        def __add__(self, other):
            return V(self.x + other.x)

        @C
        def __getitem__(self, k):
            return self.x[k]

        @C
        def __len__(self):
            return self.x.shape[0]

        @C
        def __eq__(self, other):
            return bool((self.x == other.x).all())

        __hash__ = None

        @C
        def __bool__(self):
            return bool(self.x.sum() > 100)

        @C
        def __iter__(self):
            yield from self.x

        @C
        def __contains__(self, x):
            return bool((self.x == x).any())

        @C
        def __enter__(self):
            return self.x * 2

        @C
        def __exit__(self, *exc):
            return True

    v = V(X)
    with v as doubled:
        raise KeyError
    return (v + v).x, v[0], len(v), v == V(X), bool(v), list(v), 2.0 in v, doubled


def construction(C):
    class A:
        @C
        def __new__(cls, x):
            made = object.__new__(cls)
            made.y = x + 1
            return made

        @C
        def __init__(self, x):
            self.z = self.y * 2

    a = A(X)
    return a.y, a.z, type(a).__name__


def init_subclass_and_set_name(C):
    seen = []

    class D:
        @C
        def __set_name__(self, owner, name):
            seen.append((owner.__name__, name))

        @C
        def __get__(self, instance, owner=None):
            return X * instance.k

    class A:
        k = 4
        d = D()

        @C
        def __init_subclass__(cls):
            seen.append(cls.__name__)

    class B(A):
        pass

    return seen, B().d


def getattr_and_setattr(C):
    class A:
        def __init__(self):
            object.__setattr__(self, "log", [])

        @C
        def __getattr__(self, name):
            return X * len(name)

        @C
        def __setattr__(self, name, value):
            self.log.append(name)
            object.__setattr__(self, name, value)

    a = A()
    a.k = 2
    return a.missing, a.k, a.log


def abstract_method(C):
    class A(abc.ABC):
        @abc.abstractmethod
        @C
        def f(self, x): ...

    class B(A):
        @C
        def f(self, x):
            return x + 1

    return outcome(A), B().f(X), B.f.__name__, A.__abstractmethods__ == {"f"}


def dataclass_method_and_default_factory(C):
    make = C(lambda: X * 2)

    @dataclasses.dataclass
    class A:
        x: typing.Any = dataclasses.field(default_factory=make)

        @C
        def f(self, y=1):
            return self.x + y

    return A().f(), A(X).f(3), dataclasses.replace(A(), x=X).f()


def enum_method(C):
    class E(enum.Enum):
        ONE = 1
        TWO = 2

        @C
        def f(self, x):
            return x * self.value

    return E.ONE.f(X), E.TWO.f(X), len(E)


def named_tuple_method(C):
    class N(typing.NamedTuple):
        x: torch.Tensor
        k: int

        def f(self, y):
            return self.x * self.k + y

    N.f = C(N.f)
    return N(X, 2).f(1), N(X, 3).f(X)


def single_dispatch(C):
    @functools.singledispatch
    def f(x):
        return x + 1

    @f.register
    @C
    def _(x: torch.Tensor):
        return x * 2

    @f.register(list)
    def _(x):
        return [f(y) for y in x]

    g = C(f)
    return g(X), g([X, 1]), g(3), f.dispatch(int)(4)


def single_dispatch_of_methods(C):
    class A:
        @functools.singledispatchmethod
        def f(self, x):
            return x + 1

        @f.register
        @C
        def _(self, x: torch.Tensor):
            return x * 2

    return A().f(X), A().f(3)


def partial_methods(C):
    class A:
        k = 3

        @C
        def f(self, x, y, *, z=0):
            return x * self.k + y + z

        g = functools.partialmethod(f, y=1)
        h = functools.partialmethod(f, z=5)

    return A().g(X), A().h(X, 2), C(A().g)(X)
