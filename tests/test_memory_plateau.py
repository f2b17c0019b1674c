"""A process that has compiled and dropped much is as large as one that has done some of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLATEAU = """
import gc, json, sys, weakref
import torch, jitpkg

backend, sort, closures, modules = *sys.argv[1:3], *map(int, sys.argv[3:])
X = torch.ones(4, 8)
SIZES = [4, 5, 7] if sort == "sizes" else [4]


def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


def closure(k):
    weight, log = torch.ones(8), []

    def f(x):
        log.append(k)
        y = x * weight
        if sort == "break":
            print(end="")
        return (y + k).sum()

    return f


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
        )

    def forward(self, x):
        y = self.layers(x)
        if sort == "break":
            print(end="")
        return y + len(self.layers) * x.shape[0]


def drop(make, call, count):
    references = []
    for k in range(count):
        compiled = [jitpkg.jit, jitpkg.compile][k % 2](make(k), backend=backend)
        for size in SIZES:
            call(compiled, torch.ones(size, 8))
        references.append(weakref.ref(compiled))
        compiled = None
    gc.collect()
    return sum(r() is not None for r in references)


def rounds(closures, modules):
    return (
        drop(closure, lambda f, x: f(x), closures),
        drop(lambda k: Model(), lambda m, x: m(x).sum().backward(), modules),
    )


rounds(closures // 5, modules // 5)
plateau = memory()
alive = rounds(closures, modules)
print(json.dumps([plateau, memory(), alive]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the memory")
@pytest.mark.parametrize(
    ("backend", "sort", "closures", "modules"),
    [
        ("eager", "plain", 1000, 50),
        pytest.param("eager", "break", 1000, 50, marks=pytest.mark.slow),
        pytest.param("eager", "sizes", 1000, 50, marks=pytest.mark.slow),
        pytest.param("aot_eager", "plain", 1000, 50, marks=pytest.mark.slow),
    ],
)
def test_closures_and_modules_leave_the_process_at_its_plateau(
    backend: str, sort: str, closures: int, modules: int
) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PLATEAU, backend, sort, str(closures), str(modules)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    plateau, after, alive = json.loads(run.stdout)
    assert alive == [0, 0]
    assert after < 1.05 * plateau, f"{plateau} pages, then {after}"


ROUNDS = """
import gc, torch, jitpkg

X = torch.ones(4, 2)


def objects(count):
    for _ in range(count):
        jitpkg.jit(torch.nn.Linear(2, 2), backend="aot_eager")(X).sum().backward()
    gc.collect()
    return len(gc.get_objects())


objects(30)
before = objects(30)
print(objects(30) - before)
"""


def test_what_autograd_has_compiled_leaves_no_objects() -> None:
    """Neither settings in the context, nor texts of graphs. In pytest, its log would be counted."""
    run = subprocess.run(
        [sys.executable, "-c", ROUNDS],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 60
