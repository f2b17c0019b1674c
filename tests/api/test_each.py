"""`jit(model, each=…)`: modules of one class share what is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import jitpkg
from jitpkg.errors import GraphBreak, InvalidArgument
from tests.api.support import Counts

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def _nothing_else() -> Iterator[None]:
    jitpkg.reset()
    yield
    jitpkg.reset()


class Block(nn.Module):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.norm = nn.LayerNorm(4)
        self.inner = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        return x + self.inner(self.norm(x)).relu() * self.scale


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.linear(x).tanh()
        return made


class Net(nn.Module):
    def __init__(self, count: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(count))
        self.head = Head()

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        made: Tensor = self.head(x)
        return made


def compared(model: nn.Module, plain: nn.Module, x: Tensor = X) -> None:
    for _ in range(3):
        plain.zero_grad()
        model.zero_grad()
        wanted, found = plain(x), model(x)
        torch.testing.assert_close(found, wanted)
        wanted.sum().backward()
        found.sum().backward()
    named = dict(plain.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, named[name].grad, msg=name)
    torch.testing.assert_close(dict(model.named_buffers()), dict(plain.named_buffers()))


def test_all_of_a_class_are_one_graph(backend: Counts) -> None:
    model = Net()
    assert jitpkg.jit(model, each=Block, backend=backend) is model
    compared(model, Net())
    assert len(backend.graphs) == 1
    (function,) = jitpkg.stats().functions
    assert function.name.endswith("Block")
    assert jitpkg.stats(model.blocks[3]).graph_count == 1


def test_several_classes_and_a_predicate(backend: Counts) -> None:
    model = Net()
    jitpkg.jit(model, each=(Block, Head), backend=backend)
    compared(model, Net())
    assert len(backend.graphs) == 2
    backend.graphs.clear()
    model = Net()
    last = model.blocks[-1]
    jitpkg.jit(
        model, each=lambda module: module is last or isinstance(module, Head), backend=backend
    )
    compared(model, Net())
    assert len(backend.graphs) == 2
    assert [block._compiled_call_impl is None for block in model.blocks] == [True] * 5 + [False]


def test_as_a_decorator_s_arguments(backend: Counts) -> None:
    model = jitpkg.jit(each=Block, backend=backend)(Net())
    compared(model, Net())
    assert len(backend.graphs) == 1


def test_modules_that_differ_have_entries_of_their_own(backend: Counts) -> None:
    def made() -> Net:
        torch.manual_seed(0)
        model = Net(4)
        model.blocks[2].inner = nn.Linear(4, 4, bias=False)
        model.blocks[3].norm = nn.Identity()
        return model

    model = jitpkg.jit(made(), each=Block, backend=backend)
    compared(model, made())
    assert len(backend.graphs) == 3


def test_numbers_that_differ_between_them(backend: Counts) -> None:
    def made() -> Net:
        model = Net(8)
        for k, block in enumerate(model.blocks):
            block.scale = 1 + k
        return model

    model = jitpkg.jit(made(), each=Block, backend=backend)
    compared(model, made())
    assert len(backend.graphs) == 2


def test_what_changes_later_is_seen() -> None:
    model, plain = jitpkg.jit(Net(), each=Block), Net()
    compared(model, plain)
    for each in (model, plain):
        each.blocks[1].scale = 3.0
        each.blocks[2].inner.weight = nn.Parameter(torch.full((4, 4), 0.25))
        each.blocks[3].register_forward_hook(lambda module, args, result: result * 2)
        each.blocks[4] = Block()
        each.blocks[5].requires_grad_(False)
    model.blocks[4].load_state_dict(plain.blocks[4].state_dict())
    compared(model, plain)


def test_shared_parameters_and_a_block_that_is_called_twice(backend: Counts) -> None:
    class Twice(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(self.blocks[0](self.embed(x)))

    def made() -> Net:
        model = Twice()
        model.blocks[1].inner.weight = model.blocks[0].inner.weight
        model.blocks[2].inner = model.blocks[3].inner
        return model

    model = jitpkg.jit(made(), each=Block, backend=backend)
    compared(model, made())
    assert len(backend.graphs) == 1


def test_blocks_inside_of_blocks(backend: Counts) -> None:
    model, plain = (
        nn.Sequential(Block(), nn.Sequential(Block(), Block()), Head()) for _ in range(2)
    )
    plain.load_state_dict(model.state_dict())
    jitpkg.jit(model, each=(nn.Sequential, Block), backend=backend)
    compared(model, plain)
    assert len(backend.graphs) == 1  # the outermost one


def test_model_that_was_compiled_as_a_whole(backend: Counts) -> None:
    model = jitpkg.compile(Net(), backend=backend)
    jitpkg.jit(model, each=Block, backend=backend)
    compared(model, Net())
    assert len(backend.graphs) == 1


def test_whole_graphs() -> None:
    class Loud(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            print(end="")
            return x + 1

    model = nn.Sequential(Loud(), Loud())
    jitpkg.jit(model, each=Loud, fullgraph=True)
    with pytest.raises(GraphBreak, match="is printed"):
        model(X)


def test_disabled() -> None:
    model = jitpkg.jit(Net(), each=Block, disable=True)
    compared(model, Net())
    assert not jitpkg.stats().functions


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jitpkg.jit(Net(), each=nn.Conv2d), "Block 6, Head 1, LayerNorm 6, Linear 8"),
        (lambda: jitpkg.jit(Net(), each=lambda module: False), "none of the 23 modules of Net"),
        (lambda: jitpkg.jit(Net(), each="Block"), "takes a class.*not 'Block'"),
        (lambda: jitpkg.jit(Net(), each=int), "takes a class of modules.*not <class 'int'>"),
        (lambda: jitpkg.jit(Net(), each=()), r"takes a class.*not \(\)"),
        (lambda: jitpkg.jit(Net(), each=(Block, 3)), "takes a class"),
        (lambda: jitpkg.jit(lambda x: x, each=Block), "each= is for a model, an nn.Module"),
        (lambda: jitpkg.jit(Net, each=Block), "each= is for a model, an nn.Module"),
        (lambda: jitpkg.compile(Net(), each=Block), r"jit\(model, each=…\)"),
    ],
)
def test_what_it_cannot_be(call: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        call()
