"""Functions that are recorded on stand-ins: they come to the ops that they come to on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pytest
import torch

from jitpkg.facts import meta, single
from jitpkg.facts.single import elsewhere
from jitpkg.facts.tensor import facts_of
from jitpkg.internals import dispatch, trees
from tests.opinfo.samples import database

SAMPLES = 12
"""Of each op in the database."""

NAMED = sorted(meta.RECORDED)


def ops_of(function: Any, args: Any, kwargs: Any) -> list[str]:
    """The ops of a call, with what is known of their operands."""
    seen: list[str] = []

    def see(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        seen.append(f"{func}{trees.mapped(described, (args, dict(kwargs)))}")
        return func(*args, **kwargs)

    with torch.enable_grad(), dispatch.mode(see):
        function(*args, **kwargs)
    return seen


def described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype
    return "device" if isinstance(value, torch.device) else value


def without_data(x: Any) -> Any:
    if not isinstance(x, torch.Tensor):
        return x
    return single.stand_in(facts_of(x)).requires_grad_(x.requires_grad)


def samples_of(name: str) -> Iterator[tuple[Any, Any, Any]]:
    for op in database():
        if getattr(op.op, "__name__", "") == name:
            for sample in islice(
                op.sample_inputs("cpu", torch.float32, requires_grad=True), SAMPLES
            ):
                yield op.op, (sample.input, *sample.args), sample.kwargs


@pytest.mark.parametrize("name", NAMED)
def test_same_ops(name: str) -> None:
    if not any(getattr(op.op, "__name__", "") == name for op in database()):
        pytest.skip("this PyTorch has no sample calls of it")
    compared = 0
    for function, args, kwargs in samples_of(name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wanted = ops_of(function, args, kwargs)
            except RuntimeError:  # of a sample that is to raise
                continue
            given = trees.mapped(without_data, (args, kwargs))
            found = ops_of(function, elsewhere(given[0]), elsewhere(given[1]))
        assert found == wanted
        compared += 1
    assert compared
