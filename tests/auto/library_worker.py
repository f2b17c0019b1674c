"""Run one of CPython's test modules with the import hook on some modules of the library.

    python -m tests.auto.library_worker FOLDER MODE TEST MODULE MODULE …

writes to FOLDER/TEST-MODE.json how each test went, as tests/stdlib/worker.py does. MODE is "plain";
"auto", which is what users have; or "forced", where each function counts as one that sees tensors.
torch is loaded, for arguments are looked at in programs that have it only.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

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


@dataclass(slots=True)
class Hooked(Result):
    """How the tests went, and what became of the stubs."""

    stubs: int = 0
    gone: int = 0
    """Stubs of functions that saw no tensor, and were given their own code back."""
    unnamed: int = 0
    """Those of them whose functions no name leads to: they keep a closed door."""


def count(result: Hooked, *, forced: bool) -> None:
    """Count the stubs that are made and dropped, and the functions that are compiled."""
    init, begin, drop = Stub.__init__, Stub._begin, Stub.drop

    def making(stub: Stub, *arguments: Any) -> None:
        result.stubs += 1
        init(stub, *arguments)

    def counting(stub: Stub, arguments: tuple[object, ...]) -> object:
        new = stub.compiled is None
        answer = begin(stub, arguments)
        result.functions += new and stub.compiled is not None
        return answer

    def dropping(stub: Stub, namespace: dict[str, Any]) -> None:
        result.gone += stub in stub.hooks.stubs
        result.unnamed += not stub._functions(namespace, thoroughly=False)
        drop(stub, namespace)

    Stub.__init__ = making  # type: ignore[method-assign]
    Stub._begin = counting  # type: ignore[assignment, method-assign]
    Stub.drop = dropping  # type: ignore[method-assign]
    if forced:
        Stub._sees_tensors = lambda stub, arguments: True  # type: ignore[method-assign]


def main(folder: str, mode: str, test: str, *modules: str) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    support.use_resources = []
    support.verbose = 0
    importlib.import_module("torch")
    if mode == "forced":
        importlib.import_module("jitpkg.api")  # before anything has a stub
    result = Hooked()
    count(result, forced=mode == "forced")
    with tempfile.TemporaryDirectory() as empty:
        os.chdir(empty)
        hooks = [] if mode == "plain" else load(list(modules))
        suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{test}")
        began, processor = time.perf_counter(), time.process_time()
        suite.run(Results(result))
        result.seconds = time.perf_counter() - began
        result.processor = time.process_time() - processor
        del hooks  # until now they have held the stubs
        Path(folder, f"{test}-{mode}.json").write_text(json.dumps(asdict(result)), "utf-8")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
