"""What autograd knows of a graph's results: of what they are views, and how these were taken.

What requires grad may be written to a view that does not: then what it shows requires grad, and so
does each other view of that. It may not be written to one of several views, nor to a view that was
taken while grad mode was off. Autograd knows other things of the tensors that a compiled graph
returns, so views of the same memory are taken again, in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.layout import overlaps_itself
from jitpkg.internals import tensors


class Taken(Enum):
    """How a view was taken; the names are torch's."""

    DEFAULT = "alone"
    MULTI_OUTPUT_NODE = "as one of several"
    NO_GRAD_MODE = "while grad mode was off"


@dataclass(frozen=True, slots=True)
class Shown:
    """A result, and what it shows."""

    requires_grad: bool
    taken: Taken | None
    """None where it is no view: it was detached, or others are views of it."""
    result: int | None = None
    """Which of the results it is a view of."""
    input: int | None = None
    """Which of the inputs it is a view of, or of what that is a view of."""
    beside: bool = False
    """Whether another result is a view of the same, which nobody has, and one was taken alone."""


@dataclass(frozen=True, slots=True)
class Views:
    """What autograd knows of a graph's results."""

    shown: Mapping[int, Shown] = field(default_factory=dict)
    """By place, of those of which a compiled graph's may be other views. What is no view comes
    first."""
    obstacle: str | None = None
    """Why they cannot be taken again, of what the two halves of a graph return."""


def views_of(given: Sequence[Any], results: Sequence[Any]) -> Views:
    """What autograd knows of the results that eager code computes, without data."""
    memories = Counter(map(tensors.memory, filter(_is_tensor, (*given, *results))))
    shown: dict[int, Shown] = {}
    obstacle = None
    for k, x in enumerate(results):
        if not _is_differentiable(x) or any(x is other for other in given):
            continue
        if memories[tensors.memory(x)] == 1 and _base(x) is None:
            continue
        each = _shown(x, given, results)
        if each is None:
            continue
        obstacle = obstacle or _obstacle(each, x, results)
        if not each.requires_grad or each.taken is Taken.MULTI_OUTPUT_NODE:
            shown[k] = each
    first = sorted(shown, key=lambda k: shown[k].taken is not None)
    return Views({k: shown[k] for k in first}, obstacle)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _base(x: torch.Tensor) -> Any:
    return tensors.BASE.get()(x)


def _is_differentiable(result: Any) -> bool:
    return (
        isinstance(result, torch.Tensor)
        and (result.is_floating_point() or result.is_complex())
        and not result.is_inference()
    )


def _obstacle(shown: Shown, x: torch.Tensor, results: Sequence[Any]) -> str | None:
    if shown.taken is Taken.NO_GRAD_MODE and shown.requires_grad and shown.input is None:
        return "a view that is returned, and that may have been taken while grad mode was off"
    if shown.beside and not (shown.requires_grad and shown.taken is Taken.DEFAULT):
        return "views of the same tensor, which is not returned"
    if shown.requires_grad:
        return None
    if shown.result is not None and not _lie_alike(x, results[shown.result]):
        return "a view of another dtype, without a gradient, of what is returned, too"
    return None


def _lie_alike(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether `as_strided` could make one of the other."""
    return (
        view.dtype == base.dtype
        and view.is_conj() == base.is_conj()
        and view.is_neg() == base.is_neg()
    )


def _shown(result: Any, given: Sequence[Any], results: Sequence[Any]) -> Shown | None:
    """What a result shows; None where it was taken in another way, as in an autograd function."""
    base, requires_grad = _base(result), result.requires_grad
    if base is None:
        return Shown(requires_grad, None)
    taken = _taken(result)
    if taken is None:
        return None
    if base.requires_grad is not requires_grad:
        return Shown(requires_grad, taken)
    for j, other in enumerate(given):
        if _is_tensor(other) and (other is base or _base(other) is base):
            return Shown(requires_grad, taken, input=j)
    for j, other in enumerate(results):
        if other is base:
            return Shown(requires_grad, taken, result=j)
    others = [x for x in results if x is not result and _is_tensor(x) and _base(x) is base]
    ways = {taken, *map(_taken, others)}
    return Shown(requires_grad, taken, beside=bool(others) and Taken.DEFAULT in ways)


Plain = list[list[Any]]
"""As it is kept on disk."""


def plain(views: Mapping[int, Shown]) -> Plain:
    """Views as lists of numbers and names."""
    return [
        [k, x.requires_grad, x.taken and x.taken.name, x.result, x.input, x.beside]
        for k, x in views.items()
    ]


def of_plain(views: Plain) -> dict[int, Shown]:
    """Views that were kept."""
    return {
        k: Shown(requires_grad, None if taken is None else Taken[taken], *of)
        for k, requires_grad, taken, *of in views
    }


def _taken(view: torch.Tensor) -> Taken | None:
    return Taken.__members__.get(tensors.CREATION.get()(view).name)


def taken_again(function: Callable[..., Any], views: Mapping[int, Shown]) -> Callable[..., Any]:
    """The function, with results of which autograd knows what it knows of eager code's."""

    def run(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for k, shown in views.items():
            results[k] = _again(results[k], shown, results, inputs)
        return tuple(results)

    return run


def _again(
    result: torch.Tensor, shown: Shown, results: Sequence[Any], inputs: Sequence[Any]
) -> torch.Tensor:
    if result.requires_grad and not shown.requires_grad:  # it is made again of what does
        result = result.detach()
    if result.requires_grad is not shown.requires_grad:
        return result
    base = _base(result)
    if shown.taken is None:
        return result if base is None else result.detach()
    if base is not None and any(base is x for x in results):
        base = base.detach()  # eager code's is another tensor, unless it is named
    for of in (_named(shown, results, inputs), base):
        if of is not None and _shows(result, of):
            return _view(of, result, shown.taken)
    return result if shown.taken is Taken.DEFAULT else _view(result, result, shown.taken)


def _named(shown: Shown, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
    """What the result is to be a view of, if that is at hand."""
    if shown.result is not None:
        return results[shown.result]
    if shown.input is not None:
        of = inputs[shown.input]
        base = _base(of)
        return of if base is None else base
    return None


def _shows(view: torch.Tensor, base: torch.Tensor) -> bool:
    return (
        base.requires_grad is view.requires_grad
        and _lie_alike(view, base)
        and tensors.memory(base) == tensors.memory(view)
    )


def _view(of: torch.Tensor, like: torch.Tensor, taken: Taken) -> torch.Tensor:
    with torch.set_grad_enabled(taken is not Taken.NO_GRAD_MODE):
        # The backward of as_strided shares gradients out among elements that share memory.
        if of is like or overlaps_itself(of):
            view = like[...]
        else:
            view = of.as_strided(like.shape, like.stride(), like.storage_offset())
        if taken is Taken.MULTI_OUTPUT_NODE:
            (view,) = view.unsqueeze(0).unbind(0)
    return view
