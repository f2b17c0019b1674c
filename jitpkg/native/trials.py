"""The evaluator of this process, after each kind of record was tried on real objects."""

from __future__ import annotations

import ctypes
import operator
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from jitpkg import forks
from jitpkg.errors import NativeError
from jitpkg.internals import modes
from jitpkg.internals.usual import usual_state, zeros
from jitpkg.interrupts import from_outside
from jitpkg.native import llvm, selftest, states
from jitpkg.native.records import END
from jitpkg.native.row import ANY, UNKNOWN
from jitpkg.native.symbols import dtype_code
from jitpkg.native.tables import CODES, Evaluator, Layout, look, text
from jitpkg.native.text import joined


class _Once:
    """The evaluator of this process, if it has been asked for."""

    def __init__(self) -> None:
        self.asked = False
        self.found: Evaluator | None = None


_ONCE = _Once()
_LOCK = forks.lock(waits=True)


def evaluator(*, start: bool) -> Evaluator | None:
    """The evaluator; None where native code does not read objects, or there is none.

    The first call compiles and tries it: 1 ms from a cache, 30 without. If nobody has started
    native code yet, that is done where `start` says so.
    """
    started = selftest.outcome() if start else selftest.started()
    if started is None or started.why_not is not None or started.binding != "tensors":
        return None
    with _LOCK:
        if not _ONCE.asked:
            try:
                with usual_state():
                    _ONCE.found = _made(started)
            except Exception as error:
                if from_outside(error):
                    raise
            _ONCE.asked = True  # not where a signal has ended the trial
        return _ONCE.found


def _made(started: selftest.Outcome) -> Evaluator:
    layout = look()
    bare = replace(layout, histories=None, states=None)
    for each in (layout, replace(layout, states=None), replace(layout, histories=None)):
        try:
            return _tried(each, started)
        except (selftest.Wrong, NativeError):
            continue  # without what may lie elsewhere, or say something else
    return _tried(bare, started)


def _tried(layout: Layout, started: selftest.Outcome) -> Evaluator:
    code = selftest.compiled(joined(text(layout)))
    found = Evaluator(layout, llvm.link(code, started.imports(), needs=started))
    tried(found)
    return found


Example = tuple[str, tuple[Any, ...], list[int], bool | tuple[object]]
"""A record's name, arguments, the record, and whether it holds of them; or what it reads."""


def tried(evaluator: Evaluator) -> None:
    """Try each kind of record, on what it holds of and on what it does not.

    Raises:
        Wrong: an answer is not as expected.
    """
    layout = evaluator.layout
    known = (_of_tensors(evaluator), _of_leaves(layout), _of_states(layout.states))
    examples = chain(_examples(layout), *known)
    for name, arguments, record, answer in examples:
        read = answer if isinstance(answer, tuple) else ()
        count, results = len(arguments), len(arguments) + len(read)
        words = [CODES[name], *record, CODES[END], results, 0, 0, *range(results)]
        function = evaluator.function(count, results, words)
        before = list(map(sys.getrefcount, arguments))
        right = function(*arguments) == ((*arguments, *read) if answer else None)
        selftest.expect(f"whether a table answers {name}", right, True)
        after = list(map(sys.getrefcount, arguments))
        selftest.expect(f"references after {name}", after, before)
    _expect_changes(evaluator)
    selftest.expect("a table with other arguments", function(*range(9)), None)


class _Instance:
    def __init__(self, value: object) -> None:
        self.value = value


def _expect_changes(evaluator: Evaluator) -> None:
    """Try whether what a table remembers of a dictionary is given up with each change of it."""
    first, second, name, other = object(), object(), "value", "other"
    words = [CODES["KEY"], 0, id(name), 0, UNKNOWN, 0]
    words += [CODES["CONTAINS"], 0, id(other), 1, UNKNOWN]
    function = evaluator.function(1, 2, [*words, CODES[END], 1, 0, 0, 1])
    plain: dict[object, object] = {name: first}
    instances = [_Instance(first) for _ in range(2)]
    kinds: list[tuple[dict[Any, object], Callable[[Any, object], object]]] = [
        (plain, partial(operator.setitem, plain)),
        *((vars(x), partial(setattr, x)) for x in instances),
    ]
    for names, store in kinds:
        for value in (first, first, second, second, first):
            store(name, value)
            selftest.expect("what a dictionary has", function(names), (value,))
            selftest.expect("what it has again", function(names), (value,))
        store(other, 0)
        selftest.expect("a dictionary with another name", function(names), None)
        del names[other]
        selftest.expect("one without it again", function(names), (first,))
        del names[name]
        selftest.expect("one without the name", function(names), None)


