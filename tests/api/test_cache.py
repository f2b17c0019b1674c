"""`jitpkg.cache`, and `python -m jitpkg cache`."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import jitpkg
from jitpkg.codegen import cache as store
from tests.codegen.cache.support import key_of


def main(arguments: list[str]) -> None:
    """The command, without the import hook, which comes with its module."""
    cli = importlib.import_module("jitpkg.cli")
    importlib.import_module("jitpkg.auto").uninstall()
    cli.main(arguments)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache directory of this process."""
    monkeypatch.setenv("JITPKG_CACHE_DIR", str(tmp_path / "kernels"))
    store.kernels.cache_clear()
    yield tmp_path / "kernels"
    store.kernels.cache_clear()


def three(place: Path) -> None:
    for k in range(3):
        store.kernels().put(key_of(k), bytes(5000))
    os.utime(place / key_of(0), (1e9, 1e9))


def test_what_is_kept_is_counted(place: Path) -> None:
    assert jitpkg.cache.info() == jitpkg.cache.Info(place, 512 << 20)
    three(place)
    found = jitpkg.cache.info()
    assert (found.directory, found.files, found.bytes) == (place, 3, 3 * 8192)
    assert found.oldest == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    assert found.newest is not None
    assert abs(found.newest - datetime.now(UTC)) < timedelta(minutes=5)
    assert found.trouble is None


def test_what_is_kept_is_removed(place: Path) -> None:
    three(place)
    assert jitpkg.cache.clear() == 3
    assert jitpkg.cache.clear() == 0
    assert jitpkg.cache.info().files == 0
    assert list(place.iterdir()) == []


def test_the_command_shows_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["cache"])
    assert capsys.readouterr().out.splitlines() == [
        f"directory  {place}",
        "files      0",
        "size       0 bytes of at most 512.0 MiB",
    ]
    three(place)
    main(["cache", "info"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["files      3", "size       24 KiB of at most 512.0 MiB"]
    assert lines[3].startswith("last used  2")
    assert "; the oldest 2001-09-" in lines[3]


def test_the_command_shows_it_as_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three(place)
    main(["cache", "--json"])
    found = json.loads(capsys.readouterr().out)
    newest = datetime.fromisoformat(found.pop("newest"))
    assert abs(newest - datetime.now(UTC)) < timedelta(minutes=5)
    assert found == {
        "directory": str(place),
        "limit": 512 << 20,
        "files": 3,
        "bytes": 3 * 8192,
        "oldest": "2001-09-09T01:46:40+00:00",
        "trouble": None,
    }


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["clear"], "3 files removed from {}\n"), (["clear", "--json"], '{{"removed": 3}}\n')],
)
def test_the_command_removes_it(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    three(place)
    main(["cache", *arguments])
    assert capsys.readouterr().out == text.format(place)
    assert jitpkg.cache.info().files == 0


def test_a_directory_that_is_not_private(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    three(place)
    place.chmod(0o777)
    main(["cache"])
    text = f"others may write into {place} (its mode is 0777)"
    assert capsys.readouterr().out == f"directory  {place}\nnot used   {text}\n"
    with pytest.raises(SystemExit, match="The cache cannot be cleared: others may write into"):
        main(["cache", "clear"])
    assert (place / key_of(0)).exists()


def test_the_command_needs_no_torch(place: Path) -> None:
    """It answers at once."""
    program = """
import runpy, sys
sys.argv[1:] = ["cache"]
runpy.run_module("jitpkg", run_name="__main__")
assert "torch" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(Path(jitpkg.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.startswith(f"directory  {place}\n")


@pytest.mark.parametrize("arguments", [["cache", "burn"], ["cache", "clear", "x"], ["cash"]])
def test_other_commands_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert repr(arguments[-1]) in capsys.readouterr().err or arguments[-1] == "x"
