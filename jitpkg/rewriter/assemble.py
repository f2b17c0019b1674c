"""From instructions with labels to a code object, by `bytecode`'s concrete instructions.

Concrete instructions keep every argument a number, so names, constants and slots stay where the
original code has them, and decoding what was assembled gives back what went in.
"""

from __future__ import annotations

import opcode
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import add
from types import CodeType

from bytecode import CompilerFlags, ConcreteBytecode, ConcreteInstr
from bytecode.concrete import ExceptionTableEntry

from jitpkg.code.instructions import Position
from jitpkg.code.versions import CACHES, HAS_ARGUMENT
from jitpkg.dataclass import dataclass

GOTO = "GOTO"
"""An unconditional jump that may go either way and never handles signals."""


@dataclass(slots=True, eq=False)
class Label:
    """A place in an instruction list; `index` is set when it is placed."""

    index: int = -1


@dataclass(frozen=True, slots=True)
class Handler:
    """What covers an instruction: an exception-table entry by label."""

    label: Label
    depth: int
    lasti: bool


@dataclass(slots=True, eq=False)
class Emitted:
    """One instruction to be assembled."""

    opname: str
    arg: int
    position: Position
    to: Label | None = None
    covered: Handler | None = None


@dataclass(slots=True)
class Layout:
    """Everything of a code object but its instructions."""

    like: CodeType
    consts: list[object]
    names: tuple[str, ...]
    varnames: tuple[str, ...]
    freevars: tuple[str, ...]
    stacksize: int
    argcount: int
    posonlyargcount: int
    kwonlyargcount: int
    flags: int


class _Sizes:
    """Instruction lengths in two-byte units, grown until every argument fits."""

    def __init__(self, instructions: Sequence[Emitted]) -> None:
        self.extended = [_extended(ins.arg) if ins.to is None else 0 for ins in instructions]
        self.starts: list[int] = []
        self._units = [_UNITS[ins.opname] for ins in instructions]
        self._jumps = [(k, ins, ins.to) for k, ins in enumerate(instructions) if ins.to is not None]
        while self._grow():
            pass

    def _grow(self) -> bool:
        self.starts = starts = [0, *accumulate(map(add, self._units, self.extended))]
        grown = False
        for k, ins, to in self._jumps:
            distance = starts[to.index] - starts[k + 1]
            ins.arg = abs(distance)
            if ins.opname == GOTO:
                forward = distance >= 0
                ins.opname = "JUMP_FORWARD" if forward else "JUMP_BACKWARD_NO_INTERRUPT"
            needed = _extended(ins.arg)
            if needed > self.extended[k]:
                self.extended[k] = needed
                grown = True
        return grown


def _extended(arg: int) -> int:
    """How many EXTENDED_ARGs an argument needs."""
    return max(0, (arg.bit_length() - 1) // 8)


_UNITS = {name: 1 + CACHES[k] for name, k in opcode.opmap.items() if k < 256} | {GOTO: 1}
"""How long an instruction is without EXTENDED_ARGs."""


def assemble(instructions: Sequence[Emitted], layout: Layout) -> tuple[CodeType, list[int]]:
    """Assemble; also return the byte offset of each instruction proper, behind EXTENDED_ARGs.

    Labels must be placed, and every instruction that a label of a handler covers must be given
    that handler; jump arguments are computed here.
    """
    sizes = _Sizes(instructions)
    bytecode = ConcreteBytecode(
        [ConcreteInstr("NOP")],
        consts=tuple(layout.consts),
        names=layout.names,
        varnames=layout.varnames,
        exception_table=_table(instructions, sizes.starts),
    )
    like = layout.like
    bytecode.name = like.co_name
    bytecode.qualname = like.co_qualname
    bytecode.filename = like.co_filename
    bytecode.first_lineno = like.co_firstlineno
    bytecode.freevars = list(layout.freevars)
    bytecode.cellvars = list(like.co_cellvars)
    bytecode.argcount = layout.argcount
    bytecode.posonlyargcount = layout.posonlyargcount
    bytecode.kwonlyargcount = layout.kwonlyargcount
    bytecode.flags = CompilerFlags(layout.flags)
    code = bytecode.to_code(stacksize=layout.stacksize, compute_exception_stack_depths=False)
    # `bytecode` would take five times as long to put the units and the lines together.
    code = code.replace(
        co_code=b"".join(
            [_units(i.opname, i.arg, n) for i, n in zip(instructions, sizes.extended, strict=True)]
        ),
        co_linetable=_line_table(instructions, sizes.starts, like.co_firstlineno),
    )
    offsets = [
        2 * (start + extra) for start, extra in zip(sizes.starts, sizes.extended, strict=False)
    ]
    return code, offsets


@lru_cache(maxsize=16384)
def _units(opname: str, arg: int, extended: int) -> bytes:
    """One instruction, its EXTENDED_ARGs and its caches."""
    if opcode.opmap[opname] in HAS_ARGUMENT:
        first = ConcreteInstr(opname, arg, extended_args=extended or None)
    else:
        first = ConcreteInstr(opname)
    caches = [ConcreteInstr("CACHE", 0)] * (_UNITS[opname] - 1)
    return b"".join(unit.assemble() for unit in (first, *caches))


def _line_table(instructions: Sequence[Emitted], starts: list[int], line: int) -> bytes:
    """One entry for each run of instructions with the same position; `line` is the function's.

    Source: CPython's Objects/locations.md.
    """
    out = bytearray()
    begin = 0
    for k in range(1, len(instructions) + 1):
        position = instructions[begin].position
        if k < len(instructions) and instructions[k].position == position:
            continue
        units, begin = starts[k] - starts[begin], k
        while units > 0:
            line = _add_location(out, position, min(units, 8), line)
            units -= 8
    return bytes(out)


def _add_location(out: bytearray, position: Position, units: int, before: int) -> int:
    """Add an entry for up to eight units; the line that the next one is relative to."""
    line, last_line, column, last_column = position
    if line is None:
        out.append(0x80 | _NO_LOCATION << 3 | units - 1)
        return before
    step = line - before
    if last_line is None or column is None or last_column is None:
        out.append(0x80 | _NO_COLUMNS << 3 | units - 1)
        _add_number(out, step << 1 if step >= 0 else -step << 1 | 1)
    elif not step and line == last_line and column < 80 and 0 <= last_column - column < 16:
        out += bytes(
            (0x80 | column >> 3 << 3 | units - 1, (column & 7) << 4 | last_column - column)
        )
    else:
        out.append(0x80 | _LONG << 3 | units - 1)
        _add_number(out, step << 1 if step >= 0 else -step << 1 | 1)
        for number in (last_line - line, column + 1, last_column + 1):
            _add_number(out, number)
    return line


_NO_LOCATION, _LONG, _NO_COLUMNS = 15, 14, 13


def _add_number(out: bytearray, number: int) -> None:
    while number > 63:
        out.append(64 | number & 63)
        number >>= 6
    out.append(number)


def _table(instructions: Sequence[Emitted], starts: list[int]) -> list[ExceptionTableEntry]:
    """One entry for each run of instructions with the same handler."""
    table: list[ExceptionTableEntry] = []
    begin = 0
    for k in range(1, len(instructions) + 1):
        covered = instructions[begin].covered
        if k < len(instructions) and instructions[k].covered == covered:
            continue
        if covered is not None:
            handler = starts[covered.label.index]
            table.append(
                ExceptionTableEntry(
                    starts[begin], starts[k] - 1, handler, covered.depth, covered.lasti
                )
            )
        begin = k
    return table
