"""The Python function of a prepared graph: runs it, makes the views, and writes at the very end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import fx
from torch.autograd.graph import increment_version

from jitpkg import listing
from jitpkg.attempts import OpByOp, words
from jitpkg.codegen.aten.prepared import (
    Constant,
    Input,
    Prepared,
    Result,
    Same,
    Value,
    ViewOf,
    Write,
)
from jitpkg.codegen.aten.views import View
from jitpkg.codegen.graph.python import straight_line
from jitpkg.codegen.ir.extents import SYMBOL, Symbolic, text_of, varies
from jitpkg.dataclass import dataclass
from jitpkg.internals import modes, tensors
from jitpkg.internals.ops import op_name, overload_name
from jitpkg.interrupts import from_outside

Function = Callable[..., Any]
Chain = tuple[str | bool | int | None, ...]
"""Views of one tensor, one of the other: its name, a grad mode, and which these are."""


@dataclass(eq=False, slots=True)
class Later:
    """What runs a graph, for a function that is made before it is known, or kept without it."""

    run: Function | None = None


def op_by_op(prepared: Prepared) -> Function:
    """Run the ATen graph as it is."""
    return runtime(prepared, straight_line(f"{prepared.name}.aten", prepared.graph))


def runtime(
    prepared: Prepared, run: Function | Later, in_place: Sequence[fx.Node] = ()
) -> Function:
    """A function of the original graph's inputs that does what it does, also if an op fails.

    Args:
        run: given the inputs, returns the values that the prepared graph returns.
        in_place: the values that it has written to inputs already, as `compile_graph` has it.
    """
    returned = tuple(Value(k) for k in range(len(prepared.values)))
    plain = not prepared.writes and prepared.results == returned
    switches = prepared.without_grad or prepared.grad_mode is not None
    if plain and not switches and not _is_random(prepared) and not isinstance(run, Later):
        return run
    return _Source(prepared, run, in_place).function()


def _is_random(prepared: Prepared) -> bool:
    return any("random" in node.meta for node in prepared.graph.nodes)


class _Source:
    def __init__(
        self, prepared: Prepared, run: Function | Later, in_place: Sequence[fx.Node] = ()
    ) -> None:
        self._prepared = prepared
        self._run = run
        values = prepared.values
        writes = {values[write.value]: write for write in prepared.writes} if in_place else {}
        self._done = [writes[value] for value in in_place]
        """The writes that are done by what runs the graph, the first one first."""
        self._held: dict[str, Any] = {}
        self._lines: list[str] = []
        self._views: dict[Chain, str] = {}
        placeholders = prepared.graph.find_nodes(op="placeholder")
        self._inputs = [
            node.name if SYMBOL in node.meta else f"x{k}" for k, node in enumerate(placeholders)
        ]
        self._symbols = sum(SYMBOL in node.meta for node in placeholders)

    def function(self) -> Function:
        prepared, inputs = self._prepared, ", ".join(self._inputs)
        if prepared.writes:
            self._check_memory(self._hold("original", prepared.original.forward))
        values = "".join(f"v{k}, " for k in range(len(prepared.values)))
        own = "later.run" if isinstance(self._run, Later) else "run"
        self._hold(own.partition(".")[0], self._run)
        call = f"{own}({inputs})"
        self._run_line(f"{values}= {call}" if values else call)
        returned = [self._result(k, result) for k, result in enumerate(prepared.results)]
        self._write_all()
        if prepared.grad_mode is not None:
            self._lines.append(f"{self._switch()}({prepared.grad_mode})")
        self._lines.append(f"return ({''.join(f'{name}, ' for name in returned)})")
        body = "\n".join(f"    {line}" for line in self._lines)
        parameters = ", ".join([*self._inputs, *(f"{name}={name}" for name in self._held)])
        source = f"def graph({parameters}):\n{body}\n"
        namespace = dict(self._held)
        exec(compile(source, listing.file_name(f"{prepared.name}.results"), "exec"), namespace)
        function: FunctionType = namespace["graph"]
        listing.keep(function, source)
        function.__qualname__ = function.__name__ = f"{prepared.name}.results"
        return function

    def _run_line(self, line: str) -> None:
        """Run the graph; if it fails nothing has happened, and the original runs."""
        again = OpByOp(self._prepared.name, self._prepared.original.forward)
        name, given = self._hold("again", again), self._given()
        self._lines.append(
            f"if {name}.attempts.given_up: return {name}.original({', '.join(given)})"
        )
        handlers = ["except Exception as error:"]
        if self._done:
            version = self._hold("version_of", version_of)
            first = self._inputs[self._done[0].input]
            self._lines.append(f"version = {version}({first})")
            handlers.append(f"    if {version}({first}) != version: raise")
        if _is_random(self._prepared):
            self._lines.append(f"state = {self._hold('get_rng_state', torch.get_rng_state)}()")
            handlers.append(f"    {self._hold('set_rng_state', torch.set_rng_state)}(state)")
        handlers.append(f"    if {self._hold('from_outside', from_outside)}(error): raise")
        handlers.append(f"    why = {self._hold('words', words)}(error)")
        if self._prepared.without_grad:
            switch = self._switch()
            line = f"{switch}(False); {line}"
            handlers.append(f"finally: {switch}(True)")
        self._lines += ["why = None", f"try: {line}", *handlers]
        self._lines.append(
            f"if why is not None: return {name}.run({', '.join(['why', *self._given()])})"
        )

    def _in_mode(self, mode: bool, lines: list[str]) -> list[str]:
        """The lines, where grad mode is otherwise the other one."""
        switch = self._switch()
        return [f"{switch}({mode})", f"try: {'; '.join(lines)}", f"finally: {switch}({not mode})"]

    def _switch(self) -> str:
        return self._hold("set_grad_enabled", modes.SET_GRAD_ENABLED.get())

    def _check_memory(self, original: str) -> None:
        """Inputs that are written to have their memory to themselves, or it runs as it was."""
        placeholders = self._prepared.graph.find_nodes(op="placeholder")
        with_elements = {
            name
            for name, node in zip(self._inputs, placeholders, strict=True)
            if "facts" in node.meta and 0 not in node.meta["facts"].size
        }
        changed = {self._inputs[write.input] for write in self._prepared.writes} & with_elements
        unchanged = with_elements - changed
        written = "".join(f"{n}, " for n in self._inputs if n in changed)
        others = "".join(f"{n}, " for n in self._inputs if n in unchanged)
        if not written or len(with_elements) == 1:
            return
        test = f"{self._hold('share', _share)}(({written}), ({others}))"
        self._lines.append(f"if {test}: return {original}({', '.join(self._given())})")

    def _given(self) -> list[str]:
        """The inputs that the original graph has, too."""
        return self._inputs[: len(self._inputs) - self._symbols]

    def _result(self, k: int, result: Result) -> str:
        match result:
            case Input(index):
                return self._inputs[index]
            case Value(index):
                return f"v{index}"
            case Same(index):
                return self._result(index, self._prepared.results[index])
            case Constant(value):
                return text_of(value) if varies(value) else self._hold(f"constant{k}", value)
            case ViewOf(base, views, grad_mode):
                return self._view_of(self._result(k, base), views, grad_mode)

    def _view_of(self, name: str, views: tuple[View, ...], grad_mode: bool | None) -> str:
        """The name of a view of a view and so on, each of which is taken once for all results:
        what is written to one of them is seen by the others, also by autograd."""
        made = []
        chain: Chain = (name, grad_mode)
        for view in views:
            chain = (*chain, id(view))
            if chain not in self._views:
                self._views[chain] = f"r{len(self._views)}"
                made.append(f"{self._views[chain]} = {self._view(view, name)}")
            name = self._views[chain]
        if made:
            self._lines += made if grad_mode is None else self._in_mode(grad_mode, made)
        return name

    def _view(self, view: View, name: str) -> str:
        packet = op_name(view.op).removeprefix("aten::")
        op = self._hold(f"{packet}_{overload_name(view.op)}", view.op)
        pieces = [name, *(self._argument(arg) for arg in view.args)]
        pieces.extend(f"{key}={self._argument(value)}" for key, value in view.kwargs.items())
        item = "" if view.item is None else f"[{view.item}]"
        return f"{op}({', '.join(pieces)}){item}"

    def _argument(self, value: Any) -> str:
        if isinstance(value, int | list | tuple | Symbolic | None):
            return repr(value)
        return self._hold(str(value).replace(".", "_"), value)

    def _write_all(self) -> None:
        before, self._lines = self._lines, []
        done = {write.value for write in self._done}
        for write in self._prepared.writes:
            if write.value not in done:
                self._write(write)
        written, self._lines = self._lines, before
        bumped = [
            self._inputs[write.input]
            for k, write in enumerate(self._done)
            for _ in range(write.bumps - (k == 0))
        ]
        if bumped:
            bump = self._hold("increment_version", increment_version)
            self._lines.append(f"{bump}(({', '.join(bumped)},))")
        without_grad = written and self._prepared.without_grad  # what is written may be an input
        self._lines += self._in_mode(False, written) if without_grad else written

    def _write(self, write: Write) -> None:
        name, value = self._inputs[write.input], f"v{write.value}"
        if not write.bumps:
            self._lines.append(f"{name}.data.copy_({value})")
            return
        target = name
        for view in write.views:
            target = self._view(view, target)
        self._lines.append(f"{target}.copy_({value})")
        for _ in range(write.bumps - 1):
            self._lines.append(f"{self._hold('increment_version', increment_version)}({name})")

    def _hold(self, name: str, value: object) -> str:
        self._held.setdefault(name, value)
        return name


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor has been written to."""
    return tensors.VERSION.get()(tensor)


def _share(written: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    address = tensors.STORAGE_ADDRESS.get()
    memories = {address(x.untyped_storage()) for x in written}
    if len(memories) < len(written):
        return True
    return not memories.isdisjoint([address(x.untyped_storage()) for x in others])
