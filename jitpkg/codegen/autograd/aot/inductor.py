"""The backend `inductor`: torch's own compiler of graphs, behind AOTAutograd."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.autograd.aot.functional import Compiled, through_aot
from jitpkg.codegen.parts.in_parts import in_parts
from jitpkg.codegen.parts.stages import in_stages
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError, InvalidArgument
from jitpkg.facts import fake
from jitpkg.internals import aot

OURS: Mapping[str, Any] = {"fallback_random": True}
"""Options that differ from Inductor's own defaults: random numbers are those of eager code."""


@dataclass(frozen=True, eq=False, slots=True)
class Inductor:
    """Inductor, with some options."""

    options: Mapping[str, Any] = field(default_factory=lambda: dict(OURS))

    def configured(self, mode: str | None, options: Mapping[str, Any] | None) -> Inductor:
        """The same with the options of a mode, or these, as `torch.compile` takes them.

        Raises:
            InvalidArgument: an option is not known, or has a value of a wrong type.
        """
        chosen = dict(OURS)
        options_of = aot.MODE_OPTIONS.found() if mode is not None else None
        if mode is not None and options_of is not None:
            chosen.update(options_of(mode))
        for name, value in (options or {}).items():
            chosen[_checked(name, value)] = value
        return Inductor(chosen)

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        cut = in_parts("inductor", gm, example_inputs, self)
        if cut is not None:
            return cut
        compile_ = partial(through_aot, "inductor", compile_=self._compile)
        return in_stages(gm, example_inputs, compile_)

    def _compile(
        self, gm: fx.GraphModule, fakes: list[torch.Tensor], compiled: Compiled
    ) -> Callable[..., Any]:
        compiled.writes_last = False
        compile_fx, compile_half = aot.COMPILE.get(), aot.COMPILE_HALF.get()
        config, tracing = aot.INDUCTOR_CONFIG.get(), aot.TRACING.get()
        context, mode_of = aot.CONTEXT.get(), aot.FAKE_MODE.get()

        def inner(aten: fx.GraphModule, inputs: Any, **settings: Any) -> Any:
            if settings.get("is_backward"):
                return backward(aten, inputs, settings)
            compiled.note(aten)
            return compile_half(aten, inputs, **settings)

        def backward(aten: fx.GraphModule, inputs: Any, settings: Any) -> Any:
            mode = mode_of(inputs)

            def kernels(part: fx.GraphModule) -> Any:
                if part is aten:
                    return compile_half(aten, inputs, **settings)
                before = fake.relied_on(mode)
                with tracing(context(mode)), config.patch(dict(self.options)):
                    function = compile_half(part, inputs, **settings)
                if fake.relied_on(mode) != before:
                    raise BackendError("a part of a backward graph holds for fewer sizes")
                return function

            return compiled.halves.runs(aten, kernels)

        function: Any = compile_fx(
            gm, fakes, inner_compile=inner, config_patches=dict(self.options)
        )
        if not self.options["fallback_random"]:  # they are drawn from a stream of Inductor's own
            compiled.before = replace(compiled.before, random=0)
        return function  # type: ignore[no-any-return]


def _checked(name: str, value: object) -> str:
    key = name.replace("-", "_")
    config = aot.INDUCTOR_CONFIG.found()
    if config is None:  # there is no Inductor that could take it
        return key
    known = config.get_config_copy()
    if key not in known:
        close = difflib.get_close_matches(key, known, n=3)
        hint = f" Do you mean {' or '.join(map(repr, close))}?" if close else ""
        raise InvalidArgument(
            f"Inductor has no option {name!r}.{hint}"
            " They are documented in torch/_inductor/config.py."
        )
    expected = config.get_type(key)
    if isinstance(expected, type) and not isinstance(value, expected):
        raise InvalidArgument(
            f"Inductor's option {name!r} takes {expected.__name__}, not {value!r}."
        )
    return key


inductor = Inductor()
"""As it is without `mode=` and `options=`."""
