"""Modes that see the ops of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg.internals import dispatch


@pytest.mark.parametrize("overload", ["add", "add_"])
def test_no_operator_takes_an_error_for_not_implemented(overload: str) -> None:
    """It would go on with another op: with the one of `x + y` in place of that of `x += y`."""
    seen: list[str] = []

    def see(func: Any, args: Any, kwargs: Any) -> Any:
        seen.append(func.overloadpacket.__name__)
        raise TypeError("unhashable")

    def augmented(x: Any) -> None:
        x += 1

    run: Callable[[Any], Any] = augmented if overload == "add_" else lambda x: x + 1
    x = torch.ones(2)
    with dispatch.mode(see), pytest.raises(RuntimeError, match="TypeError: unhashable"):
        run(x)
    assert seen == [overload]
