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
from tests.codegen.examples import examples

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


# Whole numbers


def read_as_float(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    step += 1
    return x * (1.0 / float(step)), float(step)


def read_as_int(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    step.mul_(3)
    step -= 1
    return x * int(step), step.item()


def as_a_size(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    step += 2
    return x[: step.item()], step.item() * 2


def each_second(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    step.add_(1)
    return (x.sin() if step.item() % 2 == 0 else x.cos()), step.item() // 2


def plus_a_fraction(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    try:
        step += 0.5
    except RuntimeError as error:
        return x, str(error)
    return x * 2, step.item()


def made_of_a_whole_number(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    made = torch.tensor(3)
    made += 4
    return x * made.item(), int(made), float(made)


def made_of_a_fraction(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    made = torch.tensor(2.75, dtype=torch.int64)
    made += 4
    return x * made.item(), int(made)


def true_of_it(step: Tensor, x: Tensor) -> tuple[Tensor, Any]:
    return x * 2, bool(step), step.item() > 1


WHOLE = [
    *(read_as_float, read_as_int, as_a_size, each_second, plus_a_fraction),
    *(made_of_a_whole_number, made_of_a_fraction, true_of_it, read, compared),
    *(written_through_a_view, view_taken_before, by_another),
]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_programs_of_whole_numbers(
    program: Callable[..., Any], dtype: torch.dtype, backend: str
) -> None:
    how: dict[str, Any] = {"settings": {"never_worse": False}}
    if backend == "jitpkg":
        how |= {"ignore": ("grad_fn",), "relative": 1e-6, "absolute": 1e-6}
    most = torch.iinfo(dtype).max
    numbers = (0, 1, 2, 3, 9, -1, -3, 10**6, most, most - 1, -most - 1, 1 << 30)
    calls = [call(torch.tensor(n, dtype=dtype), torch.arange(4.0) / 7) for n in numbers]
    Comparison(backend=backend, **how).assert_same_calls(program, *calls)


@pytest.mark.parametrize("program", [read_as_float, read_as_int, as_a_size, each_second])
def test_graphs_of_whole_numbers(program: Callable[..., Any]) -> None:
    heard: list[events.Event] = []
    function = jitpkg.compile(program, backend="eager", fullgraph=True)
    with events.STREAM.listening(heard.append):
        for k in (3, 4, 5, 6, 7, 8):
            function(torch.tensor(k), torch.ones(20))
    graphs = [e.graph.graph for e in heard if isinstance(e, events.GraphCompiled)]
    assert len(graphs) <= 2 + (program is each_second)
    assert not any(READING in n.meta for g in graphs for n in g.nodes)


WHOLE_NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)


@given(
    st.sampled_from([torch.int64, torch.int32]),
    WHOLE_NUMBERS,
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(-5, 5) | WHOLE_NUMBERS)),
)
def test_whole_numbers_are_counted_as_torch_does(
    dtype: torch.dtype, number: int, steps: list[tuple[Callable[[Any, Any], Any], int]]
) -> None:
    tensor = torch.tensor(number, dtype=dtype)
    for operation, operand in steps:
        in_place = {"add": tensor.add_, "sub": tensor.sub_, "mul": tensor.mul_}
        in_place[operation.__name__](operand)
    counted = Counted(dtype, tuple(operation for operation, _ in steps))
    assert counted(number, *(operand for _, operand in steps)) == tensor.item()


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_that_averages_over_all_batches(training: bool) -> None:
    """Without a momentum it divides by the number of batches, as `update_bn` has it."""
    torch.manual_seed(0)
    theirs, ours = (torch.nn.BatchNorm1d(3, momentum=None).train(training) for _ in range(2))
    compiled = jitpkg.compile(ours, fullgraph=True)
    for n in (4, 4, 5, 6):
        x = torch.randn(n, 3)
        torch.testing.assert_close(compiled(x), theirs(x))
    assert ours.num_batches_tracked == theirs.num_batches_tracked
    torch.testing.assert_close(ours.running_var, theirs.running_var)


# Counters that are the same


def several(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, list[float]]:
    a += 1
    first = x * a.item()
    b += 1
    c.mul_(0.5)
    numbers = [math.copysign(1.0, a.item()), b.item(), math.copysign(2.0, c.item())]
    return first / (1 + b.item() ** 2) + c.item(), numbers


def several_that_are_read(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, list[float]]:
    numbers = [math.copysign(1.0, each.item()) for each in (a, b, c)]
    return x * a.item() + b.item() * c.item(), numbers


SIGNED = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.nan, math.inf])


@examples(60)
@given(
    st.sampled_from([several, several_that_are_read]),
    st.lists(
        st.tuples(
            st.lists(SIGNED, min_size=3, max_size=3) | SIGNED.map(lambda number: [number] * 3),
            st.sampled_from([(torch.float32,) * 3, (torch.float32, torch.float64, torch.float32)]),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_counters_that_are_the_same_and_others(
    program: Callable[..., Any], given: list[tuple[list[float], tuple[torch.dtype, ...]]]
) -> None:
    """What is equal in one call need not be in the next one."""
    calls = [
        call(
            *(torch.tensor(n, dtype=d) for n, d in zip(numbers, dtypes, strict=True)),
            torch.arange(3.0),
        )
        for numbers, dtypes in given
    ]
    how: dict[str, Any] = {"settings": {"never_worse": False}}
    Comparison(backend="eager", **how).assert_same_calls(program, *calls)


def test_an_optimizer_counts_once() -> None:
    """All parameters' counters are one number of the graph, until one of them is another."""
    heard: list[events.Event] = []
    made = []
    for compiles in (True, False):
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(3)) for _ in range(5)]
        for parameter in parameters:
            parameter.grad = torch.randn(3)
        optimizer = torch.optim.AdamW(parameters, lr=0.1)
        step = optimizer.step
        if compiles:
            step = jitpkg.compile(step, backend="eager")
        made.append((parameters, optimizer, step))
    with events.STREAM.listening(heard.append):
        for k in range(8):
            for parameters, optimizer, step in made:
                if k == 5:
                    optimizer.state[parameters[2]]["step"] += 3
                step()
            for ours, theirs in zip(made[0][0], made[1][0], strict=True):
                assert torch.equal(ours, theirs)
    graphs = [e.graph.graph for e in heard if isinstance(e, events.GraphCompiled)]
    numbers = [
        sum(node.name.startswith("number") for node in graph.find_nodes(op="placeholder"))
        for graph in graphs
    ]
    assert numbers == [0, 2, 4]  # the first step makes the counters
