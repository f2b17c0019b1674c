"""Backends: found by name, registered, and what they may do and return."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import errors
from jitpkg.codegen import backends
from tests.api.support import Counts, Net, X, affine, broken, fresh, sine


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    known = dict(backends.REGISTRY._backends)
    monkeypatch.setattr(backends.REGISTRY, "_backends", known)


def test_eager_is_listed_and_the_list_is_sorted() -> None:
    names = jitpkg.list_backends()
    assert "eager" in names
    assert names == sorted(names)


def test_registered_by_name(C: Any, backend: Counts) -> None:
    assert jitpkg.register_backend(backend, "counting") is backend
    assert "counting" in jitpkg.list_backends()
    assert torch.equal(C(fresh(sine), backend="counting")(X), sine(X))
    assert len(backend.graphs) == 1


def test_registered_by_a_decorator(C: Any) -> None:
    @jitpkg.register_backend
    def mine(gm, inputs):
        return gm.forward

    assert torch.equal(C(fresh(sine), backend="mine")(X), sine(X))
    assert jitpkg.register_backend(mine) is mine


def test_registering_refuses_bad_backends(backend: Counts) -> None:
    with pytest.raises(errors.InvalidArgument, match="a function of a graph and inputs, not 3"):
        jitpkg.register_backend(3, "three")
    with pytest.raises(errors.InvalidArgument, match="has no name: give one"):
        jitpkg.register_backend(backend)
    with pytest.raises(errors.InvalidArgument, match="There is a backend 'eager' already"):
        jitpkg.register_backend(backend, "eager")


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that offers backends."""
    (tmp_path / "offering.py").write_text(
        "def backend(gm, inputs):\n"
        "    return lambda *args: tuple(t + 10 for t in gm.forward(*args))\n"
        "number = 3\n"
    )
    info = tmp_path / "offering-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offering\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{backends.GROUP}]\n"
        "offered = offering:backend\n"
        "aot_eager = offering:backend\n"
        "number = offering:number\n"
        "missing = not_there:backend\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "offering", raising=False)


def test_found_in_an_installed_package(C: Any, distribution: None) -> None:
    assert "offered" in jitpkg.list_backends()
    assert "offering" not in sys.modules
    assert torch.equal(C(fresh(sine), backend="offered")(X), sine(X) + 10)


def test_a_package_cannot_replace_a_backend(distribution: None) -> None:
    assert jitpkg.list_backends().count("aot_eager") == 1
    assert backends.REGISTRY.find("aot_eager").__module__ == "jitpkg.codegen.autograd.aot.aot_eager"
    with pytest.raises(errors.InvalidArgument, match="There is a backend 'inductor' already"):
        jitpkg.register_backend(sine, "inductor")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("number", "'number' is no function: offering:number is 3"),
        ("missing", "'missing' cannot be imported from not_there:backend: ModuleNotFoundError"),
    ],
)
def test_a_package_that_offers_no_backend(distribution: None, name: str, text: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=text):
        jitpkg.jit(fresh(sine), backend=name)


# What a backend is given


def test_inputs_are_the_call_s_own(C: Any, backend: Counts) -> None:
    C(fresh(affine), backend=backend)(X)
    ((given,),) = backend.inputs
    assert given is X
    (graph,) = backend.graphs
    assert [n.op for n in graph.graph.nodes] == [
        "placeholder",
        "call_function",
        "call_function",
        "output",
    ]
    (result,) = graph(X)
    assert torch.equal(result, affine(X))


def test_parameters_and_buffers_are_inputs(C: Any, backend: Counts) -> None:
    net = Net()
    C(net, backend=backend)(X)
    ((x, *others),) = backend.inputs
    assert x is X
    assert {id(t) for t in others} == {id(t) for t in (*net.parameters(), *net.buffers())}
    assert not list(backend.graphs[0].parameters())


