"""`python -m jitpkg doctor`: what it says of an installation, whatever is missing there."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import doctor
from jitpkg.code import versions as pythons
from jitpkg.doctor import parts, trial
from jitpkg.internals import aot, decompositions, modes, row, versions
from jitpkg.internals.table import ROWS

ROOT = Path(jitpkg.__file__).parents[1]
LABELS = (
    *("Python", "jitpkg", "PyTorch", "LLVM", "Triton", "GPU", "cache", "settings"),
    *("trial", "internals"),
)


@pytest.fixture(autouse=True)
def _kernels() -> Any:
    with jitpkg.config.patch(backend="jitpkg"):
        yield


def examined() -> dict[str, doctor.Finding]:
    return {finding.label: finding for finding in doctor.examine()}


def main(*arguments: str) -> int:
    """The exit status of the command, without the import hook, which comes with its module."""
    cli = importlib.import_module("jitpkg.cli")
    importlib.import_module("jitpkg.auto").uninstall()
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def run(before: str, *command: str) -> subprocess.CompletedProcess[str]:
    """The command, or other code, in a fresh interpreter in which something was done before."""
    program = f"import sys\n{before}\n"
    if command:
        program += f"sys.argv = ['jitpkg', *{command!r}]\nfrom jitpkg.cli import main\nmain()"
    environment = {"PYTHONPATH": str(ROOT), "JITPKG_BACKEND": "jitpkg", "JITPKG_STRICT": "0"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def marks(text: str) -> dict[str, str]:
    """The mark of each line that has a label."""
    labelled = (line for line in text.splitlines() if line[2:3].strip())
    return {line[2:].split()[0]: line[0] for line in labelled if line[2:].split()[0] in LABELS}


def test_a_whole_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    text = capsys.readouterr().out
    assert tuple(marks(text)) == LABELS
    assert set(marks(text).values()) == {" "}
    assert text.endswith("\njitpkg works here.\n")
    assert f"PyTorch    {torch.__version__}\n" in text
    assert f"jitpkg     {jitpkg.__version__}, in " in text
    assert "1 graph, 2 kernels, in " in text
    expected = sum(each.is_expected for each in ROWS)
    assert f"internals  {expected} private names of PyTorch's, all there\n" in text


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["works"] is True
    assert tuple(each["label"] for each in told["findings"]) == LABELS
    assert {each["state"] for each in told["findings"]} == {"fine"}


# Private names of PyTorch's


@pytest.mark.parametrize("gone", [modes.ANY_AUTOCAST, decompositions.LSTM_LAYER, aot.MODULE])
def test_a_name_that_takes_something_away(
    gone: row.Row[Any], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with gone.removed():
        status = main()
    text = capsys.readouterr().out
    assert (status, marks(text)["internals"]) == (0, "!")
    assert f"{gone.name} is missing (AttributeError: " in text
    assert f"): {gone.lost} (it is for {gone.use})" in text
    assert text.endswith("\njitpkg works here, with less where a line is marked !.\n")
    assert not [r for r in caplog.records if r.name.startswith("jitpkg")]  # the report says it


@pytest.mark.parametrize("gone", [modes.DISPATCH_DEPTH, modes.TRANSFORMS])
def test_a_name_that_takes_all_away(gone: row.Row[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with gone.removed():
        status = main()
    text = capsys.readouterr().out
    assert (status, marks(text)["trial"], marks(text)["internals"]) == (1, "X", "!")
    assert f"nothing was compiled\n{'':13}Missing: {gone.name} is missing" in text
    assert text.endswith("\nNo function is compiled here, because of what is marked X.\n")


# Versions


NEWER = 'import torch; torch.__version__ = "9.0.0+cpu"'
SENTENCE = "PyTorch 9.0.0 is newer than what this version of jitpkg was tested with"
RANGE = f"({versions.OLDEST} to {versions.NEWEST})"


def test_a_torch_that_is_newer_gets_a_sentence() -> None:
    told = run(NEWER, "doctor")
    assert told.returncode == 0
    assert told.stderr == ""
    assert marks(told.stdout)["PyTorch"] == "!"
    assert told.stdout.count(SENTENCE) == 1


def test_a_program_on_a_torch_that_is_newer_is_told_once() -> None:
    told = run(
        f"""{NEWER}
