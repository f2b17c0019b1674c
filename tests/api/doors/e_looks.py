"""What compiled callables look like: names, copies, pickles, errors."""

import collections
import copy
import functools
import inspect
import operator
import pickle
import typing
import weakref

import torch
from torch import nn

from tests.api.doors.support import X, outcome


def what_it_is_called(C):
    def f(x: int, /, y: "str" = "a", *args, z=3, **kwargs) -> None:
        """Documented."""

    g = C(f)
    names = "__name__ __qualname__ __doc__ __module__ __defaults__ __kwdefaults__ __annotations__"
    return (
        [getattr(g, name) == getattr(f, name) for name in names.split()],
        str(inspect.signature(g)),
        typing.get_type_hints(g) == typing.get_type_hints(f),
        inspect.getsource(g) == inspect.getsource(f),
        callable(g),
        inspect.isfunction(g),
    )


def attributes_of_a_function(C):
    def f(x):
        f.calls += 1
        return x * f.k

    f.k, f.calls = 2, 0
    g = C(f)
    first = g(X)
    f.k = 3
    return first, g(X), f.calls, g.k in (2, 3)


def copies_of_modules(C):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    f = C(m)
    first = f(X)
    other, loaded = copy.deepcopy(f), pickle.loads(pickle.dumps(f))
    with torch.no_grad():
        m[0].weight.zero_()
    return first, other(X), loaded(X), f(X), list(other.state_dict())


def a_module_in_a_module_list(C):
    torch.manual_seed(0)

    class N(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(C(nn.Linear(2, 2)) for _ in range(2))
            self.heads = nn.ModuleDict({"a": C(nn.Tanh())})

        @C
        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.heads["a"](x)

    n = N()
    names = [name for name, _ in n.named_parameters()]
    return n(X), C(n)(X), names, copy.deepcopy(n)(X), [type(m).__name__ for m in n.modules()]


def trained(C):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    f = C(m)

    @C
    def step(x):
        opt.zero_grad()
        loss = f(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    x = torch.arange(8.0).view(4, 2)
    losses = [step(x) for _ in range(3)]
    m.eval()
    return losses, f(x), [p.grad for p in m.parameters()], m[1].num_batches_tracked


def module_called_in_other_ways(C):
    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)
    f = C(m)
    m.register_forward_hook(lambda module, args, result: result * 2)
    return f(X), f.forward(X), m(X), C(m.forward)(X), f.__call__(X), type(f).__call__(f, X)


def functional_call(C):
    m = nn.Linear(2, 2, bias=False)
    f = C(m)
    weights = {"weight": torch.eye(2) * 2}
    return torch.func.functional_call(f, weights, (X,)), torch.func.functional_call(m, weights, X)


def parametrized(C):
    class Twice(nn.Module):
        def forward(self, w):
            return w * 2

    m = nn.Linear(2, 2, bias=False)
    nn.init.ones_(m.weight)
    f = C(m)
    first = f(X)
    nn.utils.parametrize.register_parametrization(m, "weight", Twice())
    return first, f(X), m(X)


def lazy_module(C):
    m = nn.LazyLinear(2, bias=False)
    f = C(m)
    shape = tuple(f(X).shape)
    return shape, type(m).__name__, isinstance(f, nn.Linear), tuple(m.weight.shape)


def remembered(C):
    calls = []

    @C
    @functools.cache
    def f(k):
        calls.append(k)
        return X * k

    @functools.cache
    @C
    def g(k):
        calls.append(-k)
        return X * k

    h = C(lambda k: f(k) + g(k))
    return h(2), h(2), h(3), f.cache_info().hits, g.cache_info().misses, calls


def exceptions(C):
    @C
    def f(x, kind):
        y = x + 1
        if kind == "raise":
            raise KeyError("k")
        if kind == "shape":
            return y @ torch.ones(5)
        if kind == "none":
            return None.missing
        return y

    @C
    def g(x, kind):
        try:
            return f(x, kind)
        except (KeyError, AttributeError) as error:
            return x * 100, type(error).__name__

    kinds = ("ok", "raise", "shape", "none", "ok")
    return [outcome(f, X, k) for k in kinds], [outcome(g, X, k) for k in kinds]


def wrong_arguments(C):
    f = C(lambda x, k=1, *, n: x * k + n)
    g = C(lambda x: f(x, 1, 2, 3))
    return (
        outcome(f, X),
        outcome(f),
        outcome(f, X, 1, 2),
        outcome(f, X, n=1, m=2),
        outcome(f, X, n=1),
        outcome(g, X),
    )


def recursion(C):
    @C
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)

    @C
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    @C
    def odd(x, n):
        return x * 100 if n == 0 else even(x + 10, n - 1)

    return f(X, 3), even(X, 4), even(X, 3)


