"""Functions, closures, methods and other callables that a function calls."""

import abc
import functools
import types
import weakref

import torch

from tests.guards.support import X, entries, outcome, seen_and_back, unnoticed

# Closures


@seen_and_back
def test_cell_rebound(C):
    k = 2

    def set_k(value):
        nonlocal k
        k = value

    f = C(lambda x: x * k)
    yield f(X)
    set_k(3)
    yield f(X)
    set_k(2)
    yield f(X)


@seen_and_back
def test_cell_emptied_and_filled(C):
    k = 2

    def f(x):
        return x * k

    f = C(f)
    cell = f.__closure__[0]
    yield f(X)
    del cell.cell_contents
    yield outcome(f, X)
    cell.cell_contents = 2
    yield f(X)


@seen_and_back
def test_empty_cell_filled_later(C):
    def f(x):
        try:
            return x + k
        except NameError:
            return x - 1

    cell = f.__closure__[0]
    f = C(f)
    yield f(X)
    k = 5
    yield f(X)
    del cell.cell_contents
    yield f(X)
    k = 5


@entries(1, 2, 2, 2)
def test_closures_of_one_factory_called_by_another(C):
    def make(k):
        return lambda v: v * k

    f = C(lambda x, g: g(x))
    yield f(X, make(2))
    yield f(X, make(3))
    yield f(X, make(2))
    yield f(X, make(3))


@entries(1, 2, 2)
def test_content_of_a_closed_over_list(C):
    values = [1]
    f = C(lambda x: x + values[0])
    yield f(X)
    values[0] = 2
    yield f(X)
    values[0] = 1
    yield f(X)


@entries(1, 1, 1)
def test_closed_over_tensor_changes_its_values(C):
    t = torch.zeros(2)
    f = C(lambda x: x + t)
    yield f(X)
    t.add_(5)
    yield f(X)
    t = torch.ones(2)
    yield f(X)


@seen_and_back
def test_two_cells_become_one_object(C):
    a, b = [1], [1]

    def f(x):
        a.append(2)
        return x + len(b)

    f = C(f)
    yield f(X), a, b
    b, a = a, a
    a.pop()
    yield f(X), a, b
    a, b = [1], [1]
    yield f(X), a, b


@seen_and_back
def test_cell_that_the_function_changes(C):
    count = 0

    def f(x):
        nonlocal count
        count = 1 - count
        return x + count

    f = C(f)
    yield f(X), count
    yield f(X), count
    yield f(X), count


# Defaults and code


@seen_and_back
def test_defaults_replaced(C):
    def f(x, k=2):
        return x * k

    g = C(f)
    yield g(X)
    f.__defaults__ = (9,)
    yield g(X)
    f.__defaults__ = (2,)
    yield g(X)


@seen_and_back
def test_keyword_defaults_replaced(C):
    def f(x, *, k=2):
        return x * k

    g = C(f)
    yield g(X)
    f.__kwdefaults__ = {"k": 9}
    yield g(X)
    f.__kwdefaults__["k"] = 2
    yield g(X)


@entries(1, 1, 1)
def test_defaults_removed(C):
    def f(x, k=2):
        return x * k

    g = C(f)
    yield g(X)
    f.__defaults__ = None
    yield outcome(g, X)
    f.__defaults__ = (2,)
    yield g(X)


