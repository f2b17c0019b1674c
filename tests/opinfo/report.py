"""Counts what became of the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.opinfo.contexts import CONTEXTS
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
        for program in answer.get("programs", ())[: 1 if details else 0]:
            print("".join(f"    | {line}\n" for line in program.splitlines()), flush=True)

    def table(self, asked: set[Task]) -> None:
        """Print how many ops went which way: by context and backend, by dtype where only two
        contexts are asked for; and in total."""
        print(f"{'':32}" + "".join(f"{name:>11}" for name in COLUMNS))
        total = dict.fromkeys(COLUMNS, 0)
        title = _of_context if len({task.context for task in asked}) > 2 else _of_dtype
        for name in sorted(set(map(title, asked))):
            row = self._row({task for task in asked if title(task) == name})
            self._line(name[1], row)
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
        print(f"{title:32}" + "".join(f"{row[column]:>11,}" for column in COLUMNS))

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


def _of_dtype(task: Task) -> tuple[int, str]:
    order = [str(dtype).removeprefix("torch.") for dtype in DTYPES].index(task.dtype)
    return order, f"{task.dtype} {task.context} {task.backend}"


def _of_context(task: Task) -> tuple[int, str]:
    return list(CONTEXTS).index(task.context), f"{task.context} {task.backend}"
