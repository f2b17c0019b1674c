"""Runs tasks, given as lines of JSON on standard input; answers each with a line."""

from __future__ import annotations

import json
import sys

import torch

from tests.opinfo.check import Check, quiet
from tests.opinfo.samples import Task, database


def main() -> None:
    torch.set_num_threads(1)
    answers = sys.stdout
    sys.stdout = sys.stderr  # some samples print
    ops = {op.formatted_name: op for op in database()}
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        with quiet():
            task = Task(**asked["task"])
            check = Check(ops[task.op], task, most=asked["most"])
            answer = check.eagerly() if asked["eagerly"] else check.all()
        print(json.dumps(answer.plain()), file=answers, flush=True)


if __name__ == "__main__":
    main()
