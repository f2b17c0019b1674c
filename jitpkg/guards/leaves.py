"""C functions that `import torch` brings and that test guards faster than Python does.

Each is tried on known cases when the module is loaded, and where it does not give the right
answers the guards' own text is used.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

import torch
from torch._C._dynamo import guards as _c

Check = Callable[..., bool]


def tensor_check(tensors: Sequence[torch.Tensor]) -> Check:
    """A function of as many tensors: whether each has the metadata, class and dispatch keys of
    the one in its place, and all are distinct objects. 100 ns a tensor, against 330 in Python."""
    return _c.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check


def global_state_check() -> Check:
    """A function of nothing: whether grad mode, autocast, default dtype, deterministic mode,
    thread count and torch-function switches are as now. 140 ns, against 260 in Python."""
    return _c.GlobalStateGuard().check


dict_version: Callable[[dict[str, object]], int] = getattr(_c, "dict_version", lambda _: 0)
"""A number that changes whenever an item of the dict is set or deleted. 30-110 ns."""


def _dict_version_works() -> bool:
    class Probe:
        attribute = 1

    (namespace,) = gc.get_referents(Probe.__dict__)
    versions = [dict_version(namespace)]
    if dict_version(namespace) != versions[0]:
        return False
    for name in ("attribute", "other"):
        setattr(Probe, name, 2)
        versions.append(dict_version(namespace))
    delattr(Probe, "other")
    versions.append(dict_version(namespace))
    return len(set(versions)) == len(versions)


def _tensor_check_works() -> bool:
    x, y = torch.zeros(2, 3), torch.zeros(4)
    try:
        check = tensor_check([x, y])
    except (AttributeError, TypeError):
        return False
    return check(x, y) and not any(
        (
            check(torch.zeros(2, 4), y),
            check(torch.zeros(3, 2).t(), y),
            check(x.double(), y),
            check(x.clone().requires_grad_(), y),
            check(torch.nn.Parameter(x, requires_grad=False), y),
            tensor_check([x, x.clone()])(x, x),
            tensor_check([y.to(torch.complex64)])(y.to(torch.complex64).conj()),
        )
    )


def _global_state_check_works() -> bool:
    try:
        check = global_state_check()
    except (AttributeError, TypeError):
        return False
    with torch.set_grad_enabled(not torch.is_grad_enabled()):
        changed = check()
    return check() and not changed


TENSOR_CHECK_WORKS = _tensor_check_works()
GLOBAL_STATE_CHECK_WORKS = _global_state_check_works()
DICT_VERSION_WORKS = _dict_version_works()
