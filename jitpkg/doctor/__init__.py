"""`python -m jitpkg doctor`: whether jitpkg works here, and what it lacks.

It imports torch only when it looks at it, so that it can say so where that fails.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

import jitpkg
from jitpkg.doctor.finding import Finding, State, examined, in_words
from jitpkg.internals import versions
from jitpkg.interrupts import from_outside

__all__ = ["Finding", "State", "examine", "lines", "verdict"]


def examine() -> Iterator[Finding]:
    """Look at one part after the other; raises nothing."""
    yield examined("Python", _python, State.BROKEN)
    yield Finding("jitpkg", f"{jitpkg.__version__}, in {Path(jitpkg.__file__).parent}")
    torch = examined("PyTorch", _torch, State.BROKEN)
    yield torch
    if torch.state is State.BROKEN:
        return
    try:
        from jitpkg.doctor import parts  # all that it imports needs torch
    except Exception as error:
        if from_outside(error):
            raise
        yield Finding("compiler", f"cannot be imported: {in_words(error)}", State.BROKEN)
        return
    yield from parts.findings()


def _python() -> Finding:
    kind = platform.python_implementation()
    text = f"{platform.python_version()}, {kind}, {platform.system()} {platform.machine()}"
    from jitpkg.code.versions import PYTHON, SUPPORTED  # it reads tables of this Python

    if kind == "CPython" and PYTHON in SUPPORTED:
        return Finding("Python", text)
    first, last = (".".join(map(str, each)) for each in (SUPPORTED[0], SUPPORTED[-1]))
    return Finding("Python", f"{text}; jitpkg needs CPython {first} to {last}", State.BROKEN)


def _torch() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("PyTorch", f"cannot be imported: {in_words(error)}", State.BROKEN)
    remark = versions.remark()
    if remark is None:
        return Finding("PyTorch", str(torch.__version__))
    return Finding("PyTorch", f"{torch.__version__}. {remark}", State.LESS)


def lines(finding: Finding) -> Iterator[str]:
    """A finding as text: a mark where something is not as it should be, and what it is about."""
    yield f"{_MARKS[finding.state]} {finding.label:9}  {finding.text}"
    yield from (f"{'':13}{detail}" for detail in finding.details)


_MARKS = {State.FINE: " ", State.LESS: "!", State.BROKEN: "X"}


def verdict(findings: Iterable[Finding]) -> tuple[bool, str]:
    """Whether functions are compiled here, and a sentence that says so."""
    states = {finding.state for finding in findings}
    if State.BROKEN in states:
        return False, "No function is compiled here, because of what is marked X."
    if State.LESS in states:
        return True, "jitpkg works here, with less where a line is marked !."
    return True, "jitpkg works here."
