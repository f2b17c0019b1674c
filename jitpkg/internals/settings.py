"""Torch's settings that decide which kernels eager code calls: what is kept depends on them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jitpkg.internals.row import Row

_KEY = "knowing all that a graph kept on disk depends on"
_NOT_KEPT = "graphs are not kept on disk, and are compiled anew in each process"

SWITCH: Mapping[str, Row[Callable[[], object]]] = MappingProxyType(
    {
        name: Row(f"torch._C._get_{name}", use=_KEY, lost=_NOT_KEPT)
        for name in """
        mkldnn_enabled mkldnn_deterministic nnpack_enabled flash_sdp_enabled
        mem_efficient_sdp_enabled math_sdp_enabled overrideable_sdp_enabled cudnn_sdp_enabled
        math_sdp_allow_fp16_bf16_reduction fa3_sdp_enabled
        cudnn_enabled cudnn_deterministic cudnn_benchmark
        """.split()
    }
)
"""What decides which op a function comes to."""


ATTENTION_SETTERS: Mapping[str, Row[Callable[[bool], object]]] = MappingProxyType(
    {
        f"{name}_sdp_enabled": Row(
            f"torch._C._set_sdp_use_{name}",
            use="tracing torch.nn.attention.sdpa_kernel",
            lost="a program that uses it breaks the graph there",
        )
        for name in ("flash", "mem_efficient", "math", "overrideable", "cudnn")
    }
)
"""What chooses kernels for attention, by the names of these settings."""


def chosen_for_attention() -> tuple[bool | None, ...]:
    """How those settings stand; None where nobody can tell."""
    getters = (SWITCH[name].found() for name in ATTENTION_SETTERS)
    return tuple(None if getter is None else bool(getter()) for getter in getters)


def choose_for_attention(chosen: Sequence[bool | None]) -> None:
    """Let them stand so again."""
    now = chosen_for_attention()
    for setter, is_on, was_on in zip(ATTENTION_SETTERS.values(), now, chosen, strict=True):
        if (set_ := setter.found()) is not None and was_on is not None and is_on is not was_on:
            set_(was_on)


ATTENTION = Row[Callable[[], Sequence[object]]](
    "torch._C._get_sdp_priority_order", use=_KEY, lost=_NOT_KEPT
)

_FUNCTORCH = "torch._functorch.config"

OF_AOT = Row[Mapping[str, Any]](f"{_FUNCTORCH}._config", use=_KEY, lost=_NOT_KEPT)


def all_switches() -> list[object]:
    """How they all stand.

    Raises:
        Missing: nobody can tell.
    """
    stand: list[object] = [bool(switch.get()()) for switch in SWITCH.values()]
    return [*stand, list(map(str, ATTENTION.get()()))]


def changed_for_aot() -> list[tuple[str, str]]:
    """AOTAutograd's settings that somebody has changed; it is not imported for that.

    Raises:
        Missing: nobody can tell.
    """
    module = sys.modules.get(_FUNCTORCH)
    if module is None:
        return []
    defaults = OF_AOT.get()
    # To read one that is deprecated warns; torch 2.11 has none.
    names = [name for name in defaults if not getattr(defaults[name], "deprecated", False)]
    values = {name: getattr(module, name) for name in names}
    changed = {k: v for k, v in values.items() if v is not (d := defaults[k].default) and v != d}
    return sorted((name, repr(value)) for name, value in changed.items())
