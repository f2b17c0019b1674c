"""Run one of CPython's test modules, plainly or with functions of some modules rewritten.

    python -m tests.stdlib.worker FOLDER SEED TEST                  plainly
    python -m tests.stdlib.worker FOLDER SEED TEST MODULE MODULE …  rewritten

writes to FOLDER/TEST-MODE.json how each test went and what was rewritten. The rewritten functions
run twice, with hooks that stay and with hooks that leave, each time in a fork of this process.
"""

from __future__ import annotations

import doctest
import faulthandler
import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from dataclasses import asdict, dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from test import support

from jitpkg.code.analysis import is_function
from jitpkg.rewriter.points import Points
from tests.regions import RegionAt, Rewriter
from tests.stdlib.census import Census
from tests.stdlib.resuming import Resuming

MEMORY = 4 << 30
"""Bytes of address space for a run: a test that has no end must not take the machine's."""

SubTest = unittest.case._SubTest  # type: ignore[attr-defined]


@dataclass(slots=True)
class Result:
    """How the tests of one module went, and what was rewritten."""

    outcomes: dict[str, str] = field(default_factory=dict)
    """For each test: passed, failed, skipped, or why there is none."""
    details: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of processor time."""
    emission_seconds: float = 0.0
    functions: int = 0
    """Function objects that have rewritten code, at the end."""
    codes: int = 0
    instructions: int = 0
    hooks: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    unequal: list[str] = field(default_factory=list)
    """Code objects that are not equivalent when they are rewritten without hooks."""
    left: int = 0
    """How often a frame was left for a resume function."""
    resume_functions: int = 0


class Counting:
    """Counts the points of code objects that are rewritten."""

    def __init__(self, region_at: RegionAt) -> None:
        self.region_at = region_at
        self.census = Census()
        self.codes: set[int] = set()

    def __call__(self, points: Points, h: int) -> Any:
        if id(points.code) not in self.codes:
            self.codes.add(id(points.code))
            self.census.add(points)
        return self.region_at(points, h)


class Finder(PathFinder):
    """Finds the modules to rewrite, and gives them a loader that rewrites their code."""

    def __init__(self, rewriter: Rewriter, modules: frozenset[str], clock: list[float]) -> None:
        self.rewriter = rewriter
        self.modules = modules
        self.clock = clock

    def find_spec(  # type: ignore[override]
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(spec.loader, self.rewriter, self.clock)
        return spec


class Loader(SourceFileLoader):
    def __init__(self, loader: SourceFileLoader, rewriter: Rewriter, clock: list[float]) -> None:
        super().__init__(loader.name, loader.path)
        self.rewriter = rewriter
        self.clock = clock

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return None if code is None else timed(self.clock, self.rewriter, code)


def timed(clock: list[float], rewriter: Rewriter, code: CodeType) -> CodeType:
    began = time.perf_counter()
    collecting = gc.isenabled()
    gc.disable()
    try:
        return rewriter.code(code)
    finally:
        if collecting:
            gc.enable()
        clock[0] += time.perf_counter() - began


def rewrite(rewriter: Rewriter, modules: list[str], clock: list[float]) -> None:
    """Rewrite these modules: those that are imported later, and those that are already there."""
    sys.meta_path.insert(0, Finder(rewriter, frozenset(modules), clock))
    files = {f"<frozen {name}>" for name in modules}
    for name in modules:
        loaded = sys.modules.get(name)
        if loaded is not None and getattr(loaded, "__file__", None):
            files.add(str(loaded.__file__))
    for function in functions_of(files):
        function.__code__ = timed(clock, rewriter, function.__code__)


def rewrite_doctests(rewriter: Rewriter, clock: list[float]) -> None:
    """Rewrite the functions of the examples in docstrings, too, which doctest compiles."""

    def compile_rewritten(source: str, file: str, mode: str, *others: Any) -> CodeType:
        return timed(clock, rewriter, compile(source, file, mode, *others))

    doctest.__dict__["compile"] = compile_rewritten


def functions_of(files: set[str]) -> list[FunctionType]:
    """All functions that were compiled from one of these files."""
    return [
        obj
        for obj in gc.get_objects()
        if type(obj) is FunctionType and obj.__code__.co_filename in files
    ]


class Results(unittest.TestResult):
    """Collects outcomes by the names of the tests."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result

    def note(self, test: unittest.TestCase, outcome: str, error: Any = None) -> None:
        test = getattr(test, "test_case", test) if isinstance(test, SubTest) else test
        name = test.id()
        if outcome == "passed" and name in self.result.outcomes:
            return
        self.result.outcomes[name] = outcome
        if error is not None:
            lines = traceback.format_exception(*error)
            self.result.details[name] = "".join(lines)[-4000:]

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "out of memory" if err[0] is MemoryError else "failed", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.note(test, "failed", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.note(test, "skipped")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.note(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.note(test, "passed unexpectedly")


class Worker:
    """The test module, loaded with its functions or others' rewritten."""

    def __init__(self, seed: int, test: str, modules: list[str]) -> None:
        self.clock = [0.0]
        self.resuming = Resuming(seed)
        self.counting = Counting(self.resuming.region)
        self.rewriter = Rewriter(self.counting, keeps=False)
        if modules:
            rewrite(self.rewriter, modules, self.clock)
            for name in modules:
                importlib.import_module(name)
            rewrite_doctests(self.rewriter, self.clock)
        self.suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{test}")

    def run(self, mode: str) -> Result:
        result = Result()
        self.resuming.leaves = mode == "resume"
        began, used = time.perf_counter(), time.process_time()
        self.suite.run(Results(result))
        result.seconds = time.perf_counter() - began
        result.processor = time.process_time() - used
        result.emission_seconds = self.clock[0] + self.resuming.seconds
        rewritten = {id(code): code for code in self.rewriter.rewritten.values()}
        result.functions = sum(
            type(obj) is FunctionType and id(obj.__code__) in rewritten for obj in gc.get_objects()
        )
        result.codes = sum(map(is_function, rewritten.values()))
        census = self.counting.census
        result.instructions, result.hooks = census.instructions, census.hooks
        result.refused, result.unequal = dict(census.refused), census.unequal
        result.left, result.resume_functions = self.resuming.left, self.resuming.emitted
        return result


def limit_memory(size: int | None) -> None:
    """Let this process and its children have so much address space; None: as it was."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    if size is None or 0 <= most < size:
        size = most
    resource.setrlimit(resource.RLIMIT_AS, (size, most))


def write_result(worker: Worker, mode: str, path: Path) -> None:
    try:
        result = asdict(worker.run(mode))
    except MemoryError:
        limit_memory(None)  # what has filled it may be still there
        result = {"crash": f"out of memory: {MEMORY >> 30} GiB"}
    except BaseException:
        result = {"crash": traceback.format_exc()}
    path.write_text(json.dumps(result), encoding="utf-8")


def main(folder: str, seed: str, test: str, *modules: str) -> None:
    faulthandler.enable()
    limit_memory(MEMORY)
    # A shell ignores it for what it starts in the background, and then tests of asyncio, which
    # interrupt themselves, wait in a loop that remembers each round: 150 MB a second.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    support.use_resources = []
    support.verbose = 0
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        worker = Worker(int(seed), test, list(modules))
        if not modules:
            write_result(worker, "plain", Path(folder, f"{test}-plain.json"))
            sys.stdout.flush()
            os._exit(0)
        for mode in ("hooks", "resume"):
            path = Path(folder, f"{test}-{mode}.json")
            sys.stdout.flush()
            child = os.fork()
            if not child:
                write_result(worker, mode, path)
                sys.stdout.flush()
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if not path.exists():
                path.write_text(json.dumps({"crash": f"no result, exit status {status}"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
