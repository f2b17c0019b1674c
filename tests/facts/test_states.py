"""What is said of a call is so in whatever state it is made, be it said by rows or by FakeTensor.

The same calls as in `test_rows`, with inference mode, autocast and no grad on and off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from jitpkg.facts.answers import Facts
from jitpkg.facts.outcome import (
    DataDependent,
    NeedsNumbers,
    NoFacts,
    Outcome,
    StandIns,
    WouldRaise,
    written_by,
)
from jitpkg.facts.tensor import facts_of
from jitpkg.internals import dispatch
from tests.facts import varying
from tests.facts.cases import CASES
from tests.facts.examples import EXAMPLES, facts, method, of
from tests.facts.test_rows import ACTIVATIONS, BINARY, OPERATORS, UNARY, pairs
from tests.portions import portion

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")

CONTEXTS: dict[str, Callable[[], Any]] = {
    "no grad": torch.no_grad,
    "inference": torch.inference_mode,
    "bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", dtype=torch.float16),
}
STATES = (
    "grad",
    "no grad",
    "inference",
    "bfloat16",
    "float16",
    "no grad, bfloat16",
    "inference, bfloat16",
)
FACTS = Facts()


@contextmanager
def entered(state: str) -> Iterator[None]:
    with ExitStack() as stack:
        for name in state.split(", "):
            if name in CONTEXTS:
                stack.enter_context(CONTEXTS[name]())
        yield


def really(call: Callable[..., Any], args: Any, kwargs: Any) -> Outcome:
    """What the real call does to real tensors."""
    stand_ins, again = StandIns(args, kwargs), StandIns(args, kwargs)
    written: set[int] = set()

    def see(func: Any, args: Any, kwargs: Any) -> Any:
        written.update(written_by(func, args, kwargs))
        return func(*args, **kwargs)

    for tensor in (*stand_ins.tensors, *again.tensors):
        tensor.data.fill_(1)  # it counts versions apart
    result = stand_ins.call(call)
    outcome = stand_ins.outcome(result, facts_of, written=frozenset(), random=False)
    with dispatch.mode(see):
        again.call(call)
    seen = again.outcome(result, facts_of, written=frozenset(written), random=False)
    return replace(outcome, mutated=seen.mutated)


def agree(name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    try:
        real = really(call, args, kwargs)
    except Exception:
        return  # it is called then, and raises
    try:
        answer = FACTS.of_call(name, call, args, kwargs)
    except (DataDependent, NeedsNumbers, NoFacts, WouldRaise):
        return  # it breaks the graph
    shown = f"{name}({', '.join(map(str, args))}, {kwargs})"
    assert str(answer.result) == str(real.result), shown
    assert answer.result == real.result, shown
    assert answer.shares == real.shares, shown
    assert answer.arguments == real.arguments, shown
    assert answer.mutated == real.mutated, shown
    if torch.is_autocast_enabled("cpu") and torch.is_grad_enabled():
        varying.agree(name, call, args, kwargs, really)


def of_examples(name: str, call: Callable[..., Any], state: str) -> None:
    given = [facts(*example) for example in EXAMPLES]
    with entered(state):  # some are made there
        given += [facts(layout, dtype) for layout, dtype, grad in EXAMPLES if not grad]
        for each in portion(given, 4, name, state):
            agree(name, call, each)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, state: str) -> None:
    of_examples(name, method(name), state)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str, state: str) -> None:
    of_examples(name, getattr(F, name), state)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", [*BINARY, *OPERATORS])
def test_binary(name: str, state: str) -> None:
    call = OPERATORS.get(name) or method(name)
    given = [(facts(a, grad=True), facts(b, torch.bfloat16)) for a, b in pairs(name)]
    given += [(facts(a), facts(b, grad=True)) for a, b in pairs(name)]
    with entered(state):
        given += [(facts(a), facts(b, torch.bfloat16)) for a, b in pairs(name)]
        for pair in portion(given, 6, name, state):
            agree(name, call, *pair)


def test_rows_answer_in_inference_mode() -> None:
    """FakeTensor need not be asked."""
    answers = Facts()
    calls: tuple[tuple[str, Any, Any], ...] = (
        ("linear", F.linear, (of(2, 4), of(5, 4), of(5))),
        ("relu", F.relu, (of(2, 4),)),
        ("view", method("view"), (of(2, 4), 8)),
    )
    with torch.inference_mode():
        for name, call, args in calls:
            assert answers.of_call(name, call, args, {}) == really(call, args, {})
    assert answers._fake is None


@pytest.mark.parametrize("state", STATES)
def test_cases(state: str) -> None:
    with entered(state):
        agree("is_inference", torch.is_inference, facts())
        for each in portion(CASES, 8, state):
            agree(each.name, each.call, *each.args, **each.kwargs)
