"""Sources on a GPU: compiled in threads, loaded, launched on the current stream.

Triton's own `kernel[grid](...)` looks at each argument of each call (10 µs). Here a source has one
function for each *variant*, a binary for pointers (and numbers that vary) that are multiples of 16
or are not; it calls the launcher of the compiled kernel with plain addresses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from math import prod
from types import FunctionType
from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch

from jitpkg import forks, listing, threads
from jitpkg.codegen.ir.extents import example
from jitpkg.codegen.triton.module import cdiv, grid_of, is_empty, plain
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import Target
from jitpkg.dataclass import dataclass

Key = tuple[bool, ...]
"""Whether all pointers are multiples of 16, and for each number whether it is one."""


class CompiledKernel(Protocol):
    """Triton's, as far as it is used."""

    @property
    def run(self) -> Callable[..., None]:
        """The launcher; loads the binary on the current device.

        Raises:
            OutOfResources: the kernel needs more than the device has.
        """
        ...

    function: int
    packed_metadata: Any

    def launch_metadata(self, grid: Sequence[int], stream: int, *args: Any) -> Any: ...


class Binary(Protocol):
    """See `ahead.Binary`."""

    @property
    def kernel(self) -> CompiledKernel: ...

    @property
    def resources(self) -> Any: ...

    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device, and what launching asks of torch and Triton. Tests put others in their place."""

    device: torch.device
    target: Target
    compile: Callable[[Source, Config, Target, Sequence[bool]], Binary]
    stream: Callable[[int], int]
    """The handle of a device's current stream."""
    current: Callable[[], int] | None
    """The number of the current device; None where there is but one."""
    guard: Callable[[torch.device], AbstractContextManager[Any]]
    enter: Any
    """Triton's chain of hooks that are called before each launch."""
    leave: Any
    """And behind it."""
    seconds: Callable[[Callable[[], None]], float]
    """How long a launch takes."""
    is_capturing: Callable[[], bool]
    """Whether launches are recorded: nothing may be measured then."""


class Launches:
    """Runs sources on a GPU."""

    def __init__(self, gpu: Gpu, *, tunes: bool = False) -> None:
        self._gpu = gpu
        self._tunes = tunes
        self._entries: WeakValueDictionary[Source, _Entry] = WeakValueDictionary()

    def runner(self, source: Source, written: int) -> Callable[..., None]:
        return self._entry(source, written).function

    def wait(self, source: Source) -> tuple[float, str]:
        entry = self._entries[plain(source)]
        entry.wait()
        return entry.seconds, entry.resources

    def _entry(self, source: Source, written: int) -> _Entry:
        key = plain(source)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(source, written, self._gpu, self._tunes)
        return entry


