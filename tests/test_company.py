"""In unusual company: debuggers, profilers, the collector, signals, little room on the stack."""

import bdb
import contextlib
import cProfile
import faulthandler
import gc
import io
import os
import pdb
import signal
import subprocess
import sys
import threading
import trace as line_trace
import traceback
import tracemalloc
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _python_dispatch

import jitpkg
from jitpkg import config, events

X = torch.tensor([1.0, 2.0])


@pytest.fixture(params=[jitpkg.jit, jitpkg.compile], ids=["jit", "compile"])
def C(request: pytest.FixtureRequest) -> Any:
    return request.param


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def fresh(f: Any) -> Any:
    return types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def events_of(run: Callable[[], Any]) -> list[str]:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        run()
    return [type(event).__name__ for event in found]


def nested(x: torch.Tensor, kind: str) -> torch.Tensor:
    y = x.sin()
    return inner(y, kind) + 1


def inner(y: torch.Tensor, kind: str) -> torch.Tensor:
    z = y * 2
    return z if kind == "" else -z


# Debuggers, profilers, collectors


@contextlib.contextmanager
def traced(function: Any) -> Any:
    before = sys.gettrace()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(before)


def test_under_a_trace_function(C: Any) -> None:
    lines: list[tuple[str, int]] = []

    def watch(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event == "line":
            lines.append((frame.f_code.co_name, frame.f_lineno))
        return watch

    f = C(fresh(nested))
    with traced(watch):
        result = f(X, "")
    assert torch.equal(result, nested(X, ""))
    compiled, lines = set(lines), []
    with traced(watch):
        nested(X, "")
    assert compiled == set(lines)
    assert torch.equal(f(X, ""), result)


def test_under_a_profiler(C: Any) -> None:
    f = C(fresh(nested))
    for _ in range(2):
        profile = cProfile.Profile()
        result = profile.runcall(f, X, "")
        assert torch.equal(result, nested(X, ""))
    names = {entry.code.co_name for entry in profile.getstats() if hasattr(entry.code, "co_name")}
    assert "nested" in names


def test_under_setprofile_of_all_threads(C: Any) -> None:
    f, calls = C(fresh(sine)), []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        for _ in range(3):
            assert torch.equal(f(X), sine(X))
    finally:
        sys.setprofile(before)
    assert calls


def test_under_coverage(C: Any) -> None:
    counter = line_trace.Trace(count=True, trace=False)
    f = C(fresh(nested))
    f(X, "")
    assert torch.equal(counter.runfunc(f, X, ""), nested(X, ""))
    first = nested.__code__.co_firstlineno
    counts = counter.results().counts
    assert {line - first for file, line in counts if file == __file__} >= {1, 2}


def test_under_a_debugger(C: Any) -> None:
    bdb.Breakpoint.clearBreakpoints()
    text = io.StringIO()
    commands = io.StringIO("break inner\ncontinue\np y.shape\ncontinue\n")
    debugger = pdb.Pdb(stdin=commands, stdout=text, nosigint=True)  # it would stay after the test
    f = C(fresh(nested))
    f(X, "")
    result = debugger.runcall(f, X, "")
    sys.settrace(None)
    assert torch.equal(result, nested(X, ""))
    assert "torch.Size([2])" in text.getvalue()


def test_breakpoint_inside(C: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(sys._getframe(1).f_code.co_name))

    def f(x):
        y = x.sin()
        breakpoint()
        return y + 1

    f = C(f)
    for _ in range(3):
        assert torch.equal(f(X), sine(X))
    assert seen == ["f"] * 3


def test_with_tracemalloc_and_faulthandler(C: Any) -> None:
    tracemalloc.start()
    with Path(os.devnull).open("w") as sink:
        faulthandler.enable(sink)
        try:
            assert torch.equal(C(fresh(nested))(X, ""), nested(X, ""))
        finally:
            tracemalloc.stop()
            faulthandler.disable()


def test_with_the_collector_at_work(C: Any) -> None:
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        f = C(fresh(nested))
        for x in (X, X.double(), torch.ones(3)):
            assert torch.equal(f(x, ""), nested(x, ""))
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_finalisers_that_call_compiled_code(C: Any) -> None:
    f, seen = C(fresh(sine)), []

    class Last:
        def __del__(self):
            seen.append(f(X))

    def g(x):
        last = Last()
        y = x * 2
        del last
        return y + 1

    g = C(g)
    for _ in range(3):
        assert torch.equal(g(X), X * 2 + 1)
    gc.collect()
    assert len(seen) == 3
    assert all(torch.equal(y, sine(X)) for y in seen)


# Signals


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs signals")
def test_signal_handler_that_calls_compiled_code(C: Any) -> None:
    f, seen = C(fresh(sine)), []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(f(X)))
    try:

        @jitpkg.disable
        def interrupt():
            signal.raise_signal(signal.SIGUSR1)

        def g(x):
            y = x * 2
            interrupt()
            return y + 1

        g = C(g)
        for _ in range(3):
            assert torch.equal(g(X), X * 2 + 1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 3


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_alarm_in_the_middle_of_compiling(C: Any) -> None:
    """An exception from a signal handler may come anywhere; the next call must be right."""

    class Alarm(BaseException):
        pass

    armed = []

    def handler(number, frame):
        if armed:
            raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    interrupted = 0
    try:
        for k in range(40):
            f = C(fresh(nested))
            try:
                armed.append(k)
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0005 * k)
                f(X, "")
                armed.clear()
            except Alarm:
                armed.clear()
                interrupted += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            for _ in range(2):
                assert torch.equal(f(X, ""), nested(X, ""))
            assert torch.is_grad_enabled()
            assert gc.isenabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert "Traced" in events_of(lambda: C(fresh(sine))(X))


