"""Views without a history to ask for: taken under no_grad, of what was written to later."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import jitpkg


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
