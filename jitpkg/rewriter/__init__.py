"""How the function changes: hooks, resume functions, dispatch, entry code.

`points`, `emitter` and `assemble` need no torch; they are all that rewriting without tracing takes.
"""
