"""Branches on data that a graph goes past: results, exceptions and all else are eager code's.

PYTEST_DONT_REWRITE: the assertions of programs are as Python has them.
"""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import events
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.testing.same import Comparison, call

Program = Callable[..., Any]
GOOD, LARGE, NAN = torch.ones(3), torch.full((3,), 60.0), torch.full((3,), float("nan"))
CODES = torch.tensor([0, 2, 1])
CALLS = (GOOD, GOOD, LARGE, NAN, GOOD, NAN, LARGE, GOOD)


def nan_check(x: Any) -> Any:
    if torch.isnan(x).any():
        raise ValueError(f"nan in a tensor of {tuple(x.shape)}")
    return x * 2


def assertion(x: Any) -> Any:
    y = x * 2
    assert (y < 100).all(), "large"
    return y + 1


def negated(x: Any) -> Any:
    if not (x < 50).all():
        raise OverflowError(x.shape)
    return x + 1


def several(x: Any) -> Any:
    if torch.isnan(x).any() or (x > 50).any():
        raise ValueError("nan" if x.isnan().any() else "large")
    return x.exp()


def both(x: Any) -> Any:
    if (x > 50).any() and (x > 55).all():
        raise ValueError
    return x.exp()


def of_bool(x: Any) -> Any:
    if bool(torch.isnan(x).any()):
        raise ValueError("nan")
    return x + 1


def of_a_float(x: Any) -> Any:
    if x.isnan().sum():
        raise ValueError("nan")
    return x + 1


def of_a_number(x: Any) -> Any:
    y = x * 2
    if math.isnan(y.sum().item()):
        raise ValueError("nan")
    assert y.max().item() <= 100, y.max().item()
    return y + 1


def of_a_number_negated(x: Any) -> Any:
    n = (x > 50).sum().item()
    if not n == 0:
        raise ValueError(f"{n} are large")
    if n:
        raise TypeError
    return x + n


def of_two_numbers(x: Any) -> Any:
    low, high = x.min().item(), x.max().item()
    assert low <= high < 50, (low, high)
    return x - low


def checked_by_torch(x: Any) -> Any:
    largest = x.max().item()
    torch._check(largest < 50, lambda: f"{largest} is large")
    torch._check_tensor_all(x > -50, lambda: "low")
    torch._check_value(not x.isnan().any().item(), lambda: "nan")
    return x * 2


def checked_without_a_message(x: Any) -> Any:
    torch._check((x < 50).all().item())
    torch._check_index(len(x) == 3)
    return x * 2


def chosen_message(x: Any) -> Any:
    if (x > 50).any():
        if x.dim() > 1:
            raise ValueError("matrix")
        raise TypeError("vector")
    return x + 1


def checked(x: Any, what: str) -> Any:
    if not (x < 50).all():
        raise ValueError(f"{what} is large")
    return x * 2


def in_a_callee(x: Any) -> Any:
    y = checked(x, "x")
    return checked(y + 1, "y") - x


def caught(x: Any) -> Any:
    try:
        y = checked(x, "x")
    except ValueError as error:
        return x, str(error)
    finally:
        x = x + 1
    return y + x


def with_a_list(x: Any) -> Any:
    seen = [x]
    checked(x, "x")
    seen.append(x + 1)
    return seen


def random_before(x: Any) -> Any:
    y = x + torch.rand(3)
    assert (y < 50).all()
    return y


def random_after(x: Any) -> Any:
    assert (x < 50).all()
    return x * torch.rand(3) + nn.functional.dropout(x, 0.5)


def in_a_loop(x: Any) -> Any:
    for k in range(5):
        assert (x < 50 + k).all(), k
        x = x * 2
    return x


def without_grad(x: Any) -> Any:
    with torch.no_grad():
        assert (x < 50).all()
        y = x * 2
    return y + x


def under_autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.expand(3, 3) @ x.expand(3, 3)
        assert (y < 50).all()
        return y @ y


def indexed(x: Any) -> Any:
    index = x.nan_to_num(9.0).to(torch.int64)
    if (index > 2).any():
        raise IndexError("an index")
    return x[index] + 1


