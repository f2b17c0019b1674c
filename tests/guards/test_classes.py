"""Classes: their attributes, bases and metaclasses; enums and dataclasses."""

import dataclasses
import enum

from tests.guards.support import X, entries, outcome, seen_and_back, unnoticed

# Class attributes


@seen_and_back
def test_class_attribute_rebound(C):
    class Local:
        k = 1

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Local.k = 2
    yield f(X, o)
    Local.k = 1
    yield f(X, o)


@unnoticed
def test_other_class_attribute_rebound(C):
    class Local:
        k, n = 1, 1

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Local.n = 2
    Local.new = 3
    yield f(X, o)


@seen_and_back
def test_instance_attribute_shadows_the_class(C):
    class Local:
        k = 1

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    o.k = 2
    yield f(X, o)
    del o.k
    yield f(X, o)


@seen_and_back
def test_class_attribute_behind_an_instance_attribute(C):
    """What the instance has is found first; when it goes, the class is asked."""

    class Local:
        k = 1

    f, o = C(lambda x, o: x + o.k), Local()
    o.k = 2
    yield f(X, o)
    del o.k
    yield f(X, o)
    o.k = 2
    yield f(X, o)


@entries(1, 2, 3)
def test_mutable_class_attribute(C):
    class Local:
        values = [1]  # noqa: RUF012

    f, o = C(lambda x, o: x + o.values[0]), Local()
    yield f(X, o)
    Local.values[0] = 2
    yield f(X, o)
    Local.values = [1]
    yield f(X, o)


@seen_and_back
def test_attribute_of_a_global_class(C):
    class Local:
        k = 1

    f = C(lambda x: x + Local.k)
    yield f(X)
    Local.k = 2
    yield f(X)
    Local.k = 1
    yield f(X)


@seen_and_back
def test_attribute_appears_in_a_nearer_base(C):
    class Base:
        k = 1

    class Middle(Base):
        pass

    class Local(Middle):
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Middle.k = 2
    yield f(X, o)
    del Middle.k
    yield f(X, o)


@seen_and_back
def test_method_patched_on_a_base(C):
    class Base:
        def m(self, v):
            return v + 1

    class Local(Base):
        pass

    f, o, m = C(lambda x, o: o.m(x)), Local(), Base.m
    yield f(X, o)
    Base.m = lambda self, v: v + 10
    yield f(X, o)
    Base.m = m
    yield f(X, o)


@seen_and_back
def test_method_on_the_instance(C):
    class Local:
        def m(self, v):
            return v + 1

    f, o = C(lambda x, o: o.m(x)), Local()
    yield f(X, o)
    o.m = lambda v: v + 10
    yield f(X, o)
    del o.m
    yield f(X, o)


@seen_and_back
def test_super_finds_another_method(C):
    class Base:
        def m(self, v):
            return v + 1

    class Middle(Base):
        pass

    class Local(Middle):
        def m(self, v):
            return super().m(v) * 2

    f, o = C(lambda x, o: o.m(x)), Local()
    yield f(X, o)
    Middle.m = lambda self, v: v - 1
    yield f(X, o)
    del Middle.m
    yield f(X, o)


# Classes of objects, and their bases


@seen_and_back
def test_class_of_an_object_swapped(C):
    class First:
        def m(self):
            return 1

    class Second:
        def m(self):
            return 2

    f, o = C(lambda x, o: x + o.m()), First()
    yield f(X, o)
    o.__class__ = Second
    yield f(X, o)
    o.__class__ = First
    yield f(X, o)


@seen_and_back
def test_bases_swapped(C):
    class First:
        k = 1

    class Second:
        k = 2

    class Local(First):
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Local.__bases__ = (Second,)
    yield f(X, o)
    Local.__bases__ = (First,)
    yield f(X, o)


@seen_and_back
def test_order_of_bases_swapped(C):
    class First:
        k = 1

    class Second:
        k = 2

    class Local(First, Second):
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Local.__bases__ = (Second, First)
    yield f(X, o)
    Local.__bases__ = (First, Second)
    yield f(X, o)


@seen_and_back
def test_bases_of_a_base_swapped(C):
    class First:
        k = 1

    class Second:
        k = 2

    class Base(First):
        pass

    class Local(Base):
        pass

    f, o = C(lambda x, o: x + o.k), Local()
    yield f(X, o)
    Base.__bases__ = (Second,)
    yield f(X, o)
    Base.__bases__ = (First,)
    yield f(X, o)


@seen_and_back
def test_instance_check_follows_the_bases(C):
    class First:
        pass

    class Second:
        pass

    class Local(First):
        pass

    f, o = C(lambda x, o: x + (1 if isinstance(o, First) else 2)), Local()
    yield f(X, o)
    Local.__bases__ = (Second,)
    yield f(X, o)
    Local.__bases__ = (First,)
    yield f(X, o)


@seen_and_back
def test_subclass_check_follows_the_bases(C):
    class First:
        pass

    class Second:
        pass

    class Local(First):
        pass

    f = C(lambda x: x + (1 if issubclass(Local, First) else 2))
    yield f(X)
    Local.__bases__ = (Second,)
    yield f(X)
    Local.__bases__ = (First,)
    yield f(X)


@seen_and_back
def test_super_follows_the_bases(C):
    class First:
        def m(self):
            return 1

    class Second:
        def m(self):
            return 2

    class Local(First):
        def m(self):
            return super().m()

    f, o = C(lambda x, o: x + o.m()), Local()
    yield f(X, o)
    Local.__bases__ = (Second,)
    yield f(X, o)
    Local.__bases__ = (First,)
    yield f(X, o)


