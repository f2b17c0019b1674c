"""Lists, dicts, sets and deques: what is in them, and what changes them.

A container that exists is read only as far as the program looks; a change is noted on the heap and,
where the container exists, in the effect log as the very operation.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from jitpkg.guards.kinds import Has, HasAt, KeysAre, LengthIs
from jitpkg.guards.sources import Attr, BaseItem, Held, Item, ItemAt, Source, dictionary_of
from jitpkg.guards.special import special
from jitpkg.tracer import classes, reasons
from jitpkg.tracer.effects import CallMethod, DeleteItem, SetItem
from jitpkg.tracer.heap import Entries, Entry, Items, Key
from jitpkg.tracer.keys import UNNAMED, existing_key, is_constant, key_of, source_key
from jitpkg.tracer.values import (
    UNBOUND,
    Constant,
    DictView,
    Function,
    InstanceDict,
    Object,
    Tensor,
    Tuple,
    Value,
)
from jitpkg.tracer.vm import VM, Raised

# New containers


def new_list(vm: VM, items: Sequence[Value], cls: type = list) -> Object:
    made = Object(cls)
    vm.heap.write(made, "items", Items(tuple(items)))
    return made


def new_dict(vm: VM, items: Sequence[tuple[Value, Value]], cls: type = dict) -> Object:
    made = Object(cls)
    vm.heap.write(made, "entries", Entries())
    for key, value in items:
        set_item(vm, made, key, value)
    return made


def new_set(vm: VM, items: Sequence[Value], cls: type = set) -> Object:
    made = Object(cls)
    vm.heap.write(made, "entries", Entries())
    for item in items:
        add(vm, made, item)
    return made


def base_class(cls: type) -> type | None:
    """The builtin container class whose layout instances of `cls` have."""
    for base in (list, collections.OrderedDict, dict, set, frozenset, collections.deque):
        if issubclass(cls, base):
            return base
    return None


# Lists and deques


def _list_state(vm: VM, value: Object) -> Items:
    state = vm.heap.read(value, "items")
    if state is None:
        limit = value.obj.maxlen if isinstance(value.obj, collections.deque) else None
        state = Items(unread=value.obj is not None, limit=limit)
        if isinstance(value.obj, collections.deque):
            assert value.source is not None
            vm.look(vm.wrap(limit, Attr(value.source, "maxlen")))
            vm.heap.write(value, "items", state)
            return _read_list(vm, value, state)
        vm.heap.write(value, "items", state)
    return state


def _read_list(vm: VM, value: Object, state: Items) -> Items:
    """Read what an existing list has: one guard for its length, and a lazy value for each item."""
    base = base_class(value.cls)
    assert value.source is not None and base is not None and isinstance(value.obj, base)
    real: list[Any] = list(special(base, "__iter__")(value.obj))
    exact = value.cls is base
    vm.guard(LengthIs(value.source, len(real), classes.derived_from(value.cls, base)))
    source = value.source
    existing = tuple(
        vm.wrap(item, Item(source, k) if exact else BaseItem(source, k, base))
        for k, item in enumerate(real)
    )
    state = replace(state, items=existing + state.items, unread=False)
    vm.heap.write(value, "items", state)
    return state


def list_items(vm: VM, value: Object) -> tuple[Value, ...]:
    """All items of a list or deque."""
    state = _list_state(vm, value)
    if state.unread:
        state = _read_list(vm, value, state)
    return state.items


def length(vm: VM, value: Object) -> int:
    """How many items a container has; reads no item of an existing one."""
    base = base_class(value.cls)
    assert base is not None
    if base in (list, collections.deque):
        state = _list_state(vm, value)
        if not state.unread:
            return len(state.items)
        assert value.source is not None and isinstance(value.obj, base)
        count: int = special(base, "__len__")(value.obj)
        vm.guard(LengthIs(value.source, count, classes.derived_from(value.cls, base)))
        return count + len(state.items)
    entries = entries_of(vm, value)
    changed = any(e.moved or e.value is UNBOUND for e in entries.entries.values())
    if not entries.unread or changed:
        return len(all_entries(vm, value).entries)
    assert value.source is not None
    number: int = special(base, "__len__")(value.obj)
    vm.guard(LengthIs(value.source, number, classes.derived_from(value.cls, base)))
    return number


def limit(vm: VM, value: Object) -> int | None:
    """A deque's `maxlen`."""
    return _list_state(vm, value).limit


