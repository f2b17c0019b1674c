"""Branches on data of which one way is guessed: the trace goes on there.

What the branch looks at becomes a result of the graph. The entry looks at it when the graph has
run, and before anything else happens: where the program goes the other way, nothing has happened
yet, and the original code runs. So nothing in the graph may be seen by others, or do harm where the
guess was wrong: it writes to no tensor that was there before, and random streams are set back.

A guess is made where one way ends in a `raise`, as it does for an assertion or a check of
arguments, and where the program has gone the same way again and again: see `History`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

import torch
from torch import Tag

from jitpkg.code.dialect import Program
from jitpkg.facts.outcome import Outcome
from jitpkg.facts.random_streams import can_be_set_back
from jitpkg.facts.tensor import TensorFacts
from jitpkg.tracer import reasons
from jitpkg.tracer.frames import Frame
from jitpkg.tracer.region import Left
from jitpkg.tracer.values import Constant, Reading, Tensor
from jitpkg.tracer.vm import VM, Branch, Guess, Undecided

_FORCED = 16
"""So many guesses a test asks for in a trace."""

_MOST = 64
"""So many guesses are made in a trace: each is a result that is looked at in each call."""


def truth(vm: VM, asked: Tensor | Reading) -> bool | None:
    """The guessed truth of a tensor with one element, or of a number that is read of one, by which
    the program jumps now or next; None where nothing is guessed."""
    vm.undecided = None
    frame = vm.frames[-1]
    at = _jump(frame)
    if at is None or not _may_guess(vm):
        return None
    branch = frame.program.code, frame.program.ops[at].index
    if branch in vm.history.missed:
        return None
    way, other_raises = _guess(vm, frame.program, at, branch)
    if way is None:
        if branch not in vm.history.usual:  # else its way is known, and cannot be guessed here
            vm.undecided = Undecided(branch, (asked,), _comparison(frame))
        return None
    vm.guesses.append(Guess(asked, way, branch, vm.stack_here(), other_raises))
    return way


def expected(vm: VM, tensor: Tensor) -> bool:
    """Whether the trace may go on as if a tensor with one element were true, past the instruction
    that is being executed: the original code executes it where the tensor is not."""
    frame = vm.frames[-1]
    branch = frame.program.code, frame.program.ops[frame.at - 1].index
    if not _may_guess(vm) or branch in vm.history.missed:
        return False
    vm.guesses.append(Guess(tensor, True, branch, vm.stack_here(), False))
    return True


def _jump(frame: Frame) -> int | None:
    """The conditional jump of which a truth is asked: it is executed, or it comes next."""
    ops, at = frame.program.ops, frame.at - 1
    at += ops[at].name == "CALL"  # of `bool`
    at += ops[at].name == "TO_BOOL"
    return at if ops[at].name == "JUMP_IF" and ops[at].arg in ("TRUE", "FALSE") else None


def _comparison(frame: Frame) -> str | None:
    """The comparison that is one instruction with the question for its truth, as from 3.13 on."""
    truth, before = frame.program.ops[frame.at - 1], frame.program.ops[frame.at - 2]
    is_one = before.name == "COMPARE_OP" and before.index == truth.index
    return str(before.arg) if is_one else None


def _may_guess(vm: VM) -> bool:
    """Whether the original code could begin again, after what the graph has done until here."""
    if not vm.options.speculate or vm.checkpoint is None or len(vm.guesses) >= _MOST:
        return False
    return not vm.has_written and all(map(can_be_set_back, vm.drawn))


def _guess(vm: VM, program: Program, at: int, branch: Branch) -> tuple[bool | None, bool]:
    """The truth by which the program goes the way that is guessed, and whether the other raises."""
    made, bits = len(vm.guesses), vm.options.disturbance.guess
    if bits is not None:
        return (bool(bits >> made & 1) if made < _FORCED else None), False
    jump = program.ops[at]
    assert jump.target is not None
    by_jumping, by_staying = _raises(program, jump.target), _raises(program, at + 1)
    if by_jumping is not by_staying:
        return by_staying is (jump.arg == "TRUE"), True
    if any(guess.branch == branch for guess in vm.guesses):
        return None, False  # a loop is not unrolled by guesses
    return vm.history.usual.get(branch), False


@lru_cache(maxsize=1024)
def _raises(program: Program, at: int) -> bool:
    """Whether every way from an operation ends in a `raise`, without a loop or a return."""
    seen, ways = set[int](), [at]
    while ways:
        at = ways.pop()
        if at in seen:
            return False
        while True:
            seen.add(at)
            op = program.ops[at]
            if op.name == "RAISE_VARARGS":
                break
            if op.name in _LEAVING or (op.target is not None and op.target <= at):
                return False
            if op.name == "JUMP":
                assert op.target is not None
                at = op.target
                continue
            if op.target is not None:
                ways.append(op.target)
            at += 1
    return True


_LEAVING = frozenset({"RETURN_VALUE", "YIELD_VALUE", "FOR_ITER", "SEND", "RERAISE", "REFUSED"})


def undecided(vm: VM, left: Left) -> Undecided | None:
    """The branch at which a trace has ended, if the program is left just where it looks at the
    tensor, or compares what it looks at: entries can do that, too."""
    found = vm.undecided
    if found is None or left.graph_break.reason is not reasons.DATA_BRANCH:
        return None
    stack = [left.stack, *(inner.stack for inner in left.continuations())][-1]
    if stack[-1:] == found.operands:
        return replace(found, compared=None)
    compared = stack[-2:]
    if found.compared is None or not all(
        isinstance(v, Tensor | Reading | Constant) for v in compared
    ):
        return None
    return replace(found, operands=compared)


# What comes after a guess


def check_op(vm: VM, name: str, tensors: Sequence[Tensor], outcome: Outcome) -> None:
    """What runs in vain where a guess was wrong must do no harm."""
    if not vm.guesses:
        return
    written = {vm.roots.get(tensors[k], tensors[k]) for k in outcome.mutated}
    if outcome.warns or any(each.source is not None for each in written):
        vm.stop(reasons.GUESSED, f"{name} changes what others see")
    asked = [guess.asked for guess in vm.guesses if isinstance(guess.asked, Tensor)]
    known = {vm.roots.get(tensor, tensor) for tensor in asked}
    if not known.isdisjoint(written):
        vm.stop(reasons.GUESSED, f"{name} writes to what the branch looks at")
    if name in _ITERATIVE:
        vm.stop(reasons.GUESSED, f"{name}, which need not come to an end for any data")
    facts = [vm.facts(each) for each in tensors]
    if outcome.random and not all(can_be_set_back(each.device) for each in facts):
        vm.stop(reasons.GUESSED, f"{name} draws numbers that cannot be drawn again")
    if any(map(_may_be_an_index, facts)) and not _is_pointwise(name):
        vm.stop(reasons.GUESSED, f"{name} on {facts[0].device}, which may be given wrong indices")


_ITERATIVE = frozenset(
    """
    eig linalg_cond linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_lstsq
    linalg_matrix_norm linalg_matrix_rank linalg_norm linalg_pinv linalg_svd linalg_svdvals lobpcg
    matrix_rank nuclear_norm pca_lowrank pinverse svd svd_lowrank
    """.split()
)


def _may_be_an_index(facts: TensorFacts) -> bool:
    """Whether a GPU reads wherever numbers say: where that is nowhere, its process is lost."""
    kind = facts.dtype
    return facts.device.type != "cpu" and not (kind.is_floating_point or kind.is_complex)


@cache
def _is_pointwise(name: str) -> bool:
    packet = getattr(torch.ops.aten, name.strip("_"), None)
    if packet is None:
        return False
    return all(Tag.pointwise in getattr(packet, each).tags for each in packet.overloads())
