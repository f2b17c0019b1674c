"""`jitpkg.cache`, and `python -m jitpkg cache`."""

import importlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import jitpkg
from jitpkg.codegen import cache as store
from tests.auto import support
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


def elsewhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another cache directory, of this process from now on."""
    other = place.with_name("other")
    monkeypatch.setenv("JITPKG_CACHE_DIR", str(other))
    store.kernels.cache_clear()
    return other


@pytest.mark.parametrize("as_json", [False, True])
def test_exported_and_imported(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    three(place)
    file = place.with_name("kernels.zip")
    flags = ["--json"] if as_json else []
    main(["cache", "export", str(file), *flags])
    other = elsewhere(place, monkeypatch)
    store.kernels().put(key_of(1), b"its own")
    main(["cache", "import", str(file), *flags])
    said = f"3 files exported to {file}\n2 files imported into {other}\n"
    assert capsys.readouterr().out == ('{"exported": 3}\n{"imported": 2}\n' if as_json else said)
    assert [store.kernels().get(key_of(k)) for k in range(3)] == [
        bytes(5000),
        b"its own",
        bytes(5000),
    ]
    assert jitpkg.cache.import_from(str(file)) == 0
    assert {each.name for each in file.parent.iterdir()} == {"kernels", "kernels.zip", "other"}


def test_equal_caches_give_equal_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three(place)
    files = [place.with_name(f"{k}.zip") for k in range(2)]
    assert jitpkg.cache.export_to(files[0]) == 3
    elsewhere(place, monkeypatch)
    jitpkg.cache.import_from(files[0])
    assert jitpkg.cache.export_to(files[1]) == 3
    assert files[0].read_bytes() == files[1].read_bytes()


def test_nothing_to_export(place: Path) -> None:
    file = place.with_name("none.zip")
    assert jitpkg.cache.export_to(file) == 0
    assert jitpkg.cache.import_from(file) == 0


COMPILED = """
import torch
import jitpkg

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.BatchNorm1d(4))
jitpkg.compile(model, backend="jitpkg")(torch.ones(8, 4)).sum().backward()
assert jitpkg.stats().graph_count == 1
"""


def test_another_machine_compiles_nothing(place: Path) -> None:
    def run(*arguments: str, folder: str) -> str:
        cache = str(place.with_name(folder))
        ended = support.run(place.parent, *arguments, JITPKG_CACHE_DIR=cache)
        assert ended.status == 0, ended.err
        return ended.out

    def entries(folder: str) -> set[str]:
        return {each.name for each in place.with_name(folder).iterdir() if len(each.name) == 64}

    file = str(place.with_name("kept.zip"))
    run("-c", COMPILED, folder="here")
    assert " files exported to " in run("-m", "jitpkg", "cache", "export", file, folder="here")
    assert " files imported into " in run("-m", "jitpkg", "cache", "import", file, folder="there")
    assert len(entries("here")) >= 4
    assert entries("there") == entries("here")
    (place.with_name("there") / "written").unlink()
    run("-c", COMPILED, folder="there")
    assert entries("there") == entries("here")
    assert not (place.with_name("there") / "written").exists()  # nothing was written


def damaged(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[60] ^= 255
    file.write_bytes(data)


def of_another_version(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = b"jitpkg cache 1"


def with_another_member(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("../../x", b"")


def too_large(file: Path) -> None:
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(key_of("large"), bytes(10_000))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (damaged, "is no file of an export, or damaged"),
        (of_another_version, "format 'jitpkg cache 1', and this jitpkg reads 'jitpkg cache 2'"),
        (with_another_member, "'../../x' is no entry"),
        (too_large, "it holds more than 20000 bytes"),
        (lambda file: file.write_text("x" * 100), "is no file of an export"),
        (lambda file: file.unlink(), "No such file"),
    ],
)
def test_what_is_not_imported(
    place: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], says: str
) -> None:
    three(place)
    file = place.with_name("kernels.zip")
    jitpkg.cache.export_to(file)
    change(file)
    elsewhere(place, monkeypatch)
    store.kernels().limit = 20_000
    with pytest.raises(SystemExit, match=f"Nothing is imported: .*{re.escape(says)}"):
        main(["cache", "import", str(file)])


def test_nowhere_to_export_to_and_import_into(
    place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    three(place)
    with pytest.raises(SystemExit, match=r"The cache cannot be exported: .*No such file"):
        main(["cache", "export", str(tmp_path / "none" / "x.zip")])
    file = tmp_path / "x.zip"
    jitpkg.cache.export_to(file)
    monkeypatch.setenv("JITPKG_CACHE_DIR", "off")
    store.kernels.cache_clear()
    with pytest.raises(SystemExit, match="Nothing is imported: no directory"):
        main(["cache", "import", str(file)])


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import"], "cache import takes a file"),
        (["export", "--json"], "cache export takes a file"),
        (["clear", "x"], "cache clear takes no file"),
        (["info", "x"], "cache info takes no file"),
    ],
)
def test_files_that_are_missing_or_too_many(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cache", *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
