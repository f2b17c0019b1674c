"""What programs are written of: rows of text with holes, by the kind of value that they give.

A row is a line of Python in which `<int>` stands for any expression of the kind `int`:

    len(<list>)                     an expression
    <list:var>.append(<any>)        a statement; `<list:var>` is a variable, nothing else
    <new:int> = <int>               `<new:int>` is a new variable
    for <new:int> in <ints>:        with a `<block>` of statements below it
        <block>

`<l=ints:var>` names what it stands for, and `<l>` stands for the same again. In front of a row,
`*3` makes it three times as likely, and words with `!` say what it is: see `MARKS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from textwrap import dedent

from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument

HOLE = re.compile(r"<(?:(\w+)=)?(\w+)(?::(\w+))?>")

MARKS = {
    "rounds": "what it computes depends on the order in which a kernel rounds",
    "data": "it brings a tensor's data to Python: with rounding, programs could go another way",
    "loop": "it stands inside of a loop only",
    "generator": "it stands inside of a generator only",
    "function": "it stands inside of a function that is no generator only",
}
"""Words in front of rows."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a row's text.

    Attributes:
        name: by which other holes of the row stand for the same, or "".
        kind: of what is to stand there.
        how: "" for any expression, "var" for a variable, "set" for one that can be assigned here,
            "new" for a new one, "fixed" for a new one that no statement assigns, "out" for an
            expression that does not see what the row binds.
    """

    name: str
    kind: str
    how: str

    @classmethod
    def of(cls, match: re.Match[str]) -> Hole:
        name, kind, how = match.groups()
        if kind in ("new", "fixed"):
            kind, how = how, kind
        return cls(name or "", kind, how or "")


@dataclass(frozen=True)
class Row:
    """A form of an expression or a statement."""

    text: str
    weight: int = 1
    marks: frozenset[str] = frozenset()

    @cached_property
    def parts(self) -> tuple[str | Hole, ...]:
        """Text and holes by turns."""
        found: list[str | Hole] = []
        end = 0
        for match in HOLE.finditer(self.text):
            found.append(self.text[end : match.start()])
            found.append(Hole.of(match))
            end = match.end()
        found.append(self.text[end:])
        return tuple(found)

    def _kinds(self, how: str) -> frozenset[str]:
        return frozenset(p.kind for p in self.parts if isinstance(p, Hole) and p.how == how)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The kinds of which it needs a variable."""
        return self._kinds("var")

    @cached_property
    def assigns(self) -> frozenset[str]:
        """The kinds of which it needs a variable that can be assigned."""
        return self._kinds("set")

    @cached_property
    def is_compound(self) -> bool:
        """Whether it has other statements inside."""
        return "\n" in self.text

    @cached_property
    def has_block(self) -> bool:
        return "<block>" in self.text

    @cached_property
    def is_loop(self) -> bool:
        return re.search(r"^(for|while) ", self.text, re.MULTILINE) is not None

    @cached_property
    def is_leaf(self) -> bool:
        return not any(isinstance(part, Hole) for part in self.parts)


def row(text: str) -> Row:
    """A row as it stands in a table, with what is in front of it.

    Raises:
        InvalidArgument: there is an unknown mark.
    """
    weight, marks = 1, []
    while match := re.match(r"(?:\*(\d+)|!(\w+))\s+", text):
        text = text[match.end() :]
        if match[1]:
            weight = int(match[1])
        elif match[2] in MARKS:
            marks.append(match[2])
        else:
            raise InvalidArgument(f"Unknown mark !{match[2]}; there are {', '.join(MARKS)}.")
    return Row(text, weight, frozenset(marks))


def lines(table: str) -> Iterator[Row]:
    """A row for each line."""
    return map(row, filter(None, map(str.strip, table.splitlines())))


def paragraphs(table: str) -> Iterator[Row]:
    """A row for each paragraph: lines without an empty one between them."""
    return map(row, re.split(r"\n\s*\n", dedent(table).strip("\n")))


def by_kind(table: str) -> dict[str, tuple[Row, ...]]:
    """Rows under headings: a line with a kind and a colon, and lines of rows below it.

    Raises:
        InvalidArgument: a row stands above all headings.
    """
    found: dict[str, list[Row]] = {}
    kind = ""
    for line in filter(None, map(str.strip, table.splitlines())):
        if re.fullmatch(r"\w+:", line):
            kind = line[:-1]
            found.setdefault(kind, [])
        elif not kind:
            raise InvalidArgument(f"No kind is given for the row {line!r}: put `int:` above it.")
        else:
            found[kind].append(row(line))
    return {kind: tuple(rows) for kind, rows in found.items()}


@dataclass(frozen=True)
class Grammar:
    """All that programs are written of.

    Attributes:
        expressions: rows of expressions by kind.
        statements: rows of statements.
        unions: kinds of which a value is of one of several others, likelier ones repeated.
        prelude: Python that stands above each program.
        classes: definitions of classes, besides the usual ones.
        leaves: how many of a hundred tensors among the arguments require grad, about.
    """

    expressions: Mapping[str, tuple[Row, ...]]
    statements: tuple[Row, ...]
    unions: Mapping[str, tuple[str, ...]]
    prelude: str = ""
    classes: str = ""
    leaves: int = 12

    def with_rows(
        self, *, expressions: str = "", statements: str = "", prelude: str = ""
    ) -> Grammar:
        """This grammar and rows of one's own.

        Args:
            expressions: rows under headings, as `by_kind` reads them.
            statements: rows with empty lines between them.
            prelude: imports, mostly: what the rows call.

        Raises:
            InvalidArgument: a hole is of a kind that there is none of.
        """
        made = replace(
            self,
            expressions=joined(self.expressions, by_kind(expressions)),
            statements=(*self.statements, *(paragraphs(statements) if statements else ())),
            prelude=f"{self.prelude}\n{prelude}".strip(),
        )
        made.check()
        return made

    def check(self) -> None:
        """See that each hole can be filled.

        Raises:
            InvalidArgument: one cannot.
        """
        known = {*self.expressions, *self.unions, "block", "param"}
        every = [*self.statements, *(r for rows in self.expressions.values() for r in rows)]
        for one in every:
            names = set()
            for part in one.parts:
                if isinstance(part, Hole):
                    names.add(part.name)
                    if part.how not in ("new", "fixed") and part.kind not in known | names:
                        raise InvalidArgument(
                            f"{one.text!r} has a hole of the kind {part.kind!r}; there are"
                            f" {', '.join(sorted(known))}."
                        )


def joined(
    a: Mapping[str, tuple[Row, ...]], b: Mapping[str, Iterable[Row]]
) -> dict[str, tuple[Row, ...]]:
    """Rows of both tables."""
    return {kind: (*a.get(kind, ()), *b.get(kind, ())) for kind in {**a, **b}}
