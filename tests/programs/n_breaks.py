"""Graph breaks in every kind of place, and what must survive them."""

import torch

import jitpkg
from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()


@program(call(floats(1, 2)), graphs=2, breaks=1, every_break=True)
def break_in_the_middle(x):
    y = x + 1
    jitpkg.graph_break()
    return y * 2


@program(call(floats(1, 2)), call(floats(1, 2)), graphs=None)
def break_first_and_last(x):
    jitpkg.graph_break()
    y = x + 1
    jitpkg.graph_break()
    return y


@program(call(floats(1, 2), 3), call(floats(1, 2), 2), graphs=None, every_break=True)
def break_in_for(x, n):
    for i in range(n):
        x = x + i
        jitpkg.graph_break()
        x = x * 2
    else:
        x = x - 1
    return x


@program(call(floats(1, 2), 3), graphs=None)
def break_in_while(x, n):
    while n > 0:
        x = x * n
        jitpkg.graph_break()
        n -= 1
        if n == 1:
            break
    return x, n


@program(call(floats(1, 2), {"a": 1, "b": 2}), graphs=None)
def break_in_loop_over_items(x, d):
    for k, (name, value) in enumerate(sorted(d.items())):
        x = x + value * k
        print(name)
        x = x * 2
    return x


@program(call(floats(1, 2), [1, 2]), graphs=None)
def break_in_zip_and_enumerate(x, items):
    for k, (a, b) in enumerate(zip(items, reversed(items), strict=True)):
        x = x * a
        jitpkg.graph_break()
        x = x + b * k
    return x


@program(call(floats(1, 2), []), graphs=None, every_break=True)
def break_in_try(x, log):
    try:
        y = x + 1
        jitpkg.graph_break()
        y = y * 2
        raise ValueError("v")
    except ValueError as error:
        log.append(str(error))
        jitpkg.graph_break()
        y = y - 1
    finally:
        jitpkg.graph_break()
        log.append("finally")
    return y


@program(call(floats(1, 2), leaf(1, 2)), graphs=None, every_break=True)
def break_in_no_grad(x, w):
    with torch.no_grad():
        y = x * w
        jitpkg.graph_break()
        z = y * w
    return z + w, z.requires_grad, torch.is_grad_enabled()


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        jitpkg.graph_break()
        return self

    def __exit__(self, *exc):
        self.log.append(("exit", exc[0]))
        jitpkg.graph_break()
        return True


@program(call(floats(1, 2), []), graphs=None)
def break_in_with(x, log):
    with Manager(log):
        y = x + 1
        jitpkg.graph_break()
        y = y * 2
        raise KeyError("k")
    return y


@program(call(floats(1, 2)), graphs=None)
def break_in_comprehension(x):
    def step(k):
        jitpkg.graph_break()
        return x + k

    return [step(k) * 2 for k in range(3)], {
        k: step(k) for k in "ab" if step(1) is not None or k
    } if False else 0


@program(call(floats(1, 2)), graphs=None)
def break_in_generator_expression(x):
    def step(k):
        jitpkg.graph_break()
        return x + k

    return sum(step(k) for k in range(3))


def callee(x, k):
    y = x * k
    jitpkg.graph_break()
    return y + k


@program(call(floats(1, 2)), call(floats(1, 2)), graphs=None, every_break=True)
def break_in_callee(x):
    y = callee(x, 2)
    return callee(y, k=3) * callee(y, 4)


def outermost(x):
    return middle(x + 1) * 2


def middle(x):
    return callee(x * 3, 5) - 1


@program(call(floats(1, 2)), graphs=None)
def break_deep_down(x):
    y = outermost(x)
    return y + outermost(y)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(floats(2, 3))

    def forward(self, x):
        y = x * self.weight
        jitpkg.graph_break()
        return y + 1


program(call(floats(1, 2)), call(floats(1, 2)), graphs=None, name="break_in_modules")(
    torch.nn.Sequential(Layer(), torch.nn.ReLU(), Layer())
)


@program(call(floats(1, 2)), graphs=None)
def break_with_values_on_the_stack(x):
    return (
        x + 1,
        callee(x, 2),
        [x * 3, callee(x, 4)],
        {"k": callee(x, 5) + callee(x, 6)},
        x.sin() + callee(x, 7),
    )


