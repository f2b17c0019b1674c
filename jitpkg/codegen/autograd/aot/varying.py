"""Graphs whose sizes vary, for AOTAutograd: compiled for symbolic sizes, or else for each size.

What AOTAutograd relies on about the symbols becomes a test of the inputs. Where that fails, and
where it cannot do with symbols, the graph is compiled again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from jitpkg import forks
from jitpkg.codegen.graph.fallback import as_traced
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.sizes.specialise import (
    MOST,
    is_operand,
    is_symbol,
    key_of,
    made_in_a_call,
    of_some,
    with_numbers,
)
from jitpkg.dataclass import dataclass
from jitpkg.facts import fake
from jitpkg.interrupts import from_outside
from jitpkg.marks import Dims

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Compilation:
    holds: Callable[..., bool]
    function: Function


class Varying:
    """The compilations of one graph.

    Args:
        dims: for each input the dims in which it varies; None for a number.
        compile_: compiles a graph of tensors and ints for example inputs and what stands for them.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        dims: Sequence[Dims | None],
        compile_: Callable[[fx.GraphModule, list[Any], fake.Fakes], Function],
    ) -> None:
        self._gm = gm
        self._dims = dims
        self._compile = compile_
        self._as_symbols = True
        self._made: tuple[_Compilation, ...] = ()
        self._failed = False
        self._as_it_is = straight_line(type(gm).__name__, as_traced(gm).graph)

    def compiled(self, examples: Sequence[Any]) -> Function:
        """A function of the graph's inputs, compiled for the example inputs already."""
        self._made = (self._compilation(examples),)
        return self._run

    def _run(self, *inputs: Any) -> Any:
        for made in self._made:
            if made.holds(inputs):
                return made.function(*inputs)
        if len(self._made) >= MOST or self._failed or not forks.may_compile():
            return self._as_it_is(*inputs)
        found = made_in_a_call(lambda: self._compilation(inputs))
        if found is None:
            self._failed = True
            return self._as_it_is(*inputs)
        self._made = (found, *self._made)
        return found.function(*inputs)

    def _compilation(self, inputs: Sequence[Any]) -> _Compilation:
        if self._as_symbols:
            try:
                return self._symbolic(inputs)
            except Exception as error:  # whatever it is that torch cannot do with symbols
                if from_outside(error):
                    raise
                self._as_symbols = False
        return self._of_sizes(inputs)

    def _symbolic(self, inputs: Sequence[Any]) -> _Compilation:
        kept = [k for k, value in enumerate(inputs) if is_operand(value)]
        examples = [inputs[k] for k in kept]
        gm = with_numbers(self._gm, inputs, kept)
        fakes = fake.varying(examples, [self._dims[k] for k in kept])
        function = self._compile(gm, examples, fakes)
        test = fakes.test()
        fixed = [(k, key_of(value)) for k, value in enumerate(inputs) if k not in kept]
        ints = [k for k in kept if self._dims[k] is None]

        def holds(inputs: Sequence[Any]) -> bool:
            return (
                all(key_of(inputs[k]) == key for k, key in fixed)
                and all(is_symbol(inputs[k]) for k in ints)
                and test(*[inputs[k] for k in kept])
            )

        return _Compilation(holds, of_some(function, kept, len(inputs)))

    def _of_sizes(self, inputs: Sequence[Any]) -> _Compilation:
        kept = [k for k, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        examples = [inputs[k] for k in kept]
        key = tuple(map(key_of, inputs))
        gm = with_numbers(self._gm, inputs, kept)
        function = self._compile(gm, examples, fake.fakes(examples))
        return _Compilation(
            lambda inputs: tuple(map(key_of, inputs)) == key,
            of_some(function, kept, len(inputs)),
        )
