"""Memory of results is used again when nobody has it any more, and never before."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import jitpkg
from jitpkg import native
from jitpkg.native import Pool, Signature, selftest, storages
from jitpkg.native.pool import FROM, SLOTS
from tests.native.support import built, needs_llvm, summing, vector

pytestmark = needs_llvm

ROOT = Path(__file__).parents[2]
COUNT = FROM // 4 + 1
"""Floats that are pooled."""
LIMIT = 64 << 20


@pytest.fixture
def pool() -> Iterator[Pool]:
    native.start()
    found = native.pool()
    assert found is not None
    found.limit_to(LIMIT)
    found.empty()
    yield found
    found.limit_to(0)


@pytest.fixture(scope="module")
def copied() -> Callable[[torch.Tensor, int], torch.Tensor]:
    """A native function that copies so many floats."""
    return built(summing(1), Signature(1, 1, (vector("i0"),), releases_gil=True))


class Copies:
    """Makes results that are full of one number."""

    def __init__(self, function: Callable[[torch.Tensor, int], torch.Tensor]) -> None:
        self.function = function

    def of(self, number: float, count: int = COUNT) -> torch.Tensor:
        return self.function(torch.full((count,), number), count)


@pytest.fixture
def copies(copied: Callable[..., torch.Tensor], pool: Pool) -> Copies:
    return Copies(copied)


def test_memory_that_was_dropped_is_used_again(copies: Copies, pool: Pool) -> None:
    result = copies.of(1.0)
    place = result.data_ptr()
    assert pool.held() == 0
    del result
    assert pool.held() >= 4 * COUNT
    result = copies.of(2.0)
    assert result.data_ptr() == place
    assert pool.held() == 0
    assert result.eq(2.0).all()


def saved(result: torch.Tensor) -> Any:
    """A graph that has saved it for its backward pass."""
    weight = torch.ones((), requires_grad=True)
    return (result * weight).grad_fn


def swapped(result: torch.Tensor) -> Any:
    other = torch.empty(0)
    torch.utils.swap_tensors(result, other)
    return other


def in_the_data(result: torch.Tensor) -> Any:
    other = torch.empty(0)
    other.data = result
    return other


def in_a_cycle(result: torch.Tensor) -> Any:
    cycle: list[Any] = [result]
    cycle.append(cycle)
    return cycle


HOLDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda result: result,
    "a view": lambda result: result[3:5],
    "a view of a view": lambda result: result[1:].view(-1, 4).t(),
    "detached": lambda result: result.detach(),
    "data": lambda result: result.data,
    "an array": lambda result: result.numpy(),
    "a view of an array": lambda result: result.numpy()[7:9],
    "a memoryview": lambda result: memoryview(result.numpy()),
    "a capsule": lambda result: torch.utils.dlpack.to_dlpack(result),
    "an array by dlpack": numpy.from_dlpack,
    "a tensor by dlpack": lambda result: torch.from_dlpack(result),
    "a tensor of an array": lambda result: torch.from_numpy(result.numpy()),
    "the storage": lambda result: result.untyped_storage(),
    "a parameter": lambda result: torch.nn.Parameter(result),
    "a subclass": lambda result: result.as_subclass(torch.nn.Buffer),
    "set_": lambda result: torch.empty(0).set_(result),
    "the data of another": in_the_data,
    "swapped into another": swapped,
    "saved for backward": saved,
    "a graph": lambda result: (result.requires_grad_() * 1).grad_fn,
    "a cycle": in_a_cycle,
    "a closure": lambda result: lambda: result,
    "a bound method": lambda result: result.add_,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_anyone_has_is_not_used_again(name: str, copies: Copies, pool: Pool) -> None:
    result = copies.of(1.0)
    place, storage = result.data_ptr(), StorageWeakRef(result.untyped_storage())
    held = HOLDERS[name](result)
    del result
    assert not storage.expired()
    others = [copies.of(float(k)) for k in range(2, 5)]
    assert place not in [other.data_ptr() for other in others]
    assert copies.function(_floats_at(place, COUNT), COUNT).eq(1.0).all()
    del held, others
    gc.collect()
    assert storage.expired()
    assert place in [copies.of(0.0).data_ptr(), *(x.data_ptr() for x in _several(copies))]


def _floats_at(place: int, count: int) -> torch.Tensor:
    memory = (ctypes.c_float * count).from_address(place)
    return torch.frombuffer(memory, dtype=torch.float32).clone()


def _several(copies: Copies) -> list[torch.Tensor]:
    return [copies.of(0.0) for _ in range(4)]


def test_a_backward_pass_finds_what_was_saved(copies: Copies) -> None:
    weight = torch.ones(COUNT, requires_grad=True)
    loss = (weight * copies.of(3.0)).sum()
    for k in range(5):
        copies.of(float(k))
    loss.backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert weight.grad.eq(3.0).all()


def test_weak_references_see_a_result_die(copies: Copies) -> None:
    seen: list[str] = []
    result = copies.of(1.0)
    storage = result.untyped_storage()
    storage.name = "mine"  # type: ignore[attr-defined]
    weak = weakref.ref(result), weakref.ref(storage), StorageWeakRef(storage)
    weakref.finalize(storage, seen.append, "storage")
    place = result.data_ptr()
    del result, storage
    assert weak[0]() is None
    assert weak[1]() is None
    assert weak[2].expired()
    assert seen == ["storage"]
    again = copies.of(2.0)
    assert again.data_ptr() == place
    assert not hasattr(again.untyped_storage(), "name")


def test_what_gets_other_memory_gives_its_own_back(copies: Copies, pool: Pool) -> None:
    other = torch.ones(2 * COUNT)
    changes: list[Callable[[torch.Tensor], Any]] = [
        lambda result: result.resize_(2 * COUNT),
        lambda result: result.set_(other),
        lambda result: setattr(result, "data", other),
        lambda result: result.untyped_storage().resize_(0),
        lambda result: result.share_memory_(),
        lambda result: torch.add(other, 1.0, out=result.resize_(0)),
    ]
    for change in changes:
        result = copies.of(1.0)
        place = result.data_ptr()
        assert pool.held() == 0
        change(result)
        assert pool.held() > 0
        second = copies.of(2.0)
        assert second.data_ptr() == place
        if result.untyped_storage().nbytes():
            assert result.data_ptr() != place
            result.fill_(5.0)
        assert second.eq(2.0).all()
        del second
        pool.empty()
        del result
        assert pool.held() == 0


def test_a_resized_result_keeps_its_elements(copies: Copies) -> None:
    result = copies.of(1.0).resize_(3 * COUNT)
    assert result[:COUNT].eq(1.0).all()
    assert result.untyped_storage().nbytes() == 12 * COUNT


def test_a_result_is_a_tensor_like_any_other(copies: Copies) -> None:
    result, plain = copies.of(1.0), torch.ones(COUNT)
    for of in (
        lambda x: (x.dtype, x.device, x.layout, x.size(), x.stride(), x.storage_offset()),
        lambda x: (x.is_leaf, x.requires_grad, x._version, x.is_inference(), x.is_shared()),
        lambda x: (x.is_pinned(), type(x), torch._C._dispatch_keys(x)),
        lambda x: (x.untyped_storage().resizable(), x.untyped_storage().nbytes()),
        lambda x: (x.untyped_storage().device, type(x.untyped_storage())),
    ):
        assert of(result) == of(plain)
    with torch.inference_mode():
        assert copies.of(1.0).is_inference()


def test_copies_have_memory_of_their_own(copies: Copies) -> None:
    result = copies.of(1.0)
    file = io.BytesIO()
    torch.save(result, file)
    file.seek(0)
    made = [copy.copy(result), copy.deepcopy(result), torch.load(file), result.clone()]
    del result
    copies.of(2.0).fill_(3.0)
    assert all(each.eq(1.0).all() for each in made)


def test_blocks_hold_what_they_are_taken_for(copies: Copies) -> None:
    """Results of many sizes side by side: none reaches into another one."""
    sizes = [COUNT + k for k in range(0, 40_000, 6733)] * 2
    for k in range(3):
        results = [copies.of(float(k * 100 + n), size) for n, size in enumerate(sizes)]
        assert len({result.data_ptr() for result in results}) == len(results)
        assert all(result.data_ptr() % 64 == 0 for result in results)
        for n, result in enumerate(results):
            assert result.eq(k * 100 + n).all()
        del results


def test_no_more_is_kept_than_allowed(copies: Copies, pool: Pool) -> None:
    results = [copies.of(float(k)) for k in range(6)]
    places = [result.data_ptr() for result in results]
    del results[-1]
    one = pool.held()
    results.clear()
    assert pool.held() == 6 * one
    pool.limit_to(2 * one)
    results = [copies.of(float(k)) for k in range(4)]
    places = [result.data_ptr() for result in results]
    while results:
        del results[0]
        assert pool.held() <= 2 * one
    assert pool.held() == 2 * one
    kept = [copies.of(0.0) for _ in range(2)]
    assert [each.data_ptr() for each in kept] == places[:1:-1], "the newest first"


def test_what_is_larger_than_allowed_is_not_kept(copies: Copies, pool: Pool) -> None:
    pool.limit_to(4 * COUNT - 1)
    copies.of(1.0)
    assert pool.held() == 0
    result = copies.of(1.0)
    pool.limit_to(0)
    del result
    assert pool.held() == 0


def test_the_pool_can_be_emptied(copies: Copies, pool: Pool) -> None:
    copies.of(1.0)
    assert pool.held() > 0
    pool.empty()
    assert pool.held() == 0
    copies.of(1.0)
    jitpkg.release_memory()
    assert pool.held() == 0


def test_more_blocks_than_places_for_them(copies: Copies, pool: Pool) -> None:
    pool.limit_to(SLOTS * FROM * 2)
    results = [copies.of(float(k)) for k in range(SLOTS + 10)]
    results[0] = copies.of(0.0)
    one = pool.held()
    results.clear()
    assert pool.held() == SLOTS * one


def test_small_and_empty_results_are_not_pooled(copies: Copies, pool: Pool) -> None:
    copies.of(1.0, FROM // 4 - 1)
    copies.of(1.0, 0)
    assert pool.held() == 0


def test_results_of_many_threads(copies: Copies, pool: Pool) -> None:
    wrong: list[str] = []
    exchanged: list[torch.Tensor] = []

    def work(number: int) -> None:
        mine = [copies.of(float(number))]
        for k in range(60):
            value = float(1000 * number + k)
            mine.append(copies.of(value, COUNT + 1000 * (k % 3)))
            exchanged.append(mine.pop(0))  # dies in any thread
            if len(exchanged) > 6:
                del exchanged[:3]
            if not mine[-1].eq(value).all():
                wrong.append(f"thread {number}, call {k}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    exchanged.clear()
    pool.empty()
    assert pool.held() == 0


def test_without_a_layout_there_is_no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storages, "layout", lambda: None)
    selftest._imports.cache_clear()
    monkeypatch.setattr(selftest, "_OUTCOME", selftest._Once())
    assert native.why_not() is None
    assert native.binding() == "tensors"
    assert native.pool() is None
    result = built(summing(1), Signature(1, 1, (vector("i0"),)))(torch.ones(COUNT), COUNT)
    assert result.eq(1.0).all()


def test_a_layout_that_is_wrong_is_not_taken() -> None:
    found = storages.layout()
    assert found is not None
    memory = torch.arange(storages._BYTES, dtype=torch.uint8)
    plain = torch.empty_like(memory)
    assert not storages._works(found, plain)
    assert storages._compared(plain, memory, plain.clone()) is None


ENDS = """
import threading, torch
from jitpkg import native
from tests.native.support import built, summing, vector

