"""What a program says to the compiler: fullgraph, disable, graph_break, is_compiling, reset."""

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import errors
from tests.api.support import Counts, Net, X, affine, broken, fresh, sine

# fullgraph


def test_fullgraph_raises_and_leaves_the_function_usable(
    C: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    f = C(fresh(broken), fullgraph=True)
    for _ in range(2):
        with pytest.raises(errors.GraphBreak) as caught:
            f(X)
    text, reason = str(caught.value), caught.value.graph_break.reason
    line = inspect.getsourcelines(broken)[1] + 3
    assert text.splitlines() == [
        "B106: something is printed",
        f'  File "{inspect.getsourcefile(broken)}", line {line}, in broken',
        '    print("in the middle")',
        "    ^^^^^^^^^^^^^^^^^^^^^^",
        f"Why: {reason.why}",
        f"What to do: {reason.fix}",
    ]
    assert reason.code == "B106"
    assert pickle.loads(pickle.dumps(caught.value)).graph_break == caught.value.graph_break
    assert capsys.readouterr().out == ""
    g = C(f) if C is jitpkg.jit else C(fresh(broken))
    assert torch.equal(g(X), sine(X))


def test_fullgraph_and_one_graph(C: Any, backend: Counts) -> None:
    f = C(fresh(affine), fullgraph=True, backend=backend)
    assert torch.equal(f(X), affine(X))
    assert len(backend.graphs) == 1


def test_fullgraph_and_an_exception_of_the_program(C: Any) -> None:
    def f(x):
        if x.shape[0] == 2:
            raise KeyError("two")
        return x + 1

    with pytest.raises(KeyError, match="two"):
        C(f, fullgraph=True)(X)


# disable, graph_break, is_compiling


def test_disabled_function_is_called_as_it_is(C: Any) -> None:
    seen = []

    @jitpkg.disable
    def helper(x):
        seen.append((torch.compiler.is_compiling(), type(x)))
        return x + 1

    @jitpkg.disable(reason="it talks to a device")
    def other(x):
        return x * 2

    f = C(lambda x: other(helper(x.sin()) * 3))
    assert torch.equal(f(X), (X.sin() + 1) * 6)
    assert seen == [(False, torch.Tensor)]
    assert helper.__name__ == "helper"


@pytest.mark.parametrize("recursive", [True, False])
def test_disabled_function_is_not_compiled(C: Any, backend: Counts, recursive: bool) -> None:
    f = jitpkg.disable(fresh(sine), recursive)
    assert torch.equal(C(f, backend=backend)(X), sine(X))
    assert not backend.graphs


@pytest.mark.parametrize("function", [affine, sine])
def test_compiled_function_is_disabled(C: Any, backend: Counts, function: Any) -> None:
    f = C(fresh(function), backend=backend)
    f(X)
    assert jitpkg.disable(f) is f
    assert torch.equal(f(X.double()), function(X.double()))
    assert len(backend.graphs) == 1


def test_disabled_module_is_not_compiled(C: Any, backend: Counts) -> None:
    net = Net()
    assert jitpkg.disable(net.layer) is net.layer
    compiled = C(net, backend=backend)
    assert torch.equal(compiled(X), net.forward(X))
    assert [n.name for gm in backend.graphs for n in gm.graph.nodes if n.op != "placeholder"] == [
        *("mul", "add", "output")
    ]
    assert list(net.state_dict()) == ["shift", "layer.weight", "layer.bias"]
    assert torch.equal(copy.deepcopy(net)(X), net.forward(X))


@pytest.mark.parametrize("obj", [3, "f", [1]])
def test_disable_refuses_what_is_no_function(obj: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"disable\(\) takes a function, not "):
        jitpkg.disable(obj)


def test_torch_s_own_disable_is_respected(C: Any) -> None:
    seen = []

    @torch.compiler.disable
    def helper(x):
        seen.append(torch.compiler.is_compiling())
        return x + 1

    f = C(lambda x: helper(x.sin()) * 3)
    assert torch.equal(f(X), (X.sin() + 1) * 3)
    assert seen == [False]


def test_graph_break_splits_the_graph(C: Any, backend: Counts) -> None:
    def f(x):
        y = x.sin()
        jitpkg.graph_break("here")
        return y + 1

    jitpkg.graph_break()
    f = C(f, backend=backend)
    for _ in range(3):
        assert torch.equal(f(X), sine(X))
    assert len(backend.graphs) == 2


def test_is_compiling(C: Any) -> None:
    def f(x):
        return x + 1, jitpkg.is_compiling(), torch.compiler.is_compiling()

    assert f(X)[1:] == (False, False)
    assert C(f)(X)[1:] == (True, True)
    assert not jitpkg.is_compiling()
    assert not torch.compiler.is_compiling()


def test_is_compiling_in_a_function_that_is_called_natively(C: Any) -> None:
    seen = []

    @jitpkg.disable
    def note():
        seen.append((jitpkg.is_compiling(), torch.compiler.is_compiling()))

    def f(x):
        note()
        return x + 1

    C(f)(X)
    assert seen == [(False, False)]


# reset


@pytest.mark.parametrize("function", [affine, sine])
def test_reset_drops_what_was_compiled(C: Any, backend: Counts, function: Any) -> None:
    f = C(fresh(function), backend=backend)
    f(X), f(X)
    assert len(backend.graphs) == 1
    jitpkg.reset()
    f(X), f(X)
    assert len(backend.graphs) == 2


def test_reset_of_a_module(C: Any, backend: Counts) -> None:
    net = C(Net(), backend=backend)
    net(X)
    jitpkg.reset()
    net(X)
    assert len(backend.graphs) == 2
