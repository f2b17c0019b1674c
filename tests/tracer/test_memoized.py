"""Functions that `functools.lru_cache` wraps: their messages are written once, as eagerly."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch

import jitpkg
from tests.api.support import Counts
from tests.tracer.test_messages import LOG, X, outcome

Program = Callable[[Any], Any]


def check(make: Callable[[], Program], *, whole: bool = False, calls: int = 3) -> str:
    """A new function, with nothing remembered, each time; the text that was written."""
    backend = Counts()
    eager = outcome(make(), calls, "default")
    assert outcome(jitpkg.compile(make(), backend=backend), calls, "default") == eager
    if whole:
        assert len(backend.graphs) == 1
        assert outcome(jitpkg.compile(make(), fullgraph=True), calls, "default") == eager
    return eager[0]


def once() -> Any:
    @functools.lru_cache(None)
    def once(message, *args):
        LOG.warning(message, *args)

    return once


def test_a_message_is_written_once() -> None:
    def make() -> Program:
        say = once()

        def f(x):
            say("a")
            say("of %s", "b")
            say("a")
            return x.sin()

        return f

    assert check(make, whole=True).count("\n") == 2


class Speaker:
    @functools.lru_cache(maxsize=1)  # noqa: B019 (it is what is tested)
    def say(self, message):
        LOG.warning(message)


def test_methods_and_few_places() -> None:
    def make() -> Program:
        speakers = [Speaker(), Speaker()]

        def f(x):
            for speaker in speakers:
                speaker.say("a")
            return x + 1

        return f

    assert check(make, whole=True).count("\n") == 6


def test_the_order_with_other_messages_stays() -> None:
    def make() -> Program:
        say = once()

        def f(x):
            LOG.warning("first")
            say("second")
            LOG.warning("third")
            return x + 1

        return f

    assert check(make, whole=True).count("second") == 1


def test_what_is_remembered_already_is_not_written() -> None:
    def make() -> Program:
        say = once()
        before = jitpkg.disable(say)

        def f(x):
            if x[0] == 1:
                before("early")
            say("early")
            return x + 1

        return f

    assert check(make).count("early") == 1


def test_forgetting_is_noticed() -> None:
    def make() -> Program:
        say = once()

        def f(x):
            say.cache_clear()
            say("again")
            return x + 1

        return f

    assert check(make).count("again") == 3


def graphs_of(program: Program, calls: int = 3) -> tuple[list[int], Any]:
    """How many graphs each call has made, and what the last one gave."""
    backend = Counts()
    compiled = jitpkg.compile(program, backend=backend)
    counts = []
    for _ in range(calls):
        result = compiled(X.clone())
        counts.append(len(backend.graphs))
        backend.graphs.clear()
    return counts, result


def test_a_result_is_read_once_it_is_remembered() -> None:
    made = []

    @functools.lru_cache
    def build(n, *, scale=1.0):
        made.append(n)
        return torch.full((2,), n * scale)

    def f(x):
        y = x * 2
        return y + build(2, scale=0.5) + build(3), build(2, scale=0.5)

    counts, (total, kept) = graphs_of(f, 4)
    assert counts[-1] == 0 and made == [2, 3]
    assert kept is build(2, scale=0.5)
    assert torch.equal(total, X * 2 + 4)
    assert torch.equal(jitpkg.compile(f, fullgraph=True)(X)[0], total)
    info = build.cache_info()
    assert (info.misses, info.currsize) == (2, 2)


@pytest.mark.parametrize("maxsize", [None, 128, 1, 0])
@pytest.mark.parametrize("typed", [False, True])
def test_results_of_every_cache(maxsize: int | None, typed: bool) -> None:
    """Constants, tensors, containers and objects, which the program writes to, and who is who."""

    def make() -> Program:
        made: list[Any] = []

        @functools.lru_cache(maxsize=maxsize, typed=typed)
        def build(kind, n=1):
            made.append((kind, n))
            return {
                "number": n + 1,
                "text": f"{n}",
                "list": [n],
                "tensor": torch.ones(2) * n,
                "none": None,
                "class": float,
                "nested": {"n": (n, [torch.ones(2)])},
            }[kind]

        def f(x):
            y = x * build("number")
            numbers = build("list", 2)
            numbers.append(3)
            y = y + build("tensor").add_(1) + len(numbers) + build("tensor", True)
            nested = build("nested", n=2)
            nested["n"][1][0].mul_(2)
            same = build("list", 2) is numbers, build("tensor") is build("tensor")
            text = build("text", 1.0) + build("text", True) + build("text")
            return y, text, nested, same, build("none"), build("class"), list(made)

        return f

    check(make, calls=5)


def test_a_cache_that_is_cleared_or_full() -> None:
    def make() -> Program:
        made: list[int] = []

        @functools.lru_cache(maxsize=2)
        def build(n):
            made.append(n)
            return torch.ones(2) * (n + len(made))

        step = [0]
        later = jitpkg.disable(build)

        def f(x):
            y = x + build(1)
            step[0] += 1
            if step[0] % 3 == 0:
                build.cache_clear()
            if step[0] % 4 == 0:
                later(2), later(3), later(4)
            return y * 2, list(made)

        return f

    check(make, calls=14)


def test_results_of_methods_and_of_objects() -> None:
    def make() -> Program:
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))

            @functools.lru_cache  # noqa: B019 (it is what is tested)
            def mask(self, n, dtype):
                return torch.arange(n, dtype=dtype) * self.weight.detach()

            def forward(self, x):
                return (
                    x * self.weight + self.mask(2, torch.float32)
                ).sum() + self.mask.cache_info()[1]

        return Model()

    check(make, calls=4)


def test_what_raises_is_not_remembered() -> None:
    def make() -> Program:
        calls: list[int] = []

        @functools.cache
        def build(n):
            calls.append(n)
            if len(calls) < 3:
                raise ValueError(len(calls))
            return n

        def f(x):
            try:
                return x + build(2), len(calls)
            except ValueError as error:
                return x - 1, str(error), len(calls)

        return f

    check(make, calls=6)


def test_a_key_that_runs_code_is_a_break() -> None:
    def make() -> Program:
        class Key:
            def __init__(self, n):
                self.n = n

            def __hash__(self):
                return self.n

            def __eq__(self, other):
                return self.n == other.n

        keys = [Key(1), Key(1)]
        build = functools.lru_cache(lambda key: [key.n])

        def f(x):
            return x + len(build(keys[0])), build(keys[0]) is build(keys[1])

        return f

    check(make)


def test_what_is_marked_as_constant_is_called() -> None:
    """As libraries mark what they ask for: whether something is installed."""
    calls = []

    @functools.lru_cache
    @torch.compiler.assume_constant_result
    def is_available(name):
        calls.append(name)
        return name == "torch"

    def f(x):
        return x + 1 if is_available("torch") else x - 1

    assert torch.equal(jitpkg.compile(f, fullgraph=True)(X), X + 1)
    assert calls == ["torch"] and is_available.cache_info().currsize == 1


@pytest.mark.parametrize("maxsize", [None, 8])
def test_beside_many_guards(maxsize: int | None) -> None:
    """Which are one native function."""

    def make() -> Program:
        made: list[int] = []

        @functools.lru_cache(maxsize)
        def build(n, *, dtype=torch.float32):
            made.append(n)
            return torch.full((2,), n, dtype=dtype)

        model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(12)))
        for k, parameter in enumerate(model.parameters()):
            torch.nn.init.constant_(parameter, 0.1 * k)
        step = [0]

        def f(x):
            step[0] += 1
            if step[0] == 4:
                build.cache_clear()
            if step[0] == 7:
                build(5), build(6), build(7)
            return model(x) + build(2) + build(3, dtype=torch.float64), list(made)

        return f

    check(make, calls=10)


def test_a_large_bounded_cache_is_left_to_python() -> None:
    build = functools.lru_cache(10_000)(lambda n: n)
    build(2)

    def f(x):
        return x.sin() + build(2)

    counts, result = graphs_of(f)
    assert counts[0] == 2 and torch.equal(result, X.sin() + 2)


def test_another_result_is_noticed() -> None:
    source = [1]
    build = functools.lru_cache(lambda: source[0])

    def f(x):
        return x + build()

    compiled = jitpkg.compile(f)
    for number in (1, 2, 3):
        source[0] = number
        for _ in range(3):
            assert torch.equal(compiled(X), X + number)
        source[0] = 9
        assert torch.equal(compiled(X), X + number)
        build.cache_clear()


def test_a_list_that_is_remembered_is_changed() -> None:
    def make() -> Program:
        made = []

        @functools.lru_cache
        def build(n):
            made.append(n)
            return [n]

        def f(x):
            numbers = build(2)
            numbers.append(3)
            return x + len(numbers) + len(made)

        return f

    check(make)


def test_what_does_more_than_write_is_a_break() -> None:
    def make() -> Program:
        calls = []

        @functools.lru_cache
        def note(message):
            calls.append(message)
            LOG.warning(message)

        def f(x):
            y = x.sin()
            note("a")
            note("b")
            return y + len(calls)

        return f

    check(make)


def test_what_raises_is_a_break() -> None:
    def make() -> Program:
        state = {"fails": True}

        @functools.lru_cache
        def fragile(message):
            if state["fails"]:
                raise ValueError(message)
            LOG.warning(message)

        def f(x):
            y = x.sin()
            try:
                fragile("a")
            except ValueError:
                state["fails"] = False
                y = y + 1
            return y

        return f

    assert check(make).count("\n") == 1


def test_messages_that_name_the_caller_are_breaks() -> None:
    def make() -> Program:
        @functools.lru_cache
        def say(message):
            LOG.warning(message, stacklevel=2)

        def f(x):
            y = x.sin()
            say("a")
            return y + 1

        return f

    check(make)


def test_sometimes_something() -> None:
    def make() -> Program:
        @functools.lru_cache
        def maybe(n):
            LOG.warning("asked")
            return n if n > 1 else None

        def f(x):
            y = x.sin()
            return y * (maybe(1) or 3) * (maybe(2) or 5)

        return f

    assert check(make).count("\n") == 2


def test_tensors_are_not_remembered_while_tracing() -> None:
    def make() -> Program:
        @functools.lru_cache
        def say(x):
            LOG.warning("seen")

        kept = torch.ones(2)

        def f(x):
            y = x.sin()
            say(kept)
            return y + 1

        return f

    check(make)


def test_what_is_remembered_needs_nobody_who_listens() -> None:
    """A handler of the program's own would see a message; there is none."""

    class Listening(logging.Handler):
        def emit(self, record):
            raise AssertionError(record)

    say = once()
    LOG.disabled = True
    say("early")
    LOG.disabled = False
    handler = Listening()
    LOG.addHandler(handler)
    try:

        def f(x):
            say("early")
            return x + 1

        assert torch.equal(jitpkg.compile(f, fullgraph=True)(X), X + 1)
        hits = say.cache_info().hits
        say("early")
        assert say.cache_info().hits == hits + 1 == 2
    finally:
        LOG.removeHandler(handler)


def test_what_it_remembers_of_functions_in_c() -> None:
    """As libraries ask what a method of tensors, or an attribute, returns."""

    def make() -> Program:
        @functools.cache
        def about(function: Any) -> tuple[str, str]:
            return function.__name__, type(function).__name__

        def f(x):
            asked = torch.Tensor.max, torch.relu, torch.Tensor.shape.__get__, torch.Tensor.__add__
            return x + 1, [about(each) for each in (*asked, torch.Tensor.shape)]

        return f

    check(make, whole=True)
