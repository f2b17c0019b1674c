"""Calls of TorchScript's functions: the ops of their graphs become ops of ours.

What `torch.jit.script` or `torch.jit.trace` has made says what it does in a graph of its own, with
TorchScript's meaning of numbers, which is not always Python's. Its ops on tensors are ATen's, so
they are called one by one; arithmetic on sizes and choices by constants are done while tracing.
What is more than that, and what raises, is left to TorchScript: the break is at the call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import torch

from jitpkg.guards.sources import Held
from jitpkg.internals.ops import OpOverload, schema
from jitpkg.tracer import constants, reasons
from jitpkg.tracer.values import NONE, Constant, Known, Number, Tensor, Tuple, Value
from jitpkg.tracer.vm import VM, Args, Kwargs, Raised

Values = dict[str, Value]
"""What a graph has computed, by the names that it gives."""


def call(vm: VM, function: Known, args: Args, kwargs: Kwargs) -> Value:
    """`function(*args, **kwargs)`, of a `torch.jit.ScriptFunction`."""
    script: Any = function.obj
    if any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):  # it casts by rules of its own
        _refuse(vm, "autocast")
    given = _bind(vm, script, args, kwargs)
    graph = script.inlined_graph
    values = {value.debugName(): arg for value, arg in zip(graph.inputs(), given, strict=True)}
    try:
        results = _run(vm, graph, values)
    except Raised:  # as an error of TorchScript's own
        _refuse(vm, "what raises")
    return results[0]


def _refuse(vm: VM, what: str) -> NoReturn:
    vm.stop(reasons.FOREIGN_CALL, f"a function of TorchScript with {what}")


# Arguments


def _bind(vm: VM, script: Any, args: Args, kwargs: Kwargs) -> list[Value]:
    """A value for each input. Where TorchScript would convert one, it is refused."""
    expected = script.schema.arguments
    if len(args) > len(expected) or not kwargs.keys() <= {each.name for each in expected}:
        _refuse(vm, "what raises")
    given = dict(zip((each.name for each in expected), args, strict=False))
    if given.keys() & kwargs.keys():
        _refuse(vm, "what raises")
    given.update(kwargs)
    return [_argument(vm, each, given) for each in expected]


def _argument(vm: VM, expected: Any, given: Mapping[str, Value]) -> Value:
    if expected.name not in given:
        if not expected.has_default_value():
            _refuse(vm, "what raises")
        return _constant(vm, expected.default_value)
    value = vm.look(given[expected.name])
    name = str(expected.type)
    if name.startswith("Optional[") and vm.same(value, NONE):
        return value
    name = name.removeprefix("Optional[").removesuffix("]")
    is_tensor = name == "Tensor" and isinstance(value, Tensor)
    is_plain = isinstance(value, Constant) and type(value.value) is _PLAIN.get(name)
    if not is_tensor and not is_plain:
        _refuse(vm, f"an argument of the type {expected.type}")
    return value


_PLAIN: Mapping[str, type] = MappingProxyType(
    {"bool": bool, "int": int, "float": float, "str": str}
)


def _constant(vm: VM, value: object) -> Value:
    if isinstance(value, torch.Tensor):
        return vm.wrap(value, Held(value))
    if value is not None and type(value) not in (bool, int, float, str, torch.device):
        _refuse(vm, f"a constant of the type {type(value).__name__}")
    return Constant(value)


# Graphs


def _run(vm: VM, block: Any, values: Values) -> list[Value]:
    """What a graph, or a block of one, returns."""
    for node in block.nodes():
        given = [vm.peek(values.get(each.debugName(), NONE)) for each in node.inputs()]
        row = _ROWS.get(node.kind())
        made = row(vm, node, given, values) if row else _op(vm, node, given)
        values.update(zip((each.debugName() for each in node.outputs()), made, strict=True))
    return [values[each.debugName()] for each in block.outputs()]


Row = Callable[[VM, Any, Sequence[Value], Values], Sequence[Value]]


def _constant_node(vm: VM, node: Any, given: Sequence[Value], values: Values) -> Sequence[Value]:
    if str(node.output().type()).startswith("__torch__"):  # a function that is inlined
        return (NONE,)
    return (_constant(vm, node.output().toIValue()),)


def _if(vm: VM, node: Any, given: Sequence[Value], values: Values) -> Sequence[Value]:
    (condition,) = given
    if not isinstance(condition, Constant):
        _refuse(vm, "a branch")
    taken, other = node.blocks()
    return _run(vm, taken if condition.value else other, values)


def _unpack(vm: VM, node: Any, given: Sequence[Value], values: Values) -> Sequence[Value]:
    items = vm.unpack(given[0])
    if len(items) != node.outputsSize():
        _refuse(vm, "what raises")
    return items


def _sizes(vm: VM, node: Any, given: Sequence[Value], values: Values) -> Sequence[Value]:
    sizes = vm.attribute(given[0], "shape")
    if len(given) == 1:
        return (vm.new_list(vm.unpack(sizes)),)
    return (vm.call_object(operator.getitem, sizes, given[1]),)


def _same(result: bool) -> Row:
    return lambda vm, node, given, values: (Constant(vm.same(*given) is result),)


def _only(vm: VM, node: Any, given: Sequence[Value], values: Values) -> Sequence[Value]:
    return given[:1]


_ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "prim::Constant": _constant_node,
        "prim::If": _if,
        "prim::ListConstruct": lambda vm, node, given, values: (vm.new_list(given),),
        "prim::TupleConstruct": lambda vm, node, given, values: (Tuple(tuple(given)),),
        "prim::ListUnpack": _unpack,
        "prim::TupleUnpack": _unpack,
        "prim::unchecked_cast": _only,
        "aten::size": _sizes,
        "aten::dim": lambda vm, node, given, values: (vm.attribute(given[0], "ndim"),),
        "aten::__is__": _same(True),
        "aten::__isnot__": _same(False),
    }
)


# Ops

_ARITHMETIC: Mapping[str, str] = MappingProxyType(
    {
        "aten::add.int": "+",
        "aten::sub.int": "-",
        "aten::mul.int": "*",
        "aten::floordiv.int": "//",
    }
)
"""Ops on numbers that mean what Python's operators mean, so that sizes may vary."""


