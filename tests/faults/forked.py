"""Forks at random moments, while other threads import the compiler, compile and call.

The child calls what was compiled, compiles, resets and forks again; it must end, and be right.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.faults.table import Row

ROOT = Path(__file__).parents[2]

PROGRAM = """
import faulthandler, os, random, signal, sys, threading, time, warnings
import torch
torch.set_num_threads(1)
seed, kind = int(sys.argv[1]), sys.argv[2]
choose = random.Random(seed)
warnings.simplefilter("ignore")
X = torch.linspace(-1, 1, 6).reshape(2, 3)

def make(k):
    def f(x):
        y = (x * k).sin()
        for i in range(1 + k % 5):
            y = torch.softmax(y + i, -1)
        return y.sum(0) + k
    return f

def train(k):
    last = torch.nn.Linear(4, 1 + k % 3)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), last)

def compile_one(k, compiled=[]):
    import jitpkg
    backend = ("jitpkg", "eager", "aot_eager")[k % 3]
    if k % 2:
        net = train(k)
        compiled.append((jitpkg.compile(net, backend=backend), net))
        compiled[-1][0](X).sum().backward()
    else:
        f = make(k)
        compiled.append((jitpkg.compile(f, backend=backend), f))
        compiled[-1][0](X)
    return compiled

stop = False
def busy(first):
    k = first
    while not stop:
        compile_one(k)
        k += 3

def in_child(k):
    import jitpkg
    signal.alarm(240)
    faulthandler.dump_traceback_later(200)
    compiled = compile_one(k + 1000)
    for f, g in compiled[-6:]:
        torch.testing.assert_close(f(X), g(X))
    jitpkg.reset()
    for f, g in compiled[-3:]:
        torch.testing.assert_close(f(X), g(X))
    h = jitpkg.jit(make(k), backend="eager")
    torch.testing.assert_close(h(X), make(k)(X))

def forked(k):
    child = os.fork()
    if not child:
        code = 1
        try:
            in_child(k)
            from jitpkg import forks
            code = 0 if forks.may_compile() else 10
        except ImportError:
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return child

if kind == "compiling":
    compile_one(0)
threads = [threading.Thread(target=busy, args=(k,), daemon=True) for k in (1, 2)]
for thread in threads:
    thread.start()
found = {}
for k in range(int(sys.argv[3])):
    time.sleep(choose.uniform(0, 0.4 if kind == "compiling" else 1.5))
    began = time.perf_counter()
    child = forked(k)
    took = time.perf_counter() - began
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    word = {0: "worked", 10: "ran eagerly", -14: "hung"}.get(status, f"status {status}")
    found[word] = found.get(word, 0) + 1
    found["longest fork, ms"] = max(found.get("longest fork, ms", 0), round(1000 * took))
    if kind != "compiling":
        break
stop = True
print(found)
os._exit(0)
"""


def hunt(count: int, *, kind: str, seed: int = 0) -> Row:
    """Fork so often: while other threads compile, or import the compiler for the first time."""
    row = Row(f"forks, other threads {kind}")
    per_process = count if kind == "compiling" else 1
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        while row.tried < count:
            found = one_process(choose.randrange(1 << 30), kind, per_process, place)
            row.tried += per_process
            if isinstance(found, str):
                row.expect(found, False)
                continue
            longest = found.pop("longest fork, ms")
            row.notes["ms, the longest fork"] = max(
                longest, row.notes.get("ms, the longest fork", 0)
            )
            for word, number in found.items():
                row.note(word, number)
                row.expect(f"{number} children: {word}", word in ("worked", "ran eagerly"))
    return row.ended()


def one_process(seed: int, kind: str, count: int, place: str) -> dict[str, int] | str:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(seed), kind, str(count)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JITPKG_CACHE_DIR": f"{place}/{seed}",
            "JITPKG_STRICT": "0",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120 * count + 120,
    )
    if ran.returncode:
        return f"the process ended with {ran.returncode}: {ran.stderr[-300:]}"
    if ran.stderr.strip():
        sys.stderr.write(ran.stderr[-3000:])
    return dict(eval(ran.stdout))


if __name__ == "__main__":
    from tests.faults.table import shown

    print(shown([hunt(int(sys.argv[2]), kind=sys.argv[1])]))
