"""The guard on a tensor's metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import torch

from jitpkg.dataclass import dataclass
from jitpkg.facts.sizes import Length, Size, Symbol
from jitpkg.facts.tensor import TensorFacts
from jitpkg.guards.names import Names
from jitpkg.guards.numbers import number_text, read_by
from jitpkg.guards.sources import Attr, Item, Source, Strides, described
from jitpkg.internals.tensors import BASE, HOOKS, HOOKS_BEHIND
from jitpkg.marks import Dims


def size_source(tensor: Source, dim: int) -> Source:
    """Where a tensor's size in a dim is found."""
    return Item(Attr(tensor, "shape"), dim)


def stride_source(tensor: Source, dim: int) -> Source:
    """Where a tensor's stride in a dim is found."""
    return Item(Strides(tensor), dim)


def varying_dims(facts: TensorFacts) -> Dims:
    """The dims of which the size varies, and those of which the stride does by itself."""
    return Dims(
        frozenset(k for k, n in enumerate(facts.size) if isinstance(n, Size)),
        frozenset(k for k, n in enumerate(facts.stride) if _is_stride(n)),
    )


def _is_stride(length: Length) -> bool:
    """Whether a length is read from a tensor's strides."""
    if not isinstance(length, Size) or len(length.terms) != 1:
        return False
    ((product, factor),) = length.terms
    origin = product[0].origin if len(product) == 1 and isinstance(product[0], Symbol) else None
    return factor == 1 and isinstance(origin, Item) and isinstance(origin.base, Strides)


@dataclass(frozen=True, slots=True)
class TensorIs:
    """A tensor's metadata, all that ops depend on but its values."""

    at: Source
    facts: TensorFacts

    def sources(self) -> tuple[Source, ...]:
        """The paths that the test reads."""
        return (self.at,)

    def test(self, names: Names) -> str:
        x, facts = names.of(self.at), self.facts
        tests = [
            f"type({x}) is {names.hold(facts.cls, facts.cls.__name__)}",
            f"{x}.dtype is {names.hold(facts.dtype, str(facts.dtype).rpartition('.')[2])}",
            f"{x}.layout is {names.hold(torch.strided, 'strided')} and not {x}.is_nested",
            _lengths_are(f"{x}.shape", facts.size),
            _lengths_are(f"{x}.stride()", facts.stride),
            f"{x}.requires_grad is {facts.requires_grad}",
            f"{x}.device == {names.hold(facts.device, 'device')}",
            f"not {x}.is_conj()",
            f"not {x}.is_neg()",
            f"{x}.is_inference() is {facts.is_inference}",
        ]
        return " and ".join(tests)

    def why(self, now: object) -> str:
        return tensor_difference(described(self.at), now, self.facts)


def tensor_difference(path: str, now: object, facts: TensorFacts) -> str:
    """The first fact in which a tensor differs, as a sentence."""
    if type(now) is not facts.cls or not isinstance(now, torch.Tensor):
        return f"{path} is a {type(now).__qualname__}; built for {facts.cls.__qualname__}"
    if now.layout is not torch.strided or now.is_nested:
        return f"{path} is a {'nested' if now.is_nested else now.layout} tensor"
    if now.ndim != len(facts.size):
        return f"{path} has {now.ndim} dims; built for {len(facts.size)}"
    for dim, (size, expected) in enumerate(zip(now.shape, facts.size, strict=True)):
        if size != expected and not isinstance(expected, Size):
            return f"{path} has size {size} in dim {dim}; built for {expected}"
    for name in ("dtype", "device", "requires_grad"):
        if getattr(now, name) != getattr(facts, name):
            return f"{path} has {name} {getattr(now, name)}; built for {getattr(facts, name)}"
    if any(
        step != expected and not isinstance(expected, Size)
        for step, expected in zip(now.stride(), facts.stride, strict=True)
    ):
        return f"{path} has stride {now.stride()}; built for {facts.stride}"
    return f"{path} is another kind of tensor than {facts}, or is passed twice"


def _lengths_are(now: str, expected: tuple[Length, ...]) -> str:
    """A test of those lengths that are numbers."""
    if not any(isinstance(length, Size) for length in expected):
        return f"{now} == {expected}"
    tests = [f"len({now}) == {len(expected)}"]
    tests.extend(
        f"{now}[{k}] == {length}" for k, length in enumerate(expected) if isinstance(length, int)
    )
    return " and ".join(tests)


def _symbol_at(length: Length, source: Source) -> Symbol | None:
    """The symbol that is read there, where it is one of a length."""
    symbols = length.symbols() if isinstance(length, Size) else ()
    return next((symbol for symbol in symbols if symbol.origin == source), None)


