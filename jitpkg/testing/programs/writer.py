"""Fills the rows of a grammar: expressions, statements, bodies of functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitpkg.testing.programs.choices import Choices, chance, one_of, weighted
from jitpkg.testing.programs.grammar import HOLE, Grammar, Hole, Row
from jitpkg.testing.programs.scopes import Scope, Variable

DEEPEST = 3
"""How deep expressions and blocks are nested."""
_BODY = re.compile(r"( *)<(body|generate) (\w+)((?: \w+(?:=\w+)?)*)>")
_ATOM = re.compile(r"[\w.]+|'[^']*'|\w[\w.]*\([^()]*\)|\[[^\[\]]*\]")


class Writer:
    """Writes parts of one program.

    Args:
        exact: leave out what depends on the way in which kernels round, so that results have to be
            the same bit for bit; else, leave out what brings data of tensors to Python.
        statements: how many there are to be, about.
    """

    def __init__(
        self, grammar: Grammar, choices: Choices, *, exact: bool, statements: int = 16
    ) -> None:
        self.choices = choices
        self.left = statements
        self.scope = Scope()
        self.expressions = {kind: list(rows) for kind, rows in grammar.expressions.items()}
        self.statements = list(grammar.statements)
        self.unions = {kind: list(members) for kind, members in grammar.unions.items()}
        self.classes = grammar.classes
        self.leaves = grammar.leaves
        self.fields: dict[str, str] = {}
        """The fields of the class that is being written, and their kinds."""
        self.without = {"rounds" if exact else "data"}
        """Rows with these marks are left out."""
        self._available: dict[Any, list[Row]] = {}
        self._names: dict[str, int] = {}
        self._members: dict[str, frozenset[str]] = {}

    # Names

    def name(self, kind: str) -> str:
        """A new one."""
        stem = _STEMS.get(kind, kind.lower())
        k = self._names[stem] = self._names.get(stem, -1) + 1
        return f"{stem}{k or ''}"

    def members(self, kind: str) -> frozenset[str]:
        """The kinds that are of a kind."""
        if kind not in self._members:
            found, todo = set(), [kind]
            while todo:
                one = todo.pop()
                if one not in found:
                    found.add(one)
                    todo.extend(self.unions.get(one, ()))
            self._members[kind] = frozenset(found)
        return self._members[kind]

    def add(self, union: str, kind: str, weight: int = 1) -> None:
        """Make values of a kind values of a union."""
        self.unions[union] += [kind] * weight
        self._members.clear()

    # Expressions

    def expression(self, kind: str, depth: int = DEEPEST) -> str:
        known = self.scope.of(self.members(kind))
        if known and chance(self.choices, 60 if depth > 0 else 90):
            return one_of(self.choices, known).text
        while kind in self.unions and self._is_to_go_on(kind, depth):
            kinds = self.unions[kind]
            kind = one_of(self.choices, self._ending(kinds) if depth <= 0 else kinds)
        rows = self.available(self.expressions[kind])
        if depth <= 0:
            rows = [row for row in rows if row.is_leaf] or rows[:1]
        found = self._filled(weighted(self.choices, rows, [row.weight for row in rows]), depth - 1)
        return found if _ATOM.fullmatch(found) else f"({found})"

    def _is_to_go_on(self, union: str, depth: int) -> bool:
        """Whether a value is of one of the kinds of a union, rather than of a row of its own."""
        return depth <= 0 or union not in self.expressions or not chance(self.choices, 25)

    def _ending(self, kinds: Sequence[str]) -> Sequence[str]:
        """Those of which there is an expression without others inside."""
        found = [k for k in kinds if any(row.is_leaf for row in self.expressions.get(k, ()))]
        return found or kinds

    def available(self, rows: list[Row]) -> list[Row]:
        """Those that can stand here."""
        scope, missing = self.scope, set(self.without)
        if not scope.loops:
            missing.add("loop")
        missing.add("function" if scope.is_generator else "generator")
        seen = frozenset(v.kind for v in scope.visible())
        assigned = frozenset(v.kind for v in scope.assignable(None))
        key = (id(rows), len(rows), seen, assigned, frozenset(missing))
        if key not in self._available:
            kinds = {kind for row in rows for kind in row.reads | row.assigns}
            readable, assignable = (
                {k for k in kinds if found & self.members(k)} for found in (seen, assigned)
            )
            self._available[key] = [
                row
                for row in rows
                if row.marks.isdisjoint(missing)
                and row.reads <= readable
                and row.assigns <= assignable
            ]
        return self._available[key]

    def _filled(self, row: Row, depth: int) -> str:
        """What the row binds can be seen in all of its holes but those that are `out`."""
        bound: dict[str, str] = {}
        texts: dict[int, str] = {}
        holes = [(k, part) for k, part in enumerate(row.parts) if isinstance(part, Hole)]
        before = list(self.scope.variables)
        for order in ("out", "new", ""):
            for k, hole in holes:
                if k not in texts and order in ("", hole.how):
                    texts[k] = self._hole(hole, bound, depth)
                    if order == "new":
                        self.scope.variables.append(Variable(texts[k], hole.kind, is_fixed=True))
        self.scope.variables[:] = before
        return "".join(
            texts[k] if isinstance(part, Hole) else part for k, part in enumerate(row.parts)
        )

    def _hole(self, hole: Hole, bound: dict[str, str], depth: int) -> str:
        if hole.kind in bound and not hole.how:
            return bound[hole.kind]
        match hole.how:
            case "var":
                text = one_of(self.choices, self.scope.of(self.members(hole.kind))).text
            case "set":
                text = one_of(self.choices, self.scope.assignable(self.members(hole.kind))).text
            case "new" | "fixed":
                text = self.name(hole.kind)
            case _:
                text = self.expression(hole.kind, depth)
        if hole.name:
            bound[hole.name] = text
        return text

    # Statements

    def block(self, depth: int, most: int = 4) -> list[str]:
        """Some statements."""
        found: list[str] = []
        for _ in range(most):
            if self.left <= 0 or (found and not chance(self.choices, 70)):
                break
            found += self.statement(depth)
        return found or ["pass"]

    def statement(self, depth: int) -> list[str]:
        rows = self.available(self.statements)
        if depth <= 0:
            rows = [row for row in rows if not row.is_compound]
        self.left -= 1
        return self.written(weighted(self.choices, rows, [row.weight for row in rows]), depth)

    def written(self, row: Row, depth: int) -> list[str]:
        """The lines of a statement or definition."""
        bound: dict[str, str] = {}
        found: list[str] = []
        before, later = list(self.scope.variables), list[Variable]()
        for line in row.text.splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            if line.strip() == "<block>":
                with self._turning(row.is_loop):
                    found += (indent + inner for inner in self.block(depth - 1))
            elif match := _BODY.fullmatch(line):
                found += (indent + inner for inner in self._body(match, depth))
            else:
                text, new = self._line(line, bound, depth)
                found.append(text)
                is_defined = line.startswith("def ")  # cannot be seen inside of itself
                (later if is_defined else self.scope.variables).extend(new)
        if row.has_block and not chance(self.choices, 4):  # else it may be unbound
            self.scope.variables[:] = before
        self.scope.variables += later
        return found

    def _line(self, line: str, bound: dict[str, str], depth: int) -> tuple[str, list[Variable]]:
        """A line with its holes filled, and the variables that it binds."""
        new: list[Variable] = []

        def fill(match: re.Match[str]) -> str:
            hole = Hole.of(match)
            text = self._hole(hole, bound, min(depth, DEEPEST - 1))
            if hole.how in ("new", "fixed"):
                new.append(Variable(text, hole.kind, is_fixed=hole.how == "fixed"))
            return text

        return HOLE.sub(fill, line), new

    @contextmanager
    def _turning(self, is_loop: bool) -> Iterator[None]:
        self.scope.loops += is_loop
        try:
            yield
        finally:
            self.scope.loops -= is_loop

    def _body(self, match: re.Match[str], depth: int) -> list[str]:
        """The statements of a function, for `<body RESULT NAME=KIND …>`."""
        _, how, kind, given = match.groups()
        variables = []
        for parameter in given.split():
            name, _, of = parameter.partition("=")
            if of:
                variables.append(Variable(name, of))
            else:
                variables += (Variable(f"{name}.{f}", of) for f, of in self.fields.items())
        with self.function(variables, is_generator=how == "generate"):
            found = self._declarations()
            if how == "generate":
                found += [*self.block(depth - 1, 3), f"yield {self.expression(kind, 2)}"]
                return found + (self.block(depth - 1, 2) if chance(self.choices, 30) else [])
            found += self.block(depth - 1, 2) if chance(self.choices, 60) else []
            return [*found, f"return {self.expression(kind, 2)}"]

    @contextmanager
    def function(self, variables: list[Variable], *, is_generator: bool = False) -> Iterator[None]:
        """Write the body of a function inside of what is written."""
        before = self.scope
        self.scope = Scope(before, variables, is_generator=is_generator)
        try:
            yield
        finally:
            self.scope = before

    def _declarations(self) -> list[str]:
        """`nonlocal` and `global` statements."""
        outer = self.scope.outer
        taken = {v.text for v in self.scope.variables}
        found = []
        while outer is not None and chance(self.choices, 45):
            names = [v.text for v in outer.variables if v.is_name and not v.is_fixed]
            names = [name for name in names if name not in taken]
            if names:
                name = one_of(self.choices, names)
                taken.add(name)
                self.scope.declared.add(name)
                found.append(f"{'nonlocal' if outer.outer else 'global'} {name}")
            outer = outer.outer
        return found


_STEMS = {
    "vec": "x", "mat": "w", "scalar": "s", "ivec": "ids", "mask": "mask", "anyt": "t", "int": "n",
    "float": "f", "bool": "flag", "str": "word", "list": "items", "ints": "numbers",
    "strs": "words", "vecs": "parts", "dict": "table", "vdict": "named", "set": "seen",
    "tup": "sizes", "pair": "pair", "deque": "queue", "odict": "ordered", "ddict": "groups",
    "counter": "counts", "fn": "apply", "ifn": "compute", "gen": "steps", "it": "it",
    "exc": "error", "any": "value", "module": "layer", "rng": "span",
}  # fmt: skip
"""What variables are called."""
