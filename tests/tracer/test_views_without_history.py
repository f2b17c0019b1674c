"""Views without a history to ask for: taken under no_grad, of what was written to later."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg
from jitpkg.testing import Comparison


def view(*, written: bool) -> Tensor:
    base = torch.ones(3)
    with torch.no_grad():
        taken = base.view(-1)
    if written:
        base.mul_(torch.ones(3, requires_grad=True))
    return taken


@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("of", ["values", "shape"])
def test_they_are_left_to_eager_code(of: str, first: bool, backend: str) -> None:
    def program(x: Tensor) -> Any:
        return x.shape[0] + 1 if of == "shape" else (x.detach() + 1).tolist()

    def outcome(function: Any, x: Tensor) -> Any:
        try:
            return function(x)
        except RuntimeError as error:
            return str(error)

    compiled = jitpkg.compile(program, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error", jitpkg.errors.JitpkgWarning)
        for written in (first, not first, first):
            expected = outcome(program, view(written=written))
            assert outcome(compiled, view(written=written)) == expected


TAKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "unbind": lambda x: x.unbind(0)[0],
    "split": lambda x: x.split(1)[0],
    "item": lambda x: x[0],
    "walked": lambda x: next(iter(x)),
    "view": lambda x: x.view(-1),
    "detached": lambda x: x.detach(),
}
WRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "mul_": lambda x: x.mul_(2),
    "zero_": lambda x: x.zero_(),
    "as_strided_": lambda x: x.as_strided_((1,), (1,)),
}
MODES = {"no_grad": torch.no_grad, "inference": torch.inference_mode, "grad": torch.enable_grad}


@pytest.mark.filterwarnings("ignore::jitpkg.errors.JitpkgWarning")
@pytest.mark.parametrize("write", WRITTEN)
@pytest.mark.parametrize(
    ("take", "backend"),
    [*((take, "eager") for take in TAKEN), ("unbind", "jitpkg"), ("detached", "jitpkg")],
)
def test_a_program_that_makes_them(take: str, write: str, backend: str) -> None:
    def program(x: Tensor, outer: str, inner: str) -> Any:
        with MODES[outer]():
            taken = TAKEN[take](x)
        with MODES[inner]():
            WRITTEN[write](taken)
        return taken.shape, taken.detach() + 1

    def ends(*given: Any) -> bool:
        try:
            program(*given)
        except RuntimeError:
            return False
        return True

    def inputs() -> list[Tensor]:
        leaf = torch.ones(2, requires_grad=True)
        return [torch.ones(2), leaf, torch.ones(2, requires_grad=True) * 1]

    for outer, inner in itertools.product(MODES, MODES):
        for k, x in enumerate(inputs()):
            # What eager code refuses may fail in a graph, and is a failure of that under `strict`.
            # A graph takes such a view again in the usual mode, which then refuses the write.
            refused = (outer, inner) == ("inference", "no_grad")
            settings = {"strict": ends(inputs()[k], outer, inner) and not refused}
            ignored = ("grad_fn", "traceback", "version")
            same = Comparison(backend=backend, ignore=ignored, settings=settings)
            same.assert_same(program, x, outer, inner)


MADE: dict[str, Callable[[], Tensor]] = {
    "a view that is made to require grad": lambda: torch.arange(8.0)[2:].requires_grad_(),
    "detached": lambda: torch.arange(8.0)[2:].detach().requires_grad_(),
    "a leaf": lambda: torch.arange(6.0).requires_grad_(),
    "a view of one": lambda: torch.arange(8.0).requires_grad_()[2:],
    "no gradients": lambda: torch.arange(8.0)[2:],
}


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("first", MADE)
def test_a_view_without_grad_mode_requires_grad_as_its_base(first: str, backend: str) -> None:
    def program(x: Tensor) -> Any:
        with torch.no_grad():
            views = [x[1:], x.view(2, 3), x.view(-1).t(), x.as_strided((2,), (1,)), *x.unbind()]
        return [y.requires_grad for y in views], [(y * 2).requires_grad for y in views]

    def of_its_own(x: Tensor) -> Any:
        y = x.detach()[1:].requires_grad_()
        with torch.no_grad():
            z = y[1:]
        return y.requires_grad, z.requires_grad, (z * 2).requires_grad

    for function in (program, of_its_own):
        compiled = jitpkg.compile(function, backend=backend)
        for made in (first, *MADE, first):
            assert compiled(MADE[made]()) == function(MADE[made]()), made
