"""What a kernel takes of a GPU, as its binary says."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes of a GPU."""

    registers: int
    """Of 32 bits, for each thread; there are 255."""
    spilled: int
    """Bytes for each thread that did not fit into registers and lie in slow memory."""
    shared: int
    """Bytes of shared memory for each block."""

    def __str__(self) -> str:
        said = f"{self.registers} registers, {self.shared} bytes shared"
        return f"{said}, {self.spilled} bytes spilled" if self.spilled else said


def resources(cuobjdump: str, cubin: Path, shared: int) -> Resources:
    """The resources of the one kernel in a file.

    Args:
        cuobjdump: the path of NVIDIA's tool, which comes with Triton.
        shared: the shared memory that a launch asks for, which a binary does not say.

    Raises:
        OSError: the tool cannot be run.
        ValueError: what it says cannot be read.
    """
    command = [cuobjdump, "--dump-resource-usage", str(cubin)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", said))
    if found.keys() != {"REG", "STACK", "LOCAL"}:
        raise ValueError(f"{cuobjdump} says of a kernel: {said!r}")
    # Triton's kernels have no arrays and call nothing that needs a frame: a stack holds spills.
    spilled = int(found["STACK"]) + int(found["LOCAL"])
    return Resources(int(found["REG"]), spilled, shared)
