"""Operators, containers, subscripts, attributes, formatting."""

from __future__ import annotations

from typing import cast

from jitpkg.code.dialect import Op
from jitpkg.code.versions import NULL_BELOW_CALLABLE
from jitpkg.tracer import containers, formatting, matching, readings, reasons, subscripts
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.opcodes.table import OpTable
from jitpkg.tracer.values import NULL, Constant, Object, Reading, Slice, Tuple, Value
from jitpkg.tracer.vm import VM

OPS = OpTable()


# Operators


@OPS.op("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_POSITIVE")
def unary(vm: VM, frame: Frame, op: Op) -> None:
    """value -- result"""
    operator = {"UNARY_NEGATIVE": "-", "UNARY_INVERT": "~", "UNARY_POSITIVE": "+"}[op.name]
    frame.push(vm.unary(operator, frame.pop()))


@OPS.op("UNARY_NOT")
def unary_not(vm: VM, frame: Frame, op: Op) -> None:
    """value -- bool"""
    value = frame.pop()
    if isinstance(value, Reading):
        frame.push(readings.negated(vm, value))
    else:
        frame.push(Constant(not vm.truth(value)))


@OPS.op("TO_BOOL")
def to_bool(vm: VM, frame: Frame, op: Op) -> None:
    """value -- bool"""
    value = frame.pop()
    if isinstance(value, Reading) and frame.program.ops[frame.at].name == "UNARY_NOT":
        frame.push(value)  # that asks itself
    else:
        frame.push(Constant(vm.truth(value)))


@OPS.op("BINARY_OP", "INPLACE_OP")
def binary(vm: VM, frame: Frame, op: Op) -> None:
    """a b -- result"""
    a, b = frame.popn(2)
    frame.push(vm.binary(cast(str, op.arg), a, b, in_place=op.name == "INPLACE_OP"))


@OPS.op("COMPARE_OP")
def compare(vm: VM, frame: Frame, op: Op) -> None:
    """a b -- result"""
    a, b = frame.popn(2)
    frame.push(vm.compare(cast(str, op.arg), a, b))


@OPS.op("IS_OP")
def is_op(vm: VM, frame: Frame, op: Op) -> None:
    """a b -- bool"""
    a, b = frame.popn(2)
    frame.push(Constant(vm.same(a, b) != bool(op.arg)))


@OPS.op("CONTAINS_OP")
def contains_op(vm: VM, frame: Frame, op: Op) -> None:
    """item container -- bool"""
    item, container = frame.popn(2)
    frame.push(Constant(containers.contains(vm, container, item) != bool(op.arg)))


# Subscripts


@OPS.op("BINARY_SUBSCR")
def binary_subscript(vm: VM, frame: Frame, op: Op) -> None:
    """container key -- value"""
    container, key = frame.popn(2)
    frame.push(subscripts.get(vm, container, key))


@OPS.op("BINARY_SLICE")
def binary_slice(vm: VM, frame: Frame, op: Op) -> None:
    """container start stop -- value"""
    container, start, stop = frame.popn(3)
    frame.push(subscripts.get(vm, container, Slice(start, stop, Constant(None))))


@OPS.op("STORE_SUBSCR")
def store_subscript(vm: VM, frame: Frame, op: Op) -> None:
    """value container key --"""
    value, container, key = frame.popn(3)
    subscripts.set_(vm, container, key, value)


@OPS.op("STORE_SLICE")
def store_slice(vm: VM, frame: Frame, op: Op) -> None:
    """value container start stop --"""
    value, container, start, stop = frame.popn(4)
    subscripts.set_(vm, container, Slice(start, stop, Constant(None)), value)


@OPS.op("DELETE_SUBSCR")
def delete_subscript(vm: VM, frame: Frame, op: Op) -> None:
    """container key --"""
    container, key = frame.popn(2)
    subscripts.delete(vm, container, key)


# Attributes


@OPS.op("LOAD_ATTR")
def load_attr(vm: VM, frame: Frame, op: Op) -> None:
    """owner -- value"""
    frame.push(vm.attribute(frame.pop(), cast(str, op.arg)))


@OPS.op("LOAD_METHOD")
def load_method(vm: VM, frame: Frame, op: Op) -> None:
    """owner -- NULL method, or method NULL"""
    method = vm.attribute(frame.pop(), cast(str, op.arg))
    _push_callee(frame, method)


