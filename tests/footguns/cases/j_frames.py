"""Code objects and frames: who looks at them, and what breaks inside them."""

import contextlib
import copy
import gc
import inspect
import marshal
import sys
import threading
import traceback
import types
import weakref

import torch
from torch import nn

from tests.footguns.support import floats, graph_break, plain


def J01_function_copy_after_compile(C):
    def f(x, k=1):
        return x + k

    g = C(f)
    g(floats(0))
    h = types.FunctionType(f.__code__, f.__globals__, "h", (5,), f.__closure__)
    return plain(h(floats(0))), plain(g(floats(0)))


def J02_code_reassigned_after_compile(C):
    def f(x):
        return x + 1

    def f2(x):
        return x + 10

    g = C(f)
    a = plain(g(floats(0)))
    f.__code__ = f2.__code__
    return a, plain(g(floats(0)))


def J03_kwdefaults_rebound(C):
    def f(x, *, k=1):
        return x + k

    g = C(f)
    a = plain(g(floats(0)))
    f.__kwdefaults__ = {"k": 7}
    return a, plain(g(floats(0)))


def J04_getsource_and_lines(C):
    def f(x):
        return x + 1

    g = C(f)
    g(floats(0))
    return inspect.getsource(f).strip().splitlines()[0], f.__code__.co_name, f.__code__.co_argcount


def J05_many_closures_same_code(C):
    def mk(k):
        def f(x):
            return x * k

        return C(f)

    return [plain(mk(k)(floats(1)))[0] for k in range(20)]


def J09_with_break_then_exception(C):
    log = []

    class K:
        def __enter__(s):
            return s

        def __exit__(s, t, v, tb):
            log.append((t.__name__ if t else None, str(v), tb is not None))
            return True

    def f(x):
        with K():
            x = x + 1
            graph_break()
            raise ValueError("v")
        return x

    return plain(C(f)(floats(0))), log


def J10_exc_info_in_callee_inside_handler(C):
    def h():
        return sys.exc_info()[0].__name__ if sys.exc_info()[0] else None

    def f(x):
        try:
            raise KeyError("k")
        except KeyError:
            graph_break()
            n = h()
        return x + 1, n, h()

    r = C(f)(floats(0))
    return plain(r[0]), r[1:]


def J11_bare_reraise_after_break(C):
    def f(x):
        try:
            try:
                raise KeyError("k")
            except KeyError:
                x = x + 1
                graph_break()
                raise
        except KeyError as e:
            return x + len(e.args)

    return plain(C(f)(floats(0)))


def J13_return_in_loop_in_with_in_try(C):
    log = []

    @contextlib.contextmanager
    def cm():
        log.append("in")
        try:
            yield
        finally:
            log.append("out")

    def f(x):
        for i in range(3):
            try:
                with cm():
                    x = x + 1
                    graph_break()
                    if i == 1:
                        return x
            finally:
                log.append(i)

    return plain(C(f)(floats(0))), log


def J15_chained_compare_with_break(C):
    log = []

    def h():
        log.append(1)
        graph_break()
        return 5

    def f(x):
        return x + (1 < h() < 10)

    return plain(C(f)(floats(0))), log


def J16_boolop_stack_with_break(C):
    def h(v):
        graph_break()
        return v

    def f(x):
        return x + (h(0) or h(3)) * (h(1) and h(4))

    return plain(C(f)(floats(0)))


def J19_unbound_cell_after_break(C):
    def f(x):
        def g():
            return z

        graph_break()
        try:
            g()
        except NameError:
            x = x + 1
        z = 5
        graph_break()
        return x + g()

    return plain(C(f)(floats(0)))


def J20_locals_after_break(C):
    def f(x):
        a = 1
        graph_break()
        b = 2
        return x, sorted(locals())

    return C(f)(floats(0))[1]


def J21_callee_inspects_caller_frame(C):
    def h():
        fr = sys._getframe(1)
        return fr.f_code.co_name, sorted(fr.f_locals)

    def f(x):
        a = 1
        y = x + a
        return y, h()

    return C(f)(floats(0))[1]


def J22_traceback_frame_names_after_break(C):
    def h():
        raise ValueError

    def f(x):
        y = x + 1
        graph_break()
        y = y * 2
        h()
        return y

    try:
        C(f)(floats(0))
    except ValueError as e:
        frames = traceback.extract_tb(e.__traceback__)
        return [fs.name for fs in frames if fs.filename == __file__][1:]


def J24_generator_closed_when_loop_breaks(C):
    log = []

    def gen():
        try:
            for i in range(5):
                yield i
        finally:
            log.append("closed")

    def f(x):
        for i in gen():
            x = x + i
            graph_break()
            if i == 2:
                break
        gc.collect()
        log.append("after")
        return x

    return plain(C(f)(floats(0))), log


def J25_while_else_with_break(C):
    def f(x):
        n = 0
        while n < 3:
            n += 1
            x = x + n
            graph_break()
        else:
            x = x * 10
        return x

    return plain(C(f)(floats(0)))


def J26_staticmethod_classmethod_property_compiled(C):
    class A:
        k = 2

        def s(x):
            return x + 1

        def c(cls, x):
            return x * cls.k

        def p(self):
            return torch.ones(1) * self.k

    A.s = staticmethod(C(A.s))
    A.c = classmethod(C(A.c))
    A.p = property(C(A.p))
    return plain(A.s(floats(0))), plain(A.c(floats(3))), plain(A().p)


def J27_callable_instance(C):
    class A:
        def __init__(s, k):
            s.k = k

        def __call__(s, x):
            return x * s.k

    A.__call__ = C(A.__call__)
    return plain(A(2)(floats(1))), plain(A(3)(floats(1)))


