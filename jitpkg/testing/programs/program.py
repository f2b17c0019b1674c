"""A program: a module's text with a function and its calls, to be run eagerly and compiled."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from textwrap import indent
from typing import Any

from jitpkg.comparison.differences import Difference
from jitpkg.comparison.running import Call
from jitpkg.dataclass import dataclass
from jitpkg.testing.same import Comparison

NAME = "program"
"""The function that is compiled."""


@dataclass(frozen=True)
class Program:
    """A function with what it needs, and calls of it.

    Attributes:
        source: a module that defines the function `program`.
        calls: expressions of the arguments of each call, such as `call(torch.ones(2), n=1)`.
        exact: whether it computes nothing for which kernels may round in another order.
    """

    source: str
    calls: tuple[str, ...]
    exact: bool = True

    def namespace(self) -> dict[str, Any]:
        """The module's globals, when it has just been executed."""
        name = f"<program {abs(hash(self.source)):x}>"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[name] = (len(self.source), None, lines, name)
        globals_: dict[str, Any] = {"__name__": "generated_program"}
        exec(compile(self.source, name, "exec", dont_inherit=True), globals_)
        return globals_

    def arguments(self, namespace: dict[str, Any]) -> list[Call]:
        """The arguments of all calls, made anew."""
        names = {**namespace, "call": _call}
        return [eval(text, names) for text in self.calls]

    def differences(self, comparison: Comparison) -> tuple[int, tuple[Difference, ...]]:
        """The first call that differs eagerly and compiled, and in what; 0 and nothing if none.

        Raises: as `Comparison.differences`.
        """
        namespace = self.namespace()
        return comparison.differences(namespace[NAME], *self.arguments(namespace))

    def assert_same(self, comparison: Comparison) -> None:
        """
        Raises:
            NotTheSame: something differs, eagerly and compiled.
        """
        namespace = self.namespace()
        comparison.assert_same_calls(namespace[NAME], *self.arguments(namespace))

    def as_test(self, comparison: str = "Comparison()", doc: str = "", around: str = "") -> str:
        """The text of a test of it, that needs nothing but jitpkg.

        Args:
            comparison: the expression that makes the comparison.
            doc: what the module says of itself.
            around: the expression of a context manager in which it is called.
        """
        imports, rest = _split(self.source)
        said = f'"""{doc}"""\n\n' if doc else ""
        calls = indent(",\n".join((NAME, *self.calls)) + ",\n", " " * 8)
        body = f"    {comparison}.assert_same_calls(\n{calls}    )\n"
        if around:
            body = f"    with {around}:\n{indent(body, '    ')}"
        return (
            f"{said}{imports}\nfrom jitpkg.testing import Comparison, call\n\n\n{rest}\n\n\n"
            f"def test_{NAME}():\n{body}"
        )

    def __repr__(self) -> str:
        return f"\n{self.source}\n\n# calls\n" + "\n".join(self.calls) + "\n"


def _call(*args: Any, **kwargs: Any) -> Call:
    return Call(args, kwargs)


def _split(source: str) -> tuple[str, str]:
    """The imports at the top, and what comes below them."""
    tree = ast.parse(source)
    above = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    below = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
    return _unparsed(above), _unparsed(below)


def _unparsed(statements: Sequence[ast.stmt]) -> str:
    return ast.unparse(ast.Module(list(statements), []))
