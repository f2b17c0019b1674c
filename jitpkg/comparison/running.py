"""One run of a program: its calls are made, and everything that can be seen becomes facts."""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise, zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from jitpkg.comparison.facts import Fact, Phrase, State
from jitpkg.comparison.surroundings import process_facts
from jitpkg.dataclass import dataclass
from jitpkg.errors import JitpkgError, JitpkgWarning
from jitpkg.interrupts import of_handler


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class _Raised:
    error: BaseException


Describe = Callable[[State], None]
"""Adds what else there is to see."""


def observe(
    target: Callable[..., Any],
    calls: Sequence[Call],
    describe: Describe = lambda state: None,
    *,
    signature_of: Callable[..., Any] | None = None,
    backward: bool = True,
    after_call: Callable[[int], None] = lambda k: None,
) -> list[list[Fact]]:
    """Make all calls of a program; everything that can be seen after each.

    Args:
        signature_of: whose parameters name the arguments, if they are not the target's.
        backward: compute the gradients of all float results' sum after each call.
        after_call: is told the number of each call that has been made.
    """
    seen: list[list[Fact]] = []
    results: list[object] = []
    for k, call in enumerate(calls):
        result, facts = _called(target, call)
        results.append(result)
        after_call(k)
        facts.extend(process_facts())
        if backward:
            _backward(result, facts)
        state = State()
        _describe_arguments(state, "argument", signature_of or target, call)
        describe(state)
        _describe_result(state, "result", result)
        for j, before in enumerate(calls[:k]):
            _describe_arguments(state, f"call {j + 1}, argument", signature_of or target, before)
            _describe_result(state, f"call {j + 1}, result", results[j])
        seen.append(facts + state.facts)
    return seen


def _describe_arguments(state: State, where: str, target: Callable[..., Any], call: Call) -> None:
    """Under the names of the parameters, where that can be known."""
    try:
        bound = inspect.signature(target).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        given = {f"args[{k}]": argument for k, argument in enumerate(call.args)} | dict(call.kwargs)
    else:
        given = bound.arguments
    for name, argument in given.items():
        state.add(f"{where} {name}", argument)


def _describe_result(state: State, where: str, result: object) -> None:
    if isinstance(result, _Raised):
        state.add(f"{where}, exception", result.error)
    else:
        state.add(where, result)


def _called(target: Callable[..., Any], call: Call) -> tuple[object, list[Fact]]:
    """The result or the exception; and what was raised, printed and warned of."""
    out, err = io.StringIO(), io.StringIO()
    result: object
    with warnings.catch_warnings(record=True) as caught, _warnings_each_time():
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                result = target(*call.args, **call.kwargs)
            except JitpkgError:
                raise
            except (Exception, SystemExit) as error:
                if of_handler(error) is not None:
                    raise
                result = _Raised(error)
    warned = []
    for w in caught:
        if issubclass(w.category, JitpkgWarning):
            warnings.warn_explicit(w.message, w.category, w.filename, w.lineno)
        else:
            warned.append(f"{w.category.__name__}: {w.message}")
    facts = []
    if isinstance(result, _Raised):
        facts.append(Fact("result", "raised", _one_line(result.error)))
        facts.append(Fact("result", "traceback", _lines(result.error)))
    else:
        facts.append(Fact("result", "raised", Phrase("nothing")))
    facts.append(Fact("printed", "output", Phrase(_without_addresses(out.getvalue()))))
    facts.append(Fact("printed", "errors", Phrase(_without_addresses(err.getvalue()))))
    facts.append(Fact("printed", "warnings", Phrase("\n".join(dict.fromkeys(warned)))))
    return result, facts


@contextlib.contextmanager
def _warnings_each_time() -> Iterator[None]:
    """Let torch warn in the second run of what it warned of in the first."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _one_line(error: BaseException) -> Phrase:
    return Phrase(f"{type(error).__qualname__}: {error}")


_OWN_FILES = ("<jitpkg", "<eval_with_key>")
_OWN_FOLDERS = tuple(
    f"{Path(__file__).parents[1] / folder}{os.sep}" for folder in ("rewriter", "codegen", "tracer")
)


def _without_addresses(text: str) -> str:
    """What differs between two runs of any code."""
    return re.sub(r"\bat 0x[0-9a-f]+", "at 0x…", text)


def _lines(error: BaseException) -> Phrase:
    """The lines of the program that an exception went through.

    An op that fails in a graph is shown by a frame of its own, after that of the function, which
    stands where the graph was called. A graph's own backward pass is a node that eager code does
    not have: its frames are left out. How deep a recursion gets before Python ends it depends on
    what else is on the stack, so that each of its lines counts once.
    """
    summary = traceback.extract_tb(error.__traceback__)[1:]  # the first is the harness's
    shown: list[traceback.FrameSummary] = []
    if isinstance(error, UnboundLocalError) and summary and error.__traceback__:
        summary[-1].lineno = _line_of_name(error, error.__traceback__)
    within = False
    for frame, following in zip_longest(summary, summary[1:]):
        if _is_own(frame) or (_is_of_a_node(frame) and following and _is_own(following)):
            within = True
            continue
        if within and shown and _function(shown[-1]) == _function(frame):
            shown.pop()
        within = False
        shown.append(frame)
    lines = [f"{each.filename}:{each.lineno}, in {each.name}" for each in shown]
    return Phrase("\n".join(dict.fromkeys(lines) if isinstance(error, RecursionError) else lines))


def _line_of_name(error: UnboundLocalError, at: TracebackType) -> int | None:
    """The line that reads a local which is not bound. CPython 3.11 runs two loads or stores as one
    instruction once they are warm, and names the line of the first."""
    while at.tb_next is not None:
        at = at.tb_next
    for ins, after in pairwise(dis.get_instructions(at.tb_frame.f_code)):
        if ins.offset == at.tb_lasti and after.opname == "LOAD_FAST":
            reads = ins.opname.startswith("LOAD_FAST") and f"'{ins.argval}'" in str(error)
            if not reads and f"'{after.argval}'" in str(error) and after.positions:
                return after.positions.lineno
    return at.tb_lineno


def _is_own(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith((*_OWN_FILES, *_OWN_FOLDERS))


def _is_of_a_node(frame: traceback.FrameSummary) -> bool:
    return (frame.filename, frame.name) == (torch.autograd.function.__file__, "apply")


def _function(frame: traceback.FrameSummary) -> tuple[str, str]:
    return frame.filename, frame.name


def _backward(result: object, facts: list[Fact]) -> None:
    """Compute gradients of all results that have some."""
    floats = [t for t in _tensors(result) if t.is_floating_point()]
    try:  # to ask for a history can fail, too
        sums = [t.sum() for t in floats if t.grad_fn is not None]
        if sums:
            torch.autograd.backward(sums)
    except RuntimeError as error:
        facts.append(Fact("backward", "raised", _one_line(error)))


def _tensors(result: object, within: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
    """The tensors of a result, which may hold again what it lies `within`."""
    if id(result) in within:
        return
    items: Iterable[object] = ()
    match result:
        case torch.Tensor():
            yield result
        case list() | tuple():
            items = result
        case dict():
            items = result.values()
        case object(__dataclass_fields__=fields):
            items = (getattr(result, name, None) for name in fields)
    for item in items:
        yield from _tensors(item, within | {id(result)})
