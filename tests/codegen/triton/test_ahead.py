"""Kernels compiled without a GPU: what they take of one, why one is refused, where they are kept.

The kernels here are written by hand; those that are printed have tests of their own.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")

from jitpkg.codegen.cache.folder import place  # noqa: E402
from jitpkg.codegen.triton import folder  # noqa: E402
from jitpkg.codegen.triton.ahead import ATTEMPTS, CannotCompile, compiled, options  # noqa: E402
from jitpkg.codegen.triton.elsewhere import compiled_elsewhere  # noqa: E402
from jitpkg.codegen.triton.jobs import Job, job_of, job_text  # noqa: E402
from jitpkg.codegen.triton.resources import Resources, kept_beside, resources  # noqa: E402
from jitpkg.codegen.triton.source import Config, Source  # noqa: E402
from jitpkg.codegen.triton.target import A100, H200  # noqa: E402
from jitpkg.codegen.triton.version import release  # noqa: E402

POINTWISE = Source(
    name="add_relu",
    text="""
import triton
import triton.language as tl


@triton.jit
def add_relu(p0, p1, p2, n0, X: tl.constexpr):
    i = tl.program_id(0) * X + tl.arange(0, X)
    mask = i < n0
    a = tl.load(p0 + i, mask)
    b = tl.load(p1 + i, mask).to(tl.float32)
    tl.store(p2 + i, tl.maximum(a + b, 0.0, propagate_nan=tl.PropagateNan.ALL), mask)
""",
    pointers=(torch.float32, torch.bfloat16, torch.float32),
    numbers=(1000,),
    wide=False,
    grid=("cdiv(n0, X)",),
    configs=(Config((("X", 1024),), warps=4),),
)

SOFTMAX = Source(
    name="softmax",
    text="""
import triton
import triton.language as tl


