"""What calling a builtin function, class or method means: one row each."""

from jitpkg.tracer.rows import (
    caught_warnings,
    conversions,
    functions,
    library,
    mappings,
    messages,
    numpy_arrays,
    objects,
    old_names,
    profiling,
    recurrent_cells,
    sequences,
    sets,
    sizes,
    torch_api,
)
from jitpkg.tracer.rows.table import merged

ROWS = merged(
    functions.TABLE,
    conversions.TABLE,
    objects.TABLE,
    library.TABLE,
    messages.TABLE,
    caught_warnings.TABLE,
    sequences.TABLE,
    mappings.TABLE,
    sets.TABLE,
    sizes.TABLE,
    torch_api.TABLE,
    numpy_arrays.TABLE,
    recurrent_cells.TABLE,
    old_names.TABLE,
    profiling.TABLE,
)
"""Callable -> what calling it means."""
