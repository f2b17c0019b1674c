"""Guards: what a function read may change between two calls."""

import dataclasses
import enum
import functools
import gc
import math
import weakref

import torch

from tests.footguns.support import floats, plain

G_SCALE = 2


def A01_global_rebound_between_calls(C):
    global G_SCALE
    G_SCALE = 2
    f = C(lambda x: x * G_SCALE)
    a = plain(f(floats(1)))
    G_SCALE = 5
    return a, plain(f(floats(1)))


def A02_builtin_shadowed_later(C):
    g = globals()
    g.pop("abs", None)
    f = C(lambda x: x + abs(-3))
    a = plain(f(floats(1)))
    g["abs"] = lambda v: 100
    try:
        return a, plain(f(floats(1)))
    finally:
        g.pop("abs", None)


def A04_two_closures_share_code(C):
    def mk(k):
        def f(x):
            return x * k

        return f

    f1, f2 = C(mk(2)), C(mk(3))
    return plain(f1(floats(1))), plain(f2(floats(1))), plain(f1(floats(1)))


def A05_defaults_rebound(C):
    def f(x, k=2):
        return x * k

    g = C(f)
    a = plain(g(floats(1)))
    f.__defaults__ = (9,)
    return a, plain(g(floats(1)))


def A06_mutable_default_mutated(C):
    def f(x, acc=[]):
        acc.append(len(acc))
        return x + len(acc)

    g = C(f)
    return plain(g(floats(0))), plain(g(floats(0))), plain(g(floats(0))), list(f.__defaults__[0])


def A07_callee_rebound(C):
    ns = {}

    def h(x):
        return x + 1

    def f(x):
        return ns["h"](x)

    ns["h"] = h
    g = C(f)
    a = plain(g(floats(0)))
    ns["h"] = lambda x: x + 10
    return a, plain(g(floats(0)))


def A08_callee_code_replaced(C):
    def h(x):
        return x + 1

    def h2(x):
        return x + 10

    def f(x):
        return h(x)

    g = C(f)
    a = plain(g(floats(0)))
    h.__code__ = h2.__code__
    return a, plain(g(floats(0)))


def A09_callee_defaults_replaced(C):
    def h(x, k=1):
        return x + k

    def f(x):
        return h(x)

    g = C(f)
    a = plain(g(floats(0)))
    h.__defaults__ = (10,)
    return a, plain(g(floats(0)))


def A10_class_attr_changed(C):
    class K:
        s = 2

    def f(x, o):
        return x * o.s

    g = C(f)
    o = K()
    a = plain(g(floats(1), o))
    K.s = 5
    return a, plain(g(floats(1), o))


def A11_instance_attr_shadows_class(C):
    class K:
        s = 2

    def f(x, o):
        return x * o.s

    g = C(f)
    o = K()
    a = plain(g(floats(1), o))
    o.s = 5
    return a, plain(g(floats(1), o))


def A12_method_patched_on_class(C):
    class K:
        def m(self, x):
            return x + 1

    def f(x, o):
        return o.m(x)

    g = C(f)
    o = K()
    a = plain(g(floats(0), o))
    K.m = lambda self, x: x + 10
    return a, plain(g(floats(0), o))


def A13_attr_inserted_in_mro(C):
    class A:
        s = 1

    class B(A):
        pass

    def f(x, o):
        return x * o.s

    g = C(f)
    o = B()
    a = plain(g(floats(1), o))
    B.s = 7
    return a, plain(g(floats(1), o))


def A14_object_class_swapped(C):
    class A:
        def m(self):
            return 1

    class B:
        def m(self):
            return 2

    def f(x, o):
        return x + o.m()

    g = C(f)
    o = A()
    a = plain(g(floats(0), o))
    o.__class__ = B
    return a, plain(g(floats(0), o))


def A15_hasattr_toggles(C):
    class K:
        pass

    def f(x, o):
        return x + 1 if hasattr(o, "flag") else x - 1

    g = C(f)
    o = K()
    a = plain(g(floats(0), o))
    o.flag = 1
    b = plain(g(floats(0), o))
    del o.flag
    return a, b, plain(g(floats(0), o))


def A17_dict_extra_key(C):
    f = C(lambda d, x: x + len(d))
    d = {"a": 1}
    a = plain(f(d, floats(0)))
    d["b"] = 2
    return a, plain(f(d, floats(0)))


def A20_set_membership(C):
    f = C(lambda s, x: x + 1 if "a" in s else x - 1)
    s = {"a"}
    a = plain(f(s, floats(0)))
    s.discard("a")
    return a, plain(f(s, floats(0)))


