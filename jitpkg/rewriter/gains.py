"""What an entry gains: measured at its first calls, and weighed against what it has cost.

An entry's fifth call is preceded by a measurement. The graph runs aside a few times, compiled and
op by op in turn (see `Aside`). What the entry does besides (guards, results, effects) was timed at
the calls before, and what the original's Python takes is estimated: by the operations that were
traced, in units of a small function that is timed at the same calls. So nothing runs twice that
anybody could see, and all calls return what the compiled graph computes.

The estimate is a low one: a region is given back where even the original's own ops, and little
more, are quicker than the compiled code.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, Protocol

from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.thread_state import snapshot
from jitpkg.interrupts import from_outside
from jitpkg.messages import duration
from jitpkg.rewriter.aside import Aside
from jitpkg.rewriter.ledger import Clock, Loan
from jitpkg.tracer.trace import Trace

Function = Callable[..., Any]

_CALLS = (5, 10)
"""At such calls an entry is measured: a second time where it seems to lose. What is timed is not
the first call, at which much is done once."""

_ROUNDS = 7
"""So many times, at most, a graph runs aside in each way."""

_SHARE = 0.25
"""Of what an entry has cost, measuring takes no more than this, or one round."""

_HOOK = 0.25e-6
"""Seconds of a hook itself, which nobody times: 0.2 to 0.3 us."""

_PYTHON = 2.0
"""How long a traced operation takes in the original, beside the ops of torch, in units of one of
`reference`. Measured: 4 in models (BERT, GPT-2, torch's encoder), 2.3 in code that handles
containers, 0.4 in a loop that adds up numbers."""

_RELATIVE, _ABSOLUTE = 1.05, 0.3e-6
"""What compiled code may be slower by before that is called a loss: it is within the noise."""

FOLLOWING = 0.35e-6
"""Seconds of a call of what follows another function, and has nothing compiled."""

_UNKNOWN = 100
"""Calls after which an entry that cannot be measured counts as one that has paid back."""

_MOST_CALLS = 10**7
"""Nobody waits for longer until an entry has paid back."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Seconds of a call."""

    compiled: float
    original: float

    @property
    def seconds(self) -> float:
        return self.original - self.compiled

    @property
    def loses(self) -> bool:
        return self.loses_beside(0.0)

    def loses_beside(self, left: float) -> bool:
        """Whether the original is quicker, though it takes so much more a call once it runs again:
        what follows another function still looks at that."""
        return self.compiled > _RELATIVE * self.original + _ABSOLUTE + left

    def __str__(self) -> str:
        return f"{duration(self.compiled)} compiled, {duration(self.original)} as it is"


class Meter:
    """Finds out what an entry gains, and counts its calls until it has paid back.

    `graph` is what the entry calls in place of its graph until it has been measured.
    """

    def __init__(
        self, loan: Loan, trace: Trace, module: fx.GraphModule, compiled: Function
    ) -> None:
        self.compiled = compiled
        self.graph: Function = self._graph
        self.steps = trace.steps
        self.gain: Gain | None = None
        self.is_measured = False
        """Whether it is known what there is to know."""
        self.is_over = False
        """Whether the entry calls the graph itself again."""
        self.uncounted: Iterator[None] = repeat(None)
        """What the entry takes one of at each call until it has been measured."""
        self.unpaid: Iterator[None] = self.uncounted
        """What it takes one of then: there are as many as it needs to pay back."""
        self.ran: tuple[int, float] | None = None
        """The thread in which the graph has run, and for how long, until somebody has seen it."""
        self.clock = loan.account.ledger.clock
        self.loan = loan
        self._plain: Function = module.forward
        self._aside = Aside.of(trace, module)
        self._began = self.clock()
        self._calls = 0
        self._needed = 0
        self._besides: list[float] = []
        self._python: list[float] = []
        self._measuring = threading.Lock()

    def _graph(self, *inputs: Any) -> Any:
        self._calls += 1
        if self._calls in _CALLS and not self.is_measured and self._besides:
            self._measure(inputs)
        began = self.clock()
        results = self.compiled(*inputs)
        self.ran = threading.get_ident(), self.clock() - began
        return results

    def note(self, besides: float, python: float) -> None:
        """Note what a call took besides its graph, and `reference` right before it."""
        if self._calls > 1:
            self._besides.append(besides)
            self._python.append(python)

    def _measure(self, inputs: Sequence[Any]) -> None:
        if not self._measuring.acquire(blocking=False):
            return
        try:
            found = self._measured(inputs)
            if self.gain is None or (found is not None and found.seconds > self.gain.seconds):
                self.gain = found
            if found is not None and found.loses and self._calls < _CALLS[-1]:
                return
            self.is_measured = True
            self._count()
        finally:
            self._measuring.release()

    def _measured(self, inputs: Sequence[Any]) -> Gain | None:
        if self._aside is None:
            return None
        ways, budget = (self._plain, self.compiled), _SHARE * self.loan.seconds
        try:
            took = self._aside.timed(ways, inputs, self.clock, budget, _ROUNDS)
        except Exception as error:
            if from_outside(error):
                raise
            return None  # it will fail in its place, too
        if took is None:
            return None
        plain, compiled = map(min, took)  # what comes in between only adds to a time
        python = min(self._python) / REFERENCE_STEPS * _PYTHON * self.steps
        return Gain(_HOOK + min(self._besides) + compiled, plain + python)

    def abandon(self) -> None:
        """The graph fails, and is not called any more."""
        self.gain = None
        self.is_measured = True

    # Paying back

    @property
    def calls(self) -> int | None:
        """How often the entry was called; None where it has paid back, and is not counted."""
        if not self.is_measured:
            return self._calls
        return self._calls + self._taken if self._needed else None

    @property
    def _taken(self) -> int:
        return self._needed - length_hint(self.unpaid)

    def _count(self) -> None:
        """Count from now on the calls until it has paid back."""
        if self.gain is None:
            self._needed = _UNKNOWN
        elif self.gain.seconds > 0:
            self._needed = min(math.ceil(self.loan.seconds / self.gain.seconds), _MOST_CALLS)
            self._expect()
        self.unpaid = repeat(None, self._needed)
        if self._needed:
            self.loan.account.debtors.append(self.pay)

    def pay(self) -> None:
        """Pay back what the calls until now have gained."""
        if self._needed:
            self.loan.pay_until(self._taken / self._needed)
            if self.gain is not None:
                self._expect()

    def _expect(self) -> None:
        """Say when it will have paid back, if it is called as often as until now."""
        each = (self.clock() - self._began) / (self._calls + self._taken)
        self.loan.expect(each * (self._needed - self._taken))

    def settle(self) -> None:
        """It has been called as often as was needed."""
        if self._needed:
            self.loan.pay_until(1.0)
            self.loan.account.debtors.remove(self.pay)
            self._needed = 0


class Measured(Protocol):
    """A region whose entries are measured."""

    @property
    def first(self) -> Callable[..., Any]:
        """What tries its entries."""
        ...

    @property
    def meters(self) -> Sequence[Meter]:
        """Those of its entries that are not done."""
        ...

    def weigh(self) -> None:
        """Do what is to be done when something has been measured."""
        ...


class Timing:
    """Stands before a region's entries while they are measured."""

    __slots__ = ("_clock", "_region")

    def __init__(self, region: Measured, clock: Clock) -> None:
        self._region = region
        self._clock = clock

    def run(self, *arguments: object) -> Any:
        """What the hook calls: a function of Python, after which no signal comes to the hook's
        frame, while one does after what is called by way of `__call__`."""
        restore = snapshot()
        try:
            return self._timed(arguments)
        except BaseException as error:
            if from_outside(error):
                # The entry may have returned inside of a `with` block that Python is not in yet.
                restore()
            raise

    def _timed(self, arguments: tuple[object, ...]) -> Any:
        clock, thread = self._clock, threading.get_ident()
        meters = self._region.meters
        for meter in meters:
            meter.ran = None
        began = clock()
        reference()
        middle = clock()
        result = self._region.first(*arguments)
        took = clock() - middle
        for meter in meters:
            if meter.ran is not None and meter.ran[0] == thread:
                meter.note(took - meter.ran[1], middle - began)
        if any(meter.is_measured for meter in meters):
            self._region.weigh()
        return result


# What Python takes


class _Sample:
    """Calls and attributes, as in a model."""

    def __init__(self) -> None:
        self.values = {"a": 1}
        self.parts = [1, 2]
        self.is_off = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    def run(self, x: int, scale: int | None = None) -> int:
        if self.is_off or not isinstance(x, int):
            return x
        value = self.values["a"]
        for part in self.parts:
            value = value + part
        return self.step(value, scale=value)

    def step(self, x: int, scale: int | None) -> int:
        if scale is not None and x > 0:
            x = x * 2
        return x


def reference(sample: _Sample = _Sample()) -> None:  # noqa: B008 - nothing changes it
    """Python that does a little of everything: 5 us."""
    for _ in range(8):
        sample(3, scale=None)


REFERENCE_STEPS = 576
"""How many instructions `reference` executes."""
