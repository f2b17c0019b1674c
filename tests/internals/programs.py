"""Small programs that need private names of PyTorch's: see `tests.internals.needs`.

A program is a function of `compile_`, which compiles a function or module, or leaves it as it is,
and returns what can be compared.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

import jitpkg
from jitpkg.codegen.cpu import maker
from jitpkg.codegen.triton.graphs import Recorded
from jitpkg.facts import fake
from jitpkg.facts.thread_state import leave_modes
from jitpkg.internals import (
    devices,
    dispatch,
)
from jitpkg.native import mersenne
from jitpkg.testing import assert_same
from tests.codegen.triton.recorder import Fake
from tests.tracer.subclasses import TOLD as told
from tests.tracer.subclasses import Noted, Scaled
from tests.tracer.subclasses import made as made_of

Compile = Callable[..., Any]
Program = Callable[[Compile], Any]


def x(*size: int, grad: bool = False) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(0)
    return torch.rand(size or (2, 3), generator=numbers).requires_grad_(grad)


def plain(compile_: Compile) -> Any:
    """By the backend `jitpkg`: two calls, and one of another size."""
    f = compile_(lambda a, b: (torch.relu(a * 2 - b) + a.sum(-1, keepdim=True), a.view(-1)))
    return [f(x(), x()), f(x(), x()), f(x(4, 3), x(4, 3))]


def optimized(compile_: Compile) -> Any:
    """Steps of an optimizer that goes through lists of tensors, and counts."""
    weights = [x().requires_grad_(), x(4).requires_grad_()]
    optimizer = torch.optim.NAdam(weights, lr=0.1, foreach=True)
    step = compile_(lambda: optimizer.step())
    for k in range(3):
        for weight in weights:
            weight.grad = torch.full_like(weight, k + 0.5)
        step()
    return [weight.detach() for weight in weights]


def of_subclasses(compile_: Compile) -> Any:
    """Tensors whose classes are asked what to make of a call, one of memory and one that wraps."""
    told.clear()
    f = compile_(lambda a, b: (torch.sin(a) + 1, b * 2, functional.linear(x(), b)))
    made = f(made_of(Noted, x()), Scaled.of(x()))
    return [each.as_subclass(torch.Tensor) for each in made], list(told)


def wraps(compile_: Compile) -> Any:
    """One that wraps others, made by the program."""
    made = compile_(lambda a: Scaled.of(a) * 0.5)(x())
    return made.data_, made.scale


def profiled(compile_: Compile) -> Any:
    """Calls while a profiler runs, whose ranges have names where that can be."""
    f = compile_(lambda a: torch.relu(a) * 2)
    before = f(x())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        return [before, f(x()), f(x())]


def many_tensors(compile_: Compile) -> Any:
    """More of them than Python compares one by one."""
    f = compile_(lambda tensors: sum(tensors[1:], tensors[0]))
    return [f([x() for _ in range(30)]), f([x(4, 3) for _ in range(30)])]


def op_by_op(compile_: Compile) -> Any:
    f = compile_(lambda a: (a * 2).sin().sum(), backend="eager")
    return [f(x()), f(x())]


def without_tensors(compile_: Compile) -> Any:
    return compile_(lambda n: torch.ones(n) * 2)(3)


def in_place(compile_: Compile) -> Any:
    def add(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        a[0] = 5
        return a * 2

    given = x()
    return compile_(add)(given), given


def grad_modes(compile_: Compile) -> Any:
    def f(a: torch.Tensor) -> Any:
        with torch.no_grad():
            b = a * 2
        return b, a * 3

    made = compile_(f, backend="eager")(x(grad=True))
    return [(each, each.requires_grad) for each in made]


def autocast(compile_: Compile) -> Any:
    def f(a: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return a @ a.t()

    return compile_(f, backend="eager")(x())


def differentiated_autocast(compile_: Compile) -> Any:
    """By the backend `jitpkg`: the graph has the casts itself."""
    f, a = compile_(lambda a: a @ a.t() + a.sum()), x(grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = f(a)
    made.float().sum().backward()
    return made.detach(), a.grad


def per_sample(compile_: Compile) -> Any:
    """By function transforms."""

    def loss(weight: Any, sample: Any) -> Any:
        return (weight * sample).sin().sum()

    f = compile_(lambda a: torch.func.vmap(torch.func.grad(loss), (None, 0))(a[0], a))
    both = compile_(lambda a: torch.func.grad_and_value(torch.sum)(a))
    return [f(x()), f(x()), both(x())]


def jacobians(compile_: Compile) -> Any:
    f = compile_(lambda a: (torch.func.jacrev(torch.sin)(a), torch.func.jacfwd(torch.sin)(a)))
    return [f(x()), f(x())]


def checks_a_size(compile_: Compile) -> Any:
    def checked(a: torch.Tensor) -> torch.Tensor:
        torch._check(a.shape[0] > 1)
        return a.exp()

    return compile_(checked, backend="eager")(x())


def asserts(compile_: Compile) -> Any:
    def checked(a: torch.Tensor) -> torch.Tensor:
        torch._assert_async((a > -100).all())
        return a.exp()

    return compile_(checked, backend="eager")(x())


def asks_for_transforms(compile_: Compile) -> Any:
    ask = torch._C._are_functorch_transforms_active
    return compile_(lambda a: (a + 1, ask()), backend="eager")(x())


def checks_with_an_exception(compile_: Compile) -> Any:
    def checked(a: torch.Tensor) -> torch.Tensor:
        torch._check_with(ValueError, a.shape[0] > 1, lambda: "small")
        return a.exp()

    return compile_(checked, backend="eager")(x())


def asks_torch(compile_: Compile) -> Any:
    """What torch's own code asks is called by its private names."""
    asked = (torch._C._is_tracing, torch._C._is_torch_function_mode_enabled)
    return compile_(lambda a: (a + 1, *(ask() for ask in asked)), backend="eager")(x())


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.first(a)))


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def calls_of_modules(compile_: Compile) -> Any:
    module = net().eval()
    return compile_(lambda a: module(a) + 1, backend="eager")(x())


