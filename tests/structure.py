"""What the package is made of, in numbers.

python -m tests.structure
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jitpkg"


def room_of(file: Path) -> str:
    """The first two folders that a file lies in; the package's ground floor is the root."""
    folders = file.relative_to(PACKAGE).parts[:-1]
    return "/".join(folders[:2]) or "the ground floor"


def functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """How long each function is, and its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or 0) - node.lineno + 1, node.name


def main() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    trees = {file: ast.parse(text) for file, text in texts.items()}
    lengths = {file: len(text.splitlines()) for file, text in texts.items()}
    rooms: Counter[str] = Counter()
    for file, length in lengths.items():
        rooms[room_of(file)] += length
    longest = max(lengths, key=lengths.__getitem__)
    of_functions = [
        (length, name, file) for file, tree in trees.items() for length, name in functions(tree)
    ]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    cases = [case for node in nodes if isinstance(node, ast.Match) for case in node.cases]
    defaults = sum(ast.unparse(case.pattern) == "_" for case in cases)
    totals = sum(isinstance(node, ast.Name) and node.id == "assert_never" for node in nodes)

    print(f"{sum(lengths.values()):,} lines in {len(lengths)} files")
    print(f"median file {statistics.median(lengths.values()):.0f} lines, the longest", end=" ")
    print(f"{lengths[longest]}: {longest.relative_to(ROOT)}")
    print(f"{len(of_functions):,} functions, median", end=" ")
    print(f"{statistics.median(length for length, *_ in of_functions):.0f} lines; over 60:")
    for length, name, file in sorted(of_functions, reverse=True, key=lambda each: each[0]):
        if length > 60:
            print(f"    {length} {file.relative_to(ROOT)}:{name}")
    print(f"match statements: {defaults} `case _`, {totals} assert_never")
    print("rooms, in lines:")
    for room, length in rooms.most_common():
        print(f"    {length:7,}  {room}")


if __name__ == "__main__":
    main()
