"""Compiled callables and modules as compiled code looks at them."""

import functools
import inspect
import io
import operator
import typing

import torch
from torch import nn

from tests.api.doors.support import Obj, X, outcome


def attributes_read_inside(C):
    f = C(Obj(3))
    g = C(
        lambda x: (x * f.k, f.tag, f.m(x), hasattr(f, "none"), getattr(f, "none", 5), callable(f))
    )
    first = g(X)
    f.k = 4
    return first, g(X)


def attributes_written_inside(C):
    f = C(Obj(3))

    def g(x):
        f.k += 1
        f.seen.append(f.k)
        return f(x)

    h = C(g)
    return h(X), h(X), f.k, f.seen


def identity_inside(C):
    o = Obj(3)
    f = C(o)
    d = {f: 1}
    return C(lambda x: (x, f is f, f == f, f in d, d[f], f in [1, f], id(f) == id(f)))(X)[1:]


def function_identity_inside(C):
    def k(x):
        return x

    f = C(k)
    return C(lambda x: (f is f, f == f, {f: 2}[f], f.__name__, f.__doc__, f in (f,)))(X)


def names_inside(C):
    p, b = C(functools.partial(operator.mul, 2)), C(torch.sin)
    return C(lambda x: (p.func.__name__, p.args, p.keywords, b.__name__, p(x), b(x)))(X)


def partial_of_compiled_inside(C):
    f = C(lambda x, k, n=0: x * k + n)
    return C(
        lambda x: (functools.partial(f, k=2)(x), functools.partial(functools.partial(f, x), 3)(n=1))
    )(X)


def signature_inside(C):
    f = C(lambda x, k=1: x)
    return C(lambda x: list(inspect.signature(f).parameters))(X)


def wraps_inside(C):
    f = C(lambda x, k=1: x * k)

    def g(x):
        @functools.wraps(f)
        def w(*a):
            return f(*a) + 1

        return w(x), w.__name__

    return C(g)(X)


def isinstance_inside(C):
    f = C(nn.Linear(2, 2))
    return C(
        lambda x: (
            isinstance(f, nn.Module),
            isinstance(f, nn.Linear),
            type(f).__name__,
            f.in_features,
            f.training,
        )
    )(X)


def method_of_a_view_inside(C):
    m = nn.Sequential(nn.Tanh(), nn.ReLU())
    f = C(m)
    return C(
        lambda x: (f[0](x), len(f), [l(x) for l in f], f.forward(x), list(f.children())[1](x))
    )(X)


def mode_of_a_view(C):
    m = nn.Dropout(1.0)
    f = C(m)
    g = C(lambda x: f(x) + 1)
    first = g(X)
    f.eval()
    second = g(X)
    m.train()
    return first, second, g(X), f.training


def module_attributes_written_inside(C):
    class N(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0
            self.register_buffer("b", torch.zeros(2))

        def forward(self, x):
            self.n += 1
            self.b += x
            self.last = x * 2
            return x * self.n + self.b

    m = N()
    f = C(m)
    g = C(lambda x: f(x) + f(x))
    return g(X), g(X), m.n, m.b, m.last, f.n


def view_of_a_view_inside(C):
    m = nn.Tanh()
    f = C(C(m))
    g = C(nn.Sequential(f, C(nn.Sequential(f))))
    return g(X), g[1](X), g[1][0](X)


def apply_and_to(C):
    m = nn.Linear(2, 2, bias=False)
    f = C(m)

    def ones(l):
        if isinstance(l, nn.Linear):
            nn.init.ones_(l.weight)

    f.apply(ones)
    first = f(X)
    f.double()
    second = f(X.double()).dtype
    f.to(torch.float32)
    return first, str(second), f(X), f.weight is m.weight


def saved_and_loaded(C):
    m = nn.Linear(2, 2)
    nn.init.ones_(m.weight)
    nn.init.zeros_(m.bias)
    f = C(m)
    f(X)
    b = io.BytesIO()
    torch.save(f, b)
    b.seek(0)
    g = torch.load(b, weights_only=False)
    return g(X), type(g).__name__, list(g.state_dict())


def hooks_on_a_view(C):
    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)
    f = C(m)
    log = []
    h = f.register_forward_hook(lambda mod, a, r: (log.append(type(mod).__name__), r * 2)[1])
    a = f(X)
    h2 = f.register_forward_pre_hook(lambda mod, a, k: ((a[0] + 1,), k), with_kwargs=True)
    b = f(X)
    h.remove()
    c = f(X)
    h2.remove()
    f.register_full_backward_hook(lambda mod, gi, go: log.append("back"))
    x = X.clone().requires_grad_()
    f(x).sum().backward()
    return a, b, c, f(X), log, x.grad


