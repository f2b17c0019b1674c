"""nn.Module: whatever a module consists of changes between calls."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as global_hooks
from torch.nn.utils import parametrizations, parametrize, prune

from tests.guards.support import (
    Compiler,
    Way,
    X,
    as_twin,
    by_text,
    check,
    entries,
    in_place,
    outcome,
    seen_and_back,
    unnoticed,
)


class Net(nn.Module):
    """A bit of everything."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = nn.Linear(2, 2)
            self.norm = nn.BatchNorm1d(2)
            self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Tanh()])
            self.named = nn.ModuleDict({"a": nn.Linear(2, 2)})
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(2))])
        self.drop = nn.Dropout(0.0)
        self.register_buffer("shift", torch.ones(2))
        self.k = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.layer(x))) * self.k + self.shift
        for block in self.blocks:
            x = block(x)
        for scale in self.scales:
            x = x * scale
        return self.named["a"](x)


BATCH = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])


def other(shape: tuple[int, ...] = (2, 2)) -> nn.Parameter:
    return nn.Parameter(torch.full(shape, 0.5))


Change = Callable[[Net], Any]

CHANGES: dict[str, tuple[Change, int]] = {
    # What keeps the structure: no new entry
    "values of a parameter": (lambda m: m.layer.weight.data.mul_(2), 1),
    "values loaded": (
        lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
        1,
    ),
    "data of a parameter": (lambda m: setattr(m.layer.weight, "data", torch.ones(2, 2)), 1),
    "parameter replaced": (lambda m: setattr(m.layer, "weight", other()), 1),
    "buffer replaced": (lambda m: setattr(m, "shift", torch.zeros(2)), 1),
    "buffer written": (lambda m: m.shift.mul_(3), 1),
    "unread attribute": (lambda m: setattr(m, "note", 5), 1),
    "name of a parameter in its dict": (
        lambda m: m.layer._parameters.update(weight=other()),
        1,
    ),
    "parameters as others": (lambda m: m.to(torch.float32), 1),
    # What does not
    "attribute": (lambda m: setattr(m, "k", 3), 2),
    "training": (lambda m: m.eval(), 2),
    "training of a submodule": (lambda m: m.norm.eval(), 2),
    "dtype": (lambda m: m.double(), 2),
    "stride of a parameter": (
        lambda m: setattr(m.layer.weight, "data", torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()),
        2,
    ),
    "bias removed": (lambda m: setattr(m.layer, "bias", None), 2),
    "bias registered as None": (lambda m: m.layer.register_parameter("bias", None), 2),
    "requires_grad of one": (lambda m: m.layer.weight.requires_grad_(False), 2),
    "requires_grad of all": (lambda m: m.requires_grad_(False), 2),
    "submodule replaced": (lambda m: setattr(m, "layer", nn.Identity()), 2),
    "submodule replaced in its dict": (lambda m: m._modules.update(layer=nn.Identity()), 2),
    "submodule of another class": (lambda m: setattr(m, "drop", nn.Flatten()), 2),
    "submodule appended": (lambda m: m.blocks.append(nn.ReLU()), 2),
    "submodule inserted": (lambda m: m.blocks.insert(0, nn.Sigmoid()), 2),
    "submodule taken out": (lambda m: m.blocks.__delitem__(1), 2),
    "submodule in a list replaced": (lambda m: m.blocks.__setitem__(1, nn.ReLU()), 2),
    "submodule in a dict replaced": (lambda m: m.named.update({"a": nn.Tanh()}), 2),
    "parameter appended": (lambda m: m.scales.append(nn.Parameter(torch.full((2,), 3.0))), 2),
    "parameter in a list replaced": (lambda m: m.scales.__setitem__(0, other((2,))), 1),
    "rate of a dropout": (lambda m: setattr(m.drop, "p", 1.0), 2),
    "momentum": (lambda m: setattr(m.norm, "momentum", 0.5), 2),
    "statistics untracked": (lambda m: setattr(m.norm, "track_running_stats", False), None),
    "forward on the instance": (lambda m: setattr(m.layer, "forward", lambda x: x + 7), 2),
    "forward of the root": (lambda m: setattr(m, "forward", lambda x: x + 7), 2),
    "__dict__ replaced": (lambda m: setattr(m, "__dict__", dict(m.__dict__, k=5)), 2),
    "__class__ of a submodule": (lambda m: setattr(m.layer, "__class__", Doubled), 2),
    # Hooks
    "forward hook": (lambda m: m.layer.register_forward_hook(lambda m, a, y: y + 100), 2),
    "forward pre-hook": (lambda m: m.layer.register_forward_pre_hook(lambda m, a: (a[0] + 1,)), 2),
    "forward hook with keywords": (
        lambda m: m.register_forward_hook(lambda m, a, kw, y: y + 100, with_kwargs=True),
        2,
    ),
    "forward hook of the root": (lambda m: m.register_forward_hook(lambda m, a, y: y + 100), 2),
    "hook put in by hand": (lambda m: m.layer._forward_hooks.update({0: lambda m, a, y: y * 2}), 2),
    "full backward hook": (
        lambda m: m.layer.register_full_backward_hook(lambda m, i, o: None),
        None,
    ),
    # Parametrisations and the like
    "parametrisation": (
        lambda m: parametrize.register_parametrization(m.layer, "weight", Doubling()),
        None,
    ),
    "spectral norm": (lambda m: parametrizations.weight_norm(m.layer), None),
    "pruning": (lambda m: prune.l1_unstructured(m.layer, "weight", 1), None),
    "cast": (lambda m: m.double().float(), None),
}
"""A change to a module, and how many entries there are then; None: not this test's business."""


