"""Sizes, strides and numbers of bytes that depend on a call's integer arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType

from jitpkg.errors import InvalidArgument

Extent = int | str
"""A number, or an expression of the integer arguments `i0`, `i1`, ...: `"i0 * (i1 + 3) // 2"`.

There are `+ - *`, `//` and `%` by a positive number, and `min` and `max` of two.
"""

INSTRUCTIONS: tuple[tuple[type[ast.operator], str], ...] = (
    (ast.Add, "add"),
    (ast.Sub, "sub"),
    (ast.Mult, "mul"),
    (ast.FloorDiv, "sdiv"),
    (ast.Mod, "srem"),
)
"""`sdiv` and `srem` round towards zero; what makes them round down is added."""


def check(extent: Extent, integers: int) -> None:
    """Refuse what is no extent.

    Raises:
        InvalidArgument: it is no expression of the kinds above, or of another argument.
    """
    if not _valid(_tree(extent), integers):
        raise InvalidArgument(f"{extent!r} is no expression of {integers} integer arguments")


def value(extent: Extent, integers: Sequence[int]) -> int:
    """What an extent is in one call."""
    if isinstance(extent, int):
        return extent
    names = {f"i{k}": integer for k, integer in enumerate(integers)}
    return int(eval(_code(extent), {"__builtins__": {}, "min": min, "max": max}, names))


def instructions(extent: Extent, prefix: str) -> tuple[list[str], str]:
    """LLVM instructions that compute an extent from `%i0`, ..., and the operand that it is."""
    lines: list[str] = []

    def emit(text: str) -> str:
        name = f"%{prefix}.{len(lines)}"
        lines.append(f"{name} = {text}")
        return name

    def operand(tree: ast.expr) -> str:
        match tree:
            case ast.Constant(value=number):
                return str(number)
            case ast.Name(id=name):
                return f"%{name}"
            case ast.UnaryOp(operand=of):
                return emit(f"sub i64 0, {operand(of)}")
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                a, b = operand(left), operand(right)
                first = emit(f"icmp {'slt' if name == 'min' else 'sgt'} i64 {a}, {b}")
                return emit(f"select i1 {first}, i64 {a}, i64 {b}")
            case ast.BinOp(left=left, op=op, right=right):
                a, b = operand(left), operand(right)
                done = emit(f"{dict(INSTRUCTIONS)[type(op)]} i64 {a}, {b}")
                if not isinstance(op, ast.FloorDiv | ast.Mod):
                    return done
                rest = emit(f"srem i64 {a}, {b}")
                below = emit(f"icmp slt i64 {rest}, 0")
                less, more = emit(f"sub i64 {done}, 1"), emit(f"add i64 {done}, {b}")
                lower = less if isinstance(op, ast.FloorDiv) else more
                return emit(f"select i1 {below}, i64 {lower}, i64 {done}")
            case _:
                raise InvalidArgument(f"{extent!r} is no extent")

    result = operand(_tree(extent))
    return lines, result


def _tree(extent: Extent) -> ast.expr:
    if isinstance(extent, int):
        return ast.Constant(extent)
    try:
        return ast.parse(extent, mode="eval").body
    except SyntaxError:
        return ast.Constant(None)


@lru_cache(maxsize=1024)
def _code(extent: str) -> CodeType:
    return compile(extent, "<extent>", "eval")


def _valid(tree: ast.expr, integers: int) -> bool:
    match tree:
        case ast.Constant(value=int(number)):
            return not isinstance(number, bool) and -(2**63) <= number < 2**63
        case ast.Name(id=name):
            return name in {f"i{k}" for k in range(integers)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _valid(operand, integers)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod(), right=ast.Constant() as right):
            positive = _valid(right, integers) and right.value > 0  # type: ignore[operator]
            return positive and _valid(left, integers)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            return _valid(left, integers) and _valid(right, integers)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[left, right], keywords=[]):
            return _valid(left, integers) and _valid(right, integers)
        case _:
            return False
