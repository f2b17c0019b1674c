"""A small program, run as it is and compiled, with a gradient."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from jitpkg import api, config, events
from jitpkg.doctor.finding import Finding, State, examined, in_words
from jitpkg.errors import JitpkgWarning
from jitpkg.messages import counted

LABEL = "trial"

Program = Callable[[Tensor], Tensor]


def program(x: Tensor) -> Tensor:
    """Some ops that become one kernel."""
    return torch.tanh(x * 2 + 1) / (x * x + 1)


program.__module__ = ""  # a user's: what is of jitpkg itself is never traced


def finding(device: str) -> Finding:
    """What compiling it for a device gives."""
    return examined(LABEL, lambda: _finding(device), State.BROKEN)


def _finding(device: str) -> Finding:
    seen: list[events.Event] = []
    expected = _run(program, device)
    with events.STREAM.listening(seen.append), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", JitpkgWarning)
        began = time.perf_counter()
        found = _run(api.compile(program), device)
        seconds = time.perf_counter() - began
    said = tuple(str(each.message) for each in warned if issubclass(each.category, JitpkgWarning))
    if not all(map(_is_close, found, expected)):
        return Finding(LABEL, f"on {device}, the result is wrong", State.BROKEN, said)
    return _of_events(device, seconds, seen, said)


def _run(function: Program, device: str) -> tuple[Tensor, Tensor]:
    """The result, and the gradient of its sum."""
    x = torch.linspace(-2, 2, 1024, device=device).requires_grad_()
    with torch.enable_grad():
        y = function(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
    return y, slope


def _is_close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


def _of_events(
    device: str, seconds: float, seen: Sequence[events.Event], said: tuple[str, ...]
) -> Finding:
    graphs = [event for event in seen if isinstance(event, events.GraphCompiled)]
    fell = [in_words(event.error) for event in seen if isinstance(event, events.FellBack)]
    if not graphs:
        whys = tuple(dict.fromkeys(fell)) + said
        return Finding(LABEL, f"on {device}, nothing was compiled", State.BROKEN, whys)
    declined = [event.why for event in seen if isinstance(event, events.Declined)]
    kernels = sum(len(event.kernels) for event in seen if isinstance(event, events.Fused))
    backend = config.current().backend
    text = (
        f"on {device}, backend {backend}: {counted(len(graphs), 'graph')},"
        f" {counted(kernels, 'kernel')}, in {seconds:.2f} s; values and gradient as in eager code"
    )
    whys = tuple(dict.fromkeys(declined)) + said
    is_less = bool(whys) or (backend == "jitpkg" and kernels == 0)
    return Finding(LABEL, text, State.LESS if is_less else State.FINE, whys)
