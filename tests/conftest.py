"""What holds for every test: a mistake of jitpkg's own is an error, not a warning, and nothing is
kept in the user's own cache."""

import atexit
import ctypes
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import pytest
import torch

from tests.portions import runs

os.environ.setdefault("JITPKG_STRICT", "1")

# Tests count entries: nothing may depend on how long something takes.
os.environ.setdefault("JITPKG_NEVER_WORSE", "0")

# Most tests are of tracing, and compare bit for bit; those of kernels say so.
os.environ.setdefault("JITPKG_BACKEND", "eager")

if not torch.cuda.is_available():  # before anybody imports Triton
    os.environ.setdefault("TRITON_INTERPRET", "1")

if "JITPKG_CACHE_DIR" not in os.environ:
    os.environ["JITPKG_CACHE_DIR"] = tempfile.mkdtemp(prefix="jitpkg-tests-")
    atexit.register(shutil.rmtree, os.environ["JITPKG_CACHE_DIR"], ignore_errors=True)


from jitpkg import native  # when the environment is set


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not walk through it (1.2
    million objects, half a second each time). Native code is started, as a kernel does: it tests
    guards in each test, and not from some test on."""
    native.start()
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The same of what tests have imported and compiled since: without it, an hour later, a
    collection takes three seconds."""
    last = nextitem is None or nextitem.path != item.path
    if last and len(gc.get_objects(2)) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()


MANY_OBJECTS = 300_000


PYTHON = ctypes.pythonapi
PYTHON.PyInterpreterState_Get.restype = ctypes.c_void_p


@pytest.fixture(autouse=True)
def _frames_as_python_runs_them() -> Iterator[None]:
    """Where a backend of torch.compile has raised, its frame hook stays on: Python's calls then
    hold what they have given until they return, and objects live longer in any test after it."""
    yield
    if "torch._dynamo" in sys.modules:
        interpreter = ctypes.c_void_p(PYTHON.PyInterpreterState_Get())
        PYTHON._PyInterpreterState_SetEvalFrameFunc(interpreter, PYTHON._PyEval_EvalFrameDefault)


THROUGH_AOT = ("aot", "aot_eager")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests that have AOTAutograd among their parameters half of those run: few graphs go that
    way, and each takes several times as long. A test that is named runs."""
    if any("::" in arg for arg in config.args):
        return
    left = [item for item in items if _is_through_aot(item) and not runs(2, item.nodeid)]
    config.hook.pytest_deselected(items=left)
    dropped = set(left)
    items[:] = [item for item in items if item not in dropped]


def _is_through_aot(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and any(
        isinstance(value, str) and value in THROUGH_AOT for value in call.params.values()
    )
