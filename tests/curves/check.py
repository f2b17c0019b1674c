"""What is to be said of one model's curves."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from tests.curves.train import Case, Compiled, compiled, distance, eagerly, spread

FACTOR = 4.0
"""Of the distance between eager runs of different orders of summation, so much is allowed."""
LEAST = {False: 2e-6, True: 2e-3}
"""And this in any case, by whether autocast is on: where no order differs, rounding still does."""


@dataclass
class Row:
    """One model's curves."""

    case: Case
    first: float
    last: float
    spread: float
    kernels: Compiled
    apart: float
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kernels = self.kernels
        loss = f"{self.first:.3f} to {self.last:.3f}"
        line = f"{self.case!s:34}{kernels.graphs:7}{kernels.later:6}{loss:>16}"
        line += f"{self.spread:10.1e}{self.apart:10.1e}"
        said = [f"    wrong: {each}" for each in self.wrong]
        said += [f"    break: {each}" for each in dict.fromkeys(kernels.breaks)]
        return "\n".join([line, *said])


def checked(case: Case) -> Row:
    wanted, left = eagerly(case)
    exact, kernels = compiled(case, "eager"), compiled(case, "jitpkg")
    apart, between = distance(kernels.losses, wanted), spread(case, wanted)
    row = Row(case, wanted[0], wanted[-1], between, kernels, apart)
    if exact.losses != wanted:
        row.wrong.append(f"on `eager`, losses are {distance(exact.losses, wanted):.1e} apart")
    try:
        torch.testing.assert_close(exact.left, left, rtol=0, atol=0)
    except AssertionError as error:
        row.wrong.append(f"on `eager`, what is left differs: {str(error).splitlines()[0]}")
    if not torch.equal(kernels.left[1], left[1]):
        row.wrong.append("with kernels, other random numbers are drawn")
    if apart > max(FACTOR * between, LEAST[case.autocast]):
        row.wrong.append(f"with kernels, losses are {apart:.1e} apart; eager orders, {between:.1e}")
    return row
