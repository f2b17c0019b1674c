"""Code objects made by hand, and all that are compiled from a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, ModuleType

from jitpkg.code.versions import HAS_PRECALL
from jitpkg.rewriter.assemble import Emitted, Handler, Label, Layout, assemble
from tests.regions import walk

Line = str | tuple[str, int] | tuple[str, int, str]
"""An opcode, with its argument or the label that it jumps to; a text with a colon is a label."""


def by_hand(
    lines: Sequence[Line],
    *,
    arguments: int = 0,
    slots: Sequence[str] = ("a", "b"),
    stacksize: int = 8,
    consts: Sequence[object] = (None,),
    covered: tuple[int, int, str, int] | None = None,
) -> CodeType:
    """A function's code object; `covered` is (first line, last line, handler, depth)."""
    labels = {line: Label() for line in lines if isinstance(line, str) and line.endswith(":")}
    out: list[Emitted] = []
    for line in lines:
        if isinstance(line, str) and line in labels:
            labels[line].index = len(out)
            continue
        opname, arg, *to = (line, 0) if isinstance(line, str) else line
        where = labels[f"{to[0]}:"] if to else None
        out.append(Emitted(opname, arg, (1, 1, 0, 1), where))
    if covered is not None:
        first, last, handler, depth = covered
        for k in range(first, last + 1):
            out[k].covered = Handler(labels[f"{handler}:"], depth, lasti=False)
    like = by_hand.__code__.replace(co_freevars=(), co_cellvars=(), co_firstlineno=1)
    layout = Layout(
        like=like,
        consts=list(consts),
        names=("name",),
        varnames=tuple(slots),
        stacksize=stacksize,
        argcount=arguments,
        posonlyargcount=0,
        kwonlyargcount=0,
        flags=3,
    )
    return assemble(out, layout)[0]


def call(arguments: int) -> list[Line]:
    """The instructions of a call."""
    precall: list[Line] = [("PRECALL", arguments)] if HAS_PRECALL else []
    return [*precall, ("CALL", arguments)]


def codes_of(*modules: ModuleType) -> Iterator[CodeType]:
    """Every code object that the source of these modules compiles to."""
    for module in modules:
        file = module.__file__
        assert file is not None
        yield from walk(compile(Path(file).read_text(encoding="utf-8"), file, "exec"))
