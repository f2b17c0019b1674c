"""The benchmarks run, and print a row for each program; what they compute of times is right."""

import argparse
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]

ROWS = [
    *["x + 1", "3 tensors", "20 scalars", "40 attributes", "8 entries in turn"],
    *["MLP of 10 modules", "MLP of 100 modules", "20 module classes", "transformer block"],
    *["10 modules with grad", "100 parameters"],
    *["one break", "print in a loop of 100"],
]


@pytest.mark.timeout(300)
def test_benchmarks_run() -> None:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    calls, rest = run.stdout.split("Compiling and the first call")
    first_calls, starts = rest.split("From the start of a new process")
    assert [row for row in ROWS if f"\n{row} " not in calls] == []
    assert [row for row in ROWS if f"\n{row} " not in first_calls] == []
    starts, tracing = starts.split("Tracing a model")
    assert "\nx + 1 " in starts
    assert "\nResNet-like " in tracing
    assert "\nimport jitpkg: " in starts


def run(*arguments: str) -> str:
    """What the program prints, without torch.compile, of the backend that runs ops one by one."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), *arguments]
    done = subprocess.run(
        [*command, "--quick", "--no-compile", "--backend", "eager"],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kernels_are_measured_in_both_directions() -> None:
    shown = run(
        "kernels", "--only", "layer norm", "transposed", "--dtype", "bfloat16", "--size", "64"
    )
    forward, backward = shown.split("\nforward, bfloat16, 64 x 64")[1].split("\nforward + backward")
    for section in (forward, backward):
        assert "\nlayer norm " in section
        assert "\ntransposed input " in section
        assert "fails" not in section
        assert "differs" not in section
    assert "jitpkg failed" not in shown


def test_ops_in_a_row() -> None:
    shown = run("pointwise", "--only", "tan", "sum, dim 1", "add", "--all")
    rows, means = shown.split("\nSpeed over eager")
    for title in ("tan", "sum, dim 1", "add", "add 1"):
        row = next(
            line for line in rows.splitlines() if line.startswith(f"{title}, float32, small ")
        )
        eager, ours, _, speed, _ = row.split()[-5:]
        assert all(float(each) > 0 for each in (eager, ours, speed))
    assert "fails" not in shown
    assert "\ngroup two inputs " in means


def test_first_calls_in_new_processes() -> None:
    shown = run("coldstart", "--only", "pointwise")
    row = next(line for line in shown.splitlines() if line.startswith("pointwise chain"))
    eager, *_, ours, warm = row.split()[2:8]
    assert float(ours) > float(eager) >= 0  # to hundredths of a second
    assert float(warm) > 0


def test_models_and_launches() -> None:
    shown = run("models", "--only", "MLP", "launch")
    for title in ("MLP, inference", "MLP, training", "x + 1"):
        assert f"\n{title} " in shown
    assert "fails" not in shown


def test_guessed_branches() -> None:
    shown = run("guesses", "--size", "8")
    for title in ("early exit", "NaN check"):
        line = next(line for line in shown.splitlines() if line.startswith(f"{title} "))
        guessed, broken, *_ = line.removeprefix(title).split()
        assert (guessed, broken) == ("1", "2")
    assert "jitpkg failed" not in shown


def test_compile_time_is_fitted_and_plotted(tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    shown = run("compile-time", "--only", "chains", "--plot", str(plot))
    assert "\nchain of 100 ops " in shown
    assert " ms per op, " in shown
    drawn = ElementTree.parse(plot).getroot()
    circles = drawn.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 3


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the modules of the benchmarks be imported."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.mark.usefixtures("modules")
def test_a_straight_line_is_found_again() -> None:
    compile_time = importlib.import_module("compile_time")
    fixed, each = compile_time.fit([(n, 0.5 + 0.002 * n) for n in (1, 10, 100, 5000)])
    assert (fixed, each) == pytest.approx((0.5, 0.002))


@pytest.mark.usefixtures("modules")
def test_the_interval_of_a_median_holds_19_of_20() -> None:
    rounds = importlib.import_module("rounds")
    found = rounds.estimate(range(15, 0, -1))
    assert (found.median, found.low, found.high) == (8, 4, 12)  # a sign test's ranks for 15
    assert rounds.estimate([3.0]) == rounds.Estimate(3.0, 3.0, 3.0)


@pytest.mark.usefixtures("modules")
def test_ratios_are_of_two_times_in_one_round() -> None:
    rounds = importlib.import_module("rounds")
    slow = [1, 10, 2]
    timing = rounds.Timing({"a": slow, "b": [2 * t for t in slow], "c": [3 * t for t in slow]})
    assert timing.speed("a", "b").median == 2
    assert timing.speed("c", "a").high == pytest.approx(1 / 3)
    assert timing.speed_over_best("c", ["a", "b"]).median == pytest.approx(1 / 3)
    assert rounds.geomean([2, 8]) == pytest.approx(4)


def test_without_a_gpu_the_benchmark_of_gpus_says_so() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "gpu"]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("There is no GPU here")


def test_the_benchmark_of_gpus_runs() -> None:
    shown = run("gpu", "--device", "cpu", "--only", "layer norm", "MLP", "--dtype", "float32")
    kernel = next(line for line in shown.splitlines() if line.startswith("layer norm"))
    assert kernel.count("[") == 2
    assert shown.count("\nMLP ") == 2
    assert "jitpkg has 90% of copy bandwidth in" in shown


@pytest.mark.usefixtures("modules")
def test_what_a_program_needs_of_its_environment_is_set_for_both(tmp_path: Path) -> None:
    whole_programs = importlib.import_module("whole_programs")
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys\nprint('step 0: 1 ms', file=sys.stderr)\nprint(os.environ['A_B'])"
    )
    case = whole_programs.Case("a", str(script), lambda steps: [], 1.0, environment={"A_B": "c"})
    arguments = argparse.Namespace(backend="jitpkg", seconds=0.0, steps=1)
    row = whole_programs.measured(case, 1, arguments)
    assert (row.eager.out, row.compiled.out) == (b"c\n", b"c\n")
    (processes,) = (case for case in whole_programs.CASES if case.title == "processes")
    assert processes.environment == {"MKL_DISABLE_FAST_MM": "1"}


def test_steps_of_optimizers_are_measured() -> None:
    shown = run("optimizers", "--only", "SGD, momentum, 100")
    (row,) = [line for line in shown.splitlines() if line.startswith("SGD, momentum, 100 of 64")]
    assert len(re.findall(r"\d+\.\d+", row)) == 8  # four contestants, a ratio with bounds, a start


def test_whole_steps_are_measured() -> None:
    shown = run("steps", "--only", "MLP")
    (row,) = [line for line in shown.splitlines() if line.startswith("MLP")]
    assert len(re.findall(r"-?\d+\.\d+", row)) == 7  # two times, a ratio with bounds, two starts
    assert "over eager" in shown
