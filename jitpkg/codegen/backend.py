"""The backend `jitpkg`: fused kernels, by our own compiler.

Graphs go the short way: `aten.prepare`, and for training `autograd`. What that cannot do goes
through AOTAutograd. Where neither works the graph runs as it is, op by op.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import fx

from jitpkg import config, events, native
from jitpkg.codegen.aten.passes.simplify import simplify
from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.aten.runtime import op_by_op, runtime
from jitpkg.codegen.autograd.freed import KEPT, Freed
from jitpkg.codegen.autograd.kept import Compilation
from jitpkg.codegen.cache.entry import keep, kept_or_claimed
from jitpkg.codegen.cache.graph_key import derived, graph_key
from jitpkg.codegen.cache.plain import Plain
from jitpkg.codegen.cpu.maker import CpuKernels
from jitpkg.codegen.graph import scalars
from jitpkg.codegen.graph.autocast import casts, entered_inside, of_these_leaves, off, without
from jitpkg.codegen.graph.devices import ON_META, device_of, devices_of, on_meta
from jitpkg.codegen.graph.fallback import as_it_is
from jitpkg.codegen.graph.grad_modes import GradModes, has_backward, makes_leaf
from jitpkg.codegen.graph.lists import is_fused_step, singly
from jitpkg.codegen.kernels.compile import compile_graph
from jitpkg.codegen.kernels.maker import Maker
from jitpkg.codegen.kernels.reference import Interpreted
from jitpkg.codegen.lowering.calls import is_lowered
from jitpkg.codegen.lowering.table import NotLowered
from jitpkg.codegen.options import Options, WithOptions
from jitpkg.codegen.parts.bodies import with_compiled
from jitpkg.codegen.parts.in_parts import in_parts
from jitpkg.codegen.parts.stages import (
    around_backward,
    in_stages,
    is_differentiated,
    writes_histories,
)
from jitpkg.codegen.sizes.by_size import BySize
from jitpkg.codegen.sizes.by_symbols import BySymbols, OneMore
from jitpkg.codegen.sizes.symbols import Symbols
from jitpkg.internals import Missing, modes
from jitpkg.interrupts import from_outside
from jitpkg.marks import VARIES, varies
from jitpkg.messages import warn

Function = Callable[..., Any]


def compile_graph_module(
    gm: fx.GraphModule, example_inputs: list[Any], options: Options
) -> Function:
    """Compile a graph of torch functions to kernels."""
    step = partial(compile_graph_module, options=options)
    gm = with_compiled(gm, step)
    cut = in_parts("jitpkg", gm, example_inputs, step)
    if cut is not None:
        return cut
    try:
        compile_ = partial(_compiled, options=options)
        if has_backward(gm.graph):
            return compile_(gm, example_inputs)
        return in_stages(gm, example_inputs, compile_)
    except Missing as missing:
        return as_it_is("jitpkg", gm, str(missing))


def _compiled(gm: fx.GraphModule, example_inputs: list[Any], options: Options) -> Function:
    if is_fused_step(gm):
        return as_it_is("jitpkg", gm, "an optimizer's step is one kernel already")
    devices = devices_of(gm, example_inputs)
    if on_meta(devices):
        return as_it_is("jitpkg", gm, ON_META)
    device = device_of(devices)
    gm = singly(gm)
    if modes.ANY_AUTOCAST.get()() and not has_backward(gm.graph):
        inside = entered_inside(gm) if device.type == "cpu" else None
        if inside is not None:
            with off():
                return without(_compiled(inside, example_inputs, options))
    floats = scalars.places(gm, example_inputs)
    if floats:
        again = partial(compile_graph_module, options=options)
        return scalars.with_tensors(gm, example_inputs, floats, again)
    maker, why = _maker(options, device)
    if maker is None:
        _say(why)
        return as_it_is("jitpkg", gm, why)
    made = _by(maker, gm, example_inputs, options)
    return of_these_leaves(gm, example_inputs, made) if casts(gm.graph) else made


def _by(maker: Maker, gm: fx.GraphModule, example_inputs: list[Any], options: Options) -> Function:
    if has_backward(gm.graph):
        step = partial(_with_backward, maker=maker, options=options)
        varying = varies(gm.meta)
        return (BySize(gm, step).compiled if varying else partial(step, gm))(example_inputs)
    if varies(gm.meta):
        if not _prepares(maker) or isinstance(GradModes.of(gm, example_inputs), str):
            return _trained_of_symbols(gm, example_inputs, maker, options)
        by_size = BySize(gm, partial(_of_one_size, maker=maker, options=options))
        compile_ = partial(_of_symbols, maker=maker, options=options)
        return BySymbols(gm, gm.meta[VARIES], compile_, by_size).compiled(example_inputs)
    return _of_one_size(gm, example_inputs, maker, options)


own = WithOptions(compile_graph_module)
"""The backend."""


def _of_one_size(gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options) -> Function:
    name = type(gm).__name__
    key = graph_key(gm, inputs, options, maker.depends()) if maker.keeps else None
    with kept_or_claimed(key, name, gm) as known:
        if known is None:
            return _new(gm, inputs, maker, options, key)
        if known.rest is None:
            return known.functions[0]
        return Compilation(gm, maker, options, key).again(known)


def _with_backward(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options
) -> Function:
    """A graph with a backward pass inside: as one, or what is around the pass."""
    if is_differentiated(gm.graph) and _may_record(gm, inputs, maker, options):
        found = _asking(gm, inputs, maker, options)
        if not isinstance(found, str):
            return found
    if _may_record(gm, inputs, maker, options) and not writes_histories(gm, inputs):
        name = type(gm).__name__
        key = graph_key(gm, inputs, options, maker.depends()) if maker.keeps else None
        with kept_or_claimed(key, name, gm) as known:
            if known is not None:
                return Freed(*map(tuple, known.rest)).wrapped(known.functions[0])
            found = _step(gm, inputs, maker, options, key)
        if not isinstance(found, str):
            return found
        if found == KEPT:
            return as_it_is("jitpkg", gm, found)
    return around_backward(gm, inputs, partial(compile_graph_module, options=options))


def _asking(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options
) -> Function | str:
    """A graph that asks for gradients with a history, and whose results have one."""
    key = graph_key(gm, inputs, options, maker.depends()) if maker.keeps else None
    key = None if key is None else derived(key, "trained")
    with kept_or_claimed(key, type(gm).__name__, gm) as known:
        if known is not None:
            return Compilation(gm, maker, options, key).again(known)
        return _recorded(gm, inputs, maker, options, key)


def _step(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options, key: str | None
) -> Function | str:
    from jitpkg.codegen.autograd.steps import recorded

    with events.timed(type(gm).__name__, "preparing"):
        found = recorded(gm, inputs)
        if isinstance(found, str):
            return found
        prepared, freed = found
        simplify(prepared)
    return freed.wrapped(_of_prepared(prepared, maker, options, key, freed.plain()))


def _new(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options, key: str | None
) -> Function:
    """Compile a graph that was not kept."""
    name = type(gm).__name__
    if not _prepares(maker):
        return _through_aot(gm, inputs, maker, options, key)
    with events.timed(name, "preparing"):
        prepared = prepare(gm, inputs, is_lowered=is_lowered)
        if not isinstance(prepared, str):
            simplify(prepared)
    if isinstance(prepared, str):
        return _trained(gm, inputs, maker, options, key)
    return _of_prepared(prepared, maker, options, key)


def _of_prepared(
    prepared: Prepared, maker: Maker, options: Options, key: str | None, rest: Plain = None
) -> Function:
    """
    Args:
        rest: what is to be kept besides.
    """
    gm, name = prepared.original, prepared.name
    try:
        into = prepared.into()
        compiled = compile_graph(prepared.name, prepared.graph, maker, options, into=into)
    except Missing:
        raise
    except NotLowered as error:
        return as_it_is("jitpkg", gm, str(error))
    except Exception as error:
        if config.current().raises or from_outside(error):
            raise
        warn(
            f"{prepared.name} runs op by op: its kernels could not be compiled"
            f" ({type(error).__name__}: {error}). Please report it; JITPKG_STRICT=1 raises."
        )
        return op_by_op(prepared)
    obstacle = maker.obstacle(prepared.graph)
    run = maker.replayed(prepared.name, obstacle, compiled.function)
    function = runtime(prepared, run, compiled.in_place)
    if key is not None and not compiled.report.left:
        keep(key, name, gm, [function], maker.made, [compiled.report.event], rest)
    maker.made.clear()
    return function


def _trained(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options, key: str | None
) -> Function:
    """By our own backward pass, or else by AOTAutograd."""
    if _may_record(gm, inputs, maker, options):
        found = _recorded(gm, inputs, maker, options, key)
        if not isinstance(found, str):
            return found
    return _through_aot(gm, inputs, maker, options, key)


def _trained_of_symbols(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options
) -> Function:
    """The same of a graph whose sizes vary."""
    otherwise = OneMore(gm, lambda gm, inputs: _through_aot(gm, inputs, maker, options, None))
    if not _may_record(gm, inputs, maker, options):
        return otherwise.compiled(inputs)

    def compile_(gm: fx.GraphModule, inputs: list[Any], symbols: Symbols) -> Function | None:
        found = _recorded(gm, inputs, maker, options, None, symbols)
        return None if isinstance(found, str) else found

    return BySymbols(gm, gm.meta[VARIES], compile_, otherwise).compiled(inputs)


def _may_record(gm: fx.GraphModule, inputs: Sequence[Any], maker: Maker, options: Options) -> bool:
    return options.backward == "own" and _prepares(maker) and _may_train(gm, inputs)


def _recorded(
    gm: fx.GraphModule,
    inputs: list[Any],
    maker: Maker,
    options: Options,
    key: str | None,
    symbols: Symbols | None = None,
) -> Function | str:
    """See `autograd.compile.trained`. Where that fails AOTAutograd may do better."""
    from jitpkg.codegen.autograd.compile import trained  # networkx: a tenth of a second

    try:
        return trained(gm, inputs, maker, options, key, symbols)
    except Exception as error:
        if config.current().raises or from_outside(error):
            raise
        return f"{type(error).__name__}: {error}"


def _may_train(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    if not torch.is_grad_enabled():
        return False
    given = any(isinstance(x, torch.Tensor) and x.requires_grad for x in inputs)
    return given or (has_backward(gm.graph) and any(map(makes_leaf, gm.graph.nodes)))


def _prepares(maker: Maker) -> bool:
    """Whether what `aten.prepare` knows of ops is true of them: it was compared on the CPU, and for
    tensors on GPUs functions choose others."""
    return maker.device.type == "cpu"


def _of_symbols(
    gm: fx.GraphModule, inputs: list[Any], symbols: Symbols, maker: Maker, options: Options
) -> Function | None:
    """None where it cannot be done with symbols."""
    name = type(gm).__name__
    try:
        with events.timed(name, "preparing"):
            prepared = prepare(gm, inputs, symbols)
            if isinstance(prepared, str):
                return None
            simplify(prepared)
    except Exception as error:  # whatever it is that torch cannot do with symbols
        if from_outside(error):
            raise
        return None
    try:
        compiled = compile_graph(prepared.name, prepared.graph, maker, options)
    except Exception as error:
        if config.current().raises or from_outside(error):
            raise
        return None
    maker.made.clear()
    return runtime(prepared, compiled.function)


def _maker(options: Options, device: torch.device) -> tuple[Maker | None, str]:
    """What makes kernels for a device; or why nothing does."""
    debug = os.environ.get("JITPKG_DEBUG")
    if debug == "interpret":
        return Interpreted(), ""
    if debug == "triton":
        return _interpreting()
    if device.type == "cuda":
        return _for_gpu(device, options)
    why = native.start()
    return (CpuKernels(tunes=options.max_autotune), "") if why is None else (None, why)


def _interpreting() -> tuple[Maker | None, str]:
    from jitpkg.codegen.triton import interpreted, maker  # a fifth of a second

    why = interpreted.interpret()
    return (maker.interpreting(), "") if why is None else (None, why)


def _for_gpu(device: torch.device, options: Options) -> tuple[Maker | None, str]:
    from jitpkg.codegen.triton import gpu, maker  # a fifth of a second

    why = gpu.obstacle(device)
    if why is not None:
        return None, why
    return maker.for_gpu(device, options), ""


@cache
def _say(why: str) -> None:
    """Once for each reason."""
    warn(f'Graphs run op by op, as with backend="eager": {why}.')


def _through_aot(
    gm: fx.GraphModule, inputs: list[Any], maker: Maker, options: Options, key: str | None
) -> Function:
    from jitpkg.codegen.autograd.aot.training import (
        through_kernels,  # it imports torch's compiler: a second
    )

    return through_kernels(gm, inputs, maker, options, key)
