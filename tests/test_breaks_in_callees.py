"""A break in an inlined function: the graph ends there, and each frame goes on in its middle."""

from __future__ import annotations

import contextlib
import functools
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events

Program = Callable[..., Any]


class Counted:
    """Counts graphs, and the depths of frames at breaks."""

    def __init__(self) -> None:
        self.graphs = 0
        self.depths: list[int] = []

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.GraphCompiled():
                self.graphs += 1
            case events.Broke():
                self.depths.append(len(event.graph_break.stack))


@pytest.fixture
def counted() -> Iterator[Counted]:
    listener = Counted()
    with events.STREAM.listening(listener):
        yield listener


def shown(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("sum", y.sum().item())
    return y + 1


def middle(x: torch.Tensor, *, scale: float = 3.0) -> torch.Tensor:
    z = x + scale
    w = shown(z)
    return w * z


def test_each_frame_goes_on_compiled(counted: Counted, capsys: pytest.CaptureFixture[str]) -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        a = x - 1
        b = middle(a, scale=2.0)
        return b * a

    x = torch.ones(3)
    expected = outer(x)
    compiled = jitpkg.compile(outer)
    for _ in range(3):
        assert torch.equal(compiled(x), expected)
    assert capsys.readouterr().out == "sum 12.0\n" * 4
    assert counted.depths == [3]  # the print in `shown`
    assert counted.graphs == 4  # up to the print, and what is left of each function


def test_nothing_before_the_break_runs_twice(counted: Counted) -> None:
    log: list[str] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        log.append("inner")
        if x.sum() > 0:
            return x + 1
        return x - 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        log.append("outer")
        return inner(x * 2) * 3

    compiled = jitpkg.compile(outer)
    for value in (1.0, -1.0, 1.0, -1.0):
        log.clear()
        result = compiled(torch.full((2,), value))
        assert log == ["outer", "inner"]
        assert torch.equal(result, outer(torch.full((2,), value)))
    assert counted.depths == [2]


def variadic(*args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
    total = sum(args, start=torch.zeros(2))
    print(float(total.sum()), sorted(kwargs))
    for value in kwargs.values():
        total = total * value
    return total


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def method(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.scale
        print(y.tolist())
        self.scale += 1
        return y + self.scale

    def __call__(self, x: torch.Tensor, *, more: float = 1.0) -> torch.Tensor:
        y = x + more
        print(y.tolist())
        return self.method(y) - more

    @classmethod
    def of(cls, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print(cls.__name__, y.tolist())
        return y * 2

    @staticmethod
    def static(x: torch.Tensor, k: int = 2) -> torch.Tensor:
        y = x + k
        print(k, y.tolist())
        return y * k


def keywords(x: torch.Tensor) -> torch.Tensor:
    return variadic(x, x + 1, a=x, b=x * 2) + 1


def spread(x: torch.Tensor) -> torch.Tensor:
    pair, named = [x, x * 2], {"values": x, "self": x + 1}
    return variadic(*pair, **named) + variadic(*pair) + len(pair)


def methods(x: torch.Tensor) -> list[Any]:
    scaled = Scaled(2.0)
    return [scaled.method(x), scaled(x, more=3.0), scaled.scale, Scaled.of(x), scaled.static(x)]


def existing(x: torch.Tensor, scaled: Scaled) -> tuple[torch.Tensor, float]:
    return scaled(x) * 2, scaled.scale


def partial(x: torch.Tensor) -> torch.Tensor:
    half = functools.partial(Scaled.static, k=5)
    return half(x) + half(x + 1)


def cells(x: torch.Tensor) -> tuple[torch.Tensor, int, list[int]]:
    count, seen = 0, []

    def add(y: torch.Tensor, step: int) -> torch.Tensor:
        nonlocal count
        count += step
        z = y * count
        later = lambda: count + step  # noqa: E731
        print(z.tolist())
        seen.append(later())
        count += 1
        return z + later()

    return add(x, 2) + add(x, 3), count, seen


def loops(x: torch.Tensor) -> torch.Tensor:
    def walk(rows: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for k, row in enumerate([rows, rows + 1, rows + 2]):
            if row.sum() > 5:
                total = total + row.sum() * k
            else:
                total = total - k
        return total

    return sum((walk(x + k) for k in range(3)), start=torch.zeros(()))


def nested_loops(x: torch.Tensor) -> torch.Tensor:
    for k in range(4):
        x = middle(x, scale=k) / 2
    return x


def recursion(x: torch.Tensor, depth: int = 4) -> torch.Tensor:
    y = x + depth
    if depth == 0:
        print("bottom", y.tolist())
        return y
    below = recursion(y * 2, depth - 1)
    return below - y


def no_grad(x: torch.Tensor) -> list[Any]:
    @torch.no_grad()
    def frozen(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        print(z.tolist(), torch.is_grad_enabled())
        return z + 1

    def partly(y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            z = y * 2
            print(z.tolist(), torch.is_grad_enabled())
            z = z + 1
        return z * y

    leaf = x.clone().requires_grad_()
    a, b = frozen(leaf), partly(leaf)
    (grad,) = torch.autograd.grad(b.sum(), leaf)
    return [a, a.requires_grad, b, b.requires_grad, grad, torch.is_grad_enabled()]


class Manager:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> Manager:
        self.log.append("enter")
        return self

    def __exit__(self, *exc: object) -> bool:
        self.log.append(f"exit {exc[0]}")
        return True


def user_context(x: torch.Tensor) -> list[Any]:
    log: list[str] = []

    def inside(y: torch.Tensor) -> torch.Tensor:
        z = y
        with Manager(log):
            z = y * 2
            print(z.tolist())
            z = z + 1
            if z.sum() > 3:
                raise ValueError("large")
            z = z * 10
        return z + 1

    return [inside(x), inside(x - 10), log]


def handlers(x: torch.Tensor) -> list[Any]:
    log: list[str] = []

    def risky(y: torch.Tensor) -> torch.Tensor:
        try:
            z = y * 2
            if z.sum() > 3:
                raise KeyError("large")
        except KeyError as error:
            log.append(repr(error))
            print("handled")
            return y - 1
        finally:
            log.append("finally")
            print("finally")
        return z

    return [risky(x), risky(x - 10), log]


def raised_through(x: torch.Tensor) -> list[Any]:
    def fails(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        print(z.tolist())
        raise ValueError(f"sum {z.sum().item()}")

    try:
        return [fails(x)]
    except ValueError as error:
        return [str(error), [frame.name for frame in traceback.extract_tb(error.__traceback__)]]


def generators(x: torch.Tensor) -> list[Any]:
    def numbers(n: int) -> Iterator[torch.Tensor]:
        for k in range(n):
            y = x * k
            print(k)
            yield y + 1

    def total(values: Iterator[torch.Tensor]) -> torch.Tensor:
        result = x
        for value in values:
            result = result + value
        return result

    return [total(numbers(3)), [t + 1 for t in numbers(2)]]


def comprehension(x: torch.Tensor) -> list[Any]:
    def one(k: int) -> torch.Tensor:
        y = x + k
        print(k)
        return y * k

    return [one(k) for k in range(3)]


def frames(x: torch.Tensor) -> list[Any]:
    def who(y: torch.Tensor) -> list[Any]:
        z = y + 1
        names = [sys._getframe(k).f_code.co_name for k in range(2)]
        return [z * 2, names]

    return who(x * 2)


def local_names(x: torch.Tensor) -> list[Any]:
    def inside(y: torch.Tensor, unused: int = 7) -> list[Any]:
        z = y * 2
        return [sorted(locals()), z + 1]

    return inside(x + 1)


def warns(x: torch.Tensor) -> list[Any]:
    def inside(y: torch.Tensor) -> torch.Tensor:
        z = y * 2
        warnings.warn("careful", stacklevel=2)
        return z

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = inside(x)
    line = sys._getframe().f_lineno - 1
    return [result, [(w.filename == __file__, line - w.lineno) for w in caught]]


def mutation(x: torch.Tensor) -> list[Any]:
    def change(items: list[torch.Tensor], table: dict[str, torch.Tensor]) -> torch.Tensor:
        items.append(items[0] * 2)
        table["a"] = items[-1]
        items[0].add_(1)
        print(len(items), sorted(table))
        items.append(table["a"] + 1)
        return items[0]

    items, table = [x.clone()], dict[str, torch.Tensor]()
    first = change(items, table)
    return [first, items, table, first is items[0], table["a"] is items[1]]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, *, flag: bool = True) -> torch.Tensor:
        y = self.linear(x)
        print(flag, y.shape)
        return torch.relu(y) + x


def modules(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    block = Block()
    return block(block(x), flag=False)


def decorated(x: torch.Tensor) -> torch.Tensor:
    def twice(function: Program) -> Program:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) + function(*args, **kwargs)

        return wrapper

    @twice
    def inner(y: torch.Tensor, k: int = 1) -> torch.Tensor:
        z = y + k
        print(z.tolist())
        return z * 2

    return inner(x, k=3)


def stack_values(x: torch.Tensor) -> Any:
    return x.sum() + (x[0] * [shown(x), x][0].sum()) - max(1, 2) * shown(x + 1).sum()


def polyfilled(x: torch.Tensor) -> Any:
    def key(k: int) -> float:
        return (x * k).sum().item()

    return sorted([3, 1, 2], key=key), max([1, 2, 3], key=key), list(map(key, [1, 2]))


PROGRAMS: list[Program] = [
    keywords,
    spread,
    methods,
    lambda x: existing(x, Scaled(4.0)),
    partial,
    cells,
    loops,
    nested_loops,
    recursion,
    no_grad,
    user_context,
    handlers,
    raised_through,
    generators,
    comprehension,
    frames,
    local_names,
    warns,
    mutation,
    modules,
    decorated,
    stack_values,
    polyfilled,
]


def outcome(function: Program) -> list[str]:
    """Everything that can be seen of two calls."""
    found = []
    for values in ([1.0, 2.0], [-1.0, 0.5]):
        torch.manual_seed(0)
        try:
            found.append(repr(function(torch.tensor(values))))
        except Exception as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            found.append(f"{error!r} {names[1:]}")
    return found


@pytest.mark.parametrize("forced", [{}, {"disturb": "break"}], ids=["", "anywhere"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_eager(
    program: Program, forced: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = outcome(program), capsys.readouterr().out
    compiled = jitpkg.compile(program)
    with jitpkg.config.patch(**forced):
        for _ in range(3):
            assert (outcome(compiled), capsys.readouterr().out) == expected


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_broken_before_some_points(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    expected = outcome(program), capsys.readouterr().out
    for k in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
        with jitpkg.config.patch(disturb=f"break:{k}"):
            compiled = jitpkg.compile(program)
            assert (outcome(compiled), capsys.readouterr().out) == expected, k
            assert (outcome(compiled), capsys.readouterr().out) == expected, k


def test_whoever_looks_sees_no_resume_functions_frame() -> None:
    expected = outcome(frames)
    for k in range(45):
        with jitpkg.config.patch(disturb=f"break:{k}"):
            compiled = jitpkg.compile(frames)
            assert [outcome(compiled) for _ in range(3)] == [expected] * 3, k


def test_traceback_is_that_of_eager_code() -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            y = y + torch.ones(5)
        return y

    def outer(x: torch.Tensor) -> torch.Tensor:
        z = x + 1
        return inner(z) * 2

    def frames_of(function: Program) -> list[tuple[str, int | None, str | None]]:
        with pytest.raises(RuntimeError) as caught:
            function(torch.ones(3))
        found = traceback.extract_tb(caught.value.__traceback__)[1:]
        return [(frame.name, frame.lineno, frame.line) for frame in found]

    expected = frames_of(outer)
    compiled = jitpkg.compile(outer)
    for _ in range(3):
        assert frames_of(compiled) == expected


def test_objects_die_when_the_program_drops_them() -> None:
    events_seen: list[str] = []

    class Noisy:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            events_seen.append(f"del {self.name}")

    def inner(x: torch.Tensor, noisy: Noisy) -> torch.Tensor:
        y = x * 2
        events_seen.append(f"use {noisy.name} {y.sum().item()}")
        del noisy
        events_seen.append("behind")
        return y + 1

    def outer(x: torch.Tensor, make: Callable[[str], Noisy]) -> torch.Tensor:
        z = x + 1
        return inner(z, make("a")) + 1

    def seen(function: Program) -> list[str]:
        events_seen.clear()
        function(torch.ones(2), Noisy)
        events_seen.append("end")
        return list(events_seen)

    expected = seen(outer)
    compiled = jitpkg.compile(outer)
    for _ in range(3):
        assert seen(compiled) == expected


def test_functions_without_tensors_get_their_own_code_back() -> None:
    def inner(words: list[str]) -> int:
        with contextlib.suppress(ValueError):
            return int(input_of(words))
        return 0

    def input_of(words: list[str]) -> str:
        return str(eval(words[0]))

    def outer(words: list[str]) -> int:
        return inner(words) + 1

    code = outer.__code__
    jitpkg.jit(outer)
    for _ in range(50):
        assert outer(["1 + 1"]) == 3
    assert outer.__code__ is code


def test_fullgraph_names_the_line_in_the_callee() -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        return middle(x)

    with pytest.raises(jitpkg.errors.GraphBreak, match=r"y\.sum\(\)\.item\(\)"):
        jitpkg.compile(outer, fullgraph=True)(torch.ones(2))
