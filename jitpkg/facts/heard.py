"""What torch warns of while it is asked what an op returns: heard, and not shown.

What Python remembers of warnings that were shown already stays as it is, and so do torch's own
marks that it has warned once: both are for when the op runs.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from jitpkg.facts.outcome import Outcome
from jitpkg.facts.sizes import Length
from jitpkg.facts.tensor import TensorFacts


class Heard:
    """Silences the warnings of the thread that asks, inside a `with` block.

    It stands in front of the filters, as a pattern that fits every text of this thread. (Python's
    own way of changing filters for a while would make it forget what it has shown.)
    """

    def __init__(self) -> None:
        self.any = False
        self._thread: int | None = None
        self._before: Any = None
        self._filters: list[Any] = []
        self._always = False

    def match(self, text: str) -> bool:
        """Called by `warnings` for every warning."""
        if threading.get_ident() != self._thread:
            return False
        self.any = True
        return True

    def __enter__(self) -> Heard:
        self._thread = threading.get_ident()
        self._before = warnings.filters
        self._filters = [("ignore", self, Warning, None, 0), *self._before]
        vars(warnings)["filters"] = self._filters
        self._always = torch.is_warn_always_enabled()
        torch.set_warn_always(True)  # or it would count as having warned
        return self

    def __exit__(self, *details: object) -> None:
        torch.set_warn_always(self._always)
        self._thread = None
        if vars(warnings)["filters"] is self._filters:
            if self._filters[1:] == self._before:
                vars(warnings)["filters"] = self._before
            else:  # another thread has changed them meanwhile
                self._filters[:] = [f for f in self._filters if f[1] is not self]


def warns_in_kernel(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], outcome: Outcome
) -> bool:
    """Whether it is only the op itself that warns, or may warn: on other devices it does not."""
    given, made = list(_tensors(args)), list(_tensors(outcome.result))
    if name in _SPREADS:
        fewest = (_fewest_reduced(a, b) for a in given[:1] for b in made[:1])
        return any(count <= _correction(args, kwargs) for count in fewest)
    if name in _CONVERSIONS:
        is_complex = [facts.dtype.is_complex for facts in (*given, *outcome.arguments)]
        return any(is_complex) and not all([*is_complex, *(f.dtype.is_complex for f in made)])
    return False


_SPREADS = frozenset({"std", "var", "std_mean", "var_mean"})
_CONVERSIONS = frozenset(
    """
    to type float double half bfloat16 int long short char byte bool type_as copy_ setitem
    """.split()
)


def _fewest_reduced(given: TensorFacts, made: TensorFacts) -> float:
    """How many elements one of the result is made of, at least; none where there is no result."""
    reduced = list(given.size)
    for length in made.size:
        if length in reduced:
            reduced.remove(length)
    if any(_least(length) < 1 for length in made.size):
        return 0
    return math.prod(max(_least(length), 0) for length in reduced)


def _least(length: Length) -> float:
    return length if isinstance(length, int) else length.bounds[0]


def _correction(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    """What is taken from the number of elements that are reduced."""
    unbiased = kwargs.get("unbiased", next((a for a in args[1:3] if isinstance(a, bool)), True))
    found = kwargs.get("correction", int(unbiased))
    return found if isinstance(found, int | float) else 1


def _tensors(value: Any) -> Iterator[TensorFacts]:
    match value:
        case TensorFacts():
            yield value
        case tuple() | list():
            for item in value:
                yield from _tensors(item)
