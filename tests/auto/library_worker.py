"""Run one of CPython's test modules with the import hook on some modules of the library.

    python -m tests.auto.library_worker FOLDER MODE TEST MODULE MODULE …

writes to FOLDER/TEST-MODE.json how each test went, as tests/stdlib/worker.py does. MODE is "plain";
"auto", which is what users have; or "forced", where each function counts as one that sees tensors.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import tempfile
import time
import unittest
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FunctionType, ModuleType

from test import support

from jitpkg import auto
from jitpkg.rewriter.hooked import Hooks, Stub
from tests.stdlib.worker import Result, Results, functions_of


def load(modules: list[str]) -> list[Hooks]:
    """Import the modules; those that Python itself has loaded get stubs where they are."""
    selection = auto.install(include=modules)
    hooks = []
    for name in modules:
        if name in sys.modules:
            module = sys.modules[name]
            hooks.append(auto.hooks_for(selection))
            hooks[-1].functions(of(module))
        else:
            importlib.import_module(name)
    return hooks


def of(module: ModuleType) -> Iterator[FunctionType]:
    files = {f"<frozen {module.__name__}>", str(module.__file__)}
    return (f for f in functions_of(files) if f.__module__ != __name__)


@contextmanager
def counted(result: Result, *, forced: bool) -> Iterator[None]:
    """Count the functions that are compiled."""
    begin = Stub._begin

    def counting(stub: Stub, arguments: tuple[object, ...]) -> object:
        new = stub.compiled is None
        answer = begin(stub, arguments)
        result.functions += new and stub.compiled is not None
        return answer

    Stub._begin = counting  # type: ignore[assignment, method-assign]
    if forced:
        Stub._sees_tensors = lambda stub, arguments: True  # type: ignore[method-assign]
    yield


def main(folder: str, mode: str, test: str, *modules: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    support.use_resources = []
    support.verbose = 0
    if mode == "forced":
        importlib.import_module("jitpkg.api")  # before anything has a stub
    result = Result()
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        hooks = [] if mode == "plain" else load(list(modules))
        suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{test}")
        with counted(result, forced=mode == "forced"):
            began = time.perf_counter()
            suite.run(Results(result))
            result.seconds = time.perf_counter() - began
        result.codes = sum(len(hook.stubs) for hook in hooks)
        Path(folder, f"{test}-{mode}.json").write_text(json.dumps(asdict(result)), "utf-8")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
