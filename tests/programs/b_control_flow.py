"""Branches, loops and match statements."""

import torch

from tests.programs.program import Programs, call, floats, grid

program = Programs()


@program(call(floats(1, 2), 1), call(floats(1, 2), 5), call(floats(1, 2), -5), every_break=True)
def if_elif_else(x, n):
    if n > 3:
        y = x + 1
    elif n > 0:
        y = x * 2
    else:
        y = x - 3
    return y * n


@program(call(floats(1, 2), None), call(floats(1, 2), floats(3, 4)), call(floats(1, 2), None))
def optional_argument(x, bias):
    y = x * 2
    if bias is not None:
        y = y + bias
    return y


@program(call(floats(1, 2), "a"), call(floats(1, 2), "b"), call(floats(1, 2), "c"))
def branches_on_strings(x, mode):
    if mode == "a":
        return x.sin()
    if mode in ("b", "d"):
        return x.cos()
    return x


@program(call(floats(1, 2)), call(grid(2, 2)), call(grid(2, 2, 2)), every_break=True)
def branches_on_shape(x):
    if x.dim() == 1:
        return x.sum()
    if x.size(0) == x.shape[-1] and x.numel() < 8:
        return x @ x
    return x.flatten()


@program(call(floats(1, 2), 3), call(floats(1, 2), 0), every_break=True)
def for_over_a_range(x, n):
    for i in range(n):
        x = x + i
    return x


@program(call(floats(1, 2), [1.0, 2.0]), call(floats(1, 2), (3.0,)), call(floats(1, 2), []))
def for_over_a_sequence(x, factors):
    total = torch.zeros_like(x)
    for factor in factors:
        total = total + x * factor
    return total


@program(call(grid(3, 2)), call(grid(2, 2)), every_break=True)
def for_over_a_tensor(x):
    out = []
    for row in x:
        out.append(row * 2)
    return torch.stack(out), out


@program(call(floats(1, 2), 5), call(floats(1, 2), 2))
def while_with_break_and_continue(x, n):
    i = 0
    while True:
        i += 1
        if i == 2:
            continue
        if i > n:
            break
        x = x * i
    return x, i


@program(call(floats(1, 2), 2), call(floats(1, 2), 9), every_break=True)
def for_else(x, n):
    for i in range(4):
        if i == n:
            x = x + 10
            break
        x = x + 1
    else:
        x = x * 2
    return x, i


@program(call(floats(1, 2), 3), call(floats(1, 2), 0))
def while_else(x, n):
    while n:
        x, n = x + n, n - 1
    else:
        x = -x
    return x


@program(call(floats(1, 2), 2), call(floats(1, 2), 3))
def nested_loops(x, n):
    for i in range(n):
        for j in range(i + 1):
            if j == 1:
                break
            x = x + i * j + 1
        else:
            x = x * 2
    return x


@program(call(floats(1, 2), 3))
def loop_variable_after_the_loop(x, n):
    for i, _ in enumerate(range(n)):
        y = x * i
    return y + i


@program(call(floats(1, 2)), call(floats(-1, -2)), graphs=None)
def branch_on_data(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y - 2


@program(call(floats(1, 2)), call(floats(-1, -2)), graphs=None, every_break=True)
def branch_on_data_joins_again(x):
    y = x + 1
    if y.sum() > 0:
        z = y * 2
    else:
        z = y - 2
    return z * 3


@program(call(floats(1, 2)), call(floats(100, 2)), graphs=None, every_break=True)
def while_on_data(x):
    n = 0
    while x.sum() < 30:
        x = x * 2
        n += 1
    return x, n


@program(call(floats(1, -2, 3)), call(floats(-1)), graphs=None)
def loop_with_branch_on_data(xs):
    total = torch.zeros(())
    for x in xs:
        if x > 0:
            total = total + x
        else:
            total = total - 2 * x
    return total


@program(call(floats(1), floats(2)), call(floats(0), floats(2)), graphs=None)
def boolean_operators_on_tensors(a, b):
    c = a and b
    d = a or b
    return c + 1, d * 2, not a


@program(call(floats(1, 2)), call(floats(-1, 2)), graphs=None)
def conditional_expression_on_data(x):
    return (x + 1 if x[0] > 0 else x - 1) * 2


@program(call(floats(1, 2)), call(floats(-1, 2)), graphs=None)
def assertion_on_data(x):
    y = x * 2
    assert (y > 0).all(), "some are not positive"
    return y + 1


@program(call(floats(1, 2), 1), call(floats(1, 2), 2), call(floats(1, 2), 7), every_break=True)
def match_on_constants(x, n):
    match n:
        case 1:
            return x + 1
        case 2 | 3:
            return x * 2
        case _:
            return x


@program(
    call(floats(1, 2), [1, 2]),
    call(floats(1, 2), (1, 2, 3, 4)),
    call(floats(1, 2), []),
    call(floats(1, 2), "ab"),
    every_break=True,
)
def match_on_sequences(x, items):
    match items:
        case []:
            return x
        case [a, b]:
            return x * a + b
        case [first, *rest]:
            return x * first + len(rest)
        case str() as text:
            return x + len(text)


@program(
    call(floats(1, 2), {"kind": "scale", "by": 3}),
    call(floats(1, 2), {"kind": "shift", "by": 3, "also": 1}),
    call(floats(1, 2), {}),
)
def match_on_mappings(x, options):
    match options:
        case {"kind": "scale", "by": by}:
            return x * by
        case {"kind": "shift", **others}:
            return x + len(others)
        case _:
            return x


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y


@program(
    call(floats(1, 2), Point(0, 2)),
    call(floats(1, 2), Point(3, 2)),
    call(floats(1, 2), 5),
    call(floats(1, 2), None),
    every_break=True,
)
def match_on_classes(x, p):
    match p:
        case Point(0, y):
            return x + y
        case Point(x=a, y=b) if a > b:
            return x * a
        case int(n):
            return x * n
        case _:
            return x


@program(call(floats(1, 2), (1, [2, {"k": 3}])), call(floats(1, 2), (1, [2, {}])))
def match_on_nested_patterns(x, value):
    match value:
        case (a, [b, {"k": c}]):
            return x * (a + b + c)
        case (_, [*_]) as whole:
            return x * len(whole)


@program(call(floats(1, 2), 4), call(floats(1, 2), 1))
def early_return_in_loop(x, n):
    for i in range(10):
        x = x + 1
        if i == n:
            return x, i
    return None


@program(call(floats(1, 2), [3, 1, 2]), call(floats(1, 2), []))
def pass_and_ellipsis(x, items):
    for _ in items:
        pass
    if items:
        ...
    return x + len(items)


@program(call(grid(3, 3)), call(grid(5, 5)))
def loop_over_shape(x):
    total = 0
    for i in range(x.shape[0]):
        for j in range(i, x.size(1)):
            total = total + x[i, j]
    return total


@program(call(floats(1, 2), 20))
def collatz_in_python(x, n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps


@program(call(floats(1, 2), 1, 2), call(floats(1, 2), 2, 1), call(floats(1, 2), 0, 0))
def truth_of_containers(x, a, b):
    items = [1] * (a > b)
    table = {} if a == b else {1: 2}
    if items and table:
        return x + 1
    if not table or not "":
        return x - 1
    return x


@program(call(floats(3, 1, 2)), call(floats(0, 0)), graphs=None)
def loop_until_converged(x):
    for step in range(20):
        new = (x + x.mean()) / 2
        if torch.allclose(new, x, atol=0.1):
            break
        x = new
    return x, step
