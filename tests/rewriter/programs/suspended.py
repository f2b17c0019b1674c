"""Imports, generators, coroutines, and objects that die on time."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from tests.rewriter.programs.common import Context, with_arguments


@with_arguments((10,))
def imports_and_globals(n):
    import math
    from math import floor
    from math import sqrt as root

    global _a_global
    _a_global = floor(root(n))
    value = _a_global
    del _a_global
    try:
        return value, _a_global
    except NameError as e:
        return value, str(e), math.pi


@with_arguments((3,), (0,))
def generator_protocol(n):
    log = []

    def sub(n):
        try:
            got = yield "sub"
            log.append(("sub got", got))
            return n
        except ValueError:
            return "sub caught"
        finally:
            log.append("sub ends")

    def main(n):
        try:
            for i in range(n):
                try:
                    x = yield i
                except KeyError as e:
                    yield ("caught", str(e), type(sys.exc_info()[1]).__name__)
                    x = 0
                if x:
                    yield [x] * x
            with Context(log):
                r = yield from sub(n)
            return r
        finally:
            yield "fin"

    for script in ("nnnnnnnnnn", "n3nnknnnn", "nnnnnvnnn", "nnncn", "ncn", "cn", "nkvn", "nnnn3n"):
        g = main(n)
        for op in script:
            try:
                if op == "n":
                    log.append(next(g))
                elif op == "c":
                    log.append(g.close())
                elif op == "3":
                    log.append(g.send(3))
                else:
                    log.append(g.throw(KeyError("k") if op == "k" else ValueError("v")))
            except BaseException as e:
                log.append((type(e).__name__, str(e), getattr(e, "value", 0)))
            log.append((g.gi_running, g.gi_frame is None))
            log.append(g.gi_yieldfrom and g.gi_yieldfrom.__name__)
    return log


@with_arguments((3,))
def generators_in_loops(n):
    def flatten(tree):
        for x in tree:
            if isinstance(x, list):
                yield from flatten(x)
            else:
                got = yield x
                if got:
                    yield got

    nested = [1, [2, [3, [n]], []], 4]
    squares = (x * y for x in range(n) for y in flatten(nested) if y != 2)
    left = [a for a, b in zip(flatten(nested), squares, strict=False)]
    return left, list(squares), sum(flatten(nested))


def drive(coroutine: Any) -> Any:
    """Run a coroutine that awaits nothing but its own kind."""
    try:
        while True:
            coroutine.send(None)
    except StopIteration as e:
        return e.value


@with_arguments((3,), (0,))
def coroutines(n):
    log = []

    class Async:
        async def __aenter__(self):
            log.append(await sub("enter"))
            return self

        async def __aexit__(self, kind, value, tb):
            log.append(("exit", kind and kind.__name__))
            return kind is KeyError

    class Suspend:
        def __await__(self):
            try:
                log.append((yield))
            except ValueError as e:
                log.append(str(e))
            return "woken"

    async def sub(x):
        log.append(await Suspend())
        return x

    async def numbers(n) -> AsyncIterator[int]:
        for i in range(n):
            try:
                yield await sub(i)
            finally:
                log.append("fin")

    async def main():
        async with Async() as a:
            async for q in numbers(n):
                if q == 2:
                    break
                log.append(q)
            else:
                log.append("else")
            log.append([z async for z in numbers(2)])
            log.append({await sub(z): z for z in range(2)})
            if n:
                raise KeyError(n)
        return isinstance(a, Async), await sub(n)

    result = drive(main())
    interrupted = main()
    interrupted.send(None)
    try:
        interrupted.throw(ValueError("thrown"))
        interrupted.throw(OSError("again"))
    except OSError as e:
        log.append(str(e))
    return result, log


@with_arguments((2,))
def async_generator_protocol(n):
    log = []

    async def numbers():
        try:
            while True:
                try:
                    got = yield len(log)
                    log.append(got)
                except KeyError:
                    log.append("key")
        finally:
            log.append("closed")

    async def main():
        g = numbers()
        await g.asend(None)
        await g.asend("s")
        await g.athrow(KeyError())
        await g.aclose()
        return [x async for x in g]

    return drive(main()), log


@with_arguments((3,))
def context_managers_from_generators(n):
    log = []

    @contextlib.contextmanager
    def tagged(tag) -> Iterator[str]:
        log.append(tag)
        try:
            yield tag
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append(tag * 2)

    for i in range(n):
        with tagged("a") as a, tagged("b"):
            if i:
                raise ValueError(i)
            log.append(a)
    with contextlib.suppress(KeyError), tagged("c"):
        raise KeyError
    return log


class Noted:
    def __init__(self, log: list[Any], name: object) -> None:
        self.log, self.name = log, name

    def __del__(self) -> None:
        self.log.append(self.name)


@with_arguments((3,))
def objects_die_on_time(n):
    log = []
    x = Noted(log, "x")
    log.append("before")
    del x
    log.append("deleted")
    y = Noted(log, "y")
    y = None
    log.append("rebound")
    for k in range(n):
        z = Noted(log, k)
        log.append(("made", k))
    log.append([Noted(log, "temporary")] and None)
    try:
        w = Noted(log, "w")
        raise ValueError(w)
    except ValueError:
        del w
        log.append("handled")
    log.append("end of handler")

    def inner(argument):
        log.append("argument")
        del argument
        log.append("dropped")

    inner(Noted(log, "argument dies"))
    return log, y, z.name


@with_arguments((1,))
def object_dies_in_the_frame(n):
    class Thing:
        pass

    def once(make):
        x = make()
        r = weakref.ref(x)
        del x
        gc.collect(0)
        return r()

    def rebound(x):
        r = weakref.ref(x)
        x = n
        return r() is None, x

    return once(Thing), rebound(Thing())[1]


@with_arguments((0,), (2,))
def recursion(n):
    def down(k):
        try:
            return [k, down(k - 1)] if k else 1 // k
        except ZeroDivisionError as e:
            if n:
                raise ValueError(k) from e
            return str(e)
        finally:
            k = None

    return down(n)


@with_arguments((1,))
def nested_handlers_at_one_line(n):
    log = []
    try:
        try:
            try:
                raise KeyError(n)
            finally:
                log.append(repr(sys.exc_info()[1]))
        except KeyError:
            try:
                raise TypeError from None
            except TypeError as e:
                log.append((repr(e.__context__), e.__suppress_context__))
                raise
    except TypeError as e:
        for _ in range(2):
            try:
                log.append(repr(sys.exc_info()[1]))
                raise e
            except TypeError:
                continue
    return log, sys.exc_info()


@with_arguments((2,))
def exceptions_in_loops_in_handlers(n):
    log = []
    for i in range(3):
        try:
            raise ValueError(i)
        except ValueError:
            for j in range(3):
                try:
                    if j == n:
                        raise KeyError(j)
                    if j == 1:
                        continue
                    log.append((i, j, repr(sys.exc_info()[1])))
                except KeyError as e:
                    log.append(repr(e.__context__))
                    break
                finally:
                    log.append(repr(sys.exc_info()[1]))
    return log


@with_arguments((1,))
def annotations_and_defaults(n):
    def f(a: int, /, b: str = "b", *, c: float = 1.0) -> tuple[int, str]:
        d: int = a
        return d, b, c, sorted(f.__annotations__)

    class C:
        x: int = n

        def get(self, /, y=n):
            return self.x, y

    return f(n, c=2), C().get(), C.__annotations__


def _many_locals() -> Callable[..., Any]:
    """A function with 300 locals, long jumps, and cells and free variables behind them."""
    names = [f"v{k}" for k in range(300)]
    lines = [
        "def outer(n):",
        "    free = n",
        "    def many_locals(n, log):",
        "        cell = n",
        "        get = lambda: (cell, free)",
        *(f"        {name} = n + {k}" for k, name in enumerate(names)),
        "        for i in range(3):",
        "            try:",
        "                if i == n:",
        "                    raise ValueError(v299)",
        *(f"                log.append(v{k} + v{k + 100} * i)" for k in range(0, 200, 2)),
        "                if i < 1: continue",
        "                del v298",
        "            except ValueError as e:",
        "                log.append((str(e), get()))",
        "            except UnboundLocalError as e:",
        "                log.append(str(e))",
        "        return sum(log[:20]), len(locals()), get(), [v297 for v297 in (v1, v2)], v297",
        "    return many_locals(n, [])",
    ]
    namespace: dict[str, Any] = {}
    exec(compile("\n".join(lines), __file__, "exec"), namespace)
    return namespace["outer"]


many_locals = _many_locals()
"""Too large for hooks at each of its points."""
