"""Autocast of stand-ins: torch casts them where it casts tensors on a CPU.

A stand-in is on the meta device, for which there is no autocast. So functions see a tensor without
data that says it is on the CPU, one for each stand-in. Torch's dispatcher casts it, and keeps what
it makes of a leaf, as in eager code; the casts are ops like others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from jitpkg.facts.decomposed import casts_inside
from jitpkg.facts.elsewhere import elsewhere
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.tensor import TensorFacts
from jitpkg.facts.thread_state import autocast_nesting, snapshot
from jitpkg.internals import dispatch, trees
from jitpkg.internals.ops import op_name

TO_COPY = "aten::_to_copy"

_NARROWED = frozenset({"scaled_dot_product_attention"})
"""Functions as a whole whose arguments autocast makes narrow before anything else is done."""

_CAST = frozenset({torch.float32, torch.bfloat16, torch.float16})
"""What autocast may cast."""


def is_active() -> bool:
    """Whether ops on tensors on a CPU are cast now."""
    return torch.is_autocast_enabled("cpu")


def state() -> tuple[object, ...]:
    """What a graph has to leave as it was."""
    dtype, caches = torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    return is_active(), dtype, caches, autocast_nesting()


class Casting:
    """Stand-ins as tensors on the CPU, and back."""

    def __init__(self) -> None:
        self._shown: dict[int, torch.Tensor] = {}
        self._behind: dict[int, torch.Tensor] = {}
        self._leaves: set[int] = set()
        self._restore = snapshot()

    def facts(self, made: torch.Tensor, facts: TensorFacts) -> TensorFacts:
        """Of a result, with what only autograd knows, which sees what is shown.

        An argument is shown as a leaf, whatever it is.
        """
        shown = self._show(made)
        return replace(facts, requires_grad=shown.requires_grad, is_leaf=shown.is_leaf)

    def leaf(self, stand_in: torch.Tensor) -> None:
        """Let autocast keep what it makes of this one, as long as it keeps anything."""
        self._leaves.add(id(stand_in))

    def shown(self, arguments: Any) -> Any:
        return trees.mapped(self._show, arguments)

    def behind(self, results: Any) -> Any:
        return trees.mapped(self._look_behind, results)

    def _show(self, each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        if id(each) not in self._shown:
            requires_grad = each.requires_grad or id(each) in self._leaves
            shown = dispatch.without_data(each, "cpu", requires_grad)
            self._shown[id(each)] = shown
            self._behind[id(shown)] = each  # both are alive as long as this is
        return self._shown[id(each)]

    def _look_behind(self, each: Any) -> Any:
        return self._behind[id(each)] if isinstance(each, torch.Tensor) else each

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of stand-ins that calls another one with what is shown for them."""

        def call(*args: Any, **kwargs: Any) -> Any:
            shown, named = self.shown((args, kwargs))
            return self.behind(function(*shown, **named))

        return call

    def seeing(self, see: dispatch.See) -> dispatch.See:
        """What sees ops of what is shown, made of what sees ops of stand-ins."""

        def seen(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            if casts_inside(func, args):
                raise Unsure(f"autocast casts inside of {func}")
            given, named = self.behind((args, dict(kwargs)))
            return self.shown(see(func, elsewhere(given), elsewhere(named)))

        return seen

    def cast(self, see: dispatch.See, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The arguments of a function that is recorded as a whole, as autocast gives them to it.

        None where that cannot be told.
        """
        tensors = [each for each in trees.leaves_of((args, kwargs)) if torch.is_tensor(each)]
        if not any(each.dtype in _CAST for each in tensors):
            return args, kwargs
        if getattr(function, "__name__", "") not in _NARROWED:
            return None  # it may cast what it computes inside
        if any(id(each) in self._leaves for each in tensors):
            return None  # what is kept is not cast again
        made: dict[int, Any] = {}

        def until_the_first(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            if op_name(func) != TO_COPY or kwargs["dtype"] is not torch.get_autocast_dtype("cpu"):
                raise _Begun
            result = self.seeing(see)(func, args, kwargs)
            made[id(self.behind(args[0]))] = self.behind(result)
            return result

        shown, named = self.shown((args, kwargs))
        try:
            with dispatch.mode(until_the_first):
                function(*shown, **named)
        except _Begun:
            return trees.mapped(lambda each: made.get(id(each), each), (args, kwargs))
        except (RuntimeError, TypeError, ValueError, IndexError):
            pass  # eager code raises it
        return None

    def end(self) -> None:
        """Put torch's state back as it was in the beginning."""
        self._restore()
        if not autocast_nesting():
            torch.clear_autocast_cache()


class _Begun(BaseException):
    """A function has called its first op."""
