"""Compiled callables that are called by compiled code, or compiled again."""

import copy
import types
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import errors
from tests.api.support import Counts, Net, X, affine, fresh, sine


def calling(callee: Any) -> Any:
    """A function that calls another one."""
    return lambda *args, **kwargs: callee(*args, **kwargs) + 1


@pytest.mark.parametrize("function", [sine, affine], ids=["plain", "defaults"])
def test_a_compiled_callee_is_a_part_of_the_graph(C: Any, function: Any, backend: Counts) -> None:
    inner = C(fresh(function), backend="eager")
    outer = C(calling(inner), backend=backend, fullgraph=True)
    assert torch.equal(outer(X), function(X) + 1)
    assert len(backend.graphs) == 1


def test_a_callee_s_defaults_may_change(C: Any) -> None:
    f = fresh(affine)
    outer = C(calling(C(f, backend="eager")), backend="eager")
    assert torch.equal(outer(X), affine(X) + 1)
    f.__defaults__ = (5,)
    assert torch.equal(outer(X), affine(X, 5) + 1)
    f.__kwdefaults__ = {"n": 7}
    assert torch.equal(outer(X), affine(X, 5, n=7) + 1)


@pytest.mark.parametrize("first", [sine, affine], ids=["plain", "defaults"])
def test_a_callee_s_code_may_change(C: Any, first: Any) -> None:
    """The compiled function is not called any more, so it cannot notice."""
    f = fresh(first)
    outer = C(calling(C(f, backend="eager")), backend="eager")
    assert torch.equal(outer(X), first(X) + 1)
    f.__code__ = (lambda x, k=2, *, n=3: x * 100).__code__
    f.__defaults__, f.__kwdefaults__ = (2,), {"n": 3}
    assert torch.equal(outer(X), X * 100 + 1)


def test_compiled_functions_made_anew_share_an_entry(backend: Counts) -> None:
    """They are known by their code, as other local functions are."""

    def outer(x: torch.Tensor, inner: Any) -> torch.Tensor:
        return inner(x) + 1

    outer = jitpkg.compile(outer, backend=backend)
    for _ in range(4):
        inner = jitpkg.compile(lambda x, k=2: x * k, backend="eager")
        assert torch.equal(outer(X, inner), X * 2 + 1)
    assert len(backend.graphs) == 1


def test_a_compiled_function_that_is_jitted_still_follows() -> None:
    f = fresh(sine)
    g = jitpkg.compile(f, backend="eager")
    jitpkg.jit(g, backend="eager")
    assert torch.equal(g(X), sine(X))
    f.__code__ = (lambda x: x * 100).__code__
    assert torch.equal(g(X), X * 100)


def test_a_view_of_a_module_is_a_part_of_the_graph(C: Any, backend: Counts) -> None:
    net = Net()
    inner = C(net, backend="eager")
    outer = C(calling(inner), backend=backend, fullgraph=True)
    assert torch.equal(outer(X, scale=2.0), net.forward(X, 2.0) + 1)
    assert len(backend.graphs) == 1
    hook = net.register_forward_hook(lambda module, args, result: result * 2)
    assert torch.equal(outer(X), net.forward(X) * 2 + 1)
    hook.remove()
    assert torch.equal(outer(X), net.forward(X) + 1)


def test_what_torch_compile_was_given_is_compiled(
    backend: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "__init__", "__setstate__":  # torch.compile wraps these two for good
        monkeypatch.setattr(torch.nn.Module, name, getattr(torch.nn.Module, name))
    theirs = torch.compile(fresh(sine), backend="eager")
    assert torch.equal(jitpkg.compile(theirs, backend=backend, fullgraph=True)(X), sine(X))
    assert len(backend.graphs) == 1
    outer = jitpkg.compile(calling(theirs), backend=backend)
    assert torch.equal(outer(X), sine(X) + 1)
    with pytest.warns(errors.JitpkgWarning, match="sine, compiled by torch.compile"):
        assert jitpkg.jit(theirs) is theirs


def test_what_torch_compiler_disables_is_not() -> None:
    disabled = torch.compiler.disable(fresh(sine))
    assert jitpkg.compile(disabled) is disabled
    with pytest.raises(errors.GraphBreak, match="B115"):
        jitpkg.compile(calling(disabled), fullgraph=True)(X)


def test_a_module_of_views(C: Any, backend: Counts) -> None:
    nets = [Net(), Net()]
    whole = torch.nn.Sequential(*[C(net, backend="eager") for net in nets])
    compiled = C(whole, backend=backend, fullgraph=True)
    assert torch.equal(compiled(X), nets[1].forward(nets[0].forward(X)))
    assert len(backend.graphs) == 1
    other = copy.deepcopy(whole)
    assert torch.equal(other(X), nets[1].forward(nets[0].forward(X)))


def test_code_without_positions(C: Any) -> None:
    """As tools that strip code leave it."""
    bare = fresh(sine)
    bare.__code__ = bare.__code__.replace(co_linetable=b"")
    assert torch.equal(C(bare, backend="eager")(X), sine(X))
    assert torch.equal(C(calling(bare), backend="eager")(X), sine(X) + 1)


def test_a_copy_of_hooked_code_under_another_name(C: Any) -> None:
    hooked = jitpkg.jit(fresh(sine), backend="eager")
    hooked(X)
    copied = types.FunctionType(hooked.__code__.replace(co_name="other"), globals())
    assert torch.equal(copied(X), sine(X))
    assert torch.equal(C(calling(copied), backend="eager")(X), sine(X) + 1)
    assert torch.equal(C(copied, backend="eager")(X), sine(X))