def module_in_place(compile_: Compile) -> Any:
    module = compile_(net().eval(), backend="eager")
    return module(x()), list(module.state_dict())


def disabled_module(compile_: Compile) -> Any:
    module = jitpkg.disable(net().eval())
    return compile_(lambda a: module(a) * 2, backend="eager")(x())


def new_module(compile_: Compile) -> Any:
    return compile_(lambda a: nn.Identity()(a) + 1, backend="eager")(x())


def statistics(compile_: Compile) -> Any:
    """Batch norm in training, without gradients: it writes to its buffers."""
    module = net()
    f = compile_(lambda a: module(a))
    with torch.no_grad():
        return f(x(5, 3)), dict(module.state_dict())


BY_AOT = {"backend": "jitpkg", "options": {"backward": "aot"}}


def trained(compile_: Compile, **how: Any) -> Any:
    module, how = net(), how or BY_AOT
    f = compile_(lambda a: (module(a).sum(), module.first(a).reshape(-1)), **how)
    for _ in range(2):
        loss, more = f(x(5, 3))
        (loss + more.sum()).backward()
    return loss, {name: p.grad for name, p in module.named_parameters()}


def trained_by_own(compile_: Compile) -> Any:
    """Attention, by our own backward pass."""
    attend = torch.nn.functional.scaled_dot_product_attention
    f = compile_(
        lambda a, m: (attend(a, a, a).sum(), attend(a, a, a, attn_mask=m).sum()),
        backend="jitpkg",
    )
    a, m = x(1, 2, 4, 4, grad=True), x(1, 2, 4, 4, grad=True)
    sum(f(a, m)).backward()
    return a.grad, m.grad


def shared_gradient(compile_: Compile) -> Any:
    a, b = x(2, 2, grad=True), x(2, 2, grad=True)
    f = compile_(lambda a, b: a + b, backend="jitpkg")
    return torch.autograd.grad(f(a, b), (a, b), x(2, 2))


