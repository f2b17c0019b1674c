"""What goes wrong: mistakes of jitpkg's own, interrupts, exceptions and warnings of the program."""

import contextlib
import gc
import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

import jitpkg
from jitpkg import config, errors, events
from jitpkg.rewriter import dispatch, produce
from jitpkg.tracer import machine

X = torch.tensor([1.0, 2.0])


@pytest.fixture(params=[jitpkg.jit, jitpkg.compile], ids=["jit", "compile"])
def C(request: pytest.FixtureRequest) -> Any:
    return request.param


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def fresh(f: Any) -> Any:
    return types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def events_of(run: Callable[[], Any]) -> list[str]:
    found: list[events.Event] = []
    with events.STREAM.listening(found.append):
        run()
    return [type(event).__name__ for event in found]


# Mistakes of jitpkg's own


PLACES: dict[str, tuple[Any, str]] = {
    "tracing": (machine.Machine, "resume_frame"),
    "looking at a value": (machine.Machine, "look"),
    "facts": (machine.Machine, "op"),
    "guards": (produce, "complete_guards"),
    "writing the entry": (produce, "write_entry"),
    "the module of the graph": (produce, "_module"),
    "hooks": (dispatch.Dispatcher, "_discover"),
    "why an entry did not fit": (dispatch.Dispatcher, "_failures"),
}
"""Where something may fail."""


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [KeyError("oops"), AssertionError(), RecursionError()])
def test_a_mistake_of_jitpkg_runs_the_original_and_warns_once(
    C: Any, place: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args, **kwargs):
        raise error

    monkeypatch.setattr(*PLACES[place], failing)
    f = C(fresh(sine))
    with config.patch(strict=False):
        with pytest.warns(UserWarning, match="jitpkg could not compile sine and runs") as caught:
            assert torch.equal(f(X), sine(X))
        assert type(error).__name__ in str(caught[0].message)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for x in (X, X.double(), torch.ones(3)):
                assert torch.equal(f(x), sine(x))
    monkeypatch.undo()
    jitpkg.reset()
    assert "GraphCompiled" in events_of(lambda: f(X))


@pytest.mark.parametrize("place", PLACES)
def test_a_mistake_of_jitpkg_raises_where_tests_want_it(
    C: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args, **kwargs):
        raise KeyError("oops")

    monkeypatch.setattr(*PLACES[place], failing)
    f = C(fresh(sine))
    with config.patch(strict=True), pytest.raises(errors.InternalError, match="oops") as caught:
        f(X)
    assert isinstance(caught.value.__cause__, KeyError)
    monkeypatch.undo()
    with config.patch(strict=False):
        assert torch.equal(f(X), sine(X))


