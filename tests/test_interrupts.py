"""Exceptions from outside (signal handlers, trace functions, other threads): told from failures,
held back while something is compiled, never lost, never raised twice."""

import ctypes
import functools
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._functorch import config

import jitpkg
from jitpkg import errors, interrupts
from jitpkg.codegen.autograd.aot import functional
from jitpkg.interrupts import from_outside, uninterrupted

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no such signals here")

USR1, USR2 = signal.SIGUSR1, signal.SIGUSR2


class Timeout(Exception):
    pass


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (USR1, USR2, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    assert interrupts._HELD.depth == 0
    assert not interrupts._HELD.noted


# What is told apart


def plain(signum, frame):
    raise Timeout


def gathers(*args):
    raise AttributeError("no such thing")


def forgets(signum, frame):
    del frame
    raise Timeout


def decorated(handler):
    @functools.wraps(handler)
    def wrapper(*args, **kwargs):
        return handler(*args, **kwargs)

    return wrapper


class Handles:
    def __call__(self, signum, frame=None):
        raise ValueError("called")

    def method(self, signum, frame):
        raise IndexError("method")

    @classmethod
    def of_class(cls, signum, frame):
        raise Timeout


def deeper(signum, frame):
    def inner():
        raise RuntimeError("a handler's own function")

    inner()


HANDLERS: dict[str, Any] = {
    "a function": plain,
    "of any arguments": gathers,
    "that drops its frame": forgets,
    "decorated": decorated(plain),
    "a callable object": Handles(),
    "a method": Handles().method,
    "a class method": Handles.of_class,
    "a partial": functools.partial(lambda more, signum, frame: plain(signum, frame), 5),
    "a lambda that throws": lambda *_: (_ for _ in ()).throw(Timeout()),
    "with a function of its own": deeper,
}


@pytest.mark.parametrize("name", HANDLERS)
def test_what_a_handler_raises_is_from_outside(name: str) -> None:
    signal.signal(USR1, HANDLERS[name])
    with pytest.raises(Exception) as caught:  # noqa: PT011
        signal.raise_signal(USR1)
    assert from_outside(caught.value)


def test_also_when_the_handler_is_gone() -> None:
    signal.signal(USR1, plain)
    with pytest.raises(Timeout) as caught:
        signal.raise_signal(USR1)
    signal.signal(USR1, signal.SIG_IGN)
    assert from_outside(caught.value)


def test_what_a_trace_function_raises_is_from_outside() -> None:
    def tracing(frame, event, arg):
        raise KeyError("stop")

    def work():
        before = sys.gettrace()
        sys.settrace(tracing)
        try:
            (lambda: 1)()
        finally:
            sys.settrace(before)

    with pytest.raises(KeyError) as caught:
        work()
    assert from_outside(caught.value)


@pytest.mark.parametrize(
    "raising",
    [lambda: torch.ones(2) @ torch.ones(3), lambda: {}["key"], lambda: int("x"), lambda: None.x],  # type: ignore[attr-defined]
)
def test_what_code_raises_is_not(raising: Callable[[], object]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        raising()
    assert not from_outside(caught.value)


def test_an_exception_of_the_program_s_own_code_is_not() -> None:
    def op():
        raise Timeout

    with pytest.raises(Timeout) as caught:
        op()
    assert not from_outside(caught.value)


def test_what_another_thread_raises_is_from_outside() -> None:
    """Raised where only compiled code runs, which cannot raise such a thing."""
    f = jitpkg.compile(lambda x: ((x.sin() + 1) * 2).cos())
    x, seen = torch.ones(3), []
    f(x)

    def work():
        try:
            while True:
                f(x)
        except BaseException as error:
            seen.append(error)

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.01)
        raises = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raises(ctypes.c_ulong(thread.ident), ctypes.py_object(Timeout))  # type: ignore[arg-type]
        thread.join(30)
        assert not thread.is_alive()
    assert [type(error) for error in seen] == [Timeout] * 5


# What waits


def test_a_handler_waits_and_is_called_once_with_the_program_s_frame() -> None:
    frames: list[Any] = []
    signal.signal(USR1, lambda signum, frame: frames.append((signum, frame)))

    def work() -> str:
        for _ in range(3):
            signal.raise_signal(USR1)
        assert not frames
        return "done"

    assert uninterrupted(work) == "done"
    assert frames == [(USR1, sys._getframe())]


def test_handlers_are_put_back() -> None:
    signal.signal(USR1, plain)
    assert uninterrupted(lambda: signal.getsignal(USR1)) is not plain
    assert signal.getsignal(USR1) is plain
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    signal.signal(USR1, plain)
    uninterrupted(lambda: signal.signal(USR1, gathers))
    assert signal.getsignal(USR1) is gathers


def test_what_a_handler_raises_comes_out_behind_the_work() -> None:
    signal.signal(USR1, plain)
    done: list[str] = []

    def work() -> None:
        signal.raise_signal(USR1)
        done.append("work")

    with pytest.raises(Timeout) as caught:
        uninterrupted(work, lambda: done.append("behind"))
    assert done == ["work", "behind"]
    assert from_outside(caught.value)
    assert signal.getsignal(USR1) is plain


def test_nested_work() -> None:
    signal.signal(USR1, plain)
    done: list[int] = []

    def inner() -> None:
        signal.raise_signal(USR1)
        done.append(1)

    def outer() -> None:
        uninterrupted(inner)
        done.append(2)

    with pytest.raises(Timeout):
        uninterrupted(outer)
    assert done == [1, 2]


def test_work_that_fails_and_a_handler_that_raises() -> None:
    signal.signal(USR1, plain)

    def work() -> None:
        signal.raise_signal(USR1)
        raise KeyError("work")

    with pytest.raises(Timeout) as caught:
        uninterrupted(work)
    assert isinstance(caught.value.__context__, KeyError)


def test_several_handlers_that_raise() -> None:
    called: list[int] = []

    def handler(signum, frame):
        called.append(signum)
        raise Timeout(signum)

    signal.signal(USR1, handler)
    signal.signal(USR2, handler)

    def work() -> None:
        signal.raise_signal(USR2)
        signal.raise_signal(USR1)

    with pytest.raises(Timeout) as caught:
        uninterrupted(work)
    assert called == [USR2, USR1]
    assert caught.value.args == (USR1,)
    assert isinstance(caught.value.__context__, Timeout)


def test_a_keyboard_interrupt_comes_at_once() -> None:
    done: list[str] = []

    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("work")

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work, lambda: done.append("behind"))
    assert done == ["behind"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_keyboard_interrupt_does_not_stop_what_has_to_be_done() -> None:
    done: list[str] = []

    def behind() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("behind")

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(lambda: None, behind)
    assert done == ["behind"]


def test_a_program_s_handler_of_interrupts_waits() -> None:
    called: list[int] = []
    signal.signal(signal.SIGINT, lambda signum, frame: called.append(signum))

    def work() -> int:
        signal.raise_signal(signal.SIGINT)
        return len(called)

    assert uninterrupted(work) == 0
    assert called == [signal.SIGINT]


def test_the_wakeup_descriptor_gets_its_byte_once() -> None:
    """An event loop of asyncio hears of signals so."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    before = signal.set_wakeup_fd(writes)
    try:
        signal.signal(USR1, lambda signum, frame: None)
        uninterrupted(lambda: signal.raise_signal(USR1))
    finally:
        signal.set_wakeup_fd(before)
    os.close(writes)
    assert os.read(reads, 100) == bytes([USR1])
    os.close(reads)


@pytest.mark.skipif(interrupts._SIGACTION is None, reason="nobody can tell")
def test_system_calls_go_on_after_a_signal_as_before() -> None:
    signal.signal(USR1, lambda signum, frame: None)
    signal.signal(USR2, lambda signum, frame: None)
    signal.siginterrupt(USR1, False)
    during = uninterrupted(lambda: (interrupts._restarts(USR1), interrupts._restarts(USR2)))
    assert during == (True, False)
    assert interrupts._restarts(USR1)
    assert not interrupts._restarts(USR2)


def test_other_threads_change_no_handler() -> None:
    signal.signal(USR1, plain)
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(uninterrupted(lambda: signal.getsignal(USR1)))
    )
    thread.start()
    thread.join()
    assert found == [plain]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("by_thread", [False, True])
def test_a_child_that_is_forked_meanwhile_has_the_handlers(by_thread: bool) -> None:
    """Also where another thread forks, and what is compiled never ends in the child."""
    signal.signal(USR1, plain)
    codes: list[int] = []

    def forks() -> None:
        child = os.fork()
        if not child:
            if not by_thread:  # it goes on with the work
                assert interrupts._HELD.depth == 0
            os._exit(7 if signal.getsignal(USR1) is plain else 8)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def work() -> None:
        if by_thread:
            thread = threading.Thread(target=forks)
            thread.start()
            thread.join()
        else:
            forks()

    uninterrupted(work)
    assert codes == [7]
    assert signal.getsignal(USR1) is plain


def test_a_handler_that_could_not_be_put_back_does_what_it_did() -> None:
    signal.signal(USR1, plain)
    interrupts._HELD.enter()
    interrupts._HELD.depth = 0  # as if an exception had ended everything
    with pytest.raises(Timeout):
        signal.raise_signal(USR1)
    uninterrupted(lambda: None)
    assert signal.getsignal(USR1) is plain


# Compiling and running


def alarming(kind: type[Exception]) -> Callable[[int, types.FrameType | None], None]:
    def handler(signum: int, frame: types.FrameType | None) -> None:
        raise kind("alarm")

    return handler


KINDS = (Timeout, AttributeError, RuntimeError, LookupError)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_in_the_backend_is_raised_behind_it(kind: type[Exception]) -> None:
    def backend(gm, inputs):
        signal.raise_signal(USR1)
        made.append(1)
        return gm.forward

    made: list[int] = []
    signal.signal(USR1, alarming(kind))
    f = jitpkg.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(kind, match="alarm"):
        f(torch.ones(2))
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert made == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_in_the_graph(kind: type[Exception]) -> None:
    """Whatever it is, it comes out, and what had happened does not happen again."""
    counter, log = torch.zeros(1), []

    def backend(gm, inputs):
        def run(*given):
            result = gm.forward(*given)
            if armed:
                armed.clear()
                signal.raise_signal(USR1)
            return result

        return run

    def step(x):
        log.append(x.shape[0])
        counter.add_(1)
        return x + counter

    armed: list[int] = []
    f = jitpkg.compile(step, backend=backend)
    f(torch.ones(2))
    signal.signal(USR1, alarming(kind))
    armed.append(1)
    with pytest.raises(kind, match="alarm") as caught:
        f(torch.ones(2))
    assert "handler" in [entry.name for entry in caught.traceback]
    assert counter.item() == 2
    assert len(log) <= 2
    assert f(torch.ones(2)).tolist() == [4, 4]
    assert counter.item() == 3


def converting() -> None:
    """As torch's settings do."""
    try:
        signal.raise_signal(USR1)
    except KeyError as error:
        raise AttributeError("no such setting") from error


def test_what_is_raised_in_the_place_of_a_handler_s_exception_is_from_outside() -> None:
    signal.signal(USR1, alarming(KeyError))
    with pytest.raises(AttributeError) as caught:
        converting()
    assert from_outside(caught.value)
    assert interrupts.lost(caught.value) is caught.value.__cause__


def test_what_fails_while_a_handler_s_exception_is_handled_is_not() -> None:
    """The program's own `except` block calls what fails."""

    def fails() -> Exception:
        try:
            return [].index(1)
        except ValueError as error:
            return error

    signal.signal(USR1, alarming(KeyError))
    try:
        signal.raise_signal(USR1)
    except KeyError:
        error = fails()
        assert isinstance(error.__context__, KeyError)
        assert not from_outside(error)
        assert interrupts.lost(error) is None


@pytest.mark.parametrize("backend", ["aot_eager", "jitpkg"])
def test_a_signal_while_torch_reads_a_setting(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A KeyError of a handler's becomes an AttributeError of torch's: the KeyError comes out."""
    armed: list[int] = []

    class Entries(dict):
        def __getitem__(self, name):
            if armed:
                armed.clear()
                signal.raise_signal(USR1)
            return super().__getitem__(name)

    def f(x):
        return (x * 2).sin(), x.view(-1)

    def direct(*given, original=functional.direct):
        function = original(*given)

        def reads(*inputs):
            if armed:
                assert config.debug_assert is False
            return function(*inputs)

        return reads

    monkeypatch.setattr(functional, "direct", direct)
    monkeypatch.setenv("JITPKG_CACHE_DIR", "off")
    x = torch.ones(3, requires_grad=True)
    options = {"backward": "aot"} if backend == "jitpkg" else None
    compiled = jitpkg.compile(f, backend=backend, options=options)
    compiled(x)
    monkeypatch.setitem(config.__dict__, "_config", Entries(config._config))
    signal.signal(USR1, alarming(KeyError))
    armed.append(1)
    with pytest.raises(KeyError, match="alarm"):
        compiled(x)
    assert not armed
    torch.testing.assert_close(compiled(x), f(x))


@pytest.mark.parametrize("kind", [AttributeError, KeyError])
def test_a_signal_while_batch_norm_reads_a_setting(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python makes another AttributeError of one in a property: also in eager code."""

    def reads() -> bool:
        signal.raise_signal(USR1)
        return True

    net, x = torch.nn.BatchNorm1d(4), torch.randn(3, 4)
    compiled = jitpkg.compile(net, backend="eager")
    compiled(x)
    signal.signal(USR1, alarming(kind))
    enabled = vars(type(torch.backends.cudnn))["enabled"]
    monkeypatch.setattr(enabled, "getter", reads)
    raised = []
    for call in (net, compiled):
        with pytest.raises(kind) as caught:
            call(x)
        raised.append(str(caught.value))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_in_a_guard(kind: type[Exception]) -> None:
    """It is no guard that fails, which would compile again, or run the original code."""
    names = [f"weight_{k}" for k in range(40)]
    namespace: dict[str, Any] = {name: float(k) for k, name in enumerate(names)}
    exec(f"def total(x):\n    return x + {' + '.join(names)}", namespace)
    f = jitpkg.compile(namespace["total"])
    x = torch.ones(2)
    wanted = namespace["total"](x)
    f(x)
    before = signal.signal(signal.SIGALRM, alarming(kind))
    came_out = 0
    try:
        for _ in range(60):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                until = time.perf_counter() + 5
                while time.perf_counter() < until:
                    assert torch.equal(f(x), wanted)
            except kind:
                came_out += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert came_out == 60


def test_strict_and_its_opposite_make_no_difference() -> None:
    def backend(gm, inputs):
        def run(*given):
            signal.raise_signal(USR1)

        return run

    signal.signal(USR1, plain)
    for strict in (False, True):
        with jitpkg.config.patch(strict=strict):
            f = jitpkg.compile(lambda x: x + 1, backend=backend)
            with pytest.raises(Timeout):
                f(torch.ones(2))


def test_a_signal_while_a_graph_break_is_raised() -> None:
    signal.signal(USR1, plain)

    def backend(gm, inputs):
        signal.raise_signal(USR1)
        raise RuntimeError("no")

    f = jitpkg.compile(lambda x: x + 1, backend=backend)
    with jitpkg.config.patch(strict=True), pytest.raises(Timeout) as caught:
        f(torch.ones(2))
    assert isinstance(caught.value.__context__, errors.BackendError)
