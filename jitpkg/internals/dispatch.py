"""Seeing the ATen ops that torch runs: torch-dispatch modes, and FakeTensor, which is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch

from jitpkg.internals.row import Row

See = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]
"""What is called in place of an op, with its arguments."""

MODE = Row[type[Any]](
    "torch.utils._python_dispatch.TorchDispatchMode",
    use="seeing which ATen ops a call comes to",
    lost="nothing is known of what ops return: each breaks the graph",
)


NO_MODES = Row[Callable[[], AbstractContextManager[object]]](
    "torch.utils._python_dispatch._disable_current_modes",
    use="making real tensors while a graph is compiled",
    lost="max-autotune measures nothing; gelu of infinity may not be as oneDNN has it",
)


def _nothing() -> Callable[[], AbstractContextManager[object]]:
    return nullcontext


PYTHON = Row[Callable[[], AbstractContextManager[object]]](
    "torch._dispatch.python.enable_python_dispatcher",
    use="asking what products of batches return whose sizes vary, in PyTorch 2.11",
    lost="there they are compiled for each size",
    instead=_nothing,
)


WRAPPER = Row[Callable[..., Any]](
    "torch.Tensor._make_wrapper_subclass",
    use="asking what autocast casts, and what a __torch_dispatch__ is asked, without data",
    lost="graphs under autocast are compiled by AOTAutograd, which takes longer; subclasses of"
    " tensors that wrap others break the graph",
)


def without_data(like: Any, device: str, requires_grad: bool) -> Any:
    """A leaf on a device, laid out like another tensor; its ops are for modes to answer."""
    return WRAPPER.get()(
        _empty_type(),
        like.shape,
        strides=like.stride(),
        storage_offset=like.storage_offset(),
        dtype=like.dtype,
        device=device,
        requires_grad=requires_grad,
    )


@cache
def _empty_type() -> type[Any]:
    def refuse(cls: Any, func: Any, *_: Any) -> Any:
        raise NotImplementedError(f"{func} of a tensor without data")

    without_functions = torch.nn.Parameter.__torch_function__  # as it is
    methods = {"__torch_function__": without_functions, "__torch_dispatch__": classmethod(refuse)}
    return type("Empty", (torch.Tensor,), methods)


def mode(see: See) -> AbstractContextManager[object]:
    """A context in which `see` is called in place of each ATen op."""
    made: AbstractContextManager[object] = _mode_type()(see)
    return made


@cache
def _mode_type() -> type[Any]:
    class Mode(MODE.get()):  # type: ignore[misc]
        def __init__(self, see: See) -> None:
            super().__init__()
            self._see = see

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """Otherwise torch imports its compiler, to keep it from tracing what follows."""
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            try:
                return self._see(func, args, kwargs or {})
            except TypeError as error:  # operators take it for NotImplemented: `+=` would be `+`
                raise RuntimeError(f"TypeError: {error}") from error

    return Mode
