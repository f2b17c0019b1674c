"""The log of what a trace did to existing objects; the same operations are replayed in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitpkg.dataclass import dataclass
from jitpkg.tracer.values import Cell, Tensor, Value


@dataclass(frozen=True, eq=False, slots=True)
class CallMethod:
    """`method(target, *arguments)`, where `method` is a builtin class's own, or of `replayed`."""

    method: object
    """The method descriptor, as in `list.append`; or a function."""
    target: Value
    arguments: tuple[Value, ...]


@dataclass(frozen=True, eq=False, slots=True)
class SetItem:
    """`target[key] = value`, as the builtin class `cls` does it."""

    target: Value
    key: Value
    value: Value
    cls: type


@dataclass(frozen=True, eq=False, slots=True)
class DeleteItem:
    """`del target[key]`, as the builtin class `cls` does it."""

    target: Value
    key: Value
    cls: type


@dataclass(frozen=True, eq=False, slots=True)
class SetAttribute:
    """`target.name = value` in the object's own dictionary or slot."""

    target: Value
    name: str
    value: Value


@dataclass(frozen=True, eq=False, slots=True)
class DeleteAttribute:
    """`del target.name`."""

    target: Value
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class SetCell:
    """A cell is given a content, or UNBOUND takes it away."""

    target: Cell
    value: Value


Effect = CallMethod | SetItem | DeleteItem | SetAttribute | DeleteAttribute | SetCell


def effect_operands(effect: Effect) -> list[Value]:
    """Every value that an effect uses."""
    found: list[Value] = []
    for name in ("target", "arguments", "key", "value"):
        operand = getattr(effect, name, ())
        found.extend(operand if isinstance(operand, tuple) else (operand,))
    return found


def lasting(effects: Sequence[Effect]) -> list[Effect]:
    """The effects without those that nobody sees where all are replayed."""
    gone = {k for k, _ in replaced(effects)}
    return [effect for k, effect in enumerate(effects) if k not in gone]


def replaced(effects: Sequence[Effect]) -> Iterator[tuple[int, int]]:
    """The numbers of effects that assign a gradient to a tensor, each with the number of the next
    that replaces it by another one or by None."""
    last: dict[Value, int] = {}
    for k, effect in enumerate(effects):
        is_grad = isinstance(effect, SetAttribute) and effect.name == "grad"
        if is_grad and isinstance(effect.target, Tensor):
            if effect.target in last:
                yield last[effect.target], k
            last[effect.target] = k
