"""From Triton source to a binary, where no GPU needs to be.

    binary = compiled(source, source.configs[0], H200, aligned=[True, True])

Many at once: `compiled_all`, in threads: Triton's compiler lets other threads run while it is in
LLVM, and `ptxas` is a process of its own. A process that interprets kernels cannot compile any; it
asks another one, which runs this file: see `elsewhere`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from jitpkg.codegen.triton.folder import kept_in_own_folder, note_made, note_used
from jitpkg.codegen.triton.jobs import Job, Outcome, job_of, outcome_text
from jitpkg.codegen.triton.module import kernel_of
from jitpkg.codegen.triton.resources import (
    Resources,
    Unknown,
    kept_beside,
    resources,
    spilled_bytes,
)
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import Target
from jitpkg.codegen.triton.version import assembler_flags
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError

CONTRACTS = False
"""Whether `a * b + c` is rounded once. Eager rounds the result of each op, and so do we."""

ALIGNED = [["tt.divisibility", 16]]
"""What Triton's own launcher says of pointers and numbers that are multiples of 16; without it
nothing is vectorised or pipelined."""

TYPES = {
    torch.bool: "i1",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
}
"""What Triton calls them."""

ATTEMPTS = 3
"""To compile a kernel whose folder in the cache goes meanwhile: another process cleans it."""

REGISTERS, MOST_REGISTERS = 1 << 16, 255
"""Of a multiprocessor, and what a thread may have of them."""


class CannotCompile(BackendError):
    """Triton refuses a kernel, or this process cannot compile any."""


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel for a GPU."""

    kernel: Any
    """Triton's `CompiledKernel`."""
    resources: Resources | Unknown
    seconds: float
    """What it took to compile, or to find among those kept on disk."""


def compiled(source: Source, config: Config, target: Target, aligned: Sequence[bool]) -> Binary:
    """Compile a kernel.

    Args:
        aligned: for each pointer and then for each number, whether it is known to be a multiple
            of 16; those behind the end of it are not.

    Raises:
        CannotCompile: Triton does not take it, or this process interprets kernels.
    """
    if triton.knobs.runtime.interpret:
        raise CannotCompile(
            "This process interprets Triton kernels, since TRITON_INTERPRET is set, and so cannot"
            " compile any."
        )
    began = time.perf_counter()
    found = _compiled(source, config, target, aligned, {})
    if spilled(found[1]):
        # The assembler spills some bytes to stay below 32, 40 or 48 registers, so that more blocks
        # run at once; not so where it has been told how many there are.
        most = min(MOST_REGISTERS, REGISTERS // (config.warps * target.warp))
        again = _compiled(source, config, target, aligned, {"maxnreg": most})
        found = min(found, again, key=lambda each: spilled(each[1]))
    return Binary(*found, time.perf_counter() - began)


def _compiled(
    source: Source, config: Config, target: Target, aligned: Sequence[bool], more: dict[str, Any]
) -> tuple[Any, Resources | Unknown]:
    try:
        kernel = _by_triton(source, config, target, aligned, more)
    except Exception as error:  # of any kind: Python's, MLIR's, LLVM's, ptxas'
        raise CannotCompile(f"Triton cannot compile {source.name}: {error}") from error
    try:
        return kernel, _resources(kernel, target)
    except Exception as error:  # it runs all the same
        return kernel, Unknown(f"{type(error).__name__}: {error}")


def _by_triton(
    source: Source, config: Config, target: Target, aligned: Sequence[bool], more: dict[str, Any]
) -> Any:
    def attempt() -> Any:
        with kept_in_own_folder():
            return triton.compile(
                _described(source, config, aligned),
                target=GPUTarget("cuda", target.architecture, target.warp),
                options=options(source, config) | more,
            )

    for _ in range(ATTEMPTS - 1):
        with suppress(FileNotFoundError):
            return attempt()
    return attempt()


def _resources(kernel: Any, target: Target) -> Resources:
    cubin = next(Path(file) for file in kernel.metadata_group.values() if _is_cubin(file))
    is_new = not kept_beside(cubin).exists()
    architecture = target.architecture
    assembler = get_ptxas(architecture).path
    found = resources(
        triton.knobs.nvidia.cuobjdump.path,
        cubin,
        kernel.metadata.shared,
        lambda: spilled_bytes(assembler, architecture, kernel.asm["ptx"], assembler_flags()),
    )
    if is_new:
        note_made(cubin.parent)
    else:
        note_used(cubin.parent)
    return found


def spilled(resources: Resources | Unknown) -> int:
    """Bytes that are spilled, as far as it is known."""
    return resources.spilled if isinstance(resources, Resources) else 0


def options(source: Source, config: Config) -> dict[str, Any]:
    """What Triton's compiler is told about a kernel."""
    return {
        "num_warps": config.warps,
        "num_stages": config.stages,
        "enable_fp_fusion": CONTRACTS,
        # Asserts are compiled only so. Not the checks of integers that come with it: they wrap.
        "debug": source.asserts,
        "sanitize_overflow": False,
    }


def _described(source: Source, config: Config, aligned: Sequence[bool]) -> ASTSource:
    kernel = kernel_of(source)
    number = "i64" if source.wide else "i32"
    types = [*("*" + TYPES[dtype] for dtype in source.pointers), *(number for _ in source.numbers)]
    constants = dict((*config.blocks, *source.constants))
    names = kernel.arg_names
    signature = dict(zip(names, types, strict=False))
    signature |= dict.fromkeys(names[len(types) :], "constexpr")
    attributes = {(i,): ALIGNED for i, is_aligned in enumerate(aligned) if is_aligned}
    return ASTSource(kernel, signature, constants, attributes)


def _is_cubin(file: str) -> bool:
    return file.endswith(".cubin")


def compiled_all(jobs: Sequence[Job], threads: int | None = None) -> list[Binary | CannotCompile]:
    """Compile kernels at the same time; failures are among the results."""

    def one(job: Job) -> Binary | CannotCompile:
        try:
            return compiled(job.source, job.config, job.target, job.aligned)
        except CannotCompile as error:
            return error

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(one, jobs))


def outcome(job: Job) -> Outcome:
    """What comes of a job; why not, where it fails."""
    began = time.perf_counter()
    try:
        binary = compiled(job.source, job.config, job.target, job.aligned)
    except CannotCompile as error:
        return Outcome(None, time.perf_counter() - began, str(error))
    if isinstance(binary.resources, Unknown):
        return Outcome(None, binary.seconds, binary.resources.why)
    return Outcome(binary.resources, binary.seconds)


def main() -> None:
    """Compile the jobs on stdin, a line each; write what came of them to stdout, in their order."""
    out, sys.stdout = sys.stdout, sys.stderr  # Triton prints what ptxas refuses
    jobs = [job_of(line) for line in sys.stdin]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(outcome, jobs):
            out.write(outcome_text(done) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
