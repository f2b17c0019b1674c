"""`torch.set_default_device`, and `with torch.device(…)` around a compiled function or inside."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

import jitpkg
from jitpkg.errors import BackendError
from jitpkg.events import STREAM, Event, GraphCompiled
from jitpkg.facts.thread_state import default_devices, function_modes
from jitpkg.testing import Comparison
from jitpkg.testing.programs.modes import HOW_COMPUTED
from tests.tracer.nests import Drawn, nest

Program = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "relative": 1e-6, "ignore": HOW_COMPUTED},
    "aot_eager": {"backend": "aot_eager", "relative": 1e-6, "ignore": HOW_COMPUTED},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"dynamic": True},
}


@contextmanager
def _by_setting(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def _nested(device: str) -> Iterator[None]:
    with _by_setting("meta"), torch.device("cpu"), torch.device(device):
        yield


AROUND: dict[str, Callable[[str], Any]] = {
    "setting": _by_setting,
    "block": torch.device,
    "nested": _nested,
}


def given() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 6, device="cpu").reshape(2, 3).requires_grad_()


# Programs that ask where tensors are made, and such that do not


def constructors(x: Any) -> Any:
    made = [
        torch.empty(2, 3).zero_(),
        torch.empty_strided((2, 3), (3, 1)).zero_(),
        torch.ones(2, dtype=torch.float64),
        torch.zeros(2, requires_grad=True),
        torch.full((2,), 1.5),
        torch.arange(3),
        torch.eye(2),
        torch.linspace(0, 1, 3),
        torch.logspace(0, 1, 3),
        torch.hann_window(3),
        torch.hamming_window(3),
        torch.bartlett_window(3),
        torch.blackman_window(3),
        torch.kaiser_window(3),
        torch.fft.fftfreq(3),
        torch.fft.rfftfreq(3),
        torch.tril_indices(2, 2),
        torch.triu_indices(2, 2),
        torch.scalar_tensor(2.5),
        torch.tensor([1, 2]),
        torch.tensor(3.0),
        torch.as_tensor([1.5]),
        torch.asarray([1.5]),
    ]
    return made, [each.device for each in made], x * 2


def told_where(x: Any) -> Any:
    return (
        torch.ones(2, device="cpu") + x[0, :2],
        torch.zeros(2, device=None).device,
        torch.zeros(2, device=x.device) + x[0, :2],
        torch.arange(3, device="meta"),
    )


def named_where(x: Any) -> Any:
    """Devices by their names, and what is asked of what lies there."""
    made = [
        torch.zeros(2, device="meta"),
        torch.tensor([1, 2], device="meta"),
        torch.full((2,), 1.5, device="meta"),
        torch.arange(3, device="cpu"),
        x.to("meta"),
        x.to("meta", torch.float64),
        x.new_zeros(2, device="meta"),
        torch.zeros_like(x, device="meta"),
        torch.empty_like(x, device="meta").normal_(),
        torch.as_tensor(x, device="meta"),
        torch.rand(2, device="meta") * 2,
    ]
    return made, [(each.device, each.is_meta, each.is_cpu) for each in made], x + 1


def numbers_without_data(x: Any) -> Any:
    with torch.device("meta"):
        n = torch.tensor(2)
    return x * n.item()


def lists_without_data(x: Any) -> Any:
    return x * len(torch.tensor([1, 2], device="meta").tolist())


def like_others(x: Any) -> Any:
    return torch.zeros_like(x), x.new_ones(2), torch.rand_like(x).shape, x.clone(), x.to("cpu") * 2


def of_tensors(x: Any) -> Any:
    return torch.as_tensor(x), torch.asarray(x.detach()), x + 1


def random_numbers(x: Any) -> Any:
    return torch.randn(2, 3), torch.rand(3), torch.randint(0, 9, (3,)), torch.randperm(4), x + 1


def python_functions(x: Any) -> Any:
    return (
        functional.one_hot(torch.arange(3, device="cpu"), 3),
        torch.cartesian_prod(x[0], x[1]),
        torch.block_diag(x, x),
        torch.broadcast_shapes((2, 1), (3,)),
        torch.unravel_index(torch.arange(4, device="cpu"), (2, 2)),
        functional.interpolate(x[None], scale_factor=2.0),
        functional.embedding_bag(torch.tensor([0, 2, 1, 1], device="cpu").view(2, 2), x.T @ x),
        functional.gumbel_softmax(x, hard=True).shape,
        torch.meshgrid(x[0], x[1], indexing="ij"),
    )


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3, device="cpu")
        self.register_buffer("scale", torch.full((3,), 2.0, device="cpu"))

    def forward(self, x: Any) -> Any:
        mask = torch.ones(3, 3).tril()
        if mask.device != x.device:
            mask = mask.to("meta")
        return self.linear(x).relu() * self.scale, mask, functional.dropout(x, 0.5).shape


NET = Net()


def module(x: Any) -> Any:
    return NET(x)


def made_modules(x: Any) -> Any:
    return torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(), x + 1


def asked(x: Any) -> Any:
    return torch.get_default_device(), x + 1


def of_arrays(x: Any) -> Any:
    array = np.ones(3) + np.arange(3)
    return array.sum(), torch.tensor(2.0).device, x * 2


def of_numbers(x: Any) -> Any:
    n = x.shape[0]
    return torch.tensor(n), torch.tensor(n * 1.5), torch.full((n,), n), x * 2


def views_and_writes(x: Any) -> Any:
    y = torch.zeros(2, 3, device="cpu")
    y[0] = x[0]
    y.mul_(2)
    return y.T, torch.zeros(1).device


# Those that enter devices


def block(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(3)
    return x + 1, y, torch.ones(3)


def blocks(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(3)
        with torch.device("cpu"):
            z = torch.ones(3) + x[0]
        w = torch.zeros(2)
    return y, z, w, torch.zeros(1), x + 1


def named(x: Any) -> Any:
    device = torch.device("cpu" if x.shape[0] > 5 else "meta")
    with device as entered:
        return entered, torch.ones(1), x + 1


def with_a_break(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(3)
        print("inside")
        z = torch.ones(4)
        w = x * 2
    return x + 1, y, z, torch.zeros(1), w


def in_a_callee(x: Any) -> Any:
    def made(n: int) -> Any:
        with torch.device("meta"):
            return torch.zeros(n)

    return x + 1, made(2), torch.zeros(3), made(4)


def breaks_in_a_callee(x: Any) -> Any:
    def made(n: int) -> Any:
        with torch.device("meta"):
            y = torch.zeros(n)
            print("inside")
            return y, torch.zeros(n + 1)

    return x + 1, made(2), torch.zeros(3)


def calls_what_breaks(x: Any) -> Any:
    def made(n: int) -> Any:
        y = torch.zeros(n)
        print("inside")
        return y, torch.zeros(n + 1)

    with torch.device("meta"):
        z = made(2)
    return x + 1, z, torch.zeros(3)


def raises_inside(x: Any) -> Any:
    try:
        with torch.device("meta"):
            y = torch.ones(2)
            raise KeyError(y.shape[0])
    except KeyError as error:
        return y, error.args, torch.ones(2), x + 1


def raises_out(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(2)
        raise KeyError(y.shape[0])


def op_raises(x: Any) -> Any:
    with torch.device("meta"):
        y = torch.ones(2)
        return x.detach().long()[torch.tensor([7], device="cpu")], y


def handled_op(x: Any) -> Any:
    try:
        return op_raises(x)
    except IndexError:
        return torch.ones(2), x + 1


def two_on_meta() -> Any:
    with torch.device("meta"):
        yield torch.ones(2)
        yield torch.ones(3)


def generator(x: Any) -> Any:
    each = two_on_meta()
    a = next(each)
    b = torch.zeros(2)
    c = next(each)
    next(each, None)
    return a, b, c, torch.zeros(1), x * 2


def generator_that_is_left(x: Any) -> Any:
    each = two_on_meta()
    a = next(each)
    b = torch.zeros(2)
    each.close()
    return a, b, torch.zeros(1), x * 2


def loop(x: Any) -> Any:
    made = []
    for kind in ("meta", "cpu", "meta"):
        with torch.device(kind):
            made.append(torch.ones(2))
            if kind == "cpu":
                continue
            x = x + 1
    return made, x


ASKING: tuple[Program, ...] = (
    *(
        constructors,
        told_where,
        named_where,
        like_others,
        of_tensors,
        random_numbers,
        python_functions,
    ),
    *(module, made_modules, asked, of_arrays, of_numbers, views_and_writes),
)
ENTERING: tuple[Program, ...] = (
    *(block, blocks, named, with_a_break, in_a_callee, breaks_in_a_callee, calls_what_breaks),
    *(
        numbers_without_data,
        lists_without_data,
        raises_inside,
        raises_out,
        op_raises,
        handled_op,
        generator,
        generator_that_is_left,
        loop,
    ),
)
PROGRAMS = {program.__name__: program for program in (*ASKING, *ENTERING)}
RAISING = {raises_out, op_raises, handled_op, numbers_without_data, lists_without_data}
BROKEN = {with_a_break, breaks_in_a_callee, calls_what_breaks}


@pytest.fixture(autouse=True)
def _no_mode_is_left() -> Iterator[None]:
    yield
    assert not function_modes()


def _check(name: str, way: str) -> None:
    before = function_modes()
    Comparison(**WAYS[way]).assert_same(PROGRAMS[name], given())
    assert function_modes() == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager_code(name: str, way: str) -> None:
    _check(name, way)


@pytest.mark.parametrize(
    ("way", "around", "device"),
    [
        *(("eager", around, device) for around in AROUND for device in ("cpu", "meta")),
        *(("jitpkg", "block", "cpu"), ("jitpkg", "setting", "meta")),
        *(("breaks", "setting", "cpu"), ("breaks", "block", "meta")),
        *(("dynamic", "block", "meta"), ("aot_eager", "block", "meta")),
    ],
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_around(name: str, way: str, around: str, device: str) -> None:
    with AROUND[around](device):
        _check(name, way)


@pytest.mark.parametrize("around", [None, "cpu", "meta"])
@pytest.mark.parametrize(
    "program",
    [p for p in (*ASKING, *ENTERING) if p not in BROKEN | RAISING],
    ids=lambda program: program.__name__,
)
def test_one_graph(program: Program, around: str | None) -> None:
    compiled = jitpkg.compile(program, backend="eager", fullgraph=True)
    if around is None:
        compiled(given())
    else:
        with torch.device(around):
            compiled(given())


def _graphs(program: Program, *around: Any) -> list[GraphCompiled]:
    compiled, found = jitpkg.compile(program, backend="eager"), list[Event]()
    with STREAM.listening(found.append):
        for context in around:
            with context:
                compiled(given())
    return [event for event in found if isinstance(event, GraphCompiled)]


def test_one_entry_for_each_default() -> None:
    meta, cpu = torch.device("meta"), torch.device("cpu")
    assert len(_graphs(block, meta, meta, cpu, cpu, meta, cpu)) == 2


def test_a_default_that_comes_and_goes() -> None:
    compiled = jitpkg.compile(lambda x: x + torch.ones(3), backend="eager")
    assert compiled(given()).device.type == "cpu"
    with torch.device("meta"):
        assert compiled(torch.ones(3)).device.type == "meta"
        assert default_devices() == (torch.device("meta"),)
    assert compiled(given()).device.type == "cpu"


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("inner", ["mode", "device"])
def test_beside_another_mode(inner: str) -> None:
    contexts = [torch.device("meta"), Passing()]
    outer, last = contexts if inner == "mode" else reversed(contexts)
    with outer, last:
        assert default_devices() is None
        assert not _graphs(block, torch.no_grad())
        assert PROGRAMS["block"](given())[1].device.type == "meta"


def test_where_the_compiler_fails() -> None:
    """The default device is as it was whatever the backend does."""

    def backend(gm: Any, inputs: Any) -> Any:
        assert not function_modes()
        raise ValueError

    compiled = jitpkg.compile(block, backend=backend)
    with torch.device("meta"):
        before = function_modes()
        with pytest.raises(BackendError):
            compiled(given())
        assert function_modes() == before


# Random nests


_MADE = ("torch.zeros(2)", "torch.tensor([1.5])", "torch.arange(x.shape[0])")


def _device(draw: random.Random) -> str:
    return f"torch.device({draw.choice(['cpu', 'meta'])!r})"


_STATEMENTS: dict[str, Drawn] = {
    "op": lambda draw: "x = x * 2 + torch.ones(2, 3, device=x.device)",
    "made": lambda draw: f"seen.append({draw.choice(_MADE)})",
    "asked": lambda draw: "seen.append(torch.get_default_device())",
    "break": lambda draw: "print(len(seen))",
}
_CONTEXTS: dict[str, Drawn] = {"device": _device, "raise": _device}
_KINDS = ("op", "made", "made", "device", "device", "break", "raise", "asked")


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed: int) -> None:
    draw = random.Random(seed)
    lines = ["def program(x):", "    seen = []"]
    nested = nest(draw, 3, _KINDS, _STATEMENTS, _CONTEXTS, "torch.ones(1)")
    lines += [f"    {line}" for line in nested]
    lines.append("    return x, seen, torch.ones(1)")
    source = "\n".join(lines)
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<nest {seed}>", "exec"), namespace)
    way = draw.choice(["eager", "jitpkg", "breaks"])
    around = draw.choice([None, "cpu", "meta"])
    with nullcontext() if around is None else torch.device(around):
        Comparison(**WAYS[way]).assert_same(namespace["program"], given())
