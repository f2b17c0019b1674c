"""Graphs whose sizes vary, for AOTAutograd: compiled for symbolic sizes, or else for each size.

What AOTAutograd relies on about the symbols becomes a test of the inputs. Where that fails, and
where it cannot do with symbols, the graph is compiled again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from jitpkg.codegen.straight_line import straight_line
from jitpkg.facts import fake

Function = Callable[..., Any]

MOST = 8
"""There are so many compilations of a graph; for other sizes it runs as it is."""


@dataclass(frozen=True, slots=True)
class _Compilation:
    holds: Callable[..., bool]
    function: Function


class Varying:
    """The compilations of one graph.

    Args:
        dims: for each input the dims that vary; None for a number.
        compile_: compiles a graph of tensors and ints for example inputs and what stands for them.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        dims: Sequence[frozenset[int] | None],
        compile_: Callable[[fx.GraphModule, list[Any], fake.Fakes], Function],
        *,
        as_symbols: bool = True,
    ) -> None:
        self._gm = gm
        self._dims = dims
        self._compile = compile_
        self._as_symbols = as_symbols
        self._made: tuple[_Compilation, ...] = ()
        self._failed = False
        self._as_it_is = straight_line(type(gm).__name__, gm.graph)

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""
        self._made = (self._compilation(examples),)
        return self._run

    def _run(self, *inputs: Any) -> Any:
        for made in self._made:
            if made.holds(inputs):
                return made.function(*inputs)
        if len(self._made) >= MOST or self._failed:
            return self._as_it_is(*inputs)
        try:
            made = self._compilation(inputs)
        except Exception:  # the backend can do with other sizes
            self._failed = True
            return self._as_it_is(*inputs)
        self._made = (made, *self._made)
        return made.function(*inputs)

    def _compilation(self, inputs: Sequence[Any]) -> _Compilation:
        if self._as_symbols:
            try:
                return self._symbolic(inputs)
            except Exception:  # whatever it is that torch cannot do with symbols
                self._as_symbols = False
        return self._of_sizes(inputs)

    def _symbolic(self, inputs: Sequence[Any]) -> _Compilation:
        kept = [k for k, value in enumerate(inputs) if _may_be_symbol(value)]
        examples = [inputs[k] for k in kept]
        gm = with_numbers(self._gm, inputs, kept)
        fakes = fake.varying(examples, [self._dims[k] for k in kept])
        function = self._compile(gm, examples, fakes)
        test = fakes.test()
        fixed = [(k, _key(value)) for k, value in enumerate(inputs) if k not in kept]
        ints = [k for k in kept if self._dims[k] is None]

        def holds(inputs: Sequence[Any]) -> bool:
            return (
                all(_key(inputs[k]) == key for k, key in fixed)
                and all(_may_be_symbol(inputs[k]) for k in ints)
                and test(*[inputs[k] for k in kept])
            )

        return _Compilation(holds, _of_some(function, kept, len(inputs)))

    def _of_sizes(self, inputs: Sequence[Any]) -> _Compilation:
        kept = [k for k, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        examples = [inputs[k] for k in kept]
        key = tuple(map(_key, inputs))
        gm = with_numbers(self._gm, inputs, kept)
        function = self._compile(gm, examples, fake.fakes(examples))
        return _Compilation(
            lambda inputs: tuple(map(_key, inputs)) == key,
            _of_some(function, kept, len(inputs)),
        )


def _of_some(function: Function, kept: Sequence[int], count: int) -> Function:
    if len(kept) == count:
        return function
    return lambda *inputs: function(*[inputs[k] for k in kept])


def _may_be_symbol(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (type(value) is int and abs(value) < _LARGE)


_LARGE = 2**31
"""Kernels compute with ints of 64 bits: products of smaller ones do not overflow."""


def _key(value: Any) -> tuple[Any, ...]:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride()
    return type(value), repr(value)


_ARITHMETIC = frozenset(
    {operator.add, operator.mul, operator.floordiv, operator.mod, torch.sym_min, torch.sym_max}
)


def with_numbers(gm: fx.GraphModule, inputs: Sequence[Any], kept: Sequence[int]) -> fx.GraphModule:
    """The graph with numbers in place of the inputs that are not kept, and of what they give."""
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    position = 0
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            position += 1
            if position - 1 not in kept:
                known[node] = inputs[position - 1]
                continue
        is_number = not any(isinstance(known[n], fx.Node) for n in node.all_input_nodes)
        if node.op == "call_function" and node.target in _ARITHMETIC and is_number:
            known[node] = node.target(*fx.map_arg(node.args, known.__getitem__))
            continue
        known[node] = graph.node_copy(node, lambda n: known[n])
    return fx.GraphModule(torch.nn.Module(), graph, class_name=type(gm).__name__)