def _op(vm: VM, node: Any, given: Sequence[Value]) -> Sequence[Value]:
    op, name = _overload(vm, node)
    if name in _ARITHMETIC and any(isinstance(each, Number) for each in given):
        return (vm.binary(_ARITHMETIC[name], *given),)
    known = schema(op)
    if all(str(each.type) in _NUMBERS for each in (*known.arguments, *known.returns)):
        return (_folded(vm, op, name, given),)
    if not known.returns or not all(str(each.type) in _OF_TENSORS for each in known.returns):
        _refuse(vm, name)
    values = [_converted(vm, *pair) for pair in zip(known.arguments, given, strict=True)]
    positional = sum(not each.kwarg_only for each in known.arguments)
    named = {
        each.name: value
        for each, value in zip(known.arguments[positional:], values[positional:], strict=True)
        if not vm.same(value, NONE)
    }
    result = vm.op(op, tuple(values[:positional]), named)
    return (result,) if len(known.returns) == 1 else vm.unpack(result)


def _overload(vm: VM, node: Any) -> tuple[OpOverload, str]:
    """The op that a node calls, and its name."""
    library, _, name = node.kind().partition("::")
    full = node.schema().partition("(")[0]
    found = getattr(torch.ops.aten, name, None) if library == "aten" else None
    op = getattr(found, full.partition(".")[2] or "default", None)
    if not isinstance(op, OpOverload):
        _refuse(vm, node.kind())
    return op, full


_OF_TENSORS = ("Tensor", "List[Tensor]")


def _folded(vm: VM, op: OpOverload, name: str, given: Sequence[Value]) -> Value:
    """An op on numbers and strings alone."""
    if not constants.foldable(vm, tuple(given), {}):
        _refuse(vm, name)
    try:
        return Constant(op(*(constants.python_value(vm, each) for each in given)))
    except (RuntimeError, TypeError, ArithmeticError):
        _refuse(vm, "what raises")


_NUMBERS = ("int", "float", "bool", "number", "Scalar", "str")

_DTYPES: Mapping[int, torch.dtype] = MappingProxyType(
    {
        0: torch.uint8,
        1: torch.int8,
        2: torch.int16,
        3: torch.int32,
        4: torch.int64,
        5: torch.float16,
        6: torch.float32,
        7: torch.float64,
        9: torch.complex64,
        10: torch.complex128,
        11: torch.bool,
        15: torch.bfloat16,
    }
)
_CODES: Mapping[str, Mapping[int, object]] = MappingProxyType(
    {
        "ScalarType": _DTYPES,
        "Layout": MappingProxyType({0: torch.strided}),
        "MemoryFormat": MappingProxyType(
            {
                0: torch.contiguous_format,
                1: torch.preserve_format,
                2: torch.channels_last,
                3: torch.channels_last_3d,
            }
        ),
    }
)
"""What TorchScript's numbers stand for."""


def _converted(vm: VM, argument: Any, value: Value) -> Value:
    """An argument of an op, of which TorchScript may have only the code."""
    kind = str(argument.real_type).removeprefix("Optional[").removesuffix("]")
    codes = _CODES.get(kind)
    if codes is None or not isinstance(value, Constant) or value.value is None:
        return value
    code = value.value
    if not isinstance(code, int) or code not in codes:
        _refuse(vm, f"the {kind} {code}")
    return Constant(codes[code])
