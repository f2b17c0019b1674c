"""Writes the classes and functions that a program defines, and learns what they offer."""

from __future__ import annotations

import re
from functools import cache
from textwrap import dedent, indent

from jitpkg.dataclass import dataclass
from jitpkg.testing.programs import definitions
from jitpkg.testing.programs.choices import chance, one_of, some, weighted
from jitpkg.testing.programs.grammar import Row, paragraphs, row
from jitpkg.testing.programs.writer import DEEPEST, Writer


@dataclass(frozen=True, slots=True)
class Definition:
    """A form of a class, a member or a function.

    Attributes:
        row: its text.
        offers: kinds and rows; the kind "" is for statements.
        fields: the fields of instances and their kinds.
    """

    row: Row
    offers: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str], ...]


@cache
def table(text: str) -> tuple[Definition, ...]:
    return tuple(map(_definition, paragraphs(text)))


def _definition(whole: Row) -> Definition:
    text, *offered = re.split(r"\n(?=-> |fields: )", whole.text)
    offers: list[tuple[str, str]] = []
    fields: list[tuple[str, str]] = []
    for line in offered:
        if line.startswith("fields: "):
            fields += (tuple(pair.split("=")) for pair in line[8:].split())
        else:
            kind, _, what = line[3:].partition(": ")
            offers.append((kind.strip(), what))
    return Definition(Row(text, whole.weight, whole.marks), tuple(offers), tuple(fields))


@dataclass(frozen=True, slots=True)
class Class:
    """A class that the program has."""

    name: str
    fields: tuple[tuple[str, str], ...]
    can_be_base: bool
    offers: tuple[tuple[str, str], ...]


class Definitions:
    """Adds definitions to what a writer writes."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.classes: list[Class] = []
        self._forms = "\n\n".join([definitions.CLASSES, writer.classes])

    def function(self) -> list[str]:
        definition = self._one(definitions.FUNCTIONS)
        name = self._writer.name("helper")
        found = self._written(definition.row.text, name)
        self._offer(name, definition.offers)
        return found

    def a_class(self) -> list[str]:
        choices, name = self._writer.choices, self._writer.name("class").capitalize()
        bases = [c for c in self.classes if c.can_be_base]
        base = one_of(choices, bases) if bases and chance(choices, 40) else None
        form = self._one(self._forms if base is None else definitions.SUBCLASSES)
        fields = form.fields if base is None else base.fields
        self._writer.fields = dict(fields)
        text = form.row.text
        members = [self._one(definitions.MEMBERS) for _ in some(choices, 3, 65)]
        members = list({m.row.text: m for m in members if "<members>" in text}.values())
        if base is not None:
            text = text.replace("<Base>", base.name)
        inner = "\n".join(m.row.text for m in members)
        text = re.sub(r"( *)<members>\n?", lambda m: indent(inner + "\n", m[1]), text)
        if text.rstrip().endswith(":"):
            text = text.rstrip() + "\n    pass"
        found = self._written(text, name)
        self._writer.fields = {}
        offers = [*form.offers, *(offer for m in members for offer in m.offers)]
        if base is not None:
            offers += base.offers
        can_be_base = "enum" not in text and "NamedTuple" not in text and "Owner" not in text
        can_be_base = can_be_base and "autograd" not in text
        self.classes.append(Class(name, fields, can_be_base, tuple(offers)))
        self._add(name, offers, fields, base)
        return found

    def _add(
        self,
        name: str,
        offers: list[tuple[str, str]],
        fields: tuple[tuple[str, str], ...],
        base: Class | None,
    ) -> None:
        writer = self._writer
        writer.add("obj", name, 2)
        makers = [row(what.replace("<Name>", name)) for kind, what in offers if kind == "self"]
        makers = [m for m in makers if m.text.startswith(name)] or [Row(f"{name}()")]
        writer.expressions[name] = makers
        if base is not None:
            writer.expressions[base.name] = [*writer.expressions[base.name], makers[0]]
        self._offer(name, tuple(offers))
        for field, kind in fields:
            self._offer(name, ((kind, f"<self>.{field}"),))
            settable = kind if kind != "scalar" else "vec"
            self._offer(name, (("", f"<self:var>.{field} = <{settable}>"),))

    def _offer(self, name: str, offers: tuple[tuple[str, str], ...]) -> None:
        writer = self._writer
        for kind, what in offers:
            if kind == "self":
                continue
            text = re.sub(r"<((?:\w+=)?)self(:\w+)?>", rf"<\1{name}\2>", what)
            made = row(text.replace("<Name>", name))
            made = Row(made.text, 3 * made.weight, made.marks)
            if kind:
                writer.expressions.setdefault(kind, []).append(made)
            else:
                writer.statements.append(made)

    def _one(self, text: str) -> Definition:
        found = table(text)
        return weighted(self._writer.choices, found, [one.row.weight for one in found])

    def _written(self, text: str, name: str) -> list[str]:
        with self._writer.function([]):
            return self._writer.written(Row(dedent(text).replace("<Name>", name)), DEEPEST - 1)
