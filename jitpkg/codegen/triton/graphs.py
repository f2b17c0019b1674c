"""A compiled function as a CUDA graph: its kernels are launched together, by one call.

The first calls run the function as it is, so that libraries and kernels are loaded and tuned. Then
what it launches is recorded, once, into memory of the graph's own; later calls replay that.

A replay reads and writes the very memory that was there when it was recorded. So

- inputs that have not moved since (parameters, buffers) are read where they are: their addresses
  are compared on each call. Others are copied to memory that does not move. An input that was taken
  for one of the first kind, and moved, is copied from then on, in a new recording.
- results that others may keep are copied out of the graph's memory, for the next replay writes to
  it. What a forward half saves for its backward half is not: it is handed out as it is, and where
  any of it is still alive at the next call, that call runs the function as it is.

What that costs: a copy of the inputs that move and of the results, and the memory of each graph,
which is not shared with others. Nobody ever sees a tensor change under their hands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import Any, Protocol

import torch
from torch import fx

from jitpkg import events
from jitpkg.dataclass import dataclass
from jitpkg.facts.random_streams import RandomStreams, can_be_set_back
from jitpkg.facts.tensor import TensorFacts
from jitpkg.internals import devices, modes, ops, tensors
from jitpkg.internals.ops import OpOverload, op_name, schema
from jitpkg.interrupts import from_outside, uninterrupted

Function = Callable[..., Any]

WARM = 2
"""Calls before a function is recorded."""

MOST = 8
"""Recordings of one function, the first and those for inputs that moved."""


class Recorder(Protocol):
    """What records launches on a device: CUDA, or something that acts like it."""

    device: torch.device

    def is_capturing(self) -> bool:
        """Whether somebody else is recording what this thread launches."""
        ...

    def stream(self) -> Any:
        """The current stream."""
        ...

    def follow(self, stream: Any, used: Sequence[torch.Tensor]) -> None:
        """Let the current stream wait for what another one has been given.

        Args:
            used: memory that may not be given to others before the current stream is done with it.
        """
        ...

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        """What launches again what `run` launches, which is not done now; and what it returns, in
        memory that stays the recording's own."""
        ...


