"""What `fullgraph=True` promises: one graph, or an error that says why; and what it leaves open."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import errors
from jitpkg.tracer import reasons
from tests.api.support import Counts, Net, X, affine, broken, fresh, sine


def optimiser() -> torch.optim.Optimizer:
    """One of which a step asks tensors for numbers; torch.compile, where that is loaded, marks no
    method of it."""
    return torch.optim.Adafactor([nn.Parameter(torch.ones(2))], lr=0.5)


def half(optimizer: torch.optim.Optimizer) -> Callable[[], torch.Tensor]:
    (parameter,) = optimizer.param_groups[0]["params"]

    def closure() -> torch.Tensor:
        parameter.grad = torch.full((2,), 0.5)
        return parameter.sum()

    return closure


def disabled(by: Any) -> Any:
    return by(fresh(sine))


class Disabled(nn.Module):
    @jitpkg.disable
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


REFUSED: dict[str, tuple[Callable[[], Any], tuple[Any, ...], errors.Reason]] = {
    "of a library": (lambda: optimiser().step, (lambda: X.sum(),), reasons.LIBRARY),
    "of a library, with defaults": (
        lambda: torch.utils.data.default_collate,
        ([1],),
        reasons.LIBRARY,
    ),
    "disabled": (lambda: disabled(jitpkg.disable), (X,), reasons.DISABLED),
    "disabled by torch": (lambda: disabled(torch.compiler.disable), (X,), reasons.DISABLED),
    "called for real": (lambda: disabled(jitpkg.disallow_in_graph), (X,), reasons.DISABLED),
    "module": (Disabled, (X,), reasons.DISABLED),
    "disabled module": (lambda: jitpkg.disable(Net()), (X,), reasons.DISABLED),
    "partial": (lambda: functools.partial(optimiser().step), (X.sum,), reasons.LIBRARY),
    "builtin": (lambda: np.frombuffer, (b"12345678",), reasons.FOREIGN_CALL),
    "remembered": (lambda: functools.lru_cache(fresh(sine)), (X,), reasons.OPAQUE),
    "broken": (lambda: fresh(broken), (X,), reasons.PRINT),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_never_traced(kind: str) -> None:
    make, args, reason = REFUSED[kind]
    compiled = jitpkg.compile(make(), fullgraph=True, backend="eager")
    for _ in range(2):
        with pytest.raises(errors.GraphBreak) as caught:
            compiled(*args)
        assert caught.value.graph_break.reason is reason
        assert reason.title in str(caught.value)


IN_PLACE = ["of a library, with defaults", "disabled", "module", "broken"]


@pytest.mark.parametrize("kind", IN_PLACE)
def test_in_place(kind: str) -> None:
    make, args, reason = REFUSED[kind]
    function = make() if kind != "of a library, with defaults" else fresh(make())
    with pytest.raises(errors.GraphBreak) as caught:
        jitpkg.jit(function, fullgraph=True, backend="eager")(*args)
    assert caught.value.graph_break.reason is reason


def test_without_it_a_library_s_function_runs_and_a_warning_says_so() -> None:
    opt = optimiser()
    with pytest.warns(errors.JitpkgWarning) as caught:
        step = jitpkg.compile(opt.step)
    (warning,) = caught
    assert str(warning.message).startswith(
        "Adafactor.step is not compiled: B116: a function of a library"
    )
    assert warning.filename == __file__
    eagerly = optimiser()
    eagerly.step(half(eagerly))
    step(half(opt))
    assert torch.equal(*(o.param_groups[0]["params"][0] for o in (opt, eagerly)))


@pytest.mark.parametrize("by", [jitpkg.disable, torch.compiler.disable])
def test_without_it_a_disabled_function_runs(C: Any, by: Any, recwarn: Any) -> None:
    f = disabled(by)
    assert torch.equal(C(f)(X), sine(X))
    assert not recwarn.list


def test_explain_says_why_nothing_is_compiled() -> None:
    with pytest.warns(errors.JitpkgWarning):
        explained = jitpkg.explain(optimiser().step)
    assert [b.reason for b in explained(X.sum).break_reasons] == [reasons.LIBRARY]
    assert explained(X.sum).break_reasons == []


@pytest.mark.parametrize("settings", [{}, {"recompile_limit": 3}])
def test_more_entries_than_there_may_be(C: Any, settings: dict[str, int], backend: Counts) -> None:
    f = C(lambda x, k: x * len(k), fullgraph=True, backend=backend, **settings)
    limit = settings.get("recompile_limit", 8)
    names = ["a" * n for n in range(1, limit + 1)]
    for name in names:
        f(X, name)
    for _ in range(2):
        with pytest.raises(errors.RecompileLimit, match=f"compiled {limit} times.*because k is"):
            f(X, "b")
    for name in names:
        assert torch.equal(f(X, name), X * len(name))
    assert len(backend.graphs) == limit


def test_code_that_cannot_be_hooked(C: Any) -> None:
    f = fresh(sine)
    f.__code__ = f.__code__.replace(co_linetable=b"")
    with pytest.raises(errors.GraphBreak, match="the code of sine cannot be hooked"):
        C(f, fullgraph=True)
    with pytest.warns(errors.JitpkgWarning, match="sine is not compiled: the code of sine cannot"):
        g = C(f)
    f.__code__ = affine.__code__.replace(co_linetable=b"")
    f.__defaults__, f.__kwdefaults__ = (2,), {"n": 3}
    assert torch.equal(g(X), affine(X))


# What it leaves open: the surroundings of a call


def test_the_setting_disable() -> None:
    f = jitpkg.compile(fresh(broken), fullgraph=True)
    with jitpkg.config.patch(disable=True):
        f(X)


def test_a_mode_that_is_active(backend: Counts) -> None:
    f = jitpkg.compile(fresh(sine), fullgraph=True, backend=backend)
    with torch.overrides.BaseTorchFunctionMode():
        assert torch.equal(f(X), sine(X))
    assert not backend.graphs
    f(X)
    assert len(backend.graphs) == 1


def test_another_thread_that_compiles() -> None:
    """The original code runs meanwhile: nobody waits."""
    compiling, done = threading.Event(), threading.Event()

    def slow(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        compiling.set()
        assert done.wait(30)
        return gm.forward

    f = jitpkg.compile(fresh(sine), fullgraph=True, backend=slow)
    thread = threading.Thread(target=f, args=(X,))
    thread.start()
    assert compiling.wait(30)
    assert torch.equal(f(X), sine(X))
    done.set()
    thread.join()


def test_what_is_suspended_is_a_graph_up_to_there(backend: Counts) -> None:
    def generator(x: torch.Tensor) -> Any:
        y = x.sin()
        yield y
        yield y.cos()

    results = list(jitpkg.compile(generator, fullgraph=True, backend=backend)(X))
    assert torch.equal(results[1], X.sin().cos())
    list(jitpkg.compile(generator, fullgraph=True, backend=backend)(X))
    assert len(backend.graphs) >= 2


def test_an_exception_is_the_program_s_own() -> None:
    def raising(x: torch.Tensor) -> torch.Tensor:
        raise KeyError(x.sum().shape)

    with pytest.raises(KeyError):
        jitpkg.compile(raising, fullgraph=True)(X)
