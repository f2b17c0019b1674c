"""The list of test modules, and a run of one of them in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

MODES = ("plain", "hooks", "resume")


@dataclass(frozen=True, slots=True)
class Task:
    """A test module, and the modules that are rewritten for it."""

    test: str
    modules: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """Modules that this Python does not have."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a worker has written."""

    outcomes: dict[str, str]
    details: dict[str, str]
    counts: dict[str, Any]
    crash: str | None = None


def load_tasks(names: Sequence[str], *, reduced: bool) -> list[Task]:
    """The tasks that are asked for."""
    data = tomllib.loads((FOLDER / "modules.toml").read_text(encoding="utf-8"))
    rewritten: dict[str, list[str]] = dict(data["library"])
    for test in data["language"]["tests"]:
        rewritten[test] = [f"test.{test}"]
    if unknown := sorted({*names, *data["reduced"]} - set(rewritten)):
        raise SystemExit(f"not in {FOLDER / 'modules.toml'}: {', '.join(unknown)}")
    wanted = names or (data["reduced"] if reduced else rewritten)
    tasks = []
    for test in sorted(wanted):
        if not exists(f"test.{test}"):
            print(f"{test}: this Python's test package does not have it")
            continue
        there = tuple(m for m in rewritten[test] if exists(m))
        missing = tuple(m for m in rewritten[test] if m not in there)
        tasks.append(Task(test, there, missing))
    return tasks


def exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def run_task(task: Task, seed: int, timeout: int, folder: Path) -> dict[str, Run]:
    """Run a task's tests in each mode."""
    outputs = [
        run_worker([str(folder), str(seed), task.test, *modules], timeout)
        for modules in ((), task.modules)
    ]
    return {
        mode: read(folder / f"{task.test}-{mode}.json", outputs[mode != "plain"]) for mode in MODES
    }


def run_worker(arguments: list[str], timeout: int, worker: str = "tests.stdlib.worker") -> str:
    """What a worker and its forks print; they are ended after `timeout` seconds."""
    process = subprocess.Popen(
        [sys.executable, "-m", worker, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=timeout)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"no end within {timeout} s"
    return f"exit status {process.returncode}\n{output[-3000:]}"


def read(path: Path, output: str) -> Run:
    if not path.exists():
        return Run({}, {}, {}, output)
    found = json.loads(path.read_text(encoding="utf-8"))
    if "crash" in found:
        return Run({}, {}, {}, found["crash"])
    return Run(found.pop("outcomes"), found.pop("details"), found)
