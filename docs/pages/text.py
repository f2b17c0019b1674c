"""What several pages need: output that is the same on every machine."""

from __future__ import annotations

import ast
import inspect
import logging
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jitpkg

ROOT = Path(__file__).parents[2]


def filled(text: str, artefacts: Mapping[str, str]) -> str:
    """A template, with what the code gives in place of each {{name}}."""
    wanted = set(re.findall(r"\{\{(\w+)\}\}", text))
    assert wanted == artefacts.keys(), wanted ^ artefacts.keys()
    return re.sub(r"\{\{(\w+)\}\}", lambda found: artefacts[found[1]], text)


def paragraph(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def scrubbed(text: str) -> str:
    """Text without addresses, times, counters of the process, and the place of this folder."""
    text = text.replace(f"{ROOT}/", "")
    text = re.sub(r"0x[0-9a-f]{6,}", "0x…", text)
    text = re.sub(r"\d+\.\d ms", "… ms", text)
    text = re.sub(r"(version\(\w+\)) == \d+", r"\1 == …", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def attribute_docstrings(cls: type) -> dict[str, str]:
    """The string after each field of a class."""
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str() as value)):
                found[name] = " ".join(value.split())
    return found


class Lines(logging.Handler):
    """Keeps what is logged, in the form in which a terminal shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"[{record.name}] {record.getMessage()}")


def logged(topics: str, run: Callable[[], Any]) -> list[str]:
    """What is logged under some topics while something runs."""
    handler = Lines()
    logger = logging.getLogger("jitpkg")
    handlers, propagate = logger.handlers[:], logger.propagate
    logger.handlers[:] = [handler]
    jitpkg.set_logs(topics)
    try:
        run()
    finally:
        jitpkg.set_logs("")
        logger.handlers[:], logger.propagate = handlers, propagate
    return handler.lines
