"""Operators between a tensor and an object of a class with operators of its own.

Python asks one operand, then the other. The tracer has to ask the same ones, each once: what a
user's method does must not be done while it is only looked at what an op would return.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import jitpkg
from tests.portions import portion

LOG: list[str] = []

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
COMPARISONS = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
STATEMENTS = (
    *(f"return a {sign} b" for sign in (BINARY | COMPARISONS).values()),
    *(f"a {sign}= b; return a" for sign in BINARY.values()),
)


class OfTuple(NamedTuple):
    a: int = 1


BASES: dict[str, tuple[type, tuple[Any, ...]]] = {
    "object": (object, ()),
    "NamedTuple": (OfTuple, ()),
    "tuple": (tuple, ((1, 2),)),
    "list": (list, ((1, 2),)),
    "dict": (dict, ()),
    "OrderedDict": (OrderedDict, ()),
    "deque": (deque, ((1, 2),)),
    "set": (set, ((1, 2),)),
    "int": (int, (2,)),
    "float": (float, (2.0,)),
    "complex": (complex, (2.0,)),
    "str": (str, ("a",)),
}


def answered(self: Any, name: str) -> Any:
    return 7


def refused(self: Any, name: str) -> Any:
    return NotImplemented


def raised(self: Any, name: str) -> Any:
    raise KeyError(name)


def class_of(base: type, answer: Callable[[Any, str], Any], own: str) -> Any:
    """A class derived from `base`, all of whose operators note that they were asked, and answer."""

    def method(name: str) -> Any:
        def special(self: Any, other: Any) -> Any:
            LOG.append(f"{name} {type(other).__name__}")
            return answer(self, name)

        return special

    stems = {"forward": [*BINARY, *COMPARISONS], "reflected": [f"r{stem}" for stem in BINARY]}
    stems["in place"] = [f"i{stem}" for stem in BINARY]
    names = [f"__{stem}__" for stem in stems[own]]
    return type("Own", (base,), {name: method(name) for name in names} | {"__hash__": None})


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    LOG.clear()
    try:
        result = f(*args)
    except Exception as error:
        return type(error), str(error), list(LOG)
    return type(result), str(result), list(LOG)


def program(statement: str, first: bool) -> Callable[[Any, Any], Any]:
    """`a` is a tensor that the function computes, or `b` is."""
    made = "a = a + 1" if first else "b = b + 1"
    namespace: dict[str, Any] = {}
    exec(f"def f(a, b):\n    {made}\n    {statement}\n", namespace)
    function: Callable[[Any, Any], Any] = namespace["f"]
    return function


def _pairs(tensor: torch.Tensor, made: Any, args: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    return [(tensor.clone(), made(*args)) for _ in range(2)]


@pytest.mark.parametrize("own", ["forward", "reflected", "in place"])
@pytest.mark.parametrize("answer", [answered, refused, raised])
@pytest.mark.parametrize("base", BASES)
def test_each_method_is_asked_once(base: str, answer: Any, own: str) -> None:
    cls, args = BASES[base]
    made = class_of(cls, answer, own)
    wrong = []
    for statement in portion(STATEMENTS, 3, base, answer.__name__, own):
        for first in (True, False):
            for tensor in (torch.tensor([1, 2]), torch.tensor([1.0, 2.0])):
                f = program(statement, first)
                compiled = jitpkg.compile(f, backend="eager")
                a, b = (pair if first else pair[::-1] for pair in _pairs(tensor, made, args))
                expected, found = outcome(f, *a), outcome(compiled, *b)
                if found != expected:
                    wrong.append((statement, first, tensor.dtype, expected, found))
    assert not wrong, f"{len(wrong)}: {wrong[:6]}"