@seen_and_back
def test_handler_follows_the_bases(C):
    class First(Exception):
        pass

    class Second(Exception):
        pass

    class Local(First):
        pass

    def f(x):
        try:
            raise Local
        except First:
            return x + 1
        except Exception:
            return x + 2

    f = C(f)
    yield f(X)
    Local.__bases__ = (Second,)
    yield f(X)
    Local.__bases__ = (First,)
    yield f(X)


@seen_and_back
def test_operator_priority_follows_the_bases(C):
    class First:
        def __add__(self, other):
            return 1

        def __radd__(self, other):
            return 2

    class Second:
        def __radd__(self, other):
            return 3

    class Local(First):
        def __radd__(self, other):
            return 4

    f, a, b = C(lambda x, a, b: x + (a + b)), First(), Local()
    yield f(X, a, b)
    Local.__bases__ = (Second,)
    yield f(X, a, b)
    Local.__bases__ = (First,)
    yield f(X, a, b)


@seen_and_back
def test_all_bases_read(C):
    class First:
        pass

    class Second:
        pass

    class Local(First):
        pass

    f = C(lambda x: x + (1 if First in Local.__mro__ else 2))
    yield f(X)
    Local.__bases__ = (Second,)
    yield f(X)
    Local.__bases__ = (First,)
    yield f(X)


@seen_and_back
def test_name_of_a_class(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + len(f"{type(o).__name__}")), Local()
    yield f(X, o)
    Local.__name__ = "Longer"
    yield f(X, o)
    Local.__name__ = "Local"
    yield f(X, o)


@seen_and_back
def test_text_of_a_class(C):
    class Local:
        pass

    f, o = C(lambda x, o: x + len(f"{type(o)}{int!r}{Local!s}")), Local()
    before = Local.__qualname__
    yield f(X, o)
    Local.__qualname__ = "Longer"
    yield f(X, o)
    Local.__qualname__ = before
    yield f(X, o)


@entries(None)
def test_class_becomes_abstract(C):
    class Local:
        def __init__(self):
            self.k = 1

    f = C(lambda x: x.sin() + Local().k)
    yield [f(X) for _ in range(4)]  # 3.13 itself does not notice between the first two calls
    Local.__abstractmethods__ = frozenset({"m"})
    yield outcome(f, X)
    Local.__abstractmethods__ = frozenset()
    yield f(X)


@entries(None)
def test_class_gets_a_finaliser(C):
    class Local:
        k = 1

    gone = []
    f = C(lambda x: x.sin() + Local().k)
    yield f(X), list(gone)
    Local.__del__ = lambda self: gone.append(1)
    yield f(X), list(gone)


@seen_and_back
def test_metaclass_swapped_before_a_call_of_the_class(C):
    class First(type):
        pass

    class Second(type):
        def __call__(cls):
            return 7

    class Local(metaclass=First):
        k = 1

    f = C(lambda x: x + getattr(Local(), "k", 5))
    yield f(X)
    Local.__class__ = Second
    yield f(X)
    Local.__class__ = First
    yield f(X)


@seen_and_back
def test_metaclass_swapped(C):
    class First(type):
        @property
        def k(cls):
            return 1

    class Second(type):
        @property
        def k(cls):
            return 2

    class Local(metaclass=First):
        pass

    f = C(lambda x: x + Local.k)
    yield f(X)
    Local.__class__ = Second
    yield f(X)
    Local.__class__ = First
    yield f(X)


@seen_and_back
def test_attribute_of_a_metaclass(C):
    class Meta(type):
        k = 1

    class Local(metaclass=Meta):
        pass

    f = C(lambda x: x + Local.k)
    yield f(X)
    Meta.k = 2
    yield f(X)
    Meta.k = 1
    yield f(X)


@seen_and_back
def test_class_attribute_shadows_the_metaclass(C):
    class Meta(type):
        k = 1

    class Local(metaclass=Meta):
        pass

    f = C(lambda x: x + Local.k)
    yield f(X)
    Local.k = 2
    yield f(X)
    del Local.k
    yield f(X)


# Enums and dataclasses


@seen_and_back
def test_attribute_of_an_enum_member(C):
    class Color(enum.Enum):
        RED = 1

    f = C(lambda x, c: x + getattr(c, "weight", 0))
    yield f(X, Color.RED)
    Color.RED.weight = 5
    yield f(X, Color.RED)
    del Color.RED.weight
    yield f(X, Color.RED)


@seen_and_back
def test_method_of_an_enum_patched(C):
    class Color(enum.Enum):
        RED = 1

        def weight(self):
            return self.value

    f, weight = C(lambda x, c: x + c.weight()), Color.weight
    yield f(X, Color.RED)
    Color.weight = lambda self: 7
    yield f(X, Color.RED)
    Color.weight = weight
    yield f(X, Color.RED)


@seen_and_back
def test_default_of_a_dataclass(C):
    @dataclasses.dataclass
    class Point:
        a: int
        b: int = 2

    f, defaults = C(lambda x: x + Point(1).b), Point.__init__.__defaults__
    yield f(X)
    Point.__init__.__defaults__ = (5,)
    yield f(X)
    Point.__init__.__defaults__ = defaults
    yield f(X)


@seen_and_back
def test_fields_of_a_dataclass_object(C):
    @dataclasses.dataclass
    class Config:
        k: int = 1
        name: str = "a"

    f, c = C(lambda x, c: x * c.k + len(c.name)), Config()
    yield f(X, c)
    c.k, c.name = 3, "bb"
    yield f(X, c)
    c.k, c.name = 1, "a"
    yield f(X, c)
