"""Kernels of one op or a few, on one thread: what a kernel compiler does with memory and maths.

Eager code, torch.compile and jitpkg take turns in one process, and so does a copy of as many bytes
as the input has, into memory that is there. What a kernel reads and writes at the least, over what
the copy reads and writes in its time, is the fraction of copy bandwidth that is shown. Results are
dropped before the next call.

    python benchmarks/run.py kernels --quick --no-compile            two minutes
    python benchmarks/run.py kernels --only softmax sum --size 1024  some kinds at one size
    python benchmarks/run.py kernels --budget 1800                   what half an hour allows
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import rounds
import torch
from chains import chain
from rounds import OURS, Compile, Timing
from torch import Tensor
from torch.nn import functional

COPY = "copy"
MS, GB = 1e3, 1e9

WORST_ALLOWED = 0.9
"""Of the speed of the better of eager and torch.compile."""

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class Sample:
    """Makes the inputs of one case."""

    size: int
    dtype: torch.dtype
    grad: bool

    def of(self, *shape: int) -> Tensor:
        return torch.randn(shape, dtype=self.dtype).requires_grad_(self.grad)

    def matrix(self) -> Tensor:
        return self.of(self.size, self.size)

    def row(self) -> Tensor:
        return self.of(self.size)

    def column(self) -> Tensor:
        return self.of(self.size, 1)

    def mask(self) -> Tensor:
        return torch.rand(self.size, self.size) > 0.5

    def labels(self) -> Tensor:
        return torch.randint(self.size, (self.size,))


def one(sample: Sample) -> tuple[Tensor, ...]:
    return (sample.matrix(),)


def two(sample: Sample) -> tuple[Tensor, ...]:
    return sample.matrix(), sample.matrix()


@dataclass(frozen=True)
class Kind:
    """What is computed, and of what."""

    title: str
    function: Function
    inputs: Callable[[Sample], tuple[Tensor, ...]] = one
    basic: bool = False
    """Whether it is one of the seven in which a mean is taken of its own."""
    random: bool = False


def ten_ops(x: Tensor, y: Tensor) -> Tensor:
    z = torch.tanh(torch.exp(x * -0.5) + y)
    z = torch.erf(z * 1.5) - y
    return torch.abs(z * x) + 0.25


def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, x.shape[-1:], weight)


def cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(x, labels)


def where(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return torch.where(mask, x, y)


def each_dim(name: str, title: str, basic: Sequence[int] = ()) -> Iterator[Kind]:
    """An op of one dim: over columns (0) and over rows (1)."""
    for dim in (0, 1):

        def function(x: Tensor, dim: int = dim) -> Tensor:
            return getattr(x, name)(dim)  # type: ignore[no-any-return]

        yield Kind(f"{title}, dim {dim}", function, basic=dim in basic)


KINDS = (
    Kind("add", lambda x, y: x + y, two, basic=True),
    Kind("chain of 5 ops", chain(5), two),
    Kind("10 ops: exp, tanh, erf", ten_ops, two, basic=True),
    Kind("chain of 20 ops", chain(20), two),
    Kind("chain of 200 ops", chain(200), two),
    Kind("gelu + residual", lambda x, y: functional.gelu(x) + y, two, basic=True),
    *each_dim("softmax", "softmax", basic=(1,)),
    Kind("layer norm", norm, lambda m: (m.matrix(), m.row(), m.row()), basic=True),
    Kind("RMS norm", rms_norm, lambda m: (m.matrix(), m.row())),
    Kind("cross entropy", cross_entropy, lambda m: (m.matrix(), m.labels())),
    *each_dim("sum", "sum", basic=(0,)),
    *each_dim("mean", "mean"),
    *each_dim("var", "variance"),
    Kind("transposed input", lambda x, y: x.t() + y, two, basic=True),
    Kind("broadcast", lambda x, r, c: x * r + c, lambda m: (m.matrix(), m.row(), m.column())),
    Kind("where", where, lambda m: (m.mask(), m.matrix(), m.matrix())),
    Kind(
        "masked fill",
        lambda x, m: x.masked_fill(m, -1.0).relu(),
        lambda m: (m.matrix(), m.mask()),
    ),
    *each_dim("cumsum", "cumsum"),
    Kind("dropout", lambda x: functional.dropout(x, 0.1), random=True),
)

QUICK = (
    *("add", "chain of 20 ops", "gelu + residual", "softmax, dim 1", "layer norm", "sum, dim 0"),
    *("transposed input",),
)


@dataclass(frozen=True)
class Case:
    kind: Kind
    dtype: torch.dtype
    size: int
    backward: bool

    def section(self) -> str:
        direction = "forward + backward" if self.backward else "forward"
        return f"{direction}, {str(self.dtype)[6:]}, {self.size} x {self.size}"


@dataclass(frozen=True)
class Measured:
    case: Case
    timing: Timing
    moved: int
    """Bytes that are read and written at the least."""
    copied: int
    """Bytes that the copy reads and writes."""

    def fraction(self, name: str) -> float:
        """Of copy bandwidth."""
        return self.moved / self.copied * self.timing.speed(name, COPY).median

    def speed(self, over: str) -> float:
        return self.timing.speed(OURS, over).median

    def speed_over_best(self) -> float:
        others = self.timing.rounds.keys() - {OURS, COPY}
        return self.timing.speed_over_best(OURS, others).median

    def bandwidth(self) -> float:
        """Bytes a second that the copy reads and writes."""
        return self.copied / self.timing.median(COPY)


def in_memory(tensors: Iterable[Tensor]) -> int:
    """Bytes that some tensors take, each piece of memory counted once."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def step(function: Function, case: Case, inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    """One call, forward or forward and backward."""
    if not case.backward:
        return partial(function, *inputs)
    wanted = [x for x in inputs if x.requires_grad]
    gradient = torch.ones_like(case.kind.function(*inputs))

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(function(*inputs), wanted, gradient)

    return both


def least_traffic(case: Case, inputs: tuple[Tensor, ...]) -> int:
    """Bytes: in each direction what is read, each once, and what is written.

    Backward that is the inputs again, if anything has been saved, and the gradients; but those
    that are views of the gradient that comes in need no kernel.
    """
    saved: list[Tensor] = []

    def save(x: Tensor) -> Tensor:
        saved.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(save, lambda x: x):
        result = case.kind.function(*inputs)
    forward = in_memory([*inputs, result])
    if not case.backward:
        return forward
    gradient = torch.ones_like(result)
    wanted = [x for x in inputs if x.requires_grad]
    gradients = torch.autograd.grad(result, wanted, gradient)
    taken = in_memory([gradient])
    written = in_memory([gradient, *gradients]) - taken
    read = taken + (in_memory(inputs) if saved else 0)
    return forward + (read + written if written else 0)


def agrees(results: Any, expected: Any, dtype: torch.dtype) -> bool:
    """Whether two results are about the same; that is tested elsewhere, here it is a warning."""
    most = 0.01 if dtype == torch.float32 else 0.1
    try:
        torch.testing.assert_close(results, expected, rtol=most, atol=most, check_dtype=False)
    except AssertionError:
        return False
    return True


def in_double(case: Case, inputs: tuple[Tensor, ...]) -> Any:
    """What eager code computes in double precision."""
    wide = tuple(
        x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x
        for x in inputs
    )
    return step(case.kind.function, case, wide)()


def measured(
    case: Case, contestants: dict[str, Compile], most_rounds: int, most_seconds: float
) -> tuple[Measured, list[str]]:
    """One row of the table, and what is to be said about it."""
    torch.compiler.reset()
    torch.manual_seed(0)
    inputs = case.kind.inputs(Sample(case.size, case.dtype, case.backward))
    expected = step(case.kind.function, case, inputs)()
    calls: dict[str, Callable[[], Any]] = {}
    notes: list[str] = []
    for name, compile_ in contestants.items():
        call = step(compile_(case.kind.function), case, inputs)
        try:
            result = call()
        except Exception as error:
            notes.append(f"{name} fails: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        if not (
            case.kind.random
            or agrees(result, expected, case.dtype)
            or agrees(result, in_double(case, inputs), case.dtype)  # eager sums can be far off
        ):
            notes.append(f"{name} differs from eager, and from what double precision gives")
        del result
        calls[name] = call
    del expected
    source = torch.ones(case.size, case.size, dtype=case.dtype)
    target = torch.zeros_like(source)
    calls[COPY] = partial(target.copy_, source)
    clock = rounds.clock_of(torch.get_num_threads())
    timing = rounds.interleaved(calls, most_rounds, 0.03, most_seconds, clock)
    return Measured(case, timing, least_traffic(case, inputs), 2 * in_memory([source])), notes


def width(name: str) -> int:
    return max(9, len(name) + 2)


def print_header(case: Case, names: Sequence[str]) -> None:
    others = [name for name in names if name != OURS]
    times = "".join(f"{name:>{width(name)}}" for name in names)
    over = "".join(f"{name:>{width(name)}}" for name in others) + f"{'better':>9}"
    fractions = f"{' / '.join(names):>32}"
    print(f"\n{case.section()} (jitpkg's speed over the others'; fractions of copy bandwidth)\n")
    print(
        f"{'':24}{'time, ms':>{len(times)}}{'jitpkg over':>{len(over)}}"
        f"{'of copy bandwidth':>{len(fractions)}}\n{'':24}{times}{over}{fractions}"
    )


def print_row(row: Measured, names: Sequence[str], notes: Sequence[str]) -> None:
    """Times, speeds over the others, and fractions of copy bandwidth, in the contestants' order."""
    there = row.timing.rounds
    text = f"{row.case.kind.title:24}"
    for name in names:
        time_ = f"{MS * row.timing.median(name):.3f}" if name in there else "-"
        text += f"{time_:>{width(name)}}"
    for name in names:
        if name != OURS:
            speed = f"{row.speed(name):.2f}" if {name, OURS} <= there.keys() else "-"
            text += f"{speed:>{width(name)}}"
    best = row.speed_over_best() if OURS in there else None
    missed = "!" if best is not None and best < WORST_ALLOWED else " "
    text += f"{'-' if best is None else f'{best:.2f}':>9}{missed}"
    fractions = (f"{row.fraction(name):.3f}" if name in there else "-" for name in names)
    print(text + f"{' / '.join(fractions):>31}", flush=True)
    for note in notes:
        print(f"    {note}", flush=True)


