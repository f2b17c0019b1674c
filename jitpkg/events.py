"""What happens while a function is compiled, as one stream of values.

Passes emit events; logs, `explain` and tests are listeners.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType

from jitpkg import forks
from jitpkg.dataclass import dataclass
from jitpkg.errors import Break, Location


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """A region is about to be traced, and its graph compiled."""

    function: str
    entry: str
    """Stable name of the entry that is to come of it, as in `model.forward#0`."""


@dataclass(frozen=True, slots=True)
class CompileEnded:
    """That is over, in whichever way."""

    function: str
    entry: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Traced:
    """A region was traced."""

    function: str
    entry: str
    """Stable name of the entry that comes of it, as in `model.forward#0`."""
    seconds: float


@dataclass(frozen=True, slots=True)
class GraphCompiled:
    """A backend compiled a graph."""

    function: str
    entry: str
    graph: object
    """The `torch.fx.GraphModule`."""
    op_count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelCompiled:
    """A kernel was printed and compiled."""

    name: str
    text: str
    """What was compiled; the comments on top say what it computes."""
    seconds: float
    resources: str = ""
    """What it takes of a GPU, in words."""
    script: str = ""
    """A Python program that runs it alone, where there is one."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A pass has rewritten the loops of a kernel."""

    kernel: str
    stage: str
    """The name of the pass."""
    write: Callable[[], str]
    """Writes the loops, as they are now: only who shows them needs the text."""


@dataclass(frozen=True, slots=True)
class KernelFailed:
    """A kernel cannot be compiled, or launched; ATen does instead what it was to do."""

    name: str
    text: str
    why: str
    script: str = ""
    """A Python program that runs it alone, where there is one."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that a graph calls."""

    name: str
    ops: tuple[str, ...]
    """Those that it fuses, in order."""
    bytes: int
    """Of the tensors that it reads and writes, each once."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A graph became kernels, and calls of ops that are in none."""

    graph: str
    kernels: tuple[Kernel, ...]
    """In the order of the calls."""
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PassRan:
    """A pass of a backend ran over a graph."""

    graph: str
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Declined:
    """A backend leaves a graph as it is: it runs op by op, as with the backend `eager`."""

    graph: str
    """Name of the graph's class."""
    backend: str
    why: str


@dataclass(frozen=True, slots=True)
class CudaGraph:
    """A graph's kernels are launched together, or it was asked for and cannot be."""

    graph: str
    why: str | None
    """Why not; None where they are."""


@dataclass(frozen=True, slots=True)
class EntryAdded:
    """A region has a new entry."""

    function: str
    entry: str
    guards: tuple[str, ...]
    """What each guard tests, as text."""
    assumptions: tuple[str, ...]
    """What is assumed of tensors and plain values, in words."""
    source: str
    """The generated Python source."""
    seconds: float
    """What it took to write it."""
    calls: Callable[[], int] | None = None
    """How often it has run until now, where somebody counts."""


@dataclass(frozen=True, slots=True)
class Broke:
    """A trace ended in a graph break."""

    function: str
    graph_break: Break
    entry: str = ""
    """Stable name of the entry that comes of it."""


@dataclass(frozen=True, slots=True)
class Guessed:
    """A trace went past a branch on a tensor's data."""

    function: str
    entry: str
    way: bool
    """The truth of the tensor by which the program goes that way."""
    stack: tuple[Location, ...]
    """Where the branch stands, outermost call first."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A call of an entry went another way than was guessed, and the original code ran."""

    function: str
    entry: str
    stack: tuple[Location, ...]
    given_up: bool
    """Whether the branch is a graph break from now on."""


@dataclass(frozen=True, slots=True)
class Recompiled:
    """No entry fitted a call, and the region was traced again."""

    function: str
    reasons: tuple[str, ...]
    """For each entry that was tried, the sentence of the first guard that failed."""


@dataclass(frozen=True, slots=True)
class CodeEmitted:
    """A function got a new code object."""

    function: str
    original: CodeType
    emitted: CodeType


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A region has as many entries as it may have."""

    function: str
    limit: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """It was measured what an entry gains, in seconds of a call."""

    function: str
    entry: str
    compiled: float
    original: float
    """What the region's own code takes, at least."""
    spent: float
    """What it took to compile the entry."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """A function is not compiled for a call's values, for now."""

    function: str
    why: str


@dataclass(frozen=True, slots=True)
class GivenBack:
    """A function, or a part of it, runs as its author wrote it from now on."""

    function: str
    why: str
    line: int | None = None
    """Where the part begins."""


@dataclass(frozen=True, slots=True)
class ModuleSeen:
    """A module was imported, and the functions in it are compiled when they are called, or not."""

    module: str
    functions: int
    """How many have a stub."""
    why: str | None = None
    """Why there is none, if so."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A function of a module that was imported is compiled from now on."""

    function: str
    calls: int
    """How often it was called before, with a tensor in sight."""


@dataclass(frozen=True, slots=True)
class Waits:
    """The program ends, and a function of a module that was imported was not compiled."""

    function: str
    why: str


@dataclass(frozen=True, slots=True)
class Suggested:
    """A program might gain from another option."""

    text: str


@dataclass(frozen=True, slots=True)
class FellBack:
    """jitpkg failed, and the original code runs."""

    function: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class GraphFailed:
    """The compiled code of a graph failed when it ran, where its ops one by one did not."""

    graph: str
    why: str
    given_up: bool
    """Whether it is not tried again."""


@dataclass(frozen=True, slots=True)
class NameMissing:
    """PyTorch lacks a name that is not public, or it does not behave as it did."""

    name: str
    use: str
    """What jitpkg asks it for, or does with it."""
    lost: str
    """What happens without it, as a clause."""
    why: str


Event = (
    CompileStarted
    | CompileEnded
    | Traced
    | GraphCompiled
    | KernelCompiled
    | Scheduled
    | KernelFailed
    | Fused
    | PassRan
    | Declined
    | CudaGraph
    | EntryAdded
    | Broke
    | Guessed
    | Missed
    | Recompiled
    | CodeEmitted
    | LimitReached
    | Measured
    | Postponed
    | GivenBack
    | ModuleSeen
    | Begun
    | Waits
    | Suggested
    | FellBack
    | GraphFailed
    | NameMissing
)
Listener = Callable[[Event], None]


class Stream:
    """Hands each event to every listener, in the thread that emits it."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._listeners: tuple[Listener, ...] = ()
        self.counts = False
        """Whether entries that are made now count their calls, for somebody who listens."""

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    @property
    def heard(self) -> bool:
        """Whether anybody listens: costly descriptions are made only then."""
        return bool(self._listeners)

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(known for known in self._listeners if known is not listener)

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Listen inside a `with` block."""
        self.add(listener)
        try:
            yield
        finally:
            self.remove(listener)


STREAM = Stream()
"""The process's stream."""


@contextmanager
def timed(graph: str, name: str) -> Iterator[None]:
    """Say how long a pass took, that is run inside of the `with` block."""
    began = time.perf_counter()
    yield
    STREAM.emit(PassRan(graph, name, time.perf_counter() - began))


@contextmanager
def compiling(function: str, entry: str) -> Iterator[None]:
    """Say that what is done inside of the `with` block begins, and when it is over."""
    STREAM.emit(CompileStarted(function, entry))
    began = time.perf_counter()
    try:
        yield
    finally:
        STREAM.emit(CompileEnded(function, entry, time.perf_counter() - began))
