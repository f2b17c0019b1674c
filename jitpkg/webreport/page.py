"""A recording as HTML. Whatever comes from a program is escaped where it is written."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from types import CodeType
from typing import Any

from jitpkg.errors import Break
from jitpkg.messages import counted, duration, guess_message, place, places, quoted, size
from jitpkg.webreport.elements import folded, list_, table
from jitpkg.webreport.recording import EntryMade, FunctionMade, KernelMade, Recording, Span
from jitpkg.webreport.running import running

_WIDTH, _ROW = 1000.0, 18.0
_MOST_GUARDS = 2000
_SEARCH = "Search functions and kernels"


def page(recording: Recording, title: str) -> str:
    """The whole page.

    Args:
        title: what was run, as a person calls it.
    """
    style, script = (
        files(__package__).joinpath(name).read_text(encoding="utf-8")
        for name in ("style.css", "script.js")
    )
    body = "\n".join(
        [
            f"<h1>{escape(title)}</h1>",
            _numbers(recording),
            f'<input id="search" type="search" placeholder="{_SEARCH}" aria-label="{_SEARCH}">',
            _timeline(recording.entries),
            running(recording),
            _functions(recording),
            _kernels(recording),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}, as jitpkg compiled it</title>\n"
        f"<style>\n{style}</style>\n</head>\n"
        f"<body>\n{body}\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _numbers(recording: Recording) -> str:
    entries = recording.entries
    spans = [each.span for each in entries if each.span is not None]
    told = {
        "functions": len(recording.functions),
        "graphs": sum(each.graph is not None for each in entries),
        "graph breaks": sum(each.graph_break is not None for each in entries),
        "compiled again": sum(len(each.recompiles) for each in recording.functions.values()),
        "kernels": len(recording.kernels),
        "compiling": duration(sum(span.end - span.begin for span in spans)),
    }
    parts = (f"<div><b>{value}</b>{name}</div>" for name, value in told.items())
    return f'<div class="numbers">{"".join(parts)}</div>'


# The timeline


def _timeline(entries: Iterable[EntryMade]) -> str:
    """When each entry was compiled, and below that in which phases."""
    shown = [(each, each.span) for each in entries if each.span is not None]
    if not shown:
        return ""
    begin = min(span.begin for _, span in shown)
    scale = _WIDTH / max(max(span.end for _, span in shown) - begin, 1e-9)
    bars: list[str] = []
    for made, span in shown:
        bars.append(_bar("entry", span, begin, scale, 2.0, _ROW - 4))
        bars += [_bar("phase", each, begin, scale, 2 + _ROW, _ROW - 4) for each in made.phases]
    height = 2 * _ROW + 4
    seconds = duration(_WIDTH / scale)
    return (
        f"<h2>When</h2>\n"
        f'<svg class="timeline" data-width="{_WIDTH:.0f}" viewBox="0 0 {_WIDTH:.0f} {height:.0f}"'
        ' preserveAspectRatio="none" height="80" role="img"'
        f' aria-label="{len(shown)} compilations within {seconds}">\n'
        f'<g class="bars">{"".join(bars)}</g></svg>\n'
        f'<p class="faint">{seconds} from the first compilation to the last: entries above, their'
        ' phases below.<span class="hint"> The wheel zooms, dragging moves, a double click shows'
        " all; the pointer on a bar names it.</span></p>"
    )


def _bar(kind: str, span: Span, begin: float, scale: float, top: float, height: float) -> str:
    x, width = (span.begin - begin) * scale, max((span.end - span.begin) * scale, 0.2)
    title = escape(f"{span.name}: {duration(span.end - span.begin)}")
    return (
        f'<rect class="{kind}" x="{x:.3f}" y="{top:.0f}" width="{width:.3f}" height="{height:.0f}">'
        f"<title>{title}</title></rect>"
    )


# Functions


def _functions(recording: Recording) -> str:
    if not recording.functions:
        return "<h2>Functions</h2>\n<p>Nothing was compiled.</p>"
    parts = ["<h2>Functions</h2>"]
    parts += map(_function, recording.functions.values())
    return "\n".join(parts)


def _function(made: FunctionMade) -> str:
    entries = list(made.entries.values())
    breaks = [each.graph_break for each in entries if each.graph_break is not None]
    told = ["1 entry" if len(entries) == 1 else f"{len(entries)} entries"] if entries else []
    if breaks:
        told.append(f'<span class="breaks">{counted(len(breaks), "graph break")}</span>')
    if made.recompiles:
        told.append(f"compiled again {counted(len(made.recompiles), 'time')}")
    if made.left:
        told.append("left alone")
    parts = [
        _source(made.code, breaks),
        *(_break(found, count) for found, count in Counter(breaks).items()),
        list_("Compiled again, because", map("; ".join, made.recompiles)),
        list_("Left alone", made.left),
        *map(_entry, entries),
    ]
    title = f"<code>{escape(made.name)}</code> <span class=faint>{', '.join(told)}</span>"
    return folded(title, parts, item=True)


def _source(code: CodeType | None, breaks: Iterable[Break]) -> str:
    """A function's own lines, those of its graph breaks marked."""
    if code is None:
        return ""
    marked = {
        location.line
        for found in breaks
        for location in found.stack
        if location.file == code.co_filename
    }
    lines = _lines(code)
    if not lines:
        return ""
    text = "".join(
        f"<span{' class=broken' if number in marked else ''}>{number:5}  {escape(line)}</span>"
        for number, line in lines
    )
    where = escape(f"{code.co_filename}:{code.co_firstlineno}")
    return f'<p class="faint">{where}</p>\n<pre class="source">{text}</pre>'


