"""The plain binding: Python reads the tensors, and passes the kernel their data pointers.

It is used where native code cannot read tensors itself (`jitpkg.native.selftest`), and costs some
microseconds a call.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from typing import Any

import torch

from jitpkg.native.entry import ABOUT, ADAPTER
from jitpkg.native.extents import value
from jitpkg.native.llvm import Library
from jitpkg.native.refusals import TENSORS, Kind, described, explain
from jitpkg.native.signature import Output, Signature


def binds(library: Library, symbol: str) -> bool:
    """Whether an entry point was made for this binding."""
    return library.find(symbol + ADAPTER) is not None


def function(library: Library, symbol: str, name: str, doc: str) -> Callable[..., Any]:
    """A Python function that calls an entry point."""
    about = ctypes.string_at(library.address(symbol + ABOUT)).decode()
    _, signature = described(about)
    kinds = ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
    address = library.address(symbol + ADAPTER)
    holding, releasing = ctypes.PYFUNCTYPE(*kinds)(address), ctypes.CFUNCTYPE(*kinds)(address)

    def launch(*args: Any) -> Any:
        tensors, integers = _read(about, signature, args)
        outputs = [_allocated(output, integers) for output in signature.outputs]
        scratch = [_scratch(about, value(extent, integers)) for extent in signature.scratch]
        addresses = [tensor.data_ptr() for tensor in [*tensors, *outputs, *scratch]]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        release = value(signature.releases_gil, integers) > 0
        call = releasing if release else holding
        status = call(pointers, (ctypes.c_int64 * len(integers))(*integers))
        if status:
            raise explain(Kind.STATUS, about, status, None)
        match outputs:
            case []:
                return None
            case [output]:
                return output
            case _:
                return tuple(outputs)

    vars(launch)["library"] = library  # the code lives as long as what calls it
    launch.__name__ = launch.__qualname__ = name
    launch.__doc__ = doc
    return launch


def _read(
    about: str, signature: Signature, args: tuple[Any, ...]
) -> tuple[tuple[torch.Tensor, ...], list[int]]:
    if len(args) != signature.inputs + signature.integers:
        raise explain(Kind.COUNT, about, len(args), None)
    tensors = args[: signature.inputs]
    for k, tensor in enumerate(tensors):
        if type(tensor) not in TENSORS:
            raise explain(Kind.TYPE, about, k, tensor)
        if tensor.data_ptr() == 0 and tensor.numel():
            raise explain(Kind.MEMORY, about, k, tensor)
    return tensors, [_integer(given) for given in args[signature.inputs :]]


def _integer(given: Any) -> int:
    number = operator.index(given)
    if not -(2**63) <= number < 2**63:
        raise OverflowError("int too big to convert")
    return number


def _allocated(output: Output, integers: list[int]) -> torch.Tensor:
    sizes = [value(extent, integers) for extent in output.sizes]
    strides = [value(extent, integers) for extent in output.strides]
    return torch.empty_strided(sizes, strides, dtype=output.dtype, device="cpu")


def _scratch(about: str, size: int) -> torch.Tensor:
    if size < 0:
        raise explain(Kind.SCRATCH, about, size, None)
    return torch.empty(size, dtype=torch.uint8, device="cpu")
