"""The GPUs of this machine: whether kernels can be made for one, and what launches on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError
from statistics import median
from typing import Any

import torch

from jitpkg.codegen.triton.launch import Binary, Gpu
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import H200, Target
from jitpkg.codegen.triton.version import OLDEST, installed, release
from jitpkg.internals import devices

OLDEST_GPU = (7, 0)
"""Which Triton makes code for."""


def obstacle(device: torch.device) -> str | None:
    """Why no kernels can be made for a device, and what to do about it."""
    why = _triton_obstacle()
    if why is not None:
        return why
    if torch.version.hip is not None:
        return "kernels are made for GPUs of NVIDIA only"
    if not torch.cuda.is_available():
        return "there is no GPU that this PyTorch can use"
    capability = torch.cuda.get_device_capability(device)
    return gpu_obstacle(torch.cuda.get_device_name(device), capability)


def _triton_obstacle() -> str | None:
    needed = ".".join(map(str, OLDEST))
    try:
        found = release()
    except PackageNotFoundError:
        return f"Triton is not installed: `pip install 'triton>={needed}'`"
    if found < OLDEST:
        return (
            f"Triton {installed()} is too old, {needed} is needed:"
            f" `pip install -U 'triton>={needed}'`, or a newer PyTorch, which brings its own"
        )
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "Triton compiles nothing while the environment variable TRITON_INTERPRET is 1"
    return None


def gpu_obstacle(name: str, capability: tuple[int, int]) -> str | None:
    """Why no kernels can be made for a GPU."""
    if capability >= OLDEST_GPU:
        return None
    has, needed = (".".join(map(str, each)) for each in (capability, OLDEST_GPU))
    return (
        f"Triton makes no code for {name}, whose compute capability is {has} ({needed} is needed)"
    )


@cache
def gpu_of(device: torch.device) -> Gpu:
    """The GPU that a device of torch's is; `obstacle` must be None."""
    from triton import knobs  # not everybody has it

    return Gpu(
        device=device,
        target=target_of(torch.cuda.get_device_properties(device)),
        compile=_compiled,
        stream=devices.RAW_STREAM.get(),
        current=devices.CURRENT_DEVICE.get() if torch.cuda.device_count() > 1 else None,
        guard=torch.cuda.device,
        enter=knobs.runtime.launch_enter_hook,
        leave=knobs.runtime.launch_exit_hook,
        seconds=seconds,
        is_capturing=torch.cuda.is_current_stream_capturing,
    )


def target_of(properties: Any) -> Target:
    """What choices depend on, as torch says it of a device."""
    return Target(
        capability=(properties.major, properties.minor),
        processors=properties.multi_processor_count,
        shared=getattr(properties, "shared_memory_per_block_optin", None) or 48 << 10,
        cache=getattr(properties, "L2_cache_size", None) or H200.cache,
        warp=getattr(properties, "warp_size", None) or 32,
    )


def _compiled(source: Source, config: Config, target: Target, aligned: Sequence[bool]) -> Binary:
    from jitpkg.codegen.triton.ahead import compiled  # it imports Triton

    return compiled(source, config, target, aligned)


def seconds(launch: Callable[[], None]) -> float:
    """How long a launch takes, by the device's own clock: of several batches the median."""
    for _ in range(_WARMING):
        launch()
    event: Any = torch.cuda.Event
    ends = [[event(enable_timing=True) for _ in range(2)] for _ in range(_BATCHES)]
    for begin, end in ends:
        begin.record()
        for _ in range(_LAUNCHES):
            launch()
        end.record()
    torch.cuda.synchronize()
    milliseconds: float = median(begin.elapsed_time(end) for begin, end in ends)
    return milliseconds / (1000 * _LAUNCHES)


_WARMING, _BATCHES, _LAUNCHES = 5, 5, 10
