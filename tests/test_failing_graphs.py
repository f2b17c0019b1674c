"""Compiled code that fails when it runs: results are right, it is said once, and it ends;
what the program's own code raises is the program's."""

import contextlib
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import jitpkg
from jitpkg import attempts, config, events
from jitpkg.codegen.cpu.maker import CpuKernels
from jitpkg.errors import BackendError, JitpkgWarning
from jitpkg.testing import Comparison, call
from tests.native.support import needs_llvm

X = torch.tensor([1.0, 2.0])


class Failing:
    """A backend whose functions raise, from the second call on."""

    def __init__(self, error: Exception, *, good: int = 0) -> None:
        self.error = error
        self.good = good
        self.calls = 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            self.calls += 1
            if self.calls > self.good:
                raise self.error
            return gm.forward(*given)

        return run


def said(run: Callable[[], object]) -> list[str]:
    """The warnings of ours."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in seen if w.category is JitpkgWarning]


@pytest.fixture(autouse=True)
def _not_strict() -> Any:
    with config.patch(strict=False):
        yield


ERRORS = (RuntimeError("no memory"), ValueError("wrong"), MemoryError(), KeyError("k"))


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_it_is_said_once_and_not_tried_for_ever(error: Exception) -> None:
    backend = Failing(error)
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=backend)
    (text,) = said(lambda: [torch.testing.assert_close(f(X), X.sin() + 1) for _ in range(9)])
    assert "<lambda>#0" in text
    assert type(error).__name__ in text
    assert backend.calls == attempts.MOST


def test_the_warning_is_at_the_program_s_line() -> None:
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=Failing(RuntimeError("x")))
    with pytest.warns(JitpkgWarning) as seen:
        f(X)
    assert seen[0].filename == __file__


def test_what_fails_once_is_tried_again() -> None:
    backend = Failing(RuntimeError("x"), good=5)
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=backend)
    assert said(lambda: [f(X) for _ in range(5)]) == []
    assert len(said(lambda: f(X))) == 1
    backend.good = 100
    assert said(lambda: [f(X) for _ in range(5)]) == []
    assert backend.calls == 11


def test_listeners_hear_of_each_failure() -> None:
    seen: list[events.Event] = []
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=Failing(RuntimeError("x")))
    with events.STREAM.listening(seen.append):
        assert len(said(lambda: [f(X) for _ in range(5)])) == 1
    failed = [event for event in seen if isinstance(event, events.GraphFailed)]
    assert [event.given_up for event in failed] == [False, False, True]
    assert failed[0].why == "RuntimeError: x"


def test_strict_raises() -> None:
    f = jitpkg.compile(lambda x: x.sin() + 1, backend=Failing(RuntimeError("oops")))
    with config.patch(strict=True), pytest.raises(BackendError, match="RuntimeError: oops"):
        f(X)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
def test_what_an_op_raises_is_the_program_s(backend: str) -> None:
    """Nothing is said, and it is raised at each call."""

    def f(x, k):
        return (x + 1)[k] * 2

    compiled = jitpkg.compile(f, backend=backend)
    good, bad = torch.tensor([0]), torch.tensor([7])

    def calls() -> None:
        assert torch.equal(compiled(X, good), f(X, good))
        for _ in range(6):
            with pytest.raises(IndexError):
                compiled(X, bad)
            assert torch.equal(compiled(X, good), f(X, good))

    assert said(calls) == []


def test_what_cannot_happen_again_is_raised() -> None:
    """Random numbers have been drawn, and nobody has noted where the stream was."""

    def f(x):
        return x + torch.rand(2)

    compiled = jitpkg.compile(f, backend=Failing(RuntimeError("behind it")))
    with pytest.raises(RuntimeError, match="behind it"):
        compiled(X)


def test_effects_happen_once() -> None:
    log: list[int] = []
    counter = torch.zeros(1)

    def f(x):
        log.append(1)
        y = x.sin()
        counter.add_(1)
        return y + 1

    compiled = jitpkg.compile(f, backend=Failing(RuntimeError("x")))
    for k in range(1, 6):
        try:
            compiled(X)
        except RuntimeError:
            assert k < 6
        assert len(log) <= k
        assert counter.item() <= k


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Kernels that raise."""
    calls: list[int] = []
    make = CpuKernels.make

    def failing(*given: Any) -> Any:
        calls.append(1)
        raise RuntimeError("a kernel that is wrong")

    monkeypatch.setattr(CpuKernels, "keeps", False)
    monkeypatch.setattr(
        CpuKernels,
        "make",
        lambda *given: type(made := make(*given))(failing, made.numbers, made.ready),
    )
    return calls


@needs_llvm
def test_kernels_of_inference(broken: list[int]) -> None:
    f = jitpkg.compile(lambda x: x.sin() + 1, backend="jitpkg")
    (text,) = said(lambda: [torch.testing.assert_close(f(X), X.sin() + 1) for _ in range(9)])
    assert "a kernel that is wrong" in text
    assert len(broken) == attempts.MOST


