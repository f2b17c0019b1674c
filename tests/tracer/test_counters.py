"""The number in a tensor without dimensions, where it is known before the graph runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import jitpkg
from jitpkg import events
from jitpkg.marks import READING
from jitpkg.testing import Comparison, call
from jitpkg.tracer.counters import Counted

OPERATIONS = (operator.add, operator.sub, operator.mul)
DTYPES = (torch.float32, torch.float64)


@given(
    st.sampled_from(DTYPES),
    st.floats(allow_nan=False),
    st.lists(
        st.tuples(st.sampled_from(OPERATIONS), st.floats(allow_nan=False) | st.integers(-3, 3))
    ),
)
def test_it_counts_as_torch_does(
    dtype: torch.dtype, number: float, steps: list[tuple[Callable[[Any, Any], Any], float]]
) -> None:
    tensor = torch.tensor(number, dtype=dtype)
    begun = tensor.item()
    for operation, operand in steps:
        in_place = {"add": tensor.add_, "sub": tensor.sub_, "mul": tensor.mul_}
        in_place[operation.__name__](operand)
    counted = Counted(dtype, tuple(operation for operation, _ in steps))
    found, wanted = counted(begun, *(operand for _, operand in steps)), tensor.item()
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
    assert math.copysign(1, found) == math.copysign(1, wanted) or math.isnan(found)


def read(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    n = step.item()
    return x * n, n


def counted(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    step += 1
    n = step.item()
    step.mul_(0.1)
    return x / (1 - 0.9**n), step.item()


def compared(step: Tensor, x: Tensor) -> Tensor:
    step += 1
    return x.sin() if step.item() > 3 else x.cos()


def written_otherwise(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    step.copy_(x.sum())
    return x + 1, step.item()


def written_through_a_view(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    step.view(1).add_(2)
    return x + 1, step.item()


def view_taken_before(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    step += 1
    seen = step[None]
    seen[0] = x.max()
    return x + 1, step.item()


def by_another(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    x.zero_()
    step += 1
    return x + 1, step.item()


def to_list(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    several = [step, step]
    torch._foreach_add_(several, 1.0)
    return x + 1, step.item()


def made_here(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    made = torch.tensor(0.1)
    made += 1
    made.mul_(2)
    return x * made.item(), made.item()


def made_and_written(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
    made = torch.ones(())
    seen = made.view(1)
    seen.add_(x.sum())
    return x + 1, made.item()


def of_whole_numbers(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    steps = step.long()
    return x * steps.item(), steps.item()


PROGRAMS = [
    *(read, counted, compared, written_otherwise, written_through_a_view, view_taken_before),
    *(by_another, to_list, made_here, made_and_written, of_whole_numbers),
]
READ = {written_otherwise, written_through_a_view, view_taken_before, to_list}
READ |= {made_and_written, of_whole_numbers}
"""Where the number is known only when the graph has run: it reads the tensor."""


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_programs(program: Callable[..., Any], dtype: torch.dtype, backend: str) -> None:
    how: dict[str, Any] = {"settings": {"never_worse": False}}
    if backend == "jitpkg":
        how |= {"ignore": ("grad_fn",), "relative": 1e-6, "absolute": 1e-6}
    calls = [
        call(torch.tensor(float(k), dtype=dtype), torch.arange(4.0) / 7)
        for k in (0, 1, 2, 3, 9, -1)
    ]
    calls += [call(torch.tensor(n, dtype=dtype), torch.ones(2)) for n in (math.nan, math.inf, 1e30)]
    Comparison(backend=backend, **how).assert_same_calls(program, *calls)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_graphs(program: Callable[..., Any]) -> None:
    heard: list[events.Event] = []
    function = jitpkg.compile(program, backend="eager")
    with events.STREAM.listening(heard.append):
        for k in range(6):
            function(torch.tensor(float(k)), torch.ones(3))
    assert not [e for e in heard if isinstance(e, events.Broke)]
    graphs = [e.graph.graph for e in heard if isinstance(e, events.GraphCompiled)]
    assert len(graphs) == (2 if program is compared else 1)
    assert any(READING in n.meta for g in graphs for n in g.nodes) == (program in READ)


def test_memory_that_is_shared() -> None:
    """What is written to another tensor may be what is read."""

    def program(step: Tensor, x: Tensor) -> tuple[Tensor, float]:
        x.mul_(3)
        step += 1
        return x + 1, step.item()

    function = jitpkg.compile(program, backend="eager")
    for k in range(3):
        apart, x = torch.tensor(2.0), torch.tensor(5.0)
        assert function(apart, x)[1] == 3
        memory = torch.tensor([2.0])
        step = torch.empty(()).set_(memory.untyped_storage(), 0, (), ())
        wanted, theirs = program(step.clone(), step.clone()), step.clone()
        assert wanted[1] == 3 and theirs.item() == 2
        assert function(step, step)[1] == 2.0 * 3 + 1
        part = torch.tensor([2.0, 4.0])
        assert function(part[1], part[0])[1] == 5
        memory.fill_(2.0 + k)
        assert function(memory[0], memory)[1] == (2.0 + k) * 3 + 1