def _examples(layout: Layout) -> Iterator[Example]:
    """While this generator lives, so do the objects that the records refer to."""
    one, name, other, text = object(), "value", "other", "a text"
    instance, keys, large = _Instance(one), (name, "x y", 7), 1 << 80
    dictionary = {name: one, "".join(("x", " y")): 0, 7: 0}
    yield "CONSTANT", (one,), [0, id(text), 0], (text,)
    for cls in (_Instance, int):
        yield "DICTIONARY", (instance,), [0, id(cls), id("__dict__")], (vars(instance),)
    yield "ATTRIBUTE", (instance,), [0, id(name), 0], (one,)
    yield "KEY", (dictionary,), [0, id(name), 0, UNKNOWN, 0], (one,)
    yield "KEY", (dictionary,), [0, id(other), 0, UNKNOWN, 0], False
    yield "KEY", ([text, one],), [0, id(1), 0, UNKNOWN, 0], (one,)
    yield "KEYED", (dictionary, name), [0, 0, 1], (one,)
    yield "KEYED", (dictionary, other), [0, 0, 1], False
    for named in (dictionary, OrderedDict(dictionary)):
        for key, absent in ((name, False), (other, False), (name, True), (other, True)):
            yield "LISTED", (named,), [0, id(key), absent], (key is other) is absent
    yield "CALL", (instance,), [0, id(type), 0], (_Instance,)
    yield "CALL", (instance,), [0, id(getattr), id(name)], (one,)
    for cls in (_Instance, int):
        yield "TYPE", (instance,), [0, id(cls), 0], cls is _Instance
    for apart in (False, True):
        yield "IS", (one,), [0, id(one), apart], not apart
        yield "IS", (one,), [0, id(text), apart], apart
        yield "SAME", (one, one), [0, apart, 1], not apart
        yield "SAME", (one, text), [0, apart, 1], apart
        yield "CONTAINS", (dictionary,), [0, id(name), apart, UNKNOWN], not apart
        yield "CONTAINS", (dictionary,), [0, id(other), apart, UNKNOWN], apart
        yield "CONTAINS", ([7],), [0, id(7), apart, UNKNOWN], not apart
    for value, kind, holds in ((1 << 80, int, True), (1 << 81, int, False), (1 << 80, str, False)):
        yield "EQUAL", (value,), [0, id(large), id(kind)], holds
    for number, holds in ((0.5, True), (-0.5, False), (1, False)):
        yield "BITS", (number,), [0, *struct.unpack("q", struct.pack("d", 0.5)), id(float)], holds
    for sized in ((1, 2), [1, 2], {1: 2, 3: 4}, OrderedDict({1: 2, 3: 4})):
        yield "BITS", (sized,), [0, 2, id(type(sized))], True
        yield "BITS", (sized,), [0, 1, id(type(sized))], False
    wrong: tuple[Any, ...] = ({name: 0, 7: 0, "x y": 0}, {name: 0, "x y": 0}, {}, [*keys])
    for named in (dictionary, *wrong, dictionary | {8: 0}, {name: 0, "x y": 0, 7.0: 0}):
        yield "KEYS", (named,), [0, id(keys), 0], named is dictionary
    code = _said.__code__
    for function, holds in ((_said, True), (tried, False), (len, False)):
        yield "CODE", (function,), [0, id(code), id(_said)], holds
    for function in (_said, tried):
        yield "CODE", (function,), [0, id(tried.__code__), id(_swapped)], True
    order = [id(_Instance) + layout.order_at, -1, id(_Instance.__mro__)]
    for there, again, holds in ((0, False, True), (1, True, True), (1, False, False)):
        check = partial(_said, again)
        yield "WORDS", (one,), [1, id(check), 0, *order[:2], order[2] + there], holds
    for answer, about, holds in (
        *((3, 1, True), (3, 0, False), (0, 0, True), (0, 1, False)),
        *((None, 2, True), (0, 2, False)),
    ):
        says = partial(_said, answer)
        yield "ANSWERS", (one,), [about, id(says), 0], holds
        yield "ANSWERS", (one,), [about, id(_said), id(answer)], holds
    for pair in ((3, 3), (3, 4)):
        yield "HOLDS", pair, [0, id(operator.eq), 1], pair == (3, 3)
    for single in (0, 1):
        yield "HOLDS", (single,), [0, id(bool), -1], bool(single)


def _said(answer: object, *about: object) -> object:
    return answer


def _swapped(code: object) -> object:
    return tried.__code__ if code is _said.__code__ else code