def J28_deepcopy_model_after_compile(C):
    m = nn.Linear(1, 1, bias=False)
    nn.init.ones_(m.weight)
    m.forward = C(m.forward) if not isinstance(C(m), nn.Module) else m.forward
    m(floats(1))
    m2 = (
        copy.deepcopy(m)
        if not hasattr(m.forward, "__self__")
        or m.forward.__self__ is m
        and "forward" not in m.__dict__
        else None
    )
    if m2 is None:
        m2 = nn.Linear(1, 1, bias=False)
        nn.init.ones_(m2.weight)
    with torch.no_grad():
        m2.weight.mul_(5)
    return plain(m(floats(1))), plain(m2(floats(1)))


def J29_marshal_of_original_code(C):
    def f(x):
        return x + 1

    code = f.__code__
    C(f)(floats(0))
    return isinstance(marshal.loads(marshal.dumps(code)), types.CodeType)


def J30_compile_while_generator_of_same_code_runs(C):
    def f(x, n):
        for i in range(n):
            x = x + i
        return x

    def gen():
        for i in range(3):
            yield plain(g(floats(0), i))

    g = C(f)
    it = gen()
    a = next(it)
    b = plain(g(floats(0), 5))
    return a, b, list(it)


def J31_del_then_rebind_across_break(C):
    def f(x, k):
        y = x + 1
        if k:
            del y
        graph_break()
        try:
            return y
        except UnboundLocalError:
            return x - 1

    g = C(f)
    return plain(g(floats(0), True)), plain(g(floats(0), False)), plain(g(floats(0), True))


def J33_exception_group(C):
    src = (
        "def f(x):\n"
        "    try: raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\n"
        "    except* ValueError as e: x = x + len(e.exceptions)\n"
        "    except* KeyError: x = x + 10\n"
        "    return x"
    )
    ns = {}
    exec(src, ns)
    return plain(C(ns["f"])(floats(0)))


def J34_async_with_for(C):
    log = []

    class A:
        async def __aenter__(s):
            log.append("in")
            return 3

        async def __aexit__(s, *a):
            log.append("out")

        def __aiter__(s):
            s.i = 0
            return s

        async def __anext__(s):
            s.i += 1
            if s.i > 2:
                raise StopAsyncIteration
            return s.i

    async def f(x):
        async with A() as k:
            x = x + k
        async for i in A():
            x = x + i
        return x

    c = C(f)(floats(0))
    try:
        c.send(None)
    except StopIteration as e:
        return plain(e.value), log


def J36_default_arg_tensor_mutated(C):
    def f(x, acc=torch.zeros(1)):
        acc.add_(x)
        return acc * 1

    g = C(f)
    return plain(g(floats(1))), plain(g(floats(2))), plain(f.__defaults__[0])


def J37_weakref_to_function(C):
    def f(x):
        return x + 1

    g = C(f)
    g(floats(0))
    r = weakref.ref(f)
    del f, g
    gc.collect()
    return r() is None


def J39_two_threads_recompile_while_running(C):
    def f(x):
        return x.sum() * x.shape[0]

    g = C(f)
    bad = []

    def run(n):
        for i in range(5):
            if plain(g(torch.ones(n + i))) != [float((n + i) ** 2)]:
                bad.append((n, i))

    ts = [threading.Thread(target=run, args=(n,)) for n in (2, 10, 20, 30)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    return bad


def J41_large_stack_extended_args(C):
    src = (
        "def f(x):\n"
        + "".join(f"    v{i} = x + {i}\n" for i in range(300))
        + "    graph_break()\n    return "
        + " + ".join(f"v{i}" for i in range(300))
    )
    ns = {"graph_break": graph_break}
    exec(src, ns)
    return plain(C(ns["f"])(floats(0)))


def J42_huge_constants_and_long_jump(C):
    src = (
        "def f(x, k):\n    if k:\n"
        + "".join(f"        x = x + {i}.5\n" for i in range(300))
        + "    return x\n"
    )
    ns = {}
    exec(src, ns)
    g = C(ns["f"])
    return plain(g(floats(0), True)), plain(g(floats(0), False))


def J43_thread_local_grad_mode(C):
    g = C(lambda x: (x * 2).requires_grad)
    x = floats(1).requires_grad_()
    out = []
    g(x)
    with torch.no_grad():
        t = threading.Thread(target=lambda: out.append(g(x)))
        t.start()
        t.join()
        out.append(g(x))
    return out


def J44_global_type_annotation_eval(C):
    def f(x):
        y: int = 3
        return x + y

    return plain(C(f)(floats(0)))


def J45_method_on_slots_class_compiled(C):
    class A:
        __slots__ = ("k", "__weakref__")

        def __init__(s):
            s.k = 2

        def m(s, x):
            s.k += 1
            return x * s.k

    A.m = C(A.m)
    a = A()
    return plain(a.m(floats(1))), plain(a.m(floats(1))), a.k


def J48_class_cell_in_comprehension(C):
    class A:
        k = 2

        def m(s, x):
            return (
                x
                + sum(super(A, s).__getattribute__("k") + i for i in range(2))
                + sum([__class__.k for _ in range(2)])
            )

    A.m = C(A.m)
    return plain(A().m(floats(0)))


def J49_yield_from_compiled_function_result(C):
    def f(x):
        return [x + 1, x + 2]

    g = C(f)

    def gen():
        yield from g(floats(0))

    return [plain(v) for v in gen()]


def J50_output_of_graph1_mutated_by_opaque_call_then_used(C):
    def h(t):
        graph_break()
        t.add_(5)

    def f(x):
        y = x + 1
        z = y.view(-1)
        h(y)
        return z * 1, y

    r = C(f)(floats(0))
    return plain(r)
