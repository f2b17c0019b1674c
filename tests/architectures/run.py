"""Architectures of public libraries, tiny and with random weights, eagerly and compiled.

    make models                                     all of transformers, and of timm and torchvision
                                                    where they are installed
    make models ARGS="--only '/(bert|llama)$'"      some
    make models ARGS="--torch"                      torch.compile's graphs and seconds beside ours
    make models ARGS="--resume"                     what is not done yet, or was wrong

Each is called twice, with two other shapes, trained for a step, and asked for text where it
generates any. Results, gradients, buffers and the random stream are eager code's, bit for bit: ops
are called as they are. What the table counts is of the first shape: graphs, breaks, and the seconds
of two calls. Each worker is a process.

The exit status is 1 where something differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import zlib
from collections import Counter, deque
from pathlib import Path
from typing import Any

from tests.architectures import catalogue
from tests.architectures.check import COMPILERS, Task
from tests.pool import Pool

WORKER = "tests.architectures.worker"
TASKS = 25
"""After so many a worker is replaced: libraries keep what they have made."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--libraries", default=",".join(catalogue.LIBRARIES))
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--part", default="0/1", help='"K/N": of N parts the one with the number K')
    parser.add_argument("--torch", action="store_true", help="compare with torch.compile, too")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=int, default=400, help="seconds for one")
    parser.add_argument("--file", type=Path, default=Path("build/models.jsonl"))
    parser.add_argument("--resume", action="store_true", help="go on with what the file has")
    return parser.parse_args()


def asked_of(options: argparse.Namespace) -> list[Task]:
    which, parts = map(int, options.part.split("/"))
    names = [
        name
        for library in options.libraries.split(",")
        for name in catalogue.names(library)
        if re.search(options.only, name) and zlib.crc32(name.encode()) % parts == which
    ]
    compilers = list(COMPILERS) if options.torch else ["jitpkg"]
    return [Task(name, compiler) for name in names for compiler in compilers]


class Report:
    """What became of the tasks."""

    def __init__(self) -> None:
        self.answers: dict[Task, dict[str, Any]] = {}

    def load(self, path: Path) -> None:
        for line in path.read_text().splitlines():
            answer = json.loads(line)
            self.answers[Task(**answer.pop("task"))] = answer

    def right(self) -> set[Task]:
        return {task for task, answer in self.answers.items() if not wrong(answer)}

    def summary(self, asked: list[Task]) -> int:
        """Print the table; the number of tasks of ours that differ, or were not run."""
        ours = [task for task in asked if task.compiler == "jitpkg"]
        rows = [task for task in ours if "parts" in self.answers.get(task, {})]
        print(
            f"\n{'':44}{'graphs':>8}{'breaks':>8}{'seconds':>9}{'torch: graphs':>15}{'seconds':>9}"
        )
        whole, fewer, beside = 0, 0, 0
        for task in rows:
            part = self.answers[task]["parts"]["forward"]
            breaks = sum(part["breaks"].values())
            whole += not breaks
            theirs = self._theirs(task)
            line = f"{task.name:44}{part['graphs']:>8}{breaks:>8}{part['seconds']:>9.2f}"
            if theirs is not None:
                beside += 1
                fewer += part["graphs"] <= theirs["graphs"] or not breaks
                line += f"{theirs['graphs']:>15}{theirs['seconds']:>9.2f}"
            print(line)
        unfit = sum("unfit" in self.answers.get(task, {}) for task in ours)
        bad = [task for task in ours if wrong(self.answers.get(task, {"wrong": "not run"}))]
        print(f"\n{len(rows)} architectures; {unfit} cannot be made or called from a configuration")
        if rows:
            print(f"{whole} ({whole / len(rows):.1%}) without a break")
        if beside:
            print(f"{fewer} of {beside} in at most as many graphs as torch.compile makes")
        self._print_breaks(rows)
        for task in bad:
            print(f"DIFFERS {task.name}: {wrong(self.answers.get(task, {'wrong': 'not run'}))}")
        return len(bad)

    def _theirs(self, task: Task) -> dict[str, Any] | None:
        answer = self.answers.get(Task(task.name, "torch"), {})
        found: dict[str, Any] | None = answer.get("parts", {}).get("forward")
        return found

    def _print_breaks(self, rows: list[Task]) -> None:
        found: Counter[str] = Counter()
        for task in rows:
            found.update(self.answers[task]["parts"]["forward"]["breaks"].keys())
        for why, count in found.most_common():
            print(f"{count:>4} {why.splitlines()[0]}")


def wrong(answer: dict[str, Any]) -> str:
    """What differs, in words; nothing if nothing does."""
    if "wrong" in answer:
        return str(answer["wrong"])
    parts = answer.get("parts", {})
    return "; ".join(f"{name}: {part['wrong']}" for name, part in parts.items() if part["wrong"])


def main() -> int:
    options = arguments()
    report = Report()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    if options.resume and options.file.exists():
        report.load(options.file)
    asked = asked_of(options)
    done_before = report.right()
    waiting = deque(task for task in asked if task not in done_before)
    print(f"{len(asked)} tasks, {len(waiting)} of them to do; {options.file}", flush=True)
    with options.file.open("a" if options.resume else "w") as file:

        def done(task: Task, answer: dict[str, Any]) -> None:
            report.answers[task] = answer
            print(json.dumps({"task": task.plain(), **answer}), file=file, flush=True)
            if task.compiler == "jitpkg" and wrong(answer):
                print(f"DIFFERS {task.name}: {wrong(answer)}", flush=True)

        start = time.monotonic()
        pool: Pool[Task] = Pool(WORKER, options.workers, options.timeout, tasks=TASKS)
        pool.run(waiting, done)
    bad = report.summary(asked)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
