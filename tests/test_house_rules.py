"""The rules of the house that no linter knows: sizes, state, import cycles, and doors to libraries.

An import inside a function counts like one at the top: hiding an import does not break a cycle.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from jitpkg.internals.table import ROWS

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "jitpkg").rglob("*.py"))

LONGEST_FILE = 600

DOORS = {
    "bytecode": ("jitpkg.rewriter",),
    "llvmlite": ("jitpkg.native",),
    "platformdirs": ("jitpkg.codegen.cache",),
}
"""Which rooms may import a library."""

INTERNALS = "jitpkg.internals"
"""The one room that may use what is private to torch."""

OF_PYTHON = frozenset(
    """
    _at_fork_reinit _bisect _co_code_adaptive _count_elements _fields _formatwarnmsg
    _formatwarnmsg_impl _getframe
    _heapq _inline_cache_entries _is_coroutine _log _make _missing_ _module_locks _name_
    _recursive_repr _replace
    _showwarnmsg _showwarnmsg_impl _srcfile _style _value_
    """.split()
)
"""Private names of Python's own library, as far as its documentation or other libraries rely on
them."""

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


PRIVATE = re.compile(r"_(?!_)\w+|__\w+(?<!__)")
PRIVATE_PATH = re.compile(r"\btorch(\.\w+)*\._\w")
BY_NAME = {"attrgetter": 0, "delattr": 1, "getattr": 1, "hasattr": 1, "setattr": 1}
"""Functions that take the name of an attribute, and in which place."""


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_what_is_private_to_torch_is_used_in_one_room(file: Path) -> None:
    if within(module_name(file), INTERNALS):
        return
    found = sorted(set(private_names(tree(file))))
    assert not found, f"{shown(file)}: give it a row in {INTERNALS}: {found}"


def private_names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Imports, attributes and texts that are private, and nobody's here."""
    texts = docstrings(module)
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, n.name) for n in names if PRIVATE_PATH.match(n.name))
            case ast.ImportFrom(module=str(of), names=names):
                paths = [f"{of}.{each.name}" for each in names]
                yield from ((node.lineno, path) for path in paths if PRIVATE_PATH.match(path))
            case ast.Attribute(value=value, attr=name) if not is_own(value, name):
                yield node.lineno, f"{ast.unparse(value)}.{name}"
            case ast.Call(func=ast.Name(id=function), args=args) if function in BY_NAME:
                for arg in args[BY_NAME[function] :][:1]:
                    if isinstance(arg, ast.Constant) and not is_own(args[0], str(arg.value)):
                        yield node.lineno, f"{function}(…, {arg.value!r})"
            case ast.Constant(value=str(text)) if node not in texts and PRIVATE_PATH.search(text):
                yield node.lineno, repr(text)


def docstrings(module: ast.Module) -> set[ast.Constant]:
    statements = (node.value for node in ast.walk(module) if isinstance(node, ast.Expr))
    return {value for value in statements if isinstance(value, ast.Constant)}


def is_own(value: ast.expr, name: str) -> bool:
    """Whether an attribute is public, Python's, or of a class of the package's own."""
    if not PRIVATE.fullmatch(name) or name in OF_PYTHON:
        return True
    of_itself = isinstance(value, ast.Name) and value.id in ("self", "cls")
    return of_itself or name in own_attributes() - of_torch()


@cache
def own_attributes() -> frozenset[str]:
    """Private attributes that classes of the package define."""
    return frozenset(name for file in FILES for name in defined(tree(file)))


