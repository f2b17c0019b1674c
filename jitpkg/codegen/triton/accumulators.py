"""Folds and running folds that are under way: the names that hold what they have come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import torch

from jitpkg.codegen.fusion.kernel import Loop, Tile
from jitpkg.codegen.fusion.online import Distances, Pair, Powers
from jitpkg.codegen.fusion.statements import carriers, is_at_once
from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.nodes import Node, Reduce, Scan
from jitpkg.codegen.triton import folds
from jitpkg.codegen.triton.dims import Dim
from jitpkg.codegen.triton.frame import Frame, Value
from jitpkg.codegen.triton.scalar_ops import cast
from jitpkg.codegen.triton.values import full
from jitpkg.dataclass import dataclass


@dataclass(eq=False, slots=True)
class _Fold:
    names: list[str]
    """Of what it has come to, and for `argmax` of where that was."""
    dims: frozenset[str]
    dim: Dim | None
    """That is folded at last."""
    begun: bool
    """Whether the names have values."""
    pair: Pair | None = None
    """With a second fold that goes on with it."""
    state: list[str] = field(default_factory=list)
    """Names of what that needs besides."""


class Accumulators:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._folds: dict[Reduce, _Fold] = {}
        self._carries: dict[Scan, str] = {}

    def begin(self, fold: Reduce, loop: Loop) -> None:
        """The fold's first loop begins."""
        frame, op, dtype = self.frame, fold.op, fold.value.dtype
        kinds = [each.kind for each in carriers(loop, fold)]
        dim = next((frame.inside[kind.dim] for kind in kinds if isinstance(kind, Tile)), None)
        dims = frame.dims_of(fold.axes).union(() if dim is None else (dim.letter,))
        at_once = is_at_once(loop, fold)
        names = [frame.fresh(f"{op}_so_far")]
        if ops.REDUCTIONS[op].combine is None:
            names.append(frame.fresh("place"))
        found = self._folds[fold] = _Fold(names, dims, dim, begun=not at_once)
        if at_once:
            return
        active = frame.active if dim is None else {**frame.active, dim.letter: dim}
        shape, kind = frame.shape(dims, active), folds.typed(op, dtype)
        frame.line(f"{names[0]} = tl.full({shape}, {folds.start(op, dtype)}, {kind})")
        for name in names[1:]:
            frame.line(f"{name} = tl.full({shape}, {folds.LAST[frame.index]}, {frame.index})")
        found.pair = next((pair for pair in loop.pairs if pair.first is fold), None)
        counted = () if dim is None or frame.is_whole(dim) else (dim.letter,)
        for base in _state(found.pair):
            own = shape if base != "count" else frame.shape(counted, active)
            found.state.append(frame.named(base, f"tl.full({own}, 0.0, {kind})"))

    def step(self, fold: Reduce) -> None:
        """One iteration of the fold's innermost loop."""
        frame, found = self.frame, self._folds[fold]
        op, dtype = fold.op, fold.value.dtype
        value = self._held(fold.value, op, found.dims)
        inside = frame.masked.get(found.dim) if found.dim is not None else None
        if inside is not None:
            value = f"tl.where({inside}, {value}, {folds.start(op, dtype)})"
        new = [value]
        if len(found.names) > 1:
            new.append(frame.spread(frame.of(fold.over[0]), found.dims))
        if not found.begun:
            for name, text in zip(found.names, new, strict=True):
                frame.line(f"{name} = {text}")
            found.begun = True
            return
        every = ", ".join([*found.names, *found.state])
        match op, found.pair:
            case "argmax" | "argmin", _:
                better = "more" if op == "argmax" else "less"
                frame.line(f"{every} = jl.{better}({every}, {', '.join(new)})")
            case _, Powers():
                frame.line(f"{every} = jl.{folds.sized('powers', dtype)}({every}, {value})")
            case _, pair:
                (name,) = found.names
                if isinstance(pair, Distances):
                    value = self._with_distances(found, value, inside)
                frame.line(f"{name} = {folds.step(op, dtype, name, value)}")

    def _with_distances(self, found: _Fold, value: str, inside: str | None) -> str:
        """The value, with which a sum of squared distances has gone on."""
        value, state = self.frame.named("t", value), ", ".join(found.state)
        if inside is not None:
            self.frame.line(f"{state} = jl.distances({state}, {value}, {inside})")
        else:
            self.frame.line(f"{state} = jl.distances_of_all({state}, {value})")
        return value

    def finish(self, fold: Reduce) -> None:
        """Behind the fold's last iteration."""
        found = self._folds[fold]
        self.frame.define(fold, self._whole(fold, found.names, found))

    def second(self, pair: Pair) -> None:
        """A fold that has gone on with another one: its result."""
        frame, found = self.frame, self._folds[pair.first]
        match pair:
            case Powers():
                given = [*found.names, *found.state, frame.of(pair.shift).text]
                text = f"jl.sum_of_powers({', '.join(given)})"
            case Distances():
                given = [*found.state, frame.of(pair.mean).text]
                text = f"jl.sum_of_distances({', '.join(given)})"
        name = frame.named("parts", text)
        frame.define(pair.second, self._whole(pair.second, [name], found))

    def _held(self, node: Node, op: str, dims: frozenset[str]) -> str:
        """A value as folds hold it, as a tile of these dims."""
        text = cast(full(self.frame, node), node.dtype, folds.held(op, node.dtype))
        return self.frame.spread(Value(text, self.frame.of(node).dims), dims)

    def _whole(self, fold: Reduce, names: Sequence[str], found: _Fold) -> Value:
        """What all of the tile is together."""
        dim, dims, op, dtype = found.dim, found.dims, fold.op, fold.value.dtype
        name = names[-1]
        if dim is not None:
            text = folds.across(self.frame, op, dtype, names, dims, dim)
            name, dims = self.frame.named(f"the_{op}", text), dims - {dim.letter}
        if fold.dtype is torch.bool and folds.held(op, torch.bool) is not torch.bool:
            name = f"({name} != 0)"
        return Value(name, dims)

    # Running folds

    def carry(self, scan: Scan) -> None:
        """Before its loop: what a running fold starts with."""
        frame, op, dtype = self.frame, scan.op, scan.dtype
        shape = frame.shape(frame.dims_of(scan.axes - {scan.along}))
        text = f"tl.full({shape}, {folds.start(op, dtype)}, {folds.typed(op, dtype)})"
        self._carries[scan] = frame.named("carry", text)

    def scan(self, scan: Scan) -> None:
        """It goes on, and is known."""
        frame, op, dtype = self.frame, scan.op, scan.dtype
        carry = self._carries.get(scan)
        dims = frame.dims_of(scan.axes)
        dim = frame.active.get("r") if "r" in frame.of(scan.along).dims else None
        value = self._held(scan.value, op, dims)
        if dim is None:
            assert carry is not None
            name = frame.named(op, folds.step(op, dtype, carry, value))
            frame.line(f"{carry} = {name}")
        else:
            value = frame.named("t", value)
            name = frame.named(op, folds.running(op, dtype, value, frame.dims.index("r")))
            if carry is not None:
                frame.line(f"{name} = {folds.step(op, dtype, carry, name)}")
                if dim in frame.masked:
                    value = f"tl.where({frame.masked[dim]}, {value}, {folds.start(op, dtype)})"
                last = folds.across(frame, op, dtype, [value], dims, dim)
                frame.line(f"{carry} = {folds.step(op, dtype, carry, last)}")
        if dtype is torch.bool:
            name = f"({name} != 0)"
        frame.define(scan, Value(name, dims))


def _state(pair: Pair | None) -> tuple[str, ...]:
    """What a pair needs besides its first fold, by name; all begin with 0."""
    match pair:
        case Powers():
            return ("powers",)
        case Distances():
            return ("mean", "squares", "count")
        case None:
            return ()
