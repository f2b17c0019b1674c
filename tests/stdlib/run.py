"""CPython's own tests of the standard library, with every function of it rewritten.

    make stdlib                          all of tests/stdlib/modules.toml
    make stdlib ARGS=--reduced           the part of it that continuous integration runs
    make stdlib ARGS="test_re test_ast"  some test modules

Each test module runs three times, each time in a process of its own: plainly; with identity hooks
at every possible point of the functions under test; and with hooks that leave for a resume function
at points that a seed chooses (0: at each function's first one). The outcome of each test must be
the plain one. What may differ, and why, is in tests/stdlib/allowed.toml.

Needs no torch; the exit status is 1 where a test differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.stdlib.report import Report
from tests.stdlib.tasks import Task, load_tasks, run_task


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="test modules; all of the list if none is named")
    parser.add_argument("--reduced", action="store_true", help="only what the list says is enough")
    parser.add_argument("--part", default="1/1", help="K/N: one in N modules, from the K-th on")
    parser.add_argument("--seed", type=int, default=1, help="chooses the points that leave")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one run")
    parser.add_argument("--details", action="store_true", help="show the tracebacks of differences")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    report = Report(details=options.details)
    first, step = map(int, options.part.split("/"))
    tasks = load_tasks(options.tests, reduced=options.reduced)[first - 1 :: step]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:

        def run(task: Task) -> None:
            report.add(task, run_task(task, options.seed, options.timeout, Path(folder)))

        for done in [pool.submit(run, task) for task in tasks]:
            done.result()
    report.finish()
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
