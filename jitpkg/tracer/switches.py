"""Settings of torch's on which ops depend, and which a program may change for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from jitpkg.guards import state
from jitpkg.internals import settings
from jitpkg.tracer import reasons
from jitpkg.tracer.vm import VM

OF_OPS: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "scaled_dot_product_attention": ("flash_sdp_enabled", "math_sdp_enabled"),
        **dict.fromkeys(
            (
                *("conv1d", "conv2d", "conv3d", "convolution"),
                *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
            ),
            ("mkldnn_enabled",),
        ),
    }
)
"""By the name of an op: what decides how its result lies in memory, or whether it raises."""


_BY_ONEDNN = ("conv3d", "convolution")
"""Ops of which nobody knows how the result of another implementation lies in memory."""


def guard_all(vm: VM, name: str) -> None:
    """Guard the settings on which the outcome of an op depends."""
    for setting in OF_OPS.get(name, ()):
        guard(vm, setting)
    if name in _BY_ONEDNN and not settings.SWITCH["mkldnn_enabled"].get()():
        vm.stop(reasons.NO_FACTS, f"{name} without oneDNN")


def guard(vm: VM, name: str) -> None:
    """Guard a setting that is from before the trace."""
    setter = settings.ATTENTION_SETTERS.get(name)
    inside = None if setter is None or not vm.switched else setter.found()
    if inside is None or all(node.target is not inside for node in vm.graph.graph.nodes):
        vm.guard(state.setting(name))
