"""The options of the backend `jitpkg`: what each may be, and which of them a mode chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument
from jitpkg.messages import near


@dataclass(frozen=True, slots=True)
class Options:
    """How graphs become kernels."""

    fused_random: bool = False
    """Draw random numbers inside of kernels, from a counter-based stream (Philox); off, they are
    eager's."""

    precision: Literal["eager", "fused"] = "eager"
    """Where bfloat16 and float16 are rounded: after each op, as eager code does, or once, where a
    kernel stores."""

    max_autotune: bool = False
    """Compile each kernel in several ways, measure them, and keep the fastest; on a CPU they differ
    in how many registers are worked on at once, and in how much is worth a thread, on a GPU in how
    large the blocks are. There the first call measures."""

    cudagraphs: bool = False
    """Launch a graph's kernels together, as a CUDA graph; it changes nothing on a CPU."""

    backward: Literal["own", "aot"] = "own"
    """What differentiates a graph that is trained: our own recorder of autograd's formulas, or
    AOTAutograd, which gets what the recorder cannot do in any case."""

    @staticmethod
    def of(mode: str | None, options: Mapping[str, Any] | None) -> Options:
        """The options of a mode, and these.

        Raises:
            InvalidArgument: there is no such mode or option, or a value is not possible.
        """
        chosen = {} if mode is None else dict(MODES[checked_mode(mode)])
        for name, value in (options or {}).items():
            chosen[_checked(name, value)] = value
        return Options(**chosen)


MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cudagraphs": True},
    "max-autotune": {"max_autotune": True, "cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}
"""The options that each mode sets."""


def list_options() -> list[str]:
    """The names of the options that the backend `jitpkg` takes."""
    return [option.name for option in fields(Options)]


def list_mode_options(mode: str | None = None) -> dict[str, Any]:
    """The options that a mode sets for the backend `jitpkg`; without one, those of each mode.

    Raises:
        InvalidArgument: there is no such mode.
    """
    if mode is None:
        return {name: dict(options) for name, options in MODES.items()}
    return dict(MODES[checked_mode(mode)])


def checked_mode(mode: object) -> str:
    """A mode, where there is one of that name.

    Raises:
        InvalidArgument: there is none.
    """
    if not isinstance(mode, str) or mode not in MODES:
        raise InvalidArgument(
            f"There is no mode {mode!r}.{near(mode, MODES)} The modes are: {', '.join(MODES)}."
        )
    return mode


def _checked(name: object, value: object) -> str:
    known = list_options()
    key = name.replace("-", "_") if isinstance(name, str) else name
    if key not in known:
        raise InvalidArgument(
            f"The backend 'jitpkg' has no option {name!r}.{near(key, known)}"
            f" The options are: {', '.join(known)}."
        )
    if not any(type(value) is type(one) and value == one for one in possible(key)):
        choices = " or ".join(map(repr, possible(key)))
        raise InvalidArgument(f"The option {name!r} takes {choices}, not {value!r}.")
    return key


def possible(option: str) -> tuple[object, ...]:
    """The values that an option may have."""
    kind = get_type_hints(Options)[option]
    return get_args(kind) if get_origin(kind) is Literal else (True, False)


@dataclass(frozen=True, eq=False, slots=True)
class WithOptions:
    """A backend that takes options: a function of a graph, example inputs and `Options`."""

    compile: Callable[[Any, list[Any], Options], Callable[..., Any]]
    options: Options = field(default_factory=Options)

    def configured(self, mode: str | None, options: Mapping[str, Any] | None) -> WithOptions:
        """The same with the options of a mode, or these.

        Raises:
            InvalidArgument: there is no such mode or option, or a value is not possible.
        """
        chosen = Options.of(mode, options)
        return self if chosen == self.options else replace(self, options=chosen)

    def __call__(
        self,
        gm: Any,
        example_inputs: list[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph; `torch.compile` gives mode and options with each."""
        given = mode is not None or options is not None
        return self.compile(
            gm, example_inputs, Options.of(mode, options) if given else self.options
        )
