"""Random programs: whole Python functions with calls, to be compiled and compared with eager code.

    from jitpkg.testing.programs import generate
    generate(7).assert_same(Comparison(dynamic=True))

`jitpkg.testing.strategies.programs` makes them for Hypothesis, and `python -m
jitpkg.testing.programs` checks thousands. What they are written of is a `Grammar`; with rows of
one's own, they call one's own functions.
"""

from jitpkg.testing.programs.checking import Outcome, check
from jitpkg.testing.programs.grammar import Grammar
from jitpkg.testing.programs.modes import MODES, Mode
from jitpkg.testing.programs.program import Program
from jitpkg.testing.programs.shrinking import shrunk
from jitpkg.testing.programs.writing import GRAMMAR, generate

__all__ = [
    "GRAMMAR",
    "MODES",
    "Grammar",
    "Mode",
    "Outcome",
    "Program",
    "check",
    "generate",
    "shrunk",
]