@triton.jit
def softmax(p0, p1, X: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    i = tl.arange(0, X)
    mask = i < COLUMNS
    x = tl.load(p0 + row + i, mask, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(p1 + row + i, e / tl.sum(e, 0), mask)
""",
    pointers=(torch.float32, torch.float32),
    numbers=(),
    wide=False,
    grid=("64",),
    configs=(Config((("X", 1024),), warps=4),),
    constants=(("COLUMNS", 1000),),
)

SPILLING = replace(
    SOFTMAX, configs=(Config((("X", 8192),), warps=1),), constants=(("COLUMNS", 8100),)
)
"""A thread holds 256 elements of a row and has 255 registers."""

SINE = replace(
    POINTWISE,
    name="add_relu",
    text=POINTWISE.text.replace("a + b", "tl.sin(a + b)")
    .replace(
        "import triton\n", "import triton\nfrom triton.language.extra.cuda import libdevice\n", 1
    )
    .replace("tl.sin", "libdevice.sin"),
)
"""Has an array on its stack, for large arguments; Triton 3.9 does without."""

WRONG = replace(SOFTMAX, text=SOFTMAX.text.replace("tl.exp(", "tl.no_such_thing("))


def job(source: Source, target: object = H200, aligned: bool = True) -> Job:
    count = len(source.pointers) + len(source.numbers)
    return Job(source, source.configs[0], target, (aligned,) * count)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def outcomes() -> list:
    jobs = [
        job(POINTWISE),
        job(POINTWISE, target=A100),
        job(SOFTMAX),
        job(SOFTMAX, target=A100),
        job(SPILLING),
        job(WRONG),
        job(SINE),
    ]
    return compiled_elsewhere(jobs)


def test_resources_are_those_of_the_binary(outcomes: list) -> None:
    for outcome in outcomes[:4]:
        assert not outcome.error
        assert 0 < outcome.resources.registers < 64
        assert outcome.resources.spilled == 0
    assert outcomes[2].resources.shared > 0  # the four warps of a row meet there


def test_a_spill_is_seen(outcomes: list) -> None:
    spilling = outcomes[4].resources
    assert spilling.registers == 255
    assert spilling.spilled > 0
    assert "spilled" in str(spilling)


def test_an_array_on_the_stack_is_no_spill(outcomes: list) -> None:
    assert not outcomes[6].error
    if release() < (3, 9):
        assert outcomes[6].resources.stack > 0
    assert outcomes[6].resources.spilled == 0


def test_a_kernel_that_triton_refuses_says_why_and_harms_no_other(outcomes: list) -> None:
    assert outcomes[5].resources is None
    assert "no_such_thing" in outcomes[5].error


def test_a_job_goes_through_text() -> None:
    told = job_of(job_text(job(POINTWISE)))
    assert told.source.text == POINTWISE.text
    assert told.source.pointers == POINTWISE.pointers
    assert (told.config, told.target) == (POINTWISE.configs[0], H200)
    assert told.aligned == (True,) * 4


class Uncopied(int):
    """As a size of a graph that AOTAutograd has made."""

    def __deepcopy__(self, memo: object) -> None:
        raise TypeError("it is one of its kind")


def test_a_job_of_any_numbers_goes_through_text() -> None:
    told = job_of(job_text(job(replace(POINTWISE, numbers=(Uncopied(5),)))))
    assert told.source.numbers == (0,)


def test_a_process_that_interprets_says_that_it_cannot_compile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(triton.knobs.runtime, "interpret", True)
    with pytest.raises(CannotCompile, match="TRITON_INTERPRET"):
        compiled(SOFTMAX, SOFTMAX.configs[0], H200, aligned=[True])


def test_asserts_are_compiled_where_a_kernel_has_some() -> None:
    checked = replace(SOFTMAX, text=SOFTMAX.text + "\n# tl.device_assert\n")
    assert not options(SOFTMAX, SOFTMAX.configs[0])["debug"]
    assert options(checked, SOFTMAX.configs[0])["debug"]


def test_resources_are_asked_for_once(tmp_path: Path) -> None:
    program = tmp_path / "cuobjdump"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/log\necho ' REG:32 STACK:8 LOCAL:0'\n")
    program.chmod(0o700)
    cubin = tmp_path / "add.cubin"
    cubin.touch()
    wanted = Resources(registers=32, spilled=4, shared=16, stack=8)
    for _ in range(2):
        assert resources(str(program), cubin, 16, lambda: 4) == wanted
    assert (tmp_path / "log").read_text() == "asked\n"
    kept_beside(cubin).write_text('{"registers": 3')  # cut off by a crash
    assert resources(str(program), cubin, 16, lambda: 4) == wanted
    assert (tmp_path / "log").read_text() == "asked\n" * 2
    assert sorted(file.suffix for file in tmp_path.iterdir()) == ["", "", ".cubin", ".resources"]


def test_a_kernel_of_which_nothing_can_be_found_out_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "cuobjdump"
    program.write_text("#!/bin/sh\necho 'Cuda tools, release 12.9, V12.9.86'\n")
    program.chmod(0o700)
    monkeypatch.setenv("TRITON_CUOBJDUMP_PATH", str(program))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (outcome,) = compiled_elsewhere([job(POINTWISE)])
    assert outcome.resources is None
    assert "cuobjdump says of a kernel: 'Cuda tools" in outcome.error
    assert "cannot compile" not in outcome.error
    assert list(tmp_path.glob("cache/*/add_relu.cubin"))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """What the cache is told of kernels below `tmp_path`."""
    sizes: list[int] = []
    monkeypatch.setattr(folder, "own_folder", lambda: tmp_path)
    monkeypatch.setattr(folder, "kernels", lambda: SimpleNamespace(note=sizes.append))
    return sizes


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """The folder of one."""
    made = tmp_path / "KERNEL"
    made.mkdir()
    (made / "add.cubin").write_bytes(bytes(5000))
    return made


def test_the_use_of_a_kernel_is_noted(tmp_path: Path, noted: list[int], kernel: Path) -> None:
    folder.note_made(kernel)
    assert noted == [8192]
    folder.note_made(tmp_path.parent)  # of the user's own
    assert noted == [8192]
    os.utime(kernel, (1e9, 1e9))
    folder.note_used(kernel)
    assert kernel.stat().st_mtime > 1.5e9


def test_what_another_thread_is_writing_does_not_count(
    tmp_path: Path, noted: list[int], kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compiles the same kernel: its temporary files go as we look at them."""
    scanned, listed = os.scandir, os.listdir

    def beside(look: Callable[[Any], Iterable[Any]], path: Any) -> list[Any]:
        (kernel / "tmp.pid_1").mkdir()
        found = list(look(path))
        (kernel / "tmp.pid_1").rmdir()
        return found

    monkeypatch.setattr(os, "scandir", lambda at: contextlib.nullcontext(iter(beside(scanned, at))))
    monkeypatch.setattr(os, "listdir", lambda at: beside(listed, at))
    folder.note_made(kernel)
    assert noted == [8192]
    folder.note_made(tmp_path / "GONE")
    assert noted == [8192]


@pytest.mark.parametrize(("failures", "fails"), [(1, False), (9, True)])
def test_a_kernel_whose_folder_goes_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, fails: bool
) -> None:
    """Another process cleans the cache, and takes it for one that nobody has used for long."""
    calls: list[object] = []

    def compile_(*given: object, **named: object) -> object:
        calls.append(given)
        if len(calls) <= failures:
            raise FileNotFoundError("tmp.pid_1/softmax.ttir")
        return SimpleNamespace(metadata_group={})

    monkeypatch.setattr(triton.knobs.runtime, "interpret", False)
    monkeypatch.setattr(triton, "compile", compile_)
    found: object = None
    with pytest.raises(CannotCompile, match=r"tmp\.pid") if fails else contextlib.nullcontext():
        found = compiled(SOFTMAX, SOFTMAX.configs[0], H200, aligned=[True])
    assert (found is None) is fails
    assert len(calls) == (ATTEMPTS if fails else 2)


def kept_at() -> str:
    return str(triton.knobs.cache.dir)


def test_triton_keeps_kernels_in_our_cache_while_it_compiles_for_us(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    before = kept_at()
    with folder.kept_in_own_folder():
        with folder.kept_in_own_folder():
            inside = kept_at()
        assert kept_at() == inside
        assert "TRITON_CACHE_DIR" not in os.environ
    assert kept_at() == before
    assert Path(inside).stat().st_mode & 0o777 == 0o700
    asked = place()
    assert asked is None or Path(inside) == asked / "triton"


def test_where_the_user_lets_triton_keep_kernels_it_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with folder.kept_in_own_folder():
        assert kept_at() == str(tmp_path)
    assert kept_at() == str(tmp_path)
