"""The form of what a table of tests can do."""

from __future__ import annotations

from dataclasses import field

from jitpkg.dataclass import dataclass

ANY = -(1 << 63)
"""In place of a length: is not compared."""

UNKNOWN = -1
"""In place of a dictionary's version: none has this."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that a table can do.

    `text` is LLVM IR, and five lines of our own: `own %x` and `borrow %x` make an object the next
    register, and `pass` just goes on (a number at the end of these says after how many more words),
    `fail` and `raise` end the table.
    `%a`, `%b` and `%c` are the operands, `A` and `C` registers that they number; `typeof A` is a
    class. Blocks that a row names and does not write are `right`, which passes, `wrong`, which
    fails, and `broken`, which raises.
    """

    name: str
    means: str
    text: str = field(repr=False)
