"""A hook at the start of a function, put there in microseconds: what the import hook does.

The emitter analyses, assembles and verifies, in a millisecond for a function; a module may have
hundreds of which few are ever called. Here a few instructions are put in behind the prologue, and
nothing else of the code is looked at: jumps are relative, constants and names are added at the end.
Of the tables of positions and handlers, only the parts that the new instructions concern change.
That the result passes the verifier is what the tests see to, over the whole standard library.
"""

from __future__ import annotations

import builtins
import opcode
import re
from collections.abc import Callable
from types import CodeType

from jitpkg.code.analysis import is_generator, parameter_count, slot_names
from jitpkg.code.versions import (
    ATTRIBUTE_SHIFT,
    CACHES,
    HAS_PRECALL,
    JUMP_IF,
    JUMPS_ON_BOOLS,
    LOAD_CELL,
    NULL_BELOW_CALLABLE,
)
from jitpkg.dataclass import dataclass
from jitpkg.rewriter.door import drop_frame

ASK = "run"
"""The attribute of what is behind the door that the stub calls."""

DOOR = -3
"""Where the door lies in the constants of a code with a stub."""

_PROLOGUE = frozenset({"COPY_FREE_VARS", "MAKE_CELL", "POP_TOP", "RETURN_GENERATOR"})
_BACKWARD = re.compile(
    b"[%s]"
    % re.escape(bytes(op for op in opcode.hasjrel if op < 256 and "BACKWARD" in opcode.opname[op]))
)
_NO_LOCATION, _LONG, _NO_COLUMNS, _ONE_LINE = 15, 14, 13, 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a function begins, and what its first instruction finds."""

    at: int
    """Byte offset of the first instruction behind the prologue."""
    locals: tuple[int, ...]
    """Slots of the parameters that are no cells."""
    cells: tuple[int, ...]
    """Slots of the function's own cells."""
    free: tuple[int, ...]
    """Slots of the free variables."""
    slot_count: int
    """Slots before the free variables."""
    is_target: bool
    """Whether the code may come back to it, in a loop."""


def place_of(code: CodeType) -> Place | None:
    """Where the stub of a function goes; None where the prologue is not a usual one."""
    raw = code.co_code
    cells: list[int] = []
    at = argument = 0
    while at < len(raw):
        name = opcode.opname[raw[at]]
        argument = argument << 8 | raw[at + 1]
        at += 2
        if name == "EXTENDED_ARG":
            continue
        if name == "MAKE_CELL":
            cells.append(argument)
        elif name == "RESUME":
            break
        elif name not in _PROLOGUE:
            return None
        argument = 0
    count = len(slot_names(code)) - len(code.co_freevars)
    return Place(
        at,
        tuple(slot for slot in range(parameter_count(code)) if slot not in cells),
        tuple(sorted(cells)),
        tuple(range(count, count + len(code.co_freevars))),
        count,
        _comes_back(raw, at),
    )


def _comes_back(raw: bytes, at: int) -> bool:
    """Whether a jump leads back to an offset, or may do so."""
    for found in _BACKWARD.finditer(raw[::2]):
        jump = 2 * found.start()
        argument, shift, before = raw[jump + 1], 8, jump - 2
        while before >= 0 and raw[before] == opcode.EXTENDED_ARG:
            argument |= raw[before + 1] << shift
            before, shift = before - 2, shift + 8
        if jump + 2 + 2 * CACHES[raw[jump]] - 2 * argument <= at:
            return True
    return False


