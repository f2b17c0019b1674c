"""The programs of `examples/programs`, longer than in the tests: eager and compiled take turns.

Each runs twice at the same time, in processes of its own, of which one is stopped while the other
runs; what counts is CPU time of all of a program's processes, compiling included.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rounds

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "examples" / "programs"
RUN = ("-m", "jitpkg", "run")
TRANSFORMERS = (*RUN, "--include", "transformers.models,transformers.generation,__main__")
TICK = os.sysconf("SC_CLK_TCK")
STEP = re.compile(rb"^step \d+: ", re.MULTILINE)
PRECISE = 0.05
"""Seconds for which CPU time is not read again: that takes longer than some programs' steps."""

TRIAL = 6.0
"""About how many seconds a first run takes that measures a step."""

STEADY, AHEAD = 1.1, 10.0
"""What compiled code may take per step, over eager code; and by how many seconds eager may win."""


@dataclass(frozen=True)
class Case:
    """A program at a size at which compiling may pay."""

    title: str
    script: str
    arguments: Callable[[int], Sequence[object]]
    """For a number of steps."""
    each: float
    """About what a step takes eagerly, in seconds: for a first run that measures it."""
    compiled: tuple[str, ...] = ("--compile",)
    python: tuple[str, ...] = ()
    quick: int = 3
    """Steps of a quick run."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of both, eager and compiled."""

    def command(self, steps: int, *, compiled: bool) -> list[str]:
        arguments = [str(each) for each in self.arguments(steps)]
        python, more = (self.python, self.compiled) if compiled else ((), ())
        return [sys.executable, *python, str(PROGRAMS / self.script), *arguments, *more]


def nanogpt(steps: int) -> list[object]:
    shape = ["--n_layer=4", "--n_head=4", "--n_embd=128", "--block_size=64", "--batch_size=8"]
    every = ["--eval_interval=100", "--log_interval=1", f"--lr_decay_iters={steps}"]
    return [*shape, *every, f"--max_iters={steps}"]


