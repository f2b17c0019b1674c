"""What is kept of a graph: its functions, and its kernels' object code.

8 bytes       length of the header
header        JSON: kernels, functions, and what else belongs to the graph
data          object code, texts of kernels, constants: as long as the header says
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import fx

from jitpkg import config, events, native
from jitpkg.codegen.aten.runtime import Later
from jitpkg.codegen.cache import kernels as cache
from jitpkg.codegen.cache.functions import Apart, Together
from jitpkg.codegen.cache.plain import NotPlain, Plain
from jitpkg.dataclass import dataclass
from jitpkg.errors import NativeError
from jitpkg.interrupts import from_outside

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class MadeKernel:
    """What a kernel can be made of again."""

    name: str
    doc: str
    text: str
    """What was compiled, for those who listen."""
    code: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """A graph's functions, made again."""

    functions: Sequence[Function]
    later: Later
    """What these may hold in place of what is known later."""
    rest: Plain


def keep(
    key: str,
    name: str,
    gm: fx.GraphModule,
    functions: Sequence[Function],
    made: Mapping[Function, MadeKernel],
    fused: Sequence[events.Fused],
    rest: Plain = None,
) -> bool:
    """Keep functions of a graph, where they can be written down; says whether they can.

    Args:
        made: the kernels that the functions may hold.
        fused: what was said of the graph.
        rest: what else is to be known, as JSON.
    """
    apart = Apart(name, made, gm.forward)
    try:
        texts = [apart.function(function) for function in functions]
    except NotPlain:
        return False
    data: list[bytes] = []
    used = [made[kernel] for kernel in apart.used]
    for kernel in used:
        data += [kernel.code, zlib.compress(kernel.text.encode(), 1)]
    data += apart.blobs
    header = {
        "kernels": [[kernel.name, kernel.doc] for kernel in used],
        "functions": texts,
        "fused": [
            [event.graph.removeprefix(name), list(map(_shown, event.kernels)), event.calls]
            for event in fused
        ],
        "rest": rest,
        "lengths": [len(each) for each in data],
    }
    encoded = json.dumps(header).encode()
    cache().put(key, b"".join((len(encoded).to_bytes(8, "little"), encoded, *data)))
    return True


def kept(key: str, graph: str, gm: fx.GraphModule) -> Kept | None:
    """What was kept of a graph; None where there is nothing, or where it cannot be used."""
    found = cache().get(key)
    if found is None:
        return None
    start = 8 + int.from_bytes(found[:8], "little")
    header = json.loads(found[8:start])
    data: list[bytes] = []
    for length in header["lengths"]:
        data.append(found[start : start + length])
        start += length
    count = len(header["kernels"])
    try:
        made = [
            _kernel(name, doc, code, text)
            for (name, doc), code, text in zip(
                header["kernels"], data[: 2 * count : 2], data[1 : 2 * count : 2], strict=True
            )
        ]
        together = Together(graph, made, gm.forward, data[2 * count :])
        functions = [together.function(*text) for _, *text in header["functions"]]
        for ready in together.ready:
            ready()
    except (NativeError, NotPlain, AttributeError, ImportError):
        return None  # a symbol that is not in this process, or an op: it is compiled anew
    except Exception as error:
        if config.current().raises or from_outside(error):
            raise
        return None
    for half, shown, calls in header["fused"]:
        kernels = tuple(events.Kernel(title, tuple(ops), moved) for title, ops, moved in shown)
        events.STREAM.emit(events.Fused(graph + half, kernels, tuple(calls)))
    return Kept(functions, together.later, header["rest"])


@contextmanager
def kept_or_claimed(key: str | None, graph: str, gm: fx.GraphModule) -> Iterator[Kept | None]:
    """What was kept of a graph; while another process compiles it, this one waits a little.

    Where there is nothing, others wait while the `with` block compiles it.

    Args:
        key: None for what is not kept.
    """
    found = None if key is None else kept(key, graph, gm)
    if key is None or found is not None:
        yield found
        return
    with cache().claims.claimed(key, lambda: kept(key, graph, gm)) as found:
        yield found


def _shown(kernel: events.Kernel) -> Plain:
    return [kernel.name, kernel.ops, kernel.bytes]


def _kernel(name: str, doc: str, code: bytes, text: bytes) -> Function:
    function = native.builtin(native.load(code), "entry", name, doc)
    if events.STREAM.heard:
        printed = zlib.decompress(text).decode()
        events.STREAM.emit(events.KernelCompiled(name, printed, 0.0))
    return function
