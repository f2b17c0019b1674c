"""Names: globals, builtins, and attributes of Python modules."""

import builtins
import math
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tests.guards.support import X, entries, outcome, seen_and_back, unnoticed

SOURCE = """
import torch, math
K = 2
TABLE = {"scale": 3, "shift": 1}
STACK = [1, 2]
def helper(v): return v + K
def uses_global(x): return x * K
def uses_table(x): return x * TABLE["scale"]
def uses_list(x): return x + STACK[-1]
def uses_builtin(x): return x + abs(-3)
def calls_helper(x): return helper(x)
def uses_module(x): return math.pi * x
def writes_global(x):
    global COUNT
    COUNT = COUNT + 1
    return x + COUNT
"""


def module() -> Any:
    """A fresh module."""
    made: Any = types.ModuleType("fresh")
    exec(SOURCE, vars(made))
    return made


@contextmanager
def patched(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


# Globals


@seen_and_back
def test_global_rebound(C):
    m = module()
    f = C(m.uses_global)
    yield f(X)
    m.K = 5
    yield f(X)
    m.K = 2
    yield f(X)


@seen_and_back
def test_global_becomes_another_class(C):
    m = module()
    f = C(m.uses_global)
    yield f(X.int())
    m.K = 2.0
    yield f(X.int())
    m.K = 2
    yield f(X.int())


@seen_and_back
def test_global_deleted_and_set_again(C):
    m = module()
    f = C(m.uses_global)
    yield f(X)
    del m.K
    yield outcome(f, X)
    m.K = 2
    yield f(X)


@entries(None)
def test_global_read_and_not_used(C):
    m = module()
    m.__dict__["ignore"] = lambda v, k: v + 1
    exec("def f(x): return ignore(x, K)", vars(m))
    f = C(m.f)
    yield f(X)
    del m.K
    yield outcome(f, X)


@entries(None)
def test_module_attribute_read_and_not_used(C):
    m = module()
    f = C(lambda x: (m.K, x + 1)[1])
    yield f(X)
    del m.K
    yield outcome(f, X)


@entries(1, 1, 1)
def test_global_rebound_to_an_equal_constant(C):
    m = module()
    f = C(m.uses_global)
    yield f(X)
    m.K = int("2")
    yield f(X)
    vars(m)["unrelated"] = 1
    yield f(X)


@seen_and_back
def test_value_in_a_global_dict(C):
    m = module()
    f = C(m.uses_table)
    yield f(X)
    m.TABLE["scale"] = 4
    yield f(X)
    m.TABLE = {"scale": 3}
    yield f(X)


@unnoticed
def test_other_values_of_a_global_dict(C):
    m = module()
    f = C(m.uses_table)
    yield f(X)
    m.TABLE["shift"] = 4
    m.TABLE["new"] = 4
    yield f(X)


@seen_and_back
def test_global_list_grows_and_shrinks(C):
    m = module()
    f = C(m.uses_list)
    yield f(X)
    m.STACK.append(7)
    yield f(X)
    m.STACK.pop()
    yield f(X)


@seen_and_back
def test_global_function_rebound(C):
    m = module()
    f, helper = C(m.calls_helper), m.helper
    yield f(X)
    m.helper = lambda v: v - 1
    yield f(X)
    m.helper = helper
    yield f(X)


@seen_and_back
def test_global_of_a_callee_rebound(C):
    m = module()
    f = C(m.calls_helper)
    yield f(X)
    m.K = 5
    yield f(X)
    m.K = 2
    yield f(X)


@seen_and_back
def test_global_function_that_is_no_function_any_more(C):
    m = module()
    f, helper = C(m.calls_helper), m.helper
    yield f(X)
    m.helper = None
    yield outcome(f, X)
    m.helper = helper
    yield f(X)


@entries(1, 2, 2)
def test_global_that_the_function_itself_changes(C):
    m = module()
    m.COUNT = 0
    f = C(m.writes_global)
    for _ in range(3):
        yield f(X), m.COUNT


@entries(1, 2, 2, 2)
def test_one_code_with_other_globals(C):
    """A copy of a compiled function runs with globals of its own."""
    m = module()
    f = C(m.uses_global)
    yield f(X)
    other = types.FunctionType(f.__code__, {**vars(m), "K": 7}, "other")
    yield other(X)
    yield f(X)
    yield other(X)


# Builtins


@seen_and_back
def test_builtin_shadowed_by_a_global(C):
    m = module()
    f = C(m.uses_builtin)
    yield f(X)
    m.abs = lambda v: 100
    yield f(X)
    del m.abs
    yield f(X)


@seen_and_back
def test_builtin_patched(C):
    m = module()
    f = C(m.uses_builtin)
    yield f(X)
    with patched(builtins, "abs", lambda v: 100):
        yield f(X)
    yield f(X)


@seen_and_back
def test_builtin_that_generated_code_uses_patched(C):
    def f(x, k):
        return x + len(k)

    f, real, k = C(f), len, [1, 2]
    yield f(X, k)
    with patched(builtins, "len", lambda v: 100 if v is k else real(v)):
        yield f(X, k)
    yield f(X, k)


@unnoticed
def test_builtin_that_only_generated_code_uses_patched(C):
    def f(x, k):
        return x + k[0]

    f = C(f)
    yield f(X, [1, 2])
    with patched(builtins, "len", lambda v: 100), patched(builtins, "id", lambda v: 1):
        yield f(X, [1, 2])


@seen_and_back
def test_builtin_added(C):
    """A name that is nowhere, until somebody adds it to the builtins."""

    def f(x):
        try:
            return x + added_builtin
        except NameError:
            return x - 1

    f = C(f)
    yield f(X)
    builtins.added_builtin = 5
    try:
        yield f(X)
    finally:
        del builtins.added_builtin
    yield f(X)


# Attributes of modules


@seen_and_back
def test_torch_function_patched(C):
    f = C(lambda x: torch.sin(x))
    yield f(X)
    with patched(torch, "sin", torch.cos):
        yield f(X)
    yield f(X)


@seen_and_back
def test_functional_patched(C):
    f = C(lambda x: torch.nn.functional.relu(x - 1))
    yield f(X)
    with patched(torch.nn.functional, "relu", lambda v: v + 7):
        yield f(X)
    yield f(X)


@seen_and_back
def test_tensor_method_patched(C):
    f = C(lambda x: x.sin())
    yield f(X)
    torch.Tensor.sin = lambda self: self + 7
    try:
        yield f(X)
    finally:
        del torch.Tensor.sin
    yield f(X)


@seen_and_back
def test_tensor_operator_patched(C):
    f = C(lambda x: x + 1)
    add = torch.Tensor.__add__
    yield f(X)
    with patched(torch.Tensor, "__add__", lambda self, other: add(self, 7)):
        yield f(X)
    yield f(X)


@seen_and_back
def test_module_constant_changed(C):
    m = module()
    f = C(lambda x: x * m.K)
    yield f(X)
    m.K = 5
    yield f(X)
    m.K = 2
    yield f(X)


@seen_and_back
def test_function_of_a_user_module_replaced(C):
    m = module()
    f, helper = C(lambda x: m.helper(x)), m.helper
    yield f(X)
    m.helper = lambda v: v - 1
    yield f(X)
    m.helper = helper
    yield f(X)


@seen_and_back
def test_standard_library_patched(C):
    m = module()
    f = C(m.uses_module)
    yield f(X)
    with patched(math, "pi", 3):
        yield f(X)
    yield f(X)


@seen_and_back
def test_module_attribute_deleted(C):
    m = module()
    f = C(lambda x: x * m.K)
    yield f(X)
    del m.K
    yield outcome(f, X)
    m.K = 2
    yield f(X)


@seen_and_back
def test_module_attribute_appears(C):
    m = module()
    f = C(lambda x: x + getattr(m, "flag", 0))
    yield f(X)
    m.flag = 5
    yield f(X)
    del m.flag
    yield f(X)


@seen_and_back
def test_module_replaced_in_sys_modules(C):
    def f(x):
        import jitpkg_test_module  # noqa: PLC0415

        return x * jitpkg_test_module.K

    first, second = module(), module()
    second.K = 9
    f = C(f)
    try:
        sys.modules["jitpkg_test_module"] = first
        yield f(X)
        sys.modules["jitpkg_test_module"] = second
        yield f(X)
        sys.modules["jitpkg_test_module"] = first
        yield f(X)
    finally:
        sys.modules.pop("jitpkg_test_module", None)


@seen_and_back
def test_module_swapped_in_a_global(C):
    m, n = module(), module()
    n.K = 9
    namespace = {"m": m}
    exec("def f(x): return x * m.K", namespace)
    f: Callable[..., Any] = C(namespace["f"])
    yield f(X)
    namespace["m"] = n
    yield f(X)
    namespace["m"] = m
    yield f(X)


@entries(1, 3, 3)
def test_class_of_a_module_swapped(C):
    class Lazily(types.ModuleType):
        @property
        def computed(self):
            return 9

    m = module()
    f = C(lambda x: x + getattr(m, "computed", 1))
    yield f(X)
    m.__class__ = Lazily
    yield f(X)
    m.__class__ = types.ModuleType
    yield f(X)


@seen_and_back
def test_module_getattr_added(C):
    """A module's own `__getattr__` serves what is not there."""
    m = module()
    f = C(lambda x: x + getattr(m, "missing", 1))
    yield f(X)
    m.__getattr__ = lambda name: 9
    yield f(X)
    del m.__getattr__
    yield f(X)