def test_a_warning_that_is_an_error_does_not_stop_the_program(
    C: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args, **kwargs):
        raise KeyError("oops")

    monkeypatch.setattr(produce, "complete_guards", failing)
    f = C(fresh(sine))
    with config.patch(strict=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="jitpkg could not compile"):
            f(X)
        assert torch.equal(f(X), sine(X))


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
def test_interrupted_while_it_compiles(
    C: Any, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception goes to the caller or the original code runs, and the next call compiles."""

    def failing(*args, **kwargs):
        raise error

    f = C(fresh(sine))
    monkeypatch.setattr(machine.Machine, "op", failing)
    with config.patch(strict=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if issubclass(error, Exception):
            assert torch.equal(f(X), sine(X))
        else:
            with pytest.raises(error):
                f(X)
    monkeypatch.undo()
    assert torch.equal(f(X), sine(X))
    if not issubclass(error, Exception):
        assert "Traced" in events_of(lambda: (f(X.double()), f(X)))
        assert torch.is_grad_enabled()
        assert gc.isenabled()


def test_interrupt_inside_of_the_backend(C: Any) -> None:
    calls = []

    def backend(gm, inputs):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return gm.forward

    f = C(fresh(sine), backend=backend)
    with pytest.raises(KeyboardInterrupt):
        f(X)
    assert torch.equal(f(X), sine(X))
    assert len(calls) == 2


def test_interrupt_inside_of_the_graph(C: Any) -> None:
    interrupts = [True]

    def backend(gm, inputs):
        def run(*args):
            if interrupts:
                interrupts.pop()
                raise KeyboardInterrupt
            return gm.forward(*args)

        return run

    f = C(fresh(sine), backend=backend)
    with pytest.raises(KeyboardInterrupt):
        f(X)
    assert torch.equal(f(X), sine(X))


def test_listener_that_raises(C: Any) -> None:
    """Its own mistake is shown, and the function stays usable."""

    def failing(event):
        raise ValueError("listener")

    f = C(fresh(sine))
    with (
        config.patch(strict=False),
        events.STREAM.listening(failing),
        pytest.raises(ValueError, match="listener"),
    ):
        f(X)
    assert torch.equal(f(X), sine(X))


# Exceptions of the program


def nested(x: torch.Tensor, kind: str) -> torch.Tensor:
    y = x.sin()
    return inner(y, kind) + 1


def inner(y: torch.Tensor, kind: str) -> torch.Tensor:
    z = y * 2
    match kind:
        case "raise":
            raise ValueError("by hand", z.shape)
        case "assert":
            assert z.shape[0] == 3, "three wanted"
        case "key":
            return {}["missing"]
        case "index":
            return [1][y.dim() + 4]
        case "attribute":
            return z.no_such_attribute
        case "type":
            return z + "text"
        case "zero":
            return z / (0 // 0)
        case "name":
            return no_such_name  # noqa: F821
        case "unpack":
            _, _, _ = (1, 2)
        case "shape":
            return z + torch.ones(3)
        case "matmul":
            return z @ torch.ones(3, 3)
        case "cause":
            try:
                int("x")
            except ValueError as error:
                raise KeyError("from") from error
        case "context":
            try:
                int("x")
            except ValueError:
                raise KeyError("while handling")  # noqa: B904
        case "group":
            raise ExceptionGroup("two", [ValueError(1), KeyError(2)])
        case "exit":
            raise SystemExit(3)
        case "stop":
            raise StopIteration
        case "index of data":
            return z[torch.tensor([7])]
        case "arguments":
            return inner(z)
    return z


KINDS = [
    "raise",
    "assert",
    "key",
    "index",
    "attribute",
    "type",
    "zero",
    "name",
    "unpack",
    "shape",
    "matmul",
    "cause",
    "context",
    "group",
    "exit",
    "stop",
    "index of data",
    "arguments",
]


def seen_of(f: Callable[[], Any]) -> Any:
    """What a program sees of an exception: class, arguments, chain, its own lines."""
    try:
        f()
    except BaseException as error:
        return chain_of(error)
    return None


def chain_of(error: BaseException | None) -> Any:
    if error is None:
        return None
    frames = traceback.extract_tb(error.__traceback__)
    own = [(s.name, s.lineno, s.line) for s in frames if s.filename == __file__]
    foreign = [s.filename for s in frames if "jitpkg" in s.filename and s.filename != __file__]
    return (
        type(error),
        str(error),
        [line for line in own if line[0] in ("nested", "inner")],
        foreign,
        chain_of(error.__cause__),
        chain_of(error.__context__),
        error.__suppress_context__,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_exceptions_are_eager_s(C: Any, kind: str) -> None:
    expected = seen_of(lambda: nested(X, kind))
    assert expected is not None
    f = C(fresh(nested))
    for _ in range(3):
        found = seen_of(lambda: f(X, kind))
        assert found == expected


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("exit",)])
def test_exceptions_are_caught_by_the_program(C: Any, kind: str) -> None:
    def f(x):
        seen = []
        try:
            x = nested(x, kind)
        except (Exception, BaseExceptionGroup) as error:
            seen.append((type(error).__name__, str(error)))
        finally:
            x = x * 3
        return x, seen

    expected = f(X)
    compiled = C(f)
    for _ in range(3):
        found = compiled(X)
        assert found[1] == expected[1]
        assert torch.equal(found[0], expected[0])


def test_what_comes_before_an_exception_has_happened(C: Any) -> None:
    def f(x, log):
        log.append(1)
        x.add_(1)
        log.append(x[0].clone())
        y = x @ torch.ones(3, 3)
        log.append(y)

    def run(g):
        x, log = X.clone(), []
        error = seen_of(lambda: g(x, log))
        return error[:2], x.tolist(), [float(v) for v in log]

    expected = run(f)
    compiled = C(f)
    for _ in range(3):
        assert run(compiled) == expected


# Warnings


def warning(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    warnings.warn("here", UserWarning, stacklevel=1)
    return warned(y) + 1


def warned(y: torch.Tensor) -> torch.Tensor:
    warnings.warn("caller", DeprecationWarning, stacklevel=2)
    return y * 2


@pytest.mark.parametrize("action", ["always", "once", "default", "ignore"])
def test_warnings_are_eager_s(C: Any, action: str) -> None:
    def caught(f: Any) -> Any:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(action)
            globals().pop("__warningregistry__", None)
            for _ in range(3):
                f(X)
        return [(w.category, str(w.message), w.filename, w.lineno) for w in found]

    assert caught(C(fresh(warning))) == caught(fresh(warning))


def test_warnings_as_errors(C: Any) -> None:
    f = C(fresh(warning))
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="here"):
                f(X)


def test_compiling_warns_of_nothing(C: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = C(lambda x: (x.sin(), jitpkg.graph_break(), x + x.sum().item())[2])
        for _ in range(3):
            f(X)
        net = C(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))
        net(torch.ones(3, 2)).sum().backward()


# Autocast contexts


def picked(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x[index] @ w


def picked_inside(x: torch.Tensor, w: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu"):
        return (x @ w)[index]


def entered() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def within(depth: int, f: Callable[..., Any], *arguments: torch.Tensor) -> Any:
    """The result inside of so many contexts, and how many are entered then and afterwards."""
    with contextlib.ExitStack() as stack:
        for _ in range(depth):
            stack.enter_context(torch.autocast("cpu"))
        try:
            result = f(*arguments)
        except IndexError:
            result = None
        inside = entered()
    return result, inside, entered()


@pytest.mark.parametrize("function", [picked, picked_inside])
@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1), (1, 3)])
def test_a_graph_that_fails_leaves_autocast_as_it_was(
    C: Any, function: Callable[..., Any], first: int, then: int
) -> None:
    """How deep contexts are nested decides when casts are forgotten, and no guard asks for it."""
    f = C(fresh(function))
    x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
    right, wrong = torch.tensor([0]), torch.tensor([7])
    for depth, index in ((first, right), (then, wrong), (first, wrong), (then, right)):
        result, *depths = within(depth, f, x, w, index)
        expected, *_ = within(depth, function, x, w, index)
        assert depths == [depth, 0]
        assert (result is None) == (index is wrong) == (expected is None)
        if result is not None:
            assert torch.equal(result, expected)


class Silent(Exception):
    """Takes no attributes, and notes who asks."""

    asked: ClassVar[list[str]] = []

    def __setattr__(self, name: str, value: object) -> None:
        self.asked.append(name)


def test_an_exception_class_with_setattr_keeps_its_traceback(C: Any) -> None:
    """Its own code was called to take a frame out of the traceback."""

    def raising(x: torch.Tensor) -> None:
        print(x + 1)
        raise Silent

    f = C(raising)
    for _ in range(2):
        with pytest.raises(Silent) as info:
            f(torch.ones(1))
        assert [frame.name for frame in traceback.extract_tb(info.tb)[1:]] == ["raising"]
    assert not Silent.asked
