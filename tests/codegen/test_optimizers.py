"""Steps of `torch.optim` by kernels, which write each weight where it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg import config, events
from tests.optimizers import EVERY, Run, give_gradients, made, named, train


def by_kernels(run: Run) -> Any:
    function = jitpkg.compile(lambda optimizer: optimizer.step(), backend="jitpkg")
    return lambda: function(run.optimizer)


@pytest.fixture(autouse=True)
def compiled_for_sure() -> Any:
    with config.patch(never_worse=False, strict=True):
        yield


def close(a: Run, b: Run) -> None:
    for mine, theirs in zip(a.parameters, b.parameters, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-6, atol=2e-6)
        if not a.optimizer.defaults.get("fused"):  # which counts nothing, or twice
            assert mine._version == theirs._version
    for (name, x, _), (other, y, _) in zip(a.state(), b.state(), strict=True):
        assert name == other
        torch.testing.assert_close(torch.as_tensor(x), torch.as_tensor(y), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", EVERY, ids=named)
def test_steps(case: tuple[str, dict[str, Any]]) -> None:
    eagerly = made(*case)
    train(eagerly, eagerly.optimizer.step, 12)
    compiled = made(*case)
    train(compiled, by_kernels(compiled), 12)
    close(compiled, eagerly)
    assert not compiled.broke
    # No kernel is made again for another number.
    made_ = [sum(isinstance(e, events.KernelCompiled) for e in step) for step in compiled.heard]
    assert sum(made_[3:5]) == sum(made_[7:]) == 0


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_fused_step_stays_one_op(name: str) -> None:
    run = made(name, {"fused": True})
    train(run, by_kernels(run), 6)
    declined = [e for step in run.heard for e in step if isinstance(e, events.Declined)]
    assert declined and all("one kernel" in e.why for e in declined)
    assert not [e for step in run.heard for e in step if isinstance(e, events.KernelCompiled)]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_kernels_are_one_for_each_size(name: str) -> None:
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(16, 4)) for _ in range(20)]
    run = Run(weights, getattr(torch.optim, name)(weights, lr=0.01))
    train(run, by_kernels(run), 3)
    fused = [e for step in run.heard for e in step if isinstance(e, events.Fused)]
    assert not fused[-1].calls
    texts = {e.text for step in run.heard for e in step if isinstance(e, events.KernelCompiled)}
    assert len(texts) < 10


def test_what_shares_memory_is_written_to_in_order() -> None:
    """Two parameters that are the same memory: the second step sees the first."""

    def run(step_of: Any) -> list[Tensor]:
        memory = torch.ones(4)
        weights = [nn.Parameter(memory.detach()), nn.Parameter(memory.detach())]
        optimizer = torch.optim.Adam(weights, lr=0.1)
        step = step_of(optimizer)
        for k in range(4):
            give_gradients(weights, k)
            step()
        return [memory, *(w.detach() for w in weights)]

    def compiled(optimizer: torch.optim.Optimizer) -> Any:
        return jitpkg.compile(lambda: optimizer.step(), backend="jitpkg")

    for mine, theirs in zip(run(compiled), run(lambda o: o.step), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_saved_weights_are_noticed() -> None:
    """Autograd refuses a gradient by a weight that a step has changed meanwhile."""
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    step = jitpkg.compile(lambda: optimizer.step(), backend="jitpkg")
    for _ in range(3):
        weight.grad = torch.ones(3)
        loss = (weight * weight).sum()
        step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


IN_PLACE = {
    "elementwise": lambda x, y: x.mul_(y).add_(1),
    "transposed": lambda x, y: x.copy_(x.t() + 0),
    "shifted": lambda x, y: x[1:].add_(x[:-1] * 1),
    "broadcast": lambda x, y: x.add_(x[0] + 0),
    "flipped": lambda x, y: x.copy_(x.flip(0)),
    "of a row's sum": lambda x, y: x.sub_(x.sum(1, keepdim=True)),
    "running": lambda x, y: x.copy_(x.cumsum(0)),
    "softmax": lambda x, y: x.copy_(x.softmax(1)),
    "read again": lambda x, y: y.copy_(x.exp()).add_(x.add_(1)),
    "swapped": lambda x, y: (x.copy_(y + 0), y.copy_(x * 2)),
    "both from both": lambda x, y: (x.add_(y), y.mul_(x)),
    "product": lambda x, y: x.copy_(x @ y),
    "gathered": lambda x, y: x.copy_(x.gather(0, (y * 0).long())),
    "twice the same": lambda x, y: (x.add_(1), y.copy_(x)),
    "as a result": lambda x, y: (x.mul_(2), x.sum()),
    "written twice": lambda x, y: x.add_(1).mul_(2).sub_(y),
}


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("size", [3, 67])
def test_writes_in_place(name: str, size: int) -> None:
    change: Any = IN_PLACE[name]

    def program(x: Tensor, y: Tensor) -> Tensor:
        before = x.sum()
        change(x, y)
        return before

    function = jitpkg.compile(program, backend="jitpkg")
    for k in range(3):
        torch.manual_seed(k)
        x, y = torch.randn(size, size), torch.randn(size, size)
        a, b, c, d = x.clone(), y.clone(), x.clone(), y.clone()
        torch.testing.assert_close(function(a, b), program(c, d))
        torch.testing.assert_close(a, c)
        torch.testing.assert_close(b, d)
        assert (a._version, b._version) == (c._version, d._version)


def test_a_result_that_is_equal_to_what_is_written() -> None:
    """One value, and two tensors."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        x.add_(1)
        return y, x

    function = jitpkg.compile(program, backend="jitpkg")
    for k in range(3):
        x = torch.full((3,), float(k))
        y, same = function(x)
        assert same is x
        y.zero_()
        assert x.tolist() == [k + 1.0] * 3


