"""The builtin functions."""

import torch

from tests.programs.program import Programs, call, floats, grid

program = Programs()


@program(call([floats(1), floats(2)], [3, 4]), call((floats(1),), [3, 4]), every_break=True)
def zip_function(xs, ks):
    return [x * k for x, k in zip(xs, ks)], list(zip("ab", "cd", [1, 2]))


@program(call([floats(1), floats(2)], [3]), call([floats(1)], [3]), graphs=None)
def strict_zip(xs, ks):
    return [x * k for x, k in zip(xs, ks, strict=True)]


@program(call([floats(1), floats(2)]), call([floats(1)]), every_break=True)
def enumerate_function(xs):
    return [x * i for i, x in enumerate(xs)], list(enumerate("ab", start=5))


@program(call([floats(1), floats(2)]), every_break=True)
def map_function(xs):
    doubled = map(lambda v: v * 2, xs)
    added = list(map(torch.add, xs, reversed(xs)))
    return list(doubled), added, list(map(str, (1, 2)))


@program(call([floats(1), None, floats(2)]), call([None]))
def filter_function(xs):
    kept = list(filter(lambda v: v is not None, xs))
    return [x + 1 for x in kept], list(filter(None, [0, 1, "", "a"]))


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), [2.5, -1]))
def sorted_function(x, items):
    a = sorted(items)
    b = sorted(items, key=lambda v: -v)
    c = sorted(["bb", "a", "ccc"], key=len, reverse=True)
    d = sorted([(1, "b"), (1, "a"), (0, "z")])
    return x * a[0], a, b, c, d


@program(call([floats(1), floats(2)]), call([floats(3)]), every_break=True)
def sum_function(xs):
    return sum(xs), sum(xs, floats(10)), sum([1, 2, 3]), sum([0.1] * 10), sum([[1], [2]], [])


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), [5]))
def min_and_max(x, items):
    extremes = min(items), max(items), min(3, 1, 2), max("abc"), min([], default=7)
    by_key = max(items, key=lambda v: v % 3), min(["aa", "b"], key=len)
    return x * extremes[0], extremes, by_key


@program(call(floats(1, 2), [1, 0]), call(floats(1, 2), [1, 1]), call(floats(1, 2), []))
def any_and_all(x, flags):
    return x * any(flags), all(flags), any(f > 5 for f in flags), all(f < 5 for f in flags)


@program(call(floats(1, 2), [1, 2]), call(grid(2, 2), "abc"))
def len_function(x, items):
    return x * len(items), len(x), len({"a": 1}), len({1, 2}), len(range(5)), len(())


@program(
    call(floats(1, 2), 1), call(floats(1, 2), 2.5), call(floats(1, 2), "s"), call(floats(1), [1])
)
def isinstance_function(x, v):
    if isinstance(v, bool | int):
        return x * v
    if isinstance(v, (float, complex)):
        return x + v, isinstance(x, torch.Tensor), issubclass(type(v), float)
    return x, type(v), isinstance(v, str), type(v) is list


class Thing:
    kind = "thing"

    def __init__(self, size):
        self.size = size


@program(call(floats(1, 2), Thing(3)), call(floats(1, 2), Thing(4)), every_break=True)
def attribute_functions(x, thing):
    setattr(thing, "colour", "red")
    had = hasattr(thing, "shape"), hasattr(thing, "colour")
    setattr(thing, "size", thing.size + 1)
    delattr(thing, "colour")
    return x * getattr(thing, "size"), had, getattr(thing, "nope", 9), thing.kind, vars(thing)


@program(call(floats(1, 2), [1, 2, 3]), call(floats(1, 2), (4, 5)))
def reversed_function(x, items):
    return x * next(reversed(items)), list(reversed(items)), list(reversed(range(3)))


@program(call(floats(1, 2), [1, 2, 3]), call(floats(1, 2), [1, 2, 3]), every_break=True)
def iter_and_next(x, items):
    it = iter(items)
    a = next(it)
    b = next(it)
    rest = list(it)
    return x * a + b, rest, next(it, "end"), next(iter(x))


