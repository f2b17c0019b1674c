"""PyTorch's op database: ops times contexts times backends, against eager code.

    make opinfo                                           all samples in nine dtypes, plain and with
                                                          gradients, by the backend `jitpkg`
    make opinfo ARGS="--ops '^nn' --dtypes float32,bool"  some of it
    make opinfo ARGS="--contexts all"                     few samples in each context, all backends
    make opinfo ARGS="--contexts empty,out --backends eager --details"
    make opinfo ARGS="--resume"                           what is not done yet, or was wrong
    make opinfo ARGS="--device cuda"                      on a GPU

Samples run in groups that are one program each: twice by eager code, from the same random state,
and twice compiled. Results, gradients and what is left of the arguments must be the same, within
`torch.testing.assert_close`'s tolerances or as near to what float64 gives (bit for bit with the
backend `eager`); so must sizes, strides, who shares memory with whom, and exceptions. Samples that
eager code does not repeat are left out. Each worker is a process. If one dies, or takes too long,
the next one goes on behind the task that it was at, and the task has failed unless eager code alone
dies of it, too.

The exit status is 1 where a task differs, or was not run. The contexts:

"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.opinfo.contexts import CONTEXTS
from tests.opinfo.report import Report
from tests.opinfo.samples import DTYPES, Task, differentiable, everything, tasks
from tests.pool import Pool

WORKER = "tests.opinfo.worker"
BACKENDS = ("jitpkg", "eager", "aot_eager")
ONCE = ("aot_eager",)
"""Backends whose kernels are torch's own: what is ours there (how arguments are wrapped, writes,
aliases) does not depend on the dtype, so in contexts one dtype of the two is enough."""
FEW = 3
"""Samples of an op in a context where several contexts are asked for."""


def arguments() -> argparse.Namespace:
    contexts = "\n".join(f"  {name:22} {row.what}" for name, row in CONTEXTS.items())
    parser = argparse.ArgumentParser(
        description=__doc__ + contexts, formatter_class=argparse.RawTextHelpFormatter
    )
    names = ",".join(map(_name, DTYPES))
    parser.add_argument("--ops", default="", help="a regular expression for the ops' names")
    parser.add_argument(
        "--dtypes",
        help=f"{names}, all of which are the default; in contexts\n"
        "it is float32 and another one, of which aot_eager gets one",
    )
    parser.add_argument("--contexts", help='names, or "all"')
    parser.add_argument("--backends", help=f"{','.join(BACKENDS)}; without contexts only the first")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--forward", action="store_true", help="forward only")
    which.add_argument("--backward", action="store_true", help="forward with backward only")
    parser.add_argument(
        "--samples", type=int, help=f"of an op, at most; by default all, in contexts {FEW}"
    )
    parser.add_argument(
        "--part", default="0/1", help='"K/N": of N parts, evenly mixed, the one with the number K'
    )
    parser.add_argument("--device", default="cpu", help="where samples are (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one op in one dtype")
    parser.add_argument("--file", type=Path, default=Path("build/opinfo.jsonl"))
    parser.add_argument("--resume", action="store_true", help="go on with what the file has")
    parser.add_argument("--details", action="store_true", help="show all differences, and programs")
    return parser.parse_args()


def asked_of(options: argparse.Namespace) -> list[Task]:
    """The tasks."""
    names = ["plain", "grad"]
    if options.contexts:
        names = list(CONTEXTS) if options.contexts == "all" else options.contexts.split(",")
    contexts = {name: bool(CONTEXTS[name].grad) for name in names}
    if options.forward or options.backward:
        contexts = {name: grad for name, grad in contexts.items() if grad is options.backward}
    backends = BACKENDS if options.contexts else BACKENDS[:1]
    if options.backends:
        backends = tuple(options.backends.split(","))
    if options.dtypes:
        dtypes = _these([getattr(torch, name) for name in options.dtypes.split(",")])
    else:
        dtypes = _these(DTYPES)
        if options.contexts:
            dtypes = partial(float32_and_another, device=options.device)
    which, parts = map(int, options.part.split("/"))
    once = ONCE if options.contexts and not options.dtypes else ()
    every = tasks(
        everything(), options.ops, dtypes, contexts, backends, once, device=options.device
    )
    return [task for task in every if zlib.crc32(str(task).encode()) % parts == which]


def _these(dtypes: Iterable[torch.dtype]) -> Callable[[Any, str], Iterable[torch.dtype]]:
    return lambda op, context: dtypes


def float32_and_another(op: Any, context: str, device: str = "cpu") -> Iterable[torch.dtype]:
    """Another one in each context, so that all have their turn."""
    yield torch.float32
    supported = op.supported_dtypes(device)
    grad = bool(CONTEXTS[context].grad)
    others = [
        dtype
        for dtype in DTYPES[1:]
        if (differentiable(op, dtype, device) if grad else dtype in supported)
    ]
    if others:
        yield others[zlib.crc32(f"{op.formatted_name} {context}".encode()) % len(others)]


def main() -> int:
    options = arguments()
    report = Report()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    if options.resume and options.file.exists():
        report.load(options.file.read_text().splitlines())
    asked = asked_of(options)
    samples = FEW if options.samples is None and options.contexts else options.samples
    right = report.right
    waiting = deque(task for task in asked if task not in right)
    print(f"{len(asked)} tasks, {len(waiting)} of them to do; {options.file}", flush=True)
    with options.file.open("a" if options.resume else "w") as file:

        def done(task: Task, answer: dict[str, object]) -> None:
            report.add(task, answer)
            print(json.dumps({"task": task.plain(), **answer}), file=file, flush=True)
            if answer.get("wrong"):
                report.show(task, answer, details=options.details)

        start = time.monotonic()
        pool: Pool[Task] = Pool(WORKER, options.workers, options.timeout, most=samples)
        pool.run(waiting, done)
    report.table(set(asked))
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if report.wrong(set(asked)) or report.missing(set(asked)) else 0


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    sys.exit(main())
