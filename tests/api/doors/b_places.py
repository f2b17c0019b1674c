"""Where a compiled callable stands: arguments, defaults, closures, containers, hooks."""

import contextlib
import functools
import inspect
import itertools
import operator
import types

import torch
from torch import nn

from tests.api.doors.support import X


def as_an_argument(C):
    inner = C(lambda x: x + 1)
    outer = C(lambda f, x: f(x) * 2)
    return outer(inner, X), outer(C(lambda x: x - 1), X), outer(torch.sin, X), outer(inner, X)


def as_a_default(C):
    inner = C(lambda x, k=3: x * k)

    def outer(x, f=inner, *, g=C(lambda x: x + 1)):
        return f(g(x))

    h = C(outer)
    first = h(X)
    second = h(X, g=inner)
    outer.__kwdefaults__ = {"g": C(torch.neg)}
    return first, second, h(X), h(X, C(torch.cos))


def in_a_closure_that_is_rebound(C):
    inner = C(lambda x: x + 1)
    outer = C(lambda x: inner(x) * 2)
    first = outer(X)
    inner = C(lambda x: x - 1)
    second = outer(X)
    inner = torch.neg
    return first, second, outer(X)


def in_containers(C):
    table = {"a": C(lambda x: x + 1), "b": C(functools.partial(operator.mul, 2))}
    chain = [C(torch.sin), C(nn.Softmax(0)), C(lambda x, k=2: x * k)]

    def f(x):
        for step in chain:
            x = step(x)
        return x, {name: step(x) for name, step in table.items()}

    g = C(f)
    first = g(X)
    chain.reverse()
    table["c"] = C(torch.cos)
    return first, g(X)


def as_an_attribute(C):
    holder = types.SimpleNamespace(f=C(lambda x: x + 1))
    g = C(lambda h, x: h.f(x) * 2)
    first = g(holder, X)
    holder.f = C(lambda x: x - 1)
    return first, g(holder, X)


def as_a_global(C):
    space = {"inner": C(lambda x: x + 1)}
    exec("def outer(x):\n    return inner(x) * 2\n", space)
    outer = C(space["outer"])
    first = outer(X)
    space["inner"] = C(lambda x: x - 1)
    return first, outer(X)


def returned_by_compiled_code(C):
    def make(k):
        def f(x):
            return x * k

        return C(f)

    g = C(lambda x, k: make(k)(x) + 1)
    return g(X, 2), g(X, 3), g(X, 2)


def compiled_inside_of_compiled_code(C):
    def outer(x):
        @C
        def inner(y):
            return y * 2

        return inner(x) + C(torch.sin)(x)

    f = C(outer)
    return f(X), f(X + 1)


def in_map_filter_and_sorted(C):
    double, key = C(lambda x: x * 2), C(lambda k: -k)

    def f(x):
        return list(map(double, [x, x + 1])), sorted([1, 3, 2], key=key), list(filter(key, [0, 1]))

    return C(f)(X)


def in_reduce_and_accumulate(C):
    add = C(operator.add)
    both = C(lambda x: (functools.reduce(add, [x, x, x]), list(itertools.accumulate([x, x], add))))
    return both(X)


def in_a_partial(C):
    inner = C(lambda x, k, n=1: x * k + n)
    f = functools.partial(inner, k=2)
    return f(X), C(f)(X), C(lambda x: f(x, n=5))(X), functools.partial(C(f), n=7)(X)


def in_a_chain_of_decorators(C):
    def twice(f):
        @functools.wraps(f)
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) * 2

        return wrapper

    @C
    @twice
    @C
    @twice
    def f(x, k=1):
        """Documented."""
        return x + k

    return f(X), f(X, k=3), f.__name__, f.__doc__, str(inspect.signature(f))


def decorator_with_state(C):
    class Counted:
        def __init__(self, f):
            functools.update_wrapper(self, f)
            self.f, self.calls = f, 0

        def __call__(self, *args):
            self.calls += 1
            return self.f(*args)

        def __get__(self, instance, owner=None):
            return types.MethodType(self, instance)

    @C
    @Counted
    def f(x):
        return x + 1

    class A:
        @C
        @Counted
        def m(self, x):
            return x * 2

    first = f(X), f(X)
    return first, f.calls, A().m(X), A().m(X), vars(A)["m"].calls


def wrapped_by_grad_modes(C):
    @C
    @torch.no_grad()
    def f(x):
        return x * 2

    @torch.no_grad()
    @C
    def g(x):
        return x * 2

    @torch.inference_mode()
    @C
    def h(x):
        return x * 2

    x = X.clone().requires_grad_()
    return [(r, r.requires_grad, r.is_inference()) for r in (f(x), g(x), h(x), f(x))]


def wrapped_by_a_context_manager(C):
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(name)
        yield
        log.append(f"/{name}")

    @C
    @noted("a")
    def f(x):
        return x + 1

    return f(X), f(X), log


def passed_to_torch(C):
    f = C(lambda x: (x * x).sum())
    x = X.clone().requires_grad_()
    jacobian = torch.autograd.functional.jacobian(f, x)
    return jacobian, torch.func.grad(f)(X), torch.vmap(C(torch.sin))(X[None])


def as_a_hook(C):
    x = X.clone().requires_grad_()
    y = x * 2
    y.register_hook(C(lambda g: g * 3))
    y.sum().backward()
    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)
    m.register_forward_hook(C(lambda module, args, result: result + 1))
    m.register_forward_pre_hook(C(lambda module, args: (args[0] * 2,)))
    return x.grad, C(m)(X), m(X)


def as_autograd_function(C):
    class F(torch.autograd.Function):
        @staticmethod
        @C
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        @C
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.cos() * 2

    x = X.clone().requires_grad_()
    C(F.apply)(x).sum().backward()
    return x.grad
