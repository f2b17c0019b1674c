"""What the code does: a symbolic interpreter that turns a run of bytecode into a graph, guards and effects."""