def set_limit(vm: VM, value: Object, maxlen: int | None) -> None:
    """Give a new deque its `maxlen`."""
    vm.heap.write(value, "items", replace(_list_state(vm, value), limit=maxlen))


def set_factory(vm: VM, value: Object, factory: Value) -> None:
    """Give a new defaultdict its `default_factory`."""
    if not vm.same(vm.look(factory), Constant(None)) and not classes.is_callable(vm, factory):
        vm.stop(reasons.RAISES, "a default_factory that cannot be called")
    vm.heap.write(value, "entries", replace(entries_of(vm, value), factory=factory))


def append(vm: VM, value: Object, item: Value) -> None:
    """`list.append` or `deque.append`; what is there already need not be known."""
    state = _list_state(vm, value)
    items = (*state.items, item)
    if state.limit is not None:
        items = items[max(0, len(items) - state.limit) :]
    vm.heap.write(value, "items", replace(state, items=items))
    _note(vm, value, "append", item)


def change_list(
    vm: VM, value: Object, items: Sequence[Value], method: str, *arguments: Value
) -> None:
    """Give a list new items, by the method that does so on an existing one."""
    state = _list_state(vm, value)
    vm.heap.write(value, "items", replace(state, items=tuple(items), unread=False))
    _note(vm, value, method, *arguments)


def _note(vm: VM, value: Object, method: str, *arguments: Value) -> None:
    if value.source is None:
        return
    base = base_class(value.cls)
    assert base is not None
    vm.effect(CallMethod(getattr(base, method), value, arguments))


# Keys


# Dicts and sets


def entries_of(vm: VM, value: Object) -> Entries:
    """What is known of a dict's or set's entries."""
    state = vm.heap.read(value, "entries")
    if state is None:
        factory = None
        if isinstance(value.obj, collections.defaultdict):
            assert value.source is not None
            source = Attr(value.source, "default_factory")
            factory = vm.wrap(value.obj.default_factory, source)
        state = Entries(unread=value.obj is not None, factory=factory)
        vm.heap.write(value, "entries", state)
    return state


def all_entries(vm: VM, value: Object, *, ordered: bool = True) -> Entries:
    """Every entry, in order; guards the keys of an existing dict."""
    state = entries_of(vm, value)
    if not state.unread:
        return state
    base = base_class(value.cls)
    assert value.source is not None and base is not None
    real = list(special(base, "__iter__")(value.obj))
    found: dict[Key, Entry] = {}
    names: list[object] = []
    for key in real:
        traced = existing_key(vm, key)
        name = key_of(vm, traced)
        names.append(source_key(vm, traced))
        known = state.entries.get(name)
        if known is None:
            item = traced if base in (set, frozenset) else _existing_item(vm, value, key, base)
            found[name] = Entry(traced, item)
        elif known.value is not UNBOUND and not known.moved:
            # It keeps its key, whichever equal one it was found by.
            item = traced if base in (set, frozenset) else known.value
            found[name] = replace(known, key=traced, value=item)
    for name, entry in state.entries.items():
        if name not in found and entry.value is not UNBOUND:
            found[name] = entry
    if any(name is UNNAMED for name in names):
        vm.stop(reasons.UNSUPPORTED, "a dict with keys that cannot be found again")
    vm.guard(KeysAre(value.source, tuple(names), base, exact=value.cls is base))
    state = replace(state, entries=MappingProxyType(found), unread=False)
    vm.heap.write(value, "entries", state)
    return state