def print_means(rows: Sequence[Measured], names: Sequence[str]) -> None:
    """Geometric means over all rows, and over some of them."""
    others = [name for name in names if name != OURS]
    print("\nSpeed of jitpkg, geometric means")
    print("(over all cases the target is 1.8 of torch.compile's, over the basic kinds 1.4)\n")
    print(f"{'':44}{'cases':>7}" + "".join(f"{f'over {name}':>20}" for name in others))

    def line(title: str, some: Sequence[Measured]) -> None:
        means = (
            rounds.geomean(row.speed(name) for row in some if name in row.timing.rounds)
            for name in others
        )
        if some:
            print(f"{title:44}{len(some):7}" + "".join(f"{mean:20.2f}" for mean in means))

    line("all", rows)
    line(
        "seven basic kinds, forward", [r for r in rows if r.case.kind.basic and not r.case.backward]
    )
    for section in dict.fromkeys(row.case.section() for row in rows):
        line(section, [row for row in rows if row.case.section() == section])


def print_worst(rows: Sequence[Measured]) -> None:
    lagging = sorted((row for row in rows), key=Measured.speed_over_best)
    below = sum(row.speed_over_best() < WORST_ALLOWED for row in rows)
    print(f"\nSpeed over the better of the others: {below} of {len(rows)} are below", end=" ")
    print(f"{WORST_ALLOWED}; the slowest\n")
    for row in lagging[:10]:
        print(f"{row.case.kind.title:24}{row.case.section():44}{row.speed_over_best():7.2f}")