@entries(1, 2, 3)
def test_mutable_default(C):
    def f(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x + len(seen)

    f = C(f)
    for _ in range(3):
        yield f(X)


@seen_and_back
def test_callee_code_replaced(C):
    def helper(v):
        return v + 1

    def other(v):
        return v + 10

    f, code = C(lambda x: helper(x)), helper.__code__
    yield f(X)
    helper.__code__ = other.__code__
    yield f(X)
    helper.__code__ = code
    yield f(X)


@unnoticed
def test_callee_compiled_in_place(C):
    """A hook in the callee's code does not change what it does."""

    def helper(v):
        return v + 1

    f = C(lambda x: helper(x) * 2)
    yield f(X)
    C(helper)
    yield f(X)


@seen_and_back
def test_callee_defaults_replaced(C):
    def helper(v, k=1):
        return v + k

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__defaults__ = (10,)
    yield f(X)
    helper.__defaults__ = (1,)
    yield f(X)


@seen_and_back
def test_callee_keyword_defaults_replaced(C):
    def helper(v, *, k=1):
        return v + k

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__kwdefaults__ = {"k": 10}
    yield f(X)
    helper.__kwdefaults__ = {"k": 1}
    yield f(X)


@seen_and_back
def test_callee_unused_default_removed(C):
    """The call raises, though the body never reads the parameter."""

    def helper(v, k=1, *, n=2):
        return v + 1

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__kwdefaults__ = None
    yield outcome(f, X)
    helper.__kwdefaults__ = {"n": 3}
    yield f(X)


@seen_and_back
def test_callee_unused_positional_default_removed(C):
    def helper(v, k=1):
        return v + 1

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__defaults__ = None
    yield outcome(f, X)
    helper.__defaults__ = (3,)
    yield f(X)


@seen_and_back
def test_own_code_replaced(C):
    def f(x):
        return x + 1

    def other(x):
        return x * 10

    g, code = C(f), f.__code__
    yield g(X)
    f.__code__ = other.__code__
    yield g(X)
    f.__code__ = code
    yield g(X)


@entries(1, 2, 2, 2)
def test_attribute_of_a_function(C):
    def helper(v):
        return v + helper.k

    helper.k = 1
    f = C(lambda x: helper(x))
    yield f(X)
    helper.k = 2
    yield f(X)
    helper.k = 1
    yield f(X)
    helper.other = 1
    yield f(X)


@seen_and_back
def test_attribute_of_a_function_appears(C):
    def helper(v):
        return v + getattr(helper, "k", 0)

    f = C(lambda x: helper(x))
    yield f(X)
    helper.k = 2
    yield f(X)
    del helper.k
    yield f(X)


# Functions as arguments


@entries(1, 2, 2, 2)
def test_lambda_with_another_default(C):
    f = C(lambda x, g: g(x))
    for k in (1, 2, 1, 2):
        yield f(X, lambda v, k=k: v + k)


@entries(1, 2, 2, 2)
def test_lambda_with_other_globals(C):
    f, code = C(lambda x, g: g(x)), compile("v + K", "<test>", "eval")
    source = "def g(v): return v + K"
    del code
    first, second = {"K": 1}, {"K": 2}
    exec(source, first)
    second["g"] = types.FunctionType(first["g"].__code__, second)
    yield f(X, first["g"])
    yield f(X, second["g"])
    yield f(X, first["g"])
    yield f(X, second["g"])


@seen_and_back
def test_function_of_another_class_than_functions(C):
    class Adder:
        def __call__(self, v):
            return v + 1

    f = C(lambda x, g: g(x))
    yield f(X, lambda v: v * 2)
    yield f(X, Adder())
    yield f(X, lambda v: v * 2)


@entries(1, 1, 2, 2)
def test_identity_of_functions(C):
    def one(v):
        return v + 1

    f = C(lambda x, g: x + (1 if g is one else 2))
    yield f(X, one)
    yield f(X, one)
    yield f(X, lambda v: v)
    yield f(X, one)


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
    f = C(lambda x, g: g(x))
    for k in (1, 2):
        yield f(X, functools.partial(lambda v, k: v + k, k=k))
    yield f(X, functools.partial(lambda k, v: v - k, 1))
    yield f(X, functools.partial(lambda k, v: v - k, 1))


@entries(1, 2, 2)
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

    f = C(lambda x, g: g(x))
    yield f(X, decorated(lambda v: v))
    yield f(X, decorated(lambda v: -v))
    yield f(X, decorated(lambda v: v))


@seen_and_back
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


@seen_and_back
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
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    f = C(lambda x, o: x + (1 if isinstance(o, Shape) else 2))
    yield f(X, Square())
    Shape.register(Square)
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
    class Shape(abc.ABC):
        answer = True

        @classmethod
        def __subclasshook__(cls, other):
            return Shape.answer

    f = C(lambda x, o: x + (1 if isinstance(o, Shape) else 2))
    yield f(X, object())
    Shape.answer = False
    Shape._abc_caches_clear() if hasattr(Shape, "_abc_caches_clear") else None
    yield f(X, object())


@unnoticed
def test_a_partial_made_anew(C):
    f = C(lambda x, g: g(x))
    yield f(X, functools.partial(torch.add, other=1))
    yield f(X, functools.partial(torch.add, other=1))
