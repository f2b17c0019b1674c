"""Lists, dicts, sets, tuples, deques and their relatives: made, read, changed, compared."""

import collections
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import NamedTuple

import torch

from tests.programs.program import Programs, call, floats, grid

program = Programs()

Pair = namedtuple("Pair", ["left", "right"])


class Span(NamedTuple):
    start: int
    stop: int = 10

    def length(self):
        return self.stop - self.start


@program(call(floats(1, 2), [3, 1]), call(floats(1, 2), [3, 1]), every_break=True)
def list_methods(x, items):
    items.append(4)
    items.extend([x, 5])
    items.insert(1, 7)
    last = items.pop()
    first = items.pop(0)
    items.remove(7)
    items.reverse()
    copy = items.copy()
    copy.clear()
    return x * last + first, items, copy, items.count(1)


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), [1, 5, 9]), every_break=True)
def list_items_and_slices_are_set(x, items):
    items[0] = x
    items[1:] = [x + 1, 8, 9]
    items[-1] += 1
    del items[1]
    items += [1]
    items *= 2
    return items, len(items), 8 in items


@program(call(floats(1, 2)))
def list_built_and_mutated(x):
    out = []
    for i in range(3):
        out.append(x + i)
    out[1] = out[0] * out[2]
    out.append(out)
    return out[:-1], out[3] is out


@program(call(floats(1, 2), [4, 2, 9]), call(floats(1, 2), []), graphs=0)
def list_comparison_and_arithmetic(x, items):
    return x, items + [1], items * 2, items == [4, 2, 9], items < [5], [1, 2] != items, items >= []


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), ["b", "a"]))
def list_sort_and_index(x, items):
    where = items.index(items[1])
    items.sort()
    others = sorted(items, reverse=True)
    items.sort(key=lambda v: str(v), reverse=True)
    return x + where, items, others


@program(call(floats(1, 2), {"a": 1}), call(floats(1, 2), {"b": 1, "a": 2}), every_break=True)
def dict_methods(x, d):
    d["new"] = x
    d.update({"a": 5}, z=6)
    d.setdefault("list", []).append(x)
    got = d.get("a", 0) + d.get("missing", 7)
    gone = d.pop("z")
    also_gone = d.pop("missing", None)
    del d["a"]
    return x * got, gone, also_gone, list(d), "new" in d, len(d)


@program(call(floats(1, 2), {"a": 1, "b": 2}), call(floats(1, 2), {"b": 2, "a": 1}))
def dict_iteration(x, d):
    total = 0
    for key in d:
        total += d[key] * len(key)
    for key, value in d.items():
        x = x * value + (key == "a")
    return x, total, list(d.keys()), tuple(d.values()), [*d.items()]


@program(call(floats(1, 2), {"a": 1}), call(floats(1, 2), {"a": 2, "c": 4}), graphs=0)
def dict_merging(x, d):
    merged = d | {"b": x}
    d |= {"z": 3}
    return {**d, "k": x}, merged, dict(d, w=1), dict([("p", 1), ("q", 2)]), d == merged


@program(call(floats(1, 2)))
def dict_of_tensors(x):
    d = {"x": x, 1: x + 1, (2, 3): x + 2, None: 0}
    d[1] = d[1] * d[(2, 3)]
    d["nested"] = {"again": d["x"]}
    return d, d["nested"]["again"] is x


@program(call(floats(1, 2), {}), call(floats(1, 2), {"a": 1}), graphs=None)
def missing_key(x, d):
    y = x + 1
    try:
        return y * d["a"]
    except KeyError as error:
        return y, error.args


@program(call(floats(1, 2), {"a": 1, "b": 2, "c": 3}))
def dict_views(x, d):
    keys, values, items = d.keys(), d.values(), d.items()
    d["d"] = 4
    return x + len(keys), sum(values), ("a", 1) in items, "d" in keys, list(reversed(d))


