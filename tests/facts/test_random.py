"""Which calls draw from a random stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from jitpkg.facts.answers import Facts
from jitpkg.facts.tensor import facts_of

FACTS = Facts()
HEADS = torch.ones(1, 2, 4, 8)
VALUES = torch.ones(3)


@pytest.mark.parametrize(
    ("call", "args", "kwargs", "draws"),
    [
        (functional.scaled_dot_product_attention, (HEADS,) * 3, {}, False),
        (functional.scaled_dot_product_attention, (HEADS,) * 3, {"dropout_p": 0.0}, False),
        (functional.scaled_dot_product_attention, (HEADS,) * 3, {"dropout_p": 0.1}, True),
        (functional.dropout, (VALUES, 0.5, True), {}, True),
        (functional.dropout, (VALUES, 0.5, False), {}, False),
        (torch.rand_like, (VALUES,), {}, True),
        (torch.relu, (VALUES,), {}, False),
    ],
)
def test_draws(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], draws: bool
) -> None:
    before = torch.get_rng_state()
    call(*args, **kwargs)
    assert torch.equal(torch.get_rng_state(), before) is not draws
    described = tuple(facts_of(a) if isinstance(a, torch.Tensor) else a for a in args)
    assert FACTS.of_call(call.__name__, call, described, kwargs).random is draws
