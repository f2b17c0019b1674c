"""What ATen ops return, one row each; compared with the real ops in tests/facts."""

from collections.abc import Mapping
from types import MappingProxyType

from jitpkg.facts.rows import creation, elementwise, gradients, joining, layers, reductions
from jitpkg.facts.rows.common import Row

ROWS: Mapping[str, Row] = MappingProxyType(
    {
        **creation.ROWS,
        **elementwise.ROWS,
        **reductions.ROWS,
        **joining.ROWS,
        **layers.ROWS,
        **gradients.ROWS,
    }
)
"""By the name of the op without its overload."""
