"""`jitpkg.set_stance`: calls that would have to be compiled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import jitpkg
from jitpkg import config
from jitpkg.errors import InvalidArgument, RecompileForbidden

Program = Callable[..., Any]


class Counted:
    """A backend that counts what it compiles, and what of it runs."""

    def __init__(self) -> None:
        self.compiled = self.ran = 0
        self.varying = 0

    def __call__(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Program:
        self.compiled += 1
        self.varying += any(not isinstance(x, torch.Tensor) for x in inputs)

        def run(*inputs: Any) -> Any:
            self.ran += 1
            return gm.forward(*inputs)

        return run


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    assert config.current().stance == "default"


def double(x: Any) -> Any:
    return x * 2 + 1


def rows(n: int) -> Any:
    return torch.ones(n, 3)


def test_force_eager() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)
    with jitpkg.set_stance("force_eager"):
        assert compiled(rows(2)).tolist() == double(rows(2)).tolist()
    assert (backend.compiled, backend.ran) == (0, 0)
    compiled(rows(2))
    compiled(rows(2))
    assert (backend.compiled, backend.ran) == (1, 2)
    with jitpkg.set_stance("force_eager"):
        compiled(rows(2))
    assert (backend.compiled, backend.ran) == (1, 2)
    compiled(rows(2))
    assert (backend.compiled, backend.ran) == (1, 3)


def test_force_eager_while_decorating() -> None:
    backend = Counted()
    with jitpkg.set_stance("force_eager"):
        compiled = jitpkg.compile(double, backend=backend)
        compiled(rows(2))
    compiled(rows(2))
    assert (backend.compiled, backend.ran) == (1, 1)


def test_eager_on_recompile() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)
    with jitpkg.set_stance("eager_on_recompile"):
        compiled(rows(2))
    assert (backend.compiled, backend.ran) == (0, 0)
    compiled(rows(2))
    with jitpkg.set_stance("eager_on_recompile"):
        compiled(rows(2))
        assert (backend.compiled, backend.ran) == (1, 2)
        assert compiled(rows(3)).shape == (3, 3)
        assert (backend.compiled, backend.ran) == (1, 2)
    compiled(rows(3))
    assert (backend.compiled, backend.ran) == (2, 3)


def test_fail_on_recompile() -> None:
    compiled = jitpkg.compile(double, backend=Counted())
    with (
        jitpkg.set_stance("fail_on_recompile"),
        pytest.raises(RecompileForbidden, match="nothing of it is compiled yet"),
    ):
        compiled(rows(2))
    compiled(rows(2))
    with jitpkg.set_stance("fail_on_recompile"):
        assert compiled(rows(2)).shape == (2, 3)
        with pytest.raises(RecompileForbidden, match=r"double .* because .*size"):
            compiled(rows(3))
    assert compiled(rows(3)).shape == (3, 3)
    with jitpkg.set_stance("fail_on_recompile"):
        assert compiled(rows(5)).shape == (5, 3)  # sizes vary now


def test_eager_then_compile() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)
    with jitpkg.set_stance("eager_then_compile"):
        compiled(rows(2))
        assert (backend.compiled, backend.ran) == (0, 0)
        for n in (3, 4, 5):
            assert compiled(rows(n)).shape == (n, 3)
    assert (backend.compiled, backend.ran) == (1, 3)


def test_eager_then_compile_of_what_is_compiled() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)
    compiled(rows(2))
    with jitpkg.set_stance("eager_then_compile"):
        compiled(rows(3))
    assert (backend.compiled, backend.ran) == (2, 2)


def test_eager_then_compile_of_one_graph() -> None:
    def program(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    compiled = jitpkg.compile(program, backend="eager", fullgraph=True)
    with (
        jitpkg.set_stance("eager_then_compile"),
        pytest.raises(jitpkg.errors.GraphBreak),
    ):
        compiled(rows(2))


def test_behind_a_break() -> None:
    """What is compiled before a break runs; what would have to be compiled after it does not."""
    backend = Counted()

    def program(x: Any, n: Any) -> Any:
        y = x * 2
        jitpkg.graph_break()
        return y.sum() + n if n is not None else y

    compiled = jitpkg.compile(program, backend=backend)
    compiled(rows(2), 1)
    compiled(rows(2), 1)
    before = backend.compiled
    with jitpkg.set_stance("eager_on_recompile"):
        assert compiled(rows(2), None).tolist() == program(rows(2), None).tolist()
    assert backend.compiled == before


def test_as_a_function() -> None:
    jitpkg.set_stance("force_eager")
    assert config.stance == "force_eager"
    backend = Counted()
    jitpkg.compile(double, backend=backend)(rows(2))
    jitpkg.set_stance("default")
    assert backend.compiled == 0


def test_as_a_decorator() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)

    @jitpkg.set_stance("force_eager")
    def caller(x: Any) -> Any:
        """Calls it."""
        assert config.stance == "force_eager"
        return compiled(x)

    assert config.stance == "default"
    caller(rows(2))
    assert caller.__name__ == "caller" and caller.__doc__ == "Calls it."
    assert (config.stance, backend.compiled) == ("default", 0)


def test_nested_and_raised_through() -> None:
    @jitpkg.set_stance("force_eager")
    def raises() -> None:
        with jitpkg.set_stance("eager_on_recompile"):
            assert config.stance == "eager_on_recompile"
        assert config.stance == "force_eager"
        raise KeyError("inside")

    with pytest.raises(KeyError):
        raises()
    assert config.stance == "default"


def test_in_every_thread() -> None:
    backend = Counted()
    compiled = jitpkg.compile(double, backend=backend)
    with jitpkg.set_stance("force_eager"):
        thread = threading.Thread(target=compiled, args=(rows(2),))
        thread.start()
        thread.join()
    assert backend.compiled == 0


def test_of_a_module_in_place() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    backend = Counted()
    jitpkg.jit(model, backend=backend)
    model(rows(2))
    with jitpkg.set_stance("fail_on_recompile"):
        model(rows(2))
        with pytest.raises(RecompileForbidden):
            model.eval()(rows(2))
    with jitpkg.set_stance("force_eager"):
        before = backend.ran
        model(rows(2))
        assert backend.ran == before


def test_inside_a_compiled_function() -> None:
    def program(x: Any) -> Any:
        with jitpkg.set_stance("eager_on_recompile"):
            return x * 2, config.stance

    compiled = jitpkg.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(rows(2))[1] == "eager_on_recompile"


@pytest.mark.parametrize("stance", ["force_eagre", "", "eager"])
def test_another_stance(stance: str) -> None:
    with pytest.raises(InvalidArgument, match="The stances are: default, force_eager"):
        jitpkg.set_stance(stance)


def test_a_stance_of_another_type() -> None:
    with pytest.raises(InvalidArgument, match="takes str"):
        jitpkg.set_stance(None)  # type: ignore[arg-type]


def test_settings_for_good() -> None:
    before = config.recompile_limit
    config.set(recompile_limit=3, stance="force_eager")
    assert (config.recompile_limit, config.stance) == (3, "force_eager")
    config.set(recompile_limit=before, stance="default")
    with pytest.raises(InvalidArgument, match="No setting 'nothing'"):
        config.set(nothing=1)
    with pytest.raises(AttributeError, match=r"config\.set"):
        config.recompile_limit = 4
