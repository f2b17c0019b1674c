"""Launching, recorded: what would be launched on which stream, with which binary."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jitpkg.codegen.triton.launch import Gpu, Launches
from jitpkg.codegen.triton.source import Config, Source
from jitpkg.codegen.triton.target import H200, Target
from tests.codegen.triton.sources import POINTWISE, SOFTMAX


class OutOfResources(Exception):
    """As Triton's."""


@dataclass
class Recorder:
    """A device that does nothing, and remembers what it was to do."""

    devices: int = 1
    largest: int = 1 << 30
    """A config with larger blocks does not fit."""
    stream: int = 7
    current: int = 0
    capturing: bool = False
    compiled: list[tuple[str, tuple[int, ...], tuple[bool, ...]]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    launches: list[tuple[Any, ...]] = field(default_factory=list)
    timed: list[int] = field(default_factory=list)

    def gpu(self, index: int = 0) -> Gpu:
        return Gpu(
            device=torch.device("cuda", index),
            target=H200,
            compile=self._compile,
            stream=lambda device: self.stream * 10 + device,
            current=(lambda: self.current) if self.devices > 1 else None,
            guard=self._guard,
            enter=self.Chain(),
            leave=self.Chain(),
            seconds=self._seconds,
            is_capturing=lambda: self.capturing,
        )

    @dataclass
    class Chain:
        calls: list[Any] = field(default_factory=list)

    def _compile(
        self, source: Source, config: Config, target: Target, aligned: Sequence[bool]
    ) -> Any:
        assert target is H200
        self.threads.add(threading.current_thread().name)
        blocks = tuple(size for _, size in config.blocks)
        self.compiled.append((source.name, blocks, tuple(aligned)))
        return SimpleNamespace(
            kernel=Kernel(self, blocks, config), resources="32 registers", seconds=1.5
        )

    @contextmanager
    def _guard(self, device: torch.device) -> Iterator[None]:
        before, self.current = self.current, device.index
        yield
        self.current = before

    def _seconds(self, run: Any) -> float:
        run()
        (*_, last) = self.launches.pop()
        self.timed.append(last)
        return 1 / last if last < 200 else 1.0


class Kernel:
    function = 4321

    def __init__(self, recorder: Recorder, blocks: tuple[int, ...], config: Config) -> None:
        self.recorder = recorder
        self.blocks = blocks
        self.packed_metadata = (config.warps, 1, 0)

    @cached_property
    def run(self) -> Any:
        if max(self.blocks) > self.recorder.largest:
            raise OutOfResources("shared memory")
        device = self.recorder.current

        def run(x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
            assert self.recorder.current == device, "launched on another device"
            assert function == 4321
            self.recorder.launches.append(((x, y, z), stream, *rest))

        return run

    def launch_metadata(self, grid: Any, stream: int, *args: Any) -> Any:
        return grid, stream, args


def test_launches_on_the_current_stream() -> None:
    recorder = Recorder()
    launches = Launches(recorder.gpu())
    run = launches.runner(POINTWISE, 1)
    assert launches.wait(POINTWISE) == (1.5, "32 registers")
    assert recorder.compiled == [("sin_mul", (256,), (True, True))]
    assert all(name.startswith("jitpkg-triton") for name in recorder.threads)
    x, out = torch.randn(1000), torch.empty(1000)
    run(x, out)
    recorder.stream = 8
    run(x, out)
    first, second = recorder.launches
    want = (4, 1, 0), None, None, None, x.data_ptr(), out.data_ptr(), 256
    assert first == ((4, 1, 1), 70, *want)
    assert second == ((4, 1, 1), 80, *want)


def test_pointers_that_are_no_multiples_of_16_have_a_binary_of_their_own() -> None:
    recorder = Recorder()
    launches = Launches(recorder.gpu())
    run = launches.runner(POINTWISE, 1)
    launches.wait(POINTWISE)
    memory, out = torch.randn(1001), torch.empty(1000)
    for x in (memory[1:], memory[:1000], memory[1:]):
        run(x, out)
    assert recorder.compiled == [
        ("sin_mul", (256,), (True, True)),
        ("sin_mul", (256,), (False, False)),
    ]
    assert [launch[6] - memory.data_ptr() for launch in recorder.launches] == [4, 0, 4]


def test_numbers_vary() -> None:
    recorder = Recorder()
    run = Launches(recorder.gpu()).runner(SOFTMAX, 1)
    x, out = torch.randn(8, 8).half(), torch.empty(8, 8).half()
    for rows, columns in ((5, 32), (5, 33), (0, 32), (7, 32)):
        run(x, out, rows, columns)
    assert [launch[0] for launch in recorder.launches] == [(3, 1, 1), (3, 1, 1), (4, 1, 1)]
    assert [launch[-4:] for launch in recorder.launches] == [
        (5, 32, 2, 64),
        (5, 33, 2, 64),
        (7, 32, 2, 64),
    ]
    assert {aligned for _, _, aligned in recorder.compiled} == {  # the usual one by a thread
        (True, True, False, True),
        (True, True, False, False),
        (True, True, True, True),
    }


def test_nothing_is_launched_for_an_empty_grid() -> None:
    recorder = Recorder()
    empty = replace(POINTWISE, grid=("0",))
    Launches(recorder.gpu()).runner(empty, 1)(torch.empty(0), torch.empty(0))
    assert recorder.launches == []


def test_on_the_device_of_the_tensors() -> None:
    recorder = Recorder(devices=2)
    run = Launches(recorder.gpu(1)).runner(POINTWISE, 1)
    x, out = torch.randn(1000), torch.empty(1000)
    run(x, out)
    recorder.current = 1
    run(x, out)
    assert [launch[1] for launch in recorder.launches] == [71, 71]
    assert recorder.current == 1


def test_smaller_blocks_where_there_is_not_enough_of_something() -> None:
    recorder = Recorder(largest=100)
    launches = Launches(recorder.gpu())
    run = launches.runner(POINTWISE, 1)
    launches.wait(POINTWISE)
    run(torch.randn(1000), torch.empty(1000))
    assert recorder.launches[0][0] == (16, 1, 1)
    assert recorder.launches[0][-1] == 64
    launches = Launches(Recorder(largest=10).gpu())
    run = launches.runner(POINTWISE, 1)
    with pytest.raises(OutOfResources):
        launches.wait(POINTWISE)


def test_what_cannot_be_compiled_is_known_before_it_is_called() -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("ptxas")

    launches = Launches(replace(Recorder().gpu(), compile=fails))
    run = launches.runner(POINTWISE, 1)
    with pytest.raises(ValueError, match="ptxas"):
        launches.wait(POINTWISE)
    with pytest.raises(ValueError, match="ptxas"):
        run(torch.randn(1000), torch.empty(1000))


def test_the_fastest_config_is_kept() -> None:
    recorder = Recorder()
    launches = Launches(recorder.gpu(), tunes=True)
    run = launches.runner(POINTWISE, 1)
    launches.wait(POINTWISE)
    assert sorted(blocks for _, blocks, _ in recorder.compiled) == [(64,), (256,)]
    x, out = torch.randn(1000), torch.empty(1000)
    for _ in range(3):
        run(x, out)
    assert recorder.timed == [256, 64]
    assert [launch[-1] for launch in recorder.launches] == [64, 64, 64]
    assert all(launch[6:8] == (x.data_ptr(), out.data_ptr()) for launch in recorder.launches)


def test_nothing_is_measured_while_launches_are_captured() -> None:
    recorder = Recorder(capturing=True)
    run = Launches(recorder.gpu(), tunes=True).runner(POINTWISE, 1)
    run(torch.randn(1000), torch.empty(1000))
    assert recorder.timed == []
    assert [launch[-1] for launch in recorder.launches] == [256]


def test_hooks_of_profilers_are_called() -> None:
    recorder = Recorder()
    gpu = recorder.gpu()
    run = Launches(gpu).runner(POINTWISE, 1)
    x, out = torch.randn(1000), torch.empty(1000)
    gpu.enter.calls.append(print)
    run(x, out)
    ((grid, stream, _, said, enter, leave, *args),) = recorder.launches
    assert (enter, leave) == (gpu.enter, gpu.leave)
    assert said == (grid, stream, tuple(args))


def test_one_binary_for_equal_sources() -> None:
    recorder = Recorder()
    launches = Launches(recorder.gpu())
    runs = [launches.runner(replace(POINTWISE), 1) for _ in range(3)]
    launches.wait(POINTWISE)
    assert len(recorder.compiled) == 1
    assert runs[0] is runs[1] is runs[2]


def test_what_neither_reads_nor_writes() -> None:
    recorder = Recorder()
    launches = Launches(recorder.gpu())
    nothing = replace(POINTWISE, pointers=())
    run = launches.runner(nothing, 0)
    launches.wait(nothing)
    run()
    assert recorder.launches == [((4, 1, 1), 70, (4, 1, 0), None, None, None, 256)]
