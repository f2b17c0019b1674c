"""What a loop carries for both folds of a pair: the meaning of the formulas in `online`.

In float64, so that the state itself is hardly rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from jitpkg.codegen.fusion.online import Distances, Pair, Powers

State = tuple[torch.Tensor, ...]


def carried(pair: Pair, values: Sequence[torch.Tensor]) -> State:
    """The state after these values: two halves go on by one value each time, and become one."""
    half = len(values) // 2
    return _together(pair, *(_alone(pair, each) for each in (values[:half], values[half:])))


def finished(pair: Pair, state: State, given: torch.Tensor) -> torch.Tensor:
    """The second fold.

    Args:
        given: the shift of powers, the mean of distances.
    """
    given = given.double()
    match pair:
        case Powers():
            most, total = state
            result = total * (most - given).exp()
        case Distances():
            count, mean, squares = state
            far = torch.where(count > 0, mean - given, 0.0)
            result = squares + count * far * far
    return result.to(pair.second.dtype)


def _alone(pair: Pair, values: Sequence[torch.Tensor]) -> State:
    """By one value more each time."""
    zero, one = torch.zeros(2, dtype=torch.float64), torch.ones((), dtype=torch.float64)
    match pair:
        case Powers():
            state: State = (torch.tensor(float("-inf"), dtype=torch.float64), zero[0])
            for value in values:
                state = _together(pair, state, (value.double(), _power(value.double())))
        case Distances():
            state = (zero[0], zero[0], zero[0])
            for value in values:
                count, mean, squares = state
                count, far = count + one, value.double() - mean
                mean = mean + far / count
                state = (count, mean, squares + far * (value.double() - mean))
    return state


def _power(value: torch.Tensor) -> torch.Tensor:
    """What is 1, but for numbers that are none."""
    return (value - _finite(value)).exp()


def _together(pair: Pair, one: State, other: State) -> State:
    match pair:
        case Powers():
            (m, s), (n, t) = one, other
            most = torch.maximum(m, n)
            shift = _finite(most)
            return most, s * (m - shift).exp() + t * (n - shift).exp()
        case Distances():
            (n1, mean1, s1), (n2, mean2, s2) = one, other
            count = n1 + n2
            share = n2 / count.clamp(min=1)
            apart = mean2 - mean1
            return count, mean1 + apart * share, s1 + s2 + apart * apart * n1 * share


def _finite(most: torch.Tensor) -> torch.Tensor:
    return torch.where(most.isinf(), 0.0, most)
