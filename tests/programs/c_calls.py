"""Calls of functions: every form of argument, closures, recursion, decorators, methods."""

import functools

import torch

from tests.programs.program import Programs, call, floats

program = Programs()

counter = 0
log = []


def scale(x, by=2, *, shift=0):
    return x * by + shift


def positional_only(a, b=1, /, c=2):
    return a + b * c


def collects(*args, **kwargs):
    return args, kwargs


@program(call(floats(1, 2)), call(floats(3, 4)), every_break=True)
def argument_forms(x):
    a = scale(x)
    b = scale(x, 3)
    c = scale(x, by=4, shift=1)
    d = scale(*[x, 5], **{"shift": 2})
    e = positional_only(x, 2, c=3)
    return a, b, c, d, e


@program(call(floats(1, 2)))
def collected_arguments(x):
    args, kwargs = collects(x, 1, *[2, 3], key=x * 2, **{"other": 4})
    return args, kwargs, args[0] + kwargs["key"]


@program(call(floats(1, 2), 2, 3), call(floats(1, 2), k=5), call(floats(1, 2), 1, 2, 3, k=0, z=1))
def program_with_all_kinds_of_parameters(x, *rest, k=1, **named):
    return x * k + sum(rest), rest, named, sorted(named)


@program(call(floats(1, 2)), call(floats(1, 2), 5), call(floats(1, 2), b=6))
def program_with_defaults(x, a=3, b=None):
    return x * a + (b or 0)


@program(call(floats(1, 2)), call(floats(1, 2)), call(floats(1, 2)))
def mutable_default(x, seen=[]):
    seen.append(len(seen))
    return x + len(seen), seen


def level_1(x):
    return level_2(x) + 1


def level_2(x):
    return level_3(x) * 2


def level_3(x):
    return x - 3


@program(call(floats(1, 2)))
def deep_inlining(x):
    return level_1(level_1(x))


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@program(call(floats(1, 2), 4), call(floats(1, 2), 1))
def recursion_on_numbers(x, n):
    return x * factorial(n)


@program(call(floats(1, 2), 3), call(floats(1, 2), 0), graphs=None)
def recursion_of_the_program(x, n):
    if n == 0:
        return x
    return recursion_of_the_program(x * 2, n - 1) + n


def tree_sum(tree):
    if isinstance(tree, torch.Tensor):
        return tree
    return sum(tree_sum(branch) for branch in tree)


@program(call([floats(1, 2), (floats(3, 4), [floats(5, 6)])]), call((floats(1),)))
def recursion_over_a_tree(tree):
    return tree_sum(tree) * 2


@program(call(floats(1, 2), 3), call(floats(1, 2), 4), every_break=True)
def inner_function(x, n):
    def inner(y):
        return y * n + k

    k = 5
    first = inner(x)
    k = 6
    return first, inner(x)


@program(call(floats(1, 2)))
def nonlocal_is_written(x):
    count = 0

    def step(y):
        nonlocal count
        count += 1
        return y + count

    return step(step(x)), count


@program(call(floats(1, 2)), call(floats(1, 2)), watch="counter", every_break=True)
def global_is_written(x):
    global counter
    counter += 1
    return x * counter


@program(call(floats(1, 2)), call(floats(1, 2)), watch="log", every_break=True)
def global_list_is_appended_to(x):
    y = x + 1
    log.append(y)
    return y * len(log)


def make_counter():
    count = 0

    def tick(x):
        nonlocal count
        count += 1
        return x * count

    return tick


program(call(floats(1, 2)), call(floats(1, 2)), call(floats(1, 2)), name="closure_with_state")(
    make_counter()
)


def make_scaler(weight, options):
    def apply(x):
        return x * weight + options["bias"]

    return apply


program(call(floats(1, 2)), call(floats(3, 4)), name="closure_over_tensor")(
    make_scaler(floats(2, 3), {"bias": 1})
)


@program(call(floats(1, 2)))
def closure_returned(x):
    y = x + 1

    def later(z, k=2):
        return y * z + k

    return later, later(x)


@program(call(floats(1, 2), 2), call(floats(1, 2), 3))
def lambdas(x, n):
    double = lambda v: v * n
    functions = [lambda v, k=k: v + k for k in range(3)]
    return double(x), [f(x) for f in functions], (lambda *a: len(a))(1, 2)


