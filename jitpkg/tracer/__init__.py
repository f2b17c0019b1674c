"""What the code does: a symbolic interpreter makes graphs, guards and effects of bytecode."""