class _Entry:
    """A source with its variants."""

    def __init__(self, source: Source, written: int, gpu: Gpu, tunes: bool) -> None:
        self._source = source
        self._written = written
        self._gpu = gpu
        self._tunes = tunes and len(source.configs) > 1
        self._lock = forks.lock()
        self._variants: dict[Key | bool, Callable[..., None]] = {}
        usual = (True, *(example(number) % 16 == 0 for number in source.numbers))
        self._usual: Key = usual
        configs = source.configs if self._tunes else source.configs[:1]
        self.seconds = 0.0
        """What the usual variant took to compile."""
        self.resources = ""
        """What it takes of the device, in words."""
        self._begun: dict[tuple[Key, Config], Future[Binary]] = {
            (usual, config): _pool().submit(self._compiled, usual, config) for config in configs
        }
        self.function: Callable[..., None] = self._entry_point()

    def wait(self) -> None:
        """Have the usual variant, or all that it is chosen of."""
        with self._lock:
            if self._variants:
                return
            if not self._tunes:
                self._add(self._usual, self._fitting(self._usual))
                return
        self._kernel(self._usual, self._source.configs[0])
        for begun in self._begun.values():
            begun.exception()

    # Variants

    def _compiled(self, key: Key, config: Config) -> Binary:
        source = self._source
        aligned = [key[0]] * len(source.pointers) + list(key[1:])
        return self._gpu.compile(source, config, self._gpu.target, aligned)

    def _kernel(self, key: Key, config: Config) -> CompiledKernel:
        """Compiled, and loaded on the device."""
        begun = self._begun.get((key, config))
        binary = self._compiled(key, config) if begun is None else begun.result()
        if not self.resources:
            self.seconds, self.resources = binary.seconds, str(binary.resources)
        with self._gpu.guard(self._gpu.device):
            _ = binary.kernel.run
        return binary.kernel

    def _fitting(self, key: Key) -> tuple[Config, CompiledKernel]:
        """The first config, or else the next smaller one of which the device has enough."""
        first, *others = self._source.configs
        smaller = sorted(others, key=_size, reverse=True)
        candidates = [first, *(config for config in smaller if _size(config) < _size(first))]
        for config in candidates[:-1]:
            try:
                return config, self._kernel(key, config)
            except Exception as error:
                if not is_too_much(error):
                    raise
        return candidates[-1], self._kernel(key, candidates[-1])

    def _new(self, key: Key | bool, given: Sequence[Any]) -> Callable[..., None]:
        """The variant for a call that none fits yet."""
        with self._lock:
            if key not in self._variants:
                every = key if isinstance(key, tuple) else (key,)
                tunes = self._tunes and not self._gpu.is_capturing()
                chosen = self._fastest(every, given) if tunes else self._fitting(every)
                self._add(every, chosen)
            return self._variants[key]

    def _add(self, key: Key, chosen: tuple[Config, CompiledKernel]) -> None:
        self._variants[key if len(key) > 1 else key[0]] = self._variant(*chosen)
        self._begun.clear()

    def _fastest(self, key: Key, given: Sequence[Any]) -> tuple[Config, CompiledKernel]:
        """By measurement; what a launch writes goes to copies."""
        count = len(self._source.pointers)
        tensors, numbers = given[:count], given[count:]
        kept = count - self._written
        tensors = (*tensors[:kept], *map(_copy, tensors[kept:]))
        args = (*(tensor.data_ptr() for tensor in tensors), *numbers)
        found: list[tuple[float, int, tuple[Config, CompiledKernel]]] = []
        refused: Exception | None = None
        for k, config in enumerate(self._source.configs):
            try:
                kernel = self._kernel(key, config)
            except Exception as error:
                if not is_too_much(error):
                    raise
                refused = error
                continue
            launch = self._variant(config, kernel)
            found.append((self._gpu.seconds(lambda run=launch: run(*args)), k, (config, kernel)))  # type: ignore[misc]
        if not found:
            assert refused is not None
            raise refused
        return min(found)[2]

    # Text

    def _entry_point(self) -> Callable[..., None]:
        """Of tensors and numbers: chooses the variant."""
        source = self._source
        pointers = [f"p{k}" for k in range(len(source.pointers))]
        tensors = [f"x{k}" for k in range(len(source.pointers))]
        numbers = [f"n{k}" for k in range(len(source.numbers))]
        key = f"not ({' | '.join(pointers)}) & 15" if pointers else "True"
        if numbers:
            key = f"({key}, {', '.join(f'not {n} & 15' for n in numbers)})"
        given, args = ", ".join([*tensors, *numbers]), ", ".join([*pointers, *numbers])
        lines = [f"{p} = {x}.data_ptr()" for p, x in zip(pointers, tensors, strict=True)]
        lines += [f"key = {key}", f"(variants.get(key) or new(key, [{given}]))({args})"]
        held = {"variants": self._variants, "new": self._new}
        return _function(source.name, f"{source.name}.variants", given, lines, held)

    def _variant(self, config: Config, kernel: CompiledKernel) -> Callable[..., None]:
        """Of addresses and numbers: launches."""
        source, gpu = self._source, self._gpu
        args = [f"p{k}" for k in range(len(source.pointers))]
        args += [f"n{k}" for k in range(len(source.numbers))]
        given = ", ".join(args)
        held: dict[str, Any] = {
            **dict(config.blocks),
            **dict(source.constants),
            "cdiv": cdiv,
            "run": kernel.run,
            "function": kernel.function,
            "packed": kernel.packed_metadata,
            "stream": gpu.stream,
            "enter": gpu.enter,
            "leave": gpu.leave,
            "metadata": kernel.launch_metadata,
        }
        lines: list[str] = []
        if source.numbers:
            grid = [f"g{k}" for k in range(len(source.grid))]
            lines += [f"{g} = {text}" for g, text in zip(grid, source.grid, strict=True)]
            lines.append(f"if not ({' and '.join(grid)}): return")
        else:
            sizes = grid_of(source, config, {})
            if is_empty(sizes):
                return _function(source.name, f"{source.name}.launch", given, ["return"], {})
            grid = list(map(str, sizes))
        grid += ["1"] * (3 - len(grid))
        every = ", ".join([*args, *(name for name, _ in (*config.blocks, *source.constants))])
        dims, number = ", ".join(grid), gpu.device.index
        launch = [
            f"at = stream({number})",
            "if enter.calls or leave.calls:",
            f"    said = metadata(({dims}), at, {every})",
            f"    run({dims}, at, function, packed, said, enter, leave, {every})",
            f"else: run({dims}, at, function, packed, None, None, None, {every})",
        ]
        if gpu.current is None:
            lines += launch
        else:
            held |= {"current": gpu.current, "guard": gpu.guard, "device": gpu.device}
            lines.append(f"if current() != {number}:")
            lines.append("    with guard(device):")
            lines += [f"        {line}" for line in launch]
            lines.append("else:")
            lines += [f"    {line}" for line in launch]
        return _function(source.name, f"{source.name}.launch", given, lines, held)


def _function(
    name: str, file: str, given: str, lines: Sequence[str], held: dict[str, Any]
) -> Callable[..., None]:
    """A function of what is given, with a text that people can read."""
    body = "\n".join(f"    {line}" for line in lines)
    parameters = ", ".join([*([given] if given else []), *(f"{each}={each}" for each in held)])
    text = f"def launch({parameters}):\n{body}\n"
    namespace = dict(held)
    exec(compile(text, listing.file_name(file), "exec"), namespace)
    function: FunctionType = namespace["launch"]
    listing.keep(function, text)
    function.__qualname__ = function.__name__ = name
    return function


def is_too_much(error: Exception) -> bool:
    """Whether the device has not what a kernel needs: with smaller blocks it may have."""
    return type(error).__name__ == "OutOfResources"


def _size(config: Config) -> tuple[int, int]:
    return prod(block for _, block in config.blocks), config.warps * config.stages


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Of the same layout in memory."""
    made = torch.empty_strided(
        tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    return made.copy_(tensor)


@cache
def _pool() -> ThreadPoolExecutor:
    """Triton's compiler lets other threads run, and what it calls is a process of its own."""
    return ThreadPoolExecutor(_THREADS, "jitpkg-triton", threads.begin)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # it has none of the threads


_THREADS = 8