@program(call(floats(1, 2)))
def late_binding_in_loop(x):
    functions = []
    for i in range(3):
        functions.append(lambda v: v + i)
    return [f(x) for f in functions]


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        log.append(function.__name__)
        return function(*args, **kwargs) + 1

    return wrapper


@logged
def decorated(x, k=1):
    """Doc."""
    return x * k


@program(call(floats(1, 2)), call(floats(1, 2)), watch="log", every_break=True)
def decorated_function(x):
    return decorated(x, k=3), decorated.__name__, decorated.__doc__


def repeat(times):
    def decorator(function):
        def wrapper(x):
            for _ in range(times):
                x = function(x)
            return x

        return wrapper

    return decorator


@program(call(floats(1, 2)))
def decorator_with_arguments_inside(x):
    @repeat(3)
    def double(v):
        return v * 2

    return double(x)


def apply_all(functions, x):
    for function in functions:
        x = function(x)
    return x


@program(call(floats(1, 2)))
def functions_as_values(x):
    table = {"sin": torch.sin, "double": lambda v: v * 2, "method": torch.Tensor.cos}
    y = apply_all(table.values(), x)
    return y, apply_all([scale, torch.neg, abs], x)


@program(call(floats(1, 2), scale), call(floats(1, 2), positional_only), call(floats(1, 2), scale))
def function_as_argument(x, function):
    return function(x, 3)


class Accumulator:
    total = 0

    def __init__(self, step):
        self.step = step

    def add(self, x):
        self.total = self.total + self.step
        return x + self.total

    def chain(self, x):
        self.add(x)
        return self

    @classmethod
    def of(cls, step):
        return cls(step)

    @staticmethod
    def plain(x):
        return x * 10


@program(call(floats(1, 2), Accumulator(2)), call(floats(1, 2), Accumulator(3)))
def methods(x, acc):
    bound = acc.add
    y = bound(x) + Accumulator.add(acc, x)
    return y, acc.plain(x), Accumulator.plain(x), acc.chain(x).total, type(acc).of(1).step


program(call(floats(1, 2)), call(floats(1, 2)), name="bound_method")(Accumulator(4).add)


class Callable:
    def __init__(self, k):
        self.k = k

    def __call__(self, x, times=1):
        return x * self.k * times


@program(call(floats(1, 2), Callable(3)), call(floats(1, 2), Callable(4)))
def callable_object(x, f):
    return f(x) + f(x, times=2), callable(f), callable(x), callable(3)


@program(call(floats(1, 2)), graphs=None)
def too_many_arguments(x):
    y = x + 1
    try:
        return scale(y, 1, 2)
    except TypeError as error:
        return y, str(error)


@program(call(floats(1, 2)), graphs=None)
def unexpected_keyword(x):
    y = x + 1
    return scale(y, unknown=1)


@program(call(floats(1, 2)), graphs=None)
def missing_argument(x):
    y = x * 2
    return scale(shift=y)


@program(call(floats(1, 2), 30))
def deep_recursion(x, n):
    def down(k):
        return x if k == 0 else down(k - 1) + 1

    return down(n)


@program(call(floats(1, 2)))
def mutual_recursion(x):
    def even(n, y):
        return y if n == 0 else odd(n - 1, y + 1)

    def odd(n, y):
        return -y if n == 0 else even(n - 1, y * 2)

    return even(4, x), odd(4, x)


@program(call(floats(1, 2)), call(floats(1, 2)))
def function_attributes(x):
    scale.calls = getattr(scale, "calls", 0) + 1
    return scale(x) + scale.calls, scale.__name__, scale.__module__


@program(call(floats(1, 2)))
def returns_several_closures_over_one_cell(x):
    value = x

    def get():
        return value

    def put(new):
        nonlocal value
        value = new

    put(get() + 1)
    return get, put, value


@program(call(floats(1, 2), {"by": 3}), call(floats(1, 2), {"shift": 1, "by": 2}))
def keyword_arguments_passed_on(x, options):
    def outer(*args, **kwargs):
        return scale(*args, **kwargs)

    return outer(x, **options), outer(x, **dict(options, by=7))