class CudaRecorder:
    """Records CUDA graphs on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def is_capturing(self) -> bool:
        return torch.cuda.is_current_stream_capturing()

    def stream(self) -> Any:
        return torch.cuda.current_stream(self.device)

    def follow(self, stream: Any, used: Sequence[torch.Tensor]) -> None:
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(stream)
        for each in used:
            each.record_stream(current)

    def record(self, run: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        graph = torch.cuda.CUDAGraph()
        with ExitStack() as stack:
            stack.enter_context(_capturing())
            stack.enter_context(torch.cuda.device(self.device))
            side: Any = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream(self.device))
            # cuBLAS keeps its workspace for each stream: this one is to lie in the graph's memory.
            clear_workspaces = devices.CLEAR_WORKSPACES.get()
            clear_workspaces()
            stack.callback(clear_workspaces)
            pool = torch.cuda.graph_pool_handle()
            capture: AbstractContextManager[None] = torch.cuda.graph(
                graph, pool=pool, stream=side, capture_error_mode="thread_local"
            )
            with capture:
                made = run()
            torch.cuda.current_stream(self.device).wait_stream(side)
        return graph.replay, made


@cache
def _capturing() -> Lock:
    """Held while a graph is recorded: CUDA allows for one at a time in a process."""
    return Lock()


class NotRecordable(Exception):
    """A function cannot be a CUDA graph, for this reason."""


class Recorded:
    """A function that is replayed.

    Args:
        function: a pure one, of tensors on one device, of one layout each in all calls.
        shown: how many of its results others may keep, the first ones; None for all. The others
            must not be written to, and be read on this function's stream only.
        warm: calls before it is recorded.
    """

    def __init__(
        self,
        name: str,
        function: Function,
        recorder: Recorder,
        *,
        shown: int | None = None,
        handed: set[int] | None = None,
        warm: int = WARM,
    ) -> None:
        self.name = name
        self.why: str | None = None
        """Why it is not recorded any more."""
        self._function = function
        self._recorder = recorder
        self._shown = shown
        self._handed = set() if handed is None else handed
        self._follows = shown is None and handed is not None
        """Whether its inputs come from another function."""
        self._warm = warm
        self._before: list[int] = []
        """Where the inputs were in the last call that ran as it is."""
        self._moving: set[int] = set()
        """Inputs that have been seen to move."""
        self._recording: _Recording | None = None
        self._recordings = 0
        self._lock = Lock()

    def __call__(self, *given: Any) -> Any:
        if self.why is not None or self._recorder.is_capturing() or self._is_seen():
            return self._function(*given)
        if not self._lock.acquire(blocking=False):  # another thread's call uses the memory
            return self._function(*given)
        try:
            return self._called(given)
        finally:
            self._lock.release()

    def _is_seen(self) -> bool:
        """Whether somebody looks at what is saved: it may be read on other streams."""
        return self._shown is not None and modes.SAVED_TENSOR_HOOKS.get()(True) is not None

    def _called(self, given: tuple[Any, ...]) -> Any:
        if self._warm > 0:
            self._warm -= 1
            self._before = _addresses(given)
            return self._function(*given)
        recording = self._recording
        if recording is None:
            return self._recorded(given)
        if not recording.is_free():
            return self._function(*given)
        moved = recording.moved(given)
        if moved:
            theirs = moved & recording.handed
            if any(_storage(given[k]) not in self._handed for k in theirs):
                return self._function(*given)  # the function that made them was not replayed
            self._moving |= moved - theirs
            self._drop()
            return self._recorded(given)
        if not recording.takes(given):
            return self._function(*given)
        return recording.replayed(given)

    def _recorded(self, given: tuple[Any, ...]) -> Any:
        """The function's results, and it is recorded for the next calls."""
        made = self._function(*given)
        if self._follows and any(
            _is_tensor(x) and x.device != self._recorder.device for x in given
        ):
            return made  # attention's seed, which is on the CPU unless that was replayed
        if self._recordings == MOST:
            self._give_up("its inputs move from call to call")
            return made
        self._recordings += 1
        now = _addresses(given)
        places = self._handed
        handed = {k for k, x in enumerate(given) if _is_tensor(x) and _storage(x) in places}
        still = {
            k
            for k, (x, a, b) in enumerate(zip(given, now, self._before, strict=True))
            if isinstance(x, torch.nn.Parameter) or a == b
        }
        still -= self._moving
        try:
            with torch.inference_mode(False), torch.no_grad():
                recording = uninterrupted(
                    lambda: _Recording(
                        *(self._function, given, made, still | handed, handed),
                        *(self._recorder, self._shown),
                    )
                )
        except NotRecordable as error:
            self._give_up(str(error))
        except Exception as error:  # whatever a library does that cannot be captured
            if from_outside(error):
                raise
            self._give_up(f"{type(error).__name__}: {error}")
        else:
            self._recording = recording
            places.update(recording.places)
            events.STREAM.emit(events.CudaGraph(self.name, None))
        return made

    def _drop(self) -> None:
        if self._recording is not None:
            self._handed.difference_update(self._recording.places)
            self._recording = None

    def _give_up(self, why: str) -> None:
        self._drop()
        self.why = why
        events.STREAM.emit(events.CudaGraph(self.name, why))


@dataclass(frozen=True, slots=True)
class _Given:
    """A result that is an input, or a view of it."""

    input: int
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None
    """Size, stride, and by how much it begins behind the input; None for the input itself."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """A result that is the same object in each call."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A result in the graph's memory."""

    tensor: torch.Tensor
    copied: bool


