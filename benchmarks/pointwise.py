"""Ops of one element, folds, scans and norms: where compiled code is slower than eager code.

An op is applied so many times in a row, to tensors of several dtypes and sizes. Eager code and
jitpkg take turns in one process, and torch.compile too, for some of the ops. What is printed is
whatever is slower than eager code, and at the end geometric means and the slowest cases.

    python benchmarks/run.py pointwise --quick                     a minute
    python benchmarks/run.py pointwise --only sin tan --dtype float32
    python benchmarks/run.py pointwise --threads 1 2               all of it: hours
    python benchmarks/run.py pointwise --rounding eager --dtype bfloat16 float16

Of bfloat16 and float16, eager code and jitpkg round what each op gives, torch.compile what a kernel
gives. With `--rounding eager` torch.compile is asked to round as eager code does, with `--rounding
fused` jitpkg is asked to round as torch.compile does: only then do the two compute the same.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import rounds
import torch
from rounds import EAGER, OURS, THEIRS, Compile, Timing
from torch import Tensor
from torch.nn import functional

US = 1e6
ENOUGH = 0.97
"""Of the speed of the others: less is a case that is lost."""

LENGTHS = (1, 2, 6, 20)
SIZES = {"small": 32, "cache-sized": 256, "large": 2048}
"""Of square matrices."""
DTYPES = ("float32", "bfloat16", "float16", "float64", "int64")


@dataclass(frozen=True)
class Op:
    """What is applied to a matrix, again and again where the result is as large."""

    title: str
    function: Callable[..., Tensor]
    low: float = -2.0
    high: float = 2.0
    """Between which numbers the inputs lie."""
    back: Callable[[Tensor], Tensor] | None = None
    """A cheap op that brings results to where the op is defined; in a row only, and in both."""
    inputs: int = 1
    once: bool = False
    """Whether its result cannot be its input."""
    integers: bool = False
    floats: bool = True
    compared: bool = False
    """Whether torch.compile takes part."""

    def chain(self, length: int) -> Callable[..., Tensor]:
        function, back = self.function, self.back

        def applied(x: Tensor, *others: Tensor) -> Tensor:
            for k in range(length):
                x = function(x if k == 0 or back is None else back(x), *others)
            return x

        return applied


def of(name: str, *, where: Any = torch, **more: Any) -> Op:
    return Op(name, getattr(where, name), **more)


UNARY = (
    *(of(name, compared=True) for name in ("sin", "cos", "tanh", "exp", "erf", "sigmoid")),
    *(
        of(name)
        for name in ("tan", "atan", "sinh", "cosh", "asinh", "exp2", "expm1", "erfc", "sinc")
    ),
    *(of(name, low=-0.8, high=0.8) for name in ("asin", "atanh", "erfinv")),
    of("acos", low=-0.8, high=0.8, back=torch.sin),
    of("acosh", low=1.1, high=3.0, back=lambda x: x + 1.5),
    *(
        of(name, low=0.5, high=3.0, back=lambda x: x.abs() + 0.5)
        for name in ("log", "log2", "log10", "lgamma", "digamma", "rsqrt", "sqrt", "reciprocal")
    ),
    of("log1p", low=0.0, high=3.0),
    *(of(name, integers=True) for name in ("abs", "neg", "sign", "square")),
    *(of(name) for name in ("floor", "ceil", "round", "trunc", "frac")),
    Op("logit", lambda x: torch.logit(x, 1e-3), 0.1, 0.9, back=torch.sigmoid),
    *(
        of(name, where=functional)
        for name in ("relu", "relu6", "hardtanh", "hardswish", "hardsigmoid")
    ),
    *(of(name, where=functional, compared=True) for name in ("gelu", "silu")),
    *(
        of(name, where=functional)
        for name in ("mish", "elu", "selu", "celu", "softplus", "logsigmoid")
    ),
    *(
        of(name, where=functional)
        for name in ("leaky_relu", "softsign", "tanhshrink", "softshrink")
    ),
    Op("gelu, tanh", lambda x: functional.gelu(x, approximate="tanh")),
    Op("pow 3", lambda x: x**3, -1.0, 1.0, integers=True),
    Op("clamp", lambda x: x.clamp(-1, 1), integers=True),
    Op("add 1", lambda x: x + 1, integers=True, compared=True),
    Op("mul 2", lambda x: x * 2, integers=True),
)

BINARY = (
    *(of(name, inputs=2, integers=True) for name in ("add", "mul", "sub", "maximum", "minimum")),
    of("div", inputs=2, low=0.5, high=2.0),
    *(of(name, inputs=2) for name in ("atan2", "hypot", "logaddexp", "copysign", "fmod")),
    *(of(name, inputs=2, low=0.5, high=2.0) for name in ("pow", "remainder", "xlogy")),
    Op("where", lambda x, y: torch.where(x > 0, x, y), inputs=2, integers=True),
    Op("lerp", lambda x, y: torch.lerp(x, y, 0.3), inputs=2),
    Op("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), inputs=2),
    Op("and", torch.bitwise_and, 0, 100, inputs=2, integers=True, floats=False),
    Op("shift", lambda x, y: x << (y & 3), 0, 4, inputs=2, integers=True, floats=False),
    Op("floor divide", torch.floor_divide, 1, 100, inputs=2, integers=True, once=True),
)


def each_dim(title: str, function: Callable[[Tensor, int], Tensor], **more: Any) -> Iterator[Op]:
    for dim in (0, 1):
        yield Op(f"{title}, dim {dim}", partial(_along, function, dim), **more)


def _along(function: Callable[[Tensor, int], Tensor], dim: int, x: Tensor) -> Tensor:
    return function(x, dim)


def _everything(title: str, function: Callable[[Tensor], Tensor], **more: Any) -> Op:
    return Op(f"{title}, all", function, once=True, **more)


FOLDS = (
    *each_dim("sum", torch.sum, once=True, integers=True, compared=True),
    *each_dim("mean", torch.mean, once=True),
    *each_dim("amax", torch.amax, once=True, integers=True),
    *each_dim("argmax", torch.argmax, once=True, integers=True),
    *each_dim("max", lambda x, dim: torch.max(x, dim).values, once=True, integers=True),
    *each_dim("var", torch.var, once=True),
    *each_dim("norm", lambda x, dim: torch.linalg.vector_norm(x, dim=dim), once=True),
    *each_dim("logsumexp", torch.logsumexp, once=True),
    *each_dim("prod", torch.prod, once=True, low=0.9, high=1.1),
    *each_dim("any", lambda x, dim: (x > 1.9).any(dim), once=True),
    _everything("sum", torch.sum, integers=True),
    _everything("mean", torch.mean),
    _everything("max", torch.max, integers=True),
    _everything("norm", torch.linalg.vector_norm),
    _everything("mse loss", lambda x: (x * x).mean()),
)

SCANS = (
    *each_dim("cumsum", torch.cumsum, integers=True),
    *each_dim("cumprod", torch.cumprod, low=0.9, high=1.1),
    *each_dim("cummax", lambda x, dim: torch.cummax(x, dim).values),
    *each_dim("logcumsumexp", torch.logcumsumexp),
)

NORMS = (
    *each_dim("softmax", torch.softmax, compared=True),
    *each_dim("log softmax", torch.log_softmax),
    *each_dim("normalize", lambda x, dim: functional.normalize(x, dim=dim)),
    Op("layer norm", lambda x: functional.layer_norm(x, x.shape[-1:]), compared=True),
    Op("RMS norm", lambda x: functional.rms_norm(x, x.shape[-1:])),
    Op("batch norm", lambda x: functional.batch_norm(x, None, None, training=True)),
    Op("group norm", lambda x: functional.group_norm(x, 4)),
)

GROUPS = {
    "one input": UNARY,
    "two inputs": BINARY,
    "folds": FOLDS,
    "scans": SCANS,
    "norms": NORMS,
}


@dataclass(frozen=True)
class Case:
    group: str
    op: Op
    length: int
    dtype: str
    size: str
    threads: int

    def inputs(self) -> tuple[Tensor, ...]:
        torch.manual_seed(0)
        shape, dtype = (SIZES[self.size],) * 2, getattr(torch, self.dtype)
        low, high = self.op.low, self.op.high
        if not dtype.is_floating_point:
            low, high = min(low, -100) if low < 0 else low, max(high, 100)
        made = (
            torch.empty(shape, dtype=torch.float64).uniform_(low, high)
            for _ in range(self.op.inputs)
        )
        return tuple(x.to(dtype) for x in made)

    def __str__(self) -> str:
        times = "" if self.length == 1 else f" x {self.length}"
        threads = "" if self.threads == 1 else f", {self.threads} threads"
        return f"{self.op.title}{times}, {self.dtype}, {self.size}{threads}"


COLUMNS = (EAGER, OURS, THEIRS, f"over {EAGER}", f"over {THEIRS}")
"""Microseconds of each, and jitpkg's speed over the others'."""


def columns(texts: Iterable[str]) -> str:
    pairs = zip(texts, COLUMNS, strict=True)
    return "".join(f"{text:>{max(11, len(name) + 2)}}" for text, name in pairs)


@dataclass(frozen=True)
class Row:
    case: Case
    timing: Timing

    def speed(self, over: str) -> float:
        return self.timing.speed(OURS, over).median

    @property
    def worst(self) -> float:
        return min(self.speed(name) for name in self.timing.rounds if name != OURS)

    def __str__(self) -> str:
        there = self.timing.rounds
        values = [f"{US * self.timing.median(name):.1f}" for name in there]
        values += [f"{self.speed(name):.2f}" for name in there if name != OURS]
        names = [*there, *(f"over {name}" for name in there if name != OURS)]
        shown = dict(zip(names, values, strict=True))
        return f"{self.case!s:48}" + columns(shown.get(name, "-") for name in COLUMNS)


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    groups = [name for name in GROUPS if rounds.chosen(name, arguments.group)]
    for threads, size, dtype, group in itertools.product(
        arguments.threads, arguments.size, arguments.dtype, groups
    ):
        for op, length in itertools.product(GROUPS[group], arguments.length):
            is_whole = not getattr(torch, dtype).is_floating_point
            if not rounds.chosen(op.title, arguments.only) or (op.once and length > 1):
                continue
            if op.integers if is_whole else op.floats:
                yield Case(group, op, length, dtype, size, threads)


def contestants_of(arguments: argparse.Namespace) -> dict[str, Compile]:
    """As they come, or both rounding where the same one does."""
    made = rounds.compilers(arguments)
    if arguments.rounding == "fused":
        made[OURS] = partial(made[OURS], options={"precision": "fused"})
    elif arguments.rounding == "eager" and THEIRS in made:
        made[THEIRS] = partial(made[THEIRS], options={"emulate_precision_casts": True})
    return made


def measured(case: Case, contestants: dict[str, Compile], most_rounds: int, seconds: float) -> Row:
    """Raises whatever compiling or computing raises."""
    torch.set_num_threads(case.threads)
    torch.compiler.reset()
    inputs = case.inputs()
    calls = {
        name: partial(compile_(case.op.chain(case.length)), *inputs)
        for name, compile_ in contestants.items()
        if name != THEIRS or (case.op.compared and case.length in (1, 6))
    }
    clock = rounds.clock_of(case.threads)
    with torch.no_grad():
        return Row(case, rounds.interleaved(calls, most_rounds, seconds, 2.0, clock))


def summary(rows: Sequence[Row]) -> Iterator[str]:
    for over in (EAGER, THEIRS):
        there = [row for row in rows if over in row.timing.rounds]
        if not there:
            continue
        below = sum(row.speed(over) < ENOUGH for row in there)
        yield f"\nSpeed over {over}, geometric means; {below} of {len(there)} are below {ENOUGH}\n"
        for key in ("group", "dtype", "size", "length", "threads"):
            for value in dict.fromkeys(getattr(row.case, key) for row in there):
                some = [row.speed(over) for row in there if getattr(row.case, key) == value]
                least = f"{min(some):9.2f} at least"
                yield f"{key + ' ' + str(value):32}{len(some):7}{rounds.geomean(some):9.2f}{least}"
    yield "\nThe slowest\n"
    yield from map(str, sorted(rows, key=lambda row: row.worst)[:20])


def parsed(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pointwise", description="Ops, many times in a row.")
    rounds.add_arguments(parser)
    parser.add_argument("--length", type=int, nargs="*", default=list(LENGTHS))
    parser.add_argument("--size", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--dtype", nargs="*", default=list(DTYPES), choices=DTYPES)
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--group", nargs="*", default=[], help=", ".join(GROUPS))
    parser.add_argument("--rounding", choices=("default", "eager", "fused"), default="default")
    parser.add_argument("--all", action="store_true", help="print all rows, not only those below 1")
    arguments = parser.parse_args(given)
    if arguments.quick:
        arguments.length, arguments.size = arguments.length[:1], arguments.size[:1]
        arguments.dtype = arguments.dtype[:1]
    return arguments


def main(given: Sequence[str]) -> None:
    arguments = parsed(given)
    contestants = contestants_of(arguments)
    most_rounds, seconds = (3, 0.001) if arguments.quick else (9, 0.004)
    print(rounds.platform_line(arguments.backend, threads=","))
    if arguments.rounding != "default":
        print(f"Rounding of bfloat16 and float16 by both compilers: {arguments.rounding}.")
    print("Microseconds are medians of rounds in which all take turns; speeds are medians of the")
    print(f"rounds' ratios. Shown is {'everything' if arguments.all else 'what is below 1'}.\n")
    print(f"{'':48}{columns(COLUMNS)}")
    rows = []
    for case in cases(arguments):
        try:
            row = measured(case, contestants, most_rounds, seconds)
        except Exception as error:
            print(f"{case!s:48} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        rows.append(row)
        if arguments.all or row.worst < 1.0:
            print(row, flush=True)
    print(*summary(rows), sep="\n")