def print_bandwidths(rows: Sequence[Measured]) -> None:
    print("\nWhat a copy reads and writes, GB/s\n")
    for (dtype, size), some in itertools.groupby(
        sorted(rows, key=lambda row: (str(row.case.dtype), row.case.size)),
        key=lambda row: (row.case.dtype, row.case.size),
    ):
        middle = rounds.estimate(row.bandwidth() / GB for row in some)
        print(f"{f'{str(dtype)[6:]}, {size} x {size}':24}{middle}")


def cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """All that are asked for: every kind once before the next section."""
    kinds = [kind for kind in KINDS if rounds.chosen(kind.title, arguments.only)]
    if arguments.quick and not arguments.only:
        kinds = [kind for kind in kinds if kind.title in QUICK]
    directions = [arguments.direction] if arguments.direction else ["forward", "both"]
    for direction, size, dtype, kind in itertools.product(
        directions, arguments.size, arguments.dtype, kinds
    ):
        yield Case(kind, getattr(torch, dtype), size, direction == "both")


def parsed(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kernels", description="Measure small kernels.")
    rounds.add_arguments(parser)
    parser.add_argument("--size", type=int, nargs="*", default=[1024, 4096], help="of the matrices")
    parser.add_argument(
        "--dtype", nargs="*", default=["float32", "bfloat16"], choices=["float32", "bfloat16"]
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--direction", choices=["forward", "both"], help="both: and backward")
    parser.add_argument("--budget", type=float, help="seconds after which no case is begun")
    arguments = parser.parse_args(given)
    if arguments.quick and "--size" not in given:
        arguments.size = [1024]
    return arguments


def main(given: Sequence[str]) -> None:
    arguments = parsed(given)
    torch.set_num_threads(arguments.threads)
    contestants = rounds.compilers(arguments)
    names = list(contestants)
    most_rounds, most_seconds = (5, 1.0) if arguments.quick else (15, 10.0)
    print(rounds.platform_line(arguments.backend, f", threads: {arguments.threads};"))
    print("Medians of rounds in which all take turns; ratios are medians of the rounds' ratios.")
    began, rows, section, left = time.monotonic(), [], "", 0
    for case in cases(arguments):
        if arguments.budget and time.monotonic() - began > arguments.budget:
            left += 1
            continue
        if case.section() != section:
            section = case.section()
            print_header(case, names)
        row, notes = measured(case, contestants, most_rounds, most_seconds)
        print_row(row, names, notes)
        rows.append(row)
    compared = [row for row in rows if OURS in row.timing.rounds]
    if compared:
        print_means(compared, names)
        print_worst(compared)
        print_bandwidths(rows)
    missing = len(rows) - len(compared)
    if missing or left:
        print(f"\njitpkg failed in {missing} cases; {left} were left out for want of time")