def images(model: str) -> Callable[[int], list[object]]:
    shape = ["--model", model, "--img-size", 32, "--width", 64, "--depth", 4]

    def arguments(steps: int) -> list[object]:
        return [*shape, "-b", 16, "--examples", 320, "--epochs", max(2, steps // 20)]

    return arguments


def trainer(model: str) -> Callable[[int], list[object]]:
    shape = ["--hidden-size", 128, "--layers", 4, "--batch-size", 16, "--examples", 320]
    return lambda steps: ["--model", model, *shape, "--max-steps", steps]


def llama(mode: str) -> Callable[[int], list[object]]:
    shape = ["--hidden-size", 128, "--layers", 4, "--new-tokens", 32]
    return lambda steps: ["--mode", mode, *shape, "--prompts", steps]


PLAIN_MALLOC = {"MKL_DISABLE_FAST_MM": "1"}
"""Of a program that forks after threads have computed. Without it, children of the eager program
were seen to hang, in MKL's own allocator."""

CASES = (
    Case("nanoGPT, training", "nanogpt/train.py", nanogpt, 0.25, (), RUN),
    Case(
        "nanoGPT, sampling",
        "nanogpt/sample.py",
        lambda steps: ["--n_layer=4", "--n_embd=128", "--block_size=64", f"--num_samples={steps}"],
        0.4,
        ("--compile=True",),
    ),
    *(
        Case(f"Trainer, {name}, by {way}", "hf_trainer.py", trainer(model), 0.2, given)
        for name, model in (("BERT", "bert"), ("GPT-2", "gpt2"))
        for way, given in (("compile", ("--compile", "jitpkg")), ("auto", ("--compile", "auto")))
    ),
    *(
        Case(f"Llama, {mode}", "llama_generate.py", llama(mode), 0.12)
        for mode in ("greedy", "sample", "static", "beams")
    ),
    Case("Llama, beams, by run", "llama_generate.py", llama("beams"), 0.12, (), TRANSFORMERS),
    Case("ViT", "train_images.py", images("vit"), 0.1),
    Case("ResNet", "train_images.py", images("resnet"), 0.08),
    Case("ResNet, by run", "train_images.py", images("resnet"), 0.08, (), RUN),
    Case(
        "UNet, sampling",
        "diffusion_sample.py",
        lambda steps: ["--size", 24, "--channels", 16, 32, "--steps", min(steps, 1000)],
        0.1,
    ),
    Case(
        "LSTM",
        "lstm_lm.py",
        lambda steps: [
            *("--emsize", 96, "--nhid", 96, "--bptt", 24, "--batch-size", 16),
            *("--tokens", 16 * 24 * 50, "--epochs", max(1, steps // 50)),
        ],
        0.05,
    ),
    Case(
        "graph network",
        "graph_network.py",
        lambda steps: [
            *("--width", 64, "--layers", 3, "--graphs", 512, "--batch-size", 16),
            *("--epochs", max(1, steps // 24), "--patience", 10000),
        ],
        0.03,
    ),
    Case(
        "PPO", "ppo.py", lambda steps: ["--total-timesteps", 512 * steps, "--num-steps", 128], 0.3
    ),
    Case("PPO, by run", "ppo.py", lambda steps: ["--total-timesteps", 256 * steps], 0.15, (), RUN),
    Case("scikit-learn", "sklearn_pipeline.py", lambda steps: ["--rounds", steps], 0.01),
    Case("notebook", "notebook.py", lambda steps: ["--rounds", max(1, steps // 28)], 0.0022),
    Case(
        "processes",
        "processes.py",
        lambda steps: ["--rounds", max(1, steps // 7)],
        0.65,
        environment=PLAIN_MALLOC,
    ),
    *(
        Case(
            f"two ranks, {way}",
            "distributed.py",
            lambda steps, way=way: [
                *("--way", way, "--width", 128, "--depth", 4, "--examples", 640),
                *("--epochs", max(1, steps // 20)),
            ],
            0.02,
        )
        for way in ("ddp", "all_reduce")
    ),
)


@dataclass
class Contestant:
    """A program that runs, all of its processes in a session of their own."""

    process: subprocess.Popen[bytes]
    marks: list[float] = field(default_factory=list)
    """CPU seconds of all processes at each step, to within `PRECISE`."""
    out: bytes = b""
    err: bytes = b""
    total: float = 0.0
    status: int | None = None
    _readers: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def started(cls, command: list[str], folder: Path, **variables: str) -> Contestant:
        folder.mkdir()
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | variables
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # pip leaves bytecode, as of torch
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        contestant = cls(process)
        for read in (contestant._read_out, contestant._read_err):
            thread = threading.Thread(target=read, daemon=True)
            thread.start()
            contestant._readers.append(thread)
        return contestant

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        self.out = self.process.stdout.read()

    def _read_err(self) -> None:
        assert self.process.stderr is not None
        used = looked = 0.0
        for line in self.process.stderr:
            if not STEP.match(line):
                self.err += line
                continue
            if time.monotonic() - looked > PRECISE:
                used = max(used, self.cpu())  # nothing is there to be read once it has ended
                looked = time.monotonic()
            self.marks.append(used)

    def cpu(self) -> float:
        """Seconds of all processes that there are, and of those that these have waited for."""
        ticks = 0
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                ticks += ticks_of(folder, self.process.pid)
        return ticks / TICK

    def signal(self, number: signal.Signals) -> None:
        if self.status is None:
            os.killpg(self.process.pid, number)

    def ended(self, seconds: float) -> bool:
        """Whether it is over, after at most so long."""
        if self.status is not None:
            return True
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.total = used.ru_utime + used.ru_stime
                for reader in self._readers:
                    reader.join(5)
                return True
            time.sleep(0.01)
        return False


def ticks_of(folder: Path, session: int) -> int:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0
    return sum(map(int, fields[11:15])) if int(fields[3]) == session else 0


def take_turns(contestants: Sequence[Contestant], slice_seconds: float = 1.0) -> None:
    """Until all have ended, one runs at a time."""
    for contestant in contestants[1:]:
        contestant.signal(signal.SIGSTOP)
    try:
        while not all(contestant.status is not None for contestant in contestants):
            for contestant in contestants:
                contestant.signal(signal.SIGCONT)
                if not contestant.ended(slice_seconds):
                    contestant.signal(signal.SIGSTOP)
    finally:
        for contestant in contestants:
            contestant.signal(signal.SIGCONT)
            contestant.signal(signal.SIGKILL)


@dataclass(frozen=True)
class Row:
    """What two runs of a program took."""

    title: str
    eager: Contestant
    compiled: Contestant
    steps: int
    begins: int
    """The step after which both are in their steady state."""

    @property
    def ahead(self) -> float:
        """Seconds by which eager code is ahead in the end."""
        return self.compiled.total - self.eager.total

    @property
    def steady(self) -> float | None:
        """Time per step over that of eager code."""
        if self.begins >= self.steps - 1:
            return None
        a, b = (c.marks[-1] - c.marks[self.begins] for c in (self.eager, self.compiled))
        return b / a if a else None

    @property
    def first(self) -> float:
        """Seconds to the end of the first tenth of the steps, over those of eager code."""
        at = max(0, self.begins // 4)
        return self.compiled.marks[at] - self.eager.marks[at]

    def __str__(self) -> str:
        steady = self.steady
        ratio = "-" if steady is None else f"{steady:.2f}"
        bad = self.ahead > AHEAD or (steady is not None and steady > STEADY)
        return (
            f"{self.title:24}{self.steps:7}{self.eager.total:9.1f}{self.compiled.total:9.1f}"
            f"{self.ahead:+9.1f}{self.begins:9}{ratio:>9}{'  *' if bad else ''}"
        )


def begins(contestants: Sequence[Contestant], seconds: float, steps: int) -> int:
    """The first step after both limits, in every one of them."""
    late = max(sum(mark < seconds for mark in c.marks) for c in contestants)
    return max(late, steps)


def each_step(case: Case) -> float:
    """Seconds that a step takes eagerly on this machine."""
    steps = max(case.quick, round(TRIAL / case.each))
    with tempfile.TemporaryDirectory(prefix="jitpkg-programs-") as folder:
        command = case.command(steps, compiled=False)
        trial = Contestant.started(command, Path(folder, "trial"), **case.environment)
        take_turns([trial])
    failed_if_so(trial)
    marks = trial.marks
    between = (marks[-1] - marks[0]) / (len(marks) - 1) if len(marks) > 1 else 0.0
    return between * len(marks) / steps or case.each


def failed_if_so(contestant: Contestant) -> None:
    if contestant.status:
        raise RuntimeError(contestant.err.decode()[-2000:])


def measured(case: Case, steps: int, arguments: argparse.Namespace) -> Row:
    with tempfile.TemporaryDirectory(prefix="jitpkg-programs-") as folder:
        contestants = [
            Contestant.started(
                case.command(steps, compiled=compiled),
                Path(folder, str(compiled)),
                JITPKG_CACHE_DIR=str(Path(folder, "cache")),
                JITPKG_BACKEND=arguments.backend,
                **case.environment,
            )
            for compiled in (False, True)
        ]
        take_turns(contestants)
    for contestant in contestants:
        failed_if_so(contestant)
    count = min(len(contestant.marks) for contestant in contestants)
    eager, compiled = contestants
    return Row(
        case.title, eager, compiled, count, begins(contestants, arguments.seconds, arguments.steps)
    )


def enough(case: Case, arguments: argparse.Namespace) -> int:
    """Steps of which half are in the steady state."""
    return round(max(arguments.steps * 1.25, 2 * arguments.seconds / each_step(case)))


def main(given: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="programs", description="Whole programs.")
    rounds.add_arguments(parser)
    parser.add_argument("--seconds", type=float, default=30.0, help="that a program warms up")
    parser.add_argument("--steps", type=int, default=200, help="that a program warms up")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.seconds, arguments.steps = 0.0, 1
    print("CPU seconds of whole programs, with empty caches; steady: time per step after the")
    print(f"first {arguments.seconds:g} s or {arguments.steps} steps, whichever is later,")
    print(f"compiled / eager. * is over {STEADY}, or more than {AHEAD:g} s behind eager code.\n")
    print(f"{'':24}{'steps':>7}{'eager':>9}{'compiled':>9}{'more':>9}{'begins':>9}{'steady':>9}")
    for case in CASES:
        if not rounds.chosen(case.title, arguments.only):
            continue
        try:
            steps = case.quick if arguments.quick else enough(case, arguments)
            print(measured(case, steps, arguments), *map("=".join, case.environment.items()))
            sys.stdout.flush()
        except RuntimeError as error:
            print(f"{case.title:24}  fails: {str(error).strip().splitlines()[-1]}", flush=True)
