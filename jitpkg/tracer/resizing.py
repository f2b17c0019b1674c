"""Where `interpolate` by a factor takes its elements from.

Where a dim keeps its length (1.1 times 9 elements), some of ATen's kernels take each element from
its own place, whatever the factor is; others, and torch's decompositions, compute places from the
factor. So it is when a dim gets twice its length, for the nearest element. Which kernel it is
depends on layout, channels and size: only ATen knows.
"""

from __future__ import annotations

import math

from jitpkg.facts import sizes
from jitpkg.facts.sizes import Length
from jitpkg.tracer import containers, numbers, reasons
from jitpkg.tracer.values import Constant, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

_NEAREST, _LINEAR = (1, 2), (1,)
"""How many times as long a dim is made without regard to the factor, by some kernels."""

_MODES = {"nearest": _NEAREST, "linear": _LINEAR, "bilinear": _LINEAR, "trilinear": _LINEAR}

_OPS = {
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"), _NEAREST),
    **dict.fromkeys(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), _LINEAR),
}
"""Those that `interpolate` calls; their last argument has a factor for each dim."""


def check_factors(vm: VM, name: str, args: Args, kwargs: Kwargs) -> None:
    """End the trace before an op that only ATen can tell."""
    if name == "interpolate":
        names = ("input", "size", "scale_factor", "mode")
        given = dict(zip(names, args, strict=False)) | dict(kwargs)
        mode = vm.look(given["mode"]) if "mode" in given else Constant("nearest")
        image, factor = given.get("input"), given.get("scale_factor")
        lengths = _lengths(mode)
    elif name in _OPS and len(args) > 2:
        image, factor, lengths = args[0], args[-1], _OPS[name]
    else:
        return
    tensor = None if image is None else vm.peek(image)
    if not isinstance(tensor, Tensor) or factor is None:
        return
    dims = vm.facts(tensor).size[2:]
    for n, each in zip(dims, _items(vm, vm.look(factor), len(dims)), strict=False):
        if any(_is_kept(vm, n, each, times) for times in lengths):
            vm.stop(reasons.UNSUPPORTED, f"{name} by a factor that some kernels disregard")


def _lengths(mode: Value) -> tuple[int, ...]:
    match mode:
        case Constant(value=str() as name):
            return _MODES.get(name, ())
        case _:
            return ()


def _items(vm: VM, given: Value, rank: int) -> tuple[Value, ...]:
    match given:
        case Constant(value=int() | float()):
            return (given,) * rank
        case Tuple(items=items):
            found = items
        case Object() if given.cls is list:
            found = containers.list_items(vm, given)
        case _:
            return ()
    return tuple(map(vm.look, found))


def _is_kept(vm: VM, n: Length, factor: Value, times: int) -> bool:
    """Whether a dim gets that many times its length by another factor, a greater one."""
    match factor:
        case Constant(value=int() | float() as number) if times < number < math.inf:
            first = _first_longer(float(number), times)
            return numbers.require(vm, sizes.compare("<", sizes.of(n), first))
        case _:
            return False


def _first_longer(factor: float, times: int) -> int:
    """The first length that is made more than that many times as long."""
    n = max(1, int(1 / (factor - times)) - 2)
    while int(n * factor) <= n * times:
        n += 1
    return n
