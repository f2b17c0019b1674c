"""What a trial tells of PyTorch is the same, in whatever state it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch

from jitpkg.codegen.lowering import activations
from jitpkg.facts import decomposed, meta
from jitpkg.facts.rows import composites, functions
from jitpkg.internals import Row, c_guards
from jitpkg.native import trials

QUESTIONS: dict[str, Any] = {
    "products_compare_sizes": meta.products_compare_sizes,
    "follows_query": functions._follows_query,
    "transformed_dim_is_innermost": composites._transformed_dim_is_innermost,
    "lstm_is_right": decomposed.lstm_is_right,
    "onednn_overflows": activations._onednn_overflows,
}

STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "inference mode": torch.inference_mode,
    "no grad": torch.no_grad,
    "grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default dtype": lambda: DefaultDtype(),
    "default device": lambda: torch.device("meta"),
}


class DefaultDtype:
    def __enter__(self) -> None:
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(torch.float32)


def asked_first(question: Any) -> bool:
    question.cache_clear()
    return bool(question())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_depends_on_no_state(name: str, state: str) -> None:
    question = QUESTIONS[name]
    plain = asked_first(question)
    try:
        with STATES[state]():
            assert asked_first(question) is plain
    finally:
        question.cache_clear()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "row",
    [c_guards.TENSORS, c_guards.GLOBAL_STATE, c_guards.DICT_VERSION],
    ids=lambda row: row.name,
)
def test_what_a_private_name_does_is_tried_in_any_state(row: Row[Any], state: str) -> None:
    with STATES[state]():
        assert row._tried().why is None


@pytest.mark.parametrize("state", STATES)
def test_native_guards_start_in_any_state(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if trials.evaluator(start=True) is None:
        pytest.skip("native code does not read objects here")
    monkeypatch.setattr(trials, "_ONCE", trials._Once())
    with STATES[state]():
        assert trials.evaluator(start=True) is not None
