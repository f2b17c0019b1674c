"""The ways that calls go at branches on data.

Where a call goes another way than a trace has guessed, nothing has happened yet, and the original
code runs. A guess that is wrong too often is not made any more. And where no guess was made, and
calls always go the same way, it is made from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from jitpkg import events
from jitpkg.facts.thread_state import Contexts
from jitpkg.rewriter.failure import Failures
from jitpkg.tracer.operators import COMPARE
from jitpkg.tracer.vm import Branch, Guess, Undecided

_MOST = {True: 8, False: 2}
"""So many wrong guesses at a branch, and it becomes a graph break: where the other way raises, and
where it does not."""

_USUAL = 16
"""So many times the same way, and it is guessed."""

_WATCHED = 256
"""So many calls of an entry, and it is not asked any more which way the program goes."""


class Missed:
    """What an entry calls when a guess was wrong."""

    def __init__(
        self,
        function: str,
        entry: str,
        guesses: Sequence[Guess],
        failures: Failures | None,
        give_up: Callable[[str, Branch], None],
    ) -> None:
        """
        Args:
            function: its name.
            failures: what if the graph raises; None where there is no graph.
            give_up: called with the entry's name and a branch of which no guess is made any more.
        """
        self._function = function
        self._entry = entry
        self._guesses = tuple((g.way, g.branch, g.stack, g.other_raises) for g in guesses)
        self._counts = [0] * len(guesses)
        self._failures = failures
        self._give_up = give_up

    def __call__(
        self,
        found: Sequence[Tensor],
        drawn: Sequence[Tensor] = (),
        entered: Contexts | None = None,
    ) -> None:
        """Undo what the graph has done for the thread.

        Args:
            found: what the branches look at, in order.
            drawn: where the random streams were before the graph.
            entered: what contexts had set, if the graph enters or leaves any.
        """
        if self._failures is not None:
            self._failures.undo(drawn, entered)
        ways = [bool(each) for each in found]
        k = next(k for k, (way, *_) in enumerate(self._guesses) if ways[k] is not way)
        self._counts[k] += 1
        _, branch, stack, raises = self._guesses[k]
        given_up = self._counts[k] == _MOST[raises]
        events.STREAM.emit(events.Missed(self._function, self._entry, stack, given_up))
        if given_up:
            self._give_up(self._entry, branch)


class Watch:
    """What an entry calls that ends at a branch on data."""

    def __init__(
        self, entry: str, asked: Undecided, settle: Callable[[str, Branch, bool], None]
    ) -> None:
        """
        Args:
            settle: called with the entry's name, the branch, and the truth that always decides it.
        """
        self._entry = entry
        self._branch = asked.branch
        self._truth = bool if asked.compared is None else _truth_of(asked.compared)
        self._settle = settle
        self._left = _WATCHED
        self._way: bool | None = None
        self._times = 0

    def __call__(self, *operands: object) -> None:
        if not self._left:
            return
        self._left -= 1
        way = self._truth(*operands)
        self._times = self._times + 1 if way is self._way else 1
        self._way = way
        if self._times == _USUAL:
            self._left = 0
            self._settle(self._entry, self._branch, way)


def _truth_of(compared: str) -> Callable[..., bool]:
    compare, *_ = COMPARE[compared]
    return lambda *operands: bool(compare(*operands))
