"""docs/coverage.md: what is in the graph, and what breaks it."""

from __future__ import annotations

import contextlib
import io
import re
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import jitpkg
from jitpkg.code import dialect
from pages import coverage_names
from pages.breaks import result_and_breaks

PROGRAMS = Path(__file__).parents[1] / "coverage.txt"

PAGE = """\
# What is in the graph

Each line below was run when this page was made: compiled between two ops on tensors, by itself.
*yes* stands for one graph, so that `fullgraph=True` works. Otherwise the graph ends there for the
reason that is named, Python does it, and the next graph begins: the program means the same. With
arguments of another kind the answer can be another one; `jitpkg.explain(f)(*args)` says it for a
program.

{groups}

## Instructions

Of CPython's instructions, 3.11 to 3.13, these are executed by Python; a function with one of them
has a break there, or is a generator or coroutine, of which each part between two suspensions is
compiled. All others, {count} by name, are traced.

| instruction | belongs to |
|---|---|
{refused}
"""


@dataclass(frozen=True)
class Row:
    """A program of the page."""

    label: str
    function: Callable[[torch.Tensor, torch.Tensor], Any]
    """Takes a float and an integer tensor; gives what the program has made between two ops."""

    def answer(self) -> str:
        """*yes*, or the reason of the first break."""
        with quietly():
            compiled = jitpkg.compile(self.function, backend="eager")
            _, breaks = result_and_breaks(compiled, arguments())
        if not breaks:
            return "yes"
        reason = breaks[0].reason
        return f"[{reason.code}](breaks/{reason.code.lower()}.md): {reason.title}"


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.eye(4) + 1, torch.tensor([0, 1, 2, 1])


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """What programs print and warn of is not shown, and random streams stay."""
    with (
        torch.random.fork_rng(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def groups() -> dict[str, list[Row]]:
    """The programs of docs/coverage.txt, by heading.

    A line is an expression; one that ends with a colon names the statements that follow it.
    """
    found: dict[str, list[Row]] = {}
    parts = re.split(r"^## (.+)$", PROGRAMS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        blocks = re.findall(r"^(\S.*)\n((?:[ ]{4}.*\n)*)", text, flags=re.MULTILINE)
        found[title] = [_row(line, textwrap.dedent(block)) for line, block in blocks]
    return found


def _row(line: str, statements: str) -> Row:
    if statements:
        return Row(line.removesuffix(":"), _function(line, f"{statements}\nmade = 0"))
    return Row(f"`{line}`", _function(line, f"made = {line}"))


def _function(name: str, statements: str) -> Callable[..., Any]:
    body = textwrap.indent(statements, "    ")
    text = f"def program(x, n):\n    x = x + 1\n{body}\n    return x * 2, made\n"
    namespace = dict(vars(coverage_names))
    exec(compile(text, f"<{name}>", "exec"), namespace)
    function = namespace["program"]
    assert isinstance(function, types.FunctionType)
    return function


def page() -> str:
    found = [
        f"## {title}\n\n| program | in the graph |\n|---|---|\n"
        + "\n".join(f"| {row.label.replace('|', chr(92) + '|')} | {row.answer()} |" for row in rows)
        for title, rows in groups().items()
    ]
    refused = "\n".join(f"| `{name}` | {what} |" for name, what in dialect.REFUSED.items())
    count = len(dialect.ROWS.keys() - dialect.REFUSED.keys())
    return PAGE.format(groups="\n\n".join(found), refused=refused, count=count)
