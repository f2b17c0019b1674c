"""State that is in no argument: torch's modes and settings, random streams, the environment."""

import contextlib
import gc
import io
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import jitpkg
from tests.guards.support import WAYS, Compiler, Way, X, check, entries, outcome, seen_and_back

pytestmark = pytest.mark.filterwarnings(
    "ignore:Anomaly Detection",
    "ignore:In CPU autocast",
    "ignore:CUDA is not available",
    "ignore:TF32 acceleration",
    "ignore:`torch.jit",
)

GRID = torch.arange(6.0).reshape(2, 3)
WEIGHT = torch.full((3, 2), 0.5, requires_grad=True)


class Counted(TorchFunctionMode):
    def __init__(self) -> None:
        self.names: list[str] = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", "?"))
        return function(*args, **(kwargs or {}))


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.ops.aten.mm.default else result


@contextmanager
def setting(setter: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


def product(x: torch.Tensor) -> Any:
    return x @ WEIGHT


def made(x: torch.Tensor) -> Any:
    return torch.ones(3) + x.sum(), torch.arange(3), torch.tensor([1.5])


def drawn(x: torch.Tensor) -> Any:
    return torch.rand(3) + x.sum()


def asked(x: torch.Tensor) -> Any:
    return (
        x + 1,
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
    )


State = Callable[[], Any]

STATES: dict[str, tuple[Callable[[torch.Tensor], Any], State]] = {
    "no_grad": (product, torch.no_grad),
    "no_grad, asked for": (asked, torch.no_grad),
    "enable_grad": (product, torch.enable_grad),
    "inference mode": (product, torch.inference_mode),
    "inference mode, asked for": (asked, torch.inference_mode),
    "inference mode, without inputs": (made, torch.inference_mode),
    "autocast": (product, lambda: torch.autocast("cpu", torch.bfloat16)),
    "autocast, asked for": (asked, lambda: torch.autocast("cpu", torch.bfloat16)),
    "autocast, another dtype": (product, lambda: torch.autocast("cpu", torch.float16)),
    "autocast of another device": (product, lambda: torch.autocast("cuda", torch.float16)),
    "default dtype": (made, lambda: setting(torch.set_default_dtype, torch.float64, torch.float32)),
    "default dtype, asked for": (
        asked,
        lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    ),
    "default device": (lambda x: torch.ones(3), lambda: torch.device("meta")),
    "default device, set": (
        lambda x: (x + 1, torch.ones(3)),
        lambda: setting(torch.set_default_device, "meta", None),
    ),
    "deterministic": (
        asked,
        lambda: setting(torch.use_deterministic_algorithms, True, False),
    ),
    "threads": (asked, lambda: setting(torch.set_num_threads, 3, torch.get_num_threads())),
    "torch-function mode": (product, Counted),
    "torch-dispatch mode": (product, Doubling),
    "torch functions disabled": (product, torch._C.DisableTorchFunction),
    "forward-mode differentiation": (product, forward_ad.dual_level),
    "saved-tensor hooks": (
        product,
        lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    ),
    "tensors saved on the cpu": (product, torch.autograd.graph.save_on_cpu),
    "anomaly mode": (product, torch.autograd.detect_anomaly),
    "gradients by hand": (product, lambda: torch.autograd.set_multithreading_enabled(False)),
    "matmul precision": (
        product,
        lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"),
    ),
    "mkldnn": (product, lambda: torch.backends.mkldnn.flags(enabled=False)),
    "profiler": (product, torch.autograd.profiler.profile),
    "seed": (drawn, lambda: nullcontext(torch.manual_seed(3))),
    "warnings as errors": (product, lambda: warnings.catch_warnings(action="error")),
    "version counters": (product, lambda: torch.autograd._unsafe_preserve_version_counter(GRID)),
    "collector frozen": (product, lambda: setting(lambda on: (gc.enable, gc.disable)[on](), 1, 0)),
}
"""A function, and a context that changes the state in which it runs."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", STATES)
def test_state_entered_and_left(name: str, way: Way) -> None:
    use, state = STATES[name]

    def case(C: Compiler) -> Iterator[Any]:
        torch.manual_seed(0)
        f = C(lambda x: use(x))
        yield f(GRID)
        with state():
            yield f(GRID)
        yield f(GRID)
        with state():
            yield f(GRID)

    check(case, way, None)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", STATES)
def test_state_at_first(name: str, way: Way) -> None:
    """Compiled in the state, if at all, and called outside."""
    use, state = STATES[name]

    def case(C: Compiler) -> Iterator[Any]:
        torch.manual_seed(0)
        f = C(lambda x: use(x))
        with state():
            first = f(GRID)
        yield first, f(GRID)
        with state():
            yield f(GRID)

    check(case, way, None)


@entries(1, 2, 2)
def test_gradients_off_and_on(C):
    f = C(product)
    yield f(GRID)
    with torch.no_grad():
        yield f(GRID)
    yield f(GRID)


@seen_and_back
def test_default_dtype_of_a_constant(C):
    f = C(lambda x: x.int() + 0.5)
    yield f(GRID)
    with setting(torch.set_default_dtype, torch.float64, torch.float32):
        yield f(GRID)
    yield f(GRID)


# Modes that see every op


@entries(None)
def test_mode_sees_the_ops(C):
    f = C(lambda x: (x.sin() + 1).cos())
    yield f(X)
    with Counted() as mode:
        yield f(X), list(mode.names)
    yield f(X)


@entries(None)
def test_dispatch_mode_sees_the_ops(C):
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    names: list[str] = []
    f = C(lambda x: (x.sin() + 1).cos())
    yield f(X)
    with Seen():
        yield f(X), list(names)
    yield f(X)


@entries(None)
def test_mapped_and_differentiated(C):
    f = C(lambda x: (x * x).sum())
    yield f(X)
    yield torch.func.grad(f)(X)
    yield torch.func.vmap(f)(GRID)
    yield torch.func.jacrev(f)(X), torch.func.hessian(f)(X)
    yield f(X)


@entries(None)
def test_forward_mode(C):
    f = C(lambda x: x * x)
    yield f(X)
    with forward_ad.dual_level():
        yield forward_ad.unpack_dual(f(forward_ad.make_dual(X, torch.ones(2))))
    yield f(X)


@entries(None)
def test_traced_by_torchscript(C):
    f = C(lambda x: x.sin() + 1)
    yield f(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(f, (X,))
    yield traced(X), [n.kind() for n in traced.graph.nodes()]
    yield f(X)


@entries(None)
def test_traced_by_make_fx(C):
    f = C(lambda x: x.sin() + 1)
    yield f(X)
    graph = torch.fx.experimental.proxy_tensor.make_fx(f)(X)
    yield [str(n.target) for n in graph.graph.nodes]
    yield f(X)


@entries(None)
def test_fake_tensors(C):
    f = C(lambda x: x.sin() + 1)
    yield f(X)
    with torch._subclasses.FakeTensorMode() as mode:  # noqa: TID251
        yield tuple(f(mode.from_tensor(X)).shape)
    yield f(X)


NETS: dict[str, Callable[[], torch.nn.Module]] = {
    "a layer": lambda: torch.nn.Linear(2, 2),
    "layers": lambda: torch.nn.Sequential(
        torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)
    ),
    "nothing is saved at the end": lambda: torch.nn.Sequential(
        torch.nn.Linear(2, 4), torch.nn.GELU(), torch.nn.Flatten(0)
    ),
}


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "jitpkg"])
@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_a_compiled_module_is_checkpointed(
    make: Callable[[], torch.nn.Module], backend: str, use_reentrant: bool
) -> None:
    def gradients(compile_: Callable[[Any], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        net = make()
        block, x = compile_(net), X.clone().requires_grad_()
        for _ in range(3):
            checkpoint(block, x, use_reentrant=use_reentrant).sum().backward()
            block(x).sum().backward()
        return [x.grad, *(p.grad for p in net.parameters())]

    compiled = gradients(lambda net: jitpkg.compile(net, backend=backend))
    for got, want in zip(compiled, gradients(lambda net: net), strict=True):
        torch.testing.assert_close(got, want)


@entries(None)
def test_saved_tensor_hooks_are_called(C):
    f, packed = C(lambda x: x * x), []

    def pack(t):
        packed.append(tuple(t.shape))
        return t

    x = X.clone().requires_grad_()
    f(x).sum().backward()
    yield list(packed), x.grad
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 10):
        y = f(x)
    y.sum().backward()
    yield list(packed), x.grad


# Random streams


@entries(None)
def test_random_numbers_of_torch(C):
    f = C(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(2))
    torch.manual_seed(0)
    for _ in range(3):
        yield f(X), torch.rand(1)
    torch.manual_seed(0)
    yield f(X)


@entries(None)
def test_seed_inside(C):
    def f(x):
        torch.manual_seed(7)
        return x + torch.rand(2)

    f = C(f)
    for _ in range(2):
        yield f(X), torch.rand(1)


@entries(None)
def test_random_state_saved_and_restored_inside(C):
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return x + a, torch.rand(2)

    f = C(f)
    torch.manual_seed(0)
    yield f(X)
    yield f(X)


@entries(None)
def test_random_numbers_of_python(C):
    f = C(lambda x: x.sin() + random.random())
    random.seed(0)
    for _ in range(3):
        yield f(X), random.random()


@entries(None)
def test_random_numbers_of_numpy(C):
    f = C(lambda x: x.sin() + float(np.random.rand()))
    np.random.seed(0)
    for _ in range(3):
        yield f(X), np.random.rand()


@entries(None)
def test_generator_argument(C):
    f, g = C(lambda x, g: x.sin() + torch.rand(2, generator=g)), torch.Generator()
    g.manual_seed(0)
    for _ in range(2):
        yield f(X, g)
    g.manual_seed(0)
    yield f(X, g)


# What compiled code can ask about itself


def test_is_compiling_is_true_in_compiled_code_only():
    seen = []

    def f(x):
        a, b = torch.compiler.is_compiling(), jitpkg.is_compiling()
        c, d = torch.compiler.is_dynamo_compiling(), torch.jit.is_scripting()
        return x + 1, a, b, c, d

    plain = f(X)[1:]
    compiled = jitpkg.compile(f)(X)[1:]
    seen.append(torch.compiler.is_compiling())
    assert plain == (False, False, False, False)
    assert compiled[:2] == (True, True)
    assert seen == [False]


# The process


@entries(None)
def test_environment_variable(C):
    f = C(lambda x: x.sin() + int(os.environ.get("TESTS_OF_GUARDS", "1")))
    yield f(X)
    os.environ["TESTS_OF_GUARDS"] = "5"
    try:
        yield f(X)
    finally:
        del os.environ["TESTS_OF_GUARDS"]
    yield f(X)


@entries(None)
def test_getenv(C):
    f = C(lambda x: x.sin() + int(os.getenv("TESTS_OF_GUARDS") or 1))
    yield f(X)
    os.environ["TESTS_OF_GUARDS"] = "5"
    try:
        yield f(X)
    finally:
        del os.environ["TESTS_OF_GUARDS"]
    yield f(X)


@entries(None)
def test_time_goes_on(C):
    f = C(lambda x: (x.sin(), time.perf_counter_ns()))
    before = 0
    for _ in range(3):
        now = f(X)[1]
        yield now > before
        before = now


@entries(None)
def test_standard_output_replaced(C):
    def f(x):
        print("sum", float(x.sum()))
        return x.sin()

    f = C(f)
    for _ in range(3):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            result = f(X)
        yield result, text.getvalue()


@entries(None)
def test_thread_local(C):
    local = threading.local()
    f = C(lambda x: x.sin() + getattr(local, "k", 1))
    yield f(X)
    local.k = 5
    yield f(X)
    found = []
    thread = threading.Thread(target=lambda: found.append(f(X)))
    thread.start()
    thread.join()
    yield found[0]


@entries(None)
def test_context_variable(C):
    import contextvars  # noqa: PLC0415

    variable = contextvars.ContextVar("k", default=1)
    f = C(lambda x: x.sin() + variable.get())
    yield f(X)
    token = variable.set(5)
    yield f(X)
    variable.reset(token)
    yield f(X)


@entries(None)
def test_recursion_limit_and_switch_interval(C):
    f = C(lambda x: x.sin() + sys.getrecursionlimit())
    before = sys.getrecursionlimit()
    yield f(X)
    with setting(sys.setrecursionlimit, before + 500, before):
        yield f(X)
    yield f(X)


@entries(None)
def test_trace_function_sees_the_lines(C):
    def f(x):
        y = x + 1
        return y * 2

    f, lines = C(f), []

    def tracer(frame, event, argument):
        if frame.f_code.co_name == "f" and event == "line":
            lines.append(frame.f_lineno - frame.f_code.co_firstlineno)
        return tracer

    yield f(X)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        result = f(X)
    finally:
        sys.settrace(before)
    yield result, sorted(set(lines))  # 3.11 shows a line again after the hook's jump
    yield f(X)


@entries(None)
def test_error_state_of_numpy(C):
    f = C(lambda x: (x.sin(), outcome(lambda: float(np.float64(1) / np.float64(0)))))
    with np.errstate(divide="ignore"):
        yield f(X)
    with np.errstate(divide="raise"):
        yield f(X)