def _push_callee(frame: Frame, value: Value) -> None:
    frame.stack.extend((NULL, value) if NULL_BELOW_CALLABLE else (value, NULL))


@OPS.op("LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD")
def load_super(vm: VM, frame: Frame, op: Op) -> None:
    """super class receiver -- value, or a callee"""
    super_, cls, receiver = frame.popn(3)
    value = vm.attribute(vm.call(super_, (cls, receiver)), cast(str, op.arg))
    if op.name == "LOAD_SUPER_METHOD":
        _push_callee(frame, value)
    else:
        frame.push(value)


@OPS.op("STORE_ATTR")
def store_attr(vm: VM, frame: Frame, op: Op) -> None:
    """value owner --"""
    value, owner = frame.popn(2)
    vm.set_attribute(owner, cast(str, op.arg), value)


@OPS.op("DELETE_ATTR")
def delete_attr(vm: VM, frame: Frame, op: Op) -> None:
    """owner --"""
    vm.delete_attribute(frame.pop(), cast(str, op.arg))


# Building


@OPS.op("BUILD_TUPLE")
def build_tuple(vm: VM, frame: Frame, op: Op) -> None:
    """item … -- tuple"""
    frame.push(Tuple(frame.popn(cast(int, op.arg))))


@OPS.op("BUILD_LIST")
def build_list(vm: VM, frame: Frame, op: Op) -> None:
    """item … -- list"""
    frame.push(containers.new_list(vm, frame.popn(cast(int, op.arg))))


@OPS.op("BUILD_SET")
def build_set(vm: VM, frame: Frame, op: Op) -> None:
    """item … -- set"""
    frame.push(containers.new_set(vm, frame.popn(cast(int, op.arg))))


@OPS.op("BUILD_MAP")
def build_map(vm: VM, frame: Frame, op: Op) -> None:
    """key value … -- dict"""
    items = frame.popn(2 * cast(int, op.arg))
    frame.push(containers.new_dict(vm, list(zip(items[::2], items[1::2], strict=True))))


@OPS.op("BUILD_CONST_KEY_MAP")
def build_const_key_map(vm: VM, frame: Frame, op: Op) -> None:
    """value … keys -- dict"""
    keys = vm.look(frame.pop())
    assert isinstance(keys, Tuple)
    values = frame.popn(cast(int, op.arg))
    frame.push(containers.new_dict(vm, list(zip(keys.items, values, strict=True))))


@OPS.op("BUILD_SLICE")
def build_slice(vm: VM, frame: Frame, op: Op) -> None:
    """start stop [step] -- slice"""
    items = frame.popn(cast(int, op.arg))
    step = items[2] if len(items) == 3 else Constant(None)
    frame.push(Slice(items[0], items[1], step))


@OPS.op("BUILD_STRING")
def build_string(vm: VM, frame: Frame, op: Op) -> None:
    """string … -- string"""
    frame.push(formatting.joined(vm, frame.popn(cast(int, op.arg))))


@OPS.op("FORMAT")
def format_(vm: VM, frame: Frame, op: Op) -> None:
    """value [spec] -- string"""
    conversion, has_spec = cast(tuple[int, bool], op.arg)
    spec = frame.pop() if has_spec else Constant("")
    value = formatting.converted(vm, frame.pop(), conversion)
    frame.push(formatting.formatted(vm, value, spec))


@OPS.op("CONVERT_VALUE")
def convert_value(vm: VM, frame: Frame, op: Op) -> None:
    """value -- string"""
    frame.push(formatting.converted(vm, frame.pop(), cast(int, op.arg)))


def _below(vm: VM, frame: Frame, op: Op) -> Object:
    """The container that a comprehension or a display fills."""
    container = vm.look(frame.stack[-cast(int, op.arg)])
    if not isinstance(container, Object):
        vm.stop(reasons.OPAQUE, "a container below the hook's stack")
    return container


@OPS.op("LIST_APPEND")
def list_append(vm: VM, frame: Frame, op: Op) -> None:
    """list … item -- list …"""
    item = frame.pop()
    containers.append(vm, _below(vm, frame, op), item)


