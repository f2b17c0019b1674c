"""Functions: closures, defaults, code, attributes; functions as arguments."""

import inspect
import types

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


@entries(None)
def test_cell_read_and_not_used(C):
    k = 2

    def ignore(v, k):
        return v + 1

    def f(x):
        return ignore(x, k)

    cell = f.__closure__[f.__code__.co_freevars.index("k")]
    f = C(f)
    yield f(X)
    del cell.cell_contents
    yield outcome(f, X)
    cell.cell_contents = 2


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


@entries(None)
def test_own_code_replaced(C):
    """What is compiled in place loses its hook with its code; a twin follows, and starts anew."""

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
    f = C(lambda x, g: g(x))
    first, second = {"K": 1}, {"K": 2}
    exec("def g(v): return v + K", first)
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

    def double(v):
        return v * 2

    f = C(lambda x, g: g(x))
    yield f(X, double)
    yield f(X, Adder())
    yield f(X, double)


@entries(1, 1, 2, 2)
def test_identity_of_functions(C):
    def one(v):
        return v + 1

    f = C(lambda x, g: x + (1 if g is one else 2))
    yield f(X, one)
    yield f(X, one)
    yield f(X, lambda v: v)
    yield f(X, one)


# What inspect tells of them


@entries(1, 2, 2, 3)
def test_signature_of_a_function_that_changes(C):
    def measured(a, b=1):
        return a

    f = C(lambda x: x * len(inspect.signature(measured).parameters))
    yield f(X)
    measured.__code__ = (lambda a, b, c: a).__code__
    yield f(X)
    yield f(X)
    measured.__signature__ = inspect.Signature()
    yield f(X)


@entries(1, 1, 2, 2)
def test_methods_of_builtin_classes(C):
    f = C(lambda x, put: (put(1), x + 1)[1])
    numbers: list[int] = []
    yield f(X, numbers.append)
    yield f(X, numbers.append), numbers
    yield f(X, numbers.remove), numbers
    yield f(X, [3].append), numbers
