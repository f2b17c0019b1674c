"""Python's standard library: functools, itertools, operator, contextlib and others."""

import bisect
import collections
import contextlib
import copy
import dataclasses
import functools
import heapq
import inspect
import itertools
import math
import operator
import re
import string
import types
from typing import Any, cast

import torch

from tests.programs.program import Programs, call, floats, grid

program = Programs()


def scale(x, by=2, shift=0):
    return x * by + shift


tripled = functools.partial(scale, by=3)


@program(call(floats(1, 2)), call(floats(3, 4)), every_break=True)
def partials(x):
    local = functools.partial(scale, x, shift=1)
    again = functools.partial(local, by=5)
    return tripled(x), tripled(x, shift=2), local(), again(), tripled.func is scale, local.keywords


@program(call(floats(1, 2), functools.partial(scale, shift=4)))
def partial_as_argument(x, function):
    return function(x), function.args, function.keywords


@program(call([floats(1), floats(2), floats(3)]), every_break=True)
def reduce_function(xs):
    total = functools.reduce(lambda a, b: a + b, xs)
    product = functools.reduce(operator.mul, xs, 10)
    return total, product, functools.reduce(operator.add, [1, 2, 3])


class Model:
    def __init__(self):
        self.computed = 0

    @functools.cached_property
    def weight(self):
        self.computed += 1
        return floats(1, 2) * 3


@program(call(floats(1, 2), Model()), call(floats(1, 2), Model()), graphs=None)
def cached_properties(x, model):
    return x * model.weight + model.weight, model.computed


calls = []


@functools.lru_cache(maxsize=None)
def slow(n):
    calls.append(n)
    return n * 10


@program(call(floats(1, 2), 3), call(floats(1, 2), 3), watch="calls", graphs=None)
def lru_caches(x, n):
    return x * slow(n) + slow(n)


@functools.singledispatch
def show(value):
    return "other"


@show.register
def _(value: int):
    return "int"


@program(call(floats(1, 2), 3), call(floats(1, 2), "s"), graphs=None)
def single_dispatch(x, value):
    return x + 1, show(value)


@program(call(floats(1, 2)))
def compare_keys(x):
    key = functools.cmp_to_key(lambda a, b: b - a)
    return x + 1, sorted([3, 1, 2], key=key)


@program(call([floats(1), floats(2)], [3, 4, 5]), every_break=True)
def chains_and_slices(xs, ks):
    merged = list(itertools.chain(xs, ks))
    flat = list(itertools.chain.from_iterable([[1, 2], [3]]))
    head = list(itertools.islice(ks, 2))
    middle = list(itertools.islice(ks, 1, None, 2))
    return merged[0] + merged[1], merged, flat, head, middle


@program(call(floats(1, 2)), every_break=True)
def counts_and_cycles(x):
    numbers = itertools.count(5, 2)
    a, b = next(numbers), next(numbers)
    letters = itertools.cycle("ab")
    three = [next(letters) for _ in range(3)]
    return x * a + b, three, list(itertools.repeat(x, 2)), list(zip(itertools.count(), "xy"))


@program(call(floats(1, 2), [1, 2, 3]))
def combinatorics(x, items):
    pairs = list(itertools.combinations(items, 2))
    orders = list(itertools.permutations(items, 2))
    grid_ = list(itertools.product(items, "ab"))
    repeated = list(itertools.product([0, 1], repeat=2))
    multi = list(itertools.combinations_with_replacement("ab", 2))
    return x * len(pairs), pairs, orders, grid_, repeated, multi


@program(call([floats(1), floats(2), floats(3)]), every_break=True)
def running_iterators(xs):
    sums = list(itertools.accumulate(xs))
    products = list(itertools.accumulate([1, 2, 3], operator.mul, initial=10))
    pairs = list(itertools.pairwise([1, 2, 3]))
    stars = list(itertools.starmap(pow, [(2, 3), (3, 2)]))
    return sums, products, pairs, stars


