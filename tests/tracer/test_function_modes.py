"""Torch-function modes that a compiled function enters: what they are told, and what they make."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg.facts.thread_state import function_modes
from jitpkg.testing import Comparison
from jitpkg.testing.programs.modes import HOW_COMPUTED
from jitpkg.tracer import torch_calls
from tests.portions import portion
from tests.test_docs import BUILD
from tests.tracer.nests import Drawn, nest

Program = Callable[..., Any]

WAYS: dict[str, dict[str, Any]] = {
    "eager": {},
    "jitpkg": {"backend": "jitpkg", "relative": 1e-6, "ignore": HOW_COMPUTED},
    "breaks": {"settings": {"disturb": "break"}},
    "dynamic": {"dynamic": True},
}


@pytest.fixture(autouse=True)
def _no_mode_is_left() -> Iterator[None]:
    yield
    assert not function_modes()


class Log(TorchFunctionMode):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append((func, types, len(args), tuple(kwargs or ())))
        return func(*args, **(kwargs or {}))


class Names(TorchFunctionMode):
    """The same, by names, which a comparison understands."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.log.append((func.__name__, len(types), len(args), sorted(kwargs or ())))
        return func(*args, **(kwargs or {}))


class Swapped(TorchFunctionMode):
    """Sine for cosine, and the other way round."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.sin, torch.Tensor.sin):
            return torch.cos(*args, **kwargs)
        if func in (torch.cos, torch.Tensor.cos):
            return torch.sin(*args, **kwargs)
        return func(*args, **kwargs)


class Scaled(TorchFunctionMode):
    """Adds to what additions give, more for each."""

    def __init__(self, by: float) -> None:
        self.by = by
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.Tensor.add:
            self.count += 1
            return result + self.by * self.count
        return result


class Constants(TorchFunctionMode):
    """Gives what is no tensor."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func.__name__ if func is torch.sum else func(*args, **(kwargs or {}))


class Refusing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.sin:
            raise KeyError("sin")
        return func(*args, **(kwargs or {}))


class Passing(TorchFunctionMode):
    def __repr__(self) -> str:
        return "Passing()"

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented if func is torch.sin else func(*args, **(kwargs or {}))


class Closing(TorchFunctionMode):
    """Does something when it is entered and left."""

    def __init__(self, said: list[str]) -> None:
        self.said = said

    def __enter__(self) -> Any:
        self.said.append("in")
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        self.said.append("out" if error[0] is None else error[0].__name__)
        return super().__exit__(*error)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def given() -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, 6).reshape(2, 3).requires_grad_()


# Programs


def what_it_is_told(x: Any) -> Any:
    with Names() as mode:
        y = torch.sin(x) + x.cos() * 2 - 1
        y = 3 - y / 2
        shape, dtype, last = x.shape, y.dtype, x.T
        z = functional.dropout(y, 0.0) + functional.relu(y) + functional.gelu(y)
        made = torch.ones(2, 3), torch.zeros_like(x), torch.arange(3)
        part = y[0], y[:, 1:], y[..., None]
        whole = torch.cat([y, z]), torch.stack([y, z], dim=1), y.sum(dim=-1, keepdim=True)
    return y, z, shape, dtype, last, made, part, whole, mode.log


def of_modules(x: Any) -> Any:
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    for each in layers.parameters():
        each.data.fill_(0.5)
    with Names() as mode:
        y = layers(x)
    return y, mode.log


def other_results(x: Any) -> Any:
    with Swapped():
        y = torch.sin(x) + x.cos()
    return y, torch.sin(x)


def in_one_another(x: Any) -> Any:
    with Names() as outer, Swapped(), Names() as inner:
        y = torch.sin(x)
    return y, outer.log, inner.log


def with_a_state(x: Any) -> Any:
    mode = Scaled(0.5)
    with mode:
        y = x + 1
        y = y + x
    with mode:
        y = y + x
    return y, mode.count


