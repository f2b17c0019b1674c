"""Bytecode of any supported Python in one dialect, for the tracer.

Caches, prologue bookkeeping and super-instructions are gone, arguments are the objects they stand
for, and what differs between versions in the layout of the stack is said by the argument. One
instruction becomes zero or more operations; every operation knows its instruction.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from jitpkg.code.analysis import slot_names
from jitpkg.code.effects import loads_method
from jitpkg.code.instructions import Covered, Decoded, Instruction, decode
from jitpkg.code.versions import (
    ATTRIBUTE_SHIFT,
    COMPARE_SHIFT,
    COMPARE_TO_BOOL,
    END_FOR_POPS_ONE,
    FOR_ITER_SKIPS_END,
)
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of the dialect."""

    name: str
    arg: object
    index: int
    """The instruction that it comes from."""
    target: int | None = None
    """The operation that it may jump to."""


class Callee(NamedTuple):
    """How a call's arguments lie on the stack."""

    arguments: int
    """How many, positional and by keyword."""
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A code object in the dialect."""

    code: CodeType
    decoded: Decoded
    ops: tuple[Op, ...]
    first: tuple[int, ...]
    """For each instruction, its first operation, or the next one's."""
    slots: tuple[str, ...]
    """Names of the slots: locals, cells, free variables."""

    def instruction(self, op: Op) -> Instruction:
        return self.decoded.instructions[op.index]

    def handler(self, op: Op) -> tuple[int, Covered] | None:
        """The operation that handles an exception of `op`, and how the stack is cut there."""
        covered = self.instruction(op).covered
        return None if covered is None else (self.first[covered.handler], covered)


