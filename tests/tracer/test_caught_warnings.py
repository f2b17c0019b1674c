"""`warnings.catch_warnings` inside of a compiled function."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import jitpkg
from tests.tracer.nests import Drawn, nest

Program = Callable[..., Any]


def given() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 6).reshape(2, 3)


def nothing_warns(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x + 1
    return y * 2


def as_an_argument(x: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):
        y = x + 1
    return y * 2


def recorded(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        y = x + 1
    return y * 2, log, len(log)


def ignored(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("ignored", stacklevel=1)
        y = functional.softmax(x)  # which warns: no dim is given
    return y * 2


def filtered(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore")
        warnings.warn("ignored", DeprecationWarning, stacklevel=1)
        y = x.T.T
    return y * 2


def in_one_another(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with warnings.catch_warnings():
            warnings.warn("inherited", stacklevel=1)
            y = x + 1
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "other")
            y = y + 1
        warnings.warn("outer", stacklevel=1)
    return y * 2


def in_a_callee(x: Any) -> Any:
    def called(y: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("ignored", stacklevel=1)
            return y + 1

    return called(called(x)) * 2


def raises_inside(x: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            y = x + 1
            raise KeyError
    except KeyError:
        return y * 2


def warns_afterwards(x: Any) -> Any:
    """Python forgets by each block that it has shown a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x + 1
    warnings.warn("afterwards", stacklevel=1)
    return y * 2


ONE_GRAPH: tuple[Program, ...] = (
    *(nothing_warns, as_an_argument, recorded, ignored, filtered, in_one_another, in_a_callee),
    raises_inside,
)


def seen(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        warnings.warn("recorded", stacklevel=1)
        y = x + 1
    return y * 2, [str(each.message) for each in log]


def an_op_is_seen(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        y = functional.softmax(x)
    return y * 2, len(log)


def an_error(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = x + 1
        warnings.warn("an error", stacklevel=1)
    return y


def shown(x: Any) -> Any:
    with warnings.catch_warnings():
        y = x + 1
        warnings.warn("shown", stacklevel=1)
    return y


def ignored_by_class(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.warn("other", stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return x + 1


def appended(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", append=True)
        warnings.warn("shown", stacklevel=1)
        return x + 1


def reset(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.resetwarnings()
        warnings.warn("shown", stacklevel=1)
        return x + 1


def no_action(x: Any) -> Any:
    with warnings.catch_warnings():
        y = x + 1
        warnings.simplefilter("no such action")  # type: ignore[arg-type]
    return y


def entered_twice(x: Any) -> Any:
    block = warnings.catch_warnings()
    with block:
        y = x + 1
    with block:
        return y


def with_a_break(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x + 1
        print("inside")
        warnings.warn("ignored", stacklevel=1)
    return y * 2


def another_function(x: Any) -> Any:
    said = []
    with warnings.catch_warnings():
        warnings.showwarning = lambda *args: said.append(str(args[0]))  # type: ignore[assignment]
        warnings.simplefilter("always")
        warnings.warn("to a function", stacklevel=1)
        y = x + 1
    return y, said, warnings.showwarning.__module__


def filters_inside(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count = len(warnings.filters)
        y = x + 1
    return y, count - len(warnings.filters)


def outside(x: Any) -> Any:
    y = x + 1
    warnings.simplefilter("ignore")
    warnings.warn("ignored", stacklevel=1)
    return y


OTHERS: tuple[Program, ...] = (
    *(
        appended,
        reset,
        seen,
        an_op_is_seen,
        an_error,
        shown,
        ignored_by_class,
        no_action,
        entered_twice,
    ),
    *(warns_afterwards, with_a_break, another_function, filters_inside, outside),
)


def _run(program: Program, filters: str) -> list[Any]:
    """What three calls give, and what is shown besides."""
    vars(__import__(__name__, fromlist=["_"])).pop("__warningregistry__", None)
    program.__globals__.pop("__warningregistry__", None)
    made: list[Any] = []
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter(filters)  # type: ignore[arg-type]
        before = list(warnings.filters)
        for k in range(3):
            x = given()
            try:
                result = program(x)
                made.append(repr(result))
            except Exception as error:
                made += [type(error), str(error)]
            if k:  # what is imported to compile may add some
                made.append(list(warnings.filters) == before)
            warnings.filters[:] = before  # type: ignore[index]
    return [*made, [(str(each.message), each.category, each.lineno) for each in log]]


@pytest.mark.parametrize("filters", ["default", "always", "ignore"])
@pytest.mark.parametrize("program", [*ONE_GRAPH, *OTHERS], ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_as_eager_code(program: Program, filters: str, backend: str) -> None:
    expected = _run(program, filters)
    assert _run(jitpkg.compile(program, backend=backend), filters) == expected


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        jitpkg.compile(program, backend="eager", fullgraph=True)(given())


# Random blocks in one another

STATEMENTS: dict[str, Drawn] = {
    "op": lambda draw: draw.choice(["x = x + 1", "x = x * 2", "seen.append(x.sum())"]),
    "filter": lambda draw: (
        f"warnings.simplefilter({draw.choice(['ignore', 'ignore', 'always', 'default'])!r})"
        if draw.random() < 0.7
        else f"warnings.filterwarnings('ignore', {draw.choice(['', 'a', 'b'])!r})"
    ),
    "warn": lambda draw: f"warnings.warn({draw.choice('ab')!r}, stacklevel=1)",
}
CONTEXTS: dict[str, Drawn] = {
    "block": lambda draw: draw.choice(
        ["warnings.catch_warnings()"] * 3 + ["warnings.catch_warnings(action='ignore')"]
    ),
    "raise": lambda draw: "warnings.catch_warnings()",
}
KINDS = ("op", "op", "filter", "warn", "block", "block", "raise")


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed: int) -> None:
    lines = nest(random.Random(seed), 3, KINDS, STATEMENTS, CONTEXTS, "x")
    text = "\n    ".join(["def program(x):", "seen = []", *lines, "return x, seen"])
    namespace: dict[str, Any] = {"warnings": warnings, "__name__": "nest"}
    exec(compile(text, f"<nest {seed}>", "exec"), namespace)
    program = namespace["program"]
    filters = ("default", "always", "ignore")[seed % 3]
    expected = _run(program, filters)
    assert _run(jitpkg.compile(program, backend="eager"), filters) == expected, text
