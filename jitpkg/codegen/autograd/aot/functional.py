"""What a backend on top of AOTAutograd needs to be right for every graph and every call.

AOTAutograd makes a graph functional and differentiates it ahead of time. What it makes relies on
more than an entry's guards test; that is tested here, and where it does not hold, the graph runs
as it is, op by op. So does a graph of which AOTAutograd is known to make something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from enum import Enum, auto
from functools import partial
from typing import Any

import torch
from torch import fx

from jitpkg import config, forks, listing
from jitpkg.attempts import Attempts, words
from jitpkg.codegen.autograd import saved
from jitpkg.codegen.autograd.aot import layouts
from jitpkg.codegen.autograd.aot.direct import direct, inference_of, plan_of
from jitpkg.codegen.autograd.aot.observed import (
    Observed,
    is_check,
    observed,
    stand_ins,
    tensors_of,
    unnoticed,
)
from jitpkg.codegen.autograd.aot.obstacles import NO_LEVEL, obstacle
from jitpkg.codegen.autograd.aot.recomputed import inlined
from jitpkg.codegen.autograd.aot.unused import return_unused, without
from jitpkg.codegen.autograd.aot.varying import Varying
from jitpkg.codegen.autograd.partial import Halves
from jitpkg.codegen.autograd.taken_views import taken_again
from jitpkg.codegen.autograd.twice import RANDOM, Original
from jitpkg.codegen.graph import autocast, scalars, writing
from jitpkg.codegen.graph.autocast import cast_once, casts, enter_and_leave, is_kept
from jitpkg.codegen.graph.copies import copied
from jitpkg.codegen.graph.fallback import as_it_is
from jitpkg.codegen.graph.grad_modes import is_switch
from jitpkg.codegen.graph.writing import name_of
from jitpkg.dataclass import dataclass
from jitpkg.errors import BackendError
from jitpkg.facts import fake
from jitpkg.facts.layout import overlaps_itself
from jitpkg.facts.outcome import draws, draws_otherwise
from jitpkg.facts.random_streams import RandomStreams, can_be_set_back
from jitpkg.facts.thread_state import setters
from jitpkg.internals import Missing, aot, modes, tensors, trees
from jitpkg.internals.ops import OpOverload, op_name
from jitpkg.interrupts import from_outside, lost
from jitpkg.marks import (
    MEMORY,
    RECORDED,
    VARIES,
    WRITES,
)

Function = Callable[..., Any]


@dataclass
class Compiled:
    """What is made of one graph."""

    random: int = 0
    """How many ops of the forward graph draw from a random stream."""
    checks: int = 0
    """How many ops of it only raise, for some data."""
    before: Observed = field(default_factory=Observed)
    """What the graph has: AOTAutograd drops random ops whose numbers nothing uses, and checks, too,
    in torch 2.11."""
    draws_otherwise: bool = False
    """Whether random numbers are drawn in another order."""
    streams: tuple[torch.device, ...] = ()
    """The devices whose streams these are."""
    looks_at_data: bool = False
    """Whether eager code, going backward, refuses some values; what is traced does not."""
    halves: Halves = field(default_factory=Halves)
    saves_restrided: bool = False
    """Whether an input is saved for gradients whose sizes or strides the graph sets."""
    writes_last: bool = True
    """Whether nothing is written to an input before everything else has been done."""

    returned: Sequence[Any] = ()
    """The results of the forward graph, without data."""

    is_aten: bool = False
    """Whether AOTAutograd has done its part: what is raised behind it is the backend's own."""

    keep: Callable[..., None] | None = None
    """Keeps on disk how the halves of a simple graph belong together, and the halves."""

    def note(self, aten: fx.GraphModule) -> None:
        """Look at a graph of ATen ops on its way to be compiled."""
        self.is_aten = True
        drawing = list(filter(draws, aten.graph.nodes))
        self.random += len(drawing)
        self.draws_otherwise |= any(map(draws_otherwise, drawing))
        self.checks += sum(is_check(node.target) for node in aten.graph.nodes)
        self.streams = tuple(dict.fromkeys((*self.streams, *_streams_of(drawing))))
        self.looks_at_data |= any(map(_has_checked_backward, aten.graph.nodes))
        metadata: Any = aot.CONTEXT.get().get().fw_metadata
        if metadata is not None:
            aot.leave_results(metadata)
            known = aot.metadata_of(metadata)
            self.returned = _returned(aten.graph, known)
            self.saves_restrided |= saved.saves_restrided(aten.graph, known)


