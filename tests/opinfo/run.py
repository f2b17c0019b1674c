"""PyTorch's op database on the CPU, with the backend `jitpkg`, against eager code.

    make opinfo                                           everything
    make opinfo ARGS="--ops '^nn' --dtypes float32,bool"  some of it
    make opinfo ARGS="--resume"                           what is not done yet, or was wrong

Every sample of every op runs in every dtype, forward, and forward and backward, in groups that are
one program each: twice by eager code, from the same random state, and twice compiled. Results,
gradients and what is left of the arguments must be the same, within `torch.testing.assert_close`'s
tolerances or as near to what float64 gives; samples that eager code does not repeat are left out.
Each worker is a process. If one dies, or takes too long, the next one goes on behind the task that
it was at, and the task has failed unless eager code alone dies of it, too.

The exit status is 1 where a task differs, or was not run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from pathlib import Path

from tests.opinfo.pool import Pool
from tests.opinfo.report import Report
from tests.opinfo.samples import DTYPES, Task, database, tasks


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = ",".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
    parser.add_argument("--ops", default="", help="a regular expression for the ops' names")
    parser.add_argument("--dtypes", default=names, help=names)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--forward", action="store_true", help="forward only")
    which.add_argument("--backward", action="store_true", help="forward with backward only")
    parser.add_argument("--samples", type=int, help="of an op, at most; all of them by default")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one op in one dtype")
    parser.add_argument("--file", type=Path, default=Path("build/opinfo.jsonl"))
    parser.add_argument("--resume", action="store_true", help="go on with what the file has")
    parser.add_argument("--details", action="store_true", help="show what is different, and why")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    report = Report()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    if options.resume and options.file.exists():
        report.load(options.file.read_text().splitlines())
    directions = (True,) if options.backward else (False,) if options.forward else (False, True)
    dtypes = [dtype for dtype in DTYPES if _name(dtype) in options.dtypes.split(",")]
    asked = list(tasks(database(), dtypes, options.ops, directions))
    waiting = deque(task for task in asked if task not in report.right)
    print(f"{len(asked)} tasks, {len(waiting)} of them to do; {options.file}", flush=True)
    with options.file.open("a" if options.resume else "w") as file:

        def done(task: Task, answer: dict[str, object]) -> None:
            report.add(task, answer)
            print(json.dumps({"task": task.plain(), **answer}), file=file, flush=True)
            if answer.get("wrong"):
                report.show(task, answer, details=options.details)

        start = time.monotonic()
        Pool(options.workers, options.timeout, options.samples).run(waiting, done)
    report.table(set(asked))
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.wrong(set(asked)) or report.missing(set(asked)) else 0


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    sys.exit(main())
