"""What is to be compiled, and what came of it: values that another process can be told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

import torch

from jitpkg.codegen.triton.resources import Resources
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import Target
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled."""

    source: Source
    config: Config
    target: Target
    aligned: Sequence[bool]
    """For each pointer and then for each number, whether it is known to be a multiple of 16; those
    behind the end of it are not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a job."""

    resources: Resources | None
    seconds: float
    error: str = ""
    """Where it failed: why."""


def job_text(job: Job) -> str:
    """A job as a line of JSON."""
    # What stands for sizes of AOTAutograd's cannot be copied.
    source = asdict(replace(job.source, numbers=(), configs=())) | {
        "pointers": [str(dtype).removeprefix("torch.") for dtype in job.source.pointers],
        "numbers": len(job.source.numbers),
    }
    parts = {
        "source": source,
        "config": asdict(job.config),
        "target": asdict(job.target),
        "aligned": list(job.aligned),
    }
    return json.dumps(parts)


def job_of(text: str) -> Job:
    """The job of a line; of what varies only the number of numbers is known."""
    parts = json.loads(text)
    source = parts["source"]
    source["pointers"] = tuple(getattr(torch, name) for name in source["pointers"])
    source["numbers"] = (0,) * source["numbers"]
    source["grid"] = tuple(source["grid"])
    source["constants"] = _pairs(source["constants"])
    config = parts["config"]
    config["blocks"] = _pairs(config["blocks"])
    source["configs"] = (Config(**config),)
    target = parts["target"]
    target["capability"] = tuple(target["capability"])
    return Job(Source(**source), Config(**config), Target(**target), tuple(parts["aligned"]))


def _pairs(found: list[list[str | int]]) -> tuple[tuple[str, int], ...]:
    return tuple((str(name), int(value)) for name, value in found)


def outcome_text(outcome: Outcome) -> str:
    """An outcome as a line of JSON."""
    return json.dumps(asdict(outcome))


def outcome_of(text: str) -> Outcome:
    """The outcome of a line."""
    parts = json.loads(text)
    found = parts.pop("resources")
    return Outcome(None if found is None else Resources(**found), **parts)