def test_nothing_is_written_where_an_index_is_out_of_range() -> None:
    def program(x: Tensor, table: Tensor, rows: Tensor) -> Tensor:
        x.add_(1)
        return table[rows]

    function = jitpkg.compile(program, backend="jitpkg")
    x, table = torch.zeros(4), torch.randn(5, 2)
    function(x, table, torch.tensor([1, 2]))
    assert x.tolist() == [1.0] * 4
    with pytest.raises(IndexError):
        function(x, table, torch.tensor([7]))
    assert x.tolist() == [2.0] * 4  # as in eager code
    assert function(x, table, torch.tensor([0])).equal(table[:1])
    assert x.tolist() == [3.0] * 4


def used(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(0.5)
    return x.sin() * 2


def used_by_its_result(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x.add_(1)
    return y * 3


def used_in_a_list(x: Tensor) -> Tensor:
    with torch.no_grad():
        torch._foreach_mul_([x], 0.5)
    return x.exp()


def used_by_a_view(x: Tensor) -> Tensor:
    with torch.no_grad():
        x[1:].mul_(3)
    return x * x


def used_before(x: Tensor) -> Tensor:
    y = x * 2
    with torch.no_grad():
        x.zero_()
    return y + x


def updated_and_used(x: Tensor) -> Tensor:
    x.grad = None
    with torch.no_grad():
        x.sub_(torch.ones(3), alpha=0.1)
    loss = (x * x).sum()
    with torch.no_grad():
        x.add_(1)
    return loss


USED = [used, used_by_its_result, used_in_a_list, used_by_a_view, used_before, updated_and_used]


@pytest.mark.parametrize("program", USED, ids=lambda program: program.__name__)
@pytest.mark.parametrize("leaf", [True, False])
def test_weights_that_are_written_to_and_used(program: Any, leaf: bool) -> None:
    """Without gradients, and then with them."""
    compiled = jitpkg.compile(program, backend="jitpkg")
    for k in range(3):
        mine, theirs = (torch.arange(3.0, requires_grad=True) for _ in range(2))
        a, b = (mine, theirs) if leaf else (mine + k, theirs + k)
        found, wanted = compiled(a), program(b)
        assert found.requires_grad == wanted.requires_grad
        torch.testing.assert_close((found, a), (wanted, b))
        assert a._version == b._version
        try:
            wanted.sum().backward()
        except RuntimeError as error:
            with pytest.raises(RuntimeError, match=str(error)[:30]):
                found.sum().backward()
            continue
        found.sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("how", ["interpret", "triton"])
def test_by_other_printers(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITPKG_DEBUG", how)
    eagerly, compiled = made("Adam", {}), made("Adam", {})
    train(eagerly, eagerly.optimizer.step, 4)
    train(compiled, by_kernels(compiled), 4)
    close(compiled, eagerly)
    for name in ("elementwise", "read again", "both from both", "twice the same"):
        test_writes_in_place(name, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_lengths_in_place(dtype: torch.dtype) -> None:
    """Each element once: also those behind the last whole vector."""

    def program(x: Tensor, y: Tensor) -> None:
        y.add_(x)
        x.mul_(3).add_(y)

    for size in (1, 2, 5, 15, 16, 17, 33, 63, 65, 127, 1000, 4097, (3, 5), (17, 33), (2, 3, 65)):
        function = jitpkg.compile(program, backend="jitpkg", dynamic=False)
        for transposed in (False, True):
            shape = size if isinstance(size, tuple) else (size,)
            x, y = (torch.arange(torch.Size(shape).numel()).view(shape).to(dtype) for _ in range(2))
            if transposed:
                x, y = x.movedim(0, -1), y.movedim(0, -1).contiguous()
            a, b = torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(x), y.clone()
            function(a, b)
            program(x, y)
            torch.testing.assert_close((a, b), (x, y))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_lists_with_other_backends(backend: str) -> None:
    """Numbers that vary, in a list: no op takes tensors in their place."""

    def run(compile_: Any) -> list[Tensor]:
        weights = [nn.Parameter(torch.arange(3.0) + k) for k in range(3)]
        optimizer = torch.optim.Adam(weights, lr=0.01, foreach=True)
        step = compile_(lambda optimizer: optimizer.step())
        for _ in range(4):
            for weight in weights:
                weight.grad = weight.detach().cos()
            step(optimizer)
        return weights

    found = run(lambda step: jitpkg.compile(step, backend=backend))
    torch.testing.assert_close(found, run(lambda step: step), rtol=1e-5, atol=1e-6)
