"""What NumPy's arrays do that is left to NumPy."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import jitpkg
from jitpkg.testing import Comparison

Program = Callable[..., Any]
BACKENDS = ("eager", "jitpkg")
NOT_COMPARED = {"eager": (), "jitpkg": ("version", "idle strides")}
"""What kernels have of their own, for any program: `x.data.add_(1)` counts as a write to `x`."""


def matrix() -> torch.Tensor:
    return torch.arange(9.0).reshape(3, 3)


def requires_grad(x):
    y = x.detach().requires_grad_() * 2
    try:
        return y.numpy()
    except RuntimeError as error:
        return str(error)


def conjugated(x):
    return torch.complex(x, x).conj().numpy()


def of_bfloat16(x):
    try:
        return x.bfloat16().numpy()
    except TypeError as error:
        return str(error)


def without_elements(x):
    return x[:0].numpy().strides, torch.from_numpy(x[:0].numpy()).stride()


def computed_with(x):
    a = np.sqrt((x + 1).numpy())
    return torch.from_numpy(a), np.exp(a).mean()


def with_a_tensor(x):
    return x + 1, x.numpy() * x, x * x.numpy()


def in_inference_mode(x):
    with torch.inference_mode():
        a = (x + 1).numpy()
        t = torch.from_numpy(a)
    return a, t.is_inference(), torch.from_numpy(a).is_inference()


def warned(x):
    return x + 1, np.array(x), np.array([1.0]) / 0, np.array([200], np.uint8) + np.uint8(100)


def of_other_kinds(x):
    return (
        x + 1,
        np.array(["a"]),
        np.array([None, 1]),
        np.array([1j]),
        np.zeros((0, 3)),
        np.empty(0),
    )


def too_large(x):
    return x + 1, np.zeros((400, 400)).sum()


def out(x):
    a = np.zeros(2)
    np.add(a, 1, out=a)
    np.copyto(a, a + 1)
    try:
        a.sort()
        a[5] = 1
    except IndexError as error:
        return x + 1, a, str(error)


def base(x):
    a = x.numpy()
    return x + 1, a.base is None, a.flags.owndata, a[1:].base is a


def views_of_a_tensor_of_it(x):
    a = np.zeros(3)
    t = torch.from_numpy(a)
    v = t[1:]
    v += 1
    return x + 1, a, t, v


def reshaped_in_place(x):
    a = (x + 1).numpy()
    t = torch.from_numpy(a)
    t.unsqueeze_(0)
    t += 1
    return t.shape, a


def shown(x):
    a, b = x.numpy(), np.array([1.0, 2.0])
    return x + 1, f"{b}", str(b), repr([b]), [row.sum() for row in a], sum(a), a is None, b in [b]


def as_a_key(x):
    try:
        return {x.numpy(): 1}
    except TypeError as error:
        return x + 1, str(error)


def in_a_checkpoint(x):
    a = np.ones(3, dtype=np.float32)
    y = checkpoint(lambda t: t * torch.from_numpy(a), x, use_reentrant=False)
    return y, torch.from_numpy(a)


def in_a_transform(x):
    a = np.ones(3, dtype=np.float32)
    return torch.func.vmap(lambda t: t * torch.from_numpy(a))(x), a


def under_autocast(x):
    with torch.autocast("cpu"):
        a = (x @ x).float().numpy()
        return a * 2, torch.from_numpy(a) @ x


def with_a_shape_of_its_own(x):
    a = x.numpy()
    a.shape = (9,)
    return torch.from_numpy(a) + 1, a


def with_other_arguments(x):
    a = (x + 1).numpy()
    b = np.zeros((3, 3), dtype=np.float32)
    np.add(a, 1, out=b)
    np.add(a, 1, b)
    c = np.asarray(a, dtype=np.float64), a.reshape(9, order="F"), a.astype("f4", order="F")
    return x + 1, b, c, np.sqrt(a, b), np.add(a, 1, where=a > 2, out=b), a.copy("F")


BROKEN: list[Program] = [
    requires_grad,
    conjugated,
    of_bfloat16,
    without_elements,
    computed_with,
    with_a_tensor,
    in_inference_mode,
    warned,
    of_other_kinds,
    too_large,
    out,
    base,
    views_of_a_tensor_of_it,
    reshaped_in_place,
    shown,
    as_a_key,
    in_a_checkpoint,
    in_a_transform,
    under_autocast,
    with_a_shape_of_its_own,
    with_other_arguments,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", BROKEN, ids=lambda f: f.__name__)
def test_what_is_left_to_python(program: Program, backend: str) -> None:
    Comparison(backend=backend, calls=3, absolute=1e-6, ignore=NOT_COMPARED[backend]).assert_same(
        program, matrix()
    )


def test_what_was_shown_of_warnings_is_remembered() -> None:
    def constants(x):
        return x + torch.from_numpy(np.zeros(3) + 1)

    def warn() -> None:
        warnings.warn("shown once", UserWarning, stacklevel=1)

    jitpkg.compile(constants, backend="eager")(matrix())
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        warn()
        jitpkg.compile(constants, backend="eager", fullgraph=True)(matrix())
        warn()
    assert len(heard) == 1