def A21_bool_vs_int_1(C):
    f = C(lambda x, k: x + (10 if k is True else k))
    return plain(f(floats(0), 1)), plain(f(floats(0), True)), plain(f(floats(0), 1.0))


def A22_zero_vs_negzero(C):
    f = C(lambda x, k: x + math.copysign(1.0, k))
    return plain(f(floats(0), 0.0)), plain(f(floats(0), -0.0))


def A23_nan_constant(C):
    f = C(lambda x, k: x + (1 if k != k else 2))
    return (
        plain(f(floats(0), float("nan"))),
        plain(f(floats(0), float("nan"))),
        plain(f(floats(0), 1.0)),
    )


def A25_int_subclass_arg(C):
    class I(int):
        def __mul__(self, o):
            return o + 100

    f = C(lambda x, k: k * x)
    return plain(f(floats(1), 3)), plain(f(floats(1), I(3)))


def A26_enum_identity(C):
    class E(enum.Enum):
        A = 1
        B = 2

    f = C(lambda x, e: x + (1 if e is E.A else 2))
    return plain(f(floats(0), E.A)), plain(f(floats(0), E.B))


def A27_same_tensor_twice_then_distinct(C):
    def f(a, b):
        a.add_(1)
        return a + b

    g = C(f)
    x = floats(1)
    r1 = plain(g(x, x))
    return r1, plain(g(floats(1), floats(1)))


def A28_distinct_then_same(C):
    def f(a, b):
        a.add_(1)
        return a + b

    g = C(f)
    r1 = plain(g(floats(1), floats(1)))
    x = floats(1)
    return r1, plain(g(x, x))


def A29_is_comparison_of_inputs(C):
    f = C(lambda a, b: a + (1 if a is b else 2))
    x = floats(0)
    return plain(f(x, floats(0))), plain(f(x, x))


def A30_overlapping_views(C):
    def f(a, b):
        a.mul_(2)
        return b + 0

    g = C(f)
    base = floats(1, 2, 3, 4)
    r0 = plain(g(floats(1, 2, 3), floats(5, 6, 7)))
    r = plain(g(base[0:3], base[1:4]))
    return r0, r, plain(base)


def A32_dtype_device_layout_change(C):
    f = C(lambda x: (x * 2, str(x.dtype), x.is_contiguous()))
    return [
        plain(f(x))
        for x in (
            torch.ones(2, 2),
            torch.ones(2, 2, dtype=torch.int64),
            torch.ones(2, 2).t(),
            torch.ones(2, 3).t(),
        )
    ]


def A33_requires_grad_change(C):
    f = C(lambda x: (x * 2).requires_grad)
    return f(floats(1)), f(floats(1).requires_grad_()), f(floats(1))


def A35_weakref_target_dies(C):
    class O:
        v = 3

    o = O()
    r = weakref.ref(o)
    f = C(lambda x, r: x + (r().v if r() is not None else -1))
    a = plain(f(floats(0), r))
    del o
    gc.collect()
    return a, plain(f(floats(0), r))


def A38_torch_fn_monkeypatched(C):
    f = C(lambda x: torch.sin(x))
    a = plain(f(floats(0)))
    s = torch.sin
    torch.sin = torch.cos
    try:
        return a, plain(f(floats(0)))
    finally:
        torch.sin = s


def A39_kwargs_order_and_names(C):
    def f(x, **kw):
        return x + sum((i + 1) * v for i, v in enumerate(kw.values())) + ("b" in kw)

    g = C(f)
    return plain(g(floats(0), a=1, b=2)), plain(g(floats(0), b=2, a=1)), plain(g(floats(0), a=1))


def A41_dataclass_field_changed(C):
    @dataclasses.dataclass
    class Cfg:
        k: int = 1
        name: str = "a"

    f = C(lambda x, c: x * c.k + (c.name == "b"))
    c = Cfg()
    a = plain(f(floats(1), c))
    c.k = 3
    c.name = "b"
    return a, plain(f(floats(1), c))


def A42_property_depends_on_global(C):
    st = {"k": 1}

    class P:
        @property
        def v(self):
            return st["k"]

    f = C(lambda x, o: x * o.v)
    o = P()
    a = plain(f(floats(1), o))
    st["k"] = 4
    return a, plain(f(floats(1), o))


def A44_lru_cache_function_state(C):
    st = {"n": 0}

    @functools.lru_cache(None)
    def h(k):
        st["n"] += 1
        return k + st["n"]

    f = C(lambda x: x + h(3))
    return plain(f(floats(0))), plain(f(floats(0))), st["n"]
