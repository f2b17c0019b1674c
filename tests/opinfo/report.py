"""Counts what became of the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.opinfo.samples import DTYPES, Task

COLUMNS = ("ops", "lowered", "fall back", "break", "differ", "untested", "samples")


class Report:
    def __init__(self) -> None:
        self._answers: dict[Task, dict[str, Any]] = {}

    @property
    def right(self) -> set[Task]:
        return {task for task, answer in self._answers.items() if not answer.get("wrong")}

    def load(self, lines: Iterable[str]) -> None:
        for line in lines:
            answer = json.loads(line)
            self.add(Task(**answer.pop("task")), answer)

    def add(self, task: Task, answer: dict[str, Any]) -> None:
        self._answers[task] = answer

    def wrong(self, asked: set[Task]) -> list[Task]:
        return sorted(asked & self._answers.keys() - self.right)

    def missing(self, asked: set[Task]) -> set[Task]:
        return asked - self._answers.keys()

    def show(self, task: Task, answer: dict[str, Any], *, details: bool) -> None:
        print(f"DIFFERS {task}", flush=True)
        for why in answer["wrong"] if details else answer["wrong"][:1]:
            print(f"    {why}", flush=True)

    def table(self, asked: set[Task]) -> None:
        """Print, by dtype and direction and in total, how many ops went which way."""
        print(f"{'':20}" + "".join(f"{name:>11}" for name in COLUMNS))
        total = dict.fromkeys(COLUMNS, 0)
        for dtype in DTYPES:
            name = str(dtype).removeprefix("torch.")
            for backward in (False, True):
                row = self._row({t for t in asked if (t.dtype, t.backward) == (name, backward)})
                if row["ops"]:
                    self._line(f"{name}{' backward' if backward else ''}", row)
                total = {column: total[column] + row[column] for column in COLUMNS}
        self._line("total", total)
        wrong = self.wrong(asked)
        if wrong:
            print(f"{len(wrong)} differ: {', '.join(map(str, wrong))}")
        if missing := self.missing(asked):
            print(f"{len(missing)} were not run")
        crashes = sorted(t for t in asked & self._answers.keys() if "crashes" in self._answers[t])
        if crashes:
            print(f"eager code itself dies of: {', '.join(map(str, crashes))}")

    def _line(self, title: str, row: dict[str, int]) -> None:
        print(f"{title:20}" + "".join(f"{row[column]:>11,}" for column in COLUMNS))

    def _row(self, tasks: set[Task]) -> dict[str, int]:
        row = dict.fromkeys(COLUMNS, 0)
        for task in tasks & self._answers.keys():
            answer = self._answers[task]
            row["ops"] += 1
            row["samples"] += answer.get("compared", 0)
            row[_way(answer)] += 1
            row["differ"] += bool(answer.get("wrong"))
        return row


def _way(answer: dict[str, Any]) -> str:
    """What became of an op: the worst that happened to one of its samples."""
    if not answer.get("compared"):
        return "untested"
    if answer["breaks"]:
        return "break"
    return "fall back" if answer["calls"] or answer["declined"] else "lowered"
