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
