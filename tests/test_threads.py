"""Threads: many call one function at once, while others compile, reset or change settings.

Never a wrong result, no deadlock, no hook that is lost.
"""

import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.codegen.triton import launch
from jitpkg.native import selftest

X = torch.tensor([1.0, 2.0])
THREADS = 8


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Threads take turns after each few instructions, in place of every 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(params=[jitpkg.jit, jitpkg.compile], ids=["jit", "compile"])
def C(request: pytest.FixtureRequest) -> Any:
    return request.param


def together(work: Callable[[int], Any], threads: int = THREADS) -> list[Any]:
    """What `work(k)` returns for each k, all begun at one moment; an exception is raised."""
    gate = threading.Barrier(threads)

    def run(k: int) -> Any:
        gate.wait(30)
        return work(k)

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, k) for k in range(threads)]
        return [future.result(60) for future in futures]


def affine(x: torch.Tensor, k: int) -> torch.Tensor:
    y = x * k
    return y + x.shape[0]


def broken(x: torch.Tensor, k: int) -> torch.Tensor:
    y = x * k
    marker.append(k)
    jitpkg.graph_break()
    for i in range(3):
        y = y + i
        if y.sum() > 1e6:
            return y
    return y - k


marker: list[int] = []


def fresh(f: Any) -> Any:
    return type(f)(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


@pytest.mark.parametrize("function", [affine, broken])
def test_first_call_at_once(C: Any, function: Any) -> None:
    expected = function(X, 3)
    for _ in range(4):
        f = C(fresh(function))
        results = together(lambda k, f=f: [f(X, 3) for _ in range(5)])
        assert all(torch.equal(result, expected) for row in results for result in row)
        graphs: list[Any] = []
        with events.STREAM.listening(graphs.append):
            assert torch.equal(f(X, 3), expected)
            assert torch.equal(f(X, 3), expected)
        assert not [e for e in graphs[len(graphs) // 2 :] if isinstance(e, events.FellBack)]


@pytest.mark.parametrize("function", [affine, broken])
def test_each_thread_with_a_shape_and_a_number_of_its_own(C: Any, function: Any) -> None:
    f = C(fresh(function))

    def work(k: int) -> bool:
        x = torch.arange(float(k + 1))
        return all(torch.equal(f(x, k % 3), function(x, k % 3)) for _ in range(20))

    with jitpkg.config.patch(recompile_limit=50):
        assert all(together(work))


def test_the_hook_is_there_afterwards(C: Any) -> None:
    """Whoever came late ran the original code; nobody has taken the hook out."""
    f = C(fresh(affine))
    together(lambda k: f(X, 3))
    seen: list[Any] = []
    with events.STREAM.listening(seen.append):
        f(X, 4)
        f(X, 4)
    assert sum(isinstance(event, events.Traced) for event in seen) == 1


def test_grad_mode_is_each_thread_s_own(C: Any) -> None:
    w = torch.ones(2, requires_grad=True)
    f = C(lambda x: (x * w).sum())

    def work(k: int) -> bool:
        if k % 2:
            with torch.no_grad():
                return all(not f(X).requires_grad for _ in range(30))
        return all(f(X).requires_grad for _ in range(30))

    assert all(together(work))


def test_autocast_and_inference_mode_are_each_thread_s_own(C: Any) -> None:
    f = C(lambda x: x @ x)
    x = torch.ones(2, 2)
    contexts = [
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.inference_mode,
        torch.enable_grad,
    ]

    def work(k: int) -> bool:
        with contexts[k % 3]():
            expected = x @ x
            return all(
                (y := f(x)).dtype == expected.dtype and y.is_inference() == expected.is_inference()
                for _ in range(30)
            )

    assert all(together(work))


def test_one_compiles_while_others_call(C: Any) -> None:
    f = C(fresh(affine))
    f(X, 0)
    done = threading.Event()

    def work(k: int) -> bool:
        if k == 0:
            try:
                with jitpkg.config.patch(recompile_limit=100):
                    return all(torch.equal(f(X, n), affine(X, n)) for n in range(40))
            finally:
                done.set()
        right = True
        while not done.is_set():
            right &= torch.equal(f(X, 0), affine(X, 0))
        return right

    assert all(together(work, 4))


def test_reset_while_others_call(C: Any) -> None:
    f = C(fresh(broken))
    done = threading.Event()

    def work(k: int) -> bool:
        if k == 0:
            try:
                for _ in range(20):
                    jitpkg.reset()
                    f(X, 1)
                return True
            finally:
                done.set()
        right = True
        while not done.is_set():
            right &= torch.equal(f(X, k), broken(X, k))
        return right

    assert all(together(work, 4))
    seen: list[Any] = []
    with events.STREAM.listening(seen.append):
        f(X.double(), 1)  # no entry is for it: one for any k may be there
    assert any(isinstance(event, events.GraphCompiled) for event in seen)


def generating(x: torch.Tensor, k: int) -> torch.Tensor:
    def parts() -> Iterator[torch.Tensor]:
        for n in range(k):
            yield x * n

    return sum(parts(), x)  # type: ignore[call-overload]


def raising(x: torch.Tensor, k: int) -> torch.Tensor:
    try:
        return x[torch.tensor([k])]
    except IndexError:
        return x - k


@pytest.mark.parametrize(("seed", "backend"), [(0, "eager"), (1, "eager"), (2, "aot_eager")])
def test_thirty_two_threads_call_compile_and_reset(seed: int, backend: str) -> None:
    """The same functions and functions of their own, all at once."""
    functions = (affine, broken, generating, raising)
    shared = [
        (function, C(fresh(function), backend=backend))
        for function in functions
        for C in (jitpkg.jit, jitpkg.compile)
    ]
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    expected = model(X).detach()
    shared_model = jitpkg.compile(model, backend=backend)

    def work(thread: int) -> list[str]:
        choice = random.Random(100 * seed + thread)
        wrong: list[str] = []
        function, compiled = shared[0]
        for _ in range(12):
            k, x = choice.randrange(3), torch.arange(float(choice.randint(1, 3)))
            match choice.randrange(8):
                case 0:
                    jitpkg.reset()
                case 1:
                    function = choice.choice(functions)
                    way = choice.choice([jitpkg.jit, jitpkg.compile])
                    compiled = way(fresh(function), backend=backend)
                case 2:
                    function, compiled = choice.choice(shared)
                    # anew, in place, under the feet of all others
                    jitpkg.jit(compiled, backend=backend)
                case 3:
                    if not torch.allclose(shared_model(X), expected):
                        wrong.append("model")
                    continue
                case _:
                    function, compiled = choice.choice(shared)
            if not torch.equal(compiled(x, k), function(x, k)):
                wrong.append(f"{function.__name__}({x}, {k})")
        return wrong

    assert [wrong for found in together(work, 32) for wrong in found] == []


def test_compiled_inside_of_threads(C: Any) -> None:
    def work(k: int) -> bool:
        for _ in range(5):
            f = C(lambda x, k=k: x.sin() * k)
            if not all(torch.equal(f(X), X.sin() * k) for _ in range(3)):
                return False
        return True

    assert all(together(work))


def test_one_function_compiled_in_place_by_all() -> None:
    def f(x):
        return x.sin() + 1

    together(lambda k: jitpkg.jit(f)(X))
    assert torch.equal(f(X), X.sin() + 1)
    seen: list[Any] = []
    jitpkg.jit(f)
    with events.STREAM.listening(seen.append):
        f(X)
    assert any(isinstance(event, events.GraphCompiled) for event in seen)


def test_module_called_by_all(C: Any) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).eval()
    expected = net(X)
    compiled = C(net)
    results = together(lambda k: [compiled(X) for _ in range(10)])
    assert all(torch.equal(y, expected) for row in results for y in row)


def test_functions_that_call_each_other(C: Any) -> None:
    """Each thread enters another function first; locks must not be taken crosswise."""

    def first(x, n):
        jitpkg.graph_break()
        return x + 1 if n == 0 else second(x * 2, n - 1)

    def second(x, n):
        jitpkg.graph_break()
        return x - 1 if n == 0 else first(x * 3, n - 1)

    plain = [first(X, 5), second(X, 5)]
    first, second = C(first), C(second)
    results = together(lambda k: [(first, second)[k % 2](X, 5) for _ in range(3)])
    assert all(torch.equal(y, plain[k % 2]) for k, row in enumerate(results) for y in row)


def test_thread_that_waits_inside_of_a_compiled_function(C: Any) -> None:
    """A break lets other threads compile: no lock is held while the program's own code runs."""
    arrived, go = threading.Event(), threading.Event()

    def f(x):
        y = x.sin()
        arrived.set()
        assert go.wait(30)
        return y + 1

    f = C(f)
    thread = threading.Thread(target=f, args=(X,))
    thread.start()
    assert arrived.wait(30)
    g = C(lambda x: x.cos() + 1)
    seen: list[Any] = []
    with events.STREAM.listening(seen.append):
        for _ in range(100):  # the other thread may be tracing what comes behind the break
            assert torch.equal(g(X), X.cos() + 1)
            if any(isinstance(event, events.GraphCompiled) for event in seen):
                break
            time.sleep(0.02)
    go.set()
    assert any(isinstance(event, events.GraphCompiled) for event in seen)
    thread.join(30)
    assert not thread.is_alive()


def test_backend_that_compiles_in_another_thread(C: Any) -> None:
    def backend(gm, inputs):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: C(lambda x: x + 1)(X) is not None and gm.forward).result(30)

    assert torch.equal(C(lambda x: x.sin() + 1, backend=backend)(X), X.sin() + 1)


def test_generators_in_several_threads(C: Any) -> None:
    def f(x, n):
        for i in range(n):
            x = x + i
            yield x

    f_compiled = C(fresh(f))
    results = together(lambda k: list(f_compiled(X, 5)))
    assert all(torch.equal(a, b) for row in results for a, b in zip(row, f(X, 5), strict=True))


def test_called_from_the_backward_pass(C: Any) -> None:
    f = C(lambda g: g * 2 + 1)
    x = X.clone().requires_grad_()
    y = x * 3
    y.register_hook(f)
    y.sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 9.0))


