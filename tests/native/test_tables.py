"""Tables of tests: what the trials at the start do not try."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jitpkg import native
from jitpkg.internals import tensors
from jitpkg.native import histories, memory, records, states, symbols, tables, trials
from jitpkg.native.row import UNKNOWN, Row
from jitpkg.native.tables import CODES
from tests.native.support import needs_llvm

pytestmark = needs_llvm


@pytest.fixture
def evaluator() -> native.Evaluator:
    found = native.evaluator(start=True)
    assert found is not None
    return found


def record(name: str, a: int = 0, b: int = 0, c: int = 0, *words: int) -> list[int]:
    return [CODES[name], a, b, c, *words]


@pytest.mark.parametrize("count", [1, tables.ON_STACK - 1, tables.ON_STACK, 3000])
def test_many_registers(evaluator: native.Evaluator, count: int) -> None:
    """Those for which the stack has no room lie elsewhere."""
    values = [object() for _ in range(count)]
    given = dict.fromkeys(map(str, range(count)))
    given |= zip(given, values, strict=True)
    keys = list(given)
    words = [word for key in keys for word in record("KEY", 0, id(key), 0, UNKNOWN, 0)]
    words += record("END", count, 0, 0, *range(count, 0, -1))
    before = [sys.getrefcount(value) for value in values]
    function = evaluator.function(1, count + 1, words)
    assert function(given) == tuple(reversed(values))
    words[-4 - count :] = record("IS", count, id(None)) + record("END")
    assert evaluator.function(1, count + 1, words)(given) is None
    assert [sys.getrefcount(value) for value in values] == before


class Odd:
    """Equal to a string by hash, and asked whether it is it."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def __hash__(self) -> int:
        return hash("key")

    def __eq__(self, other: object) -> bool:
        self.then()
        return False


def test_code_that_a_read_runs_takes_nothing_away(evaluator: native.Evaluator) -> None:
    class Thing:
        pass

    holder: dict[str, Any] = {"thing": Thing()}
    gone = weakref.ref(holder["thing"])
    odd = Odd(bool)
    names = {odd: 1, "key": 2}

    def let_go() -> None:
        holder.clear()
        gc.collect()

    odd.then = let_go
    first, second, cls = "thing", "key", Thing
    table = record("KEY", 0, id(first), 0, UNKNOWN, 0)
    table += record("KEY", 1, id(second), 0, UNKNOWN, 0) + record("TYPE", 2, id(cls))
    function = evaluator.function(2, 4, table + record("END", 2, 0, 0, 2, 3))
    found = function(holder, names)
    assert type(found[0]) is Thing
    assert found[1] == 2
    assert not holder
    del found
    assert gone() is None


def raising() -> None:
    raise LookupError("of the program")


@pytest.mark.parametrize(
    "made",
    [
        lambda: record("KEY", 0, id("key"), 0, UNKNOWN, 0),
        lambda: record("CONTAINS", 0, id("key"), 1, UNKNOWN),
        lambda: record("CALL", 0, id(RAISES)),
        lambda: record("HOLDS", 0, id(RAISES), -1 & (1 << 64) - 1),
        lambda: record("ANSWERS", 1, id(raising)),
        lambda: record("WORDS", 1, id(raising), 0, id(RAISES), -1, 0),
    ],
)
def test_exceptions_come_out(evaluator: native.Evaluator, made: Any) -> None:
    given = {Odd(raising): 1}
    before = sys.getrefcount(given)
    function = evaluator.function(1, 2, made() + record("END"))
    with pytest.raises(LookupError, match="of the program"):
        function(given)
    assert sys.getrefcount(given) == before


def RAISES(value: object) -> None:
    raising()


def test_a_comparison_of_a_subclass_is_not_asked(evaluator: native.Evaluator) -> None:
    class Text(str):
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = str.__hash__

    text = "text"
    function = evaluator.function(1, 1, record("EQUAL", 0, id(text), id(str)) + record("END"))
    assert function("".join(["te", "xt"])) == ()
    assert function(Text("text")) is None


