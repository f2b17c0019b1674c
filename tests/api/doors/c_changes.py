"""Changes without the compiled version's knowledge."""

import functools
import operator

import torch
from torch import nn

from tests.api.doors.support import X


def code_is_replaced(C):
    def f(x):
        return x + 1

    g = C(f)
    first = g(X)
    f.__code__ = (lambda x: x * 10).__code__
    return first, g(X), C(lambda x: g(x))(X)


def method_is_replaced_on_the_class(C):
    class A:
        def f(self, x):
            return x + 1

        def g(self, x):
            return self.f(x) * 2

    a = A()
    g = C(a.g)
    first = g(X)
    A.f = lambda self, x: x - 1
    second = g(X)
    a.f = lambda x: x * 100
    return first, second, g(X)


def call_is_replaced_on_the_class(C):
    class A:
        def __call__(self, x):
            return x + 1

    a = A()
    f = C(a)
    first = f(X)
    A.__call__ = lambda self, x: x - 1
    return first, f(X)


def class_is_changed(C):
    class A:
        def __call__(self, x):
            return x + 1

    class B:
        def __call__(self, x):
            return x - 1

    a = A()
    f = C(a)
    first = f(X)
    a.__class__ = B
    return first, f(X)


def partial_s_state_is_set(C):
    p = functools.partial(operator.add, X)
    f = C(p)
    first = f(1)
    p.__setstate__((operator.mul, (X,), {}, None))
    return first, f(3)


def forward_is_replaced(C):
    class N(nn.Module):
        def forward(self, x):
            return x + 1

    n = N()
    f = C(n)
    first = f(X)
    n.forward = lambda x: x - 1
    second = f(X)
    del n.forward
    N.forward = lambda self, x: x * 100
    return first, second, f(X)


def submodule_is_replaced(C):
    m = nn.Sequential(nn.ReLU(), nn.Identity())
    f = C(m)
    first = f(X - 2)
    m[0] = nn.Sigmoid()
    second = f(X)
    m.append(nn.Tanh())
    return first, second, f(X)


def compiled_submodule(C):
    m = nn.Sequential(nn.Softmax(0), nn.Sequential(nn.Tanh(), nn.Sigmoid()))
    expected = m(X)
    m[1] = C(m[1])
    m[1][0] = C(m[1][0])
    f = C(m)
    return expected, m(X), f(X), C(f[1])(X), f[1][0](X)


def torch_function_is_replaced(C):
    real = torch.sin
    f = C(lambda x: torch.sin(x) + 1)
    first = f(X)
    try:
        torch.sin = torch.cos
        second = f(X)
    finally:
        torch.sin = real
    return first, second, f(X)
