"""Why an entry did not fit a call: the sentence of the first guard that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitpkg.dataclass import dataclass
from jitpkg.guards.abstract import SubclassesAre
from jitpkg.guards.kinds import (
    Answers,
    BasesAre,
    CodeIs,
    ConstantIs,
    Guard,
    Has,
    Is,
    KeysAre,
    LineageIs,
    Same,
    StateIs,
    sources_of,
)
from jitpkg.guards.metadata import LeafIs, SizesAre, TensorIs
from jitpkg.guards.names import InWords
from jitpkg.guards.numbers import Holds
from jitpkg.guards.shown import brief
from jitpkg.guards.sources import (
    Attr,
    CellInput,
    Globals,
    Held,
    Input,
    Source,
    base_of,
    described,
    object_name,
)
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


def shown(guard: Guard) -> str:
    """What a guard tests, as text for a person."""
    match guard:
        case TensorIs(at, facts):
            return f"{described(at)}: {facts}"
        case ConstantIs(at, value):
            return f"{described(at)} == {brief(value)}"
        case KeysAre(at, keys):
            names = (object_name(k.obj) if isinstance(k, Held) else brief(k) for k in keys)
            return f"list({described(at)}) == [{', '.join(names)}]"
        case Has(at, key, present):
            name = object_name(key.obj) if isinstance(key, Held) else brief(key)
            return f"{name} {'in' if present else 'not in'} {described(at)}"
        case LeafIs(at, _, is_bare):
            return f"{described(at)}: a leaf{' without hooks' if is_bare else ''}"
        case CodeIs(at):
            return f"the code of {described(at)} is unchanged"
        case BasesAre(cls):
            return f"the bases of {cls.__qualname__} are unchanged"
        case LineageIs(cls, found):
            names = (f"{cls.__qualname__}.{name}" for name, _ in found)
            return f"unchanged: {', '.join(names)}"
        case SubclassesAre(_, found):
            tests = (f"issubclass({cls.__qualname__}, {of.__qualname__})" for cls, of, _ in found)
            return f"unchanged: {', '.join(tests)}"
        case StateIs(what) | Answers(what=what):
            return f"unchanged: {what}"
        case _:
            return guard.test(InWords())


def assumptions(guards: Iterable[Guard]) -> tuple[str, ...]:
    """What guards say of tensors, and of plain values that a caller or a global variable gives."""
    return tuple(dict.fromkeys(shown(guard) for guard in guards if _is_assumption(guard)))


def _is_assumption(guard: Guard) -> bool:
    match guard:
        case TensorIs() | SizesAre() | Holds():
            return True
        case ConstantIs(at) | Is(at, None | bool()):
            return _is_given(at)
        case _:
            return False


def _is_given(source: Source) -> bool:
    """Whether a path begins with an argument, a local variable or a global one."""
    at: Source | None = source
    while at is not None:
        match at:
            case Input(_, name):
                return name.isidentifier() and not name.startswith("stack_")
            case CellInput() | Globals():
                return True
            case Attr(_, name) if name.startswith("__") and name not in _PLAIN_STEPS:
                return False
        at = base_of(at)
    return False


_PLAIN_STEPS = ("__dict__", "__self__")


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