def defined(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.ClassDef(body=body):
                yield from (each.name for each in body if isinstance(each, ast.FunctionDef))
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


@cache
def of_torch() -> frozenset[str]:
    """The last parts of the names of rows."""
    return frozenset(row.name.rpartition(".")[2] for row in ROWS)


def test_no_import_cycle() -> None:
    edges = {
        name: {of for used in imported(file) if (of := module_of(used)) and of != name}
        for name, file in MODULES.items()
    }
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        pytest.fail("import cycle: " + " <- ".join(error.args[1]))


def room_of(name: str) -> str:
    """The folder that a module lies in; one of a room's ground floor is a room of its own."""
    parent = name if MODULES[name].stem == "__init__" else name.rpartition(".")[0]
    return name if parent == CODEGEN else parent


CODEGEN = "jitpkg.codegen"


def test_rooms_of_codegen_form_no_circle() -> None:
    arrows: dict[str, set[str]] = {}
    for name, file in MODULES.items():
        if not within(name, CODEGEN):
            continue
        used = {of for each in imported(file) if (of := module_of(each)) and within(of, CODEGEN)}
        arrows.setdefault(room_of(name), set()).update(map(room_of, used))
    for room, others in arrows.items():
        others.discard(room)
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail("rooms in a circle: " + " <- ".join(error.args[1]))


def test_the_ground_floor_of_codegen_is_small() -> None:
    floor = {file.stem for file in (ROOT / "jitpkg" / "codegen").glob("*.py")}
    assert floor == {"__init__", "backend", "backends", "options"}


# Who may catch any exception: a signal handler's, too, would be taken for a failure. A handler of
# `Exception` asks `from_outside`, or raises again what it caught; or it stands here.

COMPILING = "While something is traced or compiled, handlers wait."

ALLOWED = {
    "jitpkg/codegen/aten/prepare.py:_Preparation._by_ops": COMPILING,
    "jitpkg/codegen/triton/ahead.py:_compiled": COMPILING,
    "jitpkg/facts/fake.py:_translating": COMPILING,
    "jitpkg/facts/meta.py:_sure": COMPILING,
    "jitpkg/facts/meta.py:products_compare_sizes": COMPILING,
    "jitpkg/facts/single.py:Singles.of_function": COMPILING,
    "jitpkg/facts/single.py:Singles.of_op": COMPILING,
    "jitpkg/facts/single.py:of_whole_function": COMPILING,
    "jitpkg/guards/explain.py:first_failure": COMPILING,
    "jitpkg/native/selftest.py:_tested": COMPILING,
    "jitpkg/tracer/constants.py:fold": COMPILING,
    "jitpkg/tracer/formatting.py:of_numbers": COMPILING,
    "jitpkg/tracer/rows/messages.py:_is_writable": COMPILING,
    "jitpkg/tracer/polyfills/transforms.py:called": "It is traced, and never runs.",
    "jitpkg/cli.py:_raised_by": "The program has ended by it; the caller shows it.",
    "jitpkg/codegen/backends.py:Registry._loaded": "It raises, and says what it was.",
    "jitpkg/rewriter/failure.py:Failures._op_by_op": "`decide` asks of each exception.",
    "jitpkg/codegen/triton/launch.py:_Entry._fitting": "What is no OutOfResources is raised.",
    "jitpkg/codegen/triton/launch.py:_Entry._fastest": "What is no OutOfResources is raised.",
}
"""By "file:function", with a reason."""

BROAD = {"Exception", "BaseException"}


def broad_handlers(node: ast.AST, where: tuple[str, ...] = ()) -> Iterator[str]:
    """The functions that catch any exception and let none out."""
    for child in ast.iter_child_nodes(node):
        is_named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        inside = (*where, child.name) if is_named else where  # type: ignore[attr-defined]
        if isinstance(child, ast.ExceptHandler) and is_broad(child.type) and not lets_out(child):
            yield ".".join(where)
        is_suppress = isinstance(child, ast.Call) and shown_name(child.func) == "suppress"
        if is_suppress and any(map(is_broad, child.args)):  # type: ignore[attr-defined]
            yield ".".join(where)
        yield from broad_handlers(child, inside)


def shown_name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def is_broad(kind: ast.expr | None) -> bool:
    if kind is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in BROAD for node in ast.walk(kind))