def given_one(x: Any, mode: Any) -> Any:
    with mode:
        y = x + 1
    return y + x


def in_a_table(x: Any) -> Any:
    table = {
        torch.sin: torch.cos,
        torch.Tensor.cos: torch.sin,
        torch.Tensor.shape.__get__: lambda x: (7,),
        functional.relu: lambda x, inplace: -x,
    }

    class Looking(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func == torch.Tensor.ndim.__get__ or func in {torch.exp, torch.Tensor.exp}:
                return 9
            return table.get(func, func)(*args, **(kwargs or {}))

    with Looking():
        made = torch.sin(x), x.cos(), x.shape, functional.relu(x), x.ndim, x.exp(), torch.exp(x)
    return made, torch.Tensor.shape.__get__ in table, torch.Tensor.ndim.__get__ in table


def no_tensors(x: Any) -> Any:
    with Constants():
        y = torch.sum(x)
    return y, x + 1


def refuses(x: Any) -> Any:
    with Refusing():
        y = x + 1
        return torch.sin(y)


def refusal_is_caught(x: Any) -> Any:
    try:
        return refuses(x)
    except KeyError as error:
        return error.args, torch.sin(x)


def passes(x: Any) -> Any:
    with Passing():
        return torch.sin(x)


def says(x: Any) -> Any:
    said: list[str] = []
    with Closing(said):
        y = x + 1
    try:
        with Closing(said):
            raise KeyError
    except KeyError:
        y = y * 2
    return y, said


def with_a_break(x: Any) -> Any:
    with Names() as mode:
        y = x + 1
        print("inside")
        z = y * 2
    return z + 1, mode.log


def breaks_in_a_callee(x: Any) -> Any:
    def called(y: Any) -> Any:
        y = y + 1
        print("inside")
        return y * 2

    with Names() as mode:
        z = called(x)
    return z + 1, mode.log


def breaks_in_the_mode(x: Any) -> Any:
    class_ = Swapped

    class Printing(class_):  # type: ignore[misc, valid-type]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            print(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    with Printing():
        y = torch.sin(x)
    return y * 2


def truth_of_tensors(x: Any) -> Any:
    with Names() as mode:
        y = x + 1 if x.sum() > -100 else x - 1
        n, m = len(x), float(y.detach().sum())
        rows = [row * 2 for row in y]
    return y, n, m, rows, mode.log


def without_gradients(x: Any) -> Any:
    with Names() as mode:
        with torch.no_grad():
            y = x * 2
        z = y + x
    return y, z, mode.log


def writes(x: Any) -> Any:
    y = torch.zeros(2, 3)
    with Names() as mode:
        y[0] = 1
        y += 2
        y.mul_(3)
        y[:, 1].add_(1)
        torch.add(y, 1, out=y)
    return y, mode.log, x + 1


def attributes(x: Any) -> Any:
    with Names() as mode:
        y = x + 1
        known = (
            *(y.shape, y.dtype, y.device, y.ndim, y.requires_grad, y.is_leaf, y.layout),
            *(y.size(), y.size(0), y.dim(), y.numel(), y.stride(), y.is_contiguous()),
            *(y.itemsize, y.is_sparse, y.real, y.mT, y.data),
        )
    return known, mode.log


def read_by_descriptors(x: Any) -> Any:
    y = x + 1
    length = torch.Tensor.shape.__get__(y), torch.Tensor.T.__get__(y)
    with Names() as mode:
        inside = torch.Tensor.shape.__get__(y), torch.Tensor.dtype.__get__(y)
    return length, inside, mode.log, type.__dict__["__name__"].__get__(Names)


def generator(x: Any) -> Any:
    def halves(y: Any) -> Any:
        with Names() as mode:
            yield y / 2
            yield mode.log

    each = halves(x)
    y = next(each)
    z = y + 1
    log = next(each)
    next(each, None)
    return y, z, log


def checkpointed(x: Any) -> Any:
    """What is computed again backward is computed outside of the mode."""
    with Scaled(0.0) as mode:
        y = checkpoint(lambda z: torch.sin(z) + 1, x, use_reentrant=False)
    return y, mode.count


def differentiated(x: Any) -> Any:
    with Names() as mode:
        y = (x * x).sum()
        (gradient,) = torch.autograd.grad(y, x)
    return gradient, mode.log


def op_raises(x: Any) -> Any:
    with Names():
        return x.detach().long()[torch.tensor([7])]


def handled_op(x: Any) -> Any:
    try:
        return op_raises(x)
    except IndexError:
        return torch.sin(x)


def beside_a_device(x: Any) -> Any:
    with Names() as mode, torch.device("cpu"):
        y = torch.ones(2)
    with torch.device("cpu"), Names() as other:
        z = torch.ones(2)
    return y, z, mode.log, other.log, x + 1


def varying(x: Any) -> Any:
    with Names() as mode:
        y = x.reshape(x.shape[0] * x.shape[1]) * x.shape[0]
        z = y[: x.shape[1] - 1]
    return y, z, mode.log


ONE_GRAPH: tuple[Program, ...] = (
    *(what_it_is_told, of_modules, other_results, in_one_another, with_a_state, no_tensors),
    *(refusal_is_caught, says, without_gradients, writes, attributes, generator, varying),
)
OTHERS: tuple[Program, ...] = (
    *(refuses, passes, with_a_break, breaks_in_a_callee, breaks_in_the_mode, truth_of_tensors),
    *(
        op_raises,
        handled_op,
        beside_a_device,
        in_a_table,
        read_by_descriptors,
        checkpointed,
        differentiated,
    ),
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [*ONE_GRAPH, *OTHERS], ids=lambda program: program.__name__)
def test_as_eager_code(program: Program, way: str) -> None:
    Comparison(**WAYS[way]).assert_same(program, given())


@pytest.mark.parametrize("program", ONE_GRAPH, ids=lambda program: program.__name__)
def test_one_graph(program: Program) -> None:
    jitpkg.compile(program, backend="eager", fullgraph=True)(given())


def test_a_mode_that_exists() -> None:
    mine, compileds = Scaled(0.5), Scaled(0.5)
    compiled = jitpkg.compile(given_one, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(given(), compileds), given_one(given(), mine))
        assert compileds.count == mine.count
    assert torch.equal(compiled(given(), Swapped()), given_one(given(), Swapped()))


def test_another_behaviour_is_seen() -> None:
    class Changing(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    def program(x: Any) -> Any:
        with Changing():
            return torch.sin(x)

    compiled = jitpkg.compile(program, backend="eager")
    assert torch.equal(compiled(given()), torch.sin(given()))
    Changing.__torch_function__ = Swapped.__torch_function__  # type: ignore[method-assign]
    assert torch.equal(compiled(given()), torch.cos(given()))


def test_nothing_is_compiled_below_one_that_is_active() -> None:
    compiled = jitpkg.compile(lambda x: torch.sin(x) + 1, backend="eager")
    x = given()
    with Names() as mode:
        compiled(x)
    assert [name for name, *_ in mode.log] == ["sin", "add"]


# Everything that is on the page of what is covered


def _covered() -> Iterator[tuple[str, str]]:
    text = BUILD.coverage.PROGRAMS.read_text(encoding="utf-8")
    for line, block in re.findall(r"^([^#\s].*)\n((?:[ ]{4}.*\n)*)", text, flags=re.MULTILINE):
        yield line, f"{textwrap.dedent(block)}\nmade = 0" if block else f"made = {line}"


def _logged(statements: str) -> Program:
    body = textwrap.indent(statements, "        ")
    text = (
        f"def program(x, n):\n    x = x + 1\n    with Log() as log_:\n        y = x.sin()\n{body}\n"
    )
    text += "        x = x + 1\n    return x * 2, made, log_.log\n"
    namespace = {**vars(BUILD.coverage.coverage_names), "Log": Log}
    exec(compile(text, f"<{statements}>", "exec"), namespace)
    found: Program = namespace["program"]
    return found


def _asks_whether_it_is_compiled(line: str) -> bool:
    """Control flow does, and eager code of it calls torch's compiler; attention did, in 2.11."""
    old = ("flex_attention(",) if torch.__version__.startswith("2.11.") else ()
    return line.startswith(("torch.cond(", "while_loop(", "scan(", "higher_order_map(", *old))


COVERED = [each for each in _covered() if not _asks_whether_it_is_compiled(each[0])]


@pytest.mark.parametrize(
    "statements", [s for _, s in portion(COVERED, 3)], ids=[line for line, _ in portion(COVERED, 3)]
)
def test_it_is_told_what_eager_code_tells(statements: str) -> None:
    program = _logged(statements)
    logs = []
    for each in (program, jitpkg.compile(program, backend="eager")):
        with BUILD.coverage.quietly():
            torch.manual_seed(0)
            random.seed(0)
            logs.append(each(*BUILD.coverage.arguments())[2])
    _assert_same_logs(*logs)


def _assert_same_logs(expected: list[Any], found: list[Any]) -> None:
    for k, (a, b) in enumerate(zip(expected, found, strict=False)):
        assert a[0] == b[0] or repr(a[0]) == repr(b[0]), k
        assert a[1:] == b[1:], k
    assert len(expected) == len(found)


METHODS = sorted({*torch_calls.tensor_methods().values(), *torch_calls.REAL_METHODS})


@pytest.mark.parametrize("name", portion(METHODS, 4))
def test_every_method_without_arguments(name: str) -> None:
    def program(x: Any) -> Any:
        with Log() as log:
            y = x + 1
            try:
                getattr(y, name)()
            except Exception as error:
                return type(error), log.log
        return None, log.log

    x = torch.linspace(1, 2, 4).reshape(2, 2)
    with BUILD.coverage.quietly():
        expected = program(x)
        found = jitpkg.compile(program, backend="eager")(x)
    assert found[0] is expected[0]
    _assert_same_logs(expected[1], found[1])


# Random blocks in one another

STATEMENTS: dict[str, Drawn] = {
    "op": lambda draw: draw.choice(
        [
            *("x = x + 1", "x = torch.sin(x)", "x = x.cos() * 2", "seen.append(x.shape)"),
            *("x = x[:1] + x", "x = functional.relu(x)", "x = torch.cat([x, x])[:2]"),
            *("seen.append(x.sum())", "x = x - torch.ones(3)", "x = helper(x)"),
        ]
    ),
    "print": lambda draw: f"print({draw.randint(0, 9)})",
}
CONTEXTS: dict[str, Drawn] = {
    "block": lambda draw: draw.choice(
        ["names", "Swapped()", "Scaled(0.5)", "Names()", "torch.no_grad()"]
    ),
    "raise": lambda draw: draw.choice(["names", "Swapped()"]),
}
KINDS = ("op", "op", "op", "block", "block", "raise", "print")


def _helper(x: Any) -> Any:
    with Swapped():
        x = torch.sin(x)
    return x + 1


def _random_program(seed: int) -> tuple[Program, str]:
    lines = nest(random.Random(seed), 3, KINDS, STATEMENTS, CONTEXTS, "x")
    body = textwrap.indent("\n".join(lines), "    ")
    text = f"def program(x):\n    seen, names = [], Names()\n{body}\n"
    text += "    return x, seen, names.log\n"
    namespace = {**globals(), "helper": _helper}
    exec(compile(text, f"<nest {seed}>", "exec"), namespace)
    return namespace["program"], text


@pytest.mark.parametrize("seed", range(60))
def test_random_nests(seed: int) -> None:
    program, text = _random_program(seed)
    way = ("eager", "eager", "jitpkg", "breaks")[seed % 4]
    try:
        Comparison(**WAYS[way]).assert_same(program, given())
    except AssertionError as error:
        raise AssertionError(f"{error}\n{text}") from error
