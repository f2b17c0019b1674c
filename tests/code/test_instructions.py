"""Decoding tells what `dis` tells, and assembling what was decoded gives the same code."""

from __future__ import annotations

import argparse
import ast
import asyncio.tasks
import contextlib
import dis
import inspect
import types
from types import CodeType

import pytest

from jitpkg.code.analysis import is_function
from jitpkg.code.instructions import Inconsistent, decode
from jitpkg.rewriter.emitter import Emitter
from jitpkg.rewriter.points import Points
from tests.code.support import codes_of
from tests.rewriter import programs

MODULES = (argparse, ast, asyncio.tasks, contextlib, inspect, *programs.MODULES, types)
CODES = list(codes_of(*MODULES))
FUNCTIONS = [code for code in CODES if is_function(code)] + [programs.many_locals.__code__]


def test_instructions_are_those_of_dis() -> None:
    for code in CODES:
        decoded = decode(code)
        shown = [ins for ins in dis.get_instructions(code) if ins.opname != "EXTENDED_ARG"]
        assert [ins.opname for ins in decoded.instructions] == [ins.opname for ins in shown]
        assert list(decoded.offsets) == [ins.offset for ins in shown]
        for ins, as_shown in zip(decoded.instructions, shown, strict=True):
            assert ins.arg == (as_shown.arg or 0)
            assert ins.position == tuple(as_shown.positions or ())


def test_jumps_lead_to_instructions() -> None:
    for code in CODES:
        decoded = decode(code)
        starts = {}
        extended = 0
        for ins in dis.get_instructions(code):
            if ins.opname == "EXTENDED_ARG":
                extended += 2
            else:
                starts[ins.offset - extended] = decoded.index_at(ins.offset)
                extended = 0
        for ins, decoded_ins in zip(
            (i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"),
            decoded.instructions,
            strict=True,
        ):
            if ins.opcode in dis.hasjrel:
                assert decoded_ins.target == starts[ins.argval]
            else:
                assert decoded_ins.target is None


def test_handlers_are_those_of_dis() -> None:
    for code in CODES:
        decoded = decode(code)
        table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
        for ins, offset in zip(decoded.instructions, decoded.offsets, strict=True):
            entry = next((e for e in table if e.start <= offset < e.end), None)
            if entry is None:
                assert ins.covered is None
                continue
            assert ins.covered is not None
            assert ins.covered.depth == entry.depth
            assert ins.covered.lasti == entry.lasti


def test_code_without_hooks_is_the_original() -> None:
    for code in FUNCTIONS:
        again = Emitter(Points.of(code), {}).hooked()
        assert again.co_code == code.co_code
        assert again.co_exceptiontable == code.co_exceptiontable
        assert list(again.co_positions()) == list(code.co_positions())
        assert again.co_consts == code.co_consts
        assert again.co_names == code.co_names


def patched(code: CodeType, at: int, byte: int) -> CodeType:
    raw = bytearray(code.co_code)
    raw[at] = byte
    return code.replace(co_code=bytes(raw))


def loop(n: int) -> int:
    try:
        while n:
            n -= 1
    finally:
        n += 1
    return n


def refusal(code: CodeType) -> str:
    try:
        decode(code)
    except Inconsistent as error:
        return str(error)
    return ""


def test_a_jump_into_an_instruction_is_refused() -> None:
    jump = next(i for i in dis.get_instructions(loop) if i.opcode in dis.hasjrel)
    refusals = {refusal(patched(loop.__code__, jump.offset + 1, d)) for d in range(1, 30)}
    assert "" in refusals  # to an instruction
    assert any("there is no instruction at" in why for why in refusals)  # to a cache


def test_overlapping_handlers_are_refused() -> None:
    table = loop.__code__.co_exceptiontable
    with pytest.raises(Inconsistent, match="two exception-table entries"):
        decode(loop.__code__.replace(co_exceptiontable=table + table))