def what_raises_after(x: Any) -> Any:
    index = x.nan_to_num(9.0).to(torch.int64)
    assert (x == x).all(), "nan"
    return x[index]


def writes_to_its_own(x: Any) -> Any:
    y = x + 1
    assert (y < 50).all()
    y.mul_(2)
    y[0] = 7
    return y


def writes_to_what_it_looked_at(x: Any) -> Any:
    y = (x < 50).all()
    assert y
    y.logical_not_()
    return y, x + 1


def writes_to_what_is_seen(x: Any) -> Any:
    y = (x < 50).all()[None]
    assert y[0]
    y.logical_not_()
    return y, x + 1


def writes_before(x: Any) -> Any:
    x.add_(1)
    assert (x < 50).all()
    return x * 2


def writes_after(x: Any) -> Any:
    y = x * 2
    assert (x < 50).all()
    x.add_(1)
    return x + y


def writes_on_both_sides(x: Any) -> Any:
    x.add_(1)
    assert (x < 50).all()
    x.mul_(2)
    assert (x < 40).all()
    return x + 1


def a_view_as_result(x: Any) -> Any:
    assert (x < 50).all()
    return x[1:], x


def generated(x: Any) -> Any:
    def parts() -> Any:
        for part in x:
            assert part < 50, "large"
            yield part * 2

    return torch.stack(list(parts()))


PROGRAMS = [
    *(nan_check, assertion, negated, several, both, of_bool, of_a_float, chosen_message),
    *(in_a_callee, caught, with_a_list, random_before, random_after, in_a_loop, without_grad),
    *(under_autocast, indexed, what_raises_after, writes_to_its_own, writes_to_what_it_looked_at),
    *(writes_to_what_is_seen, writes_before, writes_after, writes_on_both_sides),
    *(a_view_as_result, generated, of_a_number, of_a_number_negated, of_two_numbers),
    *(checked_by_torch, checked_without_a_message),
]
WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "ignore": HOW_COMPUTED, "relative": 1e-6},
    "aot_eager": {"backend": "aot_eager", "ignore": HOW_COMPUTED},
    "breaks": {"settings": {"disturb": "break"}},
    "without": {"settings": {"speculate": False}},
    **{
        f"guess:{bits}": {"settings": {"disturb": f"guess:{bits}"}}
        for bits in (0, 0xFFFF, 0x5555, 0xAAAA)
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, way: str) -> None:
    calls = [call(x.clone()) for x in CALLS]
    Comparison(**WAYS[way]).assert_same_calls(program, *calls)


