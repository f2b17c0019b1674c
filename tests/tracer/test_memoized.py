"""Functions that `functools.lru_cache` wraps: their messages are written once, as eagerly."""

import functools
from collections.abc import Callable
from typing import Any

import torch

import jitpkg
from tests.api.support import Counts
from tests.tracer.test_messages import LOG, outcome

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


def test_a_result_is_a_break() -> None:
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
