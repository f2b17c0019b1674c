"""docs/graph-to-kernel.md: the files that a graph passes. The prose is in graph_to_kernel.in.md."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch import fx

import jitpkg
from jitpkg import native
from jitpkg.codegen.backend import own
from jitpkg.codegen.cache import kernels
from jitpkg.codegen.cache.folder import VARIABLE
from jitpkg.codegen.cpu.host import Host
from jitpkg.codegen.cpu.stages import stages
from jitpkg.codegen.fusion.text import text_of_schedule
from pages.followed import followed
from pages.text import filled

TEMPLATE = Path(__file__).parent / "graph_to_kernel.in.md"
PACKAGE = Path(jitpkg.__file__).parent
HOST = Host(512)

ROOMS = (
    *("parts", "graph", "sizes", "cache", "aten", "kernels", "lowering", "ir", "fusion"),
    *("cpu", "triton", "autograd"),
)
SIDE_WAYS = frozenset({"codegen/ir/legality.py", "codegen/kernels/reference.py"})
"""Files that the page names, and this graph does not enter in that section."""


def attention(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 0.125, dim=-1)


def page() -> str:
    template = TEMPLATE.read_text(encoding="utf-8")
    _check_order(template)
    found = followed(attention, torch.ones(64, 100))
    *_, (_, last) = stages(found.loops, HOST)
    return filled(
        template,
        {
            "program": inspect.getsource(attention).rstrip(),
            "graph": found.graph,
            "rooms": _rooms(),
            "aten": found.aten,
            "kernel": found.kernel,
            "loops": text_of_schedule(found.loops),
            "scheduled": text_of_schedule(last),
            "function": found.function,
        },
    )


def _rooms() -> str:
    rows = []
    for name in ROOMS:
        doc = importlib.import_module(f"jitpkg.codegen.{name}").__doc__ or ""
        rows.append(f"| [`{name}`](../jitpkg/codegen/{name}) | {doc.strip().splitlines()[0]} |")
    return "\n".join(rows)


def _check_order(template: str) -> None:
    """That a graph enters the files that the page names, in this order."""
    named = re.findall(r"\]\(\.\./jitpkg/(codegen/[\w/]+\.py)\)", template)
    expected = [each for each in dict.fromkeys(named) if each not in SIDE_WAYS]
    if native.start() is None:
        entered = [each for each in _entered() if each in expected]
        assert entered == expected, f"the graph enters {entered}, the page tells {expected}"


def _entered() -> list[str]:
    """The files that a graph enters, in the order of its first calls there."""
    entered: dict[str, None] = {}

    def note(frame: FrameType, event: str, arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            entered[path.relative_to(PACKAGE).as_posix()] = None

    def backend(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        sys.setprofile(note)
        try:
            return own(gm, inputs)
        finally:
            sys.setprofile(None)

    with tempfile.TemporaryDirectory() as empty, mock.patch.dict(os.environ, {VARIABLE: empty}):
        kernels.cache_clear()
        try:
            jitpkg.compile(attention, backend=backend)(torch.ones(64, 100))
        finally:
            kernels.cache_clear()
    return list(entered)
