"""The rules of the house that no linter knows: sizes, state, import cycles, and doors to libraries.

An import inside a function counts like one at the top: hiding an import does not break a cycle.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "jitpkg").rglob("*.py"))

LONGEST_FILE = 600

DOORS = {
    "bytecode": ("jitpkg.rewriter",),
    "llvmlite": ("jitpkg.native",),
    "platformdirs": ("jitpkg.codegen.cache",),
    "torch._dynamo": (),
    "torch._inductor": ("jitpkg.codegen",),
    "torch._subclasses": ("jitpkg.facts",),
}
"""Which rooms may import a library."""

STATE: frozenset[str] = frozenset()
"""The containers that modules fill while running, as "file:name"; each needs a reason there."""

EMPTY_CONTAINERS = frozenset(
    {"Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary"}
    | {"defaultdict", "deque", "dict", "list", "set"}
)


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def shown(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(file): file for file in FILES}


def imported(file: Path) -> Iterator[str]:
    """Every module or name that a file imports, in functions too, by its absolute name."""
    for node in ast.walk(tree(file)):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{alias.name}" for alias in node.names)


def module_of(name: str) -> str | None:
    """The module of ours that `name` is, or is defined in."""
    parent = name.rpartition(".")[0]
    return next((known for known in (name, parent) if known in MODULES), None)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize("folder", ["jitpkg", "tests", "benchmarks", "examples", "docs"])
def test_no_file_is_long(folder: str) -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for file in (ROOT / folder).rglob("*.py")
    }
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_no_global_statement(file: Path) -> None:
    lines = [node.lineno for node in ast.walk(tree(file)) if isinstance(node, ast.Global)]
    assert not lines, f"`global` in {shown(file)}, lines {lines}: pass state as a parameter"


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_imports_are_absolute(file: Path) -> None:
    froms = (node for node in ast.walk(tree(file)) if isinstance(node, ast.ImportFrom))
    assert not [node.lineno for node in froms if node.level]


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_each_library_has_one_door(file: Path) -> None:
    wrong = [
        name
        for name in imported(file)
        for library, rooms in DOORS.items()
        if within(name, library) and not any(within(module_name(file), room) for room in rooms)
    ]
    assert not wrong, f"{shown(file)} must not import {wrong}"


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_modules_hold_no_state(file: Path) -> None:
    """An empty container at module level is there to be filled: state that nobody passes."""
    found = {f"{shown(file)}:{name}" for name in empty_containers(tree(file))}
    assert found <= STATE, f"module-level state: {sorted(found - STATE)}"


def empty_containers(module: ast.Module) -> Iterator[str]:
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_empty(value):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if is_empty(
                value
            ):
                yield name


def is_empty(value: ast.expr) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
            return name in EMPTY_CONTAINERS and (not args or name == "defaultdict")
        case ast.Call(func=ast.Subscript(value=container), args=args, keywords=keywords):
            return is_empty(ast.Call(container, args, keywords))
        case _:
            return False


def test_no_import_cycle() -> None:
    edges = {
        name: {of for used in imported(file) if (of := module_of(used)) and of != name}
        for name, file in MODULES.items()
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))
