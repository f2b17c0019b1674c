"""What became of each seed, in a file: so that a long run can be done in pieces."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO

import torch

from jitpkg.testing.programs.bulk import Answer


class Record:
    """A file with a line of JSON for each program, below one that says what ran them.

    Args:
        grammar: its name, or "".
    """

    def __init__(self, path: Path, grammar: str = "") -> None:
        self._path = path
        self._run = {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "grammar": grammar,
        }
        self._file: IO[str] | None = None

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()

    def read(self, *, resume: bool) -> Iterator[Answer]:
        """What the file has of this Python, torch and grammar, but no faults: these are checked
        again. Without `resume`, nothing; then the file is begun anew."""
        if resume and self._path.exists():
            with self._path.open(encoding="utf-8") as file:
                yield from self._same(file).values()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a" if resume else "w", encoding="utf-8")
        self._line({"run": self._run})

    def _same(self, lines: Iterator[str]) -> dict[int, Answer]:
        found: dict[int, Answer] = {}
        is_of_this_run = False
        for answer in map(json.loads, lines):
            if "run" in answer:
                is_of_this_run = answer["run"] == self._run
            elif is_of_this_run and answer["verdict"] in ("same", "left out"):
                found[answer["seed"]] = answer
            elif is_of_this_run:
                found.pop(answer["seed"], None)
        return found

    def write(self, answer: Answer) -> None:
        if "verdict" in answer:
            self._line(answer)

    def _line(self, what: Answer) -> None:
        assert self._file is not None, "read first"
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()
