"""Python's data model: attributes, protocols, classes, iteration."""

import collections
import itertools
import sys
import warnings

from tests.footguns.support import floats, outcome, plain


def E01_getattr_fallback(C):
    class P:
        def __getattr__(self, n):
            if n.startswith("k"):
                return int(n[1:])
            raise AttributeError(n)

    f = C(lambda x, o: x + o.k7 + hasattr(o, "zz"))
    return plain(f(floats(0), P()))


def E03_data_descriptor_precedence(C):
    class D:
        def __get__(s, o, t=None):
            return 10

        def __set__(s, o, v):
            o.__dict__["d"] = v

    class P:
        d = D()

    o = P()
    o.__dict__["d"] = 1
    return plain(C(lambda x, o: x + o.d)(floats(0), o))


def E05_slots_unset(C):
    class P:
        __slots__ = ("a", "b")

    o = P()
    o.a = 1

    def f(x, o):
        try:
            return x + o.b
        except AttributeError:
            return x + o.a

    g = C(f)
    r = plain(g(floats(0), o))
    o.b = 5
    return r, plain(g(floats(0), o))


def E07_eq_returning_nonbool(C):
    class Q:
        def __eq__(self, o):
            return [1]

        __hash__ = None

    f = C(lambda x, q: x + len(q == 3))
    return plain(f(floats(0), Q()))


def E08_bool_len_dunder(C):
    class Q:
        def __init__(s, n):
            s.n = n

        def __len__(s):
            return s.n

    f = C(lambda x, q: x + 1 if q else x - 1)
    return plain(f(floats(0), Q(0))), plain(f(floats(0), Q(2)))


def E09_contains_iter_getitem_protocol(C):
    class Q:
        def __getitem__(s, i):
            if i > 3:
                raise IndexError
            return i * 10

    f = C(lambda x, q: x + sum(q) + (20 in q) + (5 in q))
    return plain(f(floats(0), Q()))


def E10_iter_next_user(C):
    class It:
        def __init__(s):
            s.i = 0

        def __iter__(s):
            return s

        def __next__(s):
            s.i += 1
            if s.i > 3:
                raise StopIteration
            return s.i

    it = It()
    f = C(lambda x, it: x + sum(v for v in it))
    return plain(f(floats(0), it)), it.i


def E12_generator_returned(C):
    log = []

    def f(x):
        def g():
            for i in range(3):
                log.append(i)
                yield x + i

        return g()

    it = C(f)(floats(0))
    n = len(log)
    first = plain(next(it))
    return type(it).__name__, n, first, len(log)


def E14_yield_from_return_value(C):
    def f(x):
        def a():
            yield 1
            return 5

        def b():
            r = yield from a()
            yield r

        return x + sum(b())

    return plain(C(f)(floats(0)))


def E15_super_diamond(C):
    class A:
        def m(s, x):
            return x + 1

    class B(A):
        def m(s, x):
            return super().m(x) * 2

    class D(A):
        def m(s, x):
            return super().m(x) + 100

    class E(B, D):
        def m(s, x):
            return super().m(x) - 1

    return plain(C(lambda x, o: o.m(x))(floats(0), E()))


def E16_classmethod_staticmethod_property(C):
    class A:
        k = 2

        @classmethod
        def c(cls, x):
            return x * cls.k

        @staticmethod
        def s(x):
            return x + 1

    class B(A):
        k = 5

    return plain(C(lambda x: A.c(x) + B.c(x) + B().s(x))(floats(1)))


def E17_metaclass_call(C):
    class M(type):
        def __call__(cls, *a):
            o = super().__call__(*a)
            o.extra = 7
            return o

    class A(metaclass=M):
        def __init__(s, v):
            s.v = v

    return plain(C(lambda x: x + A(1).v + A(2).extra)(floats(0)))


def E18_new_returning_other_type(C):
    class A:
        def __new__(cls, v):
            return v

    return plain(C(lambda x: x + A(3))(floats(0)))


def E19_namedtuple_subclass_and_replace(C):
    P = collections.namedtuple("P", "a b")

    class Q(P):
        def tot(s):
            return s.a + s.b

    def f(x):
        q = Q(x, 2)._replace(b=5)
        return q.tot(), q

    r = C(f)(floats(1))
    return plain(r[0]), type(r[1]).__name__


def E23_itertools_mix(C):
    def f(x):
        return (
            x
            + sum(a * b for a, b in itertools.product([1, 2], [3, 4]))
            + len(list(itertools.combinations(range(4), 2)))
            + sum(itertools.accumulate([1, 2, 3]))
            + next(itertools.islice(itertools.count(5), 2, None))
            + len(list(itertools.groupby("aabb")))
        )

    return plain(C(f)(floats(0)))


def E24_zip_strict_error(C):
    def f(x):
        try:
            return x + len(list(zip([1], [1, 2], strict=True)))
        except ValueError:
            return x - 1

    return plain(C(f)(floats(0)))


def E27_type_call_and_isinstance_abc(C):
    from collections.abc import Mapping, Sequence

    g = C(
        lambda x, o: (
            x
            + isinstance(o, Mapping) * 1
            + isinstance(o, Sequence) * 2
            + isinstance(o, (int, float)) * 4
            + (type(o) is list) * 8
        )
    )
    return [plain(g(floats(0), o)) for o in ({}, [], 3, ())]


def E28_virtual_subclass_hook(C):
    class M(type):
        def __instancecheck__(c, o):
            return o == 3

    class K(metaclass=M):
        pass

    g = C(lambda x, o: x + isinstance(o, K))
    return plain(g(floats(0), 3)), plain(g(floats(0), 4))


def E29_hash_eq_custom_key(C):
    class K:
        def __init__(s, v):
            s.v = v

        def __hash__(s):
            return 1

        def __eq__(s, o):
            return s.v == o.v

    def f(x):
        d = {K(1): 10}
        return x + d[K(1)] + (K(2) in d)

    return plain(C(f)(floats(0)))


def E30_tensor_as_dict_key(C):
    def f(x):
        d = {x: 3}
        return x + d[x]

    return plain(C(f)(floats(0)))


def E32_class_defined_inside(C):
    def f(x):
        class A:
            k = 3

            def m(s):
                return s.k

        return x + A().m()

    return plain(C(f)(floats(0)))


def E36_eval_exec(C):
    def f(x):
        k = 3
        return x + eval("k + 1")

    return outcome(C(f), floats(0))


def E37_sys_getframe_caller_name(C):
    def h():
        return sys._getframe(1).f_code.co_name

    def f(x):
        return x + 1, h()

    return C(f)(floats(0))[1]


def E38_string_interning_is(C):
    def f(x, s):
        return x + (s is "abc")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        g = C(f)
    return plain(g(floats(0), "abc")), plain(g(floats(0), "".join(["a", "bc"])))


def E39_float_int_division_semantics(C):
    g = C(lambda x, a, b: x + a // b + a % b + divmod(a, b)[0] + round(a / b, 2) + (-a) // b)
    return plain(g(floats(0), 7, 3)), plain(g(floats(0), 7.5, 2)), outcome(g, floats(0), 1, 0)[:2]
