"""What one ATen op, or one function, returns for stand-ins: tensors on the meta device.

For those who run a whole program on stand-ins. Rows answer; FakeTensor does for what has no row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitpkg.facts import meta
from jitpkg.facts.elsewhere import elsewhere
from jitpkg.facts.outcome import DataDependent, NeedsNumbers, NoFacts, WouldRaise, is_random
from jitpkg.facts.rows import ROWS
from jitpkg.facts.rows.common import META, Raises, Unsure
from jitpkg.facts.rows.functions import FUNCTION_ROWS
from jitpkg.facts.rows.lengths import LENGTH_ROWS
from jitpkg.facts.symbolic import Decisions, length
from jitpkg.facts.tensor import TensorFacts, size_of, stride_of
from jitpkg.internals import trees
from jitpkg.internals.ops import OpOverload, op_name

__all__ = [
    "FUNCTIONS",
    "RECORDED",
    "Singles",
    "elsewhere",
    "facts_of_stand_in",
    "is_random",
    "products_compare_sizes",
    "stand_in",
]

FUNCTIONS = meta.FUNCTIONS
"""Functions whose ATen ops depend on nothing but facts, by name."""

RECORDED = meta.FUNCTIONS | meta.RECORDED
"""These, and others for whose ops FakeTensor may have to be asked."""

products_compare_sizes = meta.products_compare_sizes
facts_of_stand_in = meta.facts_of_stand_in


class Unanswered(Exception):
    """Nobody can say what an op returns, or it would raise."""


def stand_in(facts: TensorFacts, decisions: Decisions | None = None) -> torch.Tensor:
    """A tensor without data, and without a history.

    Args:
        decisions: what is decided about sizes that vary, where some do.
    """
    size, stride = size_of(facts), stride_of(facts)
    if decisions is not None:
        size, stride = (tuple(map(decisions.symint, each)) for each in (size, stride))
    return torch.empty_strided(size, stride, dtype=facts.dtype, device=META)


class Singles:
    """Answers for single calls. Not safe for threads: the caller holds a lock."""

    def __init__(self, decisions: Decisions | None = None) -> None:
        """`decisions` are about sizes that vary, where some do."""
        self._fake: Any = None
        self._decisions = decisions

    def of_op(self, op: OpOverload, args: Any, kwargs: Any, *, has_row: bool = False) -> Any:
        """What an op returns that neither writes to anything nor makes views.

        Args:
            has_row: nobody but rows is to be asked.

        Raises:
            Unanswered: nobody can say, or it would raise.
        """
        row = ROWS.get(op_name(op))
        try:
            if row is None or "out" in kwargs:
                raise Unsure
            return row(op, args, kwargs)
        except Raises as error:
            raise Unanswered(str(error)) from None
        except Exception as error:  # torch's own, too: a row may run an op on stand-ins
            if has_row:
                raise Unanswered(f"no row for {op}") from error
            return self.by_fake_tensors(op, args, kwargs)

    def of_function(self, name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a function returns, as a whole, and whether it draws from a random stream.

        Raises:
            Unanswered: nobody can say, or it writes to something, or returns a view.
        """
        row = FUNCTION_ROWS.get(name) or LENGTH_ROWS.get(name)
        if row is not None:
            try:
                made, shape = row(*args, **kwargs)
                return shape(made.tensors), made.random
            except Exception:  # whatever arguments it does not expect
                pass
        outcome = self._outcome(call, args, kwargs)
        return self.made(outcome.result), outcome.random

    def by_fake_tensors(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return self.made(self._outcome(call, args, kwargs).result)

    def made(self, result: Any) -> Any:
        """Stand-ins in place of facts."""
        return trees.mapped(
            lambda leaf: stand_in(leaf, self._decisions) if isinstance(leaf, TensorFacts) else leaf,
            result,
            is_leaf=lambda leaf: isinstance(leaf, TensorFacts),
        )

    def _outcome(self, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self._fake is None:
            from jitpkg.facts.fake import FakeFacts  # it imports torch's compiler: a second

            self._fake = FakeFacts()
        args, kwargs = trees.mapped(_at_home, (args, kwargs))
        values = {} if self._decisions is None else self._decisions.values
        try:
            outcome = self._fake.of_call(call, args, kwargs, values)
        except (DataDependent, NeedsNumbers, NoFacts, WouldRaise) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        if outcome.mutated or any(shared is not None for shared in outcome.shares):
            raise Unanswered("it writes to an argument, or returns a view of one")
        if self._decisions is not None:
            self._decisions.relations.update(dict.fromkeys(outcome.relations))
        return outcome


def of_whole_function(name: str, args: Any, kwargs: Any) -> Any:
    """What a function returns that has a row as a whole, and draws no random numbers.

    Raises:
        Unanswered: the row does not say.
    """
    try:
        made, shape = (FUNCTION_ROWS.get(name) or LENGTH_ROWS[name])(*args, **kwargs)
    except Exception as error:  # whatever arguments it does not expect
        raise Unanswered(name) from error
    if made.random:
        raise Unanswered(name)
    return shape(made.tensors)


def _at_home(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return facts_of_stand_in(leaf)
    if isinstance(leaf, torch.SymInt):
        return length(leaf)
    return torch.device("cpu") if isinstance(leaf, torch.device) and leaf == META else leaf
