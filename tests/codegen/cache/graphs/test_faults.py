"""Processes that are killed, start together, or have a full disk: right results, at worst anew.

Processes are forked of one that has torch already.
"""

import subprocess
import sys
from pathlib import Path

from tests.codegen.cache.support import ROOT
from tests.native.support import needs_llvm

pytestmark = needs_llvm

PREAMBLE = """
import os, random, resource, signal, sys, time, traceback, warnings
import torch
import jitpkg
from jitpkg.codegen import cache
from jitpkg.codegen import backend as own

torch.set_num_threads(1)
X = torch.linspace(-3, 3, 60).reshape(6, 10)
W = torch.linspace(-1, 1, 20).reshape(10, 2)

def scaled(x):
    return torch.softmax(x * 2 + 1, -1) * x.sum(0).sigmoid(), x[1:]

def trained(w):
    return torch.tanh(X @ w).sum()

def outcome(scaled, trained):
    w = W.clone().requires_grad_()
    result = trained(w)
    result.backward()
    return [*scaled(X), result.detach(), w.grad]

wanted = outcome(scaled, trained)

def compiled():
    return outcome(*(jitpkg.compile(f, backend="jitpkg") for f in (scaled, trained)))

def check():
    for one, other in zip(compiled(), wanted, strict=True):
        torch.testing.assert_close(one, other)

def child(what):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        what()
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)

def status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def found():
    \"\"\"All is there: nothing is compiled.\"\"\"
    own.prepare = None
    check()

# What compiling imports is imported once, not by each child.
others = lambda x: (x.exp(), x), lambda w: w.sin().sum()
outcome(*(jitpkg.compile(f, backend="jitpkg") for f in others))
cache.kernels().clear()
"""


def output_of(program: str, place: Path, limit: int = 250) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "JITPKG_CACHE_DIR": str(place),
            "JITPKG_STRICT": "1",
        },
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sixteen_processes_on_one_empty_cache(tmp_path: Path) -> None:
    """All are right, and few compile: the others wait for one."""
    program = """
gate, opens = os.pipe()
told, tells = os.pipe()
def noting(function):
    def noted(gm, *rest):
        os.write(tells, f"{type(gm).__name__} ".encode())
        return function(gm, *rest)
    return noted
def together():
    os.close(opens)
    own._new = noting(own._new)
    os.read(gate, 1)
    check()
children = [child(together) for _ in range(16)]
os.close(opens)
print([status(pid) for pid in children], status(child(found)))
print([name for name in os.listdir(cache.kernels().directory) if name.endswith(".tmp")])
os.close(tells)
made = os.read(told, 10_000).decode().split()
print(sorted(made.count(name) <= 3 for name in set(made)) or made)
"""
    lines = output_of(program, tmp_path / "cache").splitlines()
    assert lines == [f"{[0] * 16} 0", "[]", "[True, True]"]


def test_processes_killed_while_they_write(tmp_path: Path) -> None:
    """At a random moment, and before each of their files has its name."""
    program = """
def killed_in_file(k):
    count = 0
    def put(self, key, data, put=cache.KernelCache.put):
        nonlocal count
        count += 1
        if count == k:
            real = os.rename
            def rename(*given, **named):
                os.kill(os.getpid(), signal.SIGKILL)
            os.rename = rename
        put(self, key, data)
    def run():
        cache.KernelCache.put = put
        check()
    return run

def killed_later(seconds):
    pid = child(check)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return status(pid)

ends = [status(child(killed_in_file(k))) for k in range(1, 12)]
assert set(ends) == {-signal.SIGKILL, 0}, ends
assert status(child(found)) == 0
cache.kernels().clear()
moments = random.Random(0)
for _ in range(6):
    assert killed_later(moments.uniform(0, 0.2)) in (0, -signal.SIGKILL)
    assert status(child(check)) == 0
    assert status(child(found)) == 0
    for name in os.listdir(cache.kernels().directory):
        if moments.random() < 0.5:
            os.unlink(os.path.join(cache.kernels().directory, name))
print("done")
"""
    assert output_of(program, tmp_path / "cache") == "done\n"


def test_a_disk_that_is_full_after_some_of_the_files(tmp_path: Path) -> None:
    program = """
def with_limit(size):
    def run():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            check()
        assert len(seen) == 1, [str(w.message) for w in seen]
        assert "File too large" in str(seen[0].message)
        check()
    return run

def whole():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check()

for size in (0, 100, 4000, 5000, 6000, 8000):
    assert status(child(with_limit(size))) == 0, size
    assert status(child(whole)) == 0
    cache.kernels().clear()
print("done")
"""
    assert output_of(program, tmp_path / "cache") == "done\n"
