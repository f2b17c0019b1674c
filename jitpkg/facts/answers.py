"""What a call does to tensors: asked of rows first, and of FakeTensor where no row is sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.facts import meta
from jitpkg.facts.elsewhere import device_named
from jitpkg.facts.heard import Heard, warns_in_kernel
from jitpkg.facts.inference import asked_outside
from jitpkg.facts.outcome import NoFacts, Outcome
from jitpkg.facts.rows.common import CPU, Unsure
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import fake_tensors

NO_VALUES: Mapping[str, int] = MappingProxyType({})


class Facts:
    """Answers for calls. Not safe for threads: the caller holds a lock."""

    def __init__(self) -> None:
        self._fake: Any = None

    def of_call(
        self,
        name: str,
        call: Callable[..., Any],
        args: Any,
        kwargs: Any,
        values: Mapping[str, int] = NO_VALUES,
    ) -> Outcome:
        """The outcome of `call(*args, **kwargs)`, with `TensorFacts` in place of tensors.

        The same facts object in two places stands for one tensor.

        Grad mode, autocast and default dtype are the process's at the moment.

        Args:
            name: of the function or method, by which rows know it.
            values: of the symbols in the call at hand, where sizes or other arguments vary.

        Raises:
            DataDependent: the result depends on the data of a tensor.
            WouldRaise: the call raises on such arguments.
            NeedsNumbers: the answer is not known where sizes vary.
            NoFacts: there is no way to tell.
            Missing: there would be one, in another PyTorch.
        """
        ask = partial(self._outcome, name, call, values=values)
        with Heard() as heard:
            if torch.is_inference_mode_enabled() and name != "is_inference":
                outcome = asked_outside(name, ask, args, kwargs)
            else:
                outcome = ask(args, kwargs)
        if heard.any or warns_in_kernel(name, args, kwargs, outcome):
            outcome = replace(outcome, warns=True)
        if name not in _OVERLAPPING and any(
            _overlaps(outcome.arguments[k]) for k in outcome.mutated
        ):
            raise NoFacts("it writes to an expanded tensor, which kernels may refuse")
        if name in _OF_SOME and any(0 in facts.size for facts in outcome.arguments):
            raise NoFacts("it has no result for no elements, which kernels may refuse")
        if name not in _CASTING and _narrows(outcome):
            raise NoFacts("it writes to a tensor of a lesser kind, which kernels may refuse")
        return outcome

    def _outcome(
        self,
        name: str,
        call: Callable[..., Any],
        args: Any,
        kwargs: Any,
        values: Mapping[str, int],
    ) -> Outcome:
        if _on_cpu(args) and _on_cpu(kwargs):
            try:
                return meta.of_call(name, call, args, kwargs, values)
            except Unsure:
                pass
        return self._by_fake_tensors(call, args, kwargs, values)

    def _by_fake_tensors(
        self, call: Callable[..., Any], args: Any, kwargs: Any, values: Mapping[str, int]
    ) -> Outcome:
        fake_tensors.MODE.get()  # without it, nothing of torch's compiler need be imported
        if self._fake is None:
            from jitpkg.facts.fake import FakeFacts  # it imports torch's compiler: a second

            self._fake = FakeFacts()
        outcome: Outcome = self._fake.of_call(call, args, kwargs, values)
        return outcome


_OVERLAPPING = frozenset(
    {"fill_", "zero_", "detach_", "requires_grad_"}
    | {"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"}
)
"""Ops that write to expanded tensors, too, or only to what describes a tensor."""


def _overlaps(facts: TensorFacts) -> bool:
    return any(s == 0 and n not in (0, 1) for n, s in zip(facts.size, facts.stride, strict=True))


_OF_SOME = frozenset("max min argmax argmin aminmax amax amin median nanmedian mode".split())
"""Reductions that have no result for no elements."""

_CASTING = frozenset({"copy_", "setitem", "__setitem__", "_amp_update_scale_"})
"""Ops that write floats to integers, or complex numbers to floats, or count beside floats."""


def _narrows(outcome: Outcome) -> bool:
    """Whether something is written to that cannot hold what other arguments may."""
    most = max((_kind(facts.dtype) for facts in outcome.arguments), default=0)
    return any(_kind(outcome.arguments[k].dtype) < most for k in outcome.mutated)


def _kind(dtype: torch.dtype) -> int:
    return 2 if dtype.is_complex else int(dtype.is_floating_point)


def _on_cpu(value: Any) -> bool:
    """Whether all tensors and devices among nested arguments are main memory's."""
    match value:
        case TensorFacts():
            return value.device.type == "cpu"
        case torch.device():
            return value == CPU
        case str():
            return device_named(value) in (None, CPU)
        case tuple() | list():
            return all(map(_on_cpu, value))
        case dict():
            return all(map(_on_cpu, value.values()))
        case _:
            return True
