"""FakeTensor, and torch's own symbolic integers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from jitpkg.internals.row import Row
from jitpkg.internals.versions import has

_NO_FACTS = "ops without a row of facts break the graph, and graphs that are trained run op by op"
_NO_SYMBOLS = "graphs of varying sizes that go through AOTAutograd are compiled for each size"

Correct = Callable[[Any, Sequence[Any], Mapping[str, Any], Any], Any]
"""Given an op, its arguments by position and by name, and what FakeTensor says that it returns:
what it does return."""

MODE = Row[type[Any]](
    "torch._subclasses.fake_tensor.FakeTensorMode",
    use="asking what an op returns, and compiling graphs that are trained",
    lost=_NO_FACTS,
)
_WHY = "telling why FakeTensor has no answer"
_OTHER = "a graph break is given another reason"
DATA_DEPENDENT = Row[type[Exception]](
    "torch._subclasses.fake_tensor.DataDependentOutputException", use=_WHY, lost=_OTHER
)
DYNAMIC_SHAPE = Row[type[Exception]](
    "torch._subclasses.fake_tensor.DynamicOutputShapeException", use=_WHY, lost=_OTHER
)
UNSUPPORTED = Row[type[Exception]](
    "torch._subclasses.fake_tensor.UnsupportedOperatorException", use=_WHY, lost=_OTHER
)

LOGGER = "torch._subclasses.fake_tensor"
"""Where it logs what it raises."""


def mode(correct: Correct, **settings: Any) -> Any:
    """A mode of FakeTensor, whose answers pass through `correct`."""
    return _mode_type(correct)(**settings)


@cache
def _mode_type(correct: Correct) -> type[Any]:
    class CorrectedMode(MODE.get()):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
        ) -> Any:
            made = super().__torch_dispatch__(func, types, args, kwargs)
            return correct(func, args, kwargs or {}, made)

    return _for_threads(CorrectedMode) if has(None, "2.12") else CorrectedMode


def _for_threads(base: type[Any]) -> type[Any]:
    """Without the stand-in for CUDA that a mode leaves where there is none. Up to PyTorch
    2.12 it dies with the thread that made it, and the next mode crashes, in whatever thread."""

    class Mode(base):  # type: ignore[misc]
        @property
        def avoid_device_init(self) -> bool:
            is_main = threading.get_ident() == threading.main_thread().ident
            return is_main and bool(super().avoid_device_init)

    return Mode


# Symbolic integers


SHAPE_ENV = Row[type[Any]](
    "torch.fx.experimental.symbolic_shapes.ShapeEnv",
    use="compiling graphs for AOTAutograd",
    lost=_NO_FACTS,
)
DIM_DYNAMIC = Row[Any](
    "torch.fx.experimental.symbolic_shapes.DimDynamic",
    use="naming sizes that vary",
    lost=_NO_SYMBOLS,
)
SYMBOLIC_CONTEXT = Row[Callable[..., Any]](
    "torch.fx.experimental.symbolic_shapes.StatelessSymbolicContext",
    use="naming sizes that vary",
    lost=_NO_SYMBOLS,
)
GUARD_NAMES = Row[dict[str, Any]](
    "torch.fx.experimental.symbolic_shapes.SYMPY_INTERP",
    use="testing what torch relies on of sizes that vary",
    lost=_NO_SYMBOLS,
)
SOURCE = Row[type[Any]]("torch._guards.Source", use="naming sizes that vary", lost=_NO_SYMBOLS)


def named(name: str) -> Any:
    """Where torch is to believe that a symbol comes from."""
    return _named_type()(name)


@cache
def _named_type() -> type[Any]:
    class Named(SOURCE.get()):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            super().__init__()
            self._text = name

        @property
        def _name_template(self) -> str:
            return self._text

    return Named
