"""The ways in which programs are compiled and compared."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.testing.programs.choices import Choices, between, weighted
from jitpkg.testing.same import Comparison

ROUNDED = {"relative": 1e-4, "absolute": 1e-4}
"""How far the backend `jitpkg` may be from eager code where a program does not compute exactly."""

HOW_COMPUTED = ("grad_fn", "version", "view", "warnings", "idle strides")
"""What graphs of AOTAutograd have of their own."""


@dataclass(frozen=True)
class Mode:
    """A way to compile a program.

    Attributes:
        name: of the way.
        options: of the comparison.
        share: how many of a hundred programs it is tried with, about.
        around: the expression of a context manager in which the program is called.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    share: int = 1
    around: str = ""

    def entered(self) -> AbstractContextManager[Any]:
        """What the program is called in."""
        return eval(self.around, {"torch": torch}) if self.around else nullcontext()

    def comparison(self) -> Comparison:
        return Comparison(**self.options)

    def text(self) -> str:
        """The expression that makes the comparison."""
        return f"Comparison({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"


_AROUND = {
    "": 84,
    "torch.no_grad()": 9,
    "torch.inference_mode()": 3,
    'torch.autocast("cpu", dtype=torch.bfloat16)': 4,
}
"""What programs are called in, and how often of a hundred times, about; `eager` alone under
autocast, where kernels may round otherwise."""

_TIMELESS = {"never_worse": False}
"""The clock decides nothing, so that a seed does the same in any process: what it would postpone
is postponed by `_SOME`."""

_SOME = {"disturb": "postpone:21845"}

_GUESSES = {"disturb": "guess:21845"}

_OWN = {"backend": "jitpkg", "ignore": HOW_COMPUTED, "settings": _TIMELESS, **ROUNDED}

MODES = (
    Mode("eager", {}, 14),
    Mode("eager, guesses", {"settings": _GUESSES}, 6),
    Mode("eager, some postponed", {"settings": _SOME}, 7),
    Mode("eager, dynamic", {"dynamic": True}, 15),
    Mode("eager, breaks anywhere", {"settings": {"disturb": "break"}}, 12),
    Mode("eager, one break", {"settings": {"disturb": "break:0"}}, 14),
    Mode("jitpkg", _OWN, 11),
    Mode("jitpkg, guesses", {**_OWN, "settings": {**_TIMELESS, **_GUESSES}}, 3),
    Mode("jitpkg, some postponed", {**_OWN, "settings": {**_TIMELESS, **_SOME}}, 4),
    Mode("jitpkg, dynamic", {**_OWN, "dynamic": True}, 8),
    Mode("jitpkg, one break", {**_OWN, "settings": {**_TIMELESS, "disturb": "break:0"}}, 6),
)


_DRAWN = {"break": (0, 24), "postpone": (1, 0xFFFF), "guess": (0, 0xFFFF)}
"""Disturbances of modes for which any number from one to another is taken."""


def mode(choices: Choices, modes: tuple[Mode, ...] = MODES) -> Mode:
    """One of the modes; where there is to be one break, it is before any of some points, and what
    is postponed, or guessed, is anything."""
    found = weighted(choices, modes, [one.share for one in modes])
    around = weighted(choices, list(_AROUND), list(_AROUND.values()))
    is_rounded = "autocast" in around and "backend" in found.options
    found = replace(found, around="" if is_rounded else around)
    given = found.options.get("settings", {})
    name, numbered, _ = given.get("disturb", "").partition(":")
    if not numbered:
        return found
    drawn = {"disturb": f"{name}:{between(choices, *_DRAWN[name])}"}
    return replace(found, options={**found.options, "settings": {**given, **drawn}})
