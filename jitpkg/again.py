"""How what `jitpkg.compile` returns is copied and pickled.

A pickle names this module, which is small: what it compiles with is loaded as `import jitpkg` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jitpkg

C = TypeVar("C", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Again:
    """Compiles another object in the same way; it pickles where the arguments do."""

    arguments: Mapping[str, Any]
    """Of `jitpkg.compile`."""

    def __call__(self, obj: C) -> C:
        compiled: C = jitpkg.compile(obj, **self.arguments)
        return compiled
