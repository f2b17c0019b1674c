"""The programs, one file for each letter.

Each is `case(C) -> comparable value`: `C` compiles the function under test (the identity gives the
eager value), and `graph_break()` asks for a graph break. Right means: both give the same value.
They are odd on purpose, and how they are laid out is part of them: line numbers, one-line lambdas,
module globals, names of locals.
"""