def _existing_item(vm: VM, value: Object, key: object, base: type) -> Value:
    assert value.source is not None
    name: object = key if is_constant(key) else Held(key)
    source: Source = BaseItem(value.source, name, base)
    if value.cls in (dict, collections.OrderedDict):
        source = Item(value.source, name)
    return vm.wrap(special(base, "__getitem__")(value.obj, key), source)


def _item_of_tensor(vm: VM, value: Object, key: Tensor, real: object) -> Value:
    """What an existing dict has under a tensor, which is found by its path: no guard says that it
    is this very one, so an entry fits other models, too."""
    if value.cls not in (dict, collections.OrderedDict, collections.defaultdict):
        vm.stop(reasons.UNSUPPORTED, f"a {value.cls.__qualname__} with tensors as keys")
    assert value.source is not None and key.source is not None
    item = special(dict, "__getitem__")(value.obj, real)
    return vm.wrap(item, ItemAt(value.source, key.source))


def find(vm: VM, value: Object, key: Value) -> Value | None:
    """The value under a key, or None; reads no more of an existing dict than this key."""
    name = key_of(vm, key)
    state = entries_of(vm, value)
    entry = state.entries.get(name)
    if entry is not None:
        return None if entry.value is UNBOUND else entry.value
    if not state.unread:
        return None
    named = source_key(vm, key)
    if value.source is None or named is UNNAMED:
        entry = all_entries(vm, value).entries.get(name)
        return entry.value if entry else None
    base = base_class(value.cls)
    assert base is not None
    key = vm.look(key)
    real_key = named.obj if isinstance(named, Held) else named
    if isinstance(key, Tensor):
        real_key = vm.graph.example(key.node)
    present = special(base, "__contains__")(value.obj, real_key)
    builtin = classes.derived_from(value.cls, base)
    if isinstance(key, Tensor):
        assert key.source is not None
        vm.guard(HasAt(value.source, key.source, present, builtin))
    else:
        vm.guard(Has(value.source, named, present, builtin))
    if not present or base in (set, frozenset):
        found: Value = key if present else UNBOUND
    elif isinstance(key, Tensor):
        found = _item_of_tensor(vm, value, key, real_key)
    else:
        found = _existing_item(vm, value, real_key, base)
    vm.heap.write(value, "entries", state.with_entry(name, Entry(key, found)))
    return None if found is UNBOUND else found


def has_key(vm: VM, value: Object, key: Value) -> bool:
    return find(vm, value, key) is not None


def set_item(vm: VM, value: Object, key: Value, new: Value) -> None:
    """`dict.__setitem__`."""
    name = key_of(vm, key)
    present = find(vm, value, key) is not None
    state = entries_of(vm, value)
    if present:
        old = state.entries[name]
        vm.heap.write(value, "entries", state.with_entry(name, replace(old, value=new)))
    else:
        entry = Entry(key, new, moved=True)
        vm.heap.write(value, "entries", state.with_entry(name, entry, last=True))
    if value.source is not None:
        vm.effect(SetItem(value, key, new, _item_class(value)))


def delete_item(vm: VM, value: Object, key: Value) -> None:
    """`dict.__delitem__` of a key that is there."""
    _forget(vm, value, key)
    if value.source is not None:
        vm.effect(DeleteItem(value, key, _item_class(value)))


def _item_class(value: Object) -> type:
    base = base_class(value.cls)
    assert base is not None
    return base


def _forget(vm: VM, value: Object, key: Value) -> None:
    name = key_of(vm, key)
    state = entries_of(vm, value)
    new = state.with_entry(name, Entry(key, UNBOUND)) if state.unread else state.without(name)
    new = replace(new, added=False, removals=state.removals + 1)
    vm.heap.write(value, "entries", new)


def add(vm: VM, value: Object, item: Value) -> None:
    """`set.add`."""
    if find(vm, value, item) is None:
        state = entries_of(vm, value)
        entry = Entry(item, item, moved=True)
        new = state.with_entry(key_of(vm, item), entry, last=True)
        vm.heap.write(value, "entries", new)
    if value.source is not None:
        vm.effect(CallMethod(set.add, value, (item,)))


