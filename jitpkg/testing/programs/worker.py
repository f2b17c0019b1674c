"""Checks the programs of a range of seeds, and answers each with a line of JSON.

    python -m jitpkg.testing.programs.worker FIRST LAST

Says `{"seed": 7}` before it begins with one, so that one knows what it died of. Without seeds, it
answers programs that come as lines of JSON on standard input.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from jitpkg.testing.programs.checking import Outcome, Statistics, check
from jitpkg.testing.programs.choices import Seeded
from jitpkg.testing.programs.modes import Mode, mode
from jitpkg.testing.programs.program import Program
from jitpkg.testing.programs.writing import generate

_COLLECTED = 25
"""The collector runs after so many programs; not at other times, so that runs are alike."""


def of_seed(seed: int) -> tuple[Program, Mode]:
    """The program of a seed, and the mode in which it is run."""
    return generate(seed), mode(Seeded(~seed))


def main(arguments: list[str]) -> None:
    faulthandler.enable()
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    gc.collect()
    gc.freeze()
    gc.disable()
    if arguments:
        _run(range(*map(int, arguments)), say)
    else:
        _serve(say)


def _serve(say: Callable[..., None]) -> None:
    for k, line in enumerate(sys.stdin):
        asked = json.loads(line)
        program = Program(asked["source"], tuple(asked["calls"]))
        say(**check(program, Mode(asked["name"], asked["options"])).plain())
        if k % _COLLECTED == 0:
            gc.collect()


def _run(seeds: range, say: Callable[..., None]) -> None:
    statistics = Statistics()
    for seed in seeds:
        say(seed=seed)
        outcome = _checked(seed, statistics)
        say(seed=seed, **outcome.plain())
        if seed % _COLLECTED == 0:
            gc.collect()
    say(statistics=statistics.plain())


def _checked(seed: int, statistics: Statistics) -> Outcome:
    program, how = of_seed(seed)
    return check(program, how, statistics)


if __name__ == "__main__":
    main(sys.argv[1:])
