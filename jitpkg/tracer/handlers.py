"""Whether an exception would be handled where a frame stands."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import cast

from jitpkg.code.dialect import Op
from jitpkg.tracer import namespaces
from jitpkg.tracer.exceptions import may_be_of_op
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.values import Known, Method, Value
from jitpkg.tracer.vm import VM


def handles_op(vm: VM, frame: Frame, *, by_program: bool) -> bool:
    """Whether the frame would handle what an op raises now, other than by leaving torch's own
    contexts."""

    def passes(name: str) -> bool:
        cls = vm.look(namespaces.load_global(vm, frame, name))
        return isinstance(cls, Known) and not may_be_of_op(cls.obj, by_program=by_program)

    return _handles(vm, frame, passes)


def handles_exit(frame: Frame) -> bool:
    """Whether a generator waits inside a `try` or `with` that GeneratorExit would wake up."""

    def passes(name: str) -> bool:
        cls = frame.namespace.get(name, getattr(builtins, name, None))
        return (
            isinstance(cls, type)
            and issubclass(cls, BaseException)
            and not issubclass(GeneratorExit, cls)
        )

    return _handles(None, frame, passes)


def _handles(vm: VM | None, frame: Frame, passes: Callable[[str], bool]) -> bool:
    """
    Args:
        vm: None where leaving torch's own contexts counts.
        passes: whether an `except` clause for the class of this global name lets it pass.
    """
    ops, op = frame.program.ops, frame.program.ops[frame.at - 1]
    while (found := frame.program.handler(op)) is not None:
        at, covered = found
        if ops[at].name == "CONVERT_STOP_ITERATION":
            return False
        if [o.name for o in ops[at : at + 2]] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]:
            if vm is None or not _is_torch_exit(vm, frame.stack[covered.depth - 1]):
                return True
            op = ops[at]
            continue
        end = _passed(ops, at, passes)
        if end is None:
            return True
        op = end
    return False


_CLEANS_UP = ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT", "SWAP", "STORE_LOCAL", "POP_TOP")
"""What the compiler's own handlers do, which restore variables and go on raising."""


def _passed(ops: tuple[Op, ...], at: int, passes: Callable[[str], bool]) -> Op | None:
    """Where a handler raises again what it was not made for; None where it handles it."""
    while ops[at].name != "RERAISE":
        match [op.name for op in ops[at : at + 3]]:
            case ["LOAD_GLOBAL", "CHECK_EXC_MATCH", "JUMP_IF"] if passes(cast(str, ops[at].arg)):
                target = ops[at + 2].target
                assert target is not None
                at = target
            case [name, *_] if name in _CLEANS_UP:
                at += 1
            case _:
                return None
    return ops[at]


def _is_torch_exit(vm: VM, exit_: Value) -> bool:
    """Whether a context's `__exit__` only puts back state that a failing graph puts back anyway."""
    if not isinstance(exit_, Method):
        return False
    function = vm.look(exit_.function)
    return (
        isinstance(function, Known)
        and isinstance(function.obj, types.FunctionType)
        and (function.obj.__module__ or "").startswith(("torch.autograd.grad_mode", "torch.amp"))
    )
