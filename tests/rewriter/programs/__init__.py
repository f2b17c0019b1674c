"""Small programs that are hard to rewrite: every construct that shapes the stack or the handlers.

`PROGRAMS` pairs each with arguments; what one does with them, values, exceptions and traceback
lines, must not depend on hooks. They are written to be hard, not to be read.
"""

from types import ModuleType

from tests.rewriter.programs import blocks, suspended
from tests.rewriter.programs.blocks import looks_at_frames
from tests.rewriter.programs.common import PROGRAMS, Context
from tests.rewriter.programs.suspended import many_locals

MODULES: tuple[ModuleType, ...] = (blocks, suspended)
FILES = frozenset(str(module.__file__) for module in MODULES)

__all__ = ["FILES", "MODULES", "PROGRAMS", "Context", "looks_at_frames", "many_locals"]