@program(call(floats(1, 2), [1, 5, 2, 6]))
def selecting_iterators(x, items):
    taken = list(itertools.takewhile(lambda v: v < 3, items))
    dropped = list(itertools.dropwhile(lambda v: v < 3, items))
    others = list(itertools.filterfalse(lambda v: v > 3, items))
    chosen = list(itertools.compress("abcd", [1, 0, 1, 0]))
    return x * sum(taken), dropped, others, chosen


@program(call(floats(1, 2), ["aa", "ab", "bb", "bc"]))
def grouping_iterators(x, words):
    groups = [(k, list(g)) for k, g in itertools.groupby(words, key=lambda w: w[0])]
    longest = list(itertools.zip_longest([1, 2, 3], "a", fillvalue="-"))
    first, second = itertools.tee(words)
    return x + len(groups), groups, longest, list(first), list(second)


@program(call(floats(1, 2), [{"k": 3, "z": 1}, {"k": 1, "z": 2}]), every_break=True)
def operator_functions(x, rows):
    get = operator.itemgetter("k")
    both = operator.itemgetter("k", "z")
    shape = operator.attrgetter("shape")
    summed = operator.methodcaller("sum", dim=0)
    ordered = sorted(rows, key=get)
    return operator.add(x, 1), both(rows[0]), shape(x), summed(x), ordered, operator.neg(x)


@program(call(floats(1, 2), [1, 2]), graphs=0)
def operator_functions_that_change(x, items):
    operator.setitem(items, 0, x)
    items = operator.iadd(items, [3])
    operator.delitem(items, 1)
    return items, operator.contains(items[1:], 3), operator.is_(x, items[0]), operator.truth(items)


@contextlib.contextmanager
def noting(log, name):
    log.append(f"enter {name}")
    try:
        yield name * 2
    finally:
        log.append(f"leave {name}")


@program(call(floats(1, 2), []), call(floats(1, 2), []), every_break=True)
def context_manager_from_a_generator(x, log):
    with noting(log, "a") as name:
        y = x + len(name)
        log.append("inside")
    return y * 2, log


@program(call(floats(1, 2), []), graphs=None)
def context_managers_nested(x, log):
    with noting(log, "a"), noting(log, "b") as b, contextlib.nullcontext(5) as five:
        y = x * five + len(b)
    with contextlib.suppress(ValueError, KeyError):
        y = y + 1
        raise KeyError("k")
    return y, log


@program(call(floats(1, 2), []), graphs=None)
def exit_stacks(x, log):
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(noting(log, n)) for n in "ab"]
        stack.callback(log.append, "called back")
        y = x + len(names)
    return y, log


@program(call(floats(1, 2)), graphs=None)
def output_redirected(x):
    y = x + 1
    with contextlib.closing(types.SimpleNamespace(close=lambda: None)) as thing:
        y = y * 2
    return y, hasattr(thing, "close")


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), [5, 9]), graphs=None)
def heaps(x, items):
    heap = list(items)
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    smallest = heapq.heappop(heap)
    return x + smallest, heap, heapq.nsmallest(2, items), heapq.nlargest(1, items)


@program(call(floats(1, 2), [1, 3, 5]), call(floats(1, 2), [4]), graphs=None)
def bisection(x, items):
    at = bisect.bisect(items, 3)
    bisect.insort(items, 4)
    return x * at, bisect.bisect_left(items, 3), items


@program(call(floats(1, 2), {"a": [1, 2], "b": (3, [4])}), graphs=None)
def copies_of_containers(x, d):
    shallow, deep = copy.copy(d), copy.deepcopy(d)
    shallow["a"].append(9)
    return x + len(deep["a"]), shallow, deep, copy.copy([1, 2])


@dataclasses.dataclass
class Options:
    size: int = 2
    name: str = "n"


