"""Runs tasks, given as lines of JSON on standard input; answers each with a line."""

from __future__ import annotations

import json
import os
import sys
import time

import torch

from tests.opinfo.check import Check, quiet
from tests.opinfo.samples import Task, everything


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some samples print, and so do libraries written in C
    ops = {op.formatted_name: op for op in everything()}
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.process_time()
        with quiet():
            task = Task(**asked["task"])
            check = Check(ops[task.op], task, most=asked["most"])
            answer = check.eagerly() if asked["eagerly"] else check.all()
        plain = {**answer.plain(), "seconds": round(time.process_time() - start, 3)}
        print(json.dumps(plain), file=answers, flush=True)


if __name__ == "__main__":
    main()