class Doubled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Doubling(nn.Module):
    def forward(self, w):
        return 2 * w


@pytest.mark.parametrize("way", [in_place, as_twin], ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", CHANGES)
def test_module_changes(name: str, way: Way) -> None:
    change, count = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        m = Net()
        compiled = C(m)
        batch = BATCH.double() if name == "dtype" else BATCH
        yield outcome(compiled, batch), m.norm.running_mean
        change(m)
        yield outcome(compiled, batch), m.norm.running_mean

    check(case, way, None if count is None else (1, count))


@pytest.mark.parametrize("name", CHANGES)
def test_module_that_is_an_argument_changes(name: str) -> None:
    change, count = CHANGES[name]

    def case(C: Compiler) -> Iterator[Any]:
        m, f = Net(), C(lambda m, x: m(x) * 2)
        batch = BATCH.double() if name == "dtype" else BATCH
        yield outcome(f, m, batch), m.norm.running_mean
        change(m)
        yield outcome(f, m, batch), m.norm.running_mean

    check(case, by_text, None if count is None else (1, count))


# There and back


@seen_and_back
def test_training_and_evaluation(C):
    m = Net()
    compiled = C(m)
    yield compiled(BATCH)
    m.eval()
    yield compiled(BATCH)
    m.train()
    yield compiled(BATCH)


@seen_and_back
def test_hook_removed(C):
    m = Net()
    compiled = C(m)
    yield compiled(BATCH)
    handle = m.layer.register_forward_hook(lambda m, a, y: y + 100)
    yield compiled(BATCH)
    handle.remove()
    yield compiled(BATCH)


@entries(None)
def test_state_of_a_hook(C):
    class Offset:
        value = 1

        def __call__(self, m, args, y):
            return y + self.value

    m, offset = Net(), Offset()
    m.layer.register_forward_hook(offset)
    compiled = C(m)
    yield compiled(BATCH)
    offset.value = 100
    yield compiled(BATCH)
    offset.value = 1
    yield compiled(BATCH)


@contextmanager
def global_hook(register: Any, hook: Any) -> Iterator[None]:
    handle = register(hook)
    try:
        yield
    finally:
        handle.remove()


@seen_and_back
def test_global_forward_hook(C):
    m = Net()
    compiled = C(m)
    yield compiled(BATCH)
    with global_hook(global_hooks.register_module_forward_hook, lambda m, a, y: y + 1):
        yield compiled(BATCH)
    yield compiled(BATCH)


@seen_and_back
def test_global_forward_pre_hook(C):
    m = Net()
    compiled = C(m)
    yield compiled(BATCH)
    with global_hook(global_hooks.register_module_forward_pre_hook, lambda m, a: (a[0] * 2,)):
        yield compiled(BATCH)
    yield compiled(BATCH)


@entries(None)
def test_global_backward_hook(C):
    m, gradients = Net(), []
    compiled = C(m)
    compiled(BATCH).sum().backward()
    yield len(gradients), m.layer.weight.grad
    m.zero_grad()
    hook = global_hooks.register_module_full_backward_hook
    with global_hook(hook, lambda m, i, o: gradients.append(type(m).__name__)):
        compiled(BATCH).sum().backward()
    yield list(gradients), m.layer.weight.grad
    m.zero_grad()
    compiled(BATCH).sum().backward()
    yield len(gradients), m.layer.weight.grad


@seen_and_back
def test_class_patched(C):
    m, forward = Net(), nn.Tanh.forward
    compiled = C(m)
    yield compiled(BATCH)
    nn.Tanh.forward = lambda self, x: x
    try:
        yield compiled(BATCH)
    finally:
        nn.Tanh.forward = forward
    yield compiled(BATCH)


@seen_and_back
def test_call_of_all_modules_patched(C):
    m, call = Net(), nn.Module.__call__
    f = C(lambda m, x: m(x))
    yield f(m, BATCH)
    nn.Module.__call__ = lambda self, x: x + 1
    try:
        yield f(m, BATCH)
    finally:
        nn.Module.__call__ = call
    yield f(m, BATCH)


@seen_and_back
def test_getattr_of_all_modules_patched(C):
    m, before = Net(), nn.Module.__getattr__

    def patched(self, name):
        found = before(self, name)
        return found * 2 if name == "shift" else found

    compiled = C(m)
    yield compiled(BATCH)
    nn.Module.__getattr__ = patched
    try:
        yield compiled(BATCH)
    finally:
        nn.Module.__getattr__ = before
    yield compiled(BATCH)


@entries(None)
def test_parametrisation_added_and_removed(C):
    m = Net()
    compiled = C(m)
    yield compiled(BATCH)
    parametrize.register_parametrization(m.layer, "weight", Doubling())
    yield compiled(BATCH)
    parametrize.remove_parametrizations(m.layer, "weight")
    yield compiled(BATCH)


@entries(None)
def test_cached_parametrisation(C):
    m = Net()
    parametrize.register_parametrization(m.layer, "weight", Doubling())
    compiled = C(m)
    yield compiled(BATCH)
    with parametrize.cached():
        yield compiled(BATCH)
        m.layer.parametrizations.weight.original.data.mul_(2)
        yield compiled(BATCH)
    yield compiled(BATCH)


@entries(1, 2, 3)
def test_gradients_on_and_off(C):
    m = Net().eval()
    compiled = C(m)
    yield compiled(BATCH).requires_grad
    with torch.no_grad():
        yield compiled(BATCH).requires_grad
    m.requires_grad_(False)
    yield compiled(BATCH).requires_grad


# Several modules


@unnoticed
def test_another_module_of_the_same_structure(C):
    f = C(lambda m, x: m(x))
    yield f(Net().eval(), BATCH)
    yield f(Net().eval(), BATCH)


@entries(None)
def test_copy_has_parameters_of_its_own(C):
    m = Net().eval()
    compiled = C(m)
    yield compiled(BATCH)
    twin = copy.deepcopy(m)
    twin.layer.weight.data.zero_()
    yield compiled(BATCH)
    yield C(twin)(BATCH)
    yield twin(BATCH)


@entries(1, 2, 2)
def test_tied_weights(C):
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    nn.init.ones_(m[0].weight), nn.init.ones_(m[1].weight)
    nn.init.zeros_(m[0].bias), nn.init.zeros_(m[1].bias)
    own, compiled = m[1].weight, C(m)

    def gradient():
        m.zero_grad()
        compiled(BATCH).sum().backward()
        return m[0].weight.grad

    yield gradient()
    m[1].weight = m[0].weight
    yield gradient()
    m[1].weight = own
    yield gradient()


@seen_and_back
def test_one_module_under_two_names(C):
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = Counting(), Counting()

        def forward(self, x):
            return self.a(x) * 10 + self.b(x)

    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls = 1
            return x + self.calls

    m, own = Pair(), Counting()
    compiled = C(m)
    m.b = own
    yield compiled(X)
    m.a.calls = own.calls = 0
    m.b = m.a
    yield compiled(X)
    m.b = own
    m.a.calls = own.calls = 0
    yield compiled(X)


@entries(None)
def test_modules_with_a_number_each(C):
    class Scaled(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return x * self.k

    f = C(lambda m, x: m(x))
    for k in range(12):
        yield f(Scaled(k), X)


@entries(None)
def test_counter_in_a_module(C):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    m = Counting()
    compiled = C(m)
    for _ in range(12):
        yield compiled(X), m.calls


@entries(None)
def test_lazy_module(C):
    torch.manual_seed(0)
    m = nn.Sequential(nn.LazyLinear(3), nn.Tanh())
    compiled = C(m)
    yield compiled(BATCH).shape
    nn.init.ones_(m[0].weight), nn.init.zeros_(m[0].bias)
    yield compiled(BATCH)
    yield type(m[0]).__name__


@entries(None)
def test_optimiser_steps(C):
    m = Net()
    compiled = C(m)
    optimiser = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        loss = compiled(BATCH).square().sum()
        loss.backward()
        optimiser.step()
        yield loss


@entries(None)
def test_learning_rate_changes_in_a_compiled_step(C):
    m = nn.Linear(2, 2)
    nn.init.ones_(m.weight), nn.init.zeros_(m.bias)
    optimiser = torch.optim.SGD(m.parameters(), lr=0.1)

    def step(x):
        optimiser.zero_grad()
        m(x).sum().backward()
        optimiser.step()
        return m.weight.detach().clone()

    step = C(step)
    yield step(BATCH), C(lambda x: x + 1)(X)
    optimiser.param_groups[0]["lr"] = 0.5
    yield step(BATCH)
    optimiser.add_param_group({"params": [nn.Parameter(torch.ones(1))], "lr": 1.0})
    yield step(BATCH)
