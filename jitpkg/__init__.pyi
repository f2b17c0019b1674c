"""The public names, with their types; `__init__.py` loads each when it is first used."""

from jitpkg import cache as cache
from jitpkg import config as config
from jitpkg import errors as errors
from jitpkg import events as events
from jitpkg.api import compile as compile  # noqa: A004
from jitpkg.api import jit as jit
from jitpkg.api import list_backends as list_backends
from jitpkg.api import register_backend as register_backend
from jitpkg.api import release_memory as release_memory
from jitpkg.api import reset as reset
from jitpkg.codegen.options import list_mode_options as list_mode_options
from jitpkg.codegen.options import list_options as list_options
from jitpkg.config import set_stance as set_stance
from jitpkg.explanation import Explanation as Explanation
from jitpkg.explanation import explain as explain
from jitpkg.logs import on_compile_end as on_compile_end
from jitpkg.logs import on_compile_start as on_compile_start
from jitpkg.logs import set_logs as set_logs
from jitpkg.marks import allow_in_graph as allow_in_graph
from jitpkg.marks import assume_constant_result as assume_constant_result
from jitpkg.marks import disable as disable
from jitpkg.marks import disallow_in_graph as disallow_in_graph
from jitpkg.marks import graph_break as graph_break
from jitpkg.marks import is_compiling as is_compiling
from jitpkg.marks import mark_dynamic as mark_dynamic
from jitpkg.marks import mark_static as mark_static
from jitpkg.marks import mark_unbacked as mark_unbacked
from jitpkg.marks import maybe_mark_dynamic as maybe_mark_dynamic
from jitpkg.statistics import Statistics as Statistics
from jitpkg.statistics import stats as stats

__version__: str

__all__ = [
    "Explanation",
    "Statistics",
    "allow_in_graph",
    "assume_constant_result",
    "cache",
    "compile",
    "config",
    "disable",
    "disallow_in_graph",
    "errors",
    "events",
    "explain",
    "graph_break",
    "is_compiling",
    "jit",
    "list_backends",
    "list_mode_options",
    "list_options",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "on_compile_end",
    "on_compile_start",
    "register_backend",
    "release_memory",
    "reset",
    "set_logs",
    "set_stance",
    "stats",
]