@program(call(floats(1, 2), Options(3)), call(floats(1, 2), Options(4)), graphs=None)
def dataclass_functions(x, options):
    changed = dataclasses.replace(options, name="other")
    names = [f.name for f in dataclasses.fields(options)]
    return (
        x * changed.size,
        changed,
        dataclasses.asdict(options),
        names,
        dataclasses.is_dataclass(options),
    )


@program(call(floats(1, 2), "a1b22"), graphs=None)
def regular_expressions(x, text):
    found = re.findall(r"\d+", text)
    return x * int(found[0]), re.sub(r"\d", "-", text), bool(re.match("a", text))


@program(call(floats(1, 2), 2.5))
def math_and_string_modules(x, v):
    k = math.exp(v) + math.trunc(v) + math.hypot(3, 4) + math.fsum([0.1] * 10)
    return (
        x * k,
        math.comb(5, 2),
        math.pi,
        string.ascii_lowercase[:3],
        math.isnan(v),
        math.prod([2, 3]),
    )


@program(call(floats(1, 2)))
def typing_at_run_time(x):
    y = cast("torch.Tensor", x)
    numbers: list[Any] = [1]
    total: int = 2
    return y * total, numbers


@program(call(floats(1, 2), types.MappingProxyType({"a": 1})))
def mapping_proxies(x, proxy):
    return x * proxy["a"], len(proxy), "a" in proxy, list(proxy.items()), proxy.get("b", 2)


class Visitor(collections.UserDict):
    def __missing__(self, key):
        return key * 2


@program(call(floats(1, 2), Visitor(a=1)), call(floats(1, 2), Visitor(a=2)))
def user_dicts(x, d):
    d["k"] = x
    return x * d["a"], d["zz"], len(d), "k" in d


@program(call(floats(1, 2), {1: "a"}))
def zip_dict_idioms(x, d):
    inverted = dict(zip(d.values(), d.keys(), strict=True))
    keyed = dict(enumerate("ab"))
    flat = sum([[1], [2, 3]], [])
    matrix = list(zip(*[(1, 2), (3, 4)], strict=True))
    return x * inverted["a"], keyed, flat, matrix, dict.fromkeys("ab", 0), max(d, key=d.get)


@program(call(grid(2, 2)))
def functions_of_torch_by_name(x):
    return [getattr(torch, name)(x) for name in ("sin", "cos")], getattr(x, "sum")(0)


class Chunked:
    def forward(self, a, b, *rest, c: int = 3, **named):
        return a


def following(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@program(
    call(floats(1, 2), Chunked().forward),
    call(floats(1, 2), Chunked.forward),
    call(floats(1, 2), lambda a, b=1: a),
    call(floats(1, 2), following(scale)),
    call(floats(1, 2), scale),
    call(floats(1, 2), 3),
)
def signatures(x, function):
    parameters = inspect.signature(function).parameters
    kinds = [(name, p.kind.name, p.default is p.empty) for name, p in parameters.items()]
    return x * len(parameters), kinds


@program(call(floats(1, 2), scale), call(floats(1, 2), Chunked), call(floats(1, 2), len))
def questions_of_inspect(x, obj):
    return (
        x + 1,
        [inspect.isfunction(obj), inspect.isclass(obj), inspect.ismethod(obj)],
        [inspect.isbuiltin(obj), inspect.iscoroutinefunction(obj), inspect.ismodule(torch)],
        inspect.unwrap(following(scale)) is scale,
    )


is_vowel = frozenset("aeiou").__contains__


@program(
    call(floats(1, 2), [1].append, {}.get),
    call(floats(1, 2), [].append, {2: 3}.get),
    call(floats(1, 2), {3}.add, {}.setdefault),
    every_break=True,
)
def builtin_methods_that_exist(x, add, get):
    add(2)
    found = get(2, 7)
    add(x * found)
    return x + found, is_vowel("a"), add.__self__, ", ".join(["a", "b"])
