"""Where functions make tensors that are not told where."""

from __future__ import annotations

import torch

from jitpkg.facts.rows.common import CPU
from jitpkg.internals import modes
from jitpkg.tracer.values import NONE, Constant
from jitpkg.tracer.vm import VM, Kwargs


def told(vm: VM, function: object, kwargs: Kwargs) -> Kwargs:
    """The keyword arguments of a call of the program's, with the device if the function asks."""
    if vm.frames and vm.frames[-1].trusted:
        return kwargs
    return _with(vm, function, kwargs, vm.devices[-1])


def told_by_us(vm: VM, function: object, kwargs: Kwargs) -> Kwargs:
    """Those of an op, which may stand for something of which no default device knows."""
    return _with(vm, function, kwargs, CPU)


def _with(vm: VM, function: object, kwargs: Kwargs, device: torch.device) -> Kwargs:
    if not _asks(function) or not vm.same(kwargs.get("device", NONE), NONE):
        return kwargs
    return {**kwargs, "device": Constant(device)}


def _asks(function: object) -> bool:
    try:
        return function in modes.MADE_ON_DEFAULT_DEVICE.get()()
    except TypeError:
        return False  # it has no hash