def stubbed(code: CodeType, place: Place, door: Callable[[], object]) -> CodeType | None:
    """`code`, which first asks whoever is behind the door; None where that cannot be.

    `door()` gives None, or an object whose `run(*locals, *cells, *free, globals)` returns None to
    run the code, `(True, result)` to return, or `(False, (values, …, second, first, function))` to
    return `function(first, second, …, values)`, where `first, second, …` are all slots before the
    free variables: at least one. A generator is not left in the last way.
    """
    entry = _Entries(code, place.at)
    if entry.refused or (entry.covered and not is_generator(code)):
        return None
    consts = len(code.co_consts)
    asm = _Assembler(code, place, consts, names=len(code.co_names))
    body, handled = asm.body()
    units = len(body) // 2
    lines = entry.lines(units)
    if lines is None:
        return None
    raw = code.co_code
    return code.replace(
        co_code=raw[: place.at] + body + raw[place.at :],
        co_consts=(*code.co_consts, door, builtins.globals, drop_frame),
        co_names=(*code.co_names, ASK),
        co_linetable=lines,
        co_exceptiontable=entry.handlers(units, handled),
        co_stacksize=max(code.co_stacksize, len(slot_names(code)) + 8),
    )


class _Assembler:
    """The new instructions."""

    def __init__(self, code: CodeType, place: Place, consts: int, names: int) -> None:
        self.place = place
        self.is_generator = is_generator(code)
        self.door, self.globals, self.drop_frame = range(consts, consts + 3)
        self.name = names

    def body(self) -> tuple[bytes, tuple[int, int, int] | None]:
        """The instructions, and (start, end, handler) in units, for the call that leaves."""
        gone = _ins("POP_TOP")
        leave, handled = (b"", None) if self.is_generator else self._leave()
        answer = _ins("UNPACK_SEQUENCE", 2)
        if not self.is_generator:
            answer += _ins(JUMP_IF + "FALSE", _units(_ins("RETURN_VALUE")))
        else:
            answer += _ins("POP_TOP")
        answer += _ins("RETURN_VALUE")
        behind = answer + leave
        ask = self._callee_on_stack() + self._arguments()
        ask += _ins("COPY", 1) + _ins(JUMP_IF + "NONE", _units(behind))
        behind = ask + behind
        begin = self._call_const(self.door) + _ins("COPY", 1)
        begin += _ins(JUMP_IF + "NONE", _units(behind))
        behind = begin + behind + gone
        seen = _ins("LOAD_CONST", self.door) + (_ins("TO_BOOL") if JUMPS_ON_BOOLS else b"")
        seen += _ins(JUMP_IF + "FALSE", _units(behind))  # if Dynamo traces it: see `Door`
        if handled is not None:
            shift = _units(seen + behind) - _units(leave + gone)
            handled = (handled[0] + shift, handled[1] + shift, handled[2] + shift)
        return seen + behind, handled

    def _callee_on_stack(self) -> bytes:
        code = _ins("LOAD_ATTR", self.name << ATTRIBUTE_SHIFT) + _ins("PUSH_NULL")
        return code + _ins("SWAP", 2) if NULL_BELOW_CALLABLE else code

    def _arguments(self) -> bytes:
        place = self.place
        code = b"".join(_ins("LOAD_FAST", slot) for slot in place.locals)
        code += b"".join(_ins(LOAD_CELL, slot) for slot in (*place.cells, *place.free))
        code += self._call_const(self.globals)
        return code + _call(len(place.locals) + len(place.cells) + len(place.free) + 1)

    def _call_const(self, index: int) -> bytes:
        callee = (_ins("PUSH_NULL"), _ins("LOAD_CONST", index))
        return b"".join(callee if NULL_BELOW_CALLABLE else callee[::-1]) + _call(0)

    def _leave(self) -> tuple[bytes, tuple[int, int, int]]:
        """return function(*slots, values), in a frame that holds nothing any more."""
        count = self.place.slot_count
        code = b"".join(
            _ins("DELETE_FAST", slot) for slot in sorted((*self.place.locals, *self.place.cells))
        )
        start = _units(code)
        code += _ins("UNPACK_SEQUENCE", count + 2)
        code += _call(count)  # the first argument lies where NULL, or a method's object, would be
        end = _units(code)
        code += _ins("RETURN_VALUE")
        handler = _units(code)
        null, load = _ins("PUSH_NULL"), _ins("LOAD_CONST", self.drop_frame)
        code += null + load if NULL_BELOW_CALLABLE else load + null
        code += _ins("COPY", 3) + _call(1) + _ins("POP_TOP") + _ins("RERAISE", 0)
        return code, (start, end, handler)


