"""Expressions and assignments: no branches, no calls of other functions of the program."""

import math

import torch

from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()

SCALE = 3.0
TABLE = {"a": 1, "b": 2.5}
WEIGHTS = floats(1, 2, 3)


@program(call(floats(1, 2)), call(floats(3, 4)), call(floats(1, 2, 3)), every_break=True)
def one_op(x):
    return x + 1


@program(call(floats(1, 2), floats(3, 4)), call(leaf(1, 2), floats(3, 4)), every_break=True)
def arithmetic(x, y):
    a = x + y * 2 - 1
    b = a / (y + 0.5) // 1
    c = -(b**2) % 3
    return a, b, +c, abs(c)


@program(call(2, 3), call(5, -3), call(2.5, 2), graphs=0)
def numbers_only(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**2, -a, divmod(a, b)


@program(call(floats(1, 2), 3), call(floats(1, 2), 4), call(floats(1, 2), True), every_break=True)
def numbers_and_tensors(x, n):
    k = (n << 2) | 1
    m = (k & 6) ^ n
    return x * k + m, n * 1.5, ~n


@program(call(torch.tensor([1, 6, 3]), torch.tensor([3, 3, 3])))
def integer_tensor_operators(a, b):
    return a & b, a | b, a ^ b, ~a, a << 1, a >> 1, a // b, a % b, a**2


@program(call(floats(1, 2, 3), floats(3, 2, 1)), call(floats(1), floats(1)))
def comparisons_of_tensors(a, b):
    return a < b, a <= b, a == b, a != b, a > b, a >= b


@program(call(floats(1, 2), 3), call(floats(1, 2), 0), call(floats(1, 2), -1), every_break=True)
def comparisons_of_numbers(x, n):
    flags = (n < 2, n <= 3, n == 3, n != 3, n > 0, n >= 0, 0 < n < 5, n is None, n is not None)
    return x * sum(flags), flags


@program(call(floats(1, 2), 3), call(floats(1, 2), 0), call(floats(1, 2), None), every_break=True)
def boolean_operators(x, n):
    a = n and 5
    b = n or 7
    c = not n
    return x + (a or 0), a, b, c, (n and a) or b


@program(call(floats(1, 2), 3), call(floats(1, 2), 0))
def conditional_expression(x, n):
    y = x * 2 if n > 1 else x * 3
    return y if n else -y


@program(call(floats(1, 2)), every_break=True)
def walrus(x):
    if (n := x.shape[0]) > 1:
        return (y := x * n) + y
    return x


@program(call(floats(1, 2), floats(3, 4)), every_break=True)
def swaps_and_chained_assignment(x, y):
    x, y = y, x
    a = b = x - y
    a, b, x = b + 1, a + 2, y
    return a, b, x, y


@program(call(grid(2, 3)), call([1.0, 2.0]), call((floats(1), floats(2))), every_break=True)
def unpacking(pair):
    a, b = pair
    (c, d), e = (a, b), a
    return a + b, c, d, e


@program(call(floats(1, 2), [1, 2, 3, 4]), call(floats(1, 2), (5, 6)), every_break=True)
def starred_unpacking(x, items):
    first, *rest, last = items
    *most, _ = [*items, 9]
    merged = [*rest, *most]
    named = {**{"a": 1}, "b": x}
    return x * first + last, rest, merged, named


@program(call(floats(1, 2)), call(floats(3)))
def augmented_assignment(x):
    y = x
    y = y + 1
    y += 1
    y *= 2
    y -= 3
    y /= 4
    n = 5
    n += 1
    n //= 2
    n **= 2
    return y, n, x


@program(call(floats(1, 2)), call(leaf(1, 2)), every_break=True)
def augmented_assignment_writes_to_the_argument(x):
    x += 1
    x *= x
    return x


@program(call(floats(1, 2)), every_break=True)
def globals_are_read(x):
    return x * SCALE + TABLE["b"] + WEIGHTS[0] * math.pi


@program(call(grid(4, 4)), call(grid(6, 2)), every_break=True)
def slices(x):
    s = slice(1, 3)
    return x[1:3], x[:-1, ::2], x[s], x[..., 0], x[None], x[1, 1], x[-1]


@program(call(floats(1, 2), [1, 2, 3, 4, 5]), call(floats(1), "hello"), call(floats(1), (1, 2, 3)))
def slices_of_sequences(x, items):
    return x * len(items[1:]), items[1:3], items[::-1], items[-2:], items[0], items[:]


@program(call(floats(1, 2), "abc", 3), call(floats(1, 2), "", 0), every_break=True)
def f_strings(x, name, n):
    text = f"{name}-{n:03d}-{n * 1.5:.2f}-{name!r:>8}-{x.shape}-{x.dtype}-{n=}"
    return x + len(text), text


@program(call(floats(1, 2), "Hello World"), call(floats(1, 2), "a,b,c"))
def string_methods(x, s):
    parts = s.lower().split(",")
    joined = "-".join(parts).upper().replace("L", "_")
    shown = "%s has %d" % (s, len(s))
    return x * len(parts), joined, shown, s.startswith("H"), s.find("o"), "x".join(s) * 2, s[::-1]


@program(call(floats(1, 2)), every_break=True)
def deleted_names(x):
    y = x + 1
    z = y * 2
    del y
    y = z - 1
    return y


@program(call(floats(1, 2), 2), call(floats(1, 2), 3))
def assertion_that_holds(x, n):
    assert n > 0, f"{n} is not positive"
    assert x.dim() == 1
    return x / n


@program(call(floats(1, 2), 0), call(floats(1, 2), -1), graphs=None)
def assertion_that_fails(x, n):
    y = x + 1
    assert n > 0, f"{n} is not positive"
    return y


@program(call(floats(1, 2)), graphs=0)
def nothing_returned(x):
    y = x


@program(call(floats(1, 2)), graphs=0)
def argument_returned(x):
    return x


@program(call(floats(1, 2)), every_break=True)
def same_result_twice(x):
    y = x * 2
    return y, y, [y, x], x


@program(call(floats(1, 2), 3), call(floats(1, 2), 4))
def constants_returned(x, n):
    return x + n, None, True, 1.5, "text", (1, (2, 3)), n, ..., b"bytes", 1j


@program(call(floats(1, 2), math.nan), call(floats(1, 2), -0.0), call(floats(1, 2), math.inf))
def special_numbers(x, v):
    return x * v, v != v, math.copysign(1.0, v), v


@program(call(floats(1, 2)))
def long_chain(x):
    y = x
    y = torch.sin(y) + torch.cos(y)
    y = torch.exp(-y) * torch.tanh(y)
    y = torch.sigmoid(y).sqrt().log1p()
    y = (y - y.mean()) / (y.std() + 1e-5)
    return y


@program(call(floats(1, 2), 7, 2), call(floats(1, 2), -7, 2), call(floats(1, 2), 7.5, 2))
def number_builtins(x, a, b):
    parts = (abs(a), round(a / b, 2), divmod(a, b), pow(b, 3), int(a), float(b), bool(a), max(a, b))
    return x + parts[0], parts, min(a, b), hex(b), bin(b), chr(65 + b), ord("a")


@program(call(floats(1, 2), 10), call(floats(1, 2), 2))
def math_functions(x, n):
    k = math.sqrt(n) + math.log(n) + math.floor(n / 3) + math.ceil(n / 3) + math.gcd(n, 4)
    return x * k, math.isclose(k, k), math.prod([1, 2, n]), math.factorial(3), math.inf > n


@program(call(floats(1, 2), 3), call(floats(1, 2), 3), call(floats(1, 2), 4), graphs=1)
def lambda_called_at_once(x, n):
    return (lambda a, b=2: a * b + n)(x)


@program(call(floats(1, 2), 2), call(floats(1, 2), 3.0), call(floats(1, 2), 1j))
def number_attributes_and_methods(x, n):
    return x * n.real, n.imag, n.conjugate(), (2.0).is_integer(), (5).bit_length(), (0.5).hex()


@program(call(floats(1, 2)))
def chained_methods(x):
    return x.add(1).mul(2).view(1, 2).t().contiguous().flatten().unsqueeze(0).expand(3, 2).sum(0)


@program(call(floats(1.5, 2.5), floats(1, 0)), every_break=True)
def in_place_on_fresh_tensors(x, y):
    a = x.clone()
    a.mul_(2).add_(y)
    a[0] = 7
    b = torch.zeros_like(a)
    b += a
    b[1:] -= 1
    return a, b
