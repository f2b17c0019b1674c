"""What a program's end tells: by events that the tests emit, and of programs as users run them."""

from __future__ import annotations

import re
import signal
import textwrap
from pathlib import Path

import pytest

from jitpkg import events
from jitpkg.errors import Break, Location
from jitpkg.report import Report, nothing, suggestion
from jitpkg.tracer.reasons import CATALOGUE, RAISES
from tests.auto.support import HOOKED, run

PRINTED = next(reason for reason in CATALOGUE if reason.code == "B106")


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def entry(report: Report, function: str, number: int, calls: int, seconds: float) -> str:
    name = f"{function}#{number}"
    report(events.Traced(function, name, seconds / 2))
    report(events.GraphCompiled(function, name, None, 3, seconds / 4))
    report(events.EntryAdded(function, name, (), (), "", seconds / 4, lambda: calls))
    return name


def test_tables() -> None:
    clock = Clock()
    report = Report(clock)
    step = entry(report, "step", 0, 100, 2.0)
    report(events.Measured("step", step, 1e-3, 3e-3, 2.0))
    broken = entry(report, "Net.forward", 0, 40, 1.0)
    location = Location("/somewhere/site-packages/net.py", "forward", 7)
    report(events.Broke("Net.forward", Break(PRINTED, "print()", (location,)), broken))
    report(events.Broke("Net.forward", Break(RAISES, ""), broken[:-1] + "1"))
    entry(report, "Net.forward", 1, 39, 0.5)
    report(events.Measured("Net.forward", broken, 2e-3, 1.75e-3, 1.0))
    report(events.Traced("tried", "tried#0", 0.25))
    report(events.GivenBack("read", "no tensor"))
    report(events.GivenBack("Net.forward", "it gains nothing", 9))
    report(events.Postponed("later", "too much is owed"))
    report(events.LimitReached("often", 8, ()))
    report(events.FellBack("odd", ValueError("here")))
    report(events.ModuleSeen("textwrap", 0, "it is excluded"))
    report(events.ModuleSeen("not_there", 0, "it is excluded"))
    report(events.ModuleSeen("own", 3))
    clock.now = 20.0
    waiting = [("main", "called once"), ("read", "not said")]
    assert report.text(waiting, "Do this.", lambda file: "textwrap" in file) == (
        textwrap.dedent("""\
        jitpkg compiled 2 functions into 3 graphs in 3.75 s of the 20 s that the program ran.
        Measured gain: 190 ms.

        Function     Graphs  Entries  Calls  Compiling    Gain
        step              1        1    100        2 s  200 ms
        Net.forward       2        2     79      1.5 s  -10 ms

        Graph break           Passed  Why
        net.py:7, in forward      40  B106: something is printed: print()

        Left alone
          main: called once
          read: no tensor
          Net.forward: from line 9 on: it gains nothing
          later: not compiled for some calls: too much is owed
          often: calls that fit no entry: there are 8 already
          odd: jitpkg failed: ValueError: here
          module textwrap: it is excluded

        Do this.""")
    )


def test_long_tables_are_cut() -> None:
    report = Report(Clock())
    for k in range(30):
        entry(report, f"f{k}", 0, 1, 30.0 - k)
    lines = report.text().splitlines()
    assert lines[-2].startswith("f19 ")
    assert lines[-1] == "… and 10 more"


def test_nothing_was_compiled() -> None:
    clock = Clock()
    report = Report(clock)
    clock.now = 1.5
    assert report.text() == "jitpkg compiled nothing in the 1.5 s that the program ran."
    assert nothing([], None) is None
    assert nothing([("f", "called once")], "Do this.") == (
        "jitpkg compiled nothing of this program: f, for one, was called once"
        " (JITPKG_LOGS=auto tells more).\nDo this."
    )
    assert suggestion([], ["__main__"], by_variable=False) is None


# Programs

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.made = torch.ones(3) + 1

    def forward(self, x):
        x = self.layer(x).relu()
        print(end="")
        return x.sum() * 2

def scaled(x):
    return x * 2
