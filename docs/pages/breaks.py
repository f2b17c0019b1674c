"""docs/breaks.md, every reason for a graph break, and for each a page in docs/breaks.

The programs are beside the pages, one file for each code: `program` breaks, `rewritten` does not.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jitpkg
from jitpkg import events
from jitpkg.errors import Break, Reason
from jitpkg.messages import break_message
from jitpkg.tracer.reasons import CATALOGUE, NO_BREAKS
from pages.text import paragraph, scrubbed

FOLDER = Path(__file__).parents[1] / "breaks"


@dataclass(frozen=True)
class Program:
    """One file of docs/breaks."""

    reason: Reason
    module: types.ModuleType

    @property
    def program(self) -> Callable[..., Any]:
        return self.module.program

    @property
    def rewritten(self) -> Callable[..., Any]:
        return self.module.rewritten

    def arguments(self) -> tuple[Any, ...]:
        return self.module.arguments()

    def rewritten_arguments(self) -> tuple[Any, ...]:
        return getattr(self.module, "rewritten_arguments", self.module.arguments)()

    def run(self) -> tuple[Any, list[Break]]:
        """The result of the compiled program, or the exception that it raises; and its breaks."""
        with jitpkg.config.patch(**getattr(self.module, "SETTINGS", {})), self._without():
            return result_and_breaks(jitpkg.compile(self.program), self.arguments())

    @contextlib.contextmanager
    def _without(self) -> Iterator[None]:
        """As if PyTorch lacked a private name, where the program says which."""
        row = getattr(self.module, "WITHOUT", None)
        if row is None:
            yield
            return
        with row.removed(), warnings.catch_warnings():
            warnings.simplefilter("ignore", jitpkg.errors.JitpkgWarning)
            yield


def result_and_breaks(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a compiled function gives, and at which breaks."""
    breaks: list[Break] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.Broke):
            breaks.append(event.graph_break)

    with events.STREAM.listening(note):
        try:
            result = function(*args)
            if isinstance(result, types.GeneratorType):
                result = list(result)
        except ValueError as error:
            result = error
    return result, breaks


def programs() -> list[Program]:
    """One for each reason of the catalogue."""
    return [Program(reason, _module(reason.code)) for reason in CATALOGUE]


def _module(code: str) -> types.ModuleType:
    path = FOLDER / f"{code.lower()}.py"
    spec = importlib.util.spec_from_file_location(f"docs.breaks.{code.lower()}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INTRO = """\
# Graph breaks

A graph break is a point in a function at which tracing stops. It is no error: Python runs the one
instruction that cannot be in a graph, in the function's own frame, and what lies before and after
it is compiled. The program means the same with and without breaks. What a break costs is some
microseconds at each call, and that an op before it cannot be fused with one after it.

`jitpkg.explain(f)(*args)` lists the breaks of a function, the log topic `breaks` reports each as it
is found, and `fullgraph=True` turns the first into an exception:

```
{example}
```

Every reason has a code that stays the same from version to version, and a page with a program that
breaks for it and a form of that program that does not. The tests run both: the one breaks for the
reason under which it stands, and the other is one graph with the same result.

| code | reason |
|---|---|
{table}
"""


def page() -> str:
    rows = [f"| [{r.code}](breaks/{r.code.lower()}.md) | {r.title} |" for r in CATALOGUE]
    branch = next(p for p in programs() if p.reason.code == "B103")
    return INTRO.format(example=_said(branch), table="\n".join(rows))


def pages() -> Mapping[str, Callable[[], str]]:
    """What makes the page of each reason, by its name."""
    return {f"breaks/{r.code.lower()}.md": partial(_page, r) for r in CATALOGUE}


def _page(reason: Reason) -> str:
    program = Program(reason, _module(reason.code))
    parts = [f"# {reason.code}: {reason.title}", paragraph(reason.why)]
    if reason in NO_BREAKS:
        parts.append("This is no break in the sense of `fullgraph=True` and `explain`.")
    parts.append(paragraph(f"**What to do.** {reason.fix}"))
    parts.append(f"## A program that breaks\n\n```python\n{_source(program, 'program')}```")
    if settings := getattr(program.module, "SETTINGS", {}):
        shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        parts.append(f"It is run with `jitpkg.config.patch({shown})`.")
    if (without := getattr(program.module, "WITHOUT", None)) is not None:
        parts.append(f"It is run as in a PyTorch that has no `{without.name}`.")
    parts.append(f"```\n{_said(program)}\n```")
    parts.append(f"## One graph\n\n```python\n{_source(program, 'rewritten')}```")
    parts.append("[All reasons](../breaks.md)")
    return "\n\n".join(parts) + "\n"


def _said(program: Program) -> str:
    """What is said of the break that the program is there for."""
    with contextlib.redirect_stdout(io.StringIO()):
        _, breaks = program.run()
    return scrubbed(break_message(next(b for b in breaks if b.reason == program.reason)))


def _source(program: Program, name: str) -> str:
    """A function, and what it uses of its file."""
    text = inspect.getsource(program.module)
    lines = text.splitlines(keepends=True)
    nodes = {_defined(node) or f"line {node.lineno}": node for node in ast.parse(text).body}
    used, todo = {name}, [name]
    while todo:
        for other in _names(nodes[todo.pop()]) & nodes.keys() - used - {"program", "rewritten"}:
            used.add(other)
            todo.append(other)
    if "_" in nodes and _names(nodes["_"]) & used:
        used.add("_")
    chosen = [nodes[each] for each in nodes if each in used]
    pieces = ("".join(lines[_first_line(node) - 1 : node.end_lineno]) for node in chosen)
    return "\n\n".join(pieces).replace("def rewritten(", "def program(")


def _defined(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])
