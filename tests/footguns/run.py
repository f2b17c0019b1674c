"""Run the cases under any compiler for PyTorch code, as a script.

    python tests/footguns/run.py                            the eager values, one line each
    python tests/footguns/run.py package:callable [CASE...] compiled; prints what differs

`callable` compiles a function or a module. The package's `graph_break` and `reset` are used where
it has them. A CASE is a part of a name.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])

from tests.footguns.catalogue import CASES, EAGER, Implementation, evaluate

SECONDS = 60


class TimedOut(BaseException):
    """A case ran longer than its limit. No handler of a case catches it."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimedOut

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def evaluated(name: str, implementation: Implementation) -> str:
    """The case's value, or what happened instead."""
    try:
        with time_limit(SECONDS):
            return evaluate(name, implementation)
    except TimedOut:
        return "TIMED OUT"
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        return f"RAISED {type(e).__name__}: {str(e).strip()[:150]}"


def named(text: str) -> Implementation:
    """The implementation that `package:callable` names."""
    package, _, attribute = text.partition(":")
    module = import_module(package)
    return Implementation(
        getattr(module, attribute),
        getattr(module, "graph_break", EAGER.graph_break),
        getattr(module, "reset", EAGER.reset),
    )


def compare(implementation: Implementation, parts: Sequence[str]) -> int:
    """Print each case that differs, and how many do; returns that number."""
    names = [name for name in CASES if not parts or any(part in name for part in parts)]
    wrong = 0
    for name in names:
        eager, compiled = evaluated(name, EAGER), evaluated(name, implementation)
        if compiled != eager:
            wrong += 1
            print(f"{name}\n    eager    {eager[:400]}\n    compiled {compiled[:400]}")
    print(f"{len(names) - wrong} right, {wrong} wrong")
    return wrong


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        for name in CASES:
            print(name, evaluated(name, EAGER))
        return 0
    return int(compare(named(arguments[0]), arguments[1:]) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
