"""An exception from outside between an entry that ends inside of a `with` block and the code that
goes on there: nothing has entered the block yet that would leave it. No mode is left switched."""

import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg.code.instructions import decode
from jitpkg.rewriter.dispatch import Dispatcher

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signals here")


class Timeout(Exception):
    pass


def modes() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
    )


def without_gradients(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        y = x @ x
        jitpkg.graph_break()
        y = y + 1
    return y * x


def casting(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        jitpkg.graph_break()
        y = y + 1
    return y * x


def nested(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for _ in range(2):
            with torch.enable_grad():
                x = x @ x
                jitpkg.graph_break()
            x = x + 1
    return x


def switched(x: torch.Tensor) -> torch.Tensor:
    torch.set_grad_enabled(False)
    try:
        y = x @ x
        jitpkg.graph_break()
    finally:
        torch.set_grad_enabled(True)
    return y * x


FUNCTIONS = (without_gradients, casting, nested, switched)


@contextmanager
def raising_in(monkeypatch: pytest.MonkeyPatch, *, late: bool) -> Iterator[list[int]]:
    """A signal comes whenever a resume function is made: before that, or just after."""
    came = []
    original = Dispatcher.resume_function

    def interrupted(self: Dispatcher, *arguments: Any) -> types.FunctionType:
        made = original(self, *arguments) if late else None
        came.append(1)
        signal.raise_signal(signal.SIGUSR1)
        return made or original(self, *arguments)

    def handler(signum: int, frame: types.FrameType | None) -> None:
        raise Timeout

    before = signal.signal(signal.SIGUSR1, handler)
    with monkeypatch.context() as patch:
        patch.setattr(Dispatcher, "resume_function", interrupted)
        yield came
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_signal_while_a_frame_is_left(
    function: Callable[..., torch.Tensor],
    backend: str,
    late: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = jitpkg.compile(function, backend=backend)
    x, before = torch.ones(2, 2, requires_grad=True), modes()
    with raising_in(monkeypatch, late=late) as came:
        with pytest.raises(Timeout):
            compiled(x)
        assert came
        assert modes() == before
    for _ in range(2):
        found, wanted = compiled(x), function(x)
        assert torch.equal(found, wanted)
        assert found.requires_grad is wanted.requires_grad
        assert modes() == before


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_signal_comes_before_a_block_is_entered(function: Callable[..., torch.Tensor]) -> None:
    """What calls for one are calls, and RESUME at the beginning of a function."""
    emitted: list[types.CodeType] = []
    resumed = Dispatcher._resume_code

    def noting(self: Dispatcher, p: int, base: int) -> types.CodeType:
        code = resumed(self, p, base)
        if self.points.instructions[p].covered is not None:
            emitted.append(code)
        return code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "_resume_code", noting)
        jitpkg.compile(function, backend="eager")(torch.ones(2, 2))
    assert emitted
    for code in emitted:
        instructions = decode(code).instructions
        at = next(i for i, ins in enumerate(instructions) if ins.opname == "RESUME")
        assert instructions[at].arg >= 2
        for instruction in instructions[at + 1 :]:
            if instruction.opname.startswith("JUMP"):
                break  # into the block
            assert not instruction.opname.startswith("CALL")
