"""A graph whose sizes vary, compiled for symbols in place of them.

What has been relied on about the symbols becomes a test of the inputs. For inputs that no
compilation is for, the graph is compiled again; and where symbols do not do, for numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from torch import fx

from jitpkg import forks
from jitpkg.codegen.sizes.specialise import MOST, is_operand, made_in_a_call
from jitpkg.codegen.sizes.symbols import Find, Symbols
from jitpkg.interrupts import uninterrupted
from jitpkg.marks import Dims

Function = Callable[..., Any]


class Compilations(Protocol):
    """Other compilations of a graph."""

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""

    def run(self, *inputs: Any) -> Any:
        """Run the graph, compiled for such inputs."""


class OneMore:
    """One that is made when it is needed.

    Args:
        compile_: compiles the graph for such inputs, and for others.
    """

    def __init__(
        self, gm: fx.GraphModule, compile_: Callable[[fx.GraphModule, list[Any]], Function]
    ) -> None:
        self._gm = gm
        self._compile = compile_
        self._function: Function | None = None

    def compiled(self, examples: Sequence[Any]) -> Function:
        self._function = self._compile(self._gm, list(examples))
        return self._function

    def run(self, *inputs: Any) -> Any:
        function = self._function
        if function is None:
            function = self._gm.forward
            if forks.may_compile():
                function = made_in_a_call(lambda: self.compiled(inputs)) or function
            self._function = function
        return function(*inputs)


class BySymbols:
    """The compilations of one graph.

    Args:
        dims: for each input the dims in which it varies; None for a number.
        compile_: compiles a graph to a function of its inputs and the symbols; None where it cannot
            be done with symbols.
        others: other inputs take them when there are `MOST` for symbols.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        dims: Sequence[Dims | None],
        compile_: Callable[[fx.GraphModule, list[Any], Symbols], Function | None],
        others: Compilations,
    ) -> None:
        self._gm = gm
        self._dims = dims
        self._compile = compile_
        self._others = others
        self._made: tuple[tuple[Find, Function], ...] = ()
        self._can = True

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""
        if not self._add(examples):
            return self._others.compiled(examples)
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
        return self._others.run(*inputs)

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
