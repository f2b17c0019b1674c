"""The main function's parameters, and its calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jitpkg.dataclass import dataclass
from jitpkg.testing.programs.arguments import PARAMETERS, Sizes, argument, differing, sizes
from jitpkg.testing.programs.choices import Choices, chance, one_of, some
from jitpkg.testing.programs.scopes import Variable
from jitpkg.testing.programs.writer import Writer

_NAMES = ("a", "b", "zz")
"""Of arguments that only `**` takes."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter.

    Attributes:
        default: an expression, or "".
        stars: "*" or "**", if it takes all that is left.
        by_keyword: no argument for it can be given in another way.
    """

    variable: Variable
    default: str = ""
    stars: str = ""
    by_keyword: bool = False

    @property
    def name(self) -> str:
        return self.variable.text

    def text(self) -> str:
        return f"{self.stars}{self.name}" + (f"={self.default}" if self.default else "")


def parameters(writer: Writer) -> list[Parameter]:
    """The parameters of the main function."""
    choices = writer.choices
    found = [Parameter(Variable(writer.name("vec"), "vec"))]
    for _ in some(choices, 4, 70):
        kind = one_of(choices, PARAMETERS)
        if kind == "obj" and len(writer.unions["obj"]) > 3:
            kind = writer.unions["obj"][-1]
        if kind not in writer.expressions and kind != "any":
            kind = "int"
        found.append(Parameter(Variable(writer.name(kind), kind)))
    return _shaped(writer, found)


def _shaped(writer: Writer, found: list[Parameter]) -> list[Parameter]:
    """Some of them by keyword, some with defaults; and what takes all that is left."""
    choices, without = writer.choices, writer.without
    first = 1 + choices.below(len(found)) if chance(choices, 20) else len(found)
    positional, keywords = found[:first], found[first:]
    if chance(choices, 25):
        writer.without, at = {"rounds", "data"}, 1 + choices.below(first)
        positional[at:] = [_with_default(writer, p) for p in positional[at:]]
        writer.without = without
    keywords = [replace(p, by_keyword=True) for p in keywords]
    keywords = [_with_default(writer, p) if chance(choices, 50) else p for p in keywords]
    if chance(choices, 10):
        positional.append(Parameter(Variable("rest", "tup"), stars="*"))
    if chance(choices, 10):
        keywords.append(Parameter(Variable("more", "dict"), stars="**"))
    return [*positional, *keywords]


def _with_default(writer: Writer, parameter: Parameter) -> Parameter:
    made = argument(writer, parameter.variable.kind, Sizes(2, 2), [], vary=False)
    return replace(parameter, default=made)


def signature(found: Sequence[Parameter]) -> str:
    """As it stands in the parentheses of `def`."""
    pieces: list[str] = []
    has_star = False
    for p in found:
        if p.by_keyword and not has_star:
            pieces.append("*")
        has_star = has_star or p.by_keyword or p.stars == "*"
        pieces.append(p.text())
    return ", ".join(pieces)


def calls(writer: Writer, found: Sequence[Parameter]) -> list[str]:
    """The calls: arguments of the first, and what is different in others."""
    choices = writer.choices
    size, given = sizes(choices), dict[str, str]()
    writer.without = {"rounds", "data"}
    plain = [p for p in found if not p.stars]
    made = []
    for k in (0, *(1 + k for k in some(choices, 3, 75))):
        if k and chance(choices, 40):
            size, again = sizes(choices), True
        else:
            again = False
        known: list[str] = []
        for p in plain:
            kind = p.variable.kind
            is_tensor = kind in ("vec", "mat", "vecs", "vdict")
            if not k or (again and is_tensor) or chance(choices, 35):
                kind = differing(choices, kind) if k else kind
                given[p.name] = argument(writer, kind, size, known, vary=True)
            if p.variable.kind == "vec":
                known.append(p.name)
        made.append(f"call({', '.join(_call(writer, found, given, size))})")
    return made


def _call(
    writer: Writer, found: Sequence[Parameter], given: dict[str, str], size: Sizes
) -> Iterator[str]:
    """A call's arguments; one that others name is bound where it stands."""
    choices: Choices = writer.choices
    used = {name for text in given.values() for name in re.findall(r"\b\w+\b", text)}
    by_keyword = False
    for p in found:
        if p.stars:
            yield from _left(writer, p.stars, size, by_keyword=by_keyword)
            continue
        text = given[p.name]
        if p.name in used and p.name != text:
            text = f"({p.name} := {text})"
        elif p.default and chance(choices, 40):
            by_keyword = True
            continue
        by_keyword = by_keyword or p.by_keyword or (p is not found[0] and chance(choices, 8))
        yield f"{p.name}={text}" if by_keyword else text


def _left(writer: Writer, stars: str, size: Sizes, *, by_keyword: bool) -> Iterator[str]:
    choices = writer.choices
    for k in some(choices, 2, 50):
        kind = one_of(choices, ("int", "vec", "any"))
        text = argument(writer, kind, size, [], vary=True)
        if stars == "**":
            yield f"{_NAMES[k]}={text}"
        elif not by_keyword:
            yield text