@program(call(floats(1, 2), {3, 1}), call(floats(1, 2), {1}), every_break=True)
def set_methods(x, s):
    s.add(7)
    s.discard(1)
    s.update([8, 9], (10,))
    s.remove(7)
    return x + len(s), 8 in s, s == {3, 8, 9, 10}, sorted(s)


@program(call(floats(1, 2), {1, 2, 3}, {2, 5}), call(floats(1, 2), frozenset({1}), {1}))
def set_algebra(x, a, b):
    parts = a | b, a & b, a - b, a ^ b, a.union([9]), a <= b, a < b, a.isdisjoint(b)
    return x + len(parts[0]), *map(sorted, parts[:5]), parts[5:]


@program(call(floats(1, 2)))
def set_built(x):
    s = {1, 2, 2, 3}
    t = {n % 3 for n in range(7)}
    s |= {4}
    s -= {1}
    f = frozenset(s)
    return x * len(s & t), s, t, f, 4 in f


@program(call(floats(1, 2), (1, 2)), call(floats(1, 2), (floats(5), 2, 3)), graphs=0)
def tuple_operations(x, t):
    u = t + (4,)
    return u * 2, t[0], t[-1], len(u), u.count(4), u.index(4), t == t, (1, 2) < (1, 3), hash((1, 2))


@program(call(floats(1, 2), Pair(3, 4)), call(floats(1, 2), Pair(5, "z")), every_break=True)
def named_tuples(x, p):
    q = Pair(x, right=p.left)
    r = q._replace(left=7)
    left, right = q
    return q.left * q.right, q, r, p._asdict(), isinstance(q, tuple), left is x, Pair._fields, p[1]


@program(call(floats(1, 2), Span(2)), call(floats(1, 2), Span(2, 3)))
def typed_named_tuples(x, span):
    other = Span(start=1)
    return x * span.length() + other.stop, other, Span._make([4, 5]), span == (2, 10)


@program(call(floats(1, 2), deque([1, 2])), call(floats(1, 2), deque([1, 2, 3])), every_break=True)
def deques(x, d):
    d.append(x + 1)
    d.appendleft(0)
    d.extend([4, 5])
    d.rotate(1)
    last, first = d.pop(), d.popleft()
    new = deque([1, 2, 3], maxlen=2)
    new.append(first)
    return x, last, first, new, len(d), d[0], list(new), new.maxlen


@program(call(floats(1, 2), deque([1, 2], maxlen=2)), call(floats(1, 2), deque([1, 2], maxlen=2)))
def bounded_deque_as_window(x, window):
    window.append(3)
    return x * sum(window)


@program(
    call(floats(1, 2), OrderedDict(a=1, b=2)), call(floats(1, 2), OrderedDict(b=1, a=2)), graphs=0
)
def ordered_dicts(x, d):
    d.move_to_end("a")
    d["c"] = x
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    new = OrderedDict([("p", 1), ("q", 2)])
    return x, first, list(d), new, new == OrderedDict(q=2, p=1), new == {"q": 2, "p": 1}


class Registry(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)


@program(call(floats(1, 2), Registry(a=1)), call(floats(1, 2), Registry(a=1)), every_break=True)
def subclass_of_ordered_dict(x, registry):
    registry["KEY"] = x
    made = Registry()
    made["B"] = 2
    return x + len(registry), list(registry), made, "key" in registry


@program(call(floats(1, 2), defaultdict(list)), call(floats(1, 2), defaultdict(list, a=[1])))
def default_dicts(x, d):
    d["a"].append(x)
    d["b"].append(2)
    counts = defaultdict(int)
    for letter in "hello":
        counts[letter] += 1
    nested = defaultdict(lambda: defaultdict(int))
    nested["p"]["q"] += 3
    return x * counts["l"], d, dict(counts), nested["p"]["q"], d.get("zz"), len(d)