def remove(vm: VM, value: Object, item: Value, method: object) -> None:
    """Take an element that is there out of a set."""
    _forget(vm, value, item)
    if value.source is not None:
        vm.effect(CallMethod(method, value, (item,)))


def replace_entries(
    vm: VM, value: Object, entries: Sequence[Entry], method: object, *arguments: Value
) -> None:
    """Give a dict or set new entries, by the method that does so on an existing one."""
    state = entries_of(vm, value)
    found = {key_of(vm, entry.key): entry for entry in entries}
    removals = state.removals + 1
    new = replace(state, entries=MappingProxyType(found), unread=False, removals=removals)
    vm.heap.write(value, "entries", new)
    if value.source is not None:
        vm.effect(CallMethod(method, value, arguments))


def dict_items(vm: VM, value: Object) -> list[tuple[Value, Value]]:
    """Keys and values of a dict, in order."""
    entries = all_entries(vm, value).entries.values()
    return [(entry.key, entry.value) for entry in entries]


def elements(vm: VM, value: Object) -> list[Value]:
    """Elements of a set, in the order in which it is walked."""
    if value.source is not None:
        entries = vm.heap.read(value, "entries")
        if entries is not None and any(entry.moved for entry in entries.entries.values()):
            vm.stop(reasons.UNORDERED)
        return [entry.key for entry in all_entries(vm, value).entries.values()]
    entries = all_entries(vm, value)
    if len(entries.entries) < 2:
        return [entry.key for entry in entries.entries.values()]
    return _walked(vm, entries)


def mark_reordered(vm: VM, value: Object) -> Object:
    """Note that a new set was not made by adding its elements one after the other."""
    vm.heap.write(value, "entries", replace(entries_of(vm, value), added=False))
    return value


def _walked(vm: VM, entries: Entries) -> list[Value]:
    """A new set of constants is walked as a real one, made in the same way, would be."""
    by_constant: dict[object, Value] = {}
    for entry in entries.entries.values():
        key = vm.look(entry.key)
        if not isinstance(key, Constant):
            vm.stop(reasons.UNORDERED, "the order of a set of objects")
        by_constant[key.value] = entry.key
    order = _order(by_constant)
    if not entries.added:
        backwards = dict.fromkeys(reversed(by_constant))
        if order != _order(backwards) or order != _order(by_constant, spare=len(order) * 8):
            vm.stop(reasons.UNORDERED, "the order of a set that was made from others")
    return [by_constant[constant] for constant in order]


def _order(constants: Iterable[object], spare: int = 0) -> list[object]:
    """How a set is walked to which these were added, in a table that had room for some more."""
    real: set[object] = {("spare", k) for k in range(spare)}
    real.difference_update(tuple(real))
    for constant in constants:
        real.add(constant)
    return list(real)


# What several kinds have in common


def mapping_items(vm: VM, value: Value) -> list[tuple[Value, Value]]:
    """Keys and values of a mapping, as `**mapping` and `dict.update` take them."""
    value = vm.look(value)
    match value:
        case Object(cls) if issubclass(cls, dict) and _walks_plainly(vm, cls):
            return dict_items(vm, value)
        case InstanceDict():
            return instance_items(vm, value)
        case Object() if vm.method_of_class(value, "keys") is not None:
            keys = vm.unpack(vm.call(vm.attribute(value, "keys"), ()))
            get = vm.attribute(value, "__getitem__")
            return [(key, vm.call(get, (key,))) for key in keys]
    vm.stop(reasons.RAISES, f"a {vm.class_of(value).__qualname__} where a mapping is expected")


def _walks_plainly(vm: VM, cls: type) -> bool:
    """Whether CPython copies the entries and asks no method: dicts that iterate as dicts do."""
    base = base_class(cls)
    names = ("__iter__", "keys", "__getitem__") if base is collections.OrderedDict else _ITERATES
    return base is not None and classes.inherits(vm, cls, base, *names)


