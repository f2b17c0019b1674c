"""Every function of the standard library, rewritten without hooks; and where hooks could be.

    python -m tests.stdlib.census

Nothing is run: each code object must come out as it went in, and pass the verifier.
"""

from __future__ import annotations

import sys
import sysconfig
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from jitpkg.code.analysis import is_function, slot_names
from jitpkg.code.instructions import Instruction, decode
from jitpkg.code.verify import Unverified
from jitpkg.rewriter.emitter import Emitter
from jitpkg.rewriter.points import Points
from tests.regions import walk


@dataclass(slots=True)
class Census:
    """Counts of points."""

    codes: int = 0
    instructions: int = 0
    hooks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unequal: list[str] = field(default_factory=list)
    """Code objects that do not come out as they went in, or do not pass the verifier."""

    def add(self, points: Points) -> None:
        code = points.code
        self.codes += 1
        self.instructions += len(points.instructions)
        for i in range(len(points.instructions)):
            refusal = points.refusal(i)
            if refusal is None:
                self.hooks += 1
            else:
                self.refused[refusal] += 1
        try:
            is_same = same(code, Emitter(points, {}).hooked())
        except Unverified as error:
            self.unequal.append(str(error))
        else:
            if not is_same:
                self.unequal.append(f"{code.co_filename}: {code.co_qualname}")


def same(code: CodeType, other: CodeType) -> bool:
    """Whether two code objects have the same instructions, positions and handlers.

    CPython's assembler sometimes leaves an EXTENDED_ARG more than is needed; we do not.
    """
    return (
        without_distances(code) == without_distances(other)
        and code.co_consts == other.co_consts
        and code.co_names == other.co_names
        and slot_names(code) == slot_names(other)
        and code.co_flags == other.co_flags
        and code.co_stacksize <= other.co_stacksize
    )


def without_distances(code: CodeType) -> list[Instruction]:
    return [ins if ins.target is None else ins._replace(arg=0) for ins in decode(code).instructions]


def library() -> Iterator[CodeType]:
    """The code objects of all functions of the standard library and of its tests."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            with tokenize.open(path) as file:
                module = compile(file.read(), str(path), "exec")
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue  # test data that is no program
        yield from (code for code in walk(module) if is_function(code))


def print_census(census: Census, what: str) -> None:
    points = census.instructions or 1
    print(f"{census.codes} code objects of {what}, {points} points;", end=" ")
    print(f"can be hooks: {census.hooks} ({census.hooks / points:.1%}). Why the others cannot:")
    for reason, count in census.refused.most_common():
        print(f"  {count / points:7.2%}  {count:8}  {reason}")


def main() -> int:
    warnings.simplefilter("ignore")
    census = Census()
    for code in library():
        census.add(Points.of(code))
    print_census(census, "the standard library")
    for name in census.unequal:
        print(f"DIFFERS without hooks: {name}")
    return 1 if census.unequal else 0


if __name__ == "__main__":
    sys.exit(main())
