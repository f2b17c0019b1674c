"""What compiling has cost and what has come back: in vain goes only a share of a program's time.

A function may owe one second, a fifth of the program's first 25 seconds, and a hundredth of what it
has run since. One that owes more is not compiled for other values until it has paid back, or the
program has run for long enough. A function that a notebook's cell defines again counts as the same,
and is compiled while half of that is owed.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from types import CodeType, FunctionType

from jitpkg.dataclass import dataclass
from jitpkg.rewriter.originals import ORIGINALS

Clock = Callable[[], float]
"""Seconds from any moment on."""

FLOOR = 1.0
"""Seconds that may always be owed."""

SHARE, WHILE = 0.2, 25.0
"""Of the time that a program has run, so much more may be owed; for so many seconds."""

LATER = 0.01
"""And of the time that it has run since: whoever gains nothing loses little, for however long."""

PROVEN, SIGHT = 0.25, 100.0
"""So much is owed of what has not come back, where that is in sight: as often as the entry has been
called until now, it pays back within so many seconds. A model that is trained for a while may be
compiled for evaluation before training has paid back. What is defined again owes all of it."""

AGAIN = 0.5
"""What is defined again is compiled while no more than so much of what may be owed is: its next
definition is near, and pays for nothing that was compiled for this one."""

_SOON, _LATE = 0.05, 1.0
"""Seconds until somebody who was refused may ask again: entries may pay back meanwhile."""


@dataclass(eq=False, slots=True)
class Ledger:
    """What all functions owe that could have been left as they were."""

    clock: Clock = time.perf_counter
    began: float = field(default_factory=lambda: time.perf_counter() - time.process_time())
    """When the program began: about as long ago as it has computed."""
    owed: float = field(init=False, default=0.0)
    """For entries of regions that have some already, for what nobody asked to be compiled, and for
    what is defined again."""
    _defined: dict[tuple[str, str], weakref.ref[CodeType]] = field(init=False, default_factory=dict)
    """What the functions that were asked for are, by module and name."""

    @property
    def allowed(self) -> float:
        """Seconds that may be owed now."""
        ran = self.clock() - self.began
        return FLOOR + SHARE * min(ran, WHILE) + LATER * max(ran - WHILE, 0.0)

    def note_definition(self, function: FunctionType) -> bool:
        """Note what is asked for; whether it is not another function's next definition.

        Only a module's own functions and classes have a name that says which one they are.
        """
        module, name = function.__globals__.get("__name__"), function.__qualname__
        if type(module) is not str or "<lambda>" in name:
            return True
        if getattr(sys.modules.get(module), "__dict__", None) is not function.__globals__:
            return True
        code = ORIGINALS.of(function.__code__)
        before = self._defined.get((module, name))
        self._defined[module, name] = weakref.ref(code)
        return before is None or before() is code


@dataclass(frozen=True, slots=True)
class Refused:
    """A function is not compiled now."""

    owed: float
    """Seconds: by the function itself, or by all of them."""
    allowed: float
    """Seconds that may be owed."""
    is_own: bool
    again: bool
    cost: float
    until: float
    """The time of the ledger's clock before which it is not worth asking again."""

    @property
    def why(self) -> str:
        """In words: few who are refused are asked why."""
        whose = "of compiling it" if self.is_own else "of compiling functions"
        why = (
            f"{self.owed:.1f} s {whose} have not paid back yet, and {self.allowed:.1f} s may be"
            f" owed: {FLOOR:g} s, {SHARE:.0%} of the program's first {WHILE:g} s, and"
            f" {LATER:.0%} of what it has run since"
        )
        if self.again:
            why += f"; {AGAIN:.0%} of that, as it was defined again"
        if self.owed <= self.allowed:
            why += f"; one entry more would take about {self.cost:.1f} s"
        return why


@dataclass(eq=False, slots=True)
class Account:
    """What one function owes."""

    ledger: Ledger
    asked: bool
    """Whether each region is compiled once, whatever is owed: see `Compiler`."""
    again: bool = False
    """Whether it is another definition of what was asked for before."""
    owed: float = 0.0
    debtors: list[Callable[[], None]] = field(init=False, default_factory=list)
    """Called, they pay back what they have gained since."""
    told: bool = field(init=False, default=False)
    """Whether it has been said that the function is not compiled for now."""

    def refusal(self, *, first: bool, cost: float = 0.0) -> Refused | None:
        """Why a region is not compiled now, or None where it may be.

        Args:
            first: whether the region has no entry yet.
            cost: seconds that an entry of it has taken. One more that nobody asked for has to wait
                until so much may be owed as well, or half of what may.
        """
        if first and self.asked:
            return None
        for pay in tuple(self.debtors):
            pay()
        allowed = self.ledger.allowed * (AGAIN if self.again else 1.0)
        more = 0.0 if self.asked else min(cost, allowed / 2)
        if max(self.owed, self.ledger.owed) + more <= allowed:
            self.told = False
            return None
        mine = self.owed + more > allowed
        owed = self.owed if mine else self.ledger.owed
        wait = min(max((owed + more - allowed) / SHARE, _SOON), _LATE)
        return Refused(owed, allowed, mine, self.again, cost, self.ledger.clock() + wait)

    def loan(self, *, first: bool) -> Loan:
        """For a new entry of a region, the first or one more."""
        return Loan(self, is_shared=not (first and self.asked))


@dataclass(eq=False, slots=True)
class Loan:
    """What an entry has cost, and what of it has not come back."""

    account: Account
    is_shared: bool
    """Whether the ledger knows of it."""
    seconds: float = field(init=False, default=0.0)
    paid: float = field(init=False, default=0.0)
    weight: float = field(init=False, default=1.0)
    """How much of what has not come back is owed."""

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take what is spent on compiling inside of the `with` block, however that ends."""
        clock = self.account.ledger.clock
        began = clock()
        try:
            yield
        finally:
            seconds = clock() - began
            self.seconds += seconds
            self._owe(seconds)

    def expect(self, seconds: float) -> None:
        """Note after how many seconds more it will probably have paid back."""
        in_sight = seconds <= SIGHT and not self.account.again
        weight = PROVEN if in_sight else 1.0
        self._owe((weight - self.weight) * (self.seconds - self.paid))
        self.weight = weight

    def pay_until(self, share: float) -> None:
        """Note that such a share of all has come back."""
        more = share * self.seconds - self.paid
        if more > 0:
            self.paid += more
            self._owe(-more * self.weight)

    def _owe(self, seconds: float) -> None:
        self.account.owed += seconds
        if self.is_shared:
            self.account.ledger.owed += seconds