"""

TRAIN = """
import torch
from net import Net, scaled

def main():
    model = Net()
    for k in range(12):
        model(scaled(torch.ones(2, 4)))

main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def rows(text: str) -> dict[str, list[str]]:
    return {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line}


def test_a_report(folder: Path) -> None:
    ended = run(folder, *HOOKED, "--report", "train.py")
    assert (ended.status, ended.out) == (0, "")
    found = rows(ended.err)
    assert re.match(
        r"jitpkg compiled 2 functions into 3 graphs in .* that the program ran\.", ended.err
    )
    assert found["Net.forward"][1:4] == ["2", "2", "22"]
    assert found["scaled"][1:4] == ["1", "1", "11"]
    assert found["scaled"][-2:] == ["not", "measured"]
    assert found["net.py:12, in forward"][3] == "11"
    assert "  main: called once, and is compiled when it is called again\n" in ended.err
    assert "__init__" not in ended.err


def test_what_is_logged(folder: Path) -> None:
    ended = run(folder, *HOOKED, "train.py", JITPKG_LOGS="auto")
    said = [line for line in ended.err.splitlines() if "installed" not in line]
    assert said == [
        "[jitpkg.auto] module __main__: 1 function may be compiled",
        "[jitpkg.auto] module net: 2 functions may be compiled",
        "[jitpkg.auto] scaled: compiled from its call 2 on that sees a tensor",
        "[jitpkg.auto] Net.forward: compiled from its call 2 on that sees a tensor",
        "[jitpkg.auto] main: not compiled: called once, and is compiled when it is called again",
    ]
    assert "[jitpkg.auto] module torch: left alone: it is installed" in ended.err.splitlines()


def test_without_a_question_nothing_is_said(folder: Path) -> None:
    assert run(folder, *HOOKED, "train.py").err == ""


@pytest.mark.parametrize("way", ["run", "auto"])
def test_a_model_of_an_installed_package(tmp_path: Path, way: str) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "net.py").write_text(NET)
    first = "import sys; sys.path.insert(0, 'site-packages')\n"
    (tmp_path / "train.py").write_text(f"{first}import jitpkg.auto\n{TRAIN}")
    hooked = HOOKED if way == "run" else ()
    ended = run(tmp_path, *hooked, "train.py")
    last = ended.err.splitlines()[-1]
    patterns = "__main__,net" if way == "run" else "net"
    how = f"--include {patterns}" if way == "run" else f"JITPKG_INCLUDE={patterns}"
    assert last == (
        f"Models of installed packages ran as they are: net. To compile them, too: {how}"
    )
    assert ended.err.startswith("jitpkg compiled nothing of this program")
    again = run(tmp_path, *hooked, "train.py", JITPKG_INCLUDE=patterns, JITPKG_LOGS="auto")
    assert "[jitpkg.auto] Net.forward: compiled from its call 2 on" in again.err
    assert "To compile them" not in again.err


def test_a_program_without_tensors_is_told_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("def f():\n    return 1\nprint([f(), f()])\n")
    assert run(tmp_path, *HOOKED, "plain.py").err == ""


def test_a_program_that_is_interrupted(folder: Path) -> None:
    with (folder / "train.py").open("a") as file:
        file.write("raise KeyboardInterrupt\n")
    ended = run(folder, *HOOKED, "--report", "train.py")
    assert ended.status == -signal.SIGINT
    assert ended.err.count("jitpkg compiled 2 functions") == 1


def test_a_process_that_is_forked_tells_nothing(folder: Path) -> None:
    (folder / "forks.py").write_text(
        "import multiprocessing, os, sys\n"
        "from train import main\n"
        "if __name__ == '__main__':\n"
        "    if os.fork() == 0: sys.exit()\n"
        "    os.wait()\n"
        "    multiprocessing.get_context('spawn').Process(target=main).start()\n"
    )
    ended = run(folder, *HOOKED, "--report", "forks.py")
    assert ended.err.count("jitpkg compiled 2 functions") == 1
    assert ended.err.count("jitpkg compiled") == 1
