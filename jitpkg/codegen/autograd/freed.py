"""Results that require grad, of a graph which has gone backward already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitpkg.dataclass import dataclass

Function = Callable[..., Any]

KEPT = "a result whose gradients may be asked for afterwards"
"""Why a graph with a backward pass inside runs op by op: a part of it would be one node of
autograd's, which the pass frees as a whole."""


@dataclass(frozen=True, slots=True)
class Freed:
    """The results of a graph with a history that is freed."""

    results: tuple[int, ...]
    leaves: tuple[int, ...]
    """The inputs that gradients would go to."""

    def plain(self) -> list[list[int]]:
        """It as JSON."""
        return [list(self.results), list(self.leaves)]

    def wrapped(self, run: Function) -> Function:
        """A function of the graph's inputs, whose results have such a history."""
        if not self.results:
            return run
        results, leaves, apply = self.results, self.leaves, _History.apply

        def step(*inputs: Any) -> Any:
            made = list(run(*inputs))
            values = [made[k] for k in results]
            if any(value.requires_grad for value in values):
                return tuple(made)  # the graph has run op by op
            with_history = apply(values, *[inputs[k] for k in leaves])  # type: ignore[no-untyped-call]
            for k, value in zip(results, with_history, strict=True):
                made[k] = value
            return tuple(made)

        return step


class _History(torch.autograd.Function):
    """What is left of a graph that gradients went through."""

    @staticmethod
    def forward(_: Any, values: list[torch.Tensor], *__: torch.Tensor) -> Any:
        return tuple(values)

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:
        raise RuntimeError(_FREED)


_FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after"
    " they have already been freed). Saved intermediate values of the graph are freed when you call"
    " .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the"
    " graph a second time or if you need to access saved tensors after calling backward."
)
"""As torch says it."""