@program(call(floats(1, 2)), graphs=None)
def next_of_an_exhausted_iterator(x):
    it = iter([x])
    y = next(it) + 1
    try:
        next(it)
    except StopIteration:
        y = y + 1
    return y


@program(call(floats(1, 2)))
def iter_with_a_sentinel(x):
    state = [0]

    def step():
        state[0] += 1
        return state[0]

    return x * sum(iter(step, 4)), state


@program(call(floats(1, 2), "12", 3.7), call(floats(1, 2), "7", -3.2))
def conversions(x, s, f):
    parts = int(s), int(f), float(s), str(f), bool(s), complex(1, 2), int("ff", 16), list("ab")
    return x * parts[0], parts, tuple([1]), set([1]), dict(a=1), frozenset([2]), repr(s)


@program(call(floats(1, 2)), call(torch.ones(2, dtype=torch.int32)))
def type_function(x):
    return x.to(torch.float64), type(x), type(1) is int, type([]).__name__, type(x) == torch.Tensor


@program(call(floats(1, 2), Thing(3)), graphs=0)
def callable_and_identity(x, thing):
    other = thing
    return x, callable(len), callable(thing), other is thing, x is not thing, None is None


@program(call(floats(1, 2), 255), graphs=0)
def text_of_numbers(x, n):
    return (
        x,
        format(n, "x"),
        f"{n:>6}",
        repr(n),
        ascii("é"),
        str(n).zfill(5),
        "{} {k}".format(n, k=1),
    )


@program(call(floats(1, 2), 7))
def round_and_divmod(x, n):
    q, r = divmod(n, 3)
    return (
        x * q + r,
        round(2.567, 1),
        round(2.5),
        round(x * 1.3),
        divmod(x, 0.4),
        pow(x, 2),
        pow(n, 2, 5),
    )


@program(call(floats(1, 2)), graphs=None)
def printed_in_the_middle(x):
    y = x + 1
    print("sum is", n := len(y))
    z = y * n
    print("done", end="!\n")
    return z


@program(call(floats(1, 2)), graphs=None, every_break=True)
def tensor_printed(x):
    y = x + 1
    print(f"value {y.sum()}")
    return y * 2


@program(call(floats(1, 2)))
def slice_objects(x):
    s = slice(None, 1)
    return x[s], s.start, s.stop, [1, 2, 3][slice(0, 3, 2)], s == slice(None, 1)


@program(call(floats(1, 2), ["a", "b"]))
def hash_of_constants(x, keys):
    return x * (hash(1) + hash(2.0)), {hash(k) for k in keys} == set(map(hash, keys))


@program(call(floats(1, 2)), graphs=None)
def id_is_consistent(x):
    y = x + 1
    return y, id(x) == id(x), id(y) == id(x)


@program(call([grid(2), grid(2, start=3)]), every_break=True)
def builtins_combined(xs):
    total = sum(x * w for w, x in sorted(zip([2, 1], xs, strict=True), key=lambda pair: pair[0]))
    return (
        total,
        max(enumerate([3, 9, 2]), key=lambda p: p[1]),
        list(map(len, filter(None, ["a", ""]))),
    )


@program(call(grid(2, 3)), every_break=True)
def builtins_on_tensors(x):
    a, b = x
    return (
        sum(x),
        max(a.shape),
        abs(-a),
        list(b),
        [t * 2 for t in zip(a, b, strict=True)][0],
        len(x),
    )


@program(call(floats(1, 2)))
def object_as_sentinel(x):
    missing = object()
    value = {}.get("k", missing)
    return x + 1 if value is missing else x


@program(call(floats(1, 2), {"x": 1}), call(floats(1, 2), {"x": 1, "y": 2}), breaks=1)
def class_made_by_type(x, d):
    made = type("Made", (), {})
    return x * len(d), made.__name__