@pytest.mark.parametrize("way", ["eager", "jitpkg", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager_code_in_training(program: Program, way: str) -> None:
    """The arguments are no leaves, so that programs may write to them."""

    def trained(x: Any) -> Any:
        return program(x * weight)

    weight = torch.tensor([1.0, 1.5, 0.5], requires_grad=True)
    calls = [call(x.clone()) for x in CALLS]
    Comparison(**WAYS[way]).assert_same_calls(trained, *calls)


ONE_GRAPH = [
    *(nan_check, assertion, negated, several, of_bool, of_a_float, chosen_message),
    *(in_a_callee, random_before, random_after, in_a_loop, without_grad, under_autocast, indexed),
    *(what_raises_after, writes_to_its_own, a_view_as_result, generated, of_a_number),
    *(of_a_number_negated, of_two_numbers, checked_by_torch, checked_without_a_message),
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Program, backend: str) -> None:
    compiled = jitpkg.compile(program, backend=backend, fullgraph=True)
    compiled(GOOD.clone())
    explained = jitpkg.explain(program, backend=backend)(GOOD.clone())
    assert explained.graph_count == 1
    assert explained.graph_break_count == 0
    assert explained.guesses


@pytest.mark.parametrize("program", [nan_check, assertion, in_a_callee], ids=lambda p: p.__name__)
def test_the_traceback_is_the_programs(program: Program) -> None:
    def lines(function: Program, x: torch.Tensor) -> list[str]:
        try:
            function(x)
        except (ValueError, AssertionError) as error:
            frames = traceback.extract_tb(error.__traceback__)
            return [f"{f.name}:{f.lineno}" for f in frames if f.filename == __file__][1:]
        return []

    compiled = jitpkg.compile(program)
    for x in CALLS:
        assert lines(compiled, x) == lines(program, x)


def heard(compiled: Program, calls: Sequence[Any]) -> list[events.Event]:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        for x in calls:
            try:  # noqa: SIM105
                compiled(x)
            except ValueError:
                pass
    return found


def test_a_check_that_fails_often_is_a_break() -> None:
    compiled = jitpkg.compile(nan_check, backend="eager")
    compiled(GOOD)
    found = heard(compiled, [NAN] * 12)
    missed = [event for event in found if isinstance(event, events.Missed)]
    assert [event.given_up for event in missed] == [False] * 7 + [True]
    heard(compiled, [GOOD, NAN] * 3)
    assert not heard(compiled, [GOOD, NAN] * 3 + [GOOD] * 30)


def test_what_is_missed_now_and_then_stays_one_graph() -> None:
    compiled = jitpkg.compile(nan_check, backend="eager")
    found = heard(compiled, [GOOD, GOOD, NAN, GOOD] * 3)
    assert sum(isinstance(event, events.GraphCompiled) for event in found) == 1
    assert sum(isinstance(event, events.Missed) for event in found) == 3


def test_a_whole_graph_stays_whole() -> None:
    compiled = jitpkg.compile(nan_check, backend="eager", fullgraph=True)
    found = heard(compiled, [GOOD, *[NAN] * 20, GOOD])
    assert graphs(found) == 1
    assert torch.equal(compiled(GOOD), GOOD * 2)


def forked(x: Any) -> Any:
    y = x * 2
    good = (y > 0).all()
    if good:
        z = y + 1
    else:
        z = y - 1
    return z * 3


def graphs(found: Sequence[events.Event]) -> int:
    return sum(isinstance(event, events.GraphCompiled) for event in found)


def forked_by_comparison(x: Any) -> Any:
    y = x * 2
    return (y + 1 if y.sum() > 0 else y - 1) * 3


def forked_by_comparison_with_another(x: Any) -> Any:
    y = x * 2
    if x.sum() <= y.sum():
        y = y + 1
    return y * 3


def forked_by_a_number(x: Any) -> Any:
    y = x * 2
    total = y.sum().item()
    if total > 0:
        y = y + total
    return y * 3


def forked_by_the_truth_of_a_number(x: Any) -> Any:
    y = x * 2
    return (y + 1 if (x > 0).sum().item() else y - 1) * 3


def forked_in_a_callee(x: Any) -> Any:
    return forked_by_comparison(x + 0) + 1


FORKED = (
    *(forked, forked_by_comparison, forked_by_comparison_with_another, forked_in_a_callee),
    *(forked_by_a_number, forked_by_the_truth_of_a_number),
)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", FORKED, ids=lambda program: program.__name__)
def test_the_usual_way_becomes_one_graph(program: Any, backend: str) -> None:
    compiled = jitpkg.compile(program, backend=backend)
    assert graphs(heard(compiled, [GOOD] * 16)) in (2, 3)  # one more for what a callee is left to
    found = heard(compiled, [GOOD])
    assert graphs(found) == 1
    assert any(isinstance(event, events.Guessed) for event in found)
    assert not heard(compiled, [GOOD] * 30)


def test_the_usual_way_is_given_up_when_it_is_missed_twice() -> None:
    compiled = jitpkg.compile(forked, backend="eager")
    heard(compiled, [GOOD] * 20)
    found = heard(compiled, [-GOOD, GOOD, -GOOD])
    assert [event.given_up for event in found if isinstance(event, events.Missed)] == [False, True]
    heard(compiled, [GOOD, -GOOD])
    assert not heard(compiled, [GOOD, -GOOD] * 40 + [GOOD] * 40)


def test_mixed_ways_stay_two_graphs() -> None:
    compiled = jitpkg.compile(forked, backend="eager")
    heard(compiled, [GOOD, -GOOD])
    assert not heard(compiled, [GOOD, -GOOD] * 200)


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
def test_results_while_ways_change(backend: str) -> None:
    """Through every state: break, guess, miss, break again."""
    calls = [GOOD] * 20 + [-GOOD, GOOD, -GOOD] + [GOOD, -GOOD] * 3
    comparison = Comparison(backend=backend, ignore=HOW_COMPUTED, relative=1e-6)
    for program in (forked, early_exit, halved):
        comparison.assert_same_calls(program, *[call(x.clone()) for x in calls])


def early_exit(x: Any) -> Any:
    if (x < 0).any():
        return x
    return (x * 2).sin()


def halved(x: Any) -> Any:
    """A loop whose end depends on data."""
    count = 0
    while (x.abs() > 0.1).any():
        x = x / 2
        count += 1
    return x, count


def test_a_loop_is_not_unrolled_by_guesses() -> None:
    def endless(x: Any) -> Any:
        while (x < 1000).all():
            x = x + 1
        return x

    compiled = jitpkg.compile(endless, backend="eager")
    for _ in range(40):
        assert torch.equal(compiled(GOOD), torch.full((3,), 1000.0))
    explained = jitpkg.explain(endless, backend="eager")(GOOD)
    assert max(map(len, explained.ops_per_graph)) < 20


def test_a_checkpoint_ends_the_guesses() -> None:
    def program(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(checked, x * 2, "x", use_reentrant=False) + 1

    leaf = torch.ones(3, requires_grad=True)
    Comparison().assert_same_calls(program, call(leaf), call(leaf), call(LARGE.clone()))
    gc.collect()  # PyTorch 2.11 leaves a failed checkpoint's hooks until its error is freed


def test_backward_of_a_function_is_not_guessed() -> None:
    class Checked(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            assert (gradient < 50).all(), "large"
            return gradient * 2

    def program(x: Any, scale: Any) -> Any:
        return Checked.apply(x) * scale

    compiled = jitpkg.compile(program, backend="eager")
    for scale in (1.0, 60.0, 1.0):
        x = torch.ones(3, requires_grad=True)
        result = compiled(x, torch.tensor(scale)).sum()
        if scale > 50:
            with pytest.raises(AssertionError, match="large"):
                result.backward()
        else:
            result.backward()
            assert x.grad is not None


def test_a_buffer_decides() -> None:
    class Once(nn.Module):
        ready: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("ready", torch.tensor(True))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.ready:
                raise RuntimeError("not ready")
            return x + 1

    module = Once()
    compiled = jitpkg.compile(module, backend="eager", fullgraph=True)
    assert torch.equal(compiled(GOOD), GOOD + 1)
    module.ready.fill_(False)
    with pytest.raises(RuntimeError, match="not ready"):
        compiled(GOOD)
    module.ready.fill_(True)
    assert torch.equal(compiled(GOOD), GOOD + 1)


DISTRIBUTIONS: dict[str, Program] = {
    "normal": lambda x: torch.distributions.Normal(x, x.exp()).log_prob(x),
    "sample": lambda x: torch.distributions.Normal(x, x.exp()).rsample(),
    "independent": lambda x: torch.distributions.Independent(
        torch.distributions.Normal(x, x.exp()), 1
    ).log_prob(x),
    "uniform": lambda x: torch.distributions.Uniform(x - 1, x + 1).log_prob(x),
    "gamma": lambda x: torch.distributions.Gamma(x.exp(), x.exp()).log_prob(x.exp()),
    "laplace": lambda x: torch.distributions.Laplace(x, x.exp()).log_prob(x),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_are_one_graph(name: str) -> None:
    program = DISTRIBUTIONS[name]
    Comparison().assert_same_calls(program, call(GOOD), call(NAN), call(GOOD))
    jitpkg.compile(program, backend="eager", fullgraph=True)(GOOD)
