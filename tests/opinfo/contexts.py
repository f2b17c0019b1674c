"""Contexts: what surrounds an op's call, or is done to its sample. A row of `CONTEXTS` for each.

What a context adds to a program is kept as text, so that a program that fails can be printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import torch

import jitpkg
from tests.opinfo import changes
from tests.opinfo.changes import Change
from tests.opinfo.samples import Call

Function = Callable[..., Any]
DIFFERENTIABLE = ("all", "one")


@dataclass(frozen=True, slots=True)
class Context:
    """A row."""

    what: str
    change: Change = changes.nothing
    """What is done to a sample; it yields nothing where the sample does not fit."""
    grad: str = ""
    """Whether "all" floats require grad, or "one" of them; then gradients are compared, too."""
    again: bool = False
    """Whether the gradients are differentiated, too."""
    before: tuple[str, ...] = ()
    """Lines at the beginning of the program."""
    inside: str = ""
    """A `with` statement of the program, around its calls."""
    around: str = ""
    """A context manager in which the program is called."""
    function: Callable[[Any], Function | None] = attrgetter("op")
    """Which of an op's functions is called."""
    twice: bool = False
    """Whether the program calls it twice, with the same arguments."""
    dynamic: bool | None = False
    """As for `jitpkg.compile`."""
    alone: bool = False
    """Whether each sample is a program of its own."""
    refused: bool = False
    """Whether samples that eager code refuses are as many as the others."""
    rounds_alike: bool = False
    """Whether most elements must be rounded as eager code rounds them."""

    def on(self, device: str) -> Context:
        """With that device's autocast."""
        inside, around = (
            text.replace('"cpu"', f'"{device}"') for text in (self.inside, self.around)
        )
        return replace(self, inside=inside, around=around)


AUTOCAST = 'torch.autocast("cpu", dtype=torch.bfloat16)'
BREAK = ("calls = copied(calls)", "jitpkg.graph_break()")

CONTEXTS: Mapping[str, Context] = MappingProxyType(
    {
        "plain": Context("as it is"),
        "grad": Context("inputs require grad; gradients are compared", grad="all"),
        "second_derivatives": Context("gradients are differentiated, too", grad="all", again=True),
        "one_of_two": Context("one input requires grad, others do not", changes.one_leaf, "one"),
        "beside_grad": Context("the graph has gradients elsewhere", before=("w = leaf * 2",)),
        "inference_mode": Context("called in inference mode", around="torch.inference_mode()"),
        "inference_tensors": Context("of tensors made in inference mode", changes.inference),
        "inference_mode_grad": Context(
            "called in inference mode, with tensors that require grad",
            changes.requiring,
            around="torch.inference_mode()",
        ),
        "inference_autocast": Context(
            "called in inference mode, with tensors that require grad; autocast is entered",
            changes.requiring,
            inside=f"with {AUTOCAST}:",
            around="torch.inference_mode()",
        ),
        "no_grad": Context("grad mode is off inside", grad="all", inside="with torch.no_grad():"),
        "autocast_inside": Context("autocast is entered", inside=f"with {AUTOCAST}:"),
        "autocast_inside_grad": Context(
            "autocast is entered, inputs require grad and are used twice",
            grad="all",
            inside=f"with {AUTOCAST}:",
            twice=True,
            rounds_alike=True,
        ),
        "autocast_around": Context("called under autocast", around=AUTOCAST),
        "autocast_around_grad": Context(
            "called under autocast, inputs require grad and are used twice",
            grad="all",
            around=AUTOCAST,
            twice=True,
            rounds_alike=True,
        ),
        "bare": Context("no dtype= is given", changes.bare),
        "default_dtype": Context(
            "the default dtype is float64",
            changes.bare_or_not,
            around="default_dtype(torch.float64)",
        ),
        "deterministic": Context(
            "deterministic algorithms are asked for", around="deterministic()"
        ),
        "varying_sizes": Context(
            "each call has other sizes", changes.growing, dynamic=None, alone=True
        ),
        "varying_numbers": Context(
            "each call has other ints and floats", changes.counting, dynamic=None, alone=True
        ),
        "dynamic": Context("all sizes and numbers vary at once", dynamic=True, alone=True),
        "varying_autocast": Context(
            "each call has other sizes; autocast is entered",
            changes.growing,
            inside=f"with {AUTOCAST}:",
            dynamic=None,
            alone=True,
        ),
        "varying_autocast_grad": Context(
            "each call has other sizes; called under autocast, inputs require grad",
            changes.growing,
            grad="all",
            around=AUTOCAST,
            dynamic=None,
            alone=True,
        ),
        "channels_last": Context("images, channels last; one has a single channel", changes.images),
        "expanded": Context("a dim of each tensor is expanded", changes.expanded),
        "sliced": Context("slices of larger tensors, with offset and gaps", changes.sliced),
        "spaced": Context("every second element of larger tensors", changes.spaced),
        "transposed": Context("first and last dim are swapped in memory", changes.transposed),
        "channels_last_grad": Context("the same, trained", changes.images, grad="all"),
        "expanded_grad": Context("expanded tensors, trained", changes.expanded, grad="all"),
        "sliced_grad": Context("slices, trained", changes.sliced, grad="all"),
        "transposed_grad": Context("transposed tensors, trained", changes.transposed, grad="all"),
        "aliased": Context("tensors that can be one are one", changes.aliased),
        "scalars": Context("tensors of no dims", changes.scalars),
        "empty": Context("tensors of no elements", changes.empty),
        "misfit": Context("one tensor has another size", changes.misfits, refused=True),
        "misfit_grad": Context("the same, trained", changes.misfits, grad="all", refused=True),
        "other_dtype": Context(
            "one tensor has another dtype", changes.of_other_dtypes, refused=True
        ),
        "other_dtype_grad": Context(
            "the same, trained", changes.of_other_dtypes, grad="all", refused=True
        ),
        "another_dtype": Context(
            "all floats are of another dtype", changes.all_of_another_dtype, refused=True
        ),
        "another_dtype_grad": Context(
            "the same, trained", changes.all_of_another_dtype, grad="all", refused=True
        ),
        "other_number": Context(
            "one number is another one", changes.of_other_numbers, refused=True
        ),
        "other_number_grad": Context(
            "the same, trained", changes.of_other_numbers, grad="all", refused=True
        ),
        "special_values": Context("NaN, infinities, -0.0 and tiny numbers", changes.special),
        "after_break": Context(
            "copies made in another graph, before a break", before=BREAK, alone=True
        ),
        "after_break_grad": Context(
            "copies made in another graph, before a break; with gradients",
            grad="all",
            before=BREAK,
            alone=True,
        ),
        "in_place": Context("the in-place variant", function=attrgetter("inplace_variant")),
        "out": Context("results are written to `out=`", changes.given_out),
    }
)


