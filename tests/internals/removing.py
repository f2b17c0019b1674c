"""Runs programs as if PyTorch lacked a private name, each in a process of its own.

    python -m tests.internals.removing [NAME …]     all rows, or those of these names

torch and jitpkg are imported once, and nothing of theirs is used: each process is a fork of that.
It prints a line of JSON for each row and program.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import jitpkg
from jitpkg import errors, events
from jitpkg.internals import Row
from jitpkg.internals.table import ROWS

TORCH_S_OWN = (
    "torch._functorch.aot_autograd",
    "torch._functorch.partitioners",
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
)
"""What takes a second to import, and is imported once for all."""


ACTING = ("jitpkg.__main__", "jitpkg.auto", "jitpkg.cli")
"""Modules whose import does something: whatever is imported behind it is compiled."""


def main(names: list[str]) -> None:
    load()
    needs = importlib.import_module("tests.internals.needs").NEEDS
    for row in ROWS:
        for program in needs.get(row, ()):
            if not names or row.name in names:
                told = in_child(lambda row=row, program=program: outcome(row, program))
                print(json.dumps({"row": row.name, "program": program.__name__, **told}))


def load() -> None:
    """Import everything; no row is used by that."""
    for name in TORCH_S_OWN:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(jitpkg.__path__, "jitpkg."):
        if module.name not in ACTING and "triton" not in module.name:
            with contextlib.suppress(ModuleNotFoundError):  # of a library that not all have
                importlib.import_module(module.name)
    used = [row.name for row in ROWS if row.is_used]
    assert not used, f"looked up by an import: {used}"


def in_child(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a function returns, as JSON, in a fork of this process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = run()
        except BaseException:
            told = {"wrong": traceback.format_exc()}
        with os.fdopen(write, "w") as pipe:
            json.dump(told, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"wrong": f"the process ended with {status}"}


def outcome(row: Row[Any], program: Callable[[Any], Any]) -> dict[str, Any]:
    """What is wrong with a program where a row is removed: None is right."""
    os.environ["JITPKG_CACHE_DIR"] = tempfile.mkdtemp()
    torch.set_num_threads(1)
    eager = program(lambda f, **settings: f)
    missing: list[str] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.NameMissing):
            missing.append(event.name)

    with row.removed(), events.STREAM.listening(note), warnings.catch_warnings():
        warnings.simplefilter("error", errors.JitpkgWarning)  # it is nobody's mistake
        compiled = program(jitpkg.jit)
    return {"wrong": wrong(row, eager, compiled, missing)}


def wrong(row: Row[Any], eager: Any, compiled: Any, missing: list[str]) -> str | None:
    if row.name not in missing:
        return "the program does not need it"
    return None if same(eager, compiled) else f"{compiled} where eager code gives {eager}"


def same(a: Any, b: Any) -> bool:
    match a:
        case torch.Tensor():
            alike = isinstance(b, torch.Tensor) and a.dtype is b.dtype and a.stride() == b.stride()
            return alike and bool(torch.allclose(a, b, equal_nan=True))
        case list() | tuple():
            return len(a) == len(b) and all(map(same, a, b))
        case dict():
            return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
        case _:
            return bool(a == b)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(sys.argv[1:])
