"""A forward and a backward graph as one differentiable function, without AOTAutograd's wrappers.

For graphs that write to nothing and return no views: what AOTAutograd does at each call of these is
done here, by what is known when it is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.autograd import forward_ad

from jitpkg.errors import BackendError

Function = Callable[..., Any]
Backward = Callable[[frozenset[int], Sequence[Any]], Sequence[Any]]
"""Of the results without a gradient, by their places among those that may have one; and of what is
saved, and the gradients."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a forward function and a backward function belong together.

    The first returns a graph's results, and then what is to be saved; the second takes what was
    saved, and gradients, and returns a gradient, or None, for each input.
    """

    results: int
    """How many there are."""
    differentiable: tuple[int, ...]
    """Those that may have gradients."""
    constant: tuple[int, ...]
    """The other tensors among them."""
    views: tuple[int, ...]
    """Results that nobody can tell from views of a tensor that is gone."""
    detached: tuple[int, ...]
    """Inputs, themselves results of something, that get no gradient in any case."""
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    """Sizes and strides of the gradients, as the backward function takes them."""
    deterministic: bool
    """Whether deterministic algorithms were asked for."""
    random: bool
    """Whether the forward function draws random numbers."""


def differentiated(
    plan: Plan, gm: fx.GraphModule, forward: Function, backward: Backward
) -> Function:
    """A function of the graph's inputs; the graph itself is run where that would not be right."""
    apply: Function = _function(plan, forward, backward).apply
    original, random = gm.forward, plan.random

    def run(*inputs: torch.Tensor) -> Any:
        if forward_ad._current_level >= 0:
            return original(*inputs)
        stream = torch.get_rng_state() if random else None
        try:
            return apply(*(inputs if not plan.detached else _detached(plan, inputs)))
        except Exception:  # nothing has happened yet: if an op is to blame it fails again
            if stream is not None:
                torch.set_rng_state(stream)
        return original(*inputs)

    return run


def _detached(plan: Plan, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    given = list(inputs)
    for k in plan.detached:
        given[k] = given[k].detach()
    return given


def _function(
    plan: Plan, forward_of: Function, backward_of: Backward
) -> type[torch.autograd.Function]:
    count = plan.results

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> Any:
            made = forward_of(*inputs)
            # A view of the forward's own would keep its base, and be refused where that is written.
            saved = [x.detach() if x._is_view() else x for x in made[count:]]
            ctx.save_for_backward(*saved)
            results = list(made[:count])
            for k in plan.views:
                results[k] = torch.ops.aten._unsafe_view(results[k], results[k].shape)
            ctx.mark_non_differentiable(*(results[k] for k in plan.constant))
            ctx.set_materialize_grads(False)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
            _check_state(plan)
            given = [gradients[k] for k in plan.differentiable]
            undefined = frozenset(k for k, gradient in enumerate(given) if gradient is None)
            if len(undefined) == len(given):
                return (None,) * len(ctx.needs_input_grad)
            laid_out = map(_laid_out, given, plan.layouts)
            arguments = [*ctx.saved_tensors, *laid_out]
            _forget(ctx)
            if torch.is_grad_enabled():
                start = torch.empty(0, requires_grad=True)
                return _Once.apply(backward_of, undefined, start, *arguments)  # type: ignore[no-untyped-call]
            return tuple(backward_of(undefined, arguments))

    return Compiled


class _Once(torch.autograd.Function):
    """A backward pass of which the results are asked to have gradients themselves."""

    @staticmethod
    def forward(
        _: Any, run: Backward, undefined: frozenset[int], __: torch.Tensor, *arguments: Any
    ) -> Any:
        return tuple(run(undefined, list(arguments)))

    @staticmethod
    def backward(_: Any, *__: Any) -> Any:
        raise BackendError(NO_SECOND_DERIVATIVE)


NO_SECOND_DERIVATIVE = (
    "AOTAutograd's graphs have no second derivative, as for a gradient penalty or a Hessian:"
    ' compile what is differentiated twice with backend="eager"'
)


def _check_state(plan: Plan) -> None:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise BackendError("A compiled backward pass cannot run under a function transform.")
    if torch.are_deterministic_algorithms_enabled() and not plan.deterministic:
        raise BackendError(
            "Deterministic algorithms were asked for after the forward pass had been compiled"
            " without them."
        )


def _laid_out(
    gradient: torch.Tensor | None, layout: tuple[tuple[int, ...], tuple[int, ...]]
) -> torch.Tensor | None:
    """A gradient as the backward graph takes it."""
    if gradient is None:
        return None
    size, stride = layout
    if gradient.stride() == stride and not gradient.is_neg() and not gradient.is_conj():
        return gradient
    made = torch.empty_strided(size, stride, dtype=gradient.dtype, device=gradient.device)
    return made.copy_(gradient)


def _forget(ctx: Any) -> None:
    """Let go of what was saved, where the pass is the only one; not each version of torch can."""
    forget = getattr(ctx, "maybe_clear_saved_tensors", None)
    if forget is not None:
        forget()
