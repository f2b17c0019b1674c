"""What differs between the supported Pythons: one named fact a line; no other version tests."""

import opcode
import sys

PYTHON = sys.version_info[:2]
SUPPORTED = ((3, 11), (3, 12), (3, 13))

NULL_BELOW_CALLABLE = PYTHON <= (3, 12)
"""A call's stack is `NULL, callable, arguments`; from 3.13 on it is `callable, NULL, arguments`."""

HAS_PRECALL = PYTHON == (3, 11)
"""A call is two instructions, PRECALL and CALL."""

UNBOUND_LOAD_CRASHES = PYTHON >= (3, 12)
"""LOAD_FAST of an unbound local is not checked: the interpreter crashes."""

ATTRIBUTE_LOADS_METHODS = PYTHON >= (3, 12)
"""The low bit of LOAD_ATTR's argument makes it a method load; before, LOAD_METHOD was an opcode."""

FOR_ITER_SKIPS_END = PYTHON >= (3, 12)
"""An exhausted FOR_ITER drops the iterator itself and continues behind END_FOR."""

END_FOR_POPS_ONE = PYTHON >= (3, 13)
"""END_FOR pops one value and a POP_TOP behind it pops the iterator; on 3.12 END_FOR pops both."""

SEND_KEEPS_ITERATOR = PYTHON >= (3, 12)
"""A finished SEND leaves the iterator below the result, for END_SEND to pop."""

LOAD_CHECKED = "LOAD_FAST_CHECK" if UNBOUND_LOAD_CRASHES else "LOAD_FAST"
"""The opcode that loads a local and raises UnboundLocalError where it is unbound."""

MOVES = PYTHON >= (3, 12)
"""LOAD_FAST_AND_CLEAR exists: it pushes what a slot holds, be it a cell or NULL, and unbinds it."""

LOAD_CELL = "LOAD_FAST" if PYTHON >= (3, 13) else "LOAD_CLOSURE"
"""The opcode that pushes a cell itself rather than what it holds."""

JUMP_IF = "POP_JUMP_FORWARD_IF_" if PYTHON == (3, 11) else "POP_JUMP_IF_"
"""The stem of the conditional forward jumps."""

ATTRIBUTE_SHIFT = 1 if ATTRIBUTE_LOADS_METHODS else 0
"""LOAD_ATTR's argument is the index of the name, shifted left by this."""

JUMPS_ON_BOOLS = PYTHON >= (3, 13)
"""Conditional jumps take a bool itself: TO_BOOL comes before one on any other object."""

DYNAMO_PASSES_JUMPS = PYTHON <= (3, 12)
"""Dynamo takes it that what stands behind a JUMP_BACKWARD_NO_INTERRUPT may come next."""

SUM_COMPENSATES = PYTHON >= (3, 12)
"""`sum` keeps what adding floats rounds away, and adds it in the end."""

COMPARE_SHIFT = {(3, 11): 0, (3, 12): 4}.get(PYTHON, 5)
"""COMPARE_OP's argument is the index of the operator, shifted left by this."""

COMPARE_EQUAL = {(3, 11): 2, (3, 12): 40}.get(PYTHON, 88)
"""COMPARE_OP's argument, as the compiler makes it for `==` before a conditional jump."""

COMPARE_TO_BOOL = 16 if PYTHON >= (3, 13) else 0
"""The bit of COMPARE_OP's argument that turns the result into a bool."""

HAS_ARGUMENT = frozenset(getattr(opcode, "hasarg", range(opcode.HAVE_ARGUMENT, 256)))
"""Opcodes that take an argument."""

UNWRAP_STOPS_AT_CLASSES = PYTHON >= (3, 13)
"""`inspect.unwrap` does not look at a class's `__wrapped__`."""

_caches = opcode._inline_cache_entries  # type: ignore[attr-defined]
CACHES: tuple[int, ...] = tuple(
    _caches.get(name, 0) if isinstance(_caches, dict) else _caches[number]
    for number, name in enumerate(opcode.opname[:256])
)
"""How many inline cache entries follow each opcode."""
