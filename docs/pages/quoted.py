"""Pages with pieces of the package's own source in them: CONTRIBUTING.md.

A block after `<!-- jitpkg/file.py: name -->` is the definition of that name.
"""

from __future__ import annotations

import ast
import re

from pages.text import ROOT

BLOCK = re.compile(r"<!-- (\S+\.py): (\w+) -->\n```python\n.*?```", re.DOTALL)


def page(name: str = "CONTRIBUTING.md") -> str:
    text = (ROOT / name).read_text(encoding="utf-8")

    def replaced(found: re.Match[str]) -> str:
        return f"<!-- {found[1]}: {found[2]} -->\n```python\n{definition(found[1], found[2])}```"

    return BLOCK.sub(replaced, text)


def definition(file: str, name: str) -> str:
    """The source of a function, class or variable, with its decorators and its docstring."""
    text = (ROOT / file).read_text(encoding="utf-8")
    body = ast.parse(text).body
    for k, node in enumerate(body):
        if name not in _defined(node):
            continue
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        last = node.end_lineno
        if isinstance(node, ast.Assign) and k + 1 < len(body) and _is_text(body[k + 1]):
            last = body[k + 1].end_lineno
        return "".join(text.splitlines(keepends=True)[first - 1 : last])
    raise LookupError(f"{file} does not define {name}")


def _defined(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case _:
            return set()


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
