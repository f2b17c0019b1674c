"""What compiling needs besides Python and torch: looked at, and tried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError

import torch

from jitpkg import cache, config, native
from jitpkg.codegen.cache import folder
from jitpkg.codegen.triton import gpu, version
from jitpkg.doctor import trial
from jitpkg.doctor.finding import Finding, State, examined
from jitpkg.internals import Row, telling
from jitpkg.internals.table import ROWS
from jitpkg.messages import counted, size
from jitpkg.native import llvm, selftest


def findings() -> Iterator[Finding]:
    """All of it. The trial comes before the private names: to look all of these up imports much
    of torch that a program does not."""
    yield examined("LLVM", _llvm)
    yield examined("Triton", _triton)
    yield examined("GPU", _gpu)
    yield examined("cache", _cache)
    yield examined("settings", _settings, State.BROKEN)
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    with telling(missing=False, untested=False):  # the report does
        for device in devices:
            yield trial.finding(device)
        yield examined("internals", _internals)


def _llvm() -> Finding:
    why = native.why_not()
    if why is not None:
        return Finding("LLVM", f"{why}; on the CPU, graphs run op by op", State.LESS)
    found = llvm.llvm()
    numbers = ".".join(map(str, found.binding.llvm_version_info))
    text = f"{numbers}, of llvmlite {found.version}, for {found.cpu}"
    if native.binding() == "tensors":
        return Finding("LLVM", text)
    return Finding(
        "LLVM",
        text,
        State.LESS,
        (f"calls of kernels are slower: {selftest.outcome().why_pointers}",),
    )


def _triton() -> Finding:
    try:
        return Finding("Triton", version.installed())
    except PackageNotFoundError:
        return Finding("Triton", "not installed; it is for GPUs only")


def _gpu() -> Finding:
    if not torch.cuda.is_available():
        return Finding("GPU", "none that this PyTorch can use")
    numbers = range(torch.cuda.device_count())
    names = ", ".join(map(torch.cuda.get_device_name, numbers))
    obstacles = (gpu.obstacle(torch.device("cuda", number)) for number in numbers)
    whys = dict.fromkeys(why for why in obstacles if why is not None)
    details = tuple(f"graphs run op by op: {why}" for why in whys)
    return Finding("GPU", names, State.LESS if details else State.FINE, details)


def _cache() -> Finding:
    found = cache.info()
    if found.trouble is None:
        taken = f"{size(found.bytes)} of at most {size(found.limit)}"
        return Finding("cache", f"{found.directory}: {counted(found.files, 'file')}, {taken}")
    is_wanted = os.environ.get(folder.VARIABLE) == folder.OFF
    text = "off" if is_wanted else f"{found.directory}: not used: {found.trouble}"
    return Finding("cache", text, State.FINE if is_wanted else State.LESS)


def _settings() -> Finding:
    known = config.variables()
    given = (f"{name}={os.environ[name]}" for name in sorted(known & set(os.environ)))
    text = ", ".join(given) or "none in the environment"
    if config.current().disable:
        return Finding("settings", text, State.BROKEN, ("nothing is compiled with `disable` on",))
    return Finding("settings", text)


def _internals() -> Finding:
    expected = [row for row in ROWS if row.is_expected]
    missing = [text for row in expected for text in _lack(row)]
    if not missing:
        return Finding("internals", f"{len(expected)} private names of PyTorch's, all there")
    text = f"of {len(expected)} private names of PyTorch's, {len(missing)} missing"
    return Finding("internals", text, State.LESS, tuple(missing))


def _lack(row: Row[object]) -> Iterator[str]:
    why = row.look().why
    if why is not None:
        yield f"{row.name} {why}: {row.lost} (it is for {row.use})"
