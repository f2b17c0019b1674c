"""CPython's own tests of library modules that the import hook has compiled.

    python -m tests.auto.library                     the list below, as users have it
    python -m tests.auto.library --forced            with every function compiled at its second call
    python -m tests.auto.library test_json --forced  one test module

Each test module runs in two processes, plainly and with the hook; every test must end alike.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.stdlib.tasks import Task, load_tasks, read, run_worker

TESTS = """
test_dataclasses test_enum test_functools test_contextlib test_collections test_statistics
test_textwrap test_json test_copy test_fractions test_difflib test_string test_heapq test_bisect
test_argparse test_configparser
""".split()


@dataclass(frozen=True, slots=True)
class Compared:
    """A test module with and without the hook."""

    found: list[str]
    """The tests that end otherwise."""
    count: int = 0
    counts: dict[str, Any] = field(default_factory=dict)
    plain: float = 0.0
    """Seconds of processor time without the hook."""

    def __str__(self) -> str:
        if not self.count:
            return "failed"
        done = self.counts
        return (
            f"{self.count} tests, {done['stubs']} stubs, {done['gone']} gone"
            f" ({done['unnamed']} without a name), {done['functions']} compiled,"
            f" {self.plain:.1f} s, {done['processor']:.1f} s"
        )


def compared(task: Task, mode: str, timeout: int) -> Compared:
    """Run a test module's tests plainly, and with the hook."""
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for each in ("plain", mode):
            arguments = [folder, each, task.test, *task.modules]
            output = run_worker(arguments, timeout, worker="tests.auto.library_worker")
            runs[each] = read(Path(folder, f"{task.test}-{each}.json"), output)
    plain, hooked = runs["plain"], runs[mode]
    if plain.crash or hooked.crash:
        return Compared([f"{task.test}: {plain.crash or hooked.crash}"])
    found = [
        f"{name}: {plain.outcomes.get(name)}, and with the hook {hooked.outcomes.get(name)}\n"
        f"{hooked.details.get(name, '')}"
        for name in sorted({*plain.outcomes, *hooked.outcomes})
        if plain.outcomes.get(name) != hooked.outcomes.get(name)
    ]
    return Compared(found, len(plain.outcomes), hooked.counts, plain.counts["processor"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="test modules; the list if none is named")
    parser.add_argument("--forced", action="store_true", help="compile functions without tensors")
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    options = parser.parse_args()
    mode = "forced" if options.forced else "auto"
    wrong, plain, hooked = 0, 0.0, 0.0
    for task in load_tasks(options.tests or TESTS, reduced=False):
        done = compared(task, mode, options.timeout)
        wrong += len(done.found)
        plain += done.plain
        hooked += done.counts.get("processor", 0.0)
        print(f"{task.test}: {done}", flush=True)
        for line in done.found:
            print(f"DIFFERS {line}", flush=True)
    print(f"{wrong} differences; {plain:.1f} s without the hook, {hooked:.1f} s with it", end="")
    print(f" ({hooked / plain:.2f} times)" if plain else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
