"""Exceptions of signal handlers at random moments of compiling and running.

Each comes out once; what the interrupted call did happened at most once; the next call is right.
"""

from __future__ import annotations

import copy
import os
import random
import signal
import sys
import time
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import jitpkg
from tests.faults.table import Row


class Timeout(Exception):
    """What a program's handler raises."""


class Missing(AttributeError):
    """One that looks like a guard that does not hold."""


class Out(RuntimeError):
    """One that looks like an op that fails."""


KINDS: tuple[type[Exception], ...] = (Timeout, Missing, Out, KeyError, ValueError)


@dataclass
class Alarm:
    """Raises once, a while after it was set."""

    kind: type[Exception] = Timeout
    fired: int = 0
    """How many exceptions it has raised."""
    ignored: int = 0
    """How many of them Python has printed and dropped: LLVM's objects have a `__del__`."""

    def raises(self, signum: int, frame: types.FrameType | None) -> None:
        self.fired += 1
        raise self.kind(f"alarm {self.fired}")

    def sees_ignored(self, unraisable: sys.UnraisableHookArgs) -> None:
        in_del = getattr(unraisable.object, "__name__", "") == "__del__"
        self.ignored += in_del and "alarm" in str(unraisable.exc_value)

    @contextmanager
    def installed(self) -> Iterator[Alarm]:
        before = signal.signal(signal.SIGALRM, self.raises)
        hook, sys.unraisablehook = sys.unraisablehook, self.sees_ignored
        try:
            yield self
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            sys.unraisablehook = hook


class Net(nn.Module):
    """Batch norm, dropout, random numbers, writes to a buffer, and effects on Python's objects."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(8, 2)
        self.register_buffer("seen", torch.zeros(3))
        self.calls = 0
        self.sizes: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y = self.drop(torch.relu(self.norm(self.first(x))))
        self.seen.add_(1)
        self.sizes.append(x.shape[0])
        return self.last(y) + torch.rand(2)


class Switching(Net):
    """Grad mode is switched, and the graph breaks while it is."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        with torch.no_grad():
            y = torch.relu(self.norm(self.first(x)))
            jitpkg.graph_break()
            self.seen.add_(1)
        self.sizes.append(x.shape[0])
        return self.last(y) + torch.rand(2)


class Plain(Net):
    """The same without gradients, and with a break in the middle."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        y = torch.relu(self.norm(self.first(x)))
        jitpkg.graph_break()
        self.seen.add_(1)
        self.sizes.append(x.shape[0])
        return self.last(y) + torch.rand(2)


def counts(net: Net) -> dict[str, int]:
    """How often each effect has happened."""
    return {
        "calls": net.calls,
        "norm": int(net.norm.num_batches_tracked),  # type: ignore[arg-type]
        "writes": int(net.seen[0]),
        "appends": len(net.sizes),
    }


@dataclass
class Subject:
    """A model, and how it is compiled."""

    name: str
    backend: str
    kind: type[Net]
    net: Net = field(init=False)
    compiled: Callable[..., torch.Tensor] = field(init=False)
    seconds: float = 0.01
    """What a call takes."""

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.net = self.kind()
        self.compile()

    @property
    def training(self) -> bool:
        return self.kind is not Plain

    def compile(self) -> None:
        forward = type(self.net).forward
        again = types.FunctionType(
            forward.__code__, forward.__globals__, forward.__name__, None, forward.__closure__
        )
        self.compiled = jitpkg.compile(again, backend=self.backend)

    def call(self, function: Callable[..., torch.Tensor], net: Net, x: torch.Tensor) -> Any:
        loss = function(net, x).sum()
        if not self.training:
            return loss
        loss.backward()
        return loss.detach()

    def check_next_call(self, x: torch.Tensor) -> str | None:
        """Whether the next call does what eager code does; in words, where not."""
        if torch.is_grad_enabled() is not self.training or torch.is_autocast_enabled("cpu"):
            torch.set_grad_enabled(self.training)
            return "a mode of torch is left changed"
        for parameter in self.net.parameters():
            parameter.grad = None
        eager = copy.deepcopy(self.net)
        torch.manual_seed(5)
        wanted = self.call(type(eager).forward, eager, x)
        stream = torch.get_rng_state()
        torch.manual_seed(5)
        found = self.call(self.compiled, self.net, x)
        if not torch.equal(stream, torch.get_rng_state()):
            return "the next call draws other random numbers"
        try:
            torch.testing.assert_close(found, wanted)
            torch.testing.assert_close(self.net.state_dict(), eager.state_dict())
            torch.testing.assert_close(
                [p.grad for p in self.net.parameters() if p.grad is not None],
                [p.grad for p in eager.parameters() if p.grad is not None],
            )
        except AssertionError as error:
            return f"the next call differs: {str(error).splitlines()[0]}"
        if counts(self.net) != counts(eager):
            return f"the next call has other effects: {counts(self.net)}, {counts(eager)}"
        return None


SUBJECTS = (
    ("training", "jitpkg", Net),
    ("inference", "jitpkg", Plain),
    ("switching", "jitpkg", Switching),
    ("training", "eager", Net),
    ("inference", "eager", Plain),
    ("switching", "eager", Switching),
    ("training", "aot_eager", Net),
)


def interrupted(row: Row, subject: Subject, alarm: Alarm, delay: float, x: torch.Tensor) -> None:
    """One call with an alarm, and what is to be said of it."""
    before, fired, out, done = counts(subject.net), alarm.fired, 0, False
    ignored = alarm.ignored
    torch.set_grad_enabled(subject.training)  # not by a `with`, which may be interrupted, too
    row.tried += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        subject.call(subject.compiled, subject.net, x)
        done = True
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        out += 1
        files = [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
        if files[-2].endswith("grad_mode.py"):  # in eager code, too, it leaves the mode as it is
            row.note("in torch's own `no_grad`")
            torch.set_grad_enabled(subject.training)
        if translated(error, files):
            row.note("an exception that torch's own code has made another")
        elif alarm.kind is Missing and "alarm" not in str(error) and in_torch(error, files):
            row.note("an AttributeError that Python itself has made another")
        else:
            row.expect(f"another exception: {error!r}", "alarm" in str(error))
    where = f"{subject.name}, {subject.backend}, {alarm.kind.__name__}"
    raised = alarm.fired - fired
    if alarm.ignored > ignored:  # the call goes on as if nothing had happened
        row.note("in a `__del__`, where Python drops it")
        raised -= alarm.ignored - ignored
    row.expect(f"{where}: {raised} raised, {out} came out", raised == out)
    row.note("came out" if raised else "no signal in time")
    for name, count in counts(subject.net).items():
        happened = count - before[name]
        row.expect(f"{where}: {name} happened {happened} times", happened in (0, 1))
        row.expect(f"{where}: {name} is lost", happened or not done)


def translated(error: BaseException, files: list[str]) -> bool:
    """Whether torch raised it for the handler's: its settings make AttributeErrors of KeyErrors."""
    cause = error.__cause__
    return cause is not None and "alarm" in str(cause) and f"{os.sep}torch{os.sep}" in files[-1]


