"""A compiled model that a pickle brings to a process which has not loaded the compiler."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import again, config, events

ROOT = Path(__file__).parents[2]
X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.calls = 0

    def forward(self, x: torch.Tensor, *, shift: float = 0.5) -> torch.Tensor:
        self.calls += 1
        return self.layer(x).tanh() + shift


class Other(Net):
    def forward(self, x: torch.Tensor, *, shift: float = 0.5) -> torch.Tensor:
        return super().forward(x, shift=shift) * 2


@pytest.fixture
def graphs() -> Iterator[list[str]]:
    """The functions of the graphs that are compiled."""
    compiled: list[str] = []

    def heard(event: events.Event) -> None:
        if isinstance(event, events.GraphCompiled):
            compiled.append(event.function)

    with events.STREAM.listening(heard):
        yield compiled


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the compiler had not been loaded."""
    monkeypatch.setattr(again, "_is_loaded", lambda: False)


def sent(model: Any) -> Any:
    with config.patch(never_worse=True):
        return pickle.loads(pickle.dumps(model))


def test_it_runs_as_it_is_until_its_calls_have_taken_a_while(
    elsewhere: None, graphs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net()
    model = sent(jitpkg.compile(net))
    for _ in range(3):
        assert torch.equal(model(X, shift=1), net(X, shift=1))
    assert not graphs
    monkeypatch.setattr(again, "LOADING", 0.0)
    for _ in range(3):
        torch.testing.assert_close(model(X, shift=1), net(X, shift=1))
    assert set(graphs) == {"Net"}
    assert model.calls == net.calls == 6


def test_it_is_compiled_once_somebody_has_loaded_the_compiler(
    elsewhere: None, graphs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = sent(jitpkg.compile(Net()))
    model(X)
    assert not graphs
    monkeypatch.setattr(again, "_is_loaded", lambda: True)
    model(X)
    assert graphs == ["Net"]


@pytest.mark.parametrize("loading", [0.0, 100.0])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent])
def test_what_can_be_seen_of_it(
    copied: Callable[[Any], Any], loading: float, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after it is compiled, and of copies."""
    monkeypatch.setattr(again, "LOADING", loading)
    net = Net()
    with config.patch(never_worse=True):
        model = copied(sent(jitpkg.compile(net)))
    for _ in range(2):
        assert isinstance(model, Net)
        assert (type(model).__name__, type(model).__module__) == ("Net", Net.__module__)
        assert repr(model) == repr(net)
        assert inspect.signature(model) == inspect.signature(jitpkg.compile(net))
        assert model.state_dict().keys() == net.state_dict().keys()
        torch.testing.assert_close(model(X), net(X))
    model.layer = nn.Linear(3, 2)
    assert torch.allclose(model(X), model.layer(X).tanh() + 0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        model(X, nothing=1)
    assert model.eval() is model
    assert not model.training


def test_trained(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compiled in the middle."""
    net = Net()
    model = sent(jitpkg.compile(net))
    a, b = (torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (net, model))
    for k in range(6):
        if k == 3:
            monkeypatch.setattr(again, "LOADING", 0.0)
        for each, optimizer in ((net, a), (model, b)):
            optimizer.zero_grad()
            each(X).square().sum().backward()
            optimizer.step()
    for one, other in zip(net.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_another_class(elsewhere: None) -> None:
    model = sent(jitpkg.compile(Net()))
    expected = model(X)
    original = model.__reduce_ex__(4)[1][0]
    original.__class__ = Other
    torch.testing.assert_close(model(X), expected * 2)
    assert isinstance(model, Other)


@pytest.mark.parametrize("loading", [0.0, 100.0])
def test_called_by_a_compiled_function(
    loading: float, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(again, "LOADING", loading)
    net = Net()
    model = sent(jitpkg.compile(net))

    @jitpkg.jit
    def twice(x: torch.Tensor) -> torch.Tensor:
        return model(x + 1) * 2

    for _ in range(3):
        torch.testing.assert_close(twice(X), net(X + 1) * 2)


def test_threads(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "LOADING", 0.002)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    model = sent(jitpkg.compile(net))
    expected, wrong = net(X), []

    def calls() -> None:
        for _ in range(50):
            try:
                torch.testing.assert_close(model(X), expected)
            except BaseException as error:
                wrong.append(error)
                raise

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    "arguments", [{"fullgraph": True}, {"backend": "eager"}, {"mode": "max-autotune"}]
)
def test_who_asks_for_more_has_the_first_call_compiled(
    arguments: dict[str, Any], elsewhere: None, graphs: list[str]
) -> None:
    sent(jitpkg.compile(Net(), **arguments))(X)
    assert graphs == ["Net"]


def test_where_the_clock_may_not_decide(elsewhere: None, graphs: list[str]) -> None:
    pickled = pickle.dumps(jitpkg.compile(Net()))
    with config.patch(never_worse=False):
        pickle.loads(pickled)(X)
    assert graphs == ["Net"]
    torch.use_deterministic_algorithms(True)
    try:
        sent(jitpkg.compile(Net()))(X)
    finally:
        torch.use_deterministic_algorithms(False)
    assert graphs == ["Net", "Net"]


def test_a_short_lived_process_loads_no_compiler(tmp_path: Path) -> None:
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(jitpkg.compile(nn.Linear(3, 2))))
    program = f"""
        import json, pickle, sys, torch
        with open({str(file)!r}, "rb") as f:
            model = pickle.load(f)
        shape = list(model(torch.ones(4, 3)).shape)
        early = [name for name in sys.modules if name.startswith("jitpkg.rewriter")]
        import jitpkg.again
        jitpkg.again.LOADING = 0.0
        model(torch.ones(4, 3))
        print(json.dumps([shape, early, "jitpkg.rewriter.dispatch" in sys.modules]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JITPKG_NEVER_WORSE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[4, 2], [], True]


USES = {
    "a whole graph": """
        @jitpkg.jit(fullgraph=True)
        def f(x):
            return model(x) + 1
        f(x)
    """,
    "compiled again": "jitpkg.compile(model, fullgraph=True)(x)",
    "in place": "jitpkg.jit(model, fullgraph=True)(x)",
    "explained": "assert jitpkg.explain(model)(x).graph_break_count == 0",
    "inside of another": """
        outer = torch.nn.Sequential(model, torch.nn.ReLU())
        jitpkg.compile(outer, fullgraph=True)(x)
    """,
}


@pytest.mark.parametrize("use", USES)
def test_it_is_a_compiled_view_once_the_compiler_is_there(use: str, tmp_path: Path) -> None:
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(jitpkg.compile(nn.Linear(3, 2))))
    program = f"""
import pickle, sys, torch
with open({str(file)!r}, "rb") as f:
    model = pickle.load(f)
x = torch.ones(4, 3)
model(x)
assert "jitpkg.api" not in sys.modules
import jitpkg
{textwrap.dedent(USES[use])}
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JITPKG_NEVER_WORSE": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
