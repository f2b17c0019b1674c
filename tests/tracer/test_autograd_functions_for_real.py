"""`torch.autograd.Function`: what is called for real, with a graph break."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import Function

import jitpkg
from jitpkg.tracer import reasons
from tests.tracer.derivatives import (
    BACKENDS,
    Program,
    alike,
    leaf,
    seen,
)

TABLE = torch.arange(4.0)
LOG: list[Any] = []
SETTINGS = {"by": 2.0}
BY = 2.0


def made(forward: Program, backward: Program, **others: Any) -> type[Function]:
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward), **others}
    return type("Made", (Function,), methods)


def double(ctx: Any, x: Tensor) -> Tensor:
    return x * 2


def printing(ctx: Any, x: Tensor) -> Tensor:
    print("here")
    return x * 2


def logging(ctx: Any, x: Tensor) -> Tensor:
    LOG.append(1)
    return x * 2


def reading(ctx: Any, x: Tensor) -> Tensor:
    return x * TABLE


def asking(ctx: Any, x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x * 3


def of_the_outside(ctx: Any, x: Tensor) -> Tensor:
    return x * float(x.detach().numpy().sum() > 0)


def by_setting(ctx: Any, grad: Tensor) -> Tensor:
    return grad * SETTINGS["by"]


def by_global(ctx: Any, grad: Tensor) -> Tensor:
    return grad * BY


def failing(ctx: Any, x: Tensor) -> Tensor:
    raise NotImplementedError("no gradient")


def dirty(ctx: Any, x: Tensor) -> Tensor:
    ctx.mark_dirty(x)
    return x.mul_(2)


def unmarked(ctx: Any, x: Tensor) -> Tensor:
    x.add_(0)
    return x * 2


def named(ctx: Any, x: Tensor) -> Tensor:
    return x * len(ctx.name())


def overlapping(ctx: Any, x: Tensor) -> Any:
    both = x * 2
    return both[1:], both[:1]


def two_parts(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
    return torch.cat((b, a))


def settings_kept(ctx: Any, x: Tensor) -> Tensor:
    ctx.settings = SETTINGS
    return x * SETTINGS["by"]


def by_kept(ctx: Any, grad: Tensor) -> Tensor:
    return grad * ctx.settings["by"]


def drawing(ctx: Any, grad: Tensor) -> Tensor:
    return grad * torch.rand(4)


REFUSED: dict[str, type[Function]] = {
    "draws backward": made(double, drawing),
    "prints": made(printing, double),
    "prints backward": made(double, printing),
    "changes a list": made(logging, double),
    "changes a list backward": made(double, logging),
    "reads a tensor": made(reading, double),
    "reads a tensor backward": made(double, reading),
    "asks for data": made(asking, double),
    "asks for data backward": made(double, asking),
    "leaves torch": made(double, of_the_outside),
    "reads a setting": made(double, by_setting),
    "reads a global": made(double, by_global),
    "keeps settings": made(settings_kept, by_kept),
    "raises backward": made(double, failing),
    "writes": made(dirty, double),
    "writes without a mark": made(unmarked, double),
    "asks for its name": made(named, double),
    "results share memory": made(overlapping, two_parts),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", REFUSED)
def test_called_for_real(name: str, backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    cls = REFUSED[name]

    def program(x: Tensor) -> Any:
        return cls.apply(x * 2)

    explained = jitpkg.explain(program, backend=backend)(leaf(5, 4))
    assert [each.reason for each in explained.break_reasons] == [reasons.AUTOGRAD_FUNCTION]
    compiled = jitpkg.compile(program, backend=backend)
    for _ in range(2):
        outcomes = []
        for each in (compiled, program):
            LOG.clear()
            capfd.readouterr()
            try:
                outcome: Any = seen(each, leaf(5, 4))
            except NotImplementedError as error:
                outcome = [str(error)]
            outcomes.append((outcome, len(LOG), capfd.readouterr().out))
        (found, *rest), (wanted, *others) = outcomes
        assert rest == others
        if isinstance(wanted[0], str):
            assert found == wanted
        else:
            alike(found, wanted)


def test_the_message() -> None:
    cls = REFUSED["prints"]
    compiled = jitpkg.compile(lambda x: cls.apply(x), fullgraph=True)
    with pytest.raises(jitpkg.errors.GraphBreak, match=r"B130: .* Made: B\d+: .*print"):
        compiled(leaf(2))
