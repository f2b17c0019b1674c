"""Where names live: cells, globals, builtins, imported modules."""

from __future__ import annotations

import builtins
import sys
from types import CellType, ModuleType

from jitpkg.guards.kinds import CellIsEmpty, Exists, Has, Is, Same
from jitpkg.guards.sources import Attr, Globals, Held, Item
from jitpkg.tracer import reasons
from jitpkg.tracer.effects import SetCell
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.values import UNBOUND, Cell, Constant, Lazy, Object, Tuple, Value
from jitpkg.tracer.vm import VM

_BUILTINS = Held(builtins.__dict__)


def cell_content(vm: VM, cell: Cell) -> Value:
    """What a cell holds, or UNBOUND."""
    content = vm.heap.read(cell, "content")
    if isinstance(content, Lazy):
        vm.guard(Exists(content.source))
    return UNBOUND if content is None else content


def set_cell(vm: VM, cell: Cell, value: Value) -> None:
    """Change what a cell holds."""
    vm.heap.write(cell, "content", value)
    if cell.source is not None:
        vm.effect(SetCell(cell, value))


def existing_cell(vm: VM, cell: Cell, real: CellType) -> Cell:
    """Take note of what an existing cell holds."""
    assert cell.source is not None
    contents = Attr(cell.source, "cell_contents")
    try:
        content = real.cell_contents
    except ValueError:
        vm.guard(CellIsEmpty(cell.source))
        vm.heap.write(cell, "content", UNBOUND)
        return cell
    vm.heap.write(cell, "content", vm.wrap(content, contents))
    return cell


def globals_dict(vm: VM, frame: Frame) -> Object:
    """The frame's globals as a traced dict."""
    value = vm.look(vm.wrap(frame.namespace, frame.globals))
    assert isinstance(value, Object)
    return value


def load_global(vm: VM, frame: Frame, name: str) -> Value:
    """A global or builtin, with guards that it is found where it was."""
    namespace = frame.namespace
    if frame.trusted:
        found = namespace[name] if name in namespace else getattr(builtins, name)
        return vm.trusted(found)
    vm.namespaces.setdefault(id(namespace), frame.globals)
    written = vm.seen.get(id(namespace))
    if isinstance(written, Object):
        assert written.source is not None
        if written.source != frame.globals:
            vm.guard(Same(frame.globals, written.source, same=True))
        entries = vm.heap.read(written, "entries")
        entry = entries.entries.get(name) if entries else None
        if entry is not None:
            return entry.value
    if name in namespace:
        return vm.present(namespace[name], Item(frame.globals, name))
    return _load_builtin(vm, frame, name)


def _load_builtin(vm: VM, frame: Frame, name: str) -> Value:
    namespace = frame.namespace
    own = namespace.get("__builtins__", builtins)
    if own is not builtins and own is not builtins.__dict__:
        vm.stop(reasons.UNSUPPORTED, "a module with builtins of its own")
    if isinstance(frame.globals, Globals):  # another function may share the code
        if "__builtins__" in namespace:
            vm.guard(Is(Item(frame.globals, "__builtins__"), own))
        else:
            vm.guard(Has(frame.globals, "__builtins__", present=False))
    vm.guard(Has(frame.globals, name, present=False))
    if name not in builtins.__dict__:
        vm.guard(Has(_BUILTINS, name, present=False))
        vm.raise_new(NameError, f"name '{name}' is not defined")
    return vm.present(builtins.__dict__[name], Item(_BUILTINS, name))


def store_global(vm: VM, frame: Frame, name: str, value: Value) -> None:
    """`global name; name = value`"""
    if frame.trusted:
        raise AssertionError("a polyfill stores to a global")
    setitem = vm.trusted(dict.__setitem__)
    vm.call(setitem, (globals_dict(vm, frame), Constant(name), value))


def imported(vm: VM, frame: Frame, name: str, level: int, names: Value) -> Value:
    """An import of a module that is loaded already; importing runs its code, which is a break."""
    vm.guard(Is(Item(_BUILTINS, "__import__"), builtins.__import__))
    if level:
        package = frame.namespace.get("__package__")
        if not isinstance(package, str):
            vm.stop(reasons.STATEMENT, "a relative import")
        stem = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{stem}.{name}" if name else stem
    module = loaded(vm, name)
    takes_names = isinstance(names, Tuple) and bool(names.items)
    takes_names = takes_names or (isinstance(names, Constant) and names.value is not None)
    return module if takes_names or level else loaded(vm, name.partition(".")[0])


def loaded(vm: VM, name: str) -> Value:
    """The module of a whole name."""
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        vm.stop(reasons.STATEMENT, f"import of {name}, which is not loaded yet")
    return vm.present(module, Item(Held(sys.modules), name))
