"""`Variable`, `Tensor.type` and `Tensor.new`, and what programs check and ask of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Variable

import jitpkg
from jitpkg.testing import Comparison, call


def detached(x: Tensor) -> Any:
    made = Variable(x * 2)
    return made, made.requires_grad, made is x


def one_memory(x: Tensor) -> Any:
    y = x.detach().clone()
    made = Variable(y)
    made.mul_(2)
    return y, made


def name_of_its_type(x: Tensor) -> Any:
    return [x.type(), x.int().type(), (x > 0).type(), x.bfloat16().type(), (x + 1j).type()]


def same_type(x: Tensor) -> Any:
    return x.type(torch.float32) is x, x.type("torch.FloatTensor") is x, x.type(torch.FloatTensor)


def other_type(x: Tensor) -> Any:
    return [
        x.type(torch.float64),
        x.type("torch.DoubleTensor"),
        x.type(torch.LongTensor),
        x.type(dtype=torch.int32),
        x.type(torch.float16, True),
        x.t().type(torch.float64),
    ]


def as_another(x: Tensor) -> Any:
    y = x.double()
    return x.type(y.type()), y.type(x.type())


def memory_of_a_size(x: Tensor) -> Any:
    made = [x.new(3, 4), x.new(x.shape), x.double().new(2), x.new()]
    return [each.zero_() for each in made]


def of_data(x: Tensor) -> Any:
    kinds = x, x.int(), x > 0, x.double(), x.bfloat16()
    data = [1, 2, 0], (1.5, 0), [[True], [False]], [], (), [x.shape[0], 2.5]
    return [kind.new(each) for kind in kinds for each in data]


def of_data_in_tensors(x: Tensor) -> Any:
    y = x.detach()
    return x.new([y[0, 0], y[0, 1], 3.0]), x.long().new((y.argmax(), 4)), x.new([[y[1, 1]]])


def of_a_tensor(x: Tensor) -> Any:
    """Another view of it; what is written to that, the other sees."""
    y = x * 2
    made, own, turned = y.new(y), x.double().new(x.double()), x.new(y.t())
    other = x.new(x.detach())
    return made is y, made, own, turned, other.requires_grad, made.requires_grad, turned.stride()


def written_through_it(x: Tensor) -> Any:
    y = x.detach().clone()
    made = y.new(y)
    made.add_(1)
    return y, made


KINDS: tuple[Any, ...] = (
    *(torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor),
    *(torch.LongTensor, torch.IntTensor, torch.ShortTensor, torch.CharTensor),
    *(torch.ByteTensor, torch.BoolTensor),
)


def made_of_data(x: Tensor) -> Any:
    data = [1, 2, 0], (1.5, 0), [[True], [False]], [], (), [x.shape[0], 2.5]
    return [kind(each) for kind in KINDS for each in data]


def made_of_a_size(x: Tensor) -> Any:
    made = [
        each
        for kind in KINDS
        for each in (kind(3, 4), kind(x.shape), kind(2), kind(), kind(x.shape[0], 1))
    ]
    return [each.zero_() for each in made]


def made_of_numbers_in_tensors(x: Tensor) -> Any:
    y = x.detach()
    return torch.Tensor([y[0, 0], 3.0]), torch.LongTensor((y.argmax(), 4)), x * torch.Tensor([[2]])


def made_of_a_tensor(x: Tensor) -> Any:
    y = x * 2
    made, own, turned = torch.Tensor(y), torch.DoubleTensor(x.double()), torch.FloatTensor(y.t())
    return made is y, made, own, turned, made.requires_grad, torch.Tensor(x), turned.stride()


def frequencies(x: Tensor) -> Any:
    return torch.fft.fftfreq(4) * x, torch.fft.rfftfreq(6, d=0.5) * x


def checked(x: Tensor) -> Any:
    torch._check(x.shape[0] > 2)
    torch._check(x.ndim == 2, lambda: "two dims")
    return x * 2


def without_processes(x: Tensor) -> Any:
    return x * 2 if torch.distributed.is_initialized() else x * 3


ONE_GRAPH = [
    *(detached, one_memory, name_of_its_type, same_type, other_type, as_another),
    *(memory_of_a_size, of_data, of_data_in_tensors, of_a_tensor, written_through_it, frequencies),
    *(checked, without_processes),
    *(made_of_data, made_of_a_size, made_of_numbers_in_tensors, made_of_a_tensor),
]


@pytest.mark.parametrize("backend", ["eager", "jitpkg"])
@pytest.mark.parametrize("program", ONE_GRAPH)
def test_one_graph(program: Callable[..., Any], backend: str) -> None:
    ignored = ("version", "grad_fn") if backend == "jitpkg" else ()
    same = Comparison(fullgraph=True, backend=backend, relative=1e-6, absolute=1e-6, ignore=ignored)
    grad = program in (detached, other_type, of_a_tensor, made_of_a_tensor, of_data_in_tensors)
    sizes = (4, 4, 5) if program is not frequencies else (4, 4)
    given = [call(torch.rand(n, 4, requires_grad=grad)) for n in sizes]
    same.assert_same_calls(program, *given)


def made_of_another_dtype(x: Tensor) -> Any:
    return torch.Tensor(x.int()), torch.FloatTensor(x.double())


def made_on_a_device(x: Tensor) -> Any:
    return torch.Tensor([1.0, 2.0], device="cpu") + x[0, :2]


def made_of_a_number(x: Tensor) -> Any:
    return torch.Tensor(2.5)


def of_no_tensor(x: Tensor) -> Any:
    return Variable([1.0])


def that_requires_grad(x: Tensor) -> Any:
    made = Variable(x.exp(), requires_grad=True)
    (made * x).sum().backward()
    return made.grad, made.is_leaf


def of_an_unknown_type(x: Tensor) -> Any:
    return x.type("torch.NoTensor")


def new_of_numbers(x: Tensor) -> Any:
    return x.new(2.0)


def new_of_another_dtype(x: Tensor) -> Any:
    return x.new(x.int())


def new_of_tensors_with_dims(x: Tensor) -> Any:
    return x.new([x, x])


def new_by_name(x: Tensor) -> Any:
    return x.new(data=[1, 2]), x.new([1, 2], device="cpu"), x.new(size=(2, 3)).zero_()


def check_that_fails(x: Tensor) -> Any:
    torch._check(x.shape[0] > 20, lambda: f"{x.shape[0]} rows")
    return x


def check_without_a_message(x: Tensor) -> Any:
    torch._check(x.shape[0] > 20)
    return x


def check_of_a_tensor(x: Tensor) -> Any:
    torch._check(x.sum() > 2)
    return x


LEFT_TO_TORCH = [
    *(made_of_another_dtype, made_on_a_device, made_of_a_number),
    *(of_no_tensor, that_requires_grad, of_an_unknown_type, new_of_numbers, new_by_name),
    *(
        new_of_another_dtype,
        new_of_tensors_with_dims,
        check_that_fails,
        check_without_a_message,
        check_of_a_tensor,
    ),
]


@pytest.mark.parametrize("program", LEFT_TO_TORCH)
def test_as_torch_has_it(program: Callable[..., Any]) -> None:
    Comparison(backend="eager").assert_same_calls(program, *[call(torch.rand(4, 4))] * 2)


def test_a_process_group_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = jitpkg.compile(without_processes, backend="eager")
    x = torch.ones(2)
    assert torch.equal(compiled(x), x * 3)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert torch.equal(compiled(x), x * 2)
    finally:
        torch.distributed.destroy_process_group()
    assert torch.equal(compiled(x), x * 3)