@dataclass(frozen=True, slots=True)
class SizesAre:
    """How those sizes and strides of a tensor that vary hang together.

    A size or stride that is a symbol by itself is at least 2: others are guarded by number. But for
    the stride of a dim with one element, which says nothing: that one is any.
    """

    at: Source
    facts: TensorFacts

    def _tests(self, names: Names) -> Iterator[str]:
        for own, length in self._lengths():
            symbol = _symbol_at(length, own)
            if symbol is None:
                yield f"{names.of(own)} == {number_text(length, names)}"
            elif symbol.most is not None:
                yield f"{symbol.least} <= {names.of(own)} <= {symbol.most}"
            elif symbol.least:
                yield f"{names.of(own)} >= {symbol.least}"

    def _lengths(self) -> Iterator[tuple[Source, Size]]:
        """Those that vary, each with the path on which it is found."""
        for dim, size in enumerate(self.facts.size):
            if isinstance(size, Size):
                yield size_source(self.at, dim), size
        for dim, step in enumerate(self.facts.stride):
            if isinstance(step, Size):
                yield stride_source(self.at, dim), step

    def sources(self) -> tuple[Source, ...]:
        """The paths that the test reads."""
        found: dict[Source, None] = {self.at: None}
        for own, length in self._lengths():
            found[own] = None
            found.update(dict.fromkeys(read_by(length)))
        return tuple(found)

    def test(self, names: Names) -> str:
        return " and ".join(self._tests(names))

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to test."""
        symbols = ((own, s) for own, n in self._lengths() for s in n.symbols())
        return all(s.origin == own and not s.least for own, s in symbols)

    def why(self, now: object) -> str:
        if not isinstance(now, torch.Tensor):
            return f"{described(self.at)} is no tensor"
        for dim, size in enumerate(self.facts.size):
            own = _symbol_at(size, size_source(self.at, dim))
            if own is not None and not own.bounds()[0] <= now.shape[dim] <= own.bounds()[1]:
                where = f"size {now.shape[dim]} in dim {dim}"
                return f"{described(self.at)} has {where}; built for {own.range()}"
        return (
            f"{described(self.at)} has sizes {tuple(now.shape)} and strides {now.stride()};"
            f" built for {self.facts}"
        )


@dataclass(frozen=True, slots=True)
class LeafIs:
    """A tensor is a leaf and no view: the guard on metadata does not tell."""

    at: Source
    cls: type[torch.Tensor]
    is_bare: bool
    """Whether it takes gradients of its own dtype, and has no hook."""

    @property
    def check(self) -> Callable[[torch.Tensor], bool]:
        """Says it of a tensor."""
        return is_bare_leaf if self.is_bare else is_plain_leaf

    def test(self, names: Names) -> str:
        return f"{names.hold(self.check, self.check.__name__)}({names.of(self.at)})"

    def why(self, now: object) -> str:
        if not isinstance(now, torch.Tensor):
            return f"{described(self.at)} is no tensor"
        if not is_plain_leaf(now):
            return f"{described(self.at)} is a view, or has a history; built for a leaf"
        return f"{described(self.at)} has a hook, or takes gradients of another dtype"


def is_plain_leaf(x: torch.Tensor) -> bool:
    """Whether a tensor is a leaf and no view."""
    return BASE.get()(x) is None and x.is_leaf  # a view may have lost its history, and raise


def is_bare_leaf(x: torch.Tensor) -> bool:
    """Whether a tensor is a leaf and no view, has no hooks, and takes gradients of its dtype."""
    return (
        is_plain_leaf(x)
        and getattr(x, "grad_dtype", x.dtype) is x.dtype
        and HOOKS.get()(x) is None
        and HOOKS_BEHIND.get()(x) is None
    )


@dataclass(frozen=True, slots=True)
class OwnMemory:
    """Each of these tensors, which are dense, fills a storage of its own."""

    tensors: tuple[Source, ...]

    @property
    def at(self) -> Source:
        return self.tensors[0]

    def test(self, names: Names) -> str:
        each = ", ".join(map(names.of, self.tensors))
        return f"{names.hold(fill_their_storages, 'fill_their_storages')}({each})"

    def why(self, now: object) -> str:
        return f"{described(self.at)} or another tensor shares memory now"


def fill_their_storages(*tensors: torch.Tensor) -> bool:
    """Whether no two dense tensors share a storage, and none is a part of one."""
    storages = [(tensor.untyped_storage(), tensor.nbytes) for tensor in tensors]
    if any(storage.nbytes() != size for storage, size in storages):
        return False
    return len({storage.data_ptr() for storage, _ in storages}) == len(tensors)


@dataclass(frozen=True, slots=True)
class ApartInMemory:
    """No two of these tensors overlap, where one of them is the memory of an array of NumPy's: such
    tensors have storages of their own, and nothing else tells."""

    arrays: tuple[Source, ...]
    others: tuple[Source, ...]

    @property
    def at(self) -> Source:
        return self.arrays[0]

    def test(self, names: Names) -> str:
        arrays, others = (
            "".join(f"{names.of(each)}, " for each in group) for group in (self.arrays, self.others)
        )
        return f"{names.hold(are_apart, 'are_apart')}(({arrays}), ({others}))"

    def why(self, now: object) -> str:
        return f"{described(self.at)} or another array shares memory now"


def are_apart(arrays: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    """Whether none of the first overlaps with any other tensor: all lie on the CPU, or apart."""
    here = [x for x in others if x.device.type == "cpu"]
    spans = sorted([*map(_span, arrays), *_joined(map(_span, here))])
    return all(end <= begin for (_, end), (begin, _) in pairwise(spans))


def _span(x: torch.Tensor) -> tuple[int, int]:
    """The addresses between which a tensor lies."""
    begin = x.data_ptr()
    if not x.numel():
        return begin, begin
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return begin, begin + (last + 1) * x.itemsize


def _joined(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The same addresses, where some of these overlap with each other."""
    begin = end = 0
    for following in sorted(spans):
        if following[0] >= end:
            yield begin, end
            begin, end = following
        end = max(end, following[1])
    yield begin, end
