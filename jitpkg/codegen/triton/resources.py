"""What a kernel takes of a GPU, as its binary says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes of a GPU."""

    registers: int
    """Of 32 bits, for each thread; there are 255."""
    spilled: int
    """Bytes for each thread that did not fit into registers and lie in slow memory."""
    shared: int
    """Bytes of shared memory for each block."""
    stack: int = 0
    """Bytes of a thread's own memory: for what is spilled, and for arrays."""

    def __str__(self) -> str:
        said = f"{self.registers} registers, {self.shared} bytes shared"
        return f"{said}, {self.spilled} bytes spilled" if self.spilled else said


@dataclass(frozen=True, slots=True)
class Unknown:
    """What a kernel takes could not be found out."""

    why: str

    def __str__(self) -> str:
        return f"resources unknown ({self.why.splitlines()[0][:100]})"


def resources(cuobjdump: str, cubin: Path, shared: int, spills: Callable[[], int]) -> Resources:
    """The resources of the one kernel in a file.

    They are kept beside it: to ask takes a tenth of a second.

    Args:
        cuobjdump: the path of NVIDIA's tool, which comes with Triton.
        shared: the shared memory that a launch asks for, which a binary does not say.
        spills: says how many bytes are spilled; asked where the kernel has memory of its own.

    Raises:
        OSError: the tool cannot be run.
        ValueError: what it says cannot be read.
    """
    beside = kept_beside(cubin)
    with suppress(OSError, ValueError, TypeError):
        return Resources(**json.loads(beside.read_text(encoding="utf-8")))
    found = _asked(cuobjdump, cubin, shared, spills)
    temporary = beside.with_suffix(f".{os.urandom(8).hex()}")
    with suppress(OSError):
        temporary.write_text(json.dumps(asdict(found)), encoding="utf-8")
        temporary.replace(beside)
    return found


def _asked(cuobjdump: str, cubin: Path, shared: int, spills: Callable[[], int]) -> Resources:
    command = [cuobjdump, "--dump-resource-usage", str(cubin)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said))
    if found.keys() != {"REG", "STACK", "LOCAL"}:
        raise ValueError(f"{cuobjdump} says of a kernel: {said!r}")
    # Of spills, or of arrays: those that sin, cos and tan of libdevice need for large arguments.
    frame = int(found["STACK"]) + int(found["LOCAL"])
    return Resources(int(found["REG"]), frame and spills(), shared, frame)


def kept_beside(cubin: Path) -> Path:
    """Where the resources of the kernel in a file are kept."""
    return cubin.with_suffix(".resources")


def spilled_bytes(ptxas: str, architecture: int, ptx: str, flags: Sequence[str] = ()) -> int:
    """Bytes that a thread stores since it has too few registers, as the assembler says.

    Args:
        flags: more of what it is given.

    Raises:
        OSError: it cannot be run.
        ValueError: what it says cannot be read.
    """
    name = f"sm_{architecture}{'a' if architecture >= 90 else ''}"
    with tempfile.TemporaryDirectory(prefix="jitpkg-ptxas-") as folder:
        file = Path(folder, "kernel.ptx")
        file.write_text(ptx, encoding="utf-8")
        usual = ["-v", "-lineinfo", "--fmad=false", f"--gpu-name={name}"]
        command = [ptxas, *usual, *flags, str(file), "-o", str(file.with_suffix(".cubin"))]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    found = re.findall(r"(\d+) bytes spill stores", said)
    if not found:
        raise ValueError(f"{ptxas} says of a kernel: {said!r}")
    return sum(map(int, found))