class _Recording:
    """One recording: which memory it reads and writes, and how often it is replayed.

    Args:
        made: what the function returned when it was called as it is.
        still: inputs that are read where they are.
        handed: those of them that are in another graph's memory.
    """

    def __init__(
        self,
        function: Function,
        given: Sequence[Any],
        made: Sequence[Any],
        still: set[int],
        handed: set[int],
        recorder: Recorder,
        shown: int | None,
    ) -> None:
        self._recorder = recorder
        self.handed = frozenset(handed)
        self._still = sorted(still)
        self._where = [given[k].data_ptr() for k in self._still if _is_tensor(given[k])]
        arguments = list(given)
        self._copied: list[tuple[int, torch.Tensor, torch.Size, tuple[int, ...]]] = []
        for k, x in enumerate(given):
            if not _is_tensor(x):
                raise NotRecordable("an input that is no tensor: a size that varies")
            if x.device != recorder.device:
                raise NotRecordable(f"an input on {x.device}")
            if k not in still:
                held, arguments[k] = _room_for(x)
                self._copied.append((k, held, x.shape, x.stride()))
        if self._copied:
            self._copy(given)
            with _streams_kept(recorder.device):
                function(*arguments)  # what depends on where its inputs are is loaded now
        self._replay, found = recorder.record(lambda: function(*arguments))
        self._stream = recorder.stream()
        self._results = _results(found, made, given, arguments, recorder.device, shown)
        fresh = [each for each in self._results if isinstance(each, _Fresh)]
        own = {_identity(f.tensor): f.tensor.untyped_storage() for f in fresh if not f.copied}
        self.places = frozenset(each.data_ptr() for each in own.values()) - {0}
        self._storages = list(own.values())
        """Held, so that the counts below are of these objects."""
        copied = [each.tensor for each in fresh if each.copied]
        self._whole = [t for t in copied if _is_alone(t, copied) and _is_dense(t)]
        ids = {id(t) for t in self._whole}
        self._shared = [t for t in copied if id(t) not in ids]
        self._uses = [_uses(storage) for storage in self._storages]

    def is_free(self) -> bool:
        """Whether nobody has any more what the last replay handed out."""
        return list(map(_uses, self._storages)) == self._uses

    def moved(self, given: Sequence[Any]) -> set[int]:
        """Inputs that are read where they were, and are elsewhere now."""
        now = [given[k].data_ptr() for k in self._still]
        if now == self._where:
            return set()
        return {k for k, a, b in zip(self._still, now, self._where, strict=True) if a != b}

    def takes(self, given: Sequence[Any]) -> bool:
        """Whether the inputs that are copied have the layout that they had."""
        return all(
            given[k].shape == size and given[k].stride() == stride
            for k, _, size, stride in self._copied
        )

    def replayed(self, given: Sequence[Any]) -> tuple[Any, ...]:
        stream = self._recorder.stream()
        if stream != self._stream:  # else two replays might run at once
            self._recorder.follow(self._stream, [held for _, held, _, _ in self._copied])
            self._stream = stream
        with torch.no_grad():
            if self._copied:
                self._copy(given)
            self._replay()
            copies = self._copies()
            return tuple(_result(each, given, copies) for each in self._results)

    def _copy(self, given: Sequence[Any]) -> None:
        held = [each for _, each, _, _ in self._copied]
        ops.COPY_EACH.get()(held, [_once(given[k]) for k, _, _, _ in self._copied])

    def _copies(self) -> dict[int, torch.Tensor]:
        """Of the results that others may keep, by the identity of what is copied."""
        made: dict[int, torch.Tensor] = {}
        if self._whole:
            fresh = [torch.empty_like(t) for t in self._whole]
            ops.COPY_EACH.get()(fresh, self._whole)
            made.update((id(t), copy) for t, copy in zip(self._whole, fresh, strict=True))
        storages: dict[int, torch.UntypedStorage] = {}
        for t in self._shared:  # views of each other stay such
            key = _identity(t)
            if key not in storages:
                storage: Any = t.untyped_storage()
                storages[key] = storage.clone()
            copy = torch.empty(0, dtype=t.dtype, device=t.device)
            copy.set_(storages[key], t.storage_offset(), t.shape, t.stride())
            made[id(t)] = copy
        return made


