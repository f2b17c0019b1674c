"""Objects that die, threads, tasks, generators."""

import asyncio
import contextlib
import contextvars
import functools
import gc
import inspect
import threading
import weakref

from torch import nn

from tests.api.doors.support import X, outcome, plain


def nothing_is_kept_alive(C):
    class A:
        def __call__(self, x):
            return x + 1

        def m(self, x):
            return x + 2

    a, n = A(), nn.Linear(2, 2)

    def f(x):
        return x + 3

    made = [C(a), C(a.m), C(functools.partial(a.m)), C(n), C(f)]
    for g in made:
        g(X)
    seen = [weakref.ref(obj) for obj in (a, n, f)]
    del made, a, n, f, g
    gc.collect()
    return [r() is None for r in seen]


def finaliser_of_a_result(C):
    log = []

    class A:
        def __del__(self):
            log.append("gone")

    @C
    def f(x):
        a = A()
        y = x + 1
        del a
        log.append("behind")
        return y

    return f(X), f(X), log


def threads(C):
    f = C(functools.partial(lambda x, k: x * k, k=2))
    found = [None] * 4

    def work(k):
        for _ in range(3):
            found[k] = plain(f(X + k))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def tasks(C):
    @C
    async def f(x, k):
        y = x * k
        await asyncio.sleep(0)
        return y + k

    class A:
        @C
        async def m(self, x):
            return await f(x, 2) + 1

        @C
        async def __aenter__(self):
            return X

        @C
        async def __aexit__(self, *exc):
            return None

    async def main():
        async with A() as x:
            return await asyncio.gather(f(X, 2), f(X, 3), A().m(x), C(A().m)(x))

    return asyncio.run(main())


def asynchronous_generators(C):
    @C
    async def f(x):
        for k in range(2):
            x = x * 2
            yield x + k

    async def main():
        return [y async for y in f(X)]

    return asyncio.run(main()), inspect.isasyncgenfunction(f)


def context_variables(C):
    k = contextvars.ContextVar("k", default=1)
    f = C(lambda x: x * k.get())
    first = f(X)
    context = contextvars.copy_context()
    context.run(k.set, 5)
    return first, context.run(f, X), f(X)


def thread_locals(C):
    local = threading.local()
    local.k = 2
    f = C(lambda x: x * local.k)
    first, found = f(X), []

    def work():
        local.k = 7
        found.append(plain(f(X)))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    return first, found, f(X)


def generator_methods(C):
    @C
    def f(x):
        try:
            got = yield x + 1
            yield got * 2
        except KeyError:
            yield x * 100
        finally:
            yield x * 1000

    a, b, c = f(X), f(X), f(X)
    return (
        [next(a), a.send(X), next(a), outcome(next, a)],
        [next(b), b.throw(KeyError()), next(b)],
        [next(c), outcome(c.close)],
    )


def delegating_generators(C):
    @C
    def inner(x):
        got = yield x
        return got * 2

    @C
    def outer(x):
        result = yield from inner(x + 1)
        yield result

    g = outer(X)
    return next(g), g.send(X), inspect.isgeneratorfunction(outer)


def context_manager_of_a_compiled_generator(C):
    @contextlib.contextmanager
    @C
    def scaled(x, k):
        yield x * k

    with scaled(X, 2) as y:
        z = y + 1

    @C
    def f(x):
        with scaled(x, 3) as y:
            return y + 1

    return z, f(X)
