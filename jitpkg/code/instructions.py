"""A code object as a list of instructions: jumps by index, exception table by instruction."""

from __future__ import annotations

import opcode
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from jitpkg.code.versions import CACHES
from jitpkg.dataclass import dataclass


class Inconsistent(Exception):
    """A code object is not as CPython's compiler makes them, and is not understood."""


Position = tuple[int | None, int | None, int | None, int | None]
"""First line, last line, first column, last column; None where the compiler gave none."""

NO_POSITION: Position = (None, None, None, None)

_JUMPS = frozenset(opcode.opname[number] for number in opcode.hasjrel)
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]


class Covered(NamedTuple):
    """The innermost exception-table entry that covers an instruction."""

    handler: int
    """Index of the handler's first instruction."""
    depth: int
    """How many stack values are kept below the exception when the handler is entered."""
    lasti: bool
    """Whether the offset of the raising instruction is pushed before the exception."""


class Instruction(NamedTuple):
    """One instruction with its EXTENDED_ARGs and caches folded in."""

    opname: str
    arg: int
    position: Position
    target: int | None = None
    """Index of the instruction that this one may jump to."""
    covered: Covered | None = None

    @property
    def opcode(self) -> int:
        return opcode.opmap[self.opname]

    @property
    def line(self) -> int | None:
        return self.position[0]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The instructions of a code object and where each one begins."""

    instructions: tuple[Instruction, ...]
    offsets: tuple[int, ...]
    """Byte offset of each instruction proper, behind its EXTENDED_ARGs."""

    def index_at(self, offset: int) -> int:
        """Index of the instruction whose opcode lies at a byte offset (a frame's `f_lasti`)."""
        return self.offsets.index(offset)


def decode(code: CodeType) -> Decoded:
    """Decode `code`; the inverse is `jitpkg.rewriter.assemble`.

    Raises:
        Inconsistent: a jump or an exception-table entry does not lead to an instruction, or two
            entries cover the same one.
    """
    raw = code.co_code
    positions = [*code.co_positions(), *[NO_POSITION] * (len(raw) // 2)]  # it may have none
    found: list[tuple[str, int, int, int]] = []  # opname, argument, offset, end
    index_of: dict[int, int] = {}
    start = argument = at = 0
    while at < len(raw):
        number = raw[at]
        argument = argument << 8 | raw[at + 1]
        end = at + 2 + 2 * CACHES[number]
        if number != _EXTENDED_ARG:
            index_of[start] = len(found)
            found.append((opcode.opname[number], argument, at, end))
            start, argument = end, 0
        at = end
    index_of[len(raw)] = len(found)
    try:
        covered = _covered(code, index_of, len(found))
        instructions = [
            Instruction(
                name,
                arg,
                positions[offset // 2],
                _jump_target(name, arg, end, index_of) if name in _JUMPS else None,
                covered[k],
            )
            for k, (name, arg, offset, end) in enumerate(found)
        ]
    except KeyError as error:
        raise Inconsistent(f"{code.co_qualname}: there is no instruction at {error}") from None
    return Decoded(tuple(instructions), tuple([offset for _, _, offset, _ in found]))


def _covered(code: CodeType, index_of: dict[int, int], count: int) -> list[Covered | None]:
    """For each instruction, the entry that covers it."""
    covered: list[Covered | None] = [None] * count
    end = 0
    for first, stop, handler, depth, lasti in _exception_table(code.co_exceptiontable):
        if first < end:
            raise Inconsistent(f"{code.co_qualname}: two exception-table entries at {first}")
        end = stop
        entry = Covered(index_of[handler], depth, lasti)
        for k in range(index_of[first], index_of[stop]):
            covered[k] = entry
    return covered


def _jump_target(name: str, arg: int, end: int, index_of: dict[int, int]) -> int:
    return index_of[end - 2 * arg if "BACKWARD" in name else end + 2 * arg]


def _exception_table(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """(start, stop, handler, depth, lasti) of each entry, in byte offsets.

    Source: CPython's Objects/exception_handling_notes.txt.
    """
    data = iter(table)

    def number(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(data)
            value = value << 6 | first & 63
        return value

    for first in data:
        start = 2 * number(first)
        stop = start + 2 * number(next(data))
        handler = 2 * number(next(data))
        depth_and_lasti = number(next(data))
        yield start, stop, handler, depth_and_lasti >> 1, bool(depth_and_lasti & 1)