@contextmanager
def _streams_kept(device: torch.device) -> Iterator[None]:
    """What is run once more draws nothing."""
    streams = RandomStreams([device] if can_be_set_back(device) else [])
    states = streams.save()
    try:
        yield
    finally:
        streams.restore(states)


def _results(
    found: Sequence[Any],
    made: Sequence[Any],
    given: Sequence[Any],
    arguments: Sequence[Any],
    device: torch.device,
    shown: int | None,
) -> list[_Given | _Constant | _Fresh]:
    """How a replay's results come about."""
    inputs = {_identity(x): k for k, x in reversed(list(enumerate(arguments)))}
    objects = {id(x): k for k, x in reversed(list(enumerate(arguments)))}
    kept = {
        _identity(t) for t in found[:shown] if _is_tensor(t)
    }  # and what shares memory with these
    results: list[_Given | _Constant | _Fresh] = []
    for was, now in zip(made, found, strict=True):
        if not _is_tensor(now):
            results.append(_Constant(now))
        elif id(now) in objects:
            results.append(_Given(objects[id(now)], None))
        elif _identity(now) in inputs:
            k = inputs[_identity(now)]
            behind = now.storage_offset() - arguments[k].storage_offset()
            results.append(_Given(k, (tuple(now.shape), now.stride(), behind)))
            if now.dtype is not given[k].dtype or now.is_conj() or now.is_neg():
                raise NotRecordable("a result that sees the memory of an input as another dtype")
        elif _identity(now) == _identity(was):  # both are alive: it was there before
            results.append(_Constant(now))
        elif now.device != device:
            raise NotRecordable(f"a result on {now.device}")
        elif now.is_conj() or now.is_neg():
            raise NotRecordable("a result that is conjugated or negated where it is read")
        else:
            results.append(_Fresh(now, shown is None or _identity(now) in kept))
    return results


def _result(
    each: _Given | _Constant | _Fresh, given: Sequence[Any], copies: dict[int, torch.Tensor]
) -> Any:
    match each:
        case _Given(input=k, view=None):
            return given[k]
        case _Given(input=k, view=(size, stride, behind)):
            return given[k].as_strided(size, stride, given[k].storage_offset() + behind)
        case _Constant(value=value):
            return value
        case _Fresh(tensor=tensor, copied=True):
            return copies[id(tensor)]
        case _Fresh(tensor=tensor):
            return tensor.data  # with a version of its own