def _of_tensors(evaluator: Evaluator) -> Iterator[Example]:
    x = zeros(2, 3)
    described = evaluator.described(x)
    if evaluator.layout.keys_at is None or described is None:
        return
    record = [0, id(torch.Tensor), 2, *described]
    alike = zeros(3, 3)[1:]
    yield "TENSOR", (alike,), [*record, 2, 3, 3, 1], True
    with torch.inference_mode():
        inference = zeros(2, 3)
    for tensor in (
        *(x.double(), x.clone().requires_grad_(), x.to("meta")),
        *(torch.nn.Parameter(x, requires_grad=False), inference, x[0], zeros(2, 4)),
        *(zeros(3, 2).t(), x.to_sparse(), zeros(2, 3, 1), 0),
    ):
        yield "TENSOR", (tensor,), [*record, 2, 3, 3, 1], False
    yield "TENSOR", (zeros(5, 3),), [*record, ANY, 3, 3, 1], True
    yield "TENSOR", (zeros(3, 2).t(),), [*record, 2, 3, ANY, ANY], True
    z = zeros(2, 3, dtype=torch.cfloat)
    about = evaluator.described(z)
    assert about is not None
    for tensor in (z, z.conj()):
        yield "TENSOR", (tensor,), [0, id(torch.Tensor), 2, *about, 2, 3, 3, 1], tensor is z
    memory = (ctypes.c_uint64 * 8)()
    for given in ((x, z, alike), (x, z, x)):
        numbers = range(len(given))
        distinct = [len(given), ctypes.addressof(memory), 8, *numbers]
        yield "DISTINCT", given, distinct, given[-1] is alike


def _of_leaves(layout: Layout) -> Iterator[Example]:
    if layout.histories is None:
        return
    with torch.enable_grad():
        leaf = zeros(2).requires_grad_()
        hooked: Any = zeros(2).requires_grad_()
        called: Any = zeros(2).requires_grad_()
        views = [leaf[0], leaf.detach()[:1], zeros(2)[0]]
        made = leaf * 2
    hooked.register_hook(lambda grad: None)
    called.register_post_accumulate_grad_hook(lambda leaf: None)
    told: list[tuple[torch.Tensor, bool, bool]] = [
        *((x, True, True) for x in (leaf, zeros(2))),
        *((x, True, False) for x in (hooked, called, *_of_other_gradients())),
        *((x, False, False) for x in (made, *views)),
    ]
    for tensor, is_leaf, is_bare in told:
        for bare in (False, True):
            for answer in (False, True):
                check = partial(_said, answer)
                record = [0, id(torch.Tensor), id(check), layout.histories.plain, bare]
                yield "LEAF", (tensor,), record, answer or (is_bare if bare else is_leaf)
    for other in (torch.nn.Parameter(zeros(2)), 0):
        yield "LEAF", (other,), record, False


def _of_other_gradients() -> Iterator[torch.Tensor]:
    """Leaves that take gradients of another dtype, or of any."""
    if hasattr(torch.Tensor, "grad_dtype"):
        for dtype in (torch.float64, None):
            leaf: Any = zeros(2).requires_grad_()
            leaf.grad_dtype = dtype
            yield leaf


def _of_states(known: states.States | None) -> Iterator[Example]:
    """Of what is this thread's alone the state is changed, of all else what a record says of it."""
    if known is None:
        return
    for part in known.parts:
        words = known.words(part)
        count = len(words) // states.WORDS
        yield "STATE", (), [count, 0, 0, *words], True
        for k in range(count):
            wrong = [*words]
            wrong[states.WORDS * (k + 1) - 1] ^= 1
            yield "STATE", (), [count, 0, 0, *wrong], False
        for change in _CHANGES[part]:
            with change():
                _expect_settings(known)
                yield "STATE", (), [count, 0, 0, *words], False
            yield "STATE", (), [count, 0, 0, *words], True
    begin, end = states.HOOKS
    hooks = [begin, known.hooks, end]
    yield "EMPTY", (), hooks, True
    for depth in (1, 100):
        with ExitStack() as stack:
            for _ in range(depth):
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(_same, _same))
            yield "EMPTY", (), hooks, False
        yield "EMPTY", (), hooks, True


def _expect_settings(known: states.States) -> None:
    """Compare what native code is told with what Python is told."""
    told = (
        torch.is_grad_enabled(),
        *(torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda")),
        *(dtype_code(torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")),
        torch.is_autocast_cache_enabled(),
        None,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        dtype_code(torch.get_default_dtype()),
    )
    for (name, *_), getter, answer in zip(
        states.SETTINGS, known.parts["settings"], told, strict=True
    ):
        if answer is not None:
            selftest.expect(name, getter.now(), int(answer))


def _same(tensor: Any) -> Any:
    return tensor


def _without_subclasses() -> AbstractContextManager[object]:
    return modes.WITHOUT_SUBCLASSES.get()()


Change = Callable[[], AbstractContextManager[object]]

_CHANGES: Mapping[states.Part, tuple[Change, ...]] = {
    "settings": (
        lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.autocast("cpu", dtype=torch.float16, enabled=False),
        lambda: torch.autocast("cpu", enabled=False, cache_enabled=False),
        _without_subclasses,
    ),
    "function modes": (TorchFunctionMode,),
    "thread": (torch.inference_mode, lambda: torch.autocast("cpu")),
}
"""What changes a part of this thread's state."""
