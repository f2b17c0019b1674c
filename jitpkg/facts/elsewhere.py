"""Where stand-ins are, on the meta device; and which devices arguments name."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from jitpkg.facts.rows.common import META


def elsewhere(value: Any) -> Any:
    """Arguments that name the CPU, which is where everything is, for stand-ins that are not."""
    match value:
        case torch.device(type="cpu"):
            return META
        case tuple() if type(value) is tuple:
            return tuple(map(elsewhere, value))
        case list():
            return list(map(elsewhere, value))
        case dict():
            return {
                name: META if name == "device" and each == "cpu" else elsewhere(each)
                for name, each in value.items()
            }
        case _:
            return value


@cache
def device_named(text: str) -> torch.device | None:
    """The device that a text names; None of any other text."""
    try:
        return torch.device(text)
    except RuntimeError:
        return None
