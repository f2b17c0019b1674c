"""A graph whose sizes vary, compiled for symbols in place of them.

What has been relied on about the symbols becomes a test of the inputs. For inputs that no
compilation is for, the graph is compiled again; and where symbols do not do, for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from jitpkg.codegen.aten.by_size import BySize
from jitpkg.codegen.aten.symbols import Find, Symbols
from jitpkg.codegen.numbers import MOST, is_operand
from jitpkg.interrupts import uninterrupted
from jitpkg.marks import Dims

Function = Callable[..., Any]


class BySymbols:
    """The compilations of one graph.

    Args:
        dims: for each input the dims in which it varies; None for a number.
        compile_: compiles a graph to a function of its inputs and the symbols; None where it cannot
            be done with symbols.
        by_size: the compilations for numbers: other inputs take them when there are `MOST` for
            symbols.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        dims: Sequence[Dims | None],
        compile_: Callable[[fx.GraphModule, list[Any], Symbols], Function | None],
        by_size: BySize,
    ) -> None:
        self._gm = gm
        self._dims = dims
        self._compile = compile_
        self._by_size = by_size
        self._made: tuple[tuple[Find, Function], ...] = ()
        self._can = True

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""
        if not self._add(examples):
            return self._by_size.compiled(examples)
        return self._run

    def _run(self, *inputs: Any) -> Any:
        for find, function in self._made:
            sizes = find(*inputs)
            if sizes is not None:
                return function(*inputs, *sizes)
        if self._can and len(self._made) < MOST and uninterrupted(lambda: self._add(inputs)):
            find, function = self._made[-1]
            sizes = find(*inputs)
            if sizes is not None:
                return function(*inputs, *sizes)
        return self._by_size.run(*inputs)

    def _add(self, inputs: Sequence[Any]) -> bool:
        """Compile for such inputs; whether that can be done."""
        if not all(map(is_operand, inputs)):
            return False
        names = [node.name for node in self._gm.graph.nodes]
        symbols = Symbols(inputs, self._dims, names)
        function = self._compile(self._gm, list(inputs), symbols) if symbols.names else None
        if function is None:
            self._can = self._can and not symbols.names
            return False
        self._made = (*self._made, (symbols.find(type(self._gm).__name__), function))
        return True