def test_threads(evaluator: native.Evaluator) -> None:
    """The memory in which objects are compared is one for all."""
    many = [object() for _ in range(300)]
    memory = (ctypes.c_uint64 * 1024)()
    distinct = record("DISTINCT", 300, ctypes.addressof(memory), 1024, *range(300))
    function = evaluator.function(300, 300, distinct + record("END"))
    wrong = []

    def calls(last: object, expected: object) -> None:
        found = [function(*many[:-1], last) for _ in range(2000)]
        wrong.extend(each for each in found if each != expected)

    workers = [
        threading.Thread(target=calls, args=(last, expected))
        for last, expected in ((many[0], None), (many[-1], ())) * 2
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def store(holder: Any, name: str, value: object) -> None:
    if name == "a":
        holder.a = value  # an instruction of its own, which CPython specialises
    else:
        setattr(holder, name, value)


def discard(holder: Any, name: str, value: object) -> None:
    vars(holder).pop(name, None)


def delete(holder: Any, name: str, value: object) -> None:
    with contextlib.suppress(AttributeError):
        delattr(holder, name)


CHANGES = (
    *(store, discard, delete),
    lambda holder, name, value: vars(holder).__setitem__(name, value),
    lambda holder, name, value: vars(holder).update({name: value}),
    lambda holder, name, value: vars(holder).setdefault(name, value),
    lambda holder, name, value: vars(holder).clear(),
    lambda holder, name, value: setattr(holder, "__dict__", {name: value}),
    lambda holder, name, value: setattr(holder, "__dict__", dict(vars(holder))),
    lambda holder, name, value: [setattr(holder, f"x{k}", value) for k in range(40)],
)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside"])
@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CHANGES),
            st.sampled_from("abc"),
            st.integers(-3, 3),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_what_is_remembered_of_a_dictionary(beside: bool, changes: list[Any]) -> None:
    """After each change a table says what the dictionary says, of an object or on its own."""
    evaluator = native.evaluator(start=True)
    assert evaluator is not None

    class Holder:  # anew: instances of one class share how their values lie
        def __init__(self) -> None:
            self.a = self.b = 1

    holder, name, other, cls = Holder(), "a", "b", Holder
    words = record("DICTIONARY", 0, id(cls), id("__dict__"))
    words += record("KEY", 1, id(name), 0, UNKNOWN, 0)
    words += record("CONTAINS", 1, id(other), 0, UNKNOWN)
    function = evaluator.function(1, 3, words + record("END", 1, 0, 0, 2))
    asked: Any = vars(holder) if beside else None  # its values may lie in the object or in it
    for change, changed, value, asks in changes:
        change(holder, changed, value)
        if not asks:
            continue
        asked = vars(holder)
        there = "a" in asked and "b" in asked
        for _ in range(2):
            assert function(holder) == ((asked["a"],) if there else None)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had asked yet."""
    monkeypatch.setattr(trials, "_ONCE", trials._Once())


@pytest.mark.usefixtures("fresh")
def test_where_native_code_was_not_started_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials.selftest, "_OUTCOME", trials.selftest._Once())
    assert native.evaluator(start=False) is None


@pytest.mark.usefixtures("fresh")
def test_a_wrong_answer_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    right = trials.tried

    def with_another_layout(evaluator: native.Evaluator) -> None:
        raise trials.selftest.Wrong("the layout")

    monkeypatch.setattr(trials, "tried", with_another_layout)
    assert native.evaluator(start=True) is None
    monkeypatch.setattr(trials, "tried", right)
    assert native.evaluator(start=True) is None  # it is asked once


ROWS = (*records.READS, *records.TESTS, *records.STATES, *records.TENSORS)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_trials_see_a_row_that_says_yes(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row in turn lets everything pass, or reads its first argument."""
    if row in records.READS:
        words = 2 if row.name == "KEY" else 0
        text = f"%one = load ptr, ptr %registers\n borrow %one {words}"
    else:
        text = {
            "WORDS": "%length = mul i64 %a, 3\n pass %length",
            "TENSOR": "%both = shl i64 %c, 1\n %words = add i64 %both, 2\n pass %words",
            "DISTINCT": "pass %a",
            "CONTAINS": "pass 1",
            "STATE": "%length = mul i64 %a, 5\n pass %length",
        }.get(row.name, "pass")
    rows = tuple(Row(r.name, r.means, text) if r is row else r for r in records.ROWS)
    monkeypatch.setattr(tables, "ROWS", rows)
    started = trials.selftest.outcome()
    with pytest.raises(trials.selftest.Wrong, match=row.name):
        trials._tried(tables.look(), started)


