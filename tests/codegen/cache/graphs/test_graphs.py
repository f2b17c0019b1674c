"""Graphs of another process: found, and just as right as those that are compiled."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import jitpkg
from jitpkg import events
from jitpkg.codegen.cpu import maker
from jitpkg.errors import JitpkgWarning
from tests.codegen.cache.graphs.support import Process, filled, same
from tests.native.support import needs_llvm

pytestmark = needs_llvm


def pointwise(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(x * 2.5 + y) - 1e-3 * (x > 0)


def rows(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    values, places = x.max(-1)
    return torch.softmax(x @ y.T, -1), values, places, x.sum(0, keepdim=True)


def views(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = x + y
    return z[1:], z.T, x[0], x, z, 3, None, x.dtype, z


def writes(x: Tensor, y: Tensor) -> Tensor:
    x[1].mul_(2)
    y.add_(x)
    return x + 1


def draws(x: Tensor, y: Tensor) -> Tensor:
    return functional.dropout(x, 0.5) + torch.rand_like(y)


def constants(x: Tensor, y: Tensor) -> Tensor:
    return torch.arange(5) * x + torch.tensor([1.0, -0.0, 3.0, 4.0, 5.0]).sin() + y


def pooled(x: Tensor, y: Tensor) -> Tensor:
    return functional.max_pool2d((x @ y.T)[None], 2) + 1


def without_grad(x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return (x * y).exp()


def expected(x: Tensor, y: Tensor) -> Tensor:
    """A kernel reads what ATen returns, of which FakeTensor says how it lies in memory."""
    return torch.frexp(x * y).mantissa + 1


PROGRAMS = (pointwise, rows, views, writes, draws, constants, pooled, without_grad, expected)


def arguments() -> tuple[Tensor, Tensor]:
    return filled(4, 5), filled(4, 5) + 0.5


def outcome(function: Callable[..., Any]) -> list[Any]:
    """All that can be seen of a call."""
    torch.manual_seed(0)
    given = arguments()
    result = function(*given)
    results = result if isinstance(result, tuple) else (result,)
    seen: list[Any] = [*results, *given]
    for k, value in enumerate(results):
        if isinstance(value, Tensor):
            same = [n for n, other in enumerate((*results, *given)) if other is value]
            memory = value.untyped_storage()._cdata
            shared = [x.untyped_storage()._cdata == memory for x in given]
            seen += [k, same, shared, value.stride(), value.is_contiguous(), value._version]
    return [*seen, *(x._version for x in given), torch.rand(1), torch.is_grad_enabled()]


def check(function: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    same(outcome(compiled), outcome(function))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_graph_is_compiled_once_for_all_processes(
    each_process: Process, program: Callable[..., Any]
) -> None:
    for found in (False, True, True):
        compiled = each_process.compiled(program)
        check(program, compiled)
        check(program, compiled)
        assert bool(each_process.made) is not found


def test_random_numbers_in_kernels_are_the_same_in_all_processes(each_process: Process) -> None:
    want = None
    for found in (False, True):
        compiled = each_process.compiled(draws, options={"fused_random": True})
        got = outcome(compiled)
        assert bool(each_process.made) is not found
        same(got, want or got)
        want = got
        assert not torch.equal(compiled(*arguments()), got[0])


def test_who_listens_sees_kernels_that_were_kept(each_process: Process) -> None:
    seen: list[list[object]] = []
    for _ in range(2):
        seen.append([])

        def listener(event: events.Event, to: list[object] = seen[-1]) -> None:
            match event:
                case events.KernelCompiled(name, text):
                    to.append((name, text))
                case events.Fused(kernels=kernels, calls=calls):
                    to.append((kernels, calls))

        with events.STREAM.listening(listener):
            each_process.compiled(rows)(*arguments())
    assert len(seen[0]) > 1
    assert seen[0] == seen[1]
    assert not each_process.made


def test_a_graph_of_which_a_kernel_failed_is_not_kept(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object) -> None:
        raise OSError("no memory now")

    with monkeypatch.context() as patch, jitpkg.config.patch(strict=False):
        patch.setattr(maker, "printed", fails)
        with pytest.warns(JitpkgWarning, match="could not be made"):
            check(pointwise, process.compiled(pointwise))
    check(pointwise, process.compiled(pointwise))
    assert process.made


def test_equal_graphs_of_other_functions_are_one(process: Process) -> None:
    process.compiled(lambda x, y: torch.tanh(x) * y)(*arguments())
    assert process.made

    def other(x: Tensor, y: Tensor) -> Tensor:
        return torch.tanh(x) * y

    check(other, process.compiled(other))
    assert not process.made


# What is not kept


def of_wrapped() -> Callable[..., Any]:
    @functools.wraps(functional.gelu)
    def gelu(x: Tensor) -> Tensor:
        return x * 2

    jitpkg.allow_in_graph(gelu)
    return lambda x, y: gelu(x) + y


def test_what_is_not_torch_s_own_is_not_kept(process: Process) -> None:
    program = of_wrapped()
    for _ in range(2):
        check(program, process.compiled(program))
        assert process.made


def test_large_constants_are_not_kept(process: Process) -> None:
    large = torch.ones(5000)

    def program(x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + large + operator.add(y.sum(), 1)

    for _ in range(2):
        check(program, process.compiled(program))