def test_queue_of_work(C: Any) -> None:
    """Producers and consumers, as a data loader with threads has them."""
    todo: queue.Queue[Any] = queue.Queue()
    found: queue.Queue[Any] = queue.Queue()
    f = C(fresh(affine))

    def consume() -> None:
        while (item := todo.get()) is not None:
            found.put((item, f(X * item, item % 4)))

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for k in range(60):
        todo.put(k)
    for _ in threads:
        todo.put(None)
    for thread in threads:
        thread.join(60)
    assert found.qsize() == 60
    while not found.empty():
        k, y = found.get()
        assert torch.equal(y, affine(X * k, k % 4))


def test_time_is_not_spent_waiting(C: Any) -> None:
    """A thread that would wait for another's compilation runs the original code."""
    slow = threading.Event()

    def backend(gm, inputs):
        slow.set()
        time.sleep(0.5)
        return gm.forward

    f = C(fresh(affine), backend=backend)
    thread = threading.Thread(target=f, args=(X, 1))
    thread.start()
    assert slow.wait(30)
    began = time.perf_counter()
    assert torch.equal(f(X, 1), affine(X, 1))
    assert time.perf_counter() - began < 0.4
    thread.join(30)


IN_A_THREAD_THAT_ENDS = """
import threading
import torch
from jitpkg.facts.corrected import corrected_mode

def asks() -> None:
    with corrected_mode():
        torch.empty(2) + 1

thread = threading.Thread(target=asks)
thread.start()
thread.join()
texts = [f"{k}" * 3 for k in range(100_000)]
asks()
print("done")
"""


def test_a_thread_that_has_asked_for_facts_may_end() -> None:
    """What it leaves to others must not lie in its own memory, which is written over here."""
    run = subprocess.run(
        [sys.executable, "-c", IN_A_THREAD_THAT_ENDS],
        env=os.environ | {"GLIBC_TUNABLES": "glibc.malloc.perturb=165"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def in_the_pool_for_triton(work: Callable[[], Any]) -> Any:
    return launch._pool().submit(work).result(30)


def in_the_self_test(work: Callable[[], Any]) -> Any:
    return selftest._in_a_thread(work)


@pytest.mark.parametrize("run", [in_the_pool_for_triton, in_the_self_test])
def test_in_the_compiler_s_own_threads_code_runs_as_it_was_written(C: Any, run: Any) -> None:
    """Who waits for them may have locks that compiling needs."""
    seen: list[events.Event] = []
    compiled = C(fresh(broken))
    with events.STREAM.listening(seen.append):
        result = run(lambda: compiled(X, 3))
        assert not seen
        assert torch.equal(result, compiled(X, 3))
        assert any(isinstance(event, events.GraphCompiled) for event in seen)
