"""Who may catch any exception: a signal handler's, too, would be taken for a failure.

A handler of `Exception` asks `from_outside`, or raises again what it caught; or it stands here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.test_house_rules import FILES, shown, tree

COMPILING = "While something is traced or compiled, handlers wait."

ALLOWED = {
    "jitpkg/codegen/aten/prepare.py:_Preparation._by_ops": COMPILING,
    "jitpkg/codegen/triton/ahead.py:_compiled": COMPILING,
    "jitpkg/facts/fake.py:_translated_errors": COMPILING,
    "jitpkg/facts/meta.py:of_call": COMPILING,
    "jitpkg/facts/meta.py:products_compare_sizes": COMPILING,
    "jitpkg/facts/single.py:Singles.of_function": COMPILING,
    "jitpkg/facts/single.py:Singles.of_op": COMPILING,
    "jitpkg/facts/single.py:of_whole_function": COMPILING,
    "jitpkg/guards/explain.py:first_failure": COMPILING,
    "jitpkg/native/selftest.py:_tested": COMPILING,
    "jitpkg/tracer/constants.py:fold": COMPILING,
    "jitpkg/tracer/formatting.py:of_numbers": COMPILING,
    "jitpkg/tracer/rows/messages.py:_is_writable": COMPILING,
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
    found = {f"{shown(file)}:{where}" for file in FILES for where in broad_handlers(tree(file))}
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