torch.set_num_threads(1)  # a child has no threads of OpenMP
copied = built(summing(1), native.Signature(1, 1, (vector("i0"),)))
native.pool().limit_to(1 << 26)
one = lambda value: copied(torch.full(({count},), value), {count})
{body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "kept = one(1.0); one(2.0)",
        "import builtins, sys; builtins.kept = one(1.0); sys.kept = [one(2.0)]",
        "kept = threading.local(); kept.x = one(1.0)",
        "import atexit; atexit.register(lambda kept=one(1.0): one(2.0))",
        "class A:\n    def __del__(self): one(1.0)\nkept = A(); kept.me = kept; kept.x = one(2.0)",
        "torch.kept = one(1.0).requires_grad_() * 2; del copied",
        """
import os
one(1.0)
kept = one(2.0)
one(3.0)
child = os.fork()
results = [one(4.0 if child else 5.0) for _ in range(3)]
assert kept.eq(2.0).all() and all(x.eq(4.0 if child else 5.0).all() for x in results)
if child:
    assert os.waitpid(child, 0)[1] == 0
""",
    ],
)
def test_the_end_of_a_process(body: str) -> None:
    if "fork" in body and sys.platform == "win32":
        pytest.skip("no fork")
    code = ENDS.format(count=COUNT, body=body)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


MALLOC = """
import ctypes, sys
import torch
import jitpkg

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ord smb hblks hblkhd".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "usmblks fsmblks uord ford keep".split()]

def mapped():
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Info
    return ask().hblks

if sys.argv[1] != "-":
    with jitpkg.config.patch(pool_megabytes=int(sys.argv[1])):
        jitpkg.compile(lambda x: x.sin() * 2, backend="jitpkg")(torch.ones(3))
before = mapped()
held = torch.empty(8 << 20, dtype=torch.uint8)
print(mapped() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="malloc is another one")
@pytest.mark.parametrize(("megabytes", "own"), [("-", "1"), ("0", "1"), ("512", "0")])
def test_malloc_keeps_what_is_freed(megabytes: str, own: str) -> None:
    """Where it does, a large block comes from its heap, and no pages are mapped for it alone."""
    command = [sys.executable, "-c", MALLOC, megabytes]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == own
