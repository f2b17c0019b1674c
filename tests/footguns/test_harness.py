"""The harness itself, with compilers that are right, wrong, broken, or never come back."""

import copy
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch

from tests.footguns import run
from tests.footguns.catalogue import CASES, Implementation, evaluate


def frozen(f: Any) -> Any:
    """A compiler that takes the first result for every result."""
    results: list[object] = []

    def first(*args: object, **kwargs: object) -> object:
        if not results:
            results.append(f(*args, **kwargs))
        return results[0]

    return first


def copied(f: Any) -> Any:
    """A compiler whose product knows nothing of what happens to the original."""
    if isinstance(f, torch.nn.Module):
        return copy.deepcopy(f)
    if not isinstance(f, FunctionType):
        return f
    twin = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    twin.__kwdefaults__ = f.__kwdefaults__
    return twin


def refusing(f: Any) -> Any:
    """A compiler that fails."""
    raise TypeError("cannot compile this")


@pytest.mark.parametrize(
    ("compiler", "case"),
    [
        (frozen, "A01_global_rebound_between_calls"),
        (frozen, "F02_torch_rng_sequence"),
        (copied, "J02_code_reassigned_after_compile"),
        (copied, "H03_param_replaced"),
    ],
)
def test_a_wrong_compiler_is_noticed(compiler: Callable[[Any], Any], case: str) -> None:
    assert evaluate(case, Implementation(compiler)) != evaluate(case)


def test_what_a_case_raises_comes_out() -> None:
    with pytest.raises(TypeError, match="cannot compile this"):
        evaluate("A01_global_rebound_between_calls", Implementation(refusing))


def test_the_script_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.compare(Implementation(), ["A0"]) == 0
    assert capsys.readouterr().out == "8 right, 0 wrong\n"
    assert run.compare(Implementation(refusing), ["A01", "A02"]) == 2
    assert "RAISED TypeError: cannot compile this" in (out := capsys.readouterr().out)
    assert out.endswith("0 right, 2 wrong\n")


def test_the_script_gives_up_on_a_case_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SECONDS", 1)
    hanging = Implementation(lambda f: lambda *args, **kwargs: time.sleep(30))
    assert run.evaluated("C07_data_setter", hanging) == "TIMED OUT"


def test_the_graph_break_is_the_implementations_own() -> None:
    calls: list[None] = []
    evaluate("D01_break_in_loop", Implementation(graph_break=lambda: calls.append(None)))
    assert len(calls) == 3
    evaluate("D01_break_in_loop")
    assert len(calls) == 3


def test_a_case_leaves_no_state_behind() -> None:
    def leaves_much(f: Any) -> Any:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return f

    evaluate("E24_zip_strict_error", Implementation(leaves_much))
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


def test_every_case_begins_with_a_reset() -> None:
    resets: list[None] = []
    for case in list(CASES)[:3]:
        evaluate(case, Implementation(reset=lambda: resets.append(None)))
    assert len(resets) == 3
