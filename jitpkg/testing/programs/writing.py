"""Writes whole programs."""

from __future__ import annotations

import ast
import functools
import re

from jitpkg.testing.programs import (
    control,
    definitions,
    expressions,
    library,
    ops,
    signatures,
    statements,
    tensors,
    writes,
)  # fmt: skip
from jitpkg.testing.programs.choices import Choices, Seeded, chance, one_of, some
from jitpkg.testing.programs.defined import Definitions
from jitpkg.testing.programs.grammar import Grammar, by_kind, joined, paragraphs
from jitpkg.testing.programs.program import NAME, Program
from jitpkg.testing.programs.scopes import Variable
from jitpkg.testing.programs.writer import DEEPEST, Writer

_EXPRESSIONS = (
    expressions.EXPRESSIONS, library.EXPRESSIONS, tensors.EXPRESSIONS, ops.EXPRESSIONS,
)  # fmt: skip
_STATEMENTS = (
    statements.STATEMENTS, control.STATEMENTS, tensors.STATEMENTS, writes.STATEMENTS,
)  # fmt: skip

GRAMMAR = Grammar(
    expressions=functools.reduce(joined, map(by_kind, _EXPRESSIONS)),
    statements=tuple(row for table in _STATEMENTS for row in paragraphs(table)),
    unions={kind: tuple(members.split()) for kind, members in expressions.UNIONS.items()},
)
"""What programs are written of unless told otherwise."""

_IMPORTS = {
    name: f"import {name}"
    for name in (
        "collections contextlib copy dataclasses enum functools heapq io itertools math operator"
        " random sys typing warnings torch jitpkg"
    ).split()
} | {
    "F": "import torch.nn.functional as F",
    "nn": "from torch import nn",
    "np": "import numpy as np",
    "checkpoint": "import torch.utils.checkpoint",
    "abc": "import collections.abc",
}


def generate(seed: int, grammar: Grammar = GRAMMAR) -> Program:
    """The program of a seed: the same one on each Python, as long as the grammar is the same."""
    return written(Seeded(seed), grammar)


def written(choices: Choices, grammar: Grammar = GRAMMAR) -> Program:
    """A program of some choices."""
    exact = not chance(choices, 25)
    writer = Writer(grammar, choices, exact=exact)
    defined = Definitions(writer)
    lines = _globals(writer)
    for _ in some(choices, 2, 60):
        lines += defined.a_class()
    for _ in some(choices, 2, 60):
        lines += defined.function()
    given = signatures.parameters(writer)
    lines.append(f"def {NAME}({signatures.signature(given)}):")
    lines += ["    " + line for line in _main(writer, [p.variable for p in given])]
    made = signatures.calls(writer, given)
    body = ast.unparse(ast.parse("\n".join(lines)))
    called = tuple(ast.unparse(tree) for tree in ast.parse("\n".join(made)).body)
    imports = _imports(body, *called)
    above = "\n".join(filter(None, [grammar.prelude, imports]))
    return Program(f"{above}\n\n{body}\n", called, exact)


def _imports(*texts: str) -> str:
    names = {"torch"}.union(*(re.findall(r"\b\w+(?=\.)", text) for text in texts))
    return "\n".join(line for name, line in _IMPORTS.items() if name in names)


def _globals(writer: Writer) -> list[str]:
    rows = by_kind_of(definitions.GLOBALS)
    found = []
    for _ in some(writer.choices, 2, 60):
        kind, text = one_of(writer.choices, rows)
        name = writer.name("global").upper()
        found.append(f"{name} = {text}")
        writer.scope.variables.append(Variable(name, kind))
    return found


def by_kind_of(table: str) -> list[tuple[str, str]]:
    pairs = (line.split(": ", 1) for line in table.strip().splitlines())
    return [(kind, text) for kind, text in pairs]


def _main(writer: Writer, parameters: list[Variable]) -> list[str]:
    choices = writer.choices
    with writer.function(list(parameters)):
        writer.left = max(writer.left, 6)
        found = writer._declarations()
        for _ in some(choices, 9, 85):
            found += _guarded(writer, writer.statement(DEEPEST))
        known = [v.text for v in writer.scope.variables if v.is_name]
        results = [v for v in known if chance(choices, 75)][-6:]
        results += [writer.expression("any", 2) for _ in some(choices, 2, 50)]
        return [*found, f"return ({', '.join(results)},)" if results else "return None"]


def _guarded(writer: Writer, lines: list[str]) -> list[str]:
    """A statement in a `try` now and then, so that more of the program runs."""
    if not chance(writer.choices, 30):
        return lines
    inner = ["    " + line for line in lines]
    match writer.choices.below(3):
        case 0:
            return ["try:", *inner, "except Exception:", "    pass"]
        case 1:
            return ["with contextlib.suppress(Exception):", *inner]
    return ["try:", *inner, "except Exception as caught:", "    print(type(caught), caught)"]
