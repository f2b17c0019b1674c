"""Ops that warn: nothing is shown while tracing; what is shown then is what eager code shows."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import jitpkg
from jitpkg.facts.heard import Heard
from jitpkg.testing import Comparison, call
from tests.api.support import Counts
from tests.tracer.plain import LOG, plain_surroundings

X = torch.tensor([1.0, 2.0])
SOFTMAX = torch.nn.Softmax()


def attribute(x):
    return torch.reshape(x, (1, 2, 1)).T + 1


def only_the_kernel(x):
    return torch.std(x[:1]) + 1


def conversion(x):
    return (x + 1j).to(torch.float32) + 1


def implicit_dim(x):
    return F.softmax(x) + 1


def size_of_target(x):
    return F.mse_loss(x, x.reshape(2, 1)) + 1


def copy_of_tensor(x):
    return torch.tensor(x) + 1


def in_a_module(x):
    """It asks for the fifth caller, which is torch's own."""
    return SOFTMAX(x) + 1


def resized(x):
    out = torch.empty(1)
    torch.add(x, 1, out=out)
    return out


def helper(x):
    return F.softmax(x.sin())


def in_callees(x):
    """The second call is at another line."""
    y = helper(x)
    return y + sum(map(helper, [x, y]))


def grid(x):
    return torch.meshgrid(x, x)[0] + 1


PROGRAMS = [
    *(attribute, only_the_kernel, conversion, implicit_dim, size_of_target, copy_of_tensor),
    *(in_a_module, resized, in_callees, grid),
]


@pytest.fixture(autouse=True)
def always() -> Any:
    """Torch itself would warn once in a process of most of these."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def shown(f: Any, action: str, calls: int = 3) -> tuple[str, str]:
    """What was shown, and the results."""
    with plain_surroundings(globals(), action) as out:
        results = [f(X) for _ in range(calls)]
    return out.getvalue(), repr(results)


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_shown_is_what_eager_code_shows(program: Any, action: str) -> None:
    torch_functions = vars(sys.modules["torch.functional"])
    backend = Counts()
    torch_functions.pop("__warningregistry__", None)
    eager = shown(program, action)
    torch_functions.pop("__warningregistry__", None)
    assert shown(jitpkg.compile(program, backend=backend), action) == eager
    assert bool(eager[0]) == (action != "ignore")
    assert len(backend.graphs) == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_with_a_break_before_every_instruction(program: Any) -> None:
    eager = shown(program, "always")
    with jitpkg.config.patch(disturb="break"):
        assert shown(jitpkg.compile(program), "always") == eager


def test_recorded_warnings() -> None:
    def run(g: Any) -> list[Any]:
        with warnings.catch_warnings(record=True) as recorded:
            warnings.simplefilter("always")
            g(X), g(X)
        return [(str(w.message), w.category, w.filename, w.lineno) for w in recorded]

    assert run(jitpkg.compile(in_callees, fullgraph=True)) == run(in_callees) != []


def test_a_warning_that_is_an_error() -> None:
    def f(x):
        try:
            return F.softmax(x)
        except UserWarning:
            return x - 1

    compiled = jitpkg.compile(f)
    for action in ("default", "error", "default"):
        with plain_surroundings(globals(), action):
            assert torch.equal(compiled(X), f(X))


def test_a_function_that_reads_no_globals() -> None:
    def f(x):
        return x.reshape(1, 2, 1).T + 1

    assert shown(jitpkg.compile(f), "default") == shown(f, "default") != ""


def test_order_with_other_messages() -> None:
    def f(x):
        LOG.info("one")
        y = F.softmax(x)
        warnings.warn("three", stacklevel=1)
        LOG.info("four")
        return y

    assert shown(jitpkg.compile(f), "always") == shown(f, "always")


def test_a_failure_behind_it_shows_nothing_twice() -> None:
    def f(x):
        y = F.softmax(x)
        return torch.arange(3)[(y * 100).long()]

    def run(g: Any) -> str:
        with plain_surroundings(globals(), "always") as out, pytest.raises(IndexError):
            g(X)
        return out.getvalue()

    assert run(jitpkg.compile(f)) == run(f)


def test_code_that_looks_at_warnings_is_called_in_time(monkeypatch: Any) -> None:
    seen: list[Any] = []
    done: list[int] = []

    def f(x):
        done.append(1)
        y = F.softmax(x)
        done.append(2)
        return y

    def run(g: Any) -> list[Any]:
        seen.clear(), done.clear()
        with plain_surroundings(globals(), "always"):
            g(X)
            monkeypatch.setattr(warnings, "showwarning", lambda *args: seen.append(len(done)))
            g(X), g(X)
        return list(seen)

    assert run(jitpkg.compile(f)) == run(f) != []


def test_other_backends_warn_on_each_call() -> None:
    compiled = jitpkg.compile(implicit_dim, backend="aot_eager")
    assert shown(compiled, "always") == shown(implicit_dim, "always")


def test_the_filters_are_those_from_before() -> None:
    filters = warnings.filters
    before = list(filters)
    jitpkg.compile(in_callees)(X)
    assert warnings.filters is filters
    assert list(filters) == before
    with Heard() as heard:
        warnings.warn("here", stacklevel=1)
        warnings.simplefilter("ignore", BytesWarning)
    assert heard.any
    assert ("ignore", None, BytesWarning, None, 0) in warnings.filters
    assert not [f for f in warnings.filters if f[1] is heard]
    assert list(warnings.filters)[1:] == before
    vars(warnings)["filters"] = filters


ONCE = """
import sys
import torch, jitpkg
def f(x):
    return torch.reshape(x, (1, 2, 1)).T + 1
g = f if sys.argv[1] == "eager" else jitpkg.compile(f)
for _ in range(3):
    g(torch.ones(2))
"""


def test_torch_s_own_once(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(ONCE)
    found = []
    for how in ("eager", "compiled"):
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        command = [sys.executable, "-W", "always", str(file), how]
        run = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=100
        )
        found.append(run.stderr)
    assert found[0] == found[1]
    assert found[0].count("UserWarning") == 1


def loss_that_fails(x, other):
    x[0] = 0
    return F.l1_loss(x, other, reduction="sum")


def method_that_fails(x, other):
    x[0] = 0
    return x.T.view(other)


def deeper(x, other):
    return loss_that_fails(x, other) + 1


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize(
    ("function", "x", "other"),
    [
        (loss_that_fails, torch.tensor([0, 0]), torch.tensor([True])),
        (deeper, torch.tensor([0, 0]), torch.tensor([True])),
        (method_that_fails, torch.ones(1, 2, 1), 7),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_one_raises_has_the_program_s_frames_once(
    function: Any, x: torch.Tensor, other: Any, backend: str
) -> None:
    """It is called from frames that look like the program's, so that a warning is shown there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = Comparison(backend=backend)
        comparison.assert_same_calls(function, *[call(x.clone(), other) for _ in range(2)])