def _lines(code: CodeType) -> list[tuple[int, str]]:
    numbers = [line for *_, line in code.co_lines() if line is not None]
    if not numbers:
        return []
    found = range(code.co_firstlineno, max(numbers) + 1)
    texts = [(number, linecache.getline(code.co_filename, number).rstrip()) for number in found]
    return texts if any(text for _, text in texts) else []


def _break(found: Break, count: int) -> str:
    where = "".join(f"<li><code>{escape(place(each))}</code></li>" for each in places(found))
    lines = [] if found.where is None else quoted(found.where)
    code = f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""
    title = escape(found.title()) + (f", in {count} entries" if count > 1 else "")
    return (
        f'<h3 class="breaks">{title}</h3>\n<ul>{where}</ul>\n{code}\n'
        f"<p>{escape(found.reason.why)} <b>What to do:</b> {escape(found.reason.fix)}</p>"
    )


def _entry(made: EntryMade) -> str:
    phases: dict[str, float] = {}
    for span in made.phases:
        phases[span.name] = phases.get(span.name, 0.0) + span.end - span.begin
    times = ", ".join(f"{name} {duration(seconds)}" for name, seconds in phases.items())
    guesses = (guess_message(each.way, each.stack) for each in made.guesses)
    parts = [
        list_("For", made.assumptions),
        list_("Guesses", guesses),
        _graph(made.graph),
        _calls(made),
        folded(
            f"All {counted(len(made.guards), 'guard')}",
            [list_("", made.guards[:_MOST_GUARDS], code=True)],
        )
        if made.guards
        else "",
        folded("Generated code", [f"<pre>{escape(made.source)}</pre>"]) if made.source else "",
    ]
    return folded(f"<code>{escape(made.name)}</code> <span class=faint>{times}</span>", parts)


def _graph(graph: Any) -> str:
    """The ops of a graph, and what each uses."""
    if graph is None:
        return ""
    nodes = [node for node in graph.graph.nodes if node.op != "output"]
    rows = (
        [node.name, node.op, _called(node.target), ", ".join(map(str, node.all_input_nodes))]
        for node in nodes
    )
    shown = table(("value", "kind", "of", "uses"), rows)
    return folded(f"Graph: {counted(len(nodes), 'node')}", [shown])


def _called(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _calls(made: EntryMade) -> str:
    """What runs: kernels, and calls of ATen."""
    items = [
        f"{kernel.name}: {', '.join(kernel.ops)}; moves {size(kernel.bytes)}"
        for kernel in made.kernels
    ]
    if made.calls:
        counts = Counter(made.calls).items()
        items.append("ATen: " + ", ".join(f"{name} x {n}" if n > 1 else name for name, n in counts))
    return list_("Runs", [*items, *(f"op by op: {why}" for why in made.declined)])


# Kernels


def _kernels(recording: Recording) -> str:
    if not recording.kernels:
        return ""
    return "\n".join(["<h2>Kernels</h2>", *map(_kernel, recording.kernels.values())])


def _kernel(made: KernelMade) -> str:
    told = duration(made.seconds) if made.seconds else "kept on disk"
    if made.why_failed:
        told = f"cannot be used: {made.why_failed}"
    parts = [
        f"<p>{escape(made.resources)}</p>" if made.resources else "",
        f"<h3>Loops</h3><pre>{escape(made.schedule)}</pre>" if made.schedule else "",
        folded("What was compiled", [f"<pre>{escape(made.text)}</pre>"]),
    ]
    title = f"<code>{escape(made.name)}</code> <span class=faint>{escape(told)}</span>"
    return folded(title, parts, item=True)