import jitpkg
f = jitpkg.jit(lambda x: x + 1)
g = jitpkg.jit(lambda x: x * 2)
print("before", file=sys.stderr)
print((f(torch.ones(2)) + g(torch.ones(2)) + f(torch.ones(3, 3))[0, :2]).tolist())
"""
    )
    assert (told.returncode, told.stdout) == (0, "[6.0, 6.0]\n")
    assert told.stderr.splitlines() == [
        "before",
        f"{SENTENCE} {RANGE}. `python -m jitpkg doctor` says whether anything is missing.",
    ]


def test_a_version_and_a_missing_name_are_one_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(versions, "remark", lambda: "PyTorch 9 is new")
    f = jitpkg.compile(lambda x: x + 1)
    with row.telling(missing=True, untested=True), modes.DISPATCH_DEPTH.removed():
        f(torch.ones(2))
        jitpkg.compile(lambda x: x + 1)(torch.ones(2))
    (said,) = caplog.messages
    assert said.startswith(f"PyTorch 9 is new. There {modes.DISPATCH_DEPTH.name} is missing")


def test_a_tested_version_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), row.telling(missing=True, untested=True):
        row.say_if_untested()
    assert not caplog.messages


def test_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pythons, "PYTHON", (3, 99))
    found = next(iter(doctor.examine()))
    assert found.state is doctor.State.BROKEN
    assert found.text.endswith("; jitpkg needs CPython 3.11 to 3.13")


# What is not there, or does not work


def test_no_torch() -> None:
    told = run('sys.modules["torch"] = None', "doctor")
    assert (told.returncode, told.stderr) == (1, "")
    assert marks(told.stdout) == {"Python": " ", "jitpkg": " ", "PyTorch": "X"}
    assert "PyTorch    cannot be imported: " in told.stdout
    assert told.stdout.endswith("\nNo function is compiled here, because of what is marked X.\n")


def test_a_torch_in_which_jitpkg_cannot_be_imported() -> None:
    told = run("import torch; del torch.Tensor", "doctor")
    assert (told.returncode, told.stderr) == (1, "")
    assert "X compiler   cannot be imported: " in told.stdout


def test_no_llvm() -> None:
    told = run('sys.modules["llvmlite"] = None', "doctor")
    assert (told.returncode, told.stderr) == (0, "")
    found = marks(told.stdout)
    assert (found["LLVM"], found["trial"], found["internals"]) == ("!", "!", " ")
    assert "`pip install jitpkg[cpu]` brings it" in told.stdout
    assert "1 graph, 0 kernels, in " in told.stdout


def _cache_that_cannot_be_used() -> Any:
    return jitpkg.cache.Info(Path("/nowhere"), 1, trouble="it is read-only")


def _failing() -> Any:
    raise RuntimeError("two\nlines")


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (_cache_that_cannot_be_used, "/nowhere: not used: it is read-only"),
        (_failing, "RuntimeError: two lines"),
    ],
)
def test_no_cache(monkeypatch: pytest.MonkeyPatch, info: Callable[[], Any], text: str) -> None:
    monkeypatch.setattr(parts.cache, "info", info)
    found = examined()["cache"]
    assert (found.text, found.state) == (text, doctor.State.LESS)


def test_a_cache_that_is_off_is_as_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITPKG_CACHE_DIR", "off")
    monkeypatch.setattr(parts.cache, "info", _cache_that_cannot_be_used)
    found = examined()
    assert (found["cache"].text, found["cache"].state) == ("off", doctor.State.FINE)
    assert "JITPKG_CACHE_DIR=off" in found["settings"].text


def test_compiling_is_switched_off() -> None:
    with jitpkg.config.patch(disable=True):
        found = examined()
    assert found["settings"].state is found["trial"].state is doctor.State.BROKEN
    assert found["settings"].details == ("nothing is compiled with `disable` on",)


def test_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial.api, "compile", lambda f: lambda x: f(x) + 1e-3)
    found = examined()["trial"]
    assert (found.text, found.state) == ("on cpu, the result is wrong", doctor.State.BROKEN)


def test_the_other_backend() -> None:
    with jitpkg.config.patch(backend="eager"):
        found = examined()["trial"]
    assert found.text.startswith("on cpu, backend eager: 1 graph, 0 kernels, in ")
    assert found.state is doctor.State.FINE


def test_a_setting_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITPKG_VERBOSE", "maybe")
    told = run(
        'import runpy; sys.argv = ["", "doctor"]; runpy.run_module("jitpkg", None, "__main__")'
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == "JITPKG_VERBOSE='maybe' is not a switch; give 1 or 0.\n"
