"""Every opcode of the running Python is traced, translated away, or refused with a reason."""

import opcode

import pytest

from jitpkg.code.dialect import INTERNAL, INTRINSICS, REFUSED, ROWS, translate
from jitpkg.tracer.opcodes import TABLE

PSEUDO = 256
INSTRUMENTED = "INSTRUMENTED_"

OPCODES = sorted(
    name
    for name, number in opcode.opmap.items()
    if number < PSEUDO and not name.startswith(INSTRUMENTED)
)


@pytest.mark.parametrize("name", OPCODES)
def test_every_opcode_is_decided(name: str) -> None:
    assert (name in ROWS) != (name in INTERNAL)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refusal_has_a_reason(name: str) -> None:
    assert REFUSED[name]


def _operations() -> set[str]:
    """The names of all operations that translating the standard library gives."""
    found = set(INTRINSICS.values())
    for module in (opcode, pytest):
        source = compile(open(module.__file__).read(), module.__file__, "exec")  # noqa: SIM115, PTH123
        todo = [source]
        while todo:
            code = todo.pop()
            found.update(op.name for op in translate(code).ops)
            todo.extend(const for const in code.co_consts if isinstance(const, type(code)))
    return found


def test_every_operation_has_a_handler() -> None:
    assert _operations() <= set(TABLE)


def test_every_handler_is_of_an_operation_of_some_python() -> None:
    translated = {
        "JUMP", "JUMP_IF", "JUMP_OR_POP", "LOAD_LOCAL", "STORE_LOCAL", "DELETE_LOCAL", "TAKE_LOCAL",
        "LOAD_BUILTIN", "LOAD_GLOBAL_CALLEE", "LOAD_SUPER_METHOD", "INPLACE_OP", "FORMAT",
        "REFUSED", "LOAD_METHOD", *INTRINSICS.values(),
    }  # fmt: skip
    assert set(TABLE) <= translated | set(ROWS)
