"""A forward and a backward half as one autograd function of our own.

AOTAutograd's runtime looks at each call for what few graphs have: writes to inputs, views among
results, subclasses, symbolic sizes. That takes 150 us for a forward and a backward call, and this,
25 us. Nothing of AOTAutograd is imported: the halves may have been kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch

from jitpkg.codegen.autograd.twice import (
    Again,
    Remembered,
    numbers_among,
    recalled,
    recorded,
    refused,
    remembered,
)
from jitpkg.dataclass import dataclass
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
    shared: tuple[int, ...] = ()
    """Gradients in memory that another one has, too: see `jitpkg.codegen.autograd.apart`."""


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
    again: Again | str,
) -> Function:
    """A function of the graph's inputs.

    Args:
        part: the backward half where such of its gradients are undefined.
        otherwise: what is called where this would not be right.
        again: what computes the results by eager code, for second derivatives; or why nothing does.
    """
    apply = _autograd_function(plan, forward, part, again)
    unused = plan.unused
    plain = plain_test()

    def run(*given: Any) -> Any:
        if not plain():
            return otherwise(*given)
        kept = remembered(given)
        if unused:  # then no gradient goes there: eager code would say that it was not used
            given = tuple(x.detach() if k in unused else x for k, x in enumerate(given))
        return apply(kept, *given)

    return run


def _autograd_function(
    plan: Plan,
    forward_half: Function,
    part: Callable[[frozenset[int]], Run],
    again: Again | str,
) -> Function:
    results, differentiable, views = plan.results, plan.differentiable, plan.views
    constant = [k for k in range(results) if k not in differentiable]
    unsafe_view: Any = ops.UNSAFE_VIEW.get() if views else None
    is_view = tensors.IS_VIEW.get()

    class Kernels(torch.autograd.Function):
        """The two halves of a graph."""

        @staticmethod
        def forward(ctx: Any, kept: Remembered | None, *inputs: Any) -> tuple[torch.Tensor, ...]:
            ctx.remembered, ctx.given = kept, numbers_among(inputs, kept)
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
            tangents = [given[k] for k in differentiable]
            if all(tangent is None for tangent in tangents):
                return (None,) * len(ctx.needs_input_grad)
            if not plan.deterministic and torch.are_deterministic_algorithms_enabled():
                raise BackendError(
                    "Deterministic algorithms were asked for after a graph was compiled without."
                )
            # Where nothing was saved a second pass is no error, but to ask for it is.
            arguments = [*ctx.ints, *(ctx.saved_tensors if ctx.saves else ())]
            gradients_of: Gradients = partial(_gradients, part, ctx.layouts, arguments)
            if plan.shared and not _are_returned(ctx.next_functions):
                gradients_of = _copying(gradients_of, plan.shared)
            if not torch.is_grad_enabled():
                del given
                return None, *gradients_of(tangents)
            inputs = recalled(ctx.remembered, again, differentiable, ctx.next_functions)
            if isinstance(again, str):
                return None, *refused(again, gradients_of, inputs, tangents)
            defined = [(k, x) for k in differentiable if (x := given[k]) is not None]
            return None, *recorded(again, ctx.given, inputs, defined)

    apply: Function = Kernels.apply
    return apply


Gradients = Callable[[list[torch.Tensor | None]], tuple[torch.Tensor | None, ...]]


def _are_returned(functions: Sequence[tuple[Any, int]]) -> bool:
    """Whether this backward pass returns the gradients, and adds none to that of a leaf."""
    will_run = tensors.WILL_RUN.get()
    for node, _ in functions:
        if node is None:
            continue
        if type(node).__name__ != "AccumulateGrad":
            return False  # who knows what becomes of it
        try:
            if will_run(node):
                return False
        except RuntimeError:  # of a leaf whose gradient is returned
            continue
    return True


def _copying(gradients_of: Gradients, shared: Sequence[int]) -> Gradients:
    """What copies these of the gradients."""

    def found(tangents: list[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
        made = list(gradients_of(tangents))
        for k in shared:
            gradient = made[k]
            if gradient is not None:
                made[k] = gradient.clone()
        return tuple(made)

    return found


def _gradients(
    part: Callable[[frozenset[int]], Run],
    layouts: Sequence[Layout],
    arguments: list[Any],
    tangents: list[torch.Tensor | None],
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of the inputs. Both lists are emptied: nobody else holds what is in them.

    Args:
        arguments: what the forward half saved.
    """
    undefined = _NONE
    if any(tangent is None for tangent in tangents):
        undefined = frozenset(k for k, each in enumerate(tangents) if each is None)
    for gradient, layout in zip(tangents, layouts, strict=True):
        if gradient is None:
            gradient = layout.zeros()
        elif (
            gradient.stride() != layout.stride or gradient.shape != layout.size or gradient.is_neg()
        ):
            gradient = layout.copied(gradient)
        arguments.append(gradient)
    del gradient
    tangents.clear()
    return tuple(part(undefined)(arguments))


_NONE = frozenset[int]()