def _ins(name: str, arg: int = 0) -> bytes:
    number = opcode.opmap[name]
    out = bytearray()
    for shift in (24, 16, 8):
        if arg >> shift:
            out += bytes((opcode.EXTENDED_ARG, arg >> shift & 255))
    out += bytes((number, arg & 255))
    return bytes(out) + bytes(2 * CACHES[number])


def _call(count: int) -> bytes:
    return (_ins("PRECALL", count) if HAS_PRECALL else b"") + _ins("CALL", count)


def _units(code: bytes) -> int:
    return len(code) // 2


class _Entries:
    """The tables of positions and handlers, as far as they concern an offset."""

    def __init__(self, code: CodeType, at: int) -> None:
        self.units = at // 2
        self.table = code.co_linetable
        self.entry = self._location()
        """Index of the location entry that begins at the offset."""
        self.refused = self.entry is None
        self.handling = list(_handlers(code.co_exceptiontable))
        self.covered = any(start <= self.units < end for start, end, _, _ in self.handling)

    def _location(self) -> int | None:
        at = units = 0
        while at < len(self.table) and units < self.units:
            units += (self.table[at] & 7) + 1
            at += 1
            while at < len(self.table) and not self.table[at] & 0x80:
                at += 1
        return at if units == self.units and at < len(self.table) else None

    def lines(self, count: int) -> bytes | None:
        """The table with `count` units more, on the line of what follows; None if it has none."""
        assert self.entry is not None
        table, at = self.table, self.entry
        kind, length = table[at] >> 3 & 15, table[at] & 7
        step, behind = b"\0", at + 1
        if kind == _NO_LOCATION:
            return None
        if kind in (_LONG, _NO_COLUMNS):
            while table[behind] & 64:
                behind += 1
            behind += 1
            step = table[at + 1 : behind]
            own = bytes((0x80 | kind << 3 | length, 0))
        elif kind >= _ONE_LINE:
            step = bytes(((kind - _ONE_LINE) << 1,))
            own = bytes((0x80 | _ONE_LINE << 3 | length,))
        else:
            own = table[at:behind]
        added = bytearray()
        while count > 0:
            added.append(0x80 | _NO_COLUMNS << 3 | min(count, 8) - 1)
            added += step
            step = b"\0"
            count -= 8
        return table[:at] + bytes(added) + own + table[behind:]

    def handlers(self, count: int, handled: tuple[int, int, int] | None) -> bytes:
        """The table with `count` units more, and a handler of its own for some of them."""
        units, out = self.units, bytearray()
        entries = [
            (
                start + count
                if start >= units and not (start == units and self.covered)
                else start,
                end + count if end > units else end,
                target + count,
                depth,
            )
            for start, end, target, depth in self.handling
        ]
        if handled is not None:
            start, end, target = handled
            entries.append((units + start, units + end, units + target, 0))
        for start, end, target, depth in sorted(entries):
            for k, number in enumerate((start, end - start, target, depth)):
                _add_number(out, number, 0 if k else 128)
        return bytes(out)


def _handlers(table: bytes) -> list[tuple[int, int, int, int]]:
    """(start, end, handler, depth and lasti) of each entry, in units.

    Source: CPython's Objects/exception_handling_notes.txt.
    """
    numbers: list[int] = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
    return [
        (start, start + size, target, depth)
        for start, size, target, depth in zip(*[iter(numbers)] * 4, strict=True)
    ]


def _add_number(out: bytearray, number: int, mark: int) -> None:
    """Add a number in groups of six bits, the highest first."""
    groups = [number & 63]
    while number := number >> 6:
        groups.append(number & 63)
    for k, group in enumerate(reversed(groups)):
        out.append(group | (64 if k < len(groups) - 1 else 0) | (mark if not k else 0))
