"""A forward and a backward half as one autograd function of our own.

AOTAutograd's runtime looks at each call for what few graphs have: writes to inputs, views among
results, subclasses, symbolic sizes. That takes 150 us for a forward and a backward call, and this,
25 us. Nothing of AOTAutograd is imported: the halves may have been kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.autograd.function import FunctionCtx

from jitpkg.errors import BackendError
from jitpkg.internals import aot, modes, ops, tensors

Function = Callable[..., Any]
Run = Callable[[list[Any]], Any]
"""Takes its arguments out of a list."""


def boxed(function: Function) -> Callable[[list[Any]], Any]:
    """A function that takes its arguments out of a list, so that they can be freed."""

    def run(arguments: list[Any]) -> Any:
        return function(*_taken(arguments))  # nobody else holds them then

    return aot.takes_a_list(run)


def _taken(arguments: list[Any]) -> tuple[Any, ...]:
    given = tuple(arguments)
    arguments.clear()
    return given


@dataclass(frozen=True, slots=True)
class Layout:
    """What the backward half takes a gradient to be."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, value: torch.Tensor) -> Layout:
        return cls(tuple(value.shape), value.stride(), value.dtype, value.device)

    def zeros(self) -> torch.Tensor:
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return made.zero_()

    def copied(self, gradient: torch.Tensor) -> torch.Tensor:
        made = torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)
        return made.copy_(gradient)


@dataclass(frozen=True, slots=True)
class Plan:
    """How the halves of a graph belong together.

    The forward half returns the graph's results, and then what is to be saved; the backward half
    takes what was saved, and gradients, and returns a gradient, or None, for each input.
    """

    results: int
    """How many there are."""
    differentiable: tuple[int, ...]
    """Those that may have gradients."""
    layouts: tuple[Layout, ...] | None
    """Of these gradients; None where each is to lie as the result does, whose size varies."""
    views: tuple[int, ...]
    """Results that are views, of what nobody else has."""
    unused: tuple[int, ...]
    """Inputs that have no gradient."""
    deterministic: bool
    """Whether deterministic algorithms were asked for."""
    ints: int = 0
    """How many integers are saved behind all tensors; the backward half takes them first."""


@cache
def quiet_test() -> Callable[[], bool]:
    """A function that says whether nothing but the mode of autograd changes what ops do."""
    transforms, any_autocast = modes.TRANSFORMS.get(), modes.ANY_AUTOCAST.get()
    level = modes.FORWARD_LEVEL.get()
    return lambda: transforms() is None and not any_autocast() and level() < 0


@cache
def plain_test() -> Callable[[], bool]:
    """A function that says whether a call is like most: nothing but the tensors is at stake."""
    grad, inference = torch.is_grad_enabled, torch.is_inference_mode_enabled
    transforms, any_autocast = modes.TRANSFORMS.get(), modes.ANY_AUTOCAST.get()
    level = modes.FORWARD_LEVEL.get()
    return lambda: (
        grad() and not inference() and transforms() is None and not any_autocast() and level() < 0
    )


def differentiated(
    plan: Plan,
    forward: Function,
    part: Callable[[frozenset[int]], Run],
    otherwise: Function,
) -> Function:
    """A function of the graph's inputs.

    Args:
        part: the backward half where such of its gradients are undefined.
        otherwise: what is called where this would not be right.
    """
    apply = _autograd_function(plan, forward, part)
    unused = plan.unused
    plain = plain_test()

    def run(*given: Any) -> Any:
        if not plain():
            return otherwise(*given)
        if unused:  # then no gradient goes there: eager code would say that it was not used
            given = tuple(x.detach() if k in unused else x for k, x in enumerate(given))
        return apply(*given)

    return run


def _autograd_function(
    plan: Plan, forward_half: Function, part: Callable[[frozenset[int]], Run]
) -> Function:
    results, differentiable, views = plan.results, plan.differentiable, plan.views
    constant = [k for k in range(results) if k not in differentiable]
    none = frozenset[int]()
    unsafe_view: Any = ops.UNSAFE_VIEW.get() if views else None
    is_view = tensors.IS_VIEW.get()

    class Kernels(torch.autograd.Function):
        """The two halves of a graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            made = forward_half(*inputs)
            end = len(made) - plan.ints
            ctx.ints = made[end:]
            # A view would keep what it is a view of, which may be the result of this function.
            saved = [x.detach() if is_view(x) else x for x in made[results:end]]
            ctx.saves = bool(saved)
            if saved:
                ctx.save_for_backward(*saved)
            ctx.set_materialize_grads(False)
            returned = list(made[:results])
            ctx.layouts = plan.layouts or [Layout.of(returned[k]) for k in differentiable]
            for k in views:
                returned[k] = unsafe_view(returned[k], returned[k].shape)
            for k in constant:  # a view would require grad as soon as what it shows does
                if is_view(returned[k]):
                    returned[k] = returned[k].detach()
            if constant:
                ctx.mark_non_differentiable(*(returned[k] for k in constant))
            return tuple(returned)

        @staticmethod
        def backward(ctx: Any, *given: torch.Tensor | None) -> Any:
            gradients = [given[k] for k in differentiable]
            undefined = none
            for gradient in gradients:
                if gradient is None:
                    undefined = frozenset(k for k, each in enumerate(gradients) if each is None)
                    break
            if len(undefined) == len(gradients):
                return (None,) * len(ctx.needs_input_grad)
            if not plan.deterministic and torch.are_deterministic_algorithms_enabled():
                raise BackendError(
                    "Deterministic algorithms were asked for after a graph was compiled without."
                )
            # Where nothing was saved a second pass is no error, but to ask for it is.
            arguments = [*ctx.ints, *(ctx.saved_tensors if ctx.saves else ())]
            for gradient, layout in zip(gradients, ctx.layouts, strict=True):
                if gradient is None:
                    gradient = layout.zeros()
                elif (
                    gradient.stride() != layout.stride
                    or gradient.shape != layout.size
                    or gradient.is_neg()
                ):
                    gradient = layout.copied(gradient)
                arguments.append(gradient)
            del gradients, given
            run = part(undefined)
            if torch.is_grad_enabled():
                recorded: Function = _Gradients.apply
                return recorded(run, torch.empty(0, requires_grad=True), *arguments)
            return tuple(run(arguments))

    apply: Function = Kernels.apply
    return apply


class _Gradients(torch.autograd.Function):
    """Gradients that a graph is recorded of: its derivatives are refused in words that help."""

    @staticmethod
    def forward(_: FunctionCtx, run: Function, *arguments: torch.Tensor) -> Any:
        return tuple(run(list(arguments[1:])))

    @staticmethod
    def backward(_: FunctionCtx, *__: torch.Tensor | None) -> Any:
        raise refusal()


def refusal() -> BackendError:
    """What is raised where second derivatives are asked for."""
    return BackendError(
        "A compiled graph has no second derivative, as for a gradient penalty or a Hessian:"
        ' compile what is differentiated twice with backend="eager"'
    )