@OPS.op("SET_ADD")
def set_add(vm: VM, frame: Frame, op: Op) -> None:
    """set … item -- set …"""
    item = frame.pop()
    containers.add(vm, _below(vm, frame, op), item)


@OPS.op("MAP_ADD")
def map_add(vm: VM, frame: Frame, op: Op) -> None:
    """dict … key value -- dict …"""
    key, value = frame.popn(2)
    containers.set_item(vm, _below(vm, frame, op), key, value)


@OPS.op("LIST_EXTEND")
def list_extend(vm: VM, frame: Frame, op: Op) -> None:
    """list … iterable -- list …"""
    items = vm.unpack(frame.pop(), hinted=True)
    for item in items:
        containers.append(vm, _below(vm, frame, op), item)


@OPS.op("SET_UPDATE")
def set_update(vm: VM, frame: Frame, op: Op) -> None:
    """set … iterable -- set …"""
    for item in vm.unpack(frame.pop()):
        containers.add(vm, _below(vm, frame, op), item)


@OPS.op("DICT_UPDATE", "DICT_MERGE")
def dict_update(vm: VM, frame: Frame, op: Op) -> None:
    """dict … mapping -- dict …"""
    mapping = frame.pop()
    target = _below(vm, frame, op)
    for key, value in containers.mapping_items(vm, mapping):
        if op.name == "DICT_MERGE" and containers.has_key(vm, target, key):
            vm.stop(reasons.RAISES, "a keyword argument is given twice")
        containers.set_item(vm, target, key, value)


@OPS.op("LIST_TO_TUPLE")
def list_to_tuple(vm: VM, frame: Frame, op: Op) -> None:
    """list -- tuple"""
    frame.push(Tuple(tuple(vm.unpack(frame.pop()))))


# Unpacking


@OPS.op("UNPACK_SEQUENCE")
def unpack_sequence(vm: VM, frame: Frame, op: Op) -> None:
    """iterable -- item …, the first on top"""
    count = cast(int, op.arg)
    frame.stack.extend(reversed(containers.unpack_exactly(vm, frame.pop(), count)))


@OPS.op("UNPACK_EX")
def unpack_ex(vm: VM, frame: Frame, op: Op) -> None:
    """iterable -- item … rest item …, the first on top"""
    before, after = cast(int, op.arg) & 0xFF, cast(int, op.arg) >> 8
    iterator = vm.iterate(frame.pop())
    items: list[Value] = []
    while len(items) < before and (item := vm.advance(iterator)) is not None:
        items.append(item)
    if len(items) == before:
        items += vm.unpack(iterator, hinted=True)
    if len(items) < before + after:
        vm.raise_new(
            ValueError,
            f"not enough values to unpack (expected at least {before + after}, got {len(items)})",
        )
    stop = len(items) - after
    rest = containers.new_list(vm, tuple(items[before:stop]))
    frame.stack.extend(reversed([*items[:before], rest, *items[stop:]]))


# Pattern matching


@OPS.op("GET_LEN")
def get_len(vm: VM, frame: Frame, op: Op) -> None:
    """value -- value length"""
    frame.push(vm.call_object(len, frame.stack[-1]))


@OPS.op("MATCH_MAPPING")
def match_mapping(vm: VM, frame: Frame, op: Op) -> None:
    """value -- value bool"""
    frame.push(Constant(matching.is_mapping(vm, frame.stack[-1])))


@OPS.op("MATCH_SEQUENCE")
def match_sequence(vm: VM, frame: Frame, op: Op) -> None:
    """value -- value bool"""
    frame.push(Constant(matching.is_sequence(vm, frame.stack[-1])))


@OPS.op("MATCH_KEYS")
def match_keys(vm: VM, frame: Frame, op: Op) -> None:
    """mapping keys -- mapping keys values-or-None"""
    keys = vm.look(frame.stack[-1])
    assert isinstance(keys, Tuple)
    frame.push(matching.values_of_keys(vm, frame.stack[-2], keys.items))


@OPS.op("MATCH_CLASS")
def match_class(vm: VM, frame: Frame, op: Op) -> None:
    """value class names -- attributes-or-None"""
    value, cls, names = frame.popn(3)
    frame.push(matching.attributes_of_class(vm, value, cls, vm.look(names), cast(int, op.arg)))
