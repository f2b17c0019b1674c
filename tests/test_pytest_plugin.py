"""The pytest plugin, in test suites of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

MODEL = """
import torch

def layer(x):
    return torch.tanh(x) * 2

def prints(x):
    x = x + 1
    print("here")
    return x * 2

def compiled_calls():
    return layer.__code__.co_consts
"""

SUITE = """
import pytest, torch
import jitpkg
from model import layer, prints

def test_layer():
    x = torch.rand(3)
    assert torch.equal(layer(x), torch.tanh(x) * 2), "as eager"

@pytest.mark.parametrize("n", [2, 3])
def test_prints(n, capsys):
    assert prints(torch.ones(n)).tolist() == [4.0] * n
    assert capsys.readouterr().out == "here\\n"

def test_assertions_are_rewritten():
    with pytest.raises(AssertionError, match="assert 1 == 2"):
        assert 1 == 2
"""


def run(folder: Path, suite: str, *arguments: str) -> tuple[int, str]:
    """pytest's exit status, and what it has printed."""
    (folder / "model.py").write_text(MODEL)
    (folder / "test_model.py").write_text(suite)
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("JITPKG_NEVER")},
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "JITPKG_BACKEND": "eager",
    }
    command = [sys.executable, "-m", "pytest", "-p", "jitpkg.pytest_plugin", "-q", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout + done.stderr


def test_what_tests_import_is_compiled(tmp_path: Path) -> None:
    status, told = run(tmp_path, SUITE, "--jitpkg")
    assert status == 0, told
    assert "4 passed" in told
    assert "2 functions compiled" in told and "recompilation" in told
    assert "B106: something is printed" in told and "model.py:9" in told
    assert "test_model" not in told.partition("= jitpkg =")[2]


def test_without_the_option_nothing_is(tmp_path: Path) -> None:
    status, told = run(tmp_path, SUITE)
    assert (status, "= jitpkg =" in told) == (0, False), told


@pytest.mark.parametrize(
    ("option", "compiled"),
    [("--jitpkg-include=model", 2), ("--jitpkg-include=other", 0), ("--jitpkg-exclude=model", 0)],
)
def test_modules_are_chosen(tmp_path: Path, option: str, compiled: int) -> None:
    status, told = run(tmp_path, SUITE, "--jitpkg", option)
    assert status == 0, told
    assert f"{compiled} functions compiled" in told


def test_workers_tell_together(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    status, told = run(tmp_path, SUITE, "--jitpkg", "-p", "xdist", "-n", "2")
    assert status == 0, told
    assert "2 functions compiled" in told and "B106" in told


MARKS = """
import pytest, torch
import jitpkg
from model import layer, prints

@pytest.mark.jitpkg(breaks=0)
def test_one_graph():
    jitpkg.compile(layer)(torch.ones(2))

@pytest.mark.jitpkg(breaks=0)
def test_breaks():
    jitpkg.compile(prints)(torch.ones(2))

@pytest.mark.jitpkg(breaks=1)
def test_may_break():
    jitpkg.compile(prints)(torch.ones(2))

@pytest.mark.jitpkg(recompiles=0)
def test_compiled_again():
    compiled = jitpkg.compile(layer)
    for n in 2, 3:
        compiled(torch.ones(n))

@pytest.mark.jitpkg(recompiles=0, assume_static_by_default=False)
class TestMarkedClass:
    def test_sizes_vary(self):
        compiled = jitpkg.compile(layer)
        for n in 2, 3:
            compiled(torch.ones(n))

    @pytest.mark.jitpkg(recompiles=None)
    def test_the_closest_mark_holds(self):
        compiled = jitpkg.compile(layer)
        for n in 2, 1:
            compiled(torch.ones(n))

@pytest.mark.jitpkg(breaks=0)
def test_its_own_failure_is_told():
    jitpkg.compile(prints)(torch.ones(2))
    raise ValueError("mine")

@pytest.mark.jitpkg(break_=0)
def test_misspelt():
    pass

def test_seen(jitpkg_seen):
    jitpkg.compile(prints)(torch.ones(2))
    assert jitpkg_seen.graphs == 2
    assert [each.reason.code for each in jitpkg_seen.breaks] == ["B106"]
    assert not jitpkg_seen.recompiles
"""


def test_marks(tmp_path: Path) -> None:
    status, told = run(tmp_path, MARKS, "-rA", "--strict-markers")
    assert status == 1, told
    passed = {line.split("::")[-1] for line in told.splitlines() if line.startswith("PASSED")}
    assert passed == {
        *("test_one_graph", "test_may_break", "test_sizes_vary", "test_the_closest_mark_holds"),
        "test_seen",
    }, told
    assert "1 graph break, and at most 0 allowed:\n  B106: something is printed" in told
    assert "1 recompilation, and at most 0 allowed:\n  layer: x has size 3 in dim 0" in told
    assert "ValueError: mine" in told and "No setting 'break_'" in told


def test_it_reads_nothing_before_it_is_asked() -> None:
    """It is loaded before any conftest.py, which may set what `jitpkg.config` reads."""
    code = (
        "import sys, jitpkg.pytest_plugin;"
        "assert not {'torch', 'jitpkg.config', 'jitpkg.auto'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
