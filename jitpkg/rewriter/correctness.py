"""`verify_correctness`: what was just compiled is compared with what the program itself does.

A new graph runs on copies of its inputs, compiled and op by op. A new entry for a whole call is
compared with the original code, which runs first, on copies of all that the call can reach; the
random streams begin in the same state for both.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from torch import fx

from jitpkg.code.analysis import slot_names
from jitpkg.comparison.copies import Copies
from jitpkg.comparison.differences import Tolerance, differences
from jitpkg.comparison.facts import Fact, Phrase, State
from jitpkg.comparison.running import Call, observe
from jitpkg.comparison.surroundings import Names, process_facts, same_process
from jitpkg.errors import IncorrectResult
from jitpkg.guards.sources import Globals, Source
from jitpkg.interrupts import from_outside
from jitpkg.rewriter.door import RETURN
from jitpkg.rewriter.entry import Entry
from jitpkg.rewriter.handover import Handover

_ROUNDING = Tolerance(epsilons=64)
"""So many units of a dtype's precision apart is still rounding."""

_IGNORED = ("version", "grad_fn", "traceback", "output", "errors", "warnings")
"""A copy begins with version 0; a backend may bring its own `grad_fn`; nothing is printed here."""

_MOST_SHOWN = 6


def verify_graph(
    name: str, plain: fx.GraphModule, compiled: Callable[..., Any], examples: Sequence[Any]
) -> None:
    """Compare a compiled graph with the graph.

    Raises:
        IncorrectResult: they do not do the same.
    """
    if not _is_defined(plain.graph):
        return
    runs = []
    for target in (plain.forward, compiled):
        with same_process():
            args = Copies().of(tuple(examples))
            runs.append(
                observe(target, [Call(args)], backward=False, signature_of=plain.forward)[0]
            )
    _check(f"The graph {name}", "the graph", *runs)


def verified(
    entry: Entry, handover: Handover, arguments: tuple[object, ...]
) -> tuple[int, Callable[..., Any] | None, Any]:
    """Run a new entry for the first time, and compare what it does with the original code.

    Raises:
        IncorrectResult: they do not do the same.
    """
    if entry.graph is not None and not _is_defined(entry.graph.graph):
        return entry.run(*arguments)  # type: ignore[no-any-return]
    given = dict(zip(handover.sources(), arguments, strict=True))
    function, call = _original_call(handover, given)
    names = Names([function, *call.args, *call.kwargs.values()])

    def describe(state: State, cells: tuple[CellType, ...]) -> None:
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            state.add(f"cell {name}", cell)
        names.describe(state)

    try:
        eager = _eager(function, call, names, describe)
    except Exception as error:  # there is something that cannot be copied
        if from_outside(error):
            raise
        return entry.run(*arguments)  # type: ignore[no-any-return]
    result = entry.run(*arguments)
    if result[0] == RETURN:
        state = State()
        for name, argument in _named(function, call).items():
            state.add(f"argument {name}", argument)
        describe(state, function.__closure__ or ())
        state.add("result", result[2])
        raised = Fact("result", "raised", Phrase("nothing"))
        compiled = [raised, *process_facts(), *state.facts]
        _check(f"The entry {entry.name}", "the original code", eager, compiled)
    return result  # type: ignore[no-any-return]


def _eager(
    function: FunctionType,
    call: Call,
    names: Names,
    describe: Callable[[State, tuple[CellType, ...]], None],
) -> list[Fact]:
    """What the original code does, done to copies."""
    copies = Copies()
    with same_process(), _quiet():
        try:
            names.install(copies)
            cells = tuple(map(copies.of, function.__closure__ or ()))
            again = FunctionType(function.__code__, function.__globals__, "copy", None, cells)
            args, kwargs = copies.of((call.args, dict(call.kwargs)))
            (facts,) = observe(
                again, [Call(args, kwargs)], lambda state: describe(state, cells), backward=False
            )
            return facts
        finally:
            names.restore()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    handle = logging.Logger.handle
    setattr(logging.Logger, "handle", lambda logger, record: None)  # noqa: B010
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        setattr(logging.Logger, "handle", handle)  # noqa: B010


def _is_defined(graph: fx.Graph) -> bool:
    """Whether no memory comes into it that was never written to."""
    return not any(
        "empty" in str(node.target) or "resize_" in str(node.target) for node in graph.nodes
    )


def _named(function: FunctionType, call: Call) -> dict[str, Any]:
    return inspect.signature(function).bind(*call.args, **call.kwargs).arguments


def _original_call(handover: Handover, given: dict[Source, object]) -> tuple[FunctionType, Call]:
    """The original function, and the arguments that the frame at its first hook was called with."""
    code = handover.points.code
    names = slot_names(code)
    globals_: Any = {}
    values: dict[str, Any] = {}
    for source, value in given.items():
        if isinstance(source, Globals):
            globals_ = value
        else:
            values[getattr(source, "name", "")] = value
    closure = tuple(values[name] for name in code.co_freevars)
    function = FunctionType(code, globals_, code.co_name, None, closure)
    return function, _arguments(code, names, values)


def _arguments(code: CodeType, names: Sequence[str], values: dict[str, Any]) -> Call:
    """A parameter that the code never reads is not handed over, and may be anything."""

    def value(name: str) -> Any:
        found = values.get(name)
        return found.cell_contents if isinstance(found, CellType) else found

    positional, keyword_only = code.co_argcount, code.co_kwonlyargcount
    args = tuple(map(value, names[:positional]))
    at = positional + keyword_only
    kwargs = {name: value(name) for name in names[positional:at]}
    if code.co_flags & inspect.CO_VARARGS:
        args += tuple(value(names[at]) or ())
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(value(names[at]) or {})
    return Call(args, kwargs)


def _check(what: str, like: str, eager: list[Fact], compiled: list[Fact]) -> None:
    found = differences(eager, compiled, _ROUNDING, _IGNORED)
    if not found:
        return
    lines = [f"{what} does not do what {like} does, for the call that it was compiled for:"]
    lines.extend(f"  {difference}" for difference in found[:_MOST_SHOWN])
    if len(found) > _MOST_SHOWN:
        lines.append(f"  … and {len(found) - _MOST_SHOWN} more")
    lines.append(
        "The compiled code is wrong: it was dropped. Please report it to those who wrote the"
        " backend, or to jitpkg where the backend is 'eager'."
    )
    raise IncorrectResult("\n".join(lines))