_ITERATES = ("__iter__",)


def instance_items(vm: VM, value: InstanceDict) -> list[tuple[Value, Value]]:
    """All attributes of an object, in the order of its dictionary."""
    of = value.of
    written = vm.written_to_dictionary(of)
    found: dict[str, Value] = {}
    if not isinstance(of, Function) and of.source is not None:
        real: dict[str, object] = object.__getattribute__(of.obj, "__dict__")
        dictionary = dictionary_of(of.source, type(of.obj))
        vm.guard(KeysAre(dictionary, tuple(real)))
        for name, obj in real.items():
            own = written.pop(name) if name in written else vm.wrap(obj, Item(dictionary, name))
            found[name] = own
    found.update(written)
    return [(Constant(n), v) for n, v in found.items() if v is not UNBOUND]


def contains(vm: VM, container: Value, item: Value) -> bool:
    """`item in container`."""
    container = vm.look(container)
    match container:
        case Object(cls) if issubclass(cls, dict | set | frozenset) and _contains_plainly(vm, cls):
            return has_key(vm, container, item)
        case InstanceDict():
            return _has_attribute(vm, container, item)
        case DictView(of, "keys") if isinstance(of, Object):
            return has_key(vm, of, item)
        case DictView(of, "items") if isinstance(of, Object):
            pair = vm.look(item)
            if not isinstance(pair, Tuple) or len(pair.items) != 2:
                return False
            found = find(vm, of, pair.items[0])
            return found is not None and vm.equal(found, pair.items[1])
        case DictView():
            return any(vm.equal(member, item) for member in vm.unpack(container))
        case Object(cls) if issubclass(cls, list | collections.deque) and _contains_plainly(
            vm, cls
        ):
            return any(vm.equal(member, item) for member in list_items(vm, container))
        case Tuple(cls=cls) if classes.inherits(vm, cls, tuple, "__contains__"):
            return any(vm.equal(member, item) for member in container.items)
        case Constant(str() | bytes() | range() as sequence):
            member = vm.look(item)
            if isinstance(member, Constant):
                return vm.truth(vm.call_object(type(sequence).__contains__, container, member))
    method = vm.method_of_class(container, "__contains__")
    if method is not None:
        return vm.truth(vm.call(method, (item,)))
    try:
        iterator = vm.iterate(container)
    except Raised as raised:
        if issubclass(raised.value.cls, TypeError):  # `in` words it in its own way
            vm.stop(reasons.RAISES, "`in` of something that is not iterable")
        raise
    while (member_ := vm.advance(iterator)) is not None:
        if vm.equal(member_, item):
            return True
    return False


def _has_attribute(vm: VM, container: InstanceDict, item: Value) -> bool:
    """`name in vars(o)`: asks for this name only."""
    name = vm.look(item)
    if not isinstance(name, Constant) or type(name.value) is not str:
        return any(vm.equal(key, item) for key, _ in instance_items(vm, container))
    return vm.instance_attribute(container.of, name.value) is not None


def _is_listlike(cls: type) -> bool:
    return issubclass(cls, list | collections.deque)


def _contains_plainly(vm: VM, cls: type) -> bool:
    base = base_class(cls)
    return base is not None and classes.inherits(vm, cls, base, "__contains__")


def unpack_exactly(vm: VM, value: Value, count: int) -> Sequence[Value]:
    """`a, b, c = value`; takes no more than one item too many."""
    iterator = vm.iterate(value)
    items: list[Value] = []
    while len(items) <= count and (item := vm.advance(iterator)) is not None:
        items.append(item)
    if len(items) == count:
        return items
    few = len(items) < count
    got = f", got {len(items)}" if few else ""
    kind = "not enough" if few else "too many"
    vm.raise_new(ValueError, f"{kind} values to unpack (expected {count}{got})")
