"""Cases in which something that a function read changes between two calls.

A case is a generator function: it takes a compiler, compiles a function, calls it and yields the
result, changes something, calls again, and so on. It runs eagerly and compiled, each time from its
own beginning, and every yielded value must be the same. How many entries exist after each yield
tells that something was compiled, that the change was seen, and that the way back was free.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events, native
from jitpkg.errors import JitpkgWarning
from jitpkg.guards import table
from jitpkg.internals import c_guards

Compiler = Callable[[Any], Any]
Case = Callable[[Compiler], Iterator[Any]]
Way = Callable[[Case], Iterator[Any]]

X = torch.tensor([1.0, 2.0])


def described(value: object) -> object:
    """Everything that a program can see of a value, as something to compare."""
    match value:
        case torch.Tensor():
            return _tensor(value)
        case list() | tuple() | set() | frozenset():
            return type(value).__name__, [described(item) for item in value]
        case dict():
            return type(value).__name__, [(k, described(v)) for k, v in value.items()]
        case None | bool() | int() | float() | complex() | str() | bytes():
            return type(value).__name__, repr(value)
        case _:
            return type(value).__name__


def _tensor(t: torch.Tensor) -> object:
    facts = (type(t).__name__, t.dtype, t.device.type, tuple(t.shape), t.requires_grad)
    graph = type(t.grad_fn).__name__
    if t.device.type == "meta":
        return *facts, t.stride(), graph
    plain = t.detach().resolve_conj().resolve_neg()
    return *facts, t.stride(), graph, t.is_inference(), repr(plain.tolist())


def outcome(f: Callable[..., object], *args: object, **kwargs: object) -> object:
    """The result, or the exception's class and message."""
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


class Traces:
    """Counts traces, each of which makes an entry; a mistake of jitpkg's own fails the test."""

    def __init__(self) -> None:
        self.count = 0
        self.graphs = 0
        self.why: list[str] = []

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Traced():
                self.count += 1
            case events.GraphCompiled():
                self.graphs += 1
            case events.Recompiled(reasons=reasons):
                self.why.append(f"compiled again, for {reasons[-1]}")
            case events.Broke(graph_break=graph_break):
                self.why.append(f"broke: {graph_break.title()}")
            case events.FellBack(error=error):
                raise error


def in_place(case: Case) -> Iterator[Any]:
    with without_tables():
        yield from case(jitpkg.jit)


def as_twin(case: Case) -> Iterator[Any]:
    return case(jitpkg.compile)


def by_text(case: Case) -> Iterator[Any]:
    """With the guards' own text in the place of torch's C functions."""
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", JitpkgWarning)
        for row in (c_guards.TENSORS, c_guards.GLOBAL_STATE, c_guards.DICT_VERSION):
            stack.enter_context(row.removed())
        stack.enter_context(without_tables())
        yield from case(jitpkg.jit)


def by_table(case: Case) -> Iterator[Any]:
    """With native code, for a single guard, too."""
    if native.start() is not None:
        pytest.skip("needs llvmlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "FEWEST_TENSORS", 1)
        yield from case(jitpkg.jit)


@contextmanager
def without_tables() -> Iterator[None]:
    """With Python code for all guards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "evaluator", lambda *, start: None)
        yield


WAYS = (in_place, as_twin, by_text, by_table)


def check(case: Case, way: Way, entries: tuple[int, ...] | None) -> None:
    """Run a case eagerly and compiled, and compare; None leaves open how many entries are made."""
    expected = [described(value) for value in case(lambda f: f)]
    traces, found, counts = Traces(), [], []
    with events.STREAM.listening(traces):
        for value in way(case):
            found.append(described(value))
            counts.append(traces.count)
            assert traces.graphs, "nothing was compiled"
    assert found == expected
    assert entries is None or tuple(counts) == entries, "\n".join(traces.why)


def entries(*counts: int | None) -> Callable[[Case], Callable[..., None]]:
    """A test of a case: so many entries exist after each of its yields; None: never mind."""

    def decorate(case: Case) -> Callable[..., None]:
        @pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
        def test(way: Way) -> None:
            check(case, way, None if counts == (None,) else counts)

        test.__name__ = test.__qualname__ = case.__name__
        test.__doc__ = case.__doc__
        return test

    return decorate


seen_and_back = entries(1, 2, 2)
"""A change makes another entry; the way back finds the first one."""

unnoticed = entries(1, 1)
"""What is no change makes no entry."""
