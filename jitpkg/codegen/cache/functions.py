"""Generated functions as text and the objects that they hold, and back.

A generated function is its source, and default values for what it holds: ops, kernels, constants,
other generated functions, what is known later, and those that say in `made_by` what makes them of
plain values. Such a one may have `ready`, which waits for what makes it in the background.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from types import FunctionType, MethodType
from typing import Any

import torch

from jitpkg import listing
from jitpkg.attempts import OpByOp
from jitpkg.codegen.aten.runtime import Later
from jitpkg.codegen.cache.plain import NotPlain, Plain, read, written
from jitpkg.dataclass import dataclass
from jitpkg.facts.tensor import data_of
from jitpkg.ranges import bare, calls_kernels

Function = Callable[..., Any]


@dataclass(eq=False, slots=True)
class Apart:
    """Takes functions apart.

    Args:
        name: of the graph, with which the names of its functions begin.
        kernels: those that functions may hold.
        original: the function of the graph as it was.
    """

    name: str
    kernels: Container[Function]
    original: Function
    used: dict[Function, int] = field(default_factory=dict)
    """Kernels that are held, and their places."""
    blobs: list[bytes] = field(default_factory=list)
    """The data of constant tensors."""

    def function(self, made: Function) -> Plain:
        """
        Raises:
            NotPlain: it holds what cannot be written down, or is no generated function.
        """
        if not isinstance(made, FunctionType) or made.__closure__ or made.__kwdefaults__:
            raise NotPlain("no generated function")
        source = "".join(linecache.getlines(made.__code__.co_filename))
        if not source or not made.__code__.co_filename.startswith("<jitpkg "):
            raise NotPlain("a function without source")
        names = made.__code__.co_varnames[: made.__code__.co_argcount]
        values = made.__defaults__ or ()
        names = names[len(names) - len(values) :]
        held = [
            [name, written(bare(v), self._other)] for name, v in zip(names, values, strict=True)
        ]
        if not made.__name__.startswith(self.name):
            raise NotPlain("a function of another graph")
        return ["function", made.__name__.removeprefix(self.name), source, held]

    def _other(self, value: Any) -> Plain | None:
        if isinstance(value, MethodType) and value == self.original:
            return ["original"]
        if isinstance(value, OpByOp) and value.original == self.original:
            return ["op by op"]
        if isinstance(value, Later):
            return ["later"]
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if callable(value) and not isinstance(value, type) and value in self.kernels:
            return ["kernel", self.used.setdefault(value, len(self.used))]
        if isinstance(value, FunctionType) and "made_by" in vars(value):
            maker, arguments = value.made_by  # type: ignore[attr-defined]
            return ["made", written(maker), written(arguments)]
        if isinstance(value, FunctionType) and value.__code__.co_filename.startswith("<jitpkg "):
            return self.function(value)
        return None

    def _tensor(self, value: torch.Tensor) -> Plain:
        plain = type(value) is torch.Tensor and not value.requires_grad and not value.is_inference()
        if not plain or value.device.type != "cpu" or not value.is_contiguous():
            raise NotPlain("a tensor that is no plain constant")
        if value.dtype not in _DTYPES or value.numel() > MOST_ELEMENTS:
            raise NotPlain("a constant that is large, or of an unusual kind")
        self.blobs.append(data_of(value))
        return ["tensor", written(value.dtype), list(value.shape), len(self.blobs) - 1]


@dataclass(frozen=True, eq=False, slots=True)
class Together:
    """Puts functions together again; the arguments are those of `Apart`."""

    name: str
    kernels: Sequence[Function]
    original: Function
    blobs: Sequence[bytes]
    later: Later = field(default_factory=Later)
    """What the functions hold in place of what is known later."""
    ready: list[Callable[[], None]] = field(default_factory=list)
    """Waits for each function that is made in the background."""

    def function(self, end: str, source: str, held: Sequence[tuple[str, Plain]]) -> Function:
        others: Mapping[str, Callable[..., Any]] = {
            "kernel": self.kernels.__getitem__,
            "original": lambda: self.original,
            "op by op": lambda: OpByOp(self.name, self.original),
            "later": lambda: self.later,
            "tensor": self._tensor,
            "function": self.function,
            "made": self._made,
        }
        name = self.name + end
        namespace = {name: read(plain, others) for name, plain in held}
        exec(compile(source, listing.file_name(name), "exec"), namespace)
        made = namespace["graph"]
        assert isinstance(made, FunctionType)
        listing.keep(made, source)
        made.__qualname__ = made.__name__ = name
        calls_kernels(made, self.kernels)
        return made

    def _made(self, maker: Plain, arguments: Plain) -> Function:
        made: Function = read(maker, {})(*read(arguments, {}))
        if hasattr(made, "ready"):
            self.ready.append(made.ready)
        return made

    def _tensor(self, dtype: Plain, size: list[int], at: int) -> torch.Tensor:
        made = torch.empty(size, dtype=read(dtype, {}), device="cpu")
        if made.numel():
            data = torch.frombuffer(bytearray(self.blobs[at]), dtype=made.dtype)
            made.copy_(data.reshape(size))
        return made


MOST_ELEMENTS = 4096
_DTYPES = frozenset(
    {torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool}
    | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
)
