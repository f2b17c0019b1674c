"""A plugin for pytest that writes every kernel that tests print to a folder, to be compiled.

python -m pytest -p tests.codegen.triton.collecting --triton-jobs FOLDER tests/codegen
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from jitpkg.codegen.triton import printer
from jitpkg.codegen.triton.jobs import Job, job_text
from jitpkg.codegen.triton.source import Source
from jitpkg.codegen.triton.target import A100, H200, Target

TARGETS = (A100, H200)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--triton-jobs", type=Path, help="where the kernels that are printed go")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("--triton-jobs")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        install(folder)


def job_of_source(source: Source, target: Target) -> Job:
    """As it is launched on tensors of torch's own, whose memory is aligned, and on any numbers."""
    return Job(source, source.configs[0], target, (True,) * len(source.pointers))


def write(folder: Path, job: Job) -> None:
    """Under a name that says what it is: once, however often it comes."""
    text = job_text(job)
    name = f"{job.source.name[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"
    (folder / name).write_text(text, encoding="utf-8")


def install(folder: Path) -> None:
    """From now on, what is printed is written to the folder, for all targets. Before the modules
    are imported that print."""
    printed = printer.printed

    def noting(schedule: Any, target: Target, *others: Any, **named: Any) -> Source:
        source = printed(schedule, target, *others, **named)
        for each in TARGETS:
            same = source if each == target else printed(schedule, each, *others, **named)
            write(folder, job_of_source(same, each))
        return source

    printer.printed = noting
