"""Inference mode: a call is asked outside of it, without grad, and its outcome told as inside.

Inside, torch takes composite ops apart below the modes that see ops, and what it makes of parts
then lacks what a view in inference mode has of its base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from jitpkg.facts import casting
from jitpkg.facts.outcome import Outcome, TheArgument
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import trees

Ask = Callable[[Any, Any], Outcome]
"""The outcome of a call with these arguments and named ones."""


def asked_outside(name: str, ask: Ask, args: Any, kwargs: Any) -> Outcome:
    """The outcome of a call that is made in inference mode."""
    given: dict[int, TensorFacts] = {}
    normal: dict[int, TensorFacts] = {}

    def outside(leaf: Any) -> Any:
        if not isinstance(leaf, TensorFacts):
            return leaf
        if id(leaf) not in given:  # one object stands for one tensor
            given[id(leaf)] = leaf
            requires_grad = leaf.requires_grad and not _may_be_kept(leaf)
            normal[id(leaf)] = replace(leaf, is_inference=False, requires_grad=requires_grad)
        return normal[id(leaf)]

    there = trees.mapped(outside, (args, kwargs), is_leaf=_is_facts)
    with torch.inference_mode(False), torch.no_grad():
        outcome = ask(*there)
    return _inside(name, list(given.values()), outcome)


def _inside(name: str, given: list[TensorFacts], outcome: Outcome) -> Outcome:
    arguments = tuple(
        replace(after, is_inference=before.is_inference) if k in outcome.mutated else before
        for k, (before, after) in enumerate(zip(given, outcome.arguments, strict=True))
    )
    shares = iter(outcome.shares)

    def inside(leaf: Any) -> Any:
        if not isinstance(leaf, TensorFacts | TheArgument):
            return leaf
        shared = next(shares)
        if isinstance(leaf, TheArgument):
            return leaf
        if shared is None or given[shared].is_inference:
            return replace(leaf, is_inference=True)
        floats = leaf.dtype.is_floating_point or leaf.dtype.is_complex
        detached = name in _DETACHING or not floats
        return replace(leaf, requires_grad=given[shared].requires_grad and not detached)

    result = trees.mapped(inside, outcome.result, is_leaf=_is_facts)
    return replace(outcome, result=result, arguments=arguments)


def _may_be_kept(leaf: TensorFacts) -> bool:
    """Whether autocast may keep what it makes of one: outside, that requires grad."""
    return leaf.is_leaf and leaf.dtype is torch.float32 and casting.is_active()


_DETACHING = frozenset({"data", "detach"})
"""Those that return views which require no grad, whatever their base does."""


def _is_facts(leaf: object) -> bool:
    return isinstance(leaf, TensorFacts | TheArgument)
