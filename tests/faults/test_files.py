"""Every kind of corruption, file, owner and mode, as `tests.faults.files` has them."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import files
from tests.native.support import needs_llvm


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    """A pipe that is opened for reading would wait for ever."""
    if hasattr(signal, "alarm"):
        signal.alarm(60)
    yield
    if hasattr(signal, "alarm"):
        signal.alarm(0)


@pytest.mark.parametrize("name", files.CHANGES)
def test_in_place_of_an_entry(tmp_path: Path, name: str) -> None:
    assert files.in_place_of_an_entry(tmp_path / "cache", files.CHANGES[name]) is None


@pytest.mark.parametrize("name", files.FOLDERS)
def test_the_folder(tmp_path: Path, name: str) -> None:
    wrong = files.in_such_a_folder(tmp_path / "above" / "cache", files.FOLDERS[name])
    assert wrong is None


@needs_llvm
@pytest.mark.parametrize(
    "name", ["garbage", "a pipe", "a folder", "a link to a whole entry", "that all may write"]
)
def test_all_entries_of_the_backend(tmp_path: Path, name: str) -> None:
    assert files.every_entry_so(tmp_path / "cache", files.CHANGES[name]) is None
