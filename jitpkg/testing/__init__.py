"""Is the compiled program the same as the eager one? `assert_same` tells, for a call.

    from jitpkg.testing import assert_same
    assert_same(f, x, y, mode="sum")

`jitpkg.testing.strategies` makes arguments to call it with; it needs hypothesis.
"""

from jitpkg.comparison.differences import Difference
from jitpkg.comparison.running import Call
from jitpkg.testing.same import Comparison, NotTheSame, assert_same, call

__all__ = ["Call", "Comparison", "Difference", "NotTheSame", "assert_same", "call"]
