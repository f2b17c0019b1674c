"""The one room that knows PyTorch's private parts.

Each name is a row of a table: what it is for, and what is lost without it. Nothing is looked up
when the package is imported. Where PyTorch has a name no more, the one feature goes that needs it:
`Missing` is raised, of which the tracer makes a graph break, and a backend a graph that runs op by
op; or there is another way, which is slower.
"""

from jitpkg.internals.row import (
    Attribute,
    Missing,
    Row,
    Setting,
    Variable,
    say_if_untested,
    telling,
)

__all__ = ["Attribute", "Missing", "Row", "Setting", "Variable", "say_if_untested", "telling"]
