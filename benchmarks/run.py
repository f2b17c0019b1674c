"""All benchmarks: the first word says which.

    python benchmarks/run.py [calls]       what compiling adds to a call, and to the first
    python benchmarks/run.py kernels       kernels of one or a few ops, against the copy of memory
    python benchmarks/run.py pointwise     ops many times in a row: where compiled code loses; hours
    python benchmarks/run.py coldstart     the first result in a new process, with empty caches
    python benchmarks/run.py models        models in their steady state, and the cost of a launch
    python benchmarks/run.py optimizers    steps of optimizers in their steady state
    python benchmarks/run.py steps         whole steps of training in their steady state
    python benchmarks/run.py guesses       branches on data: guessed, and as graph breaks
    python benchmarks/run.py compile-time  how compiling grows with the program
    python benchmarks/run.py ahead         Triton kernels: how many, and what compiling takes
    python benchmarks/run.py programs      whole programs, eagerly and compiled; an hour
    python benchmarks/run.py gpu           kernels and models on a GPU; needs one

Each takes --help, and --quick to see that it works.
"""

from __future__ import annotations

import sys

import ahead
import calls
import coldstart
import compile_time
import gpu
import guesses
import kernels
import optimizers
import pointwise
import steady_state
import whole_programs
import whole_steps

import jitpkg

COMMANDS = {
    "calls": calls.main,
    "kernels": kernels.main,
    "pointwise": pointwise.main,
    "coldstart": coldstart.main,
    "models": steady_state.main,
    "optimizers": optimizers.main,
    "steps": whole_steps.main,
    "guesses": guesses.main,
    "compile-time": compile_time.main,
    "ahead": ahead.main,
    "programs": whole_programs.main,
    "gpu": gpu.main,
}


def main() -> None:
    arguments = sys.argv[1:]
    if arguments and arguments[0] in COMMANDS:
        with jitpkg.config.patch(strict=True):  # what fails is not measured as eager code
            COMMANDS[arguments[0]](arguments[1:])
    else:
        calls.main(arguments)


if __name__ == "__main__":
    main()