Compile = Callable[[fx.GraphModule, list[torch.Tensor], Compiled], Function]
"""Hands a graph to AOTAutograd, with inputs that have no data."""


def _returned(aten: fx.Graph, metadata: aot.Metadata) -> list[Any]:
    """The results that a forward graph returns, as tensors without data."""
    (output,) = aten.find_nodes(op="output")
    nodes: Any = output.args[0]
    start = sum(info.mutation == "MUTATED_OUT_GRAPH" for info in metadata.inputs)
    return [
        node.meta.get("val") if isinstance(node, fx.Node) else None
        for node in nodes[start : start + len(metadata.outputs)]
    ]


def _streams_of(drawing: Sequence[fx.Node]) -> tuple[torch.device, ...]:
    """The devices on which ops draw random numbers."""
    made = trees.leaves_of([node.meta.get("val") for node in drawing])
    found = {each.device: None for each in made if isinstance(each, torch.Tensor)}
    return tuple(filter(can_be_set_back, found))


def through_aot(backend: str, gm: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Function:
    """A function of the graph's inputs: what `compile_` makes of it, wherever that is right."""
    try:
        if not (torch.is_inference_mode_enabled() and casts(gm.graph)):
            return _through_aot(backend, gm, inputs, compile_)
        why = _not_outside(gm, inputs)
        if why is not None:
            return as_it_is(backend, gm, why)
        with torch.inference_mode(False), torch.no_grad():
            return _through_aot(backend, gm, inputs, compile_)
    except Missing as missing:
        return as_it_is(backend, gm, str(missing))


def _not_outside(gm: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why a graph of inference mode cannot be traced outside of it. Inside, composite ops are taken
    apart before autocast has seen them."""
    if any(isinstance(x, torch.Tensor) and x.is_inference() for x in inputs):
        return "autocast in inference mode, of a tensor that was made there"
    before = _observed(gm, inputs)
    return before if isinstance(before, str) else None


def _observed(gm: fx.GraphModule, inputs: Sequence[Any]) -> Observed | str:
    """What eager code does; or why the graph runs as it is."""
    try:
        before = observed(gm, inputs)
    except Exception as error:  # eager code may refuse it, too
        if from_outside(error):
            raise
        return f"{type(error).__name__}: {error}"
    return before if before.obstacle is None else before.obstacle


def _through_aot(
    backend: str, gm: fx.GraphModule, inputs: list[Any], compile_: Compile
) -> Function:
    gm = inlined(gm)
    if any(isinstance(x, torch.Tensor) and _has_left_its_base(x) for x in inputs):
        return as_it_is(backend, gm, "a view that was given other data than its base has")
    floats = scalars.places(gm, inputs)
    if floats:
        again = partial(through_aot, backend, compile_=compile_)
        return scalars.with_tensors(gm, inputs, floats, again)
    varying = gm.meta.get(VARIES)
    if varying:
        through = partial(_functional, backend, compile_)
        return Varying(gm, varying, through).compiled(inputs)
    return _functional(backend, compile_, gm, inputs, fake.fakes(inputs))


def _has_left_its_base(x: torch.Tensor) -> bool:
    """Whether `x.data` was set, of a view: it lies in other memory than what it is a view of."""
    base_of = tensors.BASE.found()
    base = base_of(x) if base_of is not None else None
    return base is not None and tensors.memory(base) != tensors.memory(x)


def _functional(
    backend: str, compile_: Compile, gm: fx.GraphModule, inputs: list[Any], fakes: fake.Fakes
) -> Function:
    why = obstacle(gm, inputs)
    if why is not None:
        return as_it_is(backend, gm, why)
    context, gm = aot.CONTEXT.get()(fakes.mode), layouts.in_order(gm)
    before = _observed(gm, inputs)
    if isinstance(before, str):
        return as_it_is(backend, gm, before)
    compiled = Compiled(before=before)
    try:
        with unnoticed(), aot.TRACING.get()(context), _settings():
            listed = listing.texts_of_fx()
            copy, unused = _copy(gm, inputs)
            with autocast.off():
                function = compile_(copy, fakes.values, compiled)
    except Exception as error:
        if compiled.is_aten or fakes.varies or from_outside(error):
            raise
        return as_it_is(backend, gm, f"{type(error).__name__}: {error}")
    if context.fw_metadata is None:
        return as_it_is(backend, gm, "nothing being known of what it writes to")
    metadata = aot.metadata_of(context.fw_metadata)
    why = None
    if _sharing(inputs) and any(info.is_written for info in metadata.inputs):
        why = "a write to inputs that share memory"
    if any(map(_refused, metadata.inputs, inputs)):
        why = "a write to a leaf that requires grad, or to a view of one: eager code refuses it"
    if _unseen(gm, metadata, inputs):
        why = "a write that autograd does not see, to an input that requires grad"
    if any(info.mutates_data and info.mutates_metadata for info in metadata.inputs):
        why = "a write to an input whose strides change, too: they would be those of a copy"
    if compiled.saves_restrided:
        why = "an input whose strides change, and that is saved for gradients: as it was before"
    if _restrided_in_vain(gm, metadata):
        why = "an input that requires grad, and whose strides are set to what they were"
    if any(map(_written_through, metadata.inputs, inputs)):
        why = "a write to a part of what overlaps with itself, or of a leaf that requires grad"
    if _views_without_history(gm, metadata):
        why = "a view that is returned, and that may have been taken while grad mode was off"
    if _detached_views(gm, metadata):
        why = "a detached view is returned beside a view of the same"
    required = zip(compiled.before.trained, metadata.outputs, strict=False)
    if any(eagerly is not None and eagerly != info.requires_grad for eagerly, info in required):
        why = "a result that requires grad in eager code only, or here only"
    if compiled.random < compiled.before.random:
        why = _NOT_DRAWN
    elif compiled.random > compiled.before.random:
        why = _ALSO_DRAWN
    if compiled.draws_otherwise:
        why = "random numbers for what does not lie in order: they would be drawn in another one"
    if compiled.checks < compiled.before.checks:
        why = "an error that eager code raises for some data: it would not be raised"
    if _gives_no_gradient(compiled.halves.backward_graph):
        why = "results that require grad, of which no input gets one: they would not require it"
    if compiled.looks_at_data:
        why = "a complex decomposition: its gradient is defined for some values only"
    if any(map(overlaps_itself, compiled.halves.gradients())):
        why = "a result that overlaps with itself: gradients of some elements would be lost"
    if fakes.varies and any(_is_strided_of(info, inputs) for info in metadata.outputs):
        why = "a view of varying sizes of what overlaps with itself: gradients would be shared"
    alone, views = inference_of(gm, inputs, compiled.halves, metadata), compiled.before.views
    if alone is None and views.obstacle is not None:
        why = views.obstacle
    if why is not None:
        return as_it_is(backend, gm, why)
    copies = layouts.differing(compiled.before.laid, compiled.returned, varies=bool(fakes.varies))
    if isinstance(copies, str):
        return as_it_is(backend, gm, copies)
    keep = None if unused or copies or changes_state(gm) else compiled.keep
    aot.keep_saved(metadata.raw)
    function = compiled.halves.watched(function, metadata)
    plan = plan_of(gm, inputs, compiled.halves, metadata)
    if plan is not None:
        again = RANDOM if compiled.streams else Original(gm)
        function = direct(plan, compiled.halves, function, again)
        if keep is not None:
            keep(plan, compiled.streams, views.shown)
    if alone is not None:
        function = alone
        if keep is not None:
            keep(None, compiled.streams, views.shown)
    conditions = Conditions.of(metadata, inputs, casts=casts(gm.graph))
    guarded = _Guarded(backend, gm, function, compiled, conditions).function()
    if unused:
        guarded = without(guarded, len(metadata.outputs) - unused)
    if copies:
        guarded = layouts.laid_out(guarded, copies)
    if views.shown:
        guarded = taken_again(guarded, views.shown)
    for file in listing.texts_of_fx() - listed:
        listing.drop_with(guarded, file)
    return guarded


_SETTINGS: dict[str, Any] = {
    "backward_pass_autocast": "off",  # it has ended when the backward pass begins
    "donated_buffer": False,
    "enable_autograd_cache": False,  # what comes out of it has no metadata; Inductor has its own
    "force_non_lazy_backward_lowering": True,  # what cannot be compiled is known now
}


@contextmanager
def _settings() -> Iterator[None]:
    """AOTAutograd's settings. Each of its own patches is kept by the context for ever."""
    config = aot.CONFIG.get()
    before = {name: getattr(config, name) for name in _SETTINGS}
    restore = partial(_set, config, before)
    with forks.changing(restore):
        try:
            _set(config, {name: _SETTINGS[name] for name in before})
            yield
        finally:
            restore()


def _set(config: object, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        setattr(config, name, value)


_DECOMPOSITIONS = ("aten::linalg_eig", "aten::_linalg_eigh", "aten::_linalg_svd")


def _has_checked_backward(node: fx.Node) -> bool:
    """Whether the op's gradient exists only where the phase of complex vectors does not matter."""
    if not isinstance(node.target, OpOverload) or op_name(node.target) not in _DECOMPOSITIONS:
        return False
    return any(isinstance(t, torch.Tensor) and t.is_complex() for t in node.meta["val"])


def _gives_no_gradient(backward: fx.Graph | None) -> bool:
    if backward is None:
        return False
    (output,) = backward.find_nodes(op="output")
    return not output.all_input_nodes


_NOT_DRAWN = "random numbers that nothing uses: they would not be drawn"
_ALSO_DRAWN = "an op that draws no random numbers in eager code: dropout with p=1"


def _copy(gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[fx.GraphModule, int]:
    """What AOTAutograd is handed, and how many more results it returns."""
    graph, is_cast = copied(gm.graph), casts(gm.graph)
    if is_cast:
        mode, given = stand_ins(inputs)
        with mode:
            cast_once(gm, graph, inputs, given)
    unused = return_unused(graph)
    if is_cast:
        enter_and_leave(graph)
    return fx.GraphModule(torch.nn.Module(), graph, class_name=type(gm).__name__), unused


def _views_without_history(gm: fx.GraphModule, metadata: aot.Metadata) -> bool:
    """Whether a returned view may require grad as a leaf, without the history of what it shows.

    Made again from that, it would have it: gradients that eager code does not pass on.
    """
    switches = any(map(is_switch, gm.graph.nodes))
    return switches and any(
        info.requires_grad and info.kind not in ("non_alias", "unsafe_view_alias")
        for info in metadata.outputs
    )


def _detached_views(gm: fx.GraphModule, metadata: aot.Metadata) -> bool:
    """Whether a result may be cut off from its history, and a view of what others are views of.

    It would be made again from another view, or require grad as soon as they do.
    """
    return (
        any(info.kind.startswith("alias_of_intermediate") for info in metadata.outputs)
        and not all(info.requires_grad for info in metadata.outputs)
        and any("detach" in name_of(node) for node in gm.graph.nodes)
    )


def _restrided_in_vain(gm: fx.GraphModule, metadata: aot.Metadata) -> bool:
    """Whether sizes or strides of an input are set in place, to what they were in the end.

    AOTAutograd does not notice, and asks for the gradient of what the input has become: what was
    computed before gives none to that.
    """
    nodes = filter(writing.restrides, gm.graph.nodes)
    changed = {writing.object_of(node) for node in nodes}
    return any(
        node in changed and info.requires_grad and not info.is_written
        for node, info in zip(gm.graph.find_nodes(op="placeholder"), metadata.inputs, strict=False)
    )


def _refused(info: aot.InputInfo, given: torch.Tensor) -> bool:
    return info.refused and given.requires_grad and tensors.is_leaf(given)


def _unseen(gm: fx.GraphModule, metadata: aot.Metadata, inputs: Sequence[Any]) -> bool:
    """Whether AOTAutograd would give an input a new history, where eager code writes to it while
    grad mode is off, or to a detached view of it, and leaves the history as it is; or would count a
    write through `.data`."""
    seen = {name for node in gm.graph.nodes if RECORDED in node.meta for name in node.meta[WRITES]}
    reads = gm.graph.find_nodes(op="call_function", target=getattr)
    datas = {node.meta.get(MEMORY) for node in reads if node.args[1] == "data"}
    placeholders = gm.graph.find_nodes(op="placeholder")
    return any(
        info.mutates_data
        and given.requires_grad
        and (node.name in datas or not (tensors.is_leaf(given) or node.name in seen))
        for node, info, given in zip(placeholders, metadata.inputs, inputs, strict=False)
    )


def _written_through(info: aot.InputInfo, given: torch.Tensor) -> bool:
    """Whether a write may be to a part of an input only: the whole could not be written to."""
    return info.mutates_data and _State.of(given) not in (_State.PLAIN, _State.LEAF)


def _is_strided_of(info: aot.OutputInfo, inputs: Sequence[Any]) -> bool:
    """Whether a result is made again by `as_strided` of an input that overlaps with itself."""
    if info.base is None or not info.kind.startswith("alias_of_input"):
        return False
    return info.requires_grad and overlaps_itself(inputs[info.base])


class _State(Enum):
    """Of an input, what matters to a write."""

    PLAIN = auto()
    LEAF = auto()
    OF_LEAF = auto()
    """A view of a leaf that requires grad."""
    SPECIAL = auto()
    """A view that was taken beside others by one op, or not in grad mode: to write to it is refused
    in grad mode, in which AOTAutograd's code writes."""
    OVERLAPS = auto()
    """Elements of it may share memory."""

    @classmethod
    def of(cls, x: torch.Tensor) -> _State:
        if overlaps_itself(x):
            return cls.OVERLAPS
        if tensors.is_leaf(x):
            return cls.LEAF
        base = tensors.BASE.get()(x)
        if base is not None and base.is_leaf and base.requires_grad:
            return cls.OF_LEAF
        creation = tensors.CREATION.found()
        if base is not None and x.requires_grad and creation and int(creation(x)):
            return cls.SPECIAL
        return cls.PLAIN


def _sharing(inputs: Sequence[Any]) -> set[int]:
    """The storages that more than one of the inputs lie in."""
    counts = Counter(map(tensors.memory, tensors_of(inputs)))
    return {memory for memory, count in counts.items() if count > 1}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What AOTAutograd's code takes for granted and no guard of an entry tests."""

    written: tuple[tuple[int, _State], ...]
    """Inputs that are written to."""
    viewed: tuple[tuple[int, int, bool], ...]
    """Inputs of which views are returned, where in its memory each starts, and whether it is a view
    itself: such results are made again from the offsets that were traced."""
    level: Callable[[], int]
    """Gives the level of forward-mode differentiation."""
    cast: tuple[tuple[int, bool], ...] = ()
    """Inputs that require grad, under autocast, and whether each one's cast is kept."""

    @classmethod
    def of(
        cls, metadata: aot.Metadata, inputs: Sequence[Any], *, casts: bool = False
    ) -> Conditions:
        written = [i for i, info in enumerate(metadata.inputs) if info.is_written]
        viewed = {
            info.base
            for info in metadata.outputs
            if info.base is not None and info.kind in ("alias_of_input", "is_input")
        }
        return cls(
            tuple((i, _State.of(inputs[i])) for i in written),
            tuple(
                (i, int(inputs[i].storage_offset()), _is_base(inputs[i])) for i in sorted(viewed)
            ),
            modes.FORWARD_LEVEL.get(),
            tuple(
                (i, is_kept(x))
                for i, x in enumerate(inputs)
                if casts and isinstance(x, torch.Tensor) and x.requires_grad
            ),
        )

    def versions(self, inputs: Sequence[torch.Tensor]) -> list[int]:
        """How often inputs have been written to; those of inference mode do not count."""
        version = tensors.VERSION.get()
        return [version(inputs[i]) for i, _ in self.written if not inputs[i].is_inference()]

    def hold(self, inputs: Sequence[torch.Tensor]) -> bool:
        if self.level() != NO_LEVEL:
            return False
        for i, state in self.written:
            if _State.of(inputs[i]) is not state:
                return False
        for i, offset, is_base in self.viewed:
            if inputs[i].storage_offset() != offset or _is_base(inputs[i]) is not is_base:
                return False
        for i, kept in self.cast:
            if is_kept(inputs[i]) is not kept:
                return False
        if self.written and len(inputs) > 1:
            shared = _sharing(inputs)
            return not shared or all(
                tensors.memory(inputs[i]) not in shared for i, _ in self.written
            )
        return True


def _is_base(x: torch.Tensor) -> bool:
    return tensors.BASE.get()(x) is None


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Makes the function that an entry calls."""

    backend: str
    gm: fx.GraphModule
    compiled_function: Function
    compiled: Compiled
    conditions: Conditions

    def function(self) -> Function:
        gm, compiled_function, hold = self.gm, self.compiled_function, self.conditions.hold
        streams = RandomStreams(self.compiled.streams) if self.compiled.random else None
        switches = [
            (node.target, node.args, node.kwargs)
            for node in gm.graph.nodes
            if node.op == "call_function" and not node.all_input_nodes and not node.users
            if node.target in setters()
        ]
        halfway = bool(self.conditions.written) and not self.compiled.writes_last
        backend, attempts = self.backend, Attempts(type(gm).__name__)
        versions = self.conditions.versions
        if modes.ANY_AUTOCAST.get()():  # its casts are in the graph
            compiled_function = autocast.without(compiled_function)

        def run(*inputs: torch.Tensor) -> Any:
            if attempts.given_up or not hold(inputs):
                return gm.forward(*inputs)
            states = () if streams is None else streams.save()
            before = versions(inputs)
            try:
                results = compiled_function(*inputs)
            except Exception as error:
                taken = lost(error)  # by torch's runtime, which eager code does without
                if taken is None and (
                    from_outside(error)
                    or (isinstance(error, BackendError) and config.current().raises)
                ):
                    raise
                if taken is None and (halfway or versions(inputs) != before):
                    raise BackendError(
                        f"{backend}'s code failed ({type(error).__name__}: {error}); it may have"
                        " written to its inputs before"
                    ) from error
                why = words(error)
            else:
                for target, args, kwargs in switches:
                    target(*args, **kwargs)
                return results
            if taken is not None:
                raise taken
            # Nothing has happened yet. If an op of the graph is to blame it fails again there.
            if streams is not None:
                streams.restore(states)
            results = gm.forward(*inputs)
            attempts.note(why)
            return results

        return run


def changes_state(gm: fx.GraphModule) -> bool:
    """Whether a graph changes thread-local state: one that ends inside a context leaves it changed,
    which a graph of ATen ops does not tell."""
    return any(node.target in setters() for node in gm.graph.nodes)
