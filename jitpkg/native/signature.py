"""What an entry point takes and gives, as one value that can be written down."""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch

from jitpkg.dataclass import dataclass
from jitpkg.errors import InvalidArgument
from jitpkg.native.extents import Extent, check


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that each call allocates and returns."""

    dtype: torch.dtype
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.strides):
            raise InvalidArgument(f"{len(self.sizes)} sizes and {len(self.strides)} strides")

    def bytes(self) -> Extent:
        """How much memory it takes, where it has elements."""
        if 0 in self.sizes:
            return 0
        terms = [
            (n - 1) * step
            if isinstance(n, int) and isinstance(step, int)
            else f"(({n}) - 1) * ({step})"
            for n, step in zip(self.sizes, self.strides, strict=True)
        ]
        if all(isinstance(term, int) for term in terms):
            return self.dtype.itemsize * (1 + sum(map(int, terms)))
        return f"{self.dtype.itemsize} * (1 + {' + '.join(map(str, terms))})"


@dataclass(frozen=True, slots=True)
class Failure:
    """What a status of a kernel means: an exception, by the name of its builtin class."""

    exception: str
    message: str


FAILURES = (
    Failure("IndexError", "index out of range in self"),
    Failure("RuntimeError", "a value is out of the range that this operation takes"),
    Failure("RuntimeError", "ZeroDivisionError"),
    Failure("MemoryError", "no memory for intermediate results"),
)
"""What the statuses 1, 2, ... mean unless a signature says otherwise."""

EXCEPTIONS = frozenset(
    "FloatingPointError IndexError MemoryError OverflowError RuntimeError TypeError ValueError"
    " ZeroDivisionError".split()
)


@dataclass(frozen=True, slots=True)
class Signature:
    """The arguments and results of an entry point, and how its kernel is called.

    Python passes `inputs` tensors, then `integers` integers, all by position. The kernel is
    `i32 kernel(ptr inputs..., ptr outputs..., ptr scratch..., i64 integers...)`; the status 0 is
    success, k means `failures[k - 1]`. The result is None, one tensor, or a tuple of tensors.

    Dtype, device and layout of the inputs are not looked at: who calls has guards.
    """

    inputs: int
    integers: int = 0
    outputs: tuple[Output, ...] = ()
    scratch: tuple[Extent, ...] = ()
    """Bytes of memory, aligned to 64, that are the kernel's during a call."""
    releases_gil: bool | str = False
    """An expression, as for an extent, means where it is above 0: for sizes that vary."""
    failures: tuple[Failure, ...] = FAILURES

    def __post_init__(self) -> None:
        for extent in self.extents():
            check(extent, self.integers)
        for failure in self.failures:
            if failure.exception not in EXCEPTIONS:
                raise InvalidArgument(f"a kernel cannot raise {failure.exception!r}")

    def extents(self) -> Iterator[Extent]:
        """Everything that may depend on integer arguments."""
        for output in self.outputs:
            yield from output.sizes
            yield from output.strides
        yield from self.scratch
        if isinstance(self.releases_gil, str):
            yield self.releases_gil

    def text(self) -> str:
        """This, as one line of ASCII."""
        outputs = [(_dtype_name(out.dtype), out.sizes, out.strides) for out in self.outputs]
        failures = [(failure.exception, failure.message) for failure in self.failures]
        return json.dumps(
            (self.inputs, self.integers, outputs, self.scratch, self.releases_gil, failures)
        )


def from_text(text: str) -> Signature:
    """The signature that `text()` wrote down."""
    inputs, integers, outputs, scratch, releases_gil, failures = json.loads(text)
    return Signature(
        inputs,
        integers,
        tuple(
            Output(getattr(torch, dtype), tuple(sizes), tuple(strides))
            for dtype, sizes, strides in outputs
        ),
        tuple(scratch),
        releases_gil,
        tuple(Failure(*failure) for failure in failures),
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
