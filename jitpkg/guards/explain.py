"""Why an entry did not fit a call: the sentence of the first guard that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitpkg.guards.kinds import Guard, Same, TensorIs, sources_of
from jitpkg.guards.sources import CellInput, Source, base_of, described, object_name
from jitpkg.guards.text import Text


@dataclass(frozen=True, slots=True)
class FirstFailure:
    """The first guard of an entry that a call failed."""

    sentence: str
    guard: Guard | None
    """None where the failure is in no single guard."""

    @property
    def depends_on_closure(self) -> bool:
        """Whether what failed was read from a closure cell."""
        at: Source | None = None if self.guard is None else self.guard.at
        while at is not None and not isinstance(at, CellInput):
            at = base_of(at)
        return at is not None


def first_failure(
    guards: Sequence[Guard], inputs: Sequence[Source], arguments: Sequence[object]
) -> FirstFailure:
    """Evaluate guards one by one, in their order, on the values that a hook handed over."""
    for guard in guards:
        try:
            if _holds(guard, inputs, arguments):
                continue
            now = _read(guard, inputs, arguments)
        except Exception:
            return FirstFailure(f"{described(guard.at)} is not there any more", guard)
        return FirstFailure(guard.why(now), guard)
    if sum(isinstance(guard, TensorIs) for guard in guards) > 1:
        return FirstFailure("one tensor is passed in two places", None)
    return FirstFailure("global state has changed", None)


class _Words:
    """Names as a person would write them; satisfies `jitpkg.guards.kinds.Names`."""

    def of(self, source: Source) -> str:
        return described(source)

    def hold(self, obj: object, hint: str) -> str:
        return hint or object_name(obj)


def shown(guard: Guard) -> str:
    """A guard's test as text for a person."""
    return guard.test(_Words())


def _evaluated(
    text: Text, expression: str, inputs: Sequence[Source], arguments: Sequence[object]
) -> object:
    names = [f"input_{k}" for k in range(len(inputs))]
    namespace = dict(zip(names, arguments, strict=True)) | text.held
    body = "\n".join([*text.lines, f"result = {expression}"])
    exec(body, namespace)
    return namespace["result"]


def _text(inputs: Sequence[Source]) -> Text:
    return Text({source: f"input_{k}" for k, source in enumerate(inputs)})


def _holds(guard: Guard, inputs: Sequence[Source], arguments: Sequence[object]) -> bool:
    text = _text(inputs)
    text.count(sources_of(guard))
    return bool(_evaluated(text, guard.test(text), inputs, arguments))


def _read(guard: Guard, inputs: Sequence[Source], arguments: Sequence[object]) -> object:
    if isinstance(guard, Same):
        return None
    text = _text(inputs)
    return _evaluated(text, text.of(guard.at), inputs, arguments)
