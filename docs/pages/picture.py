"""docs/architecture.svg: the rooms of the package, and who imports whom, read from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from pages.text import ROOT

PACKAGE = ROOT / "jitpkg"


@dataclass(frozen=True)
class Room:
    """A box of the picture."""

    name: str
    says: tuple[str, ...]


LAYERS: tuple[tuple[Room, ...], ...] = (
    (
        Room("cli", ("python -m jitpkg",)),
        Room("pytest_plugin", ("pytest --jitpkg",)),
    ),
    (
        Room("auto", ("compiles modules that", "are imported later")),
        Room("testing", ("compiled compared with eager;", "strategies")),
        Room("doctor", ("what is missing", "on this machine")),
        Room("explanation", ("what compiling made", "of a function")),
        Room("statistics", ("what is compiled", "now")),
        Room("torch_compile", ("a backend for", "torch.compile")),
    ),
    (
        Room("api", ("jit, compile, reset: the one place", "that knows all rooms")),
        Room("report", ("what was done, told", "at a program's end")),
        Room("cache", ("what is kept on disk",)),
        Room("webreport", ("what was compiled,", "as a web page")),
    ),
    (
        Room("logs", ("events, written", "to logging")),
        Room("rewriter", ("how the function changes:", "hooks, dispatch, entries")),
        Room("codegen", ("how the graph runs:", "backends by name")),
    ),
    (Room("tracer", ("what the code does:", "a symbolic interpreter")),),
    (Room("guards", ("what must still hold:", "sources, guards, their text")),),
    (
        Room("again", ("copies and pickles of", "what was compiled")),
        Room("code", ("what an instruction does;", "needs no torch")),
        Room("facts", ("what an op returns;", "the door to FakeTensor")),
        Room("native", ("LLVM IR to a builtin;", "the door to llvmlite")),
    ),
    (
        Room("comparison", ("copies to start from, facts", "that can be seen, differences")),
        Room("listing", ("generated source",)),
        Room("marks", ("disable, graph_break",)),
        Room("ranges", ("names in a profile",)),
    ),
    (Room("internals", ("PyTorch's private names:", "a table, and what is lost without")),),
    (Room("attempts", ("compiled code that fails",)),),
    (
        Room("collector", ("it rests",)),
        Room("config", ("settings",)),
        Room("events", ("one stream",)),
        Room("interrupts", ("handlers wait",)),
        Room("living", ("weak sets",)),
    ),
    (
        Room("forks", ("what a child may do",)),
        Room("messages", ("breaks and warnings in words",)),
        Room("threads", ("of the compiler itself",)),
    ),
    (
        Room("endings", ("what is forgotten",)),
        Room("errors", ("exceptions, breaks, reasons",)),
    ),
    (Room("dataclass", ("dataclasses, defined sooner",)),),
)
"""From the top down: each room may import what lies below it."""

LEAVES = frozenset(
    {
        "again",
        "attempts",
        "collector",
        "config",
        "dataclass",
        "endings",
        "errors",
        "events",
        "forks",
        "internals",
        "interrupts",
    }
    | {"listing", "living", "marks", "messages", "ranges", "threads"}
)
"""Everybody imports these; no arrows are drawn to them."""

BOX, GAP, WIDTH = 76, 40, 940


def imports() -> set[tuple[str, str]]:
    """Which room imports which."""
    return {
        (_room(file), used)
        for file in PACKAGE.rglob("*.py")
        for used in _imported(file)
        if used != _room(file) and not file.name.startswith("__")
    }


def _room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module="jitpkg", names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module)) if module.startswith("jitpkg."):
                yield module.split(".")[1]


def arrows() -> list[tuple[str, str]]:
    """The imports, without those to leaves and those that a way over another room implies."""
    edges = {(a, b) for a, b in imports() if b not in LEAVES}
    rooms = {room for edge in edges for room in edge}
    reach = {room: _below(room, edges) for room in rooms}
    return sorted(
        (a, b)
        for a, b in edges
        if not any((a, c) in edges and b in reach[c] for c in rooms if c != b)
    )


def _below(room: str, edges: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    todo = [room]
    while todo:
        at = todo.pop()
        new = {b for a, b in edges if a == at} - found
        found |= new
        todo.extend(new)
    return found


def picture() -> str:
    places = _places()
    wrong = [(a, b) for a, b in imports() if places[a][1] >= places[b][1]]
    assert not wrong, f"imports that point up: {wrong}"
    shapes = [
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *(_arrow(places[a], places[b]) for a, b in arrows()),
        *(_box(room, places[room.name]) for layer in LAYERS for room in layer),
    ]
    height = GAP + len(LAYERS) * (BOX + GAP)
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" font-family="sans-serif">\n'
        "<title>The rooms of jitpkg; arrows are imports</title>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8"'
        ' markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#667788"/></marker>'
        f"</defs>\n{body}\n</svg>\n"
    )


def _places() -> dict[str, tuple[int, int, int]]:
    """For each room: the left edge, the top and the width of its box."""
    found = {}
    for row, layer in enumerate(LAYERS):
        count = len(layer)
        width = min(240, (WIDTH - 2 * GAP - (count - 1) * 16) // count)
        space = (WIDTH - 2 * GAP - count * width) // max(1, count - 1) if count > 1 else 0
        left = GAP if count > 1 else (WIDTH - width) // 2
        for k, room in enumerate(layer):
            found[room.name] = (left + k * (width + space), GAP + row * (BOX + GAP), width)
    return found


def _box(room: Room, place: tuple[int, int, int]) -> str:
    left, top, width = place
    middle = left + width // 2
    fill = "#f2f2ee" if room.name in LEAVES else "#e6eef8"
    lines = [
        f'<text x="{middle}" y="{top + 42 + 16 * k}" font-size="12" text-anchor="middle"'
        f' fill="#445566">{escape(text)}</text>'
        for k, text in enumerate(room.says)
    ]
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{BOX}" rx="8" fill="{fill}"'
        f' stroke="#99aabb"/><text x="{middle}" y="{top + 24}" font-size="16"'
        f' font-weight="bold" text-anchor="middle" fill="#223344">{room.name}</text>'
        + "".join(lines)
    )


def _arrow(a: tuple[int, int, int], b: tuple[int, int, int]) -> str:
    x1, y1 = a[0] + a[2] // 2, a[1] + BOX
    x2, y2 = b[0] + b[2] // 2, b[1]
    if x1 != x2:  # begin and end at the near corners
        x1 += (a[2] // 2 - 20) * (1 if x2 > x1 else -1)
        x2 += (b[2] // 2 - 20) * (1 if x1 > x2 else -1)
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#667788"'
        ' stroke-width="1.5" marker-end="url(#tip)"/>'
    )
