"""The backend `jitpkg` with a cache in every state: right results; at worst it compiles again."""

import errno
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import jitpkg
from jitpkg import native
from jitpkg.codegen import cache
from jitpkg.errors import JitpkgWarning
from tests.codegen.cache.support import failing
from tests.native.support import needs_llvm

pytestmark = needs_llvm

KERNELS = 2
"""Of `scaled`."""

X = torch.linspace(-3, 3, 60).reshape(6, 10)


def scaled(x: torch.Tensor) -> torch.Tensor:
    y = torch.softmax(x * 2 + 1, -1)
    return y * x.sum(0).sigmoid()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of this process, which has the kernels of `scaled`."""
    for name in ("start", "kernels"):  # what the process itself needs first is not in the second
        monkeypatch.setenv("JITPKG_CACHE_DIR", str(tmp_path / name))
        begin_anew()
        run()
    begin_anew()
    yield tmp_path / "kernels"
    begin_anew()


def begin_anew() -> None:
    """What a new process does."""
    cache.kernels.cache_clear()


def run() -> None:
    compiled = jitpkg.compile(scaled, backend="jitpkg")
    torch.testing.assert_close(compiled(X), scaled(X))


@pytest.fixture
def compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that LLVM gets from now on."""
    texts: list[str] = []
    compile_ir = native.compile_ir
    monkeypatch.setattr(native, "compile_ir", lambda text: texts.append(text) or compile_ir(text))
    return texts


def files_in(place: Path) -> list[Path]:
    """A file for the graph, and one for each kernel."""
    return [file for file in place.iterdir() if file.name not in ("written", "claims")]


def test_a_new_process_compiles_nothing(place: Path, compiled: list[str]) -> None:
    run()
    assert len(files_in(place)) == 1 + KERNELS
    assert not compiled


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "cut off": lambda whole: whole[:-100],
    "one bit": lambda whole: whole[:600] + bytes([whole[600] ^ 4]) + whole[601:],
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_all_files_are_corrupted(place: Path, compiled: list[str], change: str) -> None:
    for file in files_in(place):
        file.write_bytes(CHANGES[change](file.read_bytes()))
    run()
    assert len(compiled) == KERNELS
    begin_anew()
    run()
    assert len(compiled) == KERNELS


@pytest.mark.parametrize("change", CHANGES)
def test_each_file_is_corrupted(place: Path, compiled: list[str], change: str) -> None:
    """The kernels are needed without the graph only, and the graph is made of the kernels."""
    whole = {file: file.read_bytes() for file in files_in(place)}
    for file, data in whole.items():
        file.write_bytes(CHANGES[change](data))
        begin_anew()
        run()
        assert not compiled
        file.write_bytes(data)


def test_all_is_cleared(place: Path, compiled: list[str]) -> None:
    jitpkg.cache.clear()
    run()
    assert compiled


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing(
    place: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    jitpkg.cache.clear()
    monkeypatch.setattr(os, "open", failing(code, lambda name, flags: bool(flags & os.O_CREAT)))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
        first = len(compiled)
        run()
    assert [w.category for w in seen] == [JitpkgWarning]
    assert os.strerror(code) in str(seen[0].message)
    assert seen[0].filename == __file__
    assert 0 < first == len(compiled)


def test_a_directory_that_others_may_write(place: Path, compiled: list[str]) -> None:
    place.chmod(0o777)
    with pytest.warns(JitpkgWarning, match="others may write into") as seen:
        run()
    assert len(seen) == 1
    assert compiled
