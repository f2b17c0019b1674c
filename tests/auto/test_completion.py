"""`jitpkg completion SHELL`: what it prints lets a shell complete our commands."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.auto.support import run

COMPLETES = """
import runpy, sys
sys.argv[1:] = ["completion", sys.argv[1]]
runpy.run_module("jitpkg", run_name="__main__")
assert "torch" not in sys.modules
"""


def printed(shell: str, folder: Path) -> str:
    ended = run(folder, "-c", COMPLETES, shell)
    assert ended.status == 0, ended.err
    return ended.out


def completed(script: Path, words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last word."""
    line = "\n".join(
        (
            f"source {script}",
            f"COMP_WORDS=({' '.join(map(repr, words))})",
            f"COMP_CWORD={len(words) - 1}",
            "_shtab_jitpkg",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        )
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60
    )
    return sorted(ran.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(printed("bash", tmp_path))
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("train.py", "kernels.zip"):
        (folder / name).touch()
    files = ["kernels.zip", "train.py"]
    for words, offered in (
        ([""], ["cache", "completion", "doctor", "explain", "run"]),
        (["ca"], ["cache"]),
        (["run", ""], files),
        (["run", "--rep"], ["--report"]),
        (["run", "--html", "k"], ["kernels.zip"]),
        (["explain", "t"], ["train.py"]),
        (["cache", ""], ["clear", "export", "import", "info"]),
        (["cache", "import", ""], files),
        (["doctor", "--j"], ["--json"]),
    ):
        assert completed(script, ["jitpkg", *words], folder) == offered, words


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_get_a_script(shell: str, tmp_path: Path) -> None:
    script = printed(shell, tmp_path)
    assert all(word in script for word in ("explain", "export", "--html"))


def test_without_shtab(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = importlib.import_module("jitpkg.cli")
    importlib.import_module("jitpkg.auto").uninstall()
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit, match=r"pip install 'jitpkg\[completion\]'"):
        cli.main(["completion", "bash"])