def _room_for(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory that an input is copied to, and the tensor in it that stands for the input."""
    once = _once(x)
    steps = sorted((step, n) for n, step in zip(once.shape, once.stride(), strict=True) if n > 1)
    spans = [0]
    for step, n in steps:
        if step <= spans[-1]:
            raise NotRecordable("an input that overlaps with itself")
        spans.append(spans[-1] + (n - 1) * step)
    if x.is_conj() or x.is_neg():
        raise NotRecordable("an input that is conjugated or negated where it is read")
    held = torch.empty_strided(once.shape, once.stride(), dtype=x.dtype, device=x.device)
    return held, held.expand(x.shape) if once.shape != x.shape else held


def _once(x: torch.Tensor) -> torch.Tensor:
    """Without the repetitions of an expanded tensor."""
    if 0 not in x.stride() or x.numel() == 0:
        return x
    for dim, (n, step) in enumerate(zip(x.shape, x.stride(), strict=True)):
        if step == 0 and n > 1:
            x = x.narrow(dim, 0, 1)
    return x


def _is_tensor(x: object) -> bool:
    return isinstance(x, torch.Tensor)


def _addresses(given: Iterable[Any]) -> list[int]:
    return [x.data_ptr() if isinstance(x, torch.Tensor) else 0 for x in given]


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _identity(x: Any) -> int:
    """The same for tensors that share memory."""
    return tensors.memory(x) if isinstance(x, torch.Tensor) else -id(x)


def _uses(storage: torch.UntypedStorage) -> int:
    """How many tensors there are in it, and one."""
    address = tensors.STORAGE_ADDRESS.found()
    if address is None:
        raise NotRecordable("it cannot be seen who has its results")
    return devices.STORAGE_USES.get()(address(storage))


def _is_alone(t: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    return sum(_identity(other) == _identity(t) for other in others) == 1


def _is_dense(t: torch.Tensor) -> bool:
    """Whether its elements fill their memory, each once."""
    steps = sorted((step, n) for n, step in zip(t.shape, t.stride(), strict=True) if n != 1)
    filled = 1
    for step, n in steps:
        if step != filled:
            return False
        filled *= n
    return t.storage_offset() == 0


# What a graph says of itself


def obstacle_of(graph: fx.Graph, device: torch.device) -> str | None:
    """Why the functional ATen graph of a function cannot be replayed; None where it may be."""
    for node in graph.nodes:
        if node.op == "placeholder" and not isinstance(node.meta.get("facts"), TensorFacts):
            return "sizes that vary"
        for facts in _facts(node):
            if facts.device != device:
                return f"{_title(node)} is on {facts.device}, and not on {device}"
        why = _obstacle_of_call(node) if node.op == "call_function" else None
        if why is not None:
            return why
    return None


def _obstacle_of_call(node: fx.Node) -> str | None:
    if "random" in node.meta and not _draws_anew(node):
        return f"{_title(node)} draws random numbers"
    target = node.target
    if not isinstance(target, OpOverload):
        is_item = getattr(target, "__name__", "") == "getitem"
        return None if is_item else f"{_title(node)} is no op of ATen"
    if {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output} & set(target.tags):
        return f"{_title(node)} makes a size out of data"
    if schema(target).is_mutable:
        return f"{_title(node)} writes to what it is given"
    return None


def _draws_anew(node: fx.Node) -> bool:
    """Whether the op's numbers are those of eager code at each replay: torch keeps account of what
    a graph draws from the device's own stream."""
    return _title(node) in _DRAWN_ANEW and node.kwargs.get("generator") is None


_DRAWN_ANEW = frozenset(
    """
    bernoulli cauchy exponential geometric log_normal native_dropout normal normal_functional rand
    rand_like randint randint_like randn randn_like random uniform
    """.split()
)
"""Others may wait for the GPU (`randperm`, `multinomial`); and attention that drops something has
its seed in the CPU's memory, unless it was recorded, where its backward pass reads it."""


def _facts(node: fx.Node) -> list[TensorFacts]:
    facts = node.meta.get("facts")
    every = facts if isinstance(facts, tuple | list) else (facts,)
    return [each for each in every if isinstance(each, TensorFacts)]


def _title(node: fx.Node) -> str:
    if isinstance(node.target, OpOverload):
        return op_name(node.target).removeprefix("aten::")
    return node.name if node.op != "call_function" else getattr(node.target, "__name__", node.name)


def recorder_for(device: torch.device) -> Recorder | None:
    """None where there is nothing to record: on a CPU."""
    return CudaRecorder(device) if device.type == "cuda" else None


def replayed(
    name: str,
    obstacle: str | None,
    function: Function,
    device: torch.device,
    *,
    shown: int | None = None,
    handed: set[int] | None = None,
) -> Function:
    """The function of a graph as a CUDA graph, or itself, and then an event says why.

    Args:
        obstacle: of its graph.
        device: that its kernels are for.
        shown: how many of its results others may keep; see `Recorded`.
        handed: addresses of what graphs have handed out and keep in its place, so others may
            read it there. The halves of a graph share one of these.
    """
    recorder = recorder_for(device)
    if recorder is None:
        return function
    if obstacle is not None:
        events.STREAM.emit(events.CudaGraph(name, obstacle))
        return function
    reads = handed is not None and shown is None  # what the other half, recorded before, hands out
    warm = WARM + reads
    return Recorded(name, function, recorder, shown=shown, handed=handed, warm=warm)
