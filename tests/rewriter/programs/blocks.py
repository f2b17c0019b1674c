"""Blocks, handlers, comprehensions, closures, calls."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.rewriter.programs.common import Context, with_arguments


@with_arguments((6,), (3,), (2,), (1,))
def with_and_handlers(n):
    log = []
    for i in range(n):
        with Context(log, i != 3), Context(log):
            try:
                if i:
                    raise ValueError(i)
                log.append(i)
            except ValueError as e:
                log.append(str(sys.exc_info()[1]))
                try:
                    raise KeyError(i)
                except KeyError:
                    log.append((type(sys.exc_info()[1]).__name__, str(e)))
                log.append(type(sys.exc_info()[1]).__name__)
                if i == 2:
                    raise
                if i == 3:
                    raise RuntimeError("r") from e
                if i == 4:
                    continue
            finally:
                log.append(("f", type(sys.exc_info()[1]).__name__))
    return log


@with_arguments((2,), (0,))
def returns_through_finally(n):
    log = []

    def inner():
        try:
            with Context(log):
                for i in range(n):
                    try:
                        return i, log
                    finally:
                        log.append("fin")
        finally:
            log.append(repr(sys.exc_info()[1]))

    return inner()


@with_arguments((0,), (1,), (2,), (3,))
def breaks_through_finally(n):
    log = []
    for i in range(4):
        try:
            if i == n:
                break
            if i == n - 1:
                continue
            with Context(log):
                while True:
                    try:
                        if i:
                            break
                        log.append("w")
                        break
                    finally:
                        log.append(i)
        finally:
            log.append(("f", i))
    else:
        log.append("else")
    return log, i


@with_arguments((0,), (1,))
def except_star(n):
    log = []
    try:
        group = ExceptionGroup("h", [ValueError(3), KeyError(n)])
        raise ExceptionGroup("g", [ValueError(1), TypeError(2), group])
    except* ValueError as e:
        log.append([str(x) for x in e.exceptions])
        log.append(type(sys.exc_info()[1]).__name__)
    except* TypeError:
        log.append("t")
        if n:
            raise OSError("x")
    return log


@with_arguments(({"a": [1, 2], "c": 3},), ((1, 2),), ("s",), (1.5,), ([],), ({"k": None},))
def match(x):
    @dataclass
    class Point:
        x: int
        y: int

    match x:
        case {"a": [1, *rest], **others}:
            return rest, others
        case (a, b) if a:
            return a + b
        case str() | int():
            return "s"
        case []:
            match Point(1, 2):
                case Point(x=0):
                    return "zero"
                case Point(1, y=q) as p:
                    return q, p.x
        case {"k": None | True}:
            return "none"
        case _:
            return None


@with_arguments((4,), (0,))
def comprehensions(n):
    x = 5
    functions = [lambda: i + x for i in range(n)]
    nested = {k: [j for j in range(k) if j != 1] for k in range(n) if k}
    pairs = [(x, y) for x in range(2) for y in [x * n]]
    return [f() for f in functions], nested, {*"ab"} == {c for c in "ba"}, x, pairs


@with_arguments((3,), (0,))
def comprehension_borrows_a_cell(n):
    x = "cell"
    get = lambda: x  # noqa: E731
    log = []
    for _ in range(2):
        values = [(x, log.append(x)) for x in range(n)]
        inner = [lambda: x for x in range(n)]
        try:
            bad = [1 // x for x in (1, 0)]
        except ZeroDivisionError as e:
            bad = str(e), x, get()
        log.append((values, [f() for f in inner], bad, x, get()))
        x = x + "!"
    return str(log), get()


@with_arguments((3,), (0,))
def comprehension_borrows_a_cell_in_a_with_block(n):
    x = "cell"
    get = lambda: x  # noqa: E731
    try:
        raise ValueError  # what follows comes after a handler only: the compiler does not move it
    except ValueError:
        log = []
    with Context(log, True):
        values = [1 // (2 - x) for x in range(n)]
        x = values
    return x, get(), log


@with_arguments((2,), (0,))
def comprehension_over_unbound(n):
    if n == 2:
        y = 1
    result = [y for y in range(n)]
    try:
        return result, y
    except UnboundLocalError as e:
        return result, str(e)


@with_arguments((0,), (1,))
def deletes(n):
    if n:
        y = 1
    try:
        r = y
    except UnboundLocalError as e:
        r = str(e)
    if n:
        del y
    for k in range(2):
        if k:
            z = k
        try:
            z
        except UnboundLocalError:
            r = r, "unbound"
    z = None
    del z
    try:
        del z
    except UnboundLocalError as e:
        r = r, str(e)
    try:
        z
    except UnboundLocalError as e:
        return r, str(e), sorted(locals())


@with_arguments((3,))
def super_and_class_cell(n):
    class A:
        def m(self, x):
            return ["A", x]

    class B(A):
        def m(self, x):
            r = super().m(x) + ["B"]
            return r + super().m(__class__.__name__)

        def captured(self, x):
            f = lambda: self  # noqa: E731
            r = super().m(x) + [f() is self]
            return r + super().m(f().__class__.__name__)

        @classmethod
        def make(cls, x):
            return cls().m(x), super().__thisclass__ is B

    return B().m(n), B().captured(n), B.make(n)


@with_arguments((3,))
def looks_at_locals(n):
    a = n
    b = [a]

    def inner():
        return c, a

    c = 3
    found = locals()
    again = sorted(locals())
    return sorted((k, str(v)) for k, v in found.items() if k not in ("found", "inner")), again, b


@with_arguments((3,))
def looks_at_frames(n):
    a = n

    def inner():
        return a

    live = sys._getframe().f_locals
    return (
        sorted(k for k in live if k != "live"),
        sys._getframe().f_lineno - sys._getframe().f_code.co_firstlineno,
        sys._getframe().f_code.co_name,
    )


@with_arguments((4,))
def calls_and_formats(n):
    def f(*a, k=1, **kw):
        q = "x".join(map(str, a))
        return f"{q!r:>{n}}", k, kw, (lambda z=q: z)()

    return (
        f(1, 2, k=3, w=4),
        f(*[1], **{"k": n}),
        f(*(), *(n,), k=2),
        print(end="") or max([1, n], key=lambda v: -v),
        n < 5 < 2 * n,
        [*range(n), *"ab"],
        {**{"a": 1}, "b": n},
    )


@with_arguments((1,), (5,), (9,))
def errors_over_many_lines(n):
    a = {}
    for i in range(3):
        if i == n:
            a[
                "k"] \
                ["z"]  # fmt: skip
    return sum(1 / (2 - j) for j in range(i)) + int(
        "x"
        if n == 5
        else "y"
    )  # fmt: skip


@with_arguments((3,))
def closures(n):
    total = 0

    def add(k):
        nonlocal total
        total += k
        return total

    def forget():
        nonlocal total
        del total

    made = [add(k) for k in range(n)]
    before = total
    forget()
    try:
        add(1)
    except NameError as e:
        return made, before, type(e).__name__, str(e)


@with_arguments((1, 2), (0, 0))
def arguments_that_are_cells(a, b=2, *rest, c=3, **others):
    def swap():
        nonlocal a, b
        a, b = b, a
        return a, b, rest, c, others

    first = swap()
    del a
    try:
        swap()
    except NameError as e:
        return first, str(e)


@with_arguments((0,), (3,))
def while_and_walrus(n):
    log = []
    while (n := n - 1) > 0 and not (log and log[-1] == "x"):
        log.append(n) if n % 2 else log.append(str(n))
    else:
        log.append("else")
    assert n < 3, log
    return log, n if n else None, n or log, n and log


@with_arguments((0,), (1,), (2,))
def asserts_and_chains(n):
    try:
        assert n, f"n is {n}"
        raise KeyError("k") from ValueError(n)
    except (AssertionError, TypeError) as e:
        return str(e), e.__context__
    except KeyError as e:
        if n == 2:
            raise
        return repr(e.__cause__)


@with_arguments((3,), (0,))
def unpacks(n):
    a, (b, *c), d = n, range(n + 1), {n}
    (e,) = d
    f, *_ = [a, b]
    x = y = [0, 1]
    x[0], y[1] = y[1], x[0]
    try:
        g, h = range(n)
    except ValueError as error:
        return a, b, c, d, e, f, x, str(error)
    return g, h
