"""`torch.func`'s transforms in a compiled function.

What a transform is given is traced once, as polyfills call it, with tensors of a level: without
the dim that is mapped over, or as leaves. What it has added to the graph becomes a graph of its
own, and one op runs that at a level of torch's. What the op returns is known by running it so on
tensors without data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import fx

from jitpkg.dataclass import dataclass
from jitpkg.facts.heard import Heard
from jitpkg.facts.outcome import NoFacts, Outcome, TheArgument
from jitpkg.facts.replayed import on_stand_ins, stand_in
from jitpkg.facts.rows.common import Unsure
from jitpkg.facts.single import facts_of_stand_in
from jitpkg.facts.sizes import Length
from jitpkg.facts.tensor import TensorFacts
from jitpkg.facts.thread_state import setters
from jitpkg.internals import modes, transforms
from jitpkg.internals.tensors import memory
from jitpkg.marks import RANDOM, TRANSFORMED, WRITES
from jitpkg.tracer import lookahead, numbers, reasons
from jitpkg.tracer.asked_gradients import known_op
from jitpkg.tracer.effects import Effect, SetItem
from jitpkg.tracer.look import source_of
from jitpkg.tracer.values import Constant, Object, Tensor, Tuple, Value
from jitpkg.tracer.vm import RANDOM_STREAM, VM, Args, Level

Tensors = Sequence[torch.Tensor]

# What runs the parts


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What a transform was given, as a graph, and how it is called."""

    module: fx.GraphModule
    captured: int
    """So many inputs are no arguments: they come first, as they are."""
    given: int
    """So many are."""
    options: tuple[Any, ...]

    def taken(self, inputs: Tensors) -> tuple[Callable[..., Any], Tensors, Tensors]:
        """A function of the arguments, the arguments, and what comes after them."""
        captured, others = inputs[: self.captured], inputs[self.captured :]
        forward = self.module.forward
        return lambda *x: forward(*captured, *x), others[: self.given], others[self.given :]


def entered(x: torch.Tensor) -> torch.Tensor:
    """Stands for a tensor of a level while the trace is inside."""
    raise NotImplementedError("it becomes an input of a part")