def program(length: int, context: Context) -> str:
    """The text of a function that makes so many calls. It has no loop: after a graph break, whose
    iterator would exist already, it could not be traced."""
    lines = [*context.before, *([context.inside] if context.inside else [])]
    indent = "    " if context.inside else ""
    names = []
    for k in range(length):
        for name in (f"r{k}", f"s{k}") if context.twice else (f"r{k}",):
            names.append(name)
            lines.append(f"{indent}{name} = function(*calls[{k}][0], **calls[{k}][1])")
    names.append(f"described([{', '.join(names)}])")
    if "w = leaf * 2" in context.before:
        names.append("w")
    body = "\n".join(f"    {line}" for line in lines)
    return f"def program(function, calls, leaf):\n{body}\n    return ({', '.join(names)},)\n"


def made(length: int, context: Context) -> Function:
    """That function."""
    called = {"copied": copied, "described": described}
    names: dict[str, Any] = {"torch": torch, "jitpkg": jitpkg, **called}
    exec(compile(program(length, context), f"<{length} samples>", "exec"), names)
    function: Function = names["program"]
    return function


def around(context: Context) -> Any:
    """What its calls are made in."""
    known = {"torch": torch, "default_dtype": default_dtype, "deterministic": deterministic}
    return eval(context.around or "torch.enable_grad()", known)


# What programs and surroundings call


def copied(value: Any) -> Any:
    """A copy, by ops of a graph."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if type(value) is dict:
        return {key: copied(each) for key, each in value.items()}
    if type(value) is list:
        return [copied(each) for each in value]
    if type(value) is tuple:
        return tuple([copied(each) for each in value])
    return value


def described(value: Any) -> Any:
    """Sizes, strides that matter, dtypes, and whether gradients are required, all of which a graph
    says before it computes the tensors."""
    if isinstance(value, torch.Tensor):
        size = tuple(value.shape)
        strides: list[int] = []
        if value.layout is torch.strided and 0 not in size:
            strides = [step for n, step in zip(size, value.stride(), strict=True) if n > 1]
        return size, strides, value.dtype, value.requires_grad
    if isinstance(value, list | tuple):
        return [described(each) for each in value]
    return None


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


__all__ = ["CONTEXTS", "Call", "Context", "around", "made", "program"]