def y_combinator(C):
    fix = C(lambda f: (lambda x: x(x))(lambda x: f(lambda *a: x(x)(*a))))
    fact = fix(C(lambda self: lambda x, n: x if n == 0 else self(x * n, n - 1)))
    return fact(X, 3)


def type_of_a_callable(C):
    return [
        type(C(f)).__name__ if kind == "function" else callable(C(f))
        for kind, f in [
            ("function", lambda x: x),
            ("other", functools.partial(len)),
            ("other", torch.sin),
        ]
    ]


def equal_and_hashable(C):
    class A:
        def f(self, x):
            return x

    a = A()
    f, g = C(a.f), C(torch.sin)
    return len({f, g}), f == f, g != f, f.__self__ is a


def collections_of_callables(C):
    calls = collections.defaultdict(C(lambda: X * 2))
    counts = collections.Counter(map(C(len), ["a", "bb", "cc"]))
    return calls["a"], calls["a"] is calls["a"], dict(counts)


def keyword_only_and_positional_only(C):
    f = C(lambda a, /, b, *, c=3: a * b + c)
    g = C(lambda **kw: f(kw["a"], b=kw["b"]))
    return f(X, 2), f(X, b=2, c=1), g(a=X, b=4), outcome(f, a=X, b=1)


def stars(C):
    f = C(lambda *args, **kwargs: sum(args) + sum(kwargs.values()))
    g = C(lambda xs, kw: f(*xs, **kw))
    return f(X, X), f(X, a=X), g([X, X, X], {"b": X}), g((X,), {})


def globals_of_another_module(C):
    space = {"torch": torch, "K": 2}
    exec("def f(x):\n    return torch.sin(x) * K\n", space)
    f = C(space["f"])
    first = f(X)
    space["K"] = 3
    return first, f(X), f.__globals__ is space


def code_made_by_eval(C):
    f = C(eval("lambda x, k=2: x * k", {}))
    return f(X), f(X, 3)


def builtins_with_callbacks(C):
    f = C(lambda xs: max(xs, key=C(lambda x: -x)))
    return f([1, 3, 2]), C(max)([1, 2]), C(sorted)([2, 1], key=C(operator.neg)), C(divmod)(7, 2)


def classes_as_callables(C):
    class A:
        def __init__(self, x):
            self.x = x + 1

    made = C(lambda x: A(x))(X)
    size = C(functools.partial(torch.Size))
    return made.x, type(made).__name__, list(size([1, 2])), C(functools.partial(A))(X).x


def metaclass_call(C):
    class Meta(type):
        @C
        def __call__(cls, x):
            made = super().__call__()
            made.x = x * 2
            return made

    class A(metaclass=Meta):
        pass

    return A(X).x, A(X + 1).x


def instance_attribute_named_call(C):
    class A:
        def __call__(self, x):
            return x + 1

    a = A()
    a.__call__ = lambda x: x - 1
    return C(a)(X), C(lambda f, x: f(x))(a, X), C(a.__call__)(X)


def weak_references_to_methods(C):
    class A:
        def f(self, x):
            return x + 1

    a = A()
    f = C(a.f)
    method = weakref.WeakMethod(a.f)
    return f(X), C(lambda x: method()(x))(X), f.__func__.__name__


def compiled_more_than_once(C):
    def f(x, k=1):
        return x + k

    versions = [C(f), C(f), C(C(f))]
    first = [g(X) for g in versions]
    f.__defaults__ = (5,)
    return first, [g(X) for g in versions]


def default_that_changes_in_place(C):
    def f(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x + len(seen)

    g = C(f)
    return g(X), g(X), g(X), f.__defaults__


def nonlocal_of_two_functions(C):
    k = 0

    @C
    def up(x):
        nonlocal k
        k += 1
        return x * k

    @C
    def down(x):
        nonlocal k
        k -= 1
        return up(x) + k

    return up(X), up(X), down(X), k
