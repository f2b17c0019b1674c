"""Random streams, autocast, default dtypes, modes: state that belongs to the process or thread."""

import random

import torch
import torch.nn.functional as F

from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()


@program(call(floats(1, 2)), call(floats(1, 2)), every_break=True)
def random_numbers(x):
    return x + torch.rand(2), torch.randn_like(x), torch.randint(0, 10, (2,)), torch.randperm(3)


@program(call(floats(1, 2, 3, 4)), call(floats(1, 2, 3, 4)))
def dropout_draws(x):
    return (
        F.dropout(x, 0.5),
        F.dropout(x, 0.5, training=False),
        x.clone().bernoulli_(0.5),
        torch.empty(2).uniform_(),
    )


@program(call(floats(0.2, 0.8)))
def sampled_from_tensors(x):
    return torch.bernoulli(x), torch.normal(x, 1.0), torch.multinomial(x, 1), x.clone().normal_()


@program(call(floats(1, 2)), graphs=None, every_break=True)
def python_random(x):
    a = random.random()
    y = x * a
    return y + random.randint(1, 5), random.choice([1, 2, 3])


@program(call(floats(1, 2)), graphs=None)
def seeded_inside(x):
    torch.manual_seed(7)
    a = torch.rand(2)
    torch.manual_seed(7)
    return x + a, torch.rand(2)


@program(call(floats(1, 2)), graphs=None)
def own_generator(x):
    generator = torch.Generator().manual_seed(3)
    return x + torch.rand(2, generator=generator), torch.randperm(3, generator=generator)


@program(call(floats(1, 2)), graphs=None)
def random_between_breaks(x):
    a = torch.rand(2)
    print("between")
    b = torch.rand(2)
    return x + a * b


@program(call(grid(2, 2)), call(leaf(1, 2).view(1, 2)), every_break=True)
def autocast_block(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        inside = torch.is_autocast_enabled("cpu")
    return y, y.dtype, inside, torch.is_autocast_enabled("cpu"), x @ x.t()


@torch.autocast("cpu", dtype=torch.bfloat16)
def lower(x):
    return x @ x.t()


@program(call(grid(2, 2)))
def autocast_decorator(x):
    with torch.autocast("cpu", enabled=False):
        z = x @ x.t()
    return lower(x).dtype, z


@program(call(floats(1, 2)), graphs=None)
def default_dtype_changed(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2) * x
    torch.set_default_dtype(before)
    return y, before, torch.ones(1)


@program(call(floats(1, 2)), graphs=None)
def device_context(x):
    with torch.device("cpu"):
        y = torch.ones(2)
    return x + y, torch.zeros(1, device=x.device)


@program(call(floats(1, 2)))
def capability_checks(x):
    if torch.cuda.is_available() and x.is_cuda:
        return x
    if torch.jit.is_scripting() or torch.jit.is_tracing():
        return x
    return x + 1, torch.is_tensor(x), torch.is_floating_point(x), torch.is_grad_enabled()


@program(call(floats(1, 2)))
def constants_of_torch(x):
    return (
        x * torch.pi,
        torch.finfo(torch.float32).eps,
        torch.iinfo(x.long().dtype).max,
        torch.float16,
        torch.inf,
    )


@program(call(floats(1, 2)), graphs=None)
def warnings_given(x):
    import warnings

    y = x + 1
    warnings.warn("careful", stacklevel=2)
    return y * 2


class Counting(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@program(call(floats(1, 2)), graphs=None)
def function_mode_inside(x):
    with Counting() as mode:
        y = x.sin() + 1
    return y, mode.names
