"""Runs tasks, given as lines of JSON on standard input; answers each with a line."""

from __future__ import annotations

import json
import sys
from typing import Any

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
            answer = answered(ops, Task(**asked["task"]), eagerly=asked["eagerly"])
        print(json.dumps(answer), file=answers, flush=True)


def answered(ops: dict[str, Any], task: Task, *, eagerly: bool) -> dict[str, Any]:
    check = Check(ops[task.op], task)
    if eagerly:
        check.eagerly()
        return {}
    return check.all().plain()


if __name__ == "__main__":
    main()
