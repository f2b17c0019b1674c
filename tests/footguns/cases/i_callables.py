"""Callables: signatures, methods, generators, and what is kept alive."""

import functools
import gc
import inspect
import sys
import warnings
import weakref

from tests.footguns.support import CountingScale, floats, increment, outcome, plain


def I01_signature_and_metadata(C):
    def f(x, a=1, *, b: int = 2):
        "doc"
        return x

    g = C(f)
    g(floats(0))
    return (
        str(inspect.signature(g)),
        g.__name__,
        g.__doc__,
        g.__defaults__ if hasattr(g, "__defaults__") else None,
    )


def I04_kwonly_and_posonly_errors(C):
    def f(x, /, *, k):
        return x + k

    g = C(f)
    return plain(g(floats(0), k=1)), outcome(g, floats(0), 1)[:2], outcome(g, x=floats(0), k=1)[:2]


def I05_method_bound_unbound_compiled(C):
    class A:
        def __init__(s, k):
            s.k = k

        def m(s, x):
            return x * s.k

    A.m = C(A.m)
    return plain(A(2).m(floats(1))), plain(A(5).m(floats(1))), plain(A.m(A(7), floats(1)))


def I07_reentrant_call_during_torch_function(C):
    def inner(x):
        return x * 2

    g = C(inner)

    def f(x):
        return g(x) + g(x + 1)

    return plain(C(f)(floats(1)))


def I08_generator_function_itself(C):
    def f(x):
        for i in range(3):
            yield x + i

    return outcome(lambda: [plain(v) for v in C(f)(floats(0))])


def I09_async_function(C):
    async def f(x):
        return x + 1

    def run():
        c = C(f)(floats(0))
        try:
            c.send(None)
        except StopIteration as e:
            return e.value

    return outcome(run)


def I11_settrace_active(C):
    lines = []

    def f(x):
        y = x + 1
        return y

    g = C(f)
    g(floats(0))

    def tr(fr, ev, a):
        if fr.f_code.co_name == "f":
            lines.append(ev)
        return tr

    old = sys.gettrace()
    sys.settrace(tr)
    try:
        r = g(floats(0))
    finally:
        sys.settrace(old)
    return plain(r), "call" in lines


def I13_output_not_kept_alive(C):
    g = C(lambda x: x + 1)
    y = g(floats(0))
    r = weakref.ref(y)
    del y
    gc.collect()
    return r() is None


def I14_module_gc_after_compile(C):
    m = CountingScale()
    r = weakref.ref(m)
    C(m)(floats(0))
    del m
    gc.collect()
    return r() is None


def I15_keyboard_interrupt_like_exc_in_callee(C):
    class Stop(BaseException):
        pass

    def h():
        raise Stop()

    def f(x):
        y = x + 1
        h()
        return y

    try:
        C(f)(floats(0))
    except Stop:
        return "Stop"
    except BaseException as e:
        return type(e).__name__


def I16_deep_recursion_limit(C):
    def f(x, n):
        return x if n == 0 else f(x, n - 1)

    return outcome(C(f), floats(0), 5000)[:2]


def I18_dunder_code_flags_coroutine_wrapper(C):
    @functools.wraps(increment)
    def w(*a, **k):
        return increment(*a, **k) * 2

    g = C(w)
    return plain(g(floats(1))), g.__wrapped__ is increment if hasattr(g, "__wrapped__") else None


def I19_function_attribute_state(C):
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        return x + f.calls

    g = C(f)
    return plain(g(floats(0))), plain(g(floats(0))), f.calls


def I20_stacklevel_warning_location(C):
    # fmt: off
    def h(): warnings.warn("w", stacklevel=2)
    def f(x): h(); return x + 1
    # fmt: on

    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        C(f)(floats(0))
    return [x.lineno - f.__code__.co_firstlineno for x in w], [x.filename == __file__ for x in w]
