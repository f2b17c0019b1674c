"""One architecture, eagerly and compiled: results, other shapes, gradients, and generated text."""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import jitpkg
from tests.architectures import catalogue
from tests.architectures.allowed import ASKS
from tests.architectures.catalogue import Batch, Subject
from tests.models.support import Heard, copied, trained

SEED = 7
NEW_WORDS = 4


@dataclass
class Part:
    """What came of a part of the calls."""

    wrong: str = ""
    graphs: int = 0
    breaks: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Of the compiled calls, with tracing and compiling."""
    asks: bool = False
    """Whether the code asks if it is being compiled, and computes otherwise then: results are those
    of eager code that is told so."""


class Ours:
    """What is tested: each op of a graph is called as it is, so that all is bit for bit."""

    def compiled(self, module: nn.Module) -> nn.Module:
        made: nn.Module = jitpkg.compile(module, backend="eager")
        return made

    @contextmanager
    def counting(self, part: Part) -> Iterator[None]:
        heard = Heard()
        try:
            with jitpkg.events.STREAM.listening(heard):
                yield
        finally:
            part.graphs += heard.graphs
            part.breaks = dict(Counter(heard.breaks))


class Theirs:
    """What torch.compile makes of it, for comparison."""

    def __init__(self) -> None:
        self._graphs = 0

    def compiled(self, module: nn.Module) -> nn.Module:
        torch.compiler.reset()
        module.compile(backend=self._backend)
        return module

    def _backend(self, graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        self._graphs += 1
        return graph.forward

    @contextmanager
    def counting(self, part: Part) -> Iterator[None]:
        before = self._graphs
        try:
            yield
        finally:
            part.graphs += self._graphs - before


COMPILERS: Mapping[str, Callable[[], Ours | Theirs]] = {"jitpkg": Ours, "torch": Theirs}


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """An architecture, and what compiles it."""

    name: str
    compiler: str = "jitpkg"

    def plain(self) -> dict[str, str]:
        return asdict(self)


def checked(task: Task, *, eagerly: bool = False) -> dict[str, Any]:
    """The parts, by name; or why there are none."""
    try:
        subject = catalogue.subject(task.name)
    except catalogue.Unfit as unfit:
        return {"unfit": str(unfit)}
    check = Check(subject, COMPILERS[task.compiler](), exactly=task.name not in ASKS)
    parts = check.eager() if eagerly else check.parts()
    return {"parts": {name: asdict(part) for name, part in parts.items()}}


class Check:
    """
    Args:
        compiler: what compiles the module.
        exactly: whether results are eager code's bit for bit.
    """

    def __init__(self, subject: Subject, compiler: Ours | Theirs, *, exactly: bool = True) -> None:
        self._subject = subject
        self._compiler = compiler
        self._exactly = exactly

    def eager(self) -> dict[str, Part]:
        """Eager code alone, to see whether it survives."""
        for call in self._calls().values():
            call(self._subject.module)
        if self._subject.generator is not None:
            _generated(self._subject.generator)
        return {}

    def parts(self) -> dict[str, Part]:
        module = self._subject.module
        compiled = self._compiler.compiled(copy.deepcopy(module))
        found = {name: self._part(call, module, compiled) for name, call in self._calls().items()}
        generator = self._subject.generator
        if generator is not None:
            compiled = self._compiler.compiled(copy.deepcopy(generator))
            found["generation"] = self._part(_generated, generator, compiled)
        return found

    def _calls(self) -> dict[str, Callable[[nn.Module], dict[str, Any]]]:
        first, *others = self._subject.batches
        return {
            "forward": lambda module: _evaluated(module, [first, first]),
            "shapes": lambda module: _evaluated(module, others),
            "training": lambda module: _trained(module, first),
        }

    def _part(
        self, call: Callable[[nn.Module], dict[str, Any]], eager: nn.Module, compiled: nn.Module
    ) -> Part:
        part = Part()
        want = _outcome(call, eager)
        start = time.perf_counter()
        with self._compiler.counting(part):
            got = _outcome(call, compiled)
        part.seconds = round(time.perf_counter() - start, 2)
        part.wrong = self._difference(got, want)
        if part.wrong:
            with told_that_it_compiles():
                want = _outcome(call, eager)
            part.asks = not self._difference(got, want)
            part.wrong = "" if part.asks else part.wrong
        return part

    def _difference(self, got: Any, want: Any) -> str:
        if isinstance(got, Exception) or isinstance(want, Exception):
            same = type(got) is type(want) and str(got) == str(want)
            return "" if same else f"{_short(got)}, and eagerly {_short(want)}"
        if got.keys() != want.keys():
            return f"other results: {sorted(got.keys() ^ want.keys())[:3]}"
        for name, theirs in want.items():
            ours = got[name]
            if (ours.dtype, ours.shape, ours.stride()) != (
                theirs.dtype,
                theirs.shape,
                theirs.stride(),
            ):
                return f"{name} is of another kind"
            if not self._are_equal(ours, theirs):
                return f"{name} differs"
        return ""

    def _are_equal(self, a: Tensor, b: Tensor) -> bool:
        if self._exactly or not a.is_floating_point():
            return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) and torch.equal(
                a.isnan(), b.isnan()
            )
        return torch.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def _outcome(call: Callable[[nn.Module], dict[str, Any]], module: nn.Module) -> Any:
    """The results, or the exception."""
    try:
        return call(module)
    except Exception as error:
        return error


@contextmanager
def told_that_it_compiles() -> Iterator[None]:
    """What asks torch whether it is being compiled is told that it is."""
    real = torch.compiler.is_compiling
    torch.compiler.is_compiling = lambda: True
    try:
        yield
    finally:
        torch.compiler.is_compiling = real


def _evaluated(module: nn.Module, batches: list[Batch]) -> dict[str, Any]:
    module.eval()
    found: dict[str, Any] = {}
    with torch.no_grad():
        for k, batch in enumerate(batches):
            torch.manual_seed(SEED)
            results = module(**copy.deepcopy(batch))
            found |= {f"call {k}: {name}": t for name, t in _tensors(results)}
    return found


def _trained(module: nn.Module, batch: Batch) -> dict[str, Any]:
    module.train()
    return dict(trained(module, module, copy.deepcopy(batch), copied(module)))


def _generated(module: nn.Module) -> dict[str, Any]:
    module.eval()
    generate: Any = module.generate
    found = {}
    for k, length in enumerate((5, 7)):
        words = catalogue.words(2, length)
        found[f"text {k}"] = generate(words, max_new_tokens=NEW_WORDS, do_sample=False)
    return found


def _tensors(output: Any, name: str = "result") -> Iterator[tuple[str, Tensor]]:
    """Those of an output: of containers, and of a cache of keys and values."""
    if isinstance(output, Tensor):
        yield name, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from _tensors(value, str(key))
    elif isinstance(output, list | tuple):
        for k, value in enumerate(output):
            yield from _tensors(value, f"{name}[{k}]")
    else:
        for layer in getattr(output, "layers", ()):
            yield from _tensors([getattr(layer, at, None) for at in ("keys", "values")], name)


def _short(outcome: Any) -> str:
    if not isinstance(outcome, Exception):
        return "results"
    return f"{type(outcome).__name__}: {outcome}".replace("\n", " ")[:200]
