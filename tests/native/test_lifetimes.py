"""Memory, threads, forks, and the end of the process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from jitpkg import native
from jitpkg.native import Binding, Failure, Signature
from tests.native.support import both_bindings, built, needs_llvm, summing, vector

pytestmark = needs_llvm

ROOT = Path(__file__).parents[2]

FAILING = """
define i32 @kernel(ptr %a, ptr %x, ptr %y, ptr %scratch, i64 %status) {
  %narrow = trunc i64 %status to i32
  ret i32 %narrow
}
"""
LARGE = Signature(
    1, 1, (vector(65536), vector(65536)), (262144,), failures=(Failure("IndexError", "x"),)
)
"""Each call takes 768 KiB."""


def resident() -> int:
    """Bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(call: Callable[[], object], calls: int) -> int:
    """By how many bytes the process grows in so many calls, once it has all that it needs."""

    def once() -> int:
        before = resident()
        for _ in range(calls):
            call()
        gc.collect()
        return resident() - before

    return min(once() for _ in range(3))


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@on_linux
def test_calls_leak_no_small_object() -> None:
    function = built(summing(2, 2), Signature(2, 1, (vector("i0"), vector("i0"))))
    a, b = torch.ones(3), torch.ones(3)
    assert grown(lambda: function(a, b, 3), 150_000) < 1_000_000


@on_linux
@pytest.mark.parametrize("status", [0, 1], ids=["success", "failure"])
def test_calls_leak_no_large_result(status: int) -> None:
    function = built(FAILING, LARGE)
    a = torch.ones(3)

    def call() -> None:
        try:
            function(a, status)
        except IndexError:
            assert status == 1

    assert grown(call, 500) < 10_000_000


@on_linux
@both_bindings
def test_errors_leak_nothing(binding: Binding) -> None:
    function = built(FAILING, LARGE, binding)
    a = torch.ones(3)
    count = sys.getrefcount(a)

    def call() -> None:
        for given in ((a, 1), (a,), (a, a), (0, 0), (a, 1.5), (a, 2**70)):
            with pytest.raises((IndexError, TypeError, OverflowError)):
                function(*given)

    assert grown(call, 100) < 5_000_000
    assert sys.getrefcount(a) == count


def test_scratch_memory_is_freed() -> None:
    function = built(FAILING, LARGE)
    a = torch.ones(3)
    function(a, 0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(10):
            function(a, 0)
        after, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - before > 262144  # it is seen
    assert after - before < 100_000


@on_linux
def test_compiling_and_loading_leaks_nothing() -> None:
    text = native.joined(FAILING, native.entry_point("f", LARGE))

    def call() -> None:
        library = native.load(native.compile_ir(text))
        native.builtin(library, "f", "f", "")

    assert grown(call, 100) < 400_000


SPIN = """
define i32 @kernel(ptr %flag, i64 %limit) {
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %loop ]
  %next = add i64 %k, 1
  %seen = load atomic i32, ptr %flag monotonic, align 4
  %set = icmp ne i32 %seen, 0
  %late = icmp sgt i64 %k, %limit
  %stop = or i1 %set, %late
  br i1 %stop, label %done, label %loop
done:
  %status = select i1 %set, i32 0, i32 1
  ret i32 %status
}
"""
"""Waits until another thread sets the flag; its status is 1 if that takes too long."""


GIL = """
declare i32 @PyGILState_Check()
define i32 @kernel(i64 %n) {
  %held = call i32 @PyGILState_Check()
  ret i32 %held
}
"""


@pytest.mark.parametrize("releases_gil", [False, True, "i0 - 10", "10 - i0"])
@both_bindings
def test_the_gil_is_released_as_the_signature_says(
    binding: Binding, releases_gil: bool | str
) -> None:
    failures = (Failure("RuntimeError", "held"),)
    function = built(GIL, Signature(0, 1, releases_gil=releases_gil, failures=failures), binding)
    for n in (0, 10, 20):
        released = (
            eval(releases_gil, {"i0": n}) > 0 if isinstance(releases_gil, str) else releases_gil
        )
        if released:
            assert function(n) is None
        else:
            with pytest.raises(RuntimeError, match="held"):
                function(n)


def test_the_gil_is_released_during_a_kernel() -> None:
    signature = Signature(1, 1, releases_gil=True, failures=(Failure("RuntimeError", "late"),))
    function = built(SPIN, signature)
    flag = torch.zeros(1, dtype=torch.int32)
    begun = threading.Event()

    def set_flag() -> None:
        begun.wait()
        flag.fill_(1)

    thread = threading.Thread(target=set_flag)
    thread.start()
    begun.set()
    try:
        assert function(flag, 20_000_000_000) is None
    finally:
        thread.join()


@both_bindings
@pytest.mark.parametrize("releases_gil", [False, True])
def test_many_threads_call_one_function(binding: Binding, releases_gil: bool) -> None:
    signature = Signature(2, 1, (vector("i0"),), ("i0 * 4",), releases_gil=releases_gil)
    function = built(summing(2, 1, 1), signature, binding)

    def work(seed: int) -> bool:
        a = torch.full((257,), float(seed))
        return all(bool((function(a, a, 257) == 2 * seed).all()) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_many_threads_compile_and_load() -> None:
    def work(k: int) -> int:
        text = f"define i32 @kernel(i64 %n) {{\n  ret i32 {k}\n}}"
        function = built(text, Signature(0, 1))
        try:
            function(0)
        except RuntimeError as error:
            return int(str(error).rpartition(" ")[2])
        return 0

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(10, 60)))
    assert found == list(range(10, 60))