def written_and_trained(compile_: Compile) -> Any:
    """By our own backward pass: something is written over before it is saved."""

    def f(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        b.add_(1)
        return (b * b).sum()

    a = x(grad=True)
    compile_(f, backend="jitpkg")(a).backward()
    return a.grad


def views_without_gradients(compile_: Compile) -> Any:
    """By the backend `jitpkg`: beside what is trained."""
    f, a = compile_(lambda a, b: (a.sum() * 2, (b * 2).unbind()[0]), **BY_AOT), x(grad=True)
    loss, row = f(a, x())
    loss.backward()
    return loss.detach(), a.grad, row


def trained_simply(compile_: Compile) -> Any:
    """A graph that needs nothing of AOTAutograd's runtime, and returns a view."""
    a, b = x(grad=True), x(3, 2, grad=True)
    f = compile_(lambda a, b: (torch.relu(a @ b).view(-1), (a * 2).t()), **BY_AOT)
    for _ in range(2):
        sum(map(torch.sum, f(a, b))).backward()
    return a.grad, b.grad


def goes_backward(compile_: Compile) -> Any:
    """A backward pass that is a part of the graph."""
    a = x(grad=True)
    f = compile_(lambda a: (a * 2).exp().sum().backward())
    for _ in range(2):
        f(a)
    return a.grad


def differentiated_twice(compile_: Compile) -> Any:
    """Of inputs that somebody holds; otherwise it is refused, or not."""
    a, b = x(grad=True), x(3, 2, grad=True)
    f = compile_(lambda a, b: (a @ b).tanh().sum(), backend="jitpkg")
    (g,) = torch.autograd.grad(f(a, b), a, create_graph=True)
    return g, torch.autograd.grad(g.pow(2).sum(), (a, b))


def trained_in_part(compile_: Compile) -> Any:
    """Of two results one has no gradient, as eager code sees it; something else is written to."""
    a, b, count = x(grad=True), x(grad=True), x()

    def f(a: torch.Tensor, b: torch.Tensor, count: torch.Tensor) -> Any:
        count.add_(1)
        return (a * 2).sin(), (b * 3).cos()

    compile_(f, backend="aot_eager")(a, b, count)[0].sum().backward()
    return a.grad, b.grad, count


def trained_by_aot_eager(compile_: Compile) -> Any:
    return trained(compile_, backend="aot_eager")


def trained_by_inductor(compile_: Compile) -> Any:
    return trained(compile_, backend="inductor")


def mode_of_inductor(compile_: Compile) -> Any:
    """A mode, of which nothing is compiled."""
    f = compile_(lambda n: n + 1, backend="inductor", mode="reduce-overhead")
    return f(1)


def options_of_inductor(compile_: Compile) -> Any:
    f = compile_(lambda n: n + 1, backend="inductor", options={"max_autotune": False})
    return f(1)


def views_of_inputs(compile_: Compile) -> Any:
    f = compile_(lambda a: (a.t(), a[0] * 2), backend="aot_eager")
    made = f(x())
    return made, made[0]._base is not None


def varying(compile_: Compile) -> Any:
    """Sizes that vary, through AOTAutograd."""
    f = compile_(lambda a: (a * 2).sin().sum(0), backend="aot_eager", dynamic=True)
    return [f(x(n, 3, grad=True)) for n in (2, 4, 5)]


def lstm(compile_: Compile) -> Any:
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4, proj_size=2).eval()  # jitpkg has no facts of projections
    f = compile_(lambda a: layer(a)[0], backend="eager")
    with torch.no_grad():
        return [f(x(n, 2, 3)) for n in (3, 4, 5)]


def odd_op(compile_: Compile) -> Any:
    """An op of which jitpkg has no facts."""
    return compile_(lambda a: torch.special.bessel_j0(a) + 1, backend="eager")(x())


