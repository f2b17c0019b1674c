"""What each operation of the dialect does, by family; `TABLE` has them all."""

from jitpkg.tracer.opcodes import data, flow, functions, variables
from jitpkg.tracer.opcodes.table import merged

TABLE = merged(variables.OPS, data.OPS, flow.OPS, functions.OPS)
"""Operation name -> handler."""