def test_without_dispatch_keys_torch_compares_tensors() -> None:
    with tensors.KEYS.removed():
        assert tables.look().keys_at is None
    assert tables.look().keys_at is not None


def test_nothing_is_read_beyond_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `__sizeof__` says of a class lies elsewhere in part."""

    class Example:
        pass

    counts = []

    def counted(address: int, count: int) -> list[int]:
        counts.append(count)
        return [address] * count

    monkeypatch.setattr(memory, "words_at", counted)
    for holder in (Example, counted, (Example, Example)):
        with contextlib.suppress(ValueError):
            memory.place(object(), holder)
    sizes = [type.__basicsize__, type(counted).__basicsize__, (1, 2).__sizeof__()]
    assert [8 * count for count in counts] == sizes


def test_where_histories_lie_is_found_each_time() -> None:
    """Whatever was in memory before, which is not all written to."""
    if histories.look() is None:
        pytest.skip("this PyTorch does not tell")
    found = set()
    for k in range(100):
        dirty = [torch.full((k % 7 + 1,), -1, dtype=torch.int64) for _ in range(k)]
        others = [bytes([255]) * size for size in range(150, 250)]
        del dirty, others
        found.add(histories.look())
    assert len(found) == 1


def test_one_place_of_several() -> None:
    rounds = iter([{1, 4, 5}, {4, 5, 9}, *[{2, 4, 5}] * 6])
    assert histories._always(lambda alive: next(rounds)) == 4
    with pytest.raises(ValueError, match="unpack"):
        histories._always(lambda alive: {1, 7})


def test_tables_without_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they lie elsewhere, all other records are used."""
    right = histories.look()
    if right is None:
        pytest.skip("this PyTorch does not tell")
    wrong = dataclasses.replace(right, node_at=right.node_at + 16)
    monkeypatch.setattr(histories, "look", lambda: wrong)
    monkeypatch.setattr(trials, "_ONCE", trials._Once())
    found = native.evaluator(start=True)
    assert found is not None
    assert found.layout.histories is None


def test_tables_without_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a function says something else than Python is told, Python is asked."""
    right = states.look()
    if right is None:
        pytest.skip("this PyTorch does not tell")
    swapped = dict(right.parts)
    first, *others = swapped["settings"]
    swapped["settings"] = (dataclasses.replace(first, function=others[-1].function), *others)
    monkeypatch.setattr(states, "look", lambda: dataclasses.replace(right, parts=swapped))
    monkeypatch.setattr(trials, "_ONCE", trials._Once())
    found = native.evaluator(start=True)
    assert found is not None
    assert found.layout.states is None
    assert found.layout.histories is not None or histories.look() is None


@pytest.mark.parametrize("missing", ["jitpkg_grad_mode", "__tls_get_addr"])
def test_a_function_that_is_missing(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    others = {name: at for name, at in symbols.addresses().items() if name != missing}
    monkeypatch.setattr(states, "addresses", lambda: others)
    assert states.look.__wrapped__() is None


def test_a_trial_that_a_signal_ends_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(started: object) -> Any:
        monkeypatch.setattr(trials, "_made", made)
        raise KeyboardInterrupt

    made = trials._made
    monkeypatch.setattr(trials, "_ONCE", trials._Once())
    monkeypatch.setattr(trials, "_made", interrupted)
    with pytest.raises(KeyboardInterrupt):
        native.evaluator(start=True)
    assert native.evaluator(start=True) is not None
