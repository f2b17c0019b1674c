"""A prepared graph: the functional graph, and what makes of its values what eager code returns."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import fx

from jitpkg.codegen.aten.views import View
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Input:
    """An input itself."""

    index: int


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that the functional graph returns; no other value or input shares its memory."""

    index: int
    """Among the graph's outputs."""


@dataclass(frozen=True, slots=True)
class ViewOf:
    """A view, made by the ATen ops that eager code calls."""

    base: Input | Value
    views: tuple[View, ...]
    grad_mode: bool | None = None
    """In which grad mode it is taken, where that is another than when the graph is called."""


@dataclass(frozen=True, slots=True)
class Same:
    """The same object as another result."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is no tensor."""

    value: Any


Result = Input | Value | ViewOf | Same | Constant


@dataclass(frozen=True, slots=True)
class Write:
    """A new value of an input, which is copied to it when all else is done."""

    input: int
    views: tuple[View, ...]
    """Of the input, where only a part of it is written to."""
    value: int
    """Among the graph's outputs."""
    bumps: int
    """By how much the input's version grows; 0 for a write that leaves no trace."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph of ATen ops that write to nothing, and its results.

    `graph` has the placeholders of the original and returns a tuple. Each node is a call of an
    `OpOverload`, of `operator.getitem` on the results of one, or of a torch function as a whole;
    `node.meta["facts"]` are its result's `TensorFacts`, a tuple of them for several results, and
    `node.meta["random"]` is there where it draws from a random stream. A node that nothing uses is
    there because it draws random numbers, or raises for some data: it has to run.
    """

    name: str
    original: fx.GraphModule
    graph: fx.Graph
    results: tuple[Result, ...]
    writes: tuple[Write, ...]
    """In order."""
    without_grad: bool = False
    """Whether the graph runs with grad mode off, although it is called with grad mode on."""
    grad_mode: bool | None = None
    """What grad mode is afterwards, where that is not what it was."""

    @property
    def values(self) -> tuple[fx.Node, ...]:
        """The nodes whose values the graph returns."""
        (output,) = self.graph.find_nodes(op="output")
        returned: tuple[fx.Node, ...] = output.args[0]
        return returned

    def into(self) -> dict[fx.Node, fx.Node]:
        """For values that are nothing but what an input is changed to, its placeholder.

        What two inputs are changed to, or is returned besides, needs memory of its own. Tensors of
        inference mode do not count what is written to them.
        """
        placeholders = self.graph.find_nodes(op="placeholder")
        values, shown = self.values, self._shown()
        times = Counter(values)
        whole = [write for write in self.writes if not write.views and write.bumps]
        return {
            values[write.value]: placeholders[write.input]
            for write in whole
            if times[values[write.value]] == 1
            and Value(write.value) not in shown
            and not placeholders[write.input].meta["facts"].is_inference
        }

    def _shown(self) -> set[Result]:
        """The values and inputs that results are, or views of which they are."""
        bases = (each.base if isinstance(each, ViewOf) else each for each in self.results)
        return {base for base in bases if isinstance(base, Value | Input)}

    @property
    def is_whole(self) -> bool:
        """Whether its values are the graph's results, in order, and nothing is written to."""
        values = tuple(map(Value, range(len(self.values))))
        return self.results == values and not self.writes
