"""When what jitpkg has made dies, no Python of its runs: an exception of a signal would be lost."""

import _weakrefset
import gc
import linecache
import sys
import types
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import endings, forks

OURS = (str(Path(jitpkg.__file__).parent), weakref.__file__, _weakrefset.__file__)
"""Where callbacks of ours could be; libraries have some of their own, and the collector, too."""


@contextmanager
def python_that_runs() -> Iterator[set[str]]:
    seen: set[str] = set()

    def profile(frame: types.FrameType, event: str, arg: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(OURS):
            seen.add(f"{name}: {frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def train(compiled, net, n: int) -> None:
    out = compiled(net, torch.randn(n, 4))
    if out.requires_grad:
        out.sum().backward()


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("backend", ["eager", "jitpkg", "aot_eager"])
def test_no_python_runs_when_compiled_functions_die(backend: str, mode: bool) -> None:
    def f(net, x):
        with torch.set_grad_enabled(mode):
            y = net(x)
            print(end="")
            z = [t * 2 for t in (y, y + 1)]
        return z[0] + z[1].sum()

    before = set(linecache.cache)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2))
    compiled = jitpkg.compile(f, backend=backend)
    for n in (3, 5, 7):
        train(compiled, net, n)
    gc.collect()
    files = {name for name in linecache.cache if name.startswith("<jitpkg")} - before
    assert files
    with python_that_runs() as seen:
        del compiled, net, f
        gc.collect()
    if backend != "eager":
        seen -= {each for each in seen if "/weakref.py: WeakValue" in each}  # FakeTensor's
    assert not seen
    assert not files & linecache.cache.keys()


def test_no_python_runs_when_a_marked_function_or_a_lock_dies() -> None:
    def marked(x):
        return x

    jitpkg.allow_in_graph(marked)
    lock = forks.lock(waits=True)
    gc.collect()
    with python_that_runs() as seen:
        del marked, lock
        gc.collect()
    assert not seen


def test_tables_forget_what_died_and_nothing_else() -> None:
    class Thing:
        pass

    thing, other = Thing(), Thing()
    first, second = {"a": 1, "b": 2}, {"a": 1}
    endings.drop_with(thing, (first, "a"), (second, "a"), (second, "missing"))
    kept = endings.dropping(other, first, "b")
    del thing
    assert (first, second) == ({"b": 2}, {})
    thing = Thing()
    thing.itself = thing
    endings.drop_with(thing, (first, "b"))
    del thing
    gc.collect()
    assert not first
    assert kept() is other