def lets_out(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return True
    return any(
        isinstance(node, ast.If)
        and any(name in ast.unparse(node.test) for name in ("from_outside", "of_handler"))
        and isinstance(node.body[0], ast.Raise)
        for node in handler.body
    )


def test_who_catches_everything_has_a_reason() -> None:
    files = [file for file in FILES if "testing" not in file.parts]  # it runs no user's program
    found = {f"{shown(file)}:{where}" for file in files for where in broad_handlers(tree(file))}
    assert found - set(ALLOWED) == set(), "ask jitpkg.interrupts.from_outside, and raise what is"
    assert set(ALLOWED) - found == set(), "these are gone"


def test_the_rule_sees_what_it_is_about(tmp_path: Path) -> None:
    wrong = """
class A:
    def f():
        try: work()
        except Exception: pass
    def g():
        with contextlib.suppress(BaseException): work()
def h():
    try: work()
    except (ValueError, Exception) as error: raise RuntimeError from error
def i():
    try: work()
    except: return
"""
    right = """
def f():
    try: work()
    except Exception as error:
        if from_outside(error): raise
    try: work()
    except BaseException:
        undo()
        raise
    with suppress(OSError): work()
"""
    assert list(broad_handlers(ast.parse(wrong))) == ["A.f", "A.g", "h", "i"]
    assert list(broad_handlers(ast.parse(right))) == []


def translators(module: ast.Module) -> Iterator[str]:
    """Context managers, made of generators, that raise another exception for one they get."""
    for function in ast.walk(module):
        if not isinstance(function, ast.FunctionDef):
            continue
        if not any("contextmanager" in ast.unparse(each) for each in function.decorator_list):
            continue
        for node in ast.walk(function):
            around = isinstance(node, ast.Try) and any(
                isinstance(each, ast.Yield) for step in node.body for each in ast.walk(step)
            )
            handlers = node.handlers if isinstance(node, ast.Try) else ()
            raised = [
                each
                for handler in handlers
                for each in ast.walk(handler)
                if isinstance(each, ast.Raise) and each.exc
            ]
            if around and raised:
                yield function.name


@pytest.mark.parametrize("file", FILES, ids=shown)
def test_no_generator_translates_exceptions(file: Path) -> None:
    """The first one's traceback would have the generator's frame, that the frame of `__exit__`, and
    that the exception: from Python 3.13 on the cycle keeps all frames, and their objects, alive."""
    assert list(translators(tree(file))) == []


def test_the_rule_of_translators_sees_one() -> None:
    wrong = """
@contextmanager
def f():
    try: yield
    except KeyError as error: raise Missing from error
"""
    right = """
@contextmanager
def f():
    try: yield
    except KeyError: raise
def g():
    try: yield
    except KeyError as error: raise Missing from error
"""
    assert list(translators(ast.parse(wrong))) == ["f"]
    assert list(translators(ast.parse(right))) == []


# Tests


def compared_with_itself(function: ast.AST) -> Iterator[str]:
    """Functions that are compiled in place, and are called afterwards beside what that gave."""
    nodes = list(ast.walk(function))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        for target, value in assigned(node):
            if not isinstance(value, ast.Call) or ast.unparse(value.func) != "jitpkg.jit":
                continue
            if not value.args or not isinstance(value.args[0], ast.Name):
                continue
            given = value.args[0].id
            used = {
                ast.unparse(name)
                for call in calls
                if call.lineno > value.lineno
                for name in (call.func, *call.args)
            }
            if given != target and {given, target} <= used:
                yield f"{given} is {target} from line {value.lineno} on"


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement assigns to, each with what it gets."""
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for name, value in zip(target.elts, node.value.elts, strict=False):
                yield ast.unparse(name), value


@pytest.mark.parametrize("file", sorted((ROOT / "tests").rglob("*.py")), ids=shown)
def test_what_is_compiled_in_place_is_not_what_is_expected(file: Path) -> None:
    """`jitpkg.jit(f)` compiles `f` itself; `jitpkg.compile(f)` leaves it as it is."""
    functions = [node for node in ast.walk(tree(file)) if isinstance(node, ast.FunctionDef)]
    assert not [found for each in functions for found in compared_with_itself(each)]


def test_the_rule_of_expected_results_sees_one() -> None:
    (function,) = ast.parse("""
def test():
    x, compiled = ones(1), jitpkg.jit(f, backend="eager")
    assert compiled(x) == f(x)
""").body
    assert list(compared_with_itself(function)) == ["f is compiled from line 3 on"]
