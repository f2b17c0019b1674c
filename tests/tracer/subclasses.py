"""Classes of tensors, as programs and libraries write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

aten = torch.ops.aten


class Plain(torch.Tensor):
    """Adds nothing."""


TOLD: list[Any] = []
"""What instances of `Noted` have been told."""


class Noted(torch.Tensor):
    """Writes down what it is told."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        TOLD.append((func.__name__, [each.__name__ for each in types], len(args)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Deeper(Noted):
    """Derives from one that listens."""


class Other(torch.Tensor):
    """Has nothing to do with the others: torch's own way refuses a call with both."""


class Swapped(torch.Tensor):
    """Sine for cosine, and the other way round; from anything else, plain tensors."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = pytree.tree_map_only(cls, lambda t: t.as_subclass(torch.Tensor), args)
        if func in (torch.sin, torch.Tensor.sin):
            return torch.cos(*plain, **(kwargs or {}))
        if func in (torch.cos, torch.Tensor.cos):
            return torch.sin(*plain, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*plain, **(kwargs or {}))


class Labelled(torch.Tensor):
    """Hands its label on to what is made of it, as images with a colour space do."""

    label: str

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        labels = [getattr(each, "label", "?") for each in args if isinstance(each, Labelled)]
        if isinstance(result, Labelled) and labels:
            result.label = "+".join(labels)
        return result

    def shout(self) -> str:
        return self.label.upper()

    @property
    def area(self) -> int:
        return self.shape[-1] * self.shape[-2]


class Detached(torch.Tensor):
    """Made without the history of what it is made of, and with a name."""

    title: str

    @staticmethod
    def __new__(cls: type[Detached], data: torch.Tensor, title: str = "x") -> Any:
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data: torch.Tensor, title: str = "x") -> None:
        self.title = title


class Rude(torch.Tensor):
    """Leaves every call to others."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


class Weight(nn.Parameter):
    """A parameter with a name of its own, a plain one otherwise."""


def _unwrapped(tree: Any) -> Any:
    return pytree.tree_map_only(Scaled, Scaled.dequantized, tree)


class Scaled(torch.Tensor):
    """Small integers and a scale, as libraries for quantisation have it."""

    data_: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls: type[Scaled], data: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, data.shape, dtype=scale.dtype, device=data.device
        )

    def __init__(self, data: torch.Tensor, scale: torch.Tensor) -> None:
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self) -> Any:
        return ["data_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, meta: Any, size: Any, stride: Any) -> Any:
        return cls(inner["data_"], inner["scale"])

    @classmethod
    def of(cls, x: torch.Tensor) -> Scaled:
        """Rounded to integers, a scale for each row."""
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-3) / 7
        return cls((x / scale).round().to(torch.int8), scale)

    def dequantized(self) -> torch.Tensor:
        return self.data_.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (aten.detach.default, aten.clone.default, aten.alias.default):
            (of,) = args
            return cls(func(of.data_), func(of.scale))
        if func is aten.mul.Tensor and isinstance(args[1], float):
            return cls(args[0].data_, args[0].scale * args[1])
        return func(*_unwrapped(args), **_unwrapped(kwargs))


class Told(Scaled):
    """The same, and asks itself what to do with a linear layer."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.functional.linear:
            x, weight, *bias = args
            y = x @ weight.dequantized().t()
            return y + bias[0] if bias and bias[0] is not None else y
        return super().__torch_function__(func, types, args, kwargs or {})


KINDS: tuple[type[torch.Tensor], ...] = (
    *(Plain, Noted, Deeper, Swapped, Labelled, Weight, Scaled, Told),
)


def made(cls: type[torch.Tensor], x: torch.Tensor, label: str = "a") -> Any:
    """A tensor of a class."""
    if issubclass(cls, Scaled):
        return cls.of(x)
    if issubclass(cls, nn.Parameter):
        return cls(x.detach().clone(), requires_grad=False)
    result = x.as_subclass(cls)
    if isinstance(result, Labelled):
        result.label = label
    return result