def vmapped(part: Part, /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    function, given, _ = part.taken(inputs)
    dims, out_dims, randomness = part.options
    return transforms.vmapped(function, dims, out_dims, randomness, given)


def differentiated(part: Part, /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    function, given, _ = part.taken(inputs)
    (wanted,) = part.options
    return transforms.differentiated(function, wanted, given)


def at_a_level(part: Part, /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    function, given, _ = part.taken(inputs)
    (wanted,) = part.options
    return transforms.at_a_level(function, wanted, given)


def pulled_back(part: Part, /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    function, given, cotangents = part.taken(inputs)
    (wanted,) = part.options
    return transforms.pulled_back(function, wanted, given, cotangents)


def pushed_forward(part: Part, /, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    function, given, tangents = part.taken(inputs)
    wanted, count = part.options
    return transforms.pushed_forward(function, wanted, count, given, tangents)


# Into a level


def enter_vmap(vm: VM, leaves: Value, dims: Value, randomness: Value) -> Value:
    known = [_plain(vm, dim) for dim in vm.unpack(dims)]
    how = _plain(vm, randomness)

    def inner(k: int, facts: TensorFacts) -> TensorFacts:
        dim = known[k]
        if dim is None:
            return facts
        size, stride = list(facts.size), list(facts.stride)
        del size[dim], stride[dim]
        return replace(facts, size=tuple(size), stride=tuple(stride))

    values, tensors = leaves_of(vm, leaves)
    at = [k for k, value in enumerate(values) if isinstance(value, Tensor)]
    return enter(vm, values, inner, tensors, (tuple(known[k] for k in at), how))


def enter_grad(vm: VM, leaves: Value, wanted: Value) -> Value:
    values, tensors = leaves_of(vm, leaves)
    chosen = _chosen(vm, values, wanted)

    def inner(k: int, facts: TensorFacts) -> TensorFacts:
        return replace(facts, requires_grad=k in chosen, is_leaf=True)

    return enter(vm, values, inner, tensors, (_among(values, chosen),))


def enter_jvp(vm: VM, leaves: Value, wanted: Value, tangents: Value) -> Value:
    values, tensors = leaves_of(vm, leaves)
    chosen = _chosen(vm, values, wanted)
    directions, _ = leaves_of(vm, tangents)
    for k, direction in zip(chosen, directions, strict=True):
        assert isinstance(direction, Tensor)
        at = values[k]
        assert isinstance(at, Tensor)
        if fixed(vm, vm.facts(direction)).size != fixed(vm, vm.facts(at)).size:
            refuse(vm, "a tangent of another size, which raises")
    inner: Callable[[int, TensorFacts], TensorFacts] = lambda k, facts: facts  # noqa: E731
    return enter(vm, values, inner, tensors, (_among(values, chosen), tuple(directions)))


def _among(values: Sequence[Value], chosen: Sequence[int]) -> tuple[int, ...]:
    """Which of the tensors these leaves are."""
    at = [k for k, value in enumerate(values) if isinstance(value, Tensor)]
    return tuple(at.index(k) for k in chosen)


def _chosen(vm: VM, values: Sequence[Value], wanted: Value) -> list[int]:
    chosen: list[int] = [_plain(vm, each) for each in vm.unpack(wanted)]
    for k in chosen:
        value = values[k]
        if not isinstance(value, Tensor):
            refuse(vm, "a derivative by what is no tensor, which raises")
        dtype = vm.facts(value).dtype
        if not dtype.is_floating_point and not dtype.is_complex:
            refuse(vm, "a derivative by whole numbers, which raises")
    return chosen


def leaves_of(vm: VM, leaves: Value) -> tuple[list[Value], tuple[Tensor, ...]]:
    """The leaves, and those that are tensors."""
    values = [vm.peek(each) for each in vm.unpack(leaves)]
    tensors = tuple(each for each in values if isinstance(each, Tensor))
    for tensor in tensors:
        vm.node(tensor)
    return values, tensors


def enter(
    vm: VM,
    values: Sequence[Value],
    inner: Callable[[int, TensorFacts], TensorFacts],
    tensors: tuple[Tensor, ...],
    options: tuple[Any, ...],
) -> Value:
    """Begin a level, and give what stands for its tensors."""
    if torch.is_inference_mode_enabled() or any(vm.facts(x).is_inference for x in tensors):
        refuse(vm, "inference mode")
    if modes.ANY_AUTOCAST.get()():
        refuse(vm, "autocast")
    facts = {x: fixed(vm, vm.facts(x)) for x in tensors}
    vm.levels.append(Level(vm.mark(), vm.checkpoint, vm.number_nodes.copy(), tensors, options))
    vm.checkpoint = None  # nobody can leave the trace in here
    made: list[Value] = []
    for k, value in enumerate(values):
        if isinstance(value, Tensor):
            known = replace(inner(k, facts[value]), cls=torch.Tensor)
            outcome = Outcome(known, (0,), (vm.facts(value),), frozenset(), random=False)
            value, _ = known_op(vm, entered, (value,), outcome)
        made.append(value)
    return Tuple(tuple(made))


def fixed(vm: VM, facts: TensorFacts) -> TensorFacts:
    """With sizes that are what they are now, guarded."""
    if not facts.is_symbolic:
        return facts

    def now(length: Length) -> int:
        return numbers.now(vm, length)

    size, stride = tuple(map(now, facts.size)), tuple(map(now, facts.stride))
    return replace(facts, size=size, stride=stride)


# Out of it


def leave_vmap(vm: VM, tensors: Value, dims: Value) -> Value:
    out_dims = tuple(_plain(vm, dim) for dim in vm.unpack(dims))
    part, inputs = leave(vm, tensors, lambda options: (options[0], out_dims, options[1]))
    return _run(vm, vmapped, part, inputs)


def leave_grad(vm: VM, tensors: Value) -> Value:
    return _run(vm, differentiated, *leave(vm, tensors, lambda options: options))


def leave_vjp(vm: VM, tensors: Value, count: Value) -> Value:
    part, inputs = leave(vm, tensors, lambda options: options)
    if any(RANDOM in node.meta for node in part.module.graph.nodes):
        refuse(vm, "random numbers in what may be computed twice")
    pullback = Pullback(part, inputs, _writes(vm, inputs))
    return Tuple((vm.trusted(pullback), _run(vm, at_a_level, part, inputs)))


def _writes(vm: VM, tensors: Sequence[Tensor]) -> list[int]:
    """How often the memory of each has been written to."""
    return [len(vm.graph.writers(vm.roots.get(x, x).node)) for x in tensors]


@dataclass(frozen=True, eq=False, slots=True)
class Pullback:
    """What products with the Jacobian of a function are computed of: the function, once more."""

    part: Part
    inputs: tuple[Tensor, ...]
    writes: Sequence[int]
    """How often the memory of each had been written to."""


def pulled(vm: VM, pullback: Value, cotangents: Value) -> Value:
    known: Any = getattr(vm.look(pullback), "obj", None)
    assert isinstance(known, Pullback)
    if _writes(vm, known.inputs) != known.writes:
        refuse(vm, "a pullback of what was written to in between")
    given, _ = leaves_of(vm, cotangents)
    every = [x for x in given if isinstance(x, Tensor)]
    return _run(vm, pulled_back, known.part, (*known.inputs, *every))


def leave_jvp(vm: VM, tensors: Value, count: Value) -> Value:
    number = _plain(vm, count)
    level = vm.levels[-1]
    directions = level.options[1]
    part, inputs = leave(vm, tensors, lambda options: (options[0], number))
    return _run(vm, pushed_forward, part, (*inputs, *directions))


def leave(
    vm: VM, returned: Value, options: Callable[[tuple[Any, ...]], tuple[Any, ...]]
) -> tuple[Part, tuple[Tensor, ...]]:
    """End a level: its part of the graph, and what that is given."""
    tensors = [x for x in map(vm.look, vm.unpack(returned)) if isinstance(x, Tensor)]
    level = vm.levels[-1]
    _check(vm, level)
    del vm.effects[level.mark.effects :]
    nodes = [vm.node(each) for each in tensors]
    graph, outer = vm.graph.outlined(level.mark.graph, nodes)
    vm.levels.pop()
    vm.checkpoint, vm.number_nodes = level.watch, level.numbers
    known = {vm.node(x): x for x in vm.heap.known() if isinstance(x, Tensor)}
    captured = []
    for placeholder, node in zip(tuple(graph.find_nodes(op="placeholder")), outer, strict=True):
        for user in tuple(placeholder.users):
            if user.target is entered:
                _become_input(graph, user)
        if not placeholder.users:
            graph.erase_node(placeholder)
        elif node not in known:
            refuse(vm, "a number that varies")
        else:
            captured.append(known[node])
    module = fx.GraphModule(torch.nn.Module(), graph, "Part")
    part = Part(module, len(captured), len(level.given), options(level.options))
    return part, (*captured, *level.given)


def _become_input(graph: fx.Graph, node: fx.Node) -> None:
    """Let an `entered` be a placeholder, where it stands: the order of these is that of the
    arguments."""
    with graph.inserting_before(node):
        made = graph.placeholder(node.name)
    made.meta.update(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def _check(vm: VM, level: Level) -> None:
    """Nothing of the level may be seen outside, but by what is returned."""
    mark = level.mark
    if any(not _is_undone(vm, each) for each in vm.effects[mark.effects :]):
        refuse(vm, "it changes an object")
    if any(source_of(each) is None for each in lookahead.changed(vm, mark)):
        refuse(vm, "it changes an object")
    if any(each is not RANDOM_STREAM for each in vm.mutations[mark.mutations :]):
        refuse(vm, "it writes to a tensor")
    nodes = vm.graph.nodes_since(mark.graph)
    own = {node.name for node in nodes}
    if any(not own.issuperset(node.meta.get(WRITES, ())) for node in nodes):
        refuse(vm, "it writes to a tensor")
    if any(node.target in _RESHAPING for node in nodes):
        refuse(vm, "it changes the sizes of a tensor")
    switches = vm.graph.targets_since(mark.graph) & setters()
    if switches - {modes.SET_GRAD_ENABLED.found()}:
        refuse(vm, "autocast inside")


_RESHAPING = frozenset(
    """
    as_strided_ resize_ resize_as_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_
    """.split()
)
"""Methods in place that change no element."""


def _is_undone(vm: VM, effect: Effect) -> bool:
    """Whether a dict of the program's has again what it had there."""
    match effect:
        case SetItem(Object(source=source, obj=dict() as real) as target, key) if source:
            known = vm.look(key)
            if not isinstance(known, Constant) or known.value not in real:
                return False
            state = vm.heap.read(target, "entries")
            found = [e.value for e in state.entries.values() if _is_key(vm, e.key, known)]  # type: ignore[union-attr]
            return len(found) == 1 and _is_existing(vm, found[0], real[known.value])
        case _:
            return False


def _is_key(vm: VM, value: Value, key: Constant) -> bool:
    known = vm.look(value)
    return isinstance(known, Constant) and known.value == key.value


def _is_existing(vm: VM, value: Value, real: object) -> bool:
    if isinstance(value, Tensor):
        return value.source is not None and vm.graph.example(value.node) is real
    return source_of(value) is not None and getattr(value, "obj", _NOTHING) is real


_NOTHING = object()


def _run(vm: VM, function: Callable[..., Any], part: Part, inputs: tuple[Tensor, ...]) -> Value:
    """The op, and what it returns."""
    target = MethodType(function, part)
    outcome = _outcome(vm, target, part, inputs)
    values, node = known_op(vm, target, inputs, outcome)
    node.meta[TRANSFORMED] = part
    return values


def _outcome(vm: VM, target: Any, part: Part, inputs: Args) -> Outcome:
    tensors = list(dict.fromkeys(x for x in inputs if isinstance(x, Tensor)))
    facts = {x: fixed(vm, vm.facts(x)) for x in tensors}
    devices = {each.device for each in facts.values()}
    if len(devices) > 1:
        refuse(vm, "tensors on several devices")
    made = {x: stand_in(each) for x, each in facts.items()}
    with Heard():
        transforms.load()
    found = returned(vm, lambda: target(*[made[x] for x in inputs]))  # type: ignore[index]
    by_identity = {id(x): k for k, x in enumerate(made.values())}
    by_memory = {memory(x): k for k, x in reversed(list(enumerate(made.values())))}
    new = [memory(x) for x in found if memory(x) not in by_memory]
    if len(set(new)) < len(new):
        refuse(vm, "two results share memory")
    device = devices.pop()
    results = tuple(
        TheArgument(by_identity[id(x)])
        if id(x) in by_identity
        else replace(facts_of(vm, x), device=device)
        for x in found
    )
    shares = tuple(by_memory.get(memory(x)) for x in found)
    random = any(RANDOM in node.meta for node in part.module.graph.nodes)
    before = tuple(vm.facts(x) for x in tensors)
    return Outcome(results, shares, before, frozenset(), random=random)


def returned(vm: VM, call: Callable[[], Any]) -> Any:
    """What a call returns whose tensors are stand-ins."""
    try:
        with Heard() as heard:
            found = on_stand_ins(call)
    except NoFacts as error:
        refuse(vm, f"what it returns is not known before: {error}")
    if heard.any:
        refuse(vm, "it warns")
    return found


def facts_of(vm: VM, made: torch.Tensor) -> TensorFacts:
    try:
        return facts_of_stand_in(made)
    except Unsure:
        refuse(vm, "it returns an unusual tensor")


def refuse(vm: VM, why: str) -> NoReturn:
    """Torch's own function is called, outside of the graph."""
    vm.stop(reasons.TRANSFORM, why)


def _plain(vm: VM, value: Value) -> Any:
    known = vm.look(value)
    if not isinstance(known, Constant):
        refuse(vm, "an option that is no constant")
    return known.value
