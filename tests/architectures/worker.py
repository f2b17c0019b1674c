"""Runs tasks, given as lines of JSON on standard input; answers each with a line."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
import time
import warnings

import torch

from tests.architectures.check import Task, checked


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        start = time.process_time()
        answer = checked(Task(**asked["task"]), eagerly=asked["eagerly"])
        answer["seconds"] = round(time.process_time() - start, 2)
        print(json.dumps(answer), file=answers, flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
