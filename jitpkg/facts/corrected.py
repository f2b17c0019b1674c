"""FakeTensor, with the dtypes that it gets wrong put right.

On the CPU the norms keep the statistics of a bfloat16 or float16 input in the dtype of their
parameters, where FakeTensor takes that of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from jitpkg.internals import fake_tensors

_NARROW = (torch.bfloat16, torch.float16)

Dtypes = tuple[torch.dtype, ...]


def _norm(args: Sequence[Any], parameters: Sequence[Any]) -> Dtypes:
    x = args[0]
    known = [t.dtype for t in parameters if isinstance(t, torch.Tensor)]
    kept = torch.float32 if torch.float32 in known else x.dtype
    return x.dtype, kept, kept


def _layer_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[2:4])


def _group_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[1:3])


def _batch_norm(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[1:5])


def _functional_batch_norm(args: Sequence[Any]) -> Dtypes:
    return (*_batch_norm(args), args[3].dtype, args[4].dtype)


def _batch_norm_backward(args: Sequence[Any]) -> Dtypes:
    return _norm(args, args[2:7])


def _group_norm_backward(args: Sequence[Any]) -> Dtypes:
    weight = args[4]
    kept = args[1].dtype if weight is None else weight.dtype
    return args[1].dtype, kept, kept


_DTYPES: Mapping[str, Callable[[Sequence[Any]], Dtypes]] = MappingProxyType(
    {
        "aten::native_layer_norm": _layer_norm,
        "aten::native_group_norm": _group_norm,
        "aten::native_group_norm_backward": _group_norm_backward,
        "aten::native_batch_norm": _batch_norm,
        "aten::native_batch_norm_backward": _batch_norm_backward,
        "aten::_native_batch_norm_legit": _batch_norm,
        "aten::_native_batch_norm_legit.no_stats": lambda args: _norm(args, args[1:3]),
        "aten::_native_batch_norm_legit_no_training": _batch_norm,
        "aten::_native_batch_norm_legit_functional": _functional_batch_norm,
    }
)
"""The dtypes of the results, for a narrow input on the CPU; compared with the ops by the tests."""


def corrected_mode(**settings: Any) -> Any:
    """A mode of FakeTensor that is right.

    Raises:
        Missing: there is no FakeTensor.
    """
    return fake_tensors.mode(_corrected, **settings)


def _corrected(func: Any, args: Sequence[Any], made: Any) -> Any:
    dtypes = _DTYPES.get(func.name())
    if dtypes is None or args[0].dtype not in _NARROW or args[0].device.type != "cpu":
        return made
    return tuple(
        t if t is None or t.dtype is dtype else torch.empty_like(t, dtype=dtype)
        for t, dtype in zip(made, dtypes(args), strict=True)
    )
