"""Generators and iterators: consumed inside, passed on, resumed, closed."""

import torch

from tests.programs.program import Programs, call, floats, grid

program = Programs()


def squares(n):
    for i in range(n):
        yield i * i


def doubled(xs):
    for x in xs:
        yield x * 2


@program(call(floats(1, 2), 3), call(floats(1, 2), 4), every_break=True)
def generator_consumed(x, n):
    total = sum(squares(n))
    for square in squares(n):
        x = x + square
    return x * total, list(squares(2))


@program(call([floats(1), floats(2)]), call([floats(3)]))
def generators_stacked(xs):
    return torch.cat(list(doubled(doubled(xs)))), [*doubled(xs)]


@program(call(grid(3)), every_break=True)
def generator_expressions(x):
    total = sum(v * 2 for v in x)
    pairs = dict((i, v + 1) for i, v in enumerate(x))
    return total, pairs, max(i for i in range(3)), tuple(v for v in (1, 2) if v > 1)


@program(call(floats(1, 2)), every_break=True)
def generator_stepped_by_hand(x):
    numbers = squares(10)
    next(numbers)
    a = next(numbers)
    b = next(numbers)
    return x * a + b, next(numbers)


def echo():
    total = 0
    while True:
        got = yield total
        if got is None:
            return "done"
        total = total + got


@program(call(floats(1, 2)))
def values_sent(x):
    running = echo()
    first = next(running)
    second = running.send(x)
    third = running.send(x * 2)
    return first, second, third


def inner():
    got = yield 1
    yield 2
    return got


def outer():
    result = yield from inner()
    yield result
    yield from [7, 8]


@program(call(floats(1, 2)))
def delegation(x):
    items = list(outer())
    return x * items[0], items


def with_cleanup(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


@program(call(floats(1, 2), []), graphs=None)
def generator_left_early(x, log):
    for n in with_cleanup(log):
        x = x + n
        break
    log.append("after")
    return x, log


@program(call(floats(1, 2), []), graphs=None)
def generator_closed(x, log):
    running = with_cleanup(log)
    n = next(running)
    running.close()
    return x * n, log


@program(call(floats(1, 2)), graphs=None)
def generator_returned(x):
    y = x + 1
    return (y * i for i in range(3))


@program(call(floats(1, 2)), graphs=None)
def generator_suspended_at_a_break(x):
    numbers = squares(4)
    a = next(numbers)
    print("between")
    b = next(numbers)
    return x * a + b


@program(call(floats(1, 2), squares(3)), graphs=None)
def generator_as_argument(x, numbers):
    y = x + 1
    for n in numbers:
        y = y + n
    return y


@program(call(floats(1, 2), iter([1, 2, 3])), call(floats(1, 2), iter((4, 5))), graphs=None)
def iterator_as_argument(x, numbers):
    first = next(numbers)
    return x * first, list(numbers)


def infinite():
    n = 0
    while True:
        yield n
        n += 1


@program(call(floats(1, 2)), every_break=True)
def infinite_generator(x):
    for n in infinite():
        if n > 3:
            break
        x = x + n
    return x


class Tree:
    def __init__(self, value, *children):
        self.value = value
        self.children = children

    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child


@program(call(Tree(floats(1), Tree(floats(2)), Tree(floats(3), Tree(floats(4))))))
def generator_method_that_recurs(tree):
    return sum(tree), len(list(tree))


@program(call(floats(1, 2)), graphs=None)
def program_that_is_a_generator(x):
    y = x + 1
    yield y
    z = y * 2
    yield z
    yield from [z - 1, z]


@program(call(floats(1, 2), 3), graphs=None)
def generator_with_loop_as_program(x, n):
    for i in range(n):
        x = x * 2 + i
        yield x
    return


def raising():
    yield 1
    raise ValueError("inside")


@program(call(floats(1, 2)), graphs=None)
def generator_that_raises(x):
    y = x
    try:
        for n in raising():
            y = y + n
    except ValueError as error:
        return y * 2, str(error)


@program(call(floats(1, 2)), graphs=None)
def generator_finished_raises_stop_iteration(x):
    numbers = squares(1)
    y = x + next(numbers)
    try:
        next(numbers)
    except StopIteration as stop:
        return y, stop.value


@program(call(floats(1, 2)))
def zip_of_generators(x):
    pairs = list(zip(squares(3), infinite()))
    return x * len(pairs), pairs, any(s > 3 for s in squares(5)), dict(zip("ab", squares(2)))


@program(call(floats(1, 2)), graphs=None)
def laziness_is_seen(x):
    log = []

    def noisy():
        for i in range(3):
            log.append(i)
            yield i

    running = noisy()
    log.append("made")
    first = next(running)
    log.append("first")
    return x * first, log, list(running)