PARALLEL = """
declare i32 @torch_parallel_for(i64, i64, i64, ptr, ptr)
define internal void @part(i64 %begin, i64 %end, ptr %out) {
start:
  br label %loop
loop:
  %k = phi i64 [ %begin, %start ], [ %next, %body ]
  %more = icmp slt i64 %k, %end
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %out, i64 %k
  store i64 %k, ptr %at
  %next = add i64 %k, 1
  br label %loop
done:
  ret void
}
define i32 @kernel(ptr %out, i64 %n) {
  %status = call i32 @torch_parallel_for(i64 0, i64 %n, i64 16, ptr @part, ptr %out)
  ret i32 %status
}
"""


@pytest.mark.parametrize("releases_gil", [False, True])
def test_kernels_run_on_the_threads_of_torch(releases_gil: bool) -> None:
    outputs = (vector("i0", dtype=torch.int64),)
    function = built(PARALLEL, Signature(0, 1, outputs, releases_gil=releases_gil))
    for n in (0, 1, 1000, 100_003):
        assert torch.equal(function(n), torch.arange(n))


def run(program: str) -> str:
    """What a program prints that has to end well."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PREAMBLE + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PREAMBLE = """
import atexit, os, signal, sys, threading, torch
from jitpkg import native
from jitpkg.native import Signature
assert "llvmlite" not in sys.modules, "LLVM starts only when it is used"
from tests.native.support import built, summing, vector
from tests.native.test_lifetimes import SPIN
"""

AT_THE_END = """
function = built(summing(1), Signature(1, 1, (vector("i0"),)))
class Late:
    def __init__(self, function):
        self.function, self.tensor = function, torch.ones(2)
    def __del__(self):
        try:
            self.function(self.tensor, 2)
            os.write(1, b"called ")
            self.function(1, 2)
        except TypeError:
            os.write(1, b"late ")
def last(call=function):
    os.write(1, b"exit " if call(torch.ones(1), 1).item() == 1 else b"?")
atexit.register(last)
plain = Late(function)
cycle = [Late(function)]
cycle.append(cycle)
del function
"""


def test_functions_work_until_the_process_ends() -> None:
    printed = run(AT_THE_END)
    assert printed == "exit called late called late "


WHILE_A_KERNEL_RUNS = """
function = built(SPIN, Signature(1, 1, releases_gil=True))
flag = torch.zeros(1, dtype=torch.int32)
threading.Thread(target=lambda: function(flag, 1 << 60), daemon=True).start()
threading.Timer(0.2, lambda: None).start()
atexit.register(lambda: flag.fill_(1))
"""


def test_the_process_can_end_while_a_kernel_runs() -> None:
    run(WHILE_A_KERNEL_RUNS)


FORKED_WHILE_COMPILING = """
text = "define i32 @f(i64 %a) {\\n" + "".join(
    f"  %b{k} = add i64 {f'%b{k - 1}' if k else '%a'}, {k}\\n" for k in range(3000)
) + "  ret i32 0\\n}\\n"
ended = threading.Event()
def compiling():
    while not ended.is_set():
        native.compile_ir(text)
before = built(summing(1), Signature(1, 1, (vector("i0"),)))
threads = [threading.Thread(target=compiling) for _ in range(2)]
for thread in threads:
    thread.start()
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        after = built(summing(1), Signature(1, 1, (vector("i0"),)))
        right = [call(torch.ones(1), 1).item() == 1 for call in (before, after)]
        os._exit(0 if all(right) else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended.set()
print(codes)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_can_fork_while_a_thread_compiles() -> None:
    assert run(FORKED_WHILE_COMPILING) == "[0, 0, 0, 0, 0]\n"


def test_a_call_takes_well_under_a_microsecond() -> None:
    function = built(summing(4, 0), Signature(4, 1))
    tensors = [torch.ones(1) for _ in range(4)]

    def once() -> float:
        start = time.perf_counter()
        for _ in range(2000):
            function(*tensors, 1)
        return (time.perf_counter() - start) / 2000

    assert min(once() for _ in range(20)) < 1e-6
