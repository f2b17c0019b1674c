"""Signatures that change, control flow, effects."""

import asyncio
import contextlib
import functools
import io
import math
import operator
import random
import string

import numpy as np
import torch
from torch import nn

from tests.api.doors.support import Obj, X, outcome


def kwdefaults_deleted(C):
    def f(x, *, k=2):
        return x * k

    g = C(f)
    h = C(lambda x: g(x))
    a = g(X), h(X)
    f.__kwdefaults__ = None
    return a, outcome(g, X), outcome(h, X), g(X, k=3)


def code_with_another_signature(C):
    def f(x):
        return x

    g = C(f)
    g(X)

    def new(x, k=2, *a, n=3):
        return x * k + n

    f.__code__ = new.__code__
    f.__defaults__ = (2,)
    f.__kwdefaults__ = {"n": 3}
    return outcome(g, X), outcome(g, X, 5), outcome(g, X, 5, n=1)


def code_with_a_closure(C):
    def make(k):
        def f(x):
            return x * k

        return f

    f, h = make(2), make(3)
    g = C(f)
    a = g(X)
    f.__code__ = h.__code__
    f.__closure__[0].cell_contents = 7
    return a, g(X), h(X)


def two_closures_of_one_code(C):
    def make(k):
        return lambda x: x * k

    fs = [make(k) for k in range(5)]
    gs = [C(f) for f in fs]
    h = C(lambda x: [g(x) for g in gs])
    return h(X), [g(X) for g in gs]


def many_instances(C):
    fs = [C(Obj(k)) for k in range(12)]
    h = C(lambda f, x: f(x))
    return [h(f, X) for f in fs], [f(X) for f in fs]


def star_star_to_compiled(C):
    f = C(lambda a, b=1, **k: (a * b, sorted(k)))
    g = C(lambda d: f(**d))
    return (
        g({"a": X}),
        g({"a": X, "b": 2, "z": 1}),
        outcome(g, {"b": 1}),
        C(lambda: f(*(X,), b=3))(),
    )


def comprehension_over_compiled(C):
    fs = (C(torch.sin), C(torch.cos), C(Obj(2)))
    return C(
        lambda x: (
            [f(x) for f in fs],
            {i: f(x) for i, f in enumerate(fs)},
            tuple(f(x) for f in fs),
            sum(f(x) for f in fs),
        )
    )(X)


def walrus_and_match(C):
    f = C(lambda x: x * 2)

    def g(v):
        match v:
            case [a, b]:
                return f(a) + f(b)
            case {"k": k}:
                return f(k)
            case torch.Tensor():
                return (y := f(v)) + y

    h = C(g)
    return h([X, X]), h({"k": X}), h(X), h(3)


def try_finally_with_compiled(C):
    log = []
    f = C(lambda x: x["a"])

    def g(x):
        try:
            return f(x)
        except KeyError:
            log.append("miss")
            return None
        else:
            log.append("else")
        finally:
            log.append("fin")

    h = C(g)
    return h({"a": X}), h({}), log


def with_statement_compiled(C):
    @C
    @contextlib.contextmanager
    def cm(k):
        yield k * 2

    def f(x):
        with cm(x) as y:
            return y + 1

    return f(X), C(f)(X)


def exit_stack(C):
    log = []

    def f(x):
        with contextlib.ExitStack() as s:
            s.callback(C(log.append), 1)
            s.push(C(lambda *e: True))
            raise KeyError
        return x

    return f(X), C(f)(X), log


def nested_functions_and_nonlocal(C):
    def counter():
        n = 0

        @C
        def inc(x):
            nonlocal n
            n += 1
            return x * n

        return inc, lambda: n

    inc, get = counter()
    h = C(lambda x: inc(x) + inc(x))
    return h(X), get(), inc(X), get()


def grad_of_nested(C):
    f = C(lambda x: (x * x).sum())
    x = X.clone().requires_grad_()

    def step(x):
        y = f(x)
        (g,) = torch.autograd.grad(y, x)
        return g

    return C(step)(x), step(x)


def inplace_on_argument(C):
    f = C(lambda x: x.mul_(2))
    p = C(functools.partial(torch.Tensor.add_, other=1))
    x = X.clone()
    r = f(x)
    q = p(x)
    return r is x, q is x, x


def alias_returned(C):
    f = C(lambda x: (x, x[0:1], x.view(1, 2)))
    x = X.clone()
    a, b, c = f(x)
    a.add_(1)
    return a is x, b, c, b._base is x, c._base is x


def random_numbers(C):
    f = C(lambda x: x + torch.rand(2))
    g = C(functools.partial(torch.nn.functional.dropout, p=0.5))
    torch.manual_seed(0)
    a = f(X), g(X), f(X)
    torch.manual_seed(0)
    return a, f(X), g(X), torch.rand(1), C(random.Random(3).random)()


def numpy_functions(C):

    f = C(lambda a: np.sin(a) + 1)
    v = C(np.vectorize(lambda z: z * 2))
    return f(np.ones(2)).tolist(), v(np.arange(3)).tolist(), C(np.add)(1, 2).item()


def string_methods(C):
    return (
        C("{}-{}".format)(1, 2),
        C(str.join)("-", ["a", "b"]),
        C(string.Template("$a").substitute)(a=1),
        C(math.hypot)(3, 4),
    )


def type_constructors(C):
    return (
        C(functools.partial(int, base=2))("101"),
        C(functools.partial(dict, a=1))(b=2),
        C(functools.partial(torch.tensor, dtype=torch.float64))([1.0]),
        C(functools.partial(nn.Linear, 2))(3).out_features,
    )


def printing(C):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        C(print)("a", X.tolist())
        C(functools.partial(print, end=""))("b")
        C(lambda x: print(x))("c")
    return out.getvalue()


def async_callable_object(C):

    class A:
        async def __call__(self, x):
            await asyncio.sleep(0)
            return x * 2

    async def main():
        return await C(A())(X), await C(functools.partial(A().__call__, X))()

    return asyncio.run(main())


def singleton_dispatch_table(C):
    ops = {"+": operator.add, "-": operator.sub, "s": C(operator.mul)}
    f = C(lambda a, op, b: ops[op](a, b))
    a = [f(X, o, X) for o in "+-s"]
    ops["+"] = C(operator.truediv)
    return a, f(X, "+", X)


def memo_by_function(C):
    memo = {}

    def cached(fn):
        @functools.wraps(fn)
        def w(k):
            if k not in memo:
                memo[k] = fn(k)
            return memo[k]

        return w

    f = C(cached(C(lambda k: X * k)))
    return f(2), f(2) is f(2), list(memo)