@program(call(floats(1, 2), Counter("hello")), call(floats(1, 2), Counter(a=3)), graphs=None)
def counters(x, c):
    c.update("lo")
    made = Counter([1, 1, 2])
    made[2] += 5
    return x * c["l"], c.most_common(1), made + Counter({1: 1}), made[99], sum(made.values())


@program(call(floats(1, 2)), graphs=None)
def chain_maps(x):
    base, top = {"a": 1, "b": 2}, {"b": 3}
    chained = ChainMap(top, base)
    chained["c"] = x
    return chained["a"] * x, chained["b"], sorted(chained), top, len(chained)


class Stack(list):
    def push(self, item):
        self.append(item)
        return self

    @property
    def top(self):
        return self[-1]


@program(call(floats(1, 2), Stack([1])), call(floats(1, 2), Stack([1])), every_break=True)
def subclass_of_list(x, stack):
    stack.push(x).push(x + 1)
    made = Stack([5])
    made.name = "made"
    return stack.top, made.push(6), len(stack), isinstance(made, list)


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


@program(call(floats(1, 2), Config(lr=0.5)), call(floats(1, 2), Config(lr=0.25)), every_break=True)
def dict_with_attribute_access(x, config):
    config.steps = 3
    made = Config(a=1)
    return x * config.lr * config["steps"], hasattr(config, "nope"), made.a, made


@program(call(grid(2, 2), [[1, [2, {"k": grid(2)}]], (3,)]), every_break=True)
def nested_containers(x, nested):
    inner = nested[0][1][1]
    inner["k"] = inner["k"] + x[0]
    nested[0].append(inner["k"])
    return nested, nested[0][2] is inner["k"]


@program(call(floats(1, 2)), every_break=True)
def list_comprehensions(x):
    a = [x + i for i in range(3)]
    b = [(i, j) for i in range(3) for j in range(i) if (i + j) % 2]
    c = [[k * i for k in range(2)] for i in range(2)]
    return torch.stack(a).sum(), b, c, [t.sum() for t in a if t is not x]


@program(call(floats(1, 2), {"a": 1, "b": 2}))
def other_comprehensions(x, d):
    inverted = {v: k for k, v in d.items()}
    squares = {k: x * v for k, v in d.items() if v > 1}
    letters = {k.upper() for k in d}
    total = sum(x * v for v in d.values())
    return inverted, squares, letters, total, tuple(i * i for i in range(3))


@program(call(floats(1, 2), 5), call(floats(1, 2), 0))
def ranges(x, n):
    r = range(1, 2 * n, 2)
    return x * len(r), list(r), 3 in r, r[1:] if n else r, r == range(1, 2 * n, 2), r.step, sum(r)


shared = [1]


@program(call(shared, shared), call([1], [1]), call(shared, [2]))
def aliased_arguments(a, b):
    a.append(2)
    return torch.tensor(b) + len(b), a is b


@program(call(x := floats(1, 2), [x]), call(floats(1, 2), [floats(1, 2)]))
def tensor_found_in_a_list(x, items):
    same = items[0] is x
    items[0].add_(1)
    return x * 2, same


@program(call(floats(1, 2), [5, 6, 7], 1), call(floats(1, 2), [5, 6, 7], -1), graphs=None)
def index_out_of_range(x, items, k):
    y = x + 1
    try:
        return y * items[k * 5]
    except IndexError as error:
        return y, str(error)


@program(call(floats(1, 2)), graphs=0)
def containers_of_the_library_as_values(x):
    d = collections.OrderedDict()
    d["k"] = deque([x])
    d["k"].append({"z": (x, [x])})
    return d


@program(call(floats(1, 2), [3, [4]]), graphs=0)
def copies(x, items):
    shallow = list(items)
    also = items[:]
    third = [*items]
    shallow[1].append(x)
    return shallow, also is items, third[1] is items[1], dict(a=items).copy()