BINARY_OPERATORS = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")
INTRINSICS = {3: "CONVERT_STOP_ITERATION", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
"""Intrinsic functions of one argument that are operations of the dialect."""

REFUSED = {
    "ASYNC_GEN_WRAP": "asynchronous generators",
    "BEFORE_ASYNC_WITH": "asynchronous functions",
    "CHECK_EG_MATCH": "except*",
    "CLEANUP_THROW": "throwing into a generator",
    "DELETE_NAME": "class and module bodies",
    "END_ASYNC_FOR": "asynchronous functions",
    "GET_AITER": "asynchronous functions",
    "GET_ANEXT": "asynchronous functions",
    "GET_AWAITABLE": "asynchronous functions",
    "IMPORT_STAR": "class and module bodies",
    "LOAD_BUILD_CLASS": "class statements",
    "LOAD_CLASSDEREF": "class and module bodies",
    "LOAD_FROM_DICT_OR_DEREF": "class and module bodies",
    "LOAD_FROM_DICT_OR_GLOBALS": "class and module bodies",
    "LOAD_LOCALS": "class and module bodies",
    "LOAD_NAME": "class and module bodies",
    "PREP_RERAISE_STAR": "except*",
    "PRINT_EXPR": "interactive statements",
    "SETUP_ANNOTATIONS": "class and module bodies",
    "STORE_NAME": "class and module bodies",
}
"""Instructions that the tracer never executes, and what they belong to."""

INTERNAL = frozenset(
    {"CACHE", "EXTENDED_ARG", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "INTERPRETER_EXIT", "RESERVED"}
)
"""Opcodes that no code object shows."""

Arguments = tuple[str, object]


class _Context(NamedTuple):
    ins: Instruction
    code: CodeType
    keywords: tuple[str, ...]


Row = Callable[[_Context], list[Arguments]]

_AS_IS: Row = lambda c: [(c.ins.opname, c.ins.arg)]  # noqa: E731
_DROPPED: Row = lambda c: []  # noqa: E731
_JUMP: Row = lambda c: [("JUMP", None)]  # noqa: E731


def _named(name: str) -> Row:
    return lambda c: [(name, c.ins.arg)]


def _const(name: str) -> Row:
    return lambda c: [(name, c.code.co_consts[c.ins.arg])]


def _name(name: str, shift: int = 0) -> Row:
    return lambda c: [(name, c.code.co_names[c.ins.arg >> shift])]


def _pair(first: str, second: str) -> Row:
    return lambda c: [(first, c.ins.arg >> 4), (second, c.ins.arg & 15)]


def _jump_if(condition: str) -> Row:
    return lambda c: [("JUMP_IF", condition)]


def _load_global(c: _Context) -> list[Arguments]:
    name = ("LOAD_GLOBAL", c.code.co_names[c.ins.arg >> 1])
    return [("LOAD_GLOBAL_CALLEE", name[1])] if c.ins.arg & 1 else [name]


def _load_attr(c: _Context) -> list[Arguments]:
    name = c.code.co_names[c.ins.arg >> ATTRIBUTE_SHIFT]
    return [("LOAD_METHOD" if loads_method(c.ins) else "LOAD_ATTR", name)]


def _load_super(c: _Context) -> list[Arguments]:
    name = c.code.co_names[c.ins.arg >> 2]
    return [("LOAD_SUPER_METHOD" if c.ins.arg & 1 else "LOAD_SUPER_ATTR", name)]


def _binary(c: _Context) -> list[Arguments]:
    in_place, index = divmod(c.ins.arg, len(BINARY_OPERATORS))
    return [("INPLACE_OP" if in_place else "BINARY_OP", BINARY_OPERATORS[index])]


def _compare(c: _Context) -> list[Arguments]:
    ops: list[Arguments] = [("COMPARE_OP", dis.cmp_op[c.ins.arg >> COMPARE_SHIFT])]
    return [*ops, ("TO_BOOL", None)] if c.ins.arg & COMPARE_TO_BOOL else ops


def _format(c: _Context) -> list[Arguments]:
    return [("FORMAT", (c.ins.arg & 3, bool(c.ins.arg & 4)))]


def _intrinsic(c: _Context) -> list[Arguments]:
    return [(INTRINSICS.get(c.ins.arg, "REFUSED"), f"the intrinsic function {c.ins.arg}")]


def _refused(c: _Context) -> list[Arguments]:
    return [("REFUSED", REFUSED[c.ins.opname])]


ROWS: dict[str, Row] = {
    **dict.fromkeys(REFUSED, _refused),
    **dict.fromkeys(("COPY_FREE_VARS", "PRECALL", "KW_NAMES", "RESUME", "NOP"), _DROPPED),
    **dict.fromkeys(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"), _JUMP),
    **dict.fromkeys(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE"), _named("LOAD_LOCAL")),
    **{
        f"POP_JUMP_{way}IF_{condition}": _jump_if(condition)
        for way in ("", "FORWARD_", "BACKWARD_")
        for condition in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
    "STORE_FAST": _named("STORE_LOCAL"),
    "DELETE_FAST": _named("DELETE_LOCAL"),
    "LOAD_FAST_AND_CLEAR": _named("TAKE_LOCAL"),
    "LOAD_FAST_LOAD_FAST": _pair("LOAD_LOCAL", "LOAD_LOCAL"),
    "STORE_FAST_LOAD_FAST": _pair("STORE_LOCAL", "LOAD_LOCAL"),
    "STORE_FAST_STORE_FAST": _pair("STORE_LOCAL", "STORE_LOCAL"),
    "LOAD_CONST": _const("LOAD_CONST"),
    "RETURN_CONST": lambda c: [("LOAD_CONST", c.code.co_consts[c.ins.arg]), ("RETURN_VALUE", None)],
    "LOAD_ASSERTION_ERROR": lambda c: [("LOAD_BUILTIN", AssertionError)],
    "LOAD_GLOBAL": _load_global,
    "STORE_GLOBAL": _name("STORE_GLOBAL"),
    "DELETE_GLOBAL": _name("DELETE_GLOBAL"),
    "LOAD_ATTR": _load_attr,
    "LOAD_METHOD": _load_attr,
    "LOAD_SUPER_ATTR": _load_super,
    "STORE_ATTR": _name("STORE_ATTR"),
    "DELETE_ATTR": _name("DELETE_ATTR"),
    "IMPORT_NAME": _name("IMPORT_NAME"),
    "IMPORT_FROM": _name("IMPORT_FROM"),
    "BINARY_OP": _binary,
    "COMPARE_OP": _compare,
    "FORMAT_VALUE": _format,
    "FORMAT_SIMPLE": lambda c: [("FORMAT", (0, False))],
    "FORMAT_WITH_SPEC": lambda c: [("FORMAT", (0, True))],
    "CALL": lambda c: [("CALL", Callee(c.ins.arg, c.keywords))],
    "CALL_INTRINSIC_1": _intrinsic,
    "CALL_INTRINSIC_2": lambda c: [("REFUSED", f"the intrinsic function {c.ins.arg} of two")],
    "JUMP_IF_TRUE_OR_POP": lambda c: [("JUMP_OR_POP", True)],
    "JUMP_IF_FALSE_OR_POP": lambda c: [("JUMP_OR_POP", False)],
    **dict.fromkeys(
        (
            "BEFORE_WITH BINARY_SLICE BINARY_SUBSCR BUILD_CONST_KEY_MAP BUILD_LIST BUILD_MAP"
            " BUILD_SET BUILD_SLICE BUILD_STRING BUILD_TUPLE CALL_FUNCTION_EX CALL_KW"
            " CHECK_EXC_MATCH CONTAINS_OP CONVERT_VALUE COPY DELETE_DEREF DELETE_SUBSCR DICT_MERGE"
            " DICT_UPDATE END_FOR END_SEND FOR_ITER GET_ITER GET_LEN GET_YIELD_FROM_ITER IS_OP"
            " LIST_APPEND LIST_EXTEND LIST_TO_TUPLE LOAD_DEREF MAKE_CELL MAKE_FUNCTION MAP_ADD"
            " MATCH_CLASS MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE POP_EXCEPT POP_TOP PUSH_EXC_INFO"
            " PUSH_NULL RAISE_VARARGS RERAISE RETURN_GENERATOR RETURN_VALUE SEND SET_ADD"
            " SET_FUNCTION_ATTRIBUTE SET_UPDATE STORE_DEREF STORE_SLICE STORE_SUBSCR SWAP TO_BOOL"
            " UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE UNPACK_EX UNPACK_SEQUENCE"
            " WITH_EXCEPT_START YIELD_VALUE"
        ).split(),
        _AS_IS,
    ),
}
"""For each instruction of any supported Python, the operations that it stands for."""


def translate(code: CodeType) -> Program:
    """`code` in the dialect."""
    return _translated(code, code.co_filename, code.co_linetable, code.co_exceptiontable)


@lru_cache(maxsize=4096)
def _translated(code: CodeType, file: str, lines: bytes, handlers: bytes) -> Program:
    """No CPython compares files, which functions inside have as well, and not every one lines and
    handlers."""
    decoded = decode(code)
    pending: list[tuple[str, object, int]] = []
    first: list[int] = []
    keywords: tuple[str, ...] = ()
    for index, ins in enumerate(decoded.instructions):
        first.append(len(pending))
        if ins.opname == "KW_NAMES":
            keywords = code.co_consts[ins.arg]
        context = _Context(ins, code, keywords)
        pending.extend((name, arg, index) for name, arg in ROWS[ins.opname](context))
        if ins.opname == "CALL":
            keywords = ()
    first.append(len(pending))
    ops = tuple(
        Op(name, arg, index, _target(decoded, name, index, first)) for name, arg, index in pending
    )
    return Program(code, decoded, ops, tuple(first), slot_names(code))


def _target(decoded: Decoded, name: str, index: int, first: list[int]) -> int | None:
    target = decoded.instructions[index].target
    if target is None or name not in _JUMPING:
        return None
    if name == "FOR_ITER" and FOR_ITER_SKIPS_END:
        target += 2 if END_FOR_POPS_ONE else 1
    return first[target]


_JUMPING = frozenset({"JUMP", "JUMP_IF", "JUMP_OR_POP", "FOR_ITER", "SEND"})
