"""Where the choices of a writer come from: a seed, or Hypothesis."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """Makes choices; the first of several is the simplest."""

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""


class Seeded:
    """Choices that a seed decides: the same ones in every process."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        return int(self._random.random() * n)


class Drawn:
    """Choices that Hypothesis makes, and shrinks.

    Args:
        draw_below: draws a whole number below another.
    """

    def __init__(self, draw_below: Callable[[int], int]) -> None:
        self._draw_below = draw_below

    def below(self, n: int) -> int:
        return self._draw_below(n) if n > 1 else 0


def one_of(choices: Choices, options: Sequence[T]) -> T:
    return options[choices.below(len(options))]


def weighted(choices: Choices, options: Sequence[T], weights: Sequence[int]) -> T:
    """One of the options; each as often as its weight says."""
    ends = list(accumulate(weights))
    return options[bisect_right(ends, choices.below(ends[-1]))]


def chance(choices: Choices, percent: int) -> bool:
    """True in so many of a hundred cases; False is the simpler choice."""
    return choices.below(100) >= 100 - percent


def between(choices: Choices, least: int, most: int) -> int:
    return least + choices.below(most - least + 1)


def some(choices: Choices, most: int, percent: int) -> Iterator[int]:
    """0, 1 and so on, as long as the chance is taken: so each can be left out by itself."""
    for k in range(most):
        if not chance(choices, percent):
            return
        yield k
