"""Small programs that are hard to rewrite: every construct that shapes the stack or the handlers.

`PROGRAMS` pairs each with arguments; what one does with them, values, exceptions and traceback
lines, must not depend on hooks. They are written to be hard, not to be read.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def with_arguments(*calls: tuple[Any, ...]) -> Callable[[Any], Any]:
    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.extend((program, arguments) for arguments in calls)
        return program

    return add


class Context:
    def __init__(self, log: list[Any], suppress: bool = False) -> None:
        self.log, self.suppress = log, suppress

    def __enter__(self) -> Context:
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append(("out", kind and kind.__name__, str(sys.exc_info()[1])))
        return self.suppress


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


@with_arguments((10,))
def imports_and_globals(n):
    import math
    from math import floor, sqrt as root

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