@pytest.mark.parametrize("when", ["_push_mode", "_pop_mode"])
def test_interrupt_while_a_mode_is_entered_or_left(
    C: Any, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(_python_dispatch, when)

    def interrupted(*args: Any) -> None:
        if when == "_push_mode":
            original(*args)
        raise KeyboardInterrupt

    f = C(fresh(nested))
    with monkeypatch.context() as patch:
        patch.setattr(_python_dispatch, when, interrupted)
        with pytest.raises(KeyboardInterrupt):
            f(X, "")
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.equal(f(X, ""), nested(X, ""))
    assert "Traced" in events_of(lambda: C(fresh(sine))(X))


# Depth


def factorial(x: torch.Tensor, n: int) -> torch.Tensor:
    return x if n == 0 else factorial(x * n, n - 1)


def test_deep_recursion(C: Any) -> None:
    for n in (5, 50, 200):
        assert torch.equal(C(fresh(factorial))(X, n), factorial(X, n))


def test_recursion_without_end(C: Any) -> None:
    def f(x):
        return f(x + 1)

    f = C(f)
    for _ in range(2):
        with pytest.raises(RecursionError, match="maximum recursion depth"):
            f(X)
    assert torch.equal(C(fresh(sine))(X), sine(X))


def test_recursion_that_is_caught(C: Any) -> None:
    def down(x, n):
        return down(x, n + 1)

    def f(x):
        try:
            return down(x.sin(), 0)
        except RecursionError:
            return x + 1

    f = C(f)
    for _ in range(2):
        assert torch.equal(f(X), X + 1)


def test_called_near_the_limit_of_recursion(C: Any) -> None:
    """Where eager code has enough room, compiling may not; then the original runs."""
    f = C(fresh(sine))

    def at_depth(n):
        return f(X) if n == 0 else at_depth(n - 1)

    room = sys.getrecursionlimit() - len(traceback.extract_stack())
    with config.patch(strict=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spare in (60, 40, 30, 20):
            assert torch.equal(at_depth(room - spare), sine(X))
    assert torch.equal(f(X), sine(X))


def test_many_frames_in_one_function(C: Any) -> None:
    def f(x):
        for i in range(300):
            x = x + i
            if i == 150:
                jitpkg.graph_break()
        return x

    assert torch.equal(C(f)(X), X + sum(range(300)))


# In the middle of things


def test_compiled_in_the_middle_of_its_own_call() -> None:
    calls = []

    def f(x, again=True):
        y = x.sin()
        if again:
            calls.append(jitpkg.jit(f))
            y = f(x, False) + y
        return y + 1

    for _ in range(3):
        assert torch.equal(f(X), (sine(X) + X.sin()) + 1)


def test_compiled_while_a_generator_of_it_is_suspended() -> None:
    def f(x):
        yield x + 1
        yield x + 2

    started = f(X)
    next(started)
    jitpkg.jit(f)
    list(f(X))
    assert torch.equal(next(started), X + 2)
    assert [y.tolist() for y in f(X)] == [(X + 1).tolist(), (X + 2).tolist()]


def test_reset_in_the_middle_of_a_call(C: Any) -> None:
    def f(x):
        y = x.sin()
        jitpkg.reset()
        for i in range(3):
            y = y + i
        return y

    f = C(f)
    for _ in range(3):
        assert torch.equal(f(X), X.sin() + 3)


def test_code_replaced_in_the_middle_of_a_call(C: Any) -> None:
    def f(x):
        y = x.sin()
        f.__code__ = other_code
        print(end="")
        return y + 1

    g, other_code = C(f), (lambda x: x * 100).__code__.replace(co_freevars=f.__code__.co_freevars)
    assert torch.equal(g(X), sine(X))
    assert torch.equal(f(X), X * 100)


def test_shutdown_of_a_thread_pool_in_the_middle(C: Any) -> None:
    f, results = C(fresh(nested)), []
    thread = threading.Thread(target=lambda: results.append(f(X, "")))
    thread.start()
    thread.join(60)
    assert torch.equal(results[0], nested(X, ""))


AFTER_TORCH_COMPILE = """
import torch
from torch import nn
import jitpkg

torch.compile(nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))


class Sliced(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    def forward(self, x):
        for layer in self.layers[:2]:
            x = layer(x)
        return x


module, x = Sliced(), torch.ones(1, 2)
assert torch.equal(jitpkg.compile(module, fullgraph=True)(x), module(x))
"""


def test_modules_made_where_torch_compile_has_been_used() -> None:
    """Its compiler notes each module that is made, in a function around `nn.Module.__init__`."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_TORCH_COMPILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