def cast_inside(compile_: Compile) -> Any:
    """Autocast inside of a graph, with kernels."""

    def program(a: Any, weight: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = torch.relu(a @ weight)
        return h.float().sum()

    weight = x(3, 3).requires_grad_()
    return compile_(program, backend="jitpkg")(x(4, 3), weight).detach(), weight.grad


def odd_op_of_any_size(compile_: Compile) -> Any:
    """The same for sizes that vary, as in PyTorch 2.11."""
    fake.products_compare_sizes = lambda: True
    f = compile_(lambda a: torch.special.bessel_j0(a) + 1, backend="eager", dynamic=True)
    return [f(x(n, 3)) for n in (3, 4)]


def sized_by_data(compile_: Compile) -> Any:
    return compile_(lambda a: torch.nonzero(a > 0.5) + 1, backend="eager")(x())


def selected(compile_: Compile) -> Any:
    return compile_(lambda a: torch.masked_select(a, a > 0.5) + 1, backend="eager")(x())


@torch.library.custom_op("jitpkg_tests::without_fake", mutates_args=())
def _without_fake(a: torch.Tensor) -> torch.Tensor:
    return a * 3


def op_without_facts(compile_: Compile) -> Any:
    f = compile_(lambda a: torch.ops.jitpkg_tests.without_fake(a) + 1, backend="eager")
    return f(x())


def quantised(compile_: Compile) -> Any:
    """An op that has a kernel for real tensors only."""
    f = compile_(lambda a: torch.quantize_per_tensor(a, 0.1, 0, torch.quint8), backend="eager")
    return f(x()).dequantize()


def measured(compile_: Compile) -> Any:
    f = compile_(lambda a: (a * 2).sin() + 1, mode="max-autotune-no-cudagraphs")
    return f(x(64, 64))


def by_onednn(compile_: Compile) -> Any:
    """A large matrix product, as on an AMD processor."""
    maker.onednn_is_faster = lambda cpu, capability: True
    weight, bias = x(256, 256), x(256)
    return compile_(lambda a: functional.linear(a, weight, bias))(x(256, 256))


def object_with_methods(compile_: Compile) -> Any:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

    return compile_(lambda a, scale: a * scale.by, backend="eager")(x(), Scale(3.0))


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def on_a_default_device(compile_: Compile) -> Any:
    def program(x: torch.Tensor) -> Any:
        return x + torch.ones(1), torch.zeros(2).device.type

    f = compile_(program)
    with torch.device("cpu"):
        return [f(x()) for _ in range(2)]


def left_modes(compile_: Compile) -> Any:
    """A mode that an exception has left behind is left, where that can be done."""
    entered = (dispatch.mode(lambda func, args, kwargs: func(*args, **kwargs)), Passing())
    for mode in entered:
        mode.__enter__()
    leave_modes()
    return x() + 1


def with_company(compile_: Compile) -> Any:
    """Torch's compiler is loaded."""
    importlib.import_module("torch._dynamo.trace_rules")

    def helper(a: torch.Tensor) -> torch.Tensor:
        return a * 2

    return compile_(lambda a: helper(a) + 1, backend="eager")(x())


def kept(compile_: Compile) -> Any:
    """Once torch's compiler has been used, its settings count for what is kept."""
    return trained(compile_), plain(compile_)


def _compared(f: Callable[..., Any], *args: Any) -> None:
    assert_same(f, *args, backend="eager")


def compared(compile_: Compile) -> Any:
    """`jitpkg.testing`, with tensors of many kinds."""
    base = x(4, 3)
    hooked = x(grad=True)
    hooked.register_hook(lambda grad: grad * 2)
    _compared(lambda a, b, p: (a * 2, b + 1, p * 3), base, base[1:], nn.Parameter(x()))
    _compared(lambda a: a * 2, hooked)
    _compared(lambda a: a.add_(1), x())


def compared_negated(compile_: Compile) -> Any:
    lazily = torch.complex(x(), x()).conj().imag.detach()
    with contextlib.suppress(jitpkg.internals.Missing):
        _compared(lambda a: a * 2, lazily)


def replayed(compile_: Compile) -> Any:
    """A CUDA graph, recorded by something that acts like one."""

    f = Recorded("program", lambda a: (a * 2, a + 1), Fake(), shown=1)
    with torch.no_grad():
        return [f(x()) for _ in range(4)]


def replayed_by_cuda(compile_: Compile) -> Any:
    """The same by something that clears cuBLAS's memory first."""

    class Recorder(Fake):
        def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
            devices.CLEAR_WORKSPACES.get()()
            return super().record(run)

    f = Recorded("program", lambda a: (a * 2, a + 1), Recorder())
    with torch.no_grad():
        return [f(x()) for _ in range(4)]


def inference_mode(compile_: Compile) -> Any:
    def program(x: Any) -> Any:
        with torch.inference_mode():
            y = x * 2
        return y, y.is_inference()

    f = compile_(program)
    return [f(x()) for _ in range(2)]


def chosen_attention(compile_: Compile) -> Any:
    def program(q: Any) -> Any:
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    f = compile_(program)
    return [f(x()[None, None]) for _ in range(2)]


def current_stream(compile_: Compile) -> Any:
    """What a launch would ask a GPU for."""
    return callable(devices.RAW_STREAM.get()), callable(devices.CURRENT_DEVICE.get())


def drops_out(compile_: Compile) -> Any:
    """Masks that compiled code draws."""
    mersenne.start()
    torch.manual_seed(0)
    f = compile_(lambda a: torch.nn.functional.dropout(a, 0.25) + 1)
    return [f(x(40, 50)) for _ in range(2)], torch.get_rng_state()


def control_flow(compile_: Compile) -> Any:
    library = torch._higher_order_ops

    def program(a: Any) -> Any:
        going = library.while_loop(lambda b: b.sum() < 9, lambda b: (b * 2,), (a,))
        running = library.scan(lambda c, b: (c + b, c * b), a[0], a)
        return going, running, library.map(torch.sin, a)

    return compile_(program)(x())
