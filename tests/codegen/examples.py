"""How many random examples a test tries: few that are always the same ones, or as many as asked."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

MANY = int(os.environ.get("JITPKG_TEST_EXAMPLES", "0"))


def examples(usual: int) -> Callable[[Any], Any]:
    """A decorator for what `given` has made of a test: `usual` examples, unless the variable
    JITPKG_TEST_EXAMPLES says how many."""
    chosen = settings(
        max_examples=MANY or usual,
        deadline=None,
        derandomize=not MANY,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: pytest.mark.timeout(120 + 5 * MANY)(chosen(test))