@program(call(floats(1, 2)), graphs=None)
def break_in_arguments(x):
    return torch.add(callee(x, 2), callee(x, 3), alpha=int(callee(x, 1)[0])), max(
        1, int(callee(x, 2)[1])
    )


@program(call(floats(1, 2)), graphs=None, every_break=True)
def closures_survive(x):
    count = 0

    def step(v):
        nonlocal count
        count += 1
        return v + count

    y = step(x)
    jitpkg.graph_break()
    y = step(y)
    return y, count, step


@program(call(floats(1, 2), []), graphs=None, every_break=True)
def fresh_objects_survive(x, log):
    made = {"list": [x + 1], "set": {1, 2}}
    alias = made["list"]
    log.append(made)
    jitpkg.graph_break()
    alias.append(x * 2)
    made["again"] = alias
    return made, log[0] is made


@program(call(floats(1, 2)), graphs=None)
def lambdas_and_iterators_survive(x):
    functions = [lambda v, k=k: v * k for k in range(3)]
    it = iter([1, 2, 3])
    first = next(it)
    pairs = zip("abc", it)
    jitpkg.graph_break()
    return [f(x) for f in functions], first, next(it), list(pairs)


@program(call(floats(1, 2)), graphs=None)
def views_survive(x):
    base = x * 2
    view = base[0]
    jitpkg.graph_break()
    view += 10
    jitpkg.graph_break()
    base.mul_(2)
    return base, view


@program(call(leaf(1, 2)), graphs=None)
def autograd_graph_survives(x):
    y = x * 2
    jitpkg.graph_break()
    z = (y * x).sum()
    jitpkg.graph_break()
    return z * 3


@program(call(floats(1, 2), floats(5)), call(floats(-1, -2), floats(5)), graphs=None)
def item_in_the_middle(x, y):
    k = x.sum().item()
    if k > 0:
        return y * k
    return y - k, int(y.item()) + 1


@program(call(floats(1, 2)), graphs=None)
def locals_after_a_break(x):
    y = x + 1
    names = sorted(locals())
    return y * len(names), names


@jitpkg.disable
def disabled(x):
    return x * 7


@program(call(floats(1, 2)), graphs=2, breaks=1, every_break=True)
def disabled_callee(x):
    y = x + 1
    return disabled(y) + 2


@program(call(floats(1, 2)), graphs=None)
def imports_inside(x):
    import colorsys
    import math

    y = x * math.pi
    return y, colorsys.rgb_to_hsv(0.1, 0.2, 0.3)


@program(call(floats(1, 2)), graphs=None)
def class_made_inside(x):
    class Local:
        k = 3

        def apply(self, v):
            return v * self.k

    return Local().apply(x + 1)


@program(call(floats(1, 2), 300), graphs=None)
def long_function(x, n):
    total = x
    for k in range(n):
        total = total + k
    jitpkg.graph_break()
    return total


@program(call(floats(1, 2)), call(floats(1, 2)), graphs=None)
def logged_with_prints(x):
    print("start", x.shape)
    y = x * 2
    print(f"mean {y.mean():.2f}")
    for k in range(2):
        y = y + k
        print(k)
    print("end", flush=True)
    return y


@program(call(grid(2, 2)), graphs=None)
def numpy_in_the_middle(x):
    y = x + 1
    a = y.numpy()
    a += 1
    return torch.from_numpy(a) * 2, y, float(a.sum())


@program(call(floats(1, 2)), graphs=None)
def eval_and_exec(x):
    y = x + 1
    k = eval("2 + 3")
    return y * k, eval("y.shape")


@program(call(floats(1, 2)), graphs=None)
def unbound_after_break(x):
    if x.sum() > 100:
        z = 1
    jitpkg.graph_break()
    try:
        return z
    except UnboundLocalError:
        z = 5
    return x + z


@program(call(floats(1, 2)), graphs=None)
def many_locals_across_a_break(x):
    a, b, c, d, e, f = x, x + 1, [x], 4, "five", None
    g = (a, b)
    jitpkg.graph_break()
    return a + b + c[0] + d, e, f, g
