"""Processes that fork while another thread compiles or imports."""

import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch import config as functorch_config

import jitpkg
from jitpkg import forks
from jitpkg.errors import JitpkgWarning
from jitpkg.internals import aot
from jitpkg.internals.row import Looked

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

X = torch.tensor([1.0, 2.0])
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """OpenMP's threads are not there in a child, and eager code would wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a child that does this: 0, if it ends and nothing is raised."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(code)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


class Slow:
    """A backend that waits in the middle of its work."""

    def __init__(self, backend: str = "eager") -> None:
        self.arrived, self.go = threading.Event(), threading.Event()
        self.backend = backend

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.arrived.set()
        assert self.go.wait(100)
        return gm.forward


@pytest.fixture
def slow() -> Iterator[Slow]:
    """Another thread compiles, and will for longer than a fork waits."""
    backend = Slow()
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=backend)
    thread = threading.Thread(target=f, args=(X,))
    thread.start()
    assert backend.arrived.wait(30)
    yield backend
    backend.go.set()
    thread.join(30)


def test_a_child_of_a_process_that_compiles_nothing_compiles() -> None:
    def work() -> None:
        f = jitpkg.compile(lambda x: x.cos() + 1)
        graphs: list[Any] = []
        with jitpkg.events.STREAM.listening(graphs.append):
            assert torch.equal(f(X), X.cos() + 1)
        assert any(isinstance(event, jitpkg.events.GraphCompiled) for event in graphs)

    assert in_child(work) == 0


def go_backward(loss: torch.Tensor) -> None:
    """Backward, where torch can in a child: a build for CUDA cannot, once the parent has."""
    try:
        torch.ones(1, requires_grad=True).sum().backward()
    except RuntimeError:
        return
    loss.backward()


def test_a_fork_waits_for_a_thread_that_compiles() -> None:
    backend = Slow()
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=backend)
    thread = threading.Thread(target=f, args=(X,))
    thread.start()
    assert backend.arrived.wait(30)
    threading.Timer(0.2, backend.go.set).start()

    def work() -> None:
        assert forks.may_compile()
        g = jitpkg.compile(lambda x: x.cos() + 1)
        assert torch.equal(g(X), X.cos() + 1)

    assert in_child(work) == 0
    thread.join(30)


def test_a_child_of_the_thread_that_compiles_goes_on() -> None:
    codes: list[int] = []

    def backend(gm, inputs):
        if not codes:
            codes.append(in_child(lambda: gm.forward(*inputs)))
        return gm.forward

    f = jitpkg.compile(lambda x: x.sin() + 1, backend=backend)
    assert torch.equal(f(X), X.sin() + 1)
    assert codes == [0]
    assert in_child(lambda: None if forks.may_compile() else 1 / 0) == 0


def test_the_child_runs_code_as_it_is_where_a_thread_compiles(slow: Slow) -> None:
    compiled = jitpkg.compile(lambda x: x * 3 + 1, backend="eager")

    def work() -> None:
        assert not forks.may_compile()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            f = jitpkg.compile(lambda x: x.cos() + 1)
            for x in (X, X.double(), X.reshape(2, 1)):
                assert torch.equal(f(x), x.cos() + 1)
                assert torch.equal(compiled(x), x * 3 + 1)
        assert len([w for w in seen if w.category is JitpkgWarning]) == 1
        jitpkg.reset()
        net = nn.Linear(2, 2)
        assert torch.equal(jitpkg.compile(net)(X), net(X))
        jitpkg.jit(net)
        go_backward(net(X).sum())

    assert in_child(work) == 0


def test_what_was_compiled_before_stays_in_use(slow: Slow) -> None:
    """There is no other thread that compiles in a process that has it already."""
    runs: list[int] = []

    def backend(gm, inputs):
        def run(*given):
            runs.append(1)
            return gm.forward(*given)

        return run

    slow.go.set()
    f = jitpkg.compile(lambda x: x * 3 + 1, backend=backend)
    deadline = time.monotonic() + 30
    while not runs and time.monotonic() < deadline:
        f(X)  # the other thread may still be tracing
    busy = Slow()
    g = jitpkg.compile(lambda x: x.tan() + 1, backend=busy)
    thread = threading.Thread(target=g, args=(X,))
    thread.start()
    assert busy.arrived.wait(30)

    def work() -> None:
        assert not forks.may_compile()
        before = len(runs)
        assert torch.equal(f(X), X * 3 + 1)
        assert len(runs) == before + 1

    try:
        assert in_child(work) == 0
    finally:
        busy.go.set()
        thread.join(30)


def test_what_a_thread_has_changed_for_a_while_is_as_before(slow: Slow) -> None:
    """The collector rests, warnings are quiet, torch's settings are others, while it compiles."""
    filters = list(warnings.filters)

    def work() -> None:
        assert gc.isenabled()
        assert list(warnings.filters) == filters

    assert in_child(work) == 0


def test_inside_of_aot_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = aot.PARTITION.get()
    backend, settings = Slow(), functorch_config.donated_buffer
    filters = list(warnings.filters)

    def waits(*given: Any, **named: Any) -> Any:
        backend.arrived.set()
        assert backend.go.wait(100)
        return partition(*given, **named)

    monkeypatch.setattr(aot.PARTITION, "_looked", Looked(waits, None))
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    f = jitpkg.compile(net, backend="aot_eager")
    thread = threading.Thread(target=lambda: f(X).sum().backward())
    thread.start()
    assert backend.arrived.wait(60)

    def work() -> None:
        assert gc.isenabled()
        assert functorch_config.donated_buffer is settings
        assert list(warnings.filters) == filters
        assert torch.equal(f(X), net(X))
        go_backward(f(X).sum())

    try:
        assert in_child(work) == 0
    finally:
        backend.go.set()
        thread.join(60)


def test_a_lock_that_a_dead_thread_holds() -> None:
    lock = forks.lock()
    held, go = threading.Event(), threading.Event()

    def holds() -> None:
        with lock:
            held.set()
            go.wait(60)

    thread = threading.Thread(target=holds)
    thread.start()
    assert held.wait(30)
    assert in_child(lambda: None if lock.acquire(timeout=5) else 1 / 0) == 0
    go.set()
    thread.join()


PROGRAM = """
import os, sys, threading, time
def imports():
    import jitpkg
    jitpkg.jit
thread = threading.Thread(target=imports)
thread.start()
while not hasattr(sys.modules.get("jitpkg.forks"), "lock"):  # before that, Python is half way
    time.sleep(0.001)
time.sleep(float(sys.argv[1]))
child = os.fork()
if not child:
    import signal
    signal.alarm(100)
    import torch, jitpkg
    torch.set_num_threads(1)
    f = jitpkg.jit(lambda x: x + 1, backend="eager")
    assert f(torch.ones(2)).tolist() == [2, 2]
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.7])
def test_while_another_thread_imports(seconds: float) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seconds)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    assert ran.stdout == "0\n", ran.stderr