def in_torch(error: BaseException, files: list[str]) -> bool:
    """Whether torch's own code was interrupted: in a property, which a `__getattr__` stands for."""
    read_by_batch_norm = "module 'torch.backends.cudnn' has no attribute 'enabled'"
    return str(error) == read_by_batch_norm or all(
        f"{os.sep}torch{os.sep}" in file for file in files[3:]
    )


def hunt(count: int, *, compiling: bool, seed: int = 0) -> Row:
    """Interrupt so many calls, that compile, or that are warm."""
    row = Row(f"handlers' exceptions, {'compiling' if compiling else 'running'}")
    choose, threads = random.Random(seed), torch.get_num_threads()
    torch.set_num_threads(1)  # a machine that is busy with other things takes long for two
    subjects = [Subject(*subject) for subject in SUBJECTS]
    sizes = [torch.randn(n, 4) for n in (3, 5)]
    for subject in subjects:
        began = time.perf_counter()
        torch.set_grad_enabled(subject.training)
        subject.call(subject.compiled, subject.net, sizes[0])
        subject.seconds = time.perf_counter() - began
        if not compiling:
            subject.seconds = min(timed(subject, sizes[0]) for _ in range(20))
    alarm = Alarm()
    with alarm.installed():
        while row.notes.get("came out", 0) < count and row.tried < 9 * count:
            subject, x = choose.choice(subjects), sizes[0]
            alarm.kind = choose.choice(KINDS)
            if compiling:
                jitpkg.reset()
                subject.compile()
            delay = max(1e-6, choose.uniform(0, 1.1 * subject.seconds))
            interrupted(row, subject, alarm, delay, x)
            wrong = subject.check_next_call(x)
            row.expect(f"{subject.name}, {subject.backend}: {wrong}", wrong is None)
    torch.set_grad_enabled(True)
    torch.set_num_threads(threads)
    return row.ended()


def timed(subject: Subject, x: torch.Tensor) -> float:
    began = time.perf_counter()
    subject.call(subject.compiled, subject.net, x)
    return time.perf_counter() - began


if __name__ == "__main__":
    from tests.faults.table import shown

    os.environ.setdefault("JITPKG_CACHE_DIR", "off")
    number = int(sys.argv[1])
    print(shown([hunt(number, compiling=False), hunt(number // 10, compiling=True)]))
