"""A recorder that acts on the CPU as CUDA does: what is recorded is not done, and a replay does the
same operations on the same memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

CPU = torch.device("cpu")


class _Log(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        made = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, made))
        return made

    def again(self) -> None:
        for func, args, kwargs, made in self.done:
            if func._schema.is_mutable:
                func(*args, **kwargs)
            elif not _is_view(func):
                new = func(*args, **kwargs)
                for old, each in zip(_listed(made), _listed(new), strict=True):
                    old.copy_(each)

    def forget_inputs(self) -> None:
        """Of memory that is not the recording's own there are addresses only, as in CUDA."""
        own = {
            each.untyped_storage()._cdata
            for func, _, _, made in self.done
            for each in _listed(made)
            if not _is_view(func) or func is torch.ops.aten.lift_fresh.default
        }

        def address(x: Any) -> Any:
            if not isinstance(x, torch.Tensor) or x.untyped_storage()._cdata in own:
                return x
            size = x.untyped_storage().nbytes()
            if size == 0:
                return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
            memory = (ctypes.c_char * size).from_address(x.untyped_storage().data_ptr())
            line = torch.frombuffer(memory, dtype=x.dtype)
            return line.as_strided(x.shape, x.stride(), x.storage_offset())

        self.done = [
            (func, *tree_map(address, (args, kwargs, made)))
            for func, args, kwargs, made in self.done
        ]

    def spoil(self) -> None:
        """Nothing has been computed yet."""
        for func, _, _, made in self.done:
            if not _is_view(func):
                for each in _listed(made):
                    each.fill_(-77)


def _is_view(func: Any) -> bool:
    return any(result.alias_info for result in func._schema.returns)


def _listed(made: Any) -> list[torch.Tensor]:
    return list(made) if isinstance(made, tuple | list) else [made]


class Fake:
    """Records operations on the CPU."""

    def __init__(self) -> None:
        self.device = CPU
        self.recorded = 0
        self.replayed = 0
        self.captures = False
        self.now = "stream 0"
        self.followed: list[tuple[Any, int]] = []

    def is_capturing(self) -> bool:
        return self.captures

    def stream(self) -> Any:
        return self.now

    def follow(self, stream: Any, used: Sequence[torch.Tensor]) -> None:
        self.followed.append((stream, len(used)))

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        self.recorded += 1
        state = torch.get_rng_state()
        with _Log() as log:
            made = run()
        torch.set_rng_state(state)
        log.spoil()
        log.forget_inputs()

        def replay() -> None:
            self.replayed += 1
            log.again()

        return replay, made
