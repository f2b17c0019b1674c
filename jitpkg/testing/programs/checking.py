"""Runs a program eagerly and compiled, and says of what kind a fault is."""

from __future__ import annotations

import ast
import io
import re
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, replace
from typing import Any

from jitpkg import events
from jitpkg.comparison.differences import Difference
from jitpkg.comparison.running import Call
from jitpkg.comparison.surroundings import same_process
from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument, JitpkgError
from jitpkg.testing.programs.modes import Mode
from jitpkg.testing.programs.program import NAME, Program
from jitpkg.testing.programs.variants import asking, from_the_end
from jitpkg.testing.same import Comparison

LONGEST = 0.2
"""So many seconds of CPU time a program may take eagerly: traced, it would take minutes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program in a mode.

    Attributes:
        verdict: "same", "differs", "failed" (inside of jitpkg), or "left out".
        kind: of the fault: what differs, or where it failed; faults of one kind may be one fault.
        said: the differences, or the traceback.
    """

    verdict: str
    kind: str = ""
    said: str = ""

    @property
    def is_fault(self) -> bool:
        return self.verdict in ("differs", "failed")

    def plain(self) -> dict[str, str]:
        return asdict(self)


@dataclass(slots=True)
class Statistics:
    """What programs were like."""

    calls: int = 0
    raised: int = 0
    graphs: int = 0
    ops: int = 0
    breaks: int = 0

    def plain(self) -> dict[str, int]:
        return asdict(self)

    def hear(self, event: events.Event) -> None:
        if isinstance(event, events.GraphCompiled):
            self.graphs += 1
            self.ops += event.op_count
        elif isinstance(event, events.Broke):
            self.breaks += 1


def check(
    program: Program,
    mode: Mode,
    statistics: Statistics | None = None,
    ended: Callable[[], None] = lambda: None,
) -> Outcome:
    """Compare a program in a mode with what it does eagerly.

    Args:
        ended: is called when it has run eagerly, before it is compiled.
    """
    with warnings.catch_warnings(), mode.entered():
        warnings.simplefilter("ignore")
        eagerly = _eagerly(program, statistics)
        if eagerly is not None:
            return eagerly
        ended()
        outcome = _compared(program, mode.comparison(), statistics)
        if outcome.is_fault and _is_random(program, mode):
            return Outcome("left out", "two eager runs differ")
        if _AGAIN in outcome.said and not _compared(_retaining(program), mode.comparison()).kind:
            return Outcome("left out", "goes backward from two results of one graph")
        if outcome.is_fault and outcome.kind == _otherwise(program, mode, asking).kind:
            return Outcome("left out", "writes to a view that has no history yet")
        if mode.comparison().backend == "eager":
            return outcome
        if re.search(_MODIFIED, outcome.said):
            return Outcome("left out", "goes backward from what eager code has saved")
        if outcome.is_fault and outcome.kind == _otherwise(program, mode, from_the_end).kind:
            return Outcome("left out", "depends on the order of a reduction")
        return outcome


def _is_random(program: Program, mode: Mode) -> bool:
    """Whether eager runs differ: sets of objects are walked in the order of addresses."""
    itself = replace(mode.comparison(), compile=_itself)
    return any(_compared(program, itself).kind for _ in range(_EAGERLY))


def _otherwise(program: Program, mode: Mode, variant: Callable[[Any], Any]) -> Outcome:
    """How it compares with itself when eager code does something in another way."""
    how = mode.comparison()
    ignore = (*how.ignore, "traceback", "grad_fn", "version", "view")  # which the variant changes
    return _compared(program, replace(how, compile=variant, ignore=ignore))


_EAGERLY = 5
"""So often a program is run twice eagerly, where it seems to be a fault."""

_AGAIN = "Trying to backward through the graph a second time"
"""What compiled code says, and eager code does not, where two results have nothing in common but
their graph: docs/backends.md."""

_MODIFIED = r"needed for gradient computation has been modified by an[^\n]* eagerly"
"""What eager code says, and compiled code does not, that computes gradients from other tensors."""


def _retaining(program: Program) -> Program:
    """The program, keeping what its own backward passes could free."""
    tree = _Retaining().visit(ast.parse(program.source))
    return replace(program, source=ast.unparse(ast.fix_missing_locations(tree)))


class _Retaining(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        goes_backward = ast.unparse(node.func).endswith((".backward", "autograd.grad"))
        if goes_backward and all(keyword.arg != "retain_graph" for keyword in node.keywords):
            node.keywords.append(ast.keyword("retain_graph", ast.Constant(value=True)))
        return node


def _itself(target: Any) -> Any:
    return target


def _eagerly(program: Program, statistics: Statistics | None) -> Outcome | None:
    """Why a program is not compared, if it is not."""
    start = time.process_time()
    with same_process(), redirect_stdout(io.StringIO()):
        try:
            with _limited(10 * LONGEST):
                namespace = program.namespace()
                calls = program.arguments(namespace)
                raised = sum(_raises(namespace[NAME], call) for call in calls)
        except _TakesLong:
            return Outcome("left out", "takes long")
        except Exception as error:
            return Outcome("left out", f"made no arguments: {type(error).__name__}")
    if statistics is not None:
        statistics.calls += len(calls)
        statistics.raised += raised
    took = time.process_time() - start
    return Outcome("left out", "takes long") if took > LONGEST else None


class _TakesLong(BaseException):
    """The program does not end."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise in what takes longer, where there are signals."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "SIGVTALRM"
    ):
        yield
        return

    def late(signum: int, frame: object) -> None:
        raise _TakesLong

    before = signal.signal(signal.SIGVTALRM, late)
    left = signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *left)
        signal.signal(signal.SIGVTALRM, before)


def _raises(function: Callable[..., Any], call: Call) -> bool:
    try:
        function(*call.args, **call.kwargs)
    except Exception:
        return True
    return False


def _compared(
    program: Program, comparison: Comparison, statistics: Statistics | None = None
) -> Outcome:
    try:
        if statistics is None:
            _, found = program.differences(comparison)
        else:
            with events.STREAM.listening(statistics.hear):
                _, found = program.differences(comparison)
    except InvalidArgument as error:
        return Outcome("left out", "cannot be copied", str(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        said = "".join(traceback.format_exception(error))
        return Outcome("failed", _place(error), said)
    if not found:
        return Outcome("same")
    return Outcome("differs", _kind(found), "\n".join(map(str, found[:6])))


def _kind(found: tuple[Difference, ...]) -> str:
    """The first difference, without the names of the program."""
    first = min(found, key=lambda one: (one.what != "raised", one.what))
    where = re.sub(r"[.\[, ].*", "", first.where)
    if first.what == "raised":
        return f"raised: {_error(first.eager)} eagerly, {_error(first.compiled)} compiled"
    return f"{where}: {first.what}"


def _error(raised: Any) -> str:
    text = str(raised)
    return re.sub(r"'[^']*'|\"[^\"]*\"|-?\d[\d.]*|\[.*\]|x\d|0x\w+", "…", text.splitlines()[0])[:90]


def _place(error: BaseException) -> str:
    """What failed, and the innermost line of jitpkg that it went through."""
    while error.__cause__ is not None and isinstance(error, JitpkgError):
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "/jitpkg/" in f.filename and "/testing/" not in f.filename]
    place = ""
    if inside:
        place = f" in {inside[-1].filename.rpartition('/jitpkg/')[2]}, {inside[-1].name}"
    return f"{type(error).__name__}{place}: {_error(error) if str(error) else ''}"
