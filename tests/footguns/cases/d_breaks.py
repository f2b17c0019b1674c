"""Control flow, and graph breaks in the midst of it."""

import contextlib
import traceback

import torch

from tests.footguns.support import floats, graph_break, plain


def D01_break_in_loop(C):
    def f(x):
        for i in range(4):
            x = x + i
            graph_break()
            if i == 2:
                break
        else:
            x = x * 100
        return x

    return plain(C(f)(floats(0)))


def D02_break_in_with(C):
    log = []

    class M:
        def __enter__(s):
            log.append("in")
            return 5

        def __exit__(s, *a):
            log.append(("out", a[0] is None))
            return False

    def f(x):
        with M() as k:
            x = x + k
            graph_break()
            x = x * 2
        return x

    return plain(C(f)(floats(0))), log


def D03_break_in_no_grad(C):
    def f(x):
        with torch.no_grad():
            a = (x * 2).requires_grad
            graph_break()
            b = (x * 2).requires_grad
        return a, b, (x * 2).requires_grad, torch.is_grad_enabled()

    return C(f)(floats(1).requires_grad_())


def D04_break_in_try_except(C):
    def f(x):
        try:
            x = x + 1
            graph_break()
            x = x * 2
            raise KeyError("k")
        except KeyError as e:
            x = x + 10
            graph_break()
            return x, str(e)
        finally:
            x = x * 0

    r = C(f)(floats(0))
    return plain(r[0]), r[1]


def D06_suppressing_ctx(C):
    def f(x):
        with contextlib.suppress(ZeroDivisionError):
            x = x + 1
            1 / 0
            x = x + 100
        return x

    return plain(C(f)(floats(0)))


def D08_contextmanager_generator(C):
    log = []

    @contextlib.contextmanager
    def cm(k):
        log.append("in")
        try:
            yield k
        finally:
            log.append("out")

    def f(x):
        with cm(3) as k:
            y = x + k
            graph_break()
            y = y * 2
        return y

    return plain(C(f)(floats(0))), log


def D09_break_with_stack_values(C):
    def h(v):
        graph_break()
        return v + 1

    def f(x):
        return (x + 1) * h(x) + sum([h(x), x], start=x) - x[0:1]

    return plain(C(f)(floats(1)))


def D11_break_in_comprehension(C):
    def h(v):
        graph_break()
        return v * 2

    def f(x):
        return (
            sum([h(x + i) for i in range(3) if i != 1])
            + sum(h(x) for _ in range(2))
            + len({k: h(x) for k in "ab"})
        )

    return plain(C(f)(floats(1)))


def D12_break_then_closure_write(C):
    def f(x):
        n = 0

        def inc():
            nonlocal n
            n += 1
            return n

        x = x + inc()
        graph_break()
        x = x + inc()
        return x + n

    return plain(C(f)(floats(0)))


def D13_break_in_nested_inlined(C):
    def g3(x):
        y = x * 2
        graph_break()
        return y + 1

    def g2(x):
        y = g3(x) + 1
        return y * 3

    def f(x):
        return g2(x) + g2(x + 1)

    return plain(C(f)(floats(1)))


def D17_while_data_dependent(C):
    def f(x):
        n = 0
        while x.sum() < 10:
            x = x * 2
            n += 1
        return x, n

    r = C(f)(floats(1))
    return plain(r[0]), r[1]


def D18_bool_ops_on_tensors(C):
    g = C(lambda a, b: (a > 0 and b > 0) or (b < -5))
    r = [g(torch.tensor(p), torch.tensor(q)) for p, q in ((1.0, 1.0), (-1.0, 1.0), (1.0, -9.0))]
    return [bool(v) for v in r]


def D19_match_statement(C):
    src = (
        "def f(x, v):\n"
        "    match v:\n"
        "        case {'a': k, **r}: return x + k + len(r)\n"
        "        case [a, b, *rest]: return x + a * b + len(rest)\n"
        "        case str() as s: return x + len(s)\n"
        "        case _: return x"
    )
    ns = {}
    exec(src, ns)
    g = C(ns["f"])
    return [plain(g(floats(0), v)) for v in ({"a": 2, "z": 1}, [2, 3, 4], "abc", 7)]


def D21_unbound_local_conditional(C):
    def f(x, k):
        if k:
            z = 1
        try:
            return x + z
        except UnboundLocalError:
            return x - 1

    g = C(f)
    return plain(g(floats(0), True)), plain(g(floats(0), False))


def D23_exception_traceback_lineno(C):
    def f(x):
        y = x + 1
        raise ValueError("z")

    try:
        C(f)(floats(0))
    except ValueError as e:
        tb = traceback.extract_tb(e.__traceback__)[-1]
        return tb.name, tb.lineno - f.__code__.co_firstlineno