def test_options_are_handed_over(C: Any) -> None:
    seen = []

    def tuned(gm, inputs, *, options):
        seen.append(options)
        return gm.forward

    options = {"level": 3}
    C(fresh(sine), backend=tuned, options=options)(X)
    assert seen == [{"level": 3}]


# What a backend may do


def test_backend_that_changes_the_graph(C: Any) -> None:
    def cosine(gm, inputs):
        for node in gm.graph.nodes:
            if node.target in ("sin", torch.sin):
                node.target = "cos" if node.op == "call_method" else torch.cos
        gm.recompile()
        return gm

    assert torch.equal(C(fresh(sine), backend=cosine)(X), X.cos() + 1)


def test_backend_that_returns_a_list(C: Any) -> None:
    def listing(gm, inputs):
        return lambda *args: list(gm.forward(*args))

    assert torch.equal(C(fresh(sine), backend=listing)(X), sine(X))


def test_backend_that_writes_to_its_inputs_changes_the_program_s_tensors(C: Any) -> None:
    """It is given the real ones; that is why it must not."""
    x = X.clone()

    def writing(gm, inputs):
        assert inputs[0] is x
        return gm.forward

    C(fresh(sine), backend=writing)(x)
    assert torch.equal(x, X)


# What goes wrong


def test_backend_that_raises(C: Any) -> None:
    """Under `strict` the error is shown; the original code runs otherwise."""

    def failing(gm, inputs):
        raise KeyError("no such kernel")

    f = C(fresh(sine), backend=failing)
    with pytest.raises(errors.JitpkgError) as caught:
        f(X)
    assert "sine#0 (KeyError: 'no such kernel')" in str(caught.value)
    f = C(fresh(sine), backend=failing)
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match="no such kernel"):
        assert torch.equal(f(X), sine(X))


@pytest.mark.parametrize("returned", [None, 3, "graph"])
def test_backend_that_returns_nothing_to_call(C: Any, returned: Any) -> None:
    f = C(fresh(sine), backend=lambda gm, inputs: returned)
    text = f"the backend returned {returned!r}, which is not callable"
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match=re.escape(text)):
        assert torch.equal(f(X), sine(X))


def test_backend_whose_code_raises_when_it_runs(C: Any) -> None:
    """The ops run one by one then, and it is said once; strict raises."""
    calls = []

    def fragile(gm, inputs):
        def run(*args):
            calls.append(args)
            raise RuntimeError("out of memory")

        return run

    f = C(fresh(sine), backend=fragile)
    with pytest.raises(errors.BackendError, match="out of memory"):
        f(X)
    with jitpkg.config.patch(strict=False):
        g = C(fresh(sine), backend=fragile)
        with pytest.warns(errors.JitpkgWarning, match="out of memory"):
            assert torch.equal(g(X), sine(X))
        assert torch.equal(g(X), sine(X))
    assert len(calls) == 3


def test_backend_that_takes_one_argument_only(C: Any) -> None:
    f = C(fresh(sine), backend=lambda gm: gm)
    with jitpkg.config.patch(strict=False), pytest.warns(UserWarning, match="positional argument"):
        assert torch.equal(f(X), sine(X))


def test_each_function_has_the_backend_that_it_was_given(C: Any) -> None:
    first, second = Counts(), Counts()
    f, g = C(fresh(sine), backend=first), C(fresh(sine), backend=second)
    f(X), g(X), f(X), g(X)
    assert (len(first.graphs), len(second.graphs)) == (1, 1)


def test_callees_that_are_reached_through_a_break(
    C: Any, backend: Counts, capsys: pytest.CaptureFixture[str]
) -> None:
    f = C(lambda x: broken(x) * 2, backend=backend)
    assert torch.equal(f(X), sine(X) * 2)
    assert torch.equal(f(X), sine(X) * 2)
    ops = [n.name for gm in backend.graphs for n in gm.graph.nodes if n.op.startswith("call")]
    assert ops == ["sin", "add", "mul"]
    assert capsys.readouterr().out == "in the middle\n" * 2
