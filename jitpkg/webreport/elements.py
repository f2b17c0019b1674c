"""Elements of a page. What is text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape


def folded(title: str, parts: Iterable[str], *, item: bool = False) -> str:
    """What unfolds; the title and the parts are HTML."""
    inside = "\n".join(part for part in parts if part)
    what = " data-item" if item else ""
    return f"<details{what}><summary>{title}</summary>\n{inside}\n</details>"


def list_(title: str, texts: Iterable[str], *, code: bool = False) -> str:
    """Texts below one another, if there are any."""
    shown = [f"<code>{escape(text)}</code>" if code else escape(text) for text in texts]
    if not shown:
        return ""
    head = f"<h3>{escape(title)}</h3>\n" if title else ""
    return f"{head}<ul>{''.join(f'<li>{text}</li>' for text in shown)}</ul>"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Rows of texts."""

    def cells(kind: str, texts: Iterable[str]) -> Iterator[str]:
        yield from (f"<{kind}>{escape(text)}</{kind}>" for text in texts)

    lines = (f"<tr>{''.join(cells('td', row))}</tr>" for row in rows)
    return f"<table><tr>{''.join(cells('th', heads))}</tr>{''.join(lines)}</table>"
