"""Small programs that compile what programs are made of, in every place where it can stand.

Each is a function of `C`, which compiles a callable or leaves it alone, and gives what can be seen.
"""

import inspect
from collections.abc import Callable
from types import FunctionType

from tests.api.doors import (
    a_methods,
    b_places,
    c_changes,
    d_lives,
    e_looks,
    f_inside,
    g_kinds,
    h_more,
)

_FILES = (a_methods, b_places, c_changes, d_lives, e_looks, f_inside, g_kinds, h_more)

CASES: dict[str, Callable[..., object]] = {
    name: f
    for file in _FILES
    for name, f in vars(file).items()
    if isinstance(f, FunctionType) and list(inspect.signature(f).parameters) == ["C"]
}
