"""Random programs of `with` blocks in one another, with exceptions out of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

Drawn = Callable[[random.Random], str]


def nest(
    draw: random.Random,
    depth: int,
    kinds: Sequence[str],
    statements: Mapping[str, Drawn],
    contexts: Mapping[str, Drawn],
    caught: str,
) -> list[str]:
    """The lines of a nest. They may append to a list `seen`, of which the length decides whether an
    exception is raised.

    Args:
        kinds: the kinds of lines, each as often as it is to come.
        statements: by kind, what a line says; "op" is the innermost in any case.
        contexts: by kind, what is entered; that of "raise" in a `try` statement.
        caught: what is appended where an exception is caught.
    """
    lines: list[str] = []
    for _ in range(draw.randint(1, 3)):
        kind = draw.choice(kinds)
        if not depth or kind in statements:
            lines.append(statements[kind if depth else "op"](draw))
            continue
        block = [f"with {contexts[kind](draw)}:"]
        inner = nest(draw, depth - 1, kinds, statements, contexts, caught)
        block += [f"    {line}" for line in inner]
        if kind == "raise":
            block.append("    if len(seen) % 2: raise KeyError")
            block = ["try:", *(f"    {line}" for line in block)]
            block.append(f"except KeyError: seen.append({caught})")
        lines += block
    return lines