def writes_and_draws(x: torch.Tensor, counter: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    y = F.dropout(x * 2, 0.5)
    counter.add_(1)
    return y[at].sin()


@needs_llvm
def test_kernels_that_write_and_draw(broken: list[int]) -> None:
    compiled = jitpkg.compile(writes_and_draws, backend="jitpkg")
    one, other = torch.zeros(2), torch.zeros(2)

    def calls() -> None:
        for k in range(6):
            torch.manual_seed(k)
            wanted = writes_and_draws(X, one, torch.tensor([0, 1])), torch.rand(3)
            torch.manual_seed(k)
            found = compiled(X, other, torch.tensor([0, 1])), torch.rand(3)
            assert all(map(torch.equal, found, wanted))
            assert torch.equal(one, other)

    (text,) = said(calls)
    assert "a kernel that is wrong" in text
    assert len(broken) == attempts.MOST


@needs_llvm
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
def test_an_op_fails_where_a_graph_writes_and_draws(backend: str) -> None:
    """What comes before it is done, once."""
    compiled = jitpkg.compile(writes_and_draws, backend=backend)
    states: list[Any] = []
    for function in (writes_and_draws, compiled):
        counter, said = torch.zeros(2), []
        torch.manual_seed(3)
        for at in ([0, 1], [0, 7], [1, 0], [7, 0], [1, 1]):
            try:
                said.append(function(X, counter, torch.tensor(at)).tolist())
            except IndexError as error:
                said.append(str(error))
        states.append((said, counter.tolist(), torch.rand(3).tolist()))
    assert states[0] == states[1]


def _at_its_line(x: torch.Tensor) -> Any:
    view = x.view(-1)
    view *= 0
    return view + 1


def _in_a_with(x: torch.Tensor) -> Any:
    view = x.view(-1)
    with contextlib.suppress(RuntimeError):
        view[view > 0] = 3
    return view + 1, x.shape[0] * 2


def _in_a_try(x: torch.Tensor, log: list[int]) -> Any:
    view = x.view(-1)
    y = view + x.shape[0]
    log.append(1)
    try:
        view.mul_(2)
    except RuntimeError as error:
        return y, str(error)
    return y, view


def _with_a_number(x: torch.Tensor, n: int) -> Any:
    x.add_(n * 2 - 1)
    return x.reshape(n // 2, -1) + n


@needs_llvm
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
def test_an_op_fails_where_it_stands(backend: str, dynamic: bool | None) -> None:
    """Where the graph writes to an input: an exception has the op's line, and its handlers."""
    how = Comparison(
        backend=backend, dynamic=dynamic, ignore=("grad_fn", "version", "view", "idle strides")
    )
    leaf = torch.ones(2, requires_grad=True)
    for function in (_at_its_line, _in_a_with):
        how.assert_same_calls(function, call(X), call(leaf), call(torch.ones(3)), call(leaf))
    how.assert_same_calls(_in_a_try, call(X, []), call(leaf, []), call(leaf, []))
    for numbers in ([2, 4, 3], [3, 2, 7]):
        how.assert_same_calls(_with_a_number, *[call(torch.ones(4), n) for n in numbers])


def _in_a_module(x: torch.Tensor) -> Any:
    x.add_(1)
    return nn.Sequential(nn.Identity(), nn.ReLU())(x > 0)


def _in_a_callee(x: torch.Tensor) -> Any:
    x.add_(1)
    return [_refused(y) for y in (x,)]


def _refused(x: torch.Tensor) -> Any:
    return torch.nn.init.constant_(x.long(), float("nan"))


def _in_an_operator(x: torch.Tensor) -> Any:
    x.add_(1)
    return False - (x > 0)  # a method in Python that calls C


@needs_llvm
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("function", [_in_a_module, _in_a_callee, _in_an_operator])
def test_an_op_fails_in_all_its_frames(function: Callable[..., Any], backend: str) -> None:
    how = Comparison(backend=backend, ignore=("grad_fn", "version", "view", "idle strides"))
    how.assert_same_calls(function, call(X), call(X), call(torch.ones(3)))
    with pytest.raises((RuntimeError, TypeError)) as raised:
        jitpkg.compile(function, backend=backend)(X.clone())
    last = [each for each in traceback.extract_tb(raised.tb) if each.filename == __file__][-1]
    assert last.colno == len("    return ")


@needs_llvm
@pytest.mark.parametrize("kind", [nn.Tanh, nn.BatchNorm1d, nn.Dropout])
def test_kernels_of_training(broken: list[int], kind: type[nn.Module]) -> None:
    """Also where the graph writes to its inputs behind everything else, and draws numbers."""
    net = nn.Sequential(nn.Linear(2, 3), kind() if kind is not nn.BatchNorm1d else kind(3))
    compiled = jitpkg.compile(net, backend="jitpkg")

    def calls() -> None:
        for _ in range(6):
            torch.manual_seed(1)
            wanted = net(torch.ones(2, 2)).sum()
            torch.manual_seed(1)
            torch.testing.assert_close(compiled(torch.ones(2, 2)).sum(), wanted)

    (text,) = said(calls)
    assert "a kernel that is wrong" in text
    assert len(broken) == attempts.MOST
    if kind is nn.BatchNorm1d:
        assert net[1].num_batches_tracked == 12
