"""Keys, data, and processes that use a cache without loading torch."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]

PREAMBLE = """
import hashlib, os, sys
from pathlib import Path
from jitpkg.codegen.cache import KernelCache

assert "torch" not in sys.modules
cache = KernelCache(Path(sys.argv[1]))

def key_of(k):
    return hashlib.sha256(str(k).encode()).hexdigest()

def data_of(k):
    return hashlib.sha256(f"data {k}".encode()).digest() * (1 + k * 37 % 400)
"""


def key_of(k: object) -> str:
    return hashlib.sha256(str(k).encode()).hexdigest()


def data_of(k: int) -> bytes:
    """Some kilobytes that tell which key they belong to."""
    return hashlib.sha256(f"data {k}".encode()).digest() * (1 + k * 37 % 400)


def started(program: str, *arguments: object, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """A process that runs a program after `PREAMBLE`."""
    return subprocess.Popen(
        [*under, sys.executable, "-c", PREAMBLE + program, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(program: str, *arguments: object, under: tuple[str, ...] = ()) -> str:
    process = started(program, *arguments, under=under)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


def own_files(directory: Path) -> set[str]:
    return {file.name for file in directory.iterdir()}


def failing(code: int, when: Callable[[str, int], bool]) -> Callable[..., int]:
    """`os.open` that fails as a disk does."""

    def opens(name: str, flags: int, *rest: int, **where: int) -> int:
        if when(str(name), flags):
            raise OSError(code, os.strerror(code), name)
        return os_open(name, flags, *rest, **where)

    os_open = os.open
    return opens
