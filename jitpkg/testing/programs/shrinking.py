"""Makes a program small that shows a fault, by taking away one piece after the other."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from threading import Timer
from types import TracebackType
from typing import Any

from jitpkg.errors import InvalidArgument
from jitpkg.testing.programs.bulk import Answer, died
from jitpkg.testing.programs.modes import Mode
from jitpkg.testing.programs.program import NAME, Program

_CALLS = "CALLS"


class Checker:
    """A process that checks programs; another takes its place where it dies.

    Args:
        timeout: seconds that a program may take.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def kind(self, program: Program, mode: Mode) -> str:
        """The kind of fault that a program shows, or ""."""
        process = self._process = self._process or _started()
        assert process.stdin is not None and process.stdout is not None
        asked: dict[str, Any] = {
            "source": program.source,
            "calls": program.calls,
            "name": mode.name,
            "options": dict(mode.options),
            "around": mode.around,
        }
        answer: Answer = {}
        late = Timer(self._timeout, process.kill)
        late.start()
        try:
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            while "verdict" not in answer and (line := process.stdout.readline()):
                answer |= json.loads(line)
        except BrokenPipeError:
            pass
        finally:
            late.cancel()
        if "verdict" not in answer:
            verdict, kind = died(process.wait(), "ended" in answer)
            answer |= {"verdict": verdict, "kind": kind}
            self.stop()
        return str(answer["kind"]) if answer["verdict"] in ("differs", "failed") else ""


def _started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jitpkg.testing.programs.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


class _NoTimeLeft(Exception):
    """What has been found so far is to do."""


def shrunk(
    program: Program, mode: Mode, kind: str, *, timeout: float = 60, seconds: float = 60
) -> Program:
    """A small program that shows a fault of the same kind; the same one, if it shows none alone.

    Args:
        timeout: seconds that one try may take.
        seconds: that all of them may take, about.

    Raises:
        InvalidArgument: pysource-minimize is not installed.
    """
    if find_spec("pysource_minimize") is None:
        raise InvalidArgument(
            "Making programs small needs pysource-minimize: pip install jitpkg[testing]."
        )
    minimizing: Any = import_module("pysource_minimize")
    end = time.monotonic() + seconds
    smallest = program
    with Checker(timeout) as checker:

        def shows(text: str) -> bool:
            nonlocal smallest
            if time.monotonic() > end:
                raise _NoTimeLeft
            found = _program(text, program)
            if found is None or checker.kind(found, mode) != kind:
                return False
            smallest = found
            return True

        text = f"{program.source}\n{_CALLS} = [{', '.join(program.calls)}]\n"
        with suppress(_NoTimeLeft, minimizing.CouldNotMinimize):
            minimizing.minimize(text, shows)
    return smallest


def _program(text: str, like: Program) -> Program | None:
    """The program of a text, if it still has a function and calls."""
    *body, last = ast.parse(text).body or [ast.Pass()]
    match last:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=calls)) if name == _CALLS:
            pass
        case _:
            return None
    if not any(isinstance(one, ast.FunctionDef) and one.name == NAME for one in body):
        return None
    source = ast.unparse(ast.Module(body, []))
    return replace(like, source=source, calls=tuple(map(ast.unparse, calls)))
