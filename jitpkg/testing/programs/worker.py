"""Checks the programs of a range of seeds, and answers each with a line of JSON.

    python -m jitpkg.testing.programs.worker FIRST LAST [MODULE:GRAMMAR]

Says `{"seed": 7}` before it begins with one, so that one knows what it died of, and `{"ended":
true}` when that has run eagerly: what eager code itself does not survive is no fault. Without
seeds, it answers programs that come as lines of JSON on standard input.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import pkgutil
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from jitpkg.errors import InvalidArgument
from jitpkg.facts.fake import FakeFacts
from jitpkg.facts.thread_state import snapshot
from jitpkg.testing.programs.checking import Statistics, check
from jitpkg.testing.programs.choices import Seeded
from jitpkg.testing.programs.grammar import Grammar
from jitpkg.testing.programs.modes import Mode, mode
from jitpkg.testing.programs.program import Program
from jitpkg.testing.programs.writing import GRAMMAR, generate

if sys.platform != "win32":
    import resource

_COLLECTED = 50
"""The collector runs after so many programs; not at other times, so that runs are alike."""
_LOADED = 3
"""So many times what is left is frozen: what was imported meanwhile. A collection then takes a
third of the time."""
_MEMORY = 3 << 30
"""Bytes of data that a worker may have: some programs fill a list for ever, in C code that no
signal ends. After 2,000 programs it has a third of that."""


def of_seed(seed: int, grammar: Grammar = GRAMMAR) -> tuple[Program, Mode]:
    """The program of a seed, and the mode in which it is run."""
    return generate(seed, grammar), mode(Seeded(~seed))


def named(name: str) -> Grammar:
    """The grammar of a name such as `package.module:GRAMMAR`; the usual one for "".

    Raises:
        InvalidArgument: there is none of this name.
    """
    if not name:
        return GRAMMAR
    try:
        found = pkgutil.resolve_name(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise InvalidArgument(f"There is no grammar {name!r}: {error}.") from error
    if not isinstance(found, Grammar):
        raise InvalidArgument(f"{name!r} is a {type(found).__qualname__}, not a Grammar.")
    return found


def main(arguments: list[str]) -> None:
    faulthandler.enable()
    torch.set_num_threads(1)
    _bound_memory()
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    os.dup2(2, 1)  # what is printed when the process ends goes to the first `sys.stdout`
    warnings.simplefilter("ignore")

    def say(**answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    FakeFacts()  # who first imports what torch imports for this has its frames in a cycle
    gc.collect()
    gc.freeze()
    gc.disable()
    if arguments:
        first, last, *name = arguments
        _run(range(int(first), int(last)), named("".join(name)), say)
    else:
        _serve(say)


def _serve(say: Callable[..., None]) -> None:
    restore = snapshot()
    for k, line in enumerate(sys.stdin, 1):
        restore()
        asked = json.loads(line)
        program = Program(asked["source"], tuple(asked["calls"]))
        way = Mode(asked["name"], asked["options"], around=asked["around"])
        outcome = check(program, way, ended=partial(say, ended=True))
        say(**outcome.plain())
        _collect(k)


def _run(seeds: range, grammar: Grammar, say: Callable[..., None]) -> None:
    statistics, restore = Statistics(), snapshot()
    for k, seed in enumerate(seeds, 1):
        restore()  # a generator of an earlier one may have left a context when it was collected
        say(seed=seed)
        outcome = check(*of_seed(seed, grammar), statistics, partial(say, ended=True))
        say(seed=seed, **outcome.plain())
        _collect(k)
    say(statistics=statistics.plain())


def _bound_memory() -> None:
    """More raises MemoryError, where the system can do that."""
    if sys.platform != "win32":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        bound = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, most))


def _collect(k: int) -> None:
    """After the k-th program."""
    if k % _COLLECTED == 0:
        gc.collect()
        if k <= _LOADED * _COLLECTED:
            gc.freeze()


if __name__ == "__main__":
    main(sys.argv[1:])
