"""A graph whose sizes vary, compiled anew for each set of sizes that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from jitpkg import forks
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.sizes.specialise import MOST, key_of, made_in_a_call, of_some, with_numbers

Function = Callable[..., Any]


class BySize:
    """The compilations of one graph, by sizes, strides and numbers among the inputs.

    Args:
        compile_: compiles a graph of tensors of such sizes, as a backend does.
    """

    def __init__(
        self, gm: fx.GraphModule, compile_: Callable[[fx.GraphModule, list[Any]], Function]
    ) -> None:
        self._gm = gm
        self._compile = compile_
        self._made: Mapping[tuple[Any, ...], Function] = MappingProxyType({})
        self._as_it_is = straight_line(type(gm).__name__, gm.graph)

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""
        self._add(tuple(map(key_of, examples)), examples)
        return self.run

    def run(self, *inputs: Any) -> Any:
        """Run the graph, compiled for such inputs."""
        key = tuple(map(key_of, inputs))
        function = self._made.get(key)
        if function is None:
            if len(self._made) >= MOST or not forks.may_compile():
                return self._as_it_is(*inputs)
            made = made_in_a_call(lambda: self._add(key, inputs))
            function = made or self._keep(key, self._as_it_is)
        return function(*inputs)

    def _add(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> Function:
        kept = [k for k, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        gm = with_numbers(self._gm, inputs, kept)
        function = of_some(self._compile(gm, [inputs[k] for k in kept]), kept, len(inputs))
        return self._keep(key, function)

    def _keep(self, key: tuple[Any, ...], function: Function) -> Function:
        self._made = MappingProxyType({**self._made, key: function})
        return function