def global_hooks(C):
    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)
    f = C(m)
    f(X)
    log = []
    h = nn.modules.module.register_module_forward_hook(lambda mod, a, r: r * 3)
    try:
        a = f(X)
    finally:
        h.remove()
    return a, f(X)


def instance_methods_set(C):
    class N(nn.Module):
        def forward(self, x):
            return self.act(x)

    n = N()
    n.act = C(torch.tanh)
    f = C(n)
    a = f(X)
    n.act = C(functools.partial(torch.mul, 3))
    b = f(X)
    n.act = C(lambda x: x - 1)
    return a, b, f(X)


def module_called_with_kwargs(C):
    class N(nn.Module):
        def forward(self, x, *rest, scale=1, **kw):
            return x * scale + sum(rest) + sum(kw.values())

    f = C(N())
    return f(X), f(X, 1, 2), f(X, scale=3, a=X), f(x=X), outcome(f), outcome(f, X, x=X)[0]


def slots_module(C):
    class N(nn.Module):
        __slots__ = ("z",)

        def __init__(self):
            super().__init__()
            self.z = 3

        def forward(self, x):
            return x * self.z

    n = N()
    f = C(n)
    return outcome(f, X)


def generic_and_protocol(C):
    T = typing.TypeVar("T")

    class B(typing.Generic[T]):
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    class P(typing.Protocol):
        def __call__(self, x): ...

    class I(P):
        def __call__(self, x):
            return x + 1

    return C(B[int](2))(X), C(I())(X)


def callable_with_getattribute(C):
    class A:
        def __getattribute__(self, name):
            if name == "k":
                return 5
            return object.__getattribute__(self, name)

        def __call__(self, x):
            return x * self.k

    f = C(A())
    return f(X), f.k, C(lambda x: f(x))(X)


def proxy_objects(C):
    class Proxy:
        def __init__(self, o):
            object.__setattr__(self, "_o", o)

        def __getattr__(self, n):
            return getattr(self._o, n)

        def __setattr__(self, n, v):
            setattr(self._o, n, v)

        @property
        def __class__(self):
            return type(self._o)

        def __call__(self, *a):
            return self._o(*a)

    o = Obj(3)
    p = Proxy(o)
    f = C(p)
    a = f(X)
    f.k = 5
    return a, f(X), o.k, C(lambda x: isinstance(p, Obj))(X), isinstance(p, Obj)


def class_property_lies(C):
    class A:
        @property
        def __class__(self):
            return int

        def __call__(self, x):
            return x + isinstance(self, int)

    a = A()
    return C(a)(X), C(lambda x: (isinstance(a, int), isinstance(a, A), type(a) is A))(X)


def callable_returning_itself(C):
    class A:
        n = 0

        def __call__(self, x):
            self.n += 1
            return self

    a = A()
    f = C(a)
    return f(X) is a, f(X)(X) is a, a.n, C(lambda x: f(x))(X) is a


def callable_that_recurses(C):
    class A:
        def __call__(self, x, n):
            return x if n == 0 else self(x * 2, n - 1)

    f = C(A())
    return f(X, 4)


def chained_partials_with_placeholders(C):
    f = lambda a, b, c=0, *d, e=1, **k: a * b + c + sum(d) + e + sum(k.values())
    p = functools.partial(functools.partial(f, 2), c=5, e=7)
    g = C(p)
    return (
        g(X),
        g(X, z=1),
        outcome(g, X, 3)[0],
        C(functools.partial(p, X, z=2))(e=9),
        g.func is f,
        g.args,
        g.keywords,
    )


def methodcaller_and_getters(C):
    o = Obj(3)
    return (
        C(operator.methodcaller("m", X))(o),
        C(operator.attrgetter("k"))(o),
        C(operator.itemgetter(1, 0))([X, 2]),
        C(operator.methodcaller("add", 1, alpha=2))(X),
    )
