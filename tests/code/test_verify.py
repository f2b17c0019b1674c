"""Each rule of the verifier, with code that keeps it and code that breaks it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from jitpkg.code.analysis import analyse
from jitpkg.code.verify import Unverified, verify, verify_like
from jitpkg.code.versions import JUMP_IF, LOAD_CELL, NULL_BELOW_CALLABLE, UNBOUND_LOAD_CRASHES
from tests.code.support import Line, by_hand, call

RETURN_NONE: list[Line] = [("LOAD_CONST", 0), "RETURN_VALUE"]
IF_A: list[Line] = [("LOAD_FAST", 0), (JUMP_IF + "TRUE", 0, "yes")]
NULL_BELOW: list[Line] = ["PUSH_NULL", ("LOAD_FAST", 0)]
NULL_ABOVE: list[Line] = [("LOAD_FAST", 0), "PUSH_NULL"]


def refused(lines: Sequence[Line], why: str, **layout: Any) -> None:
    with pytest.raises(Unverified, match=re.escape(why)):
        verify(by_hand(lines, **layout))


def accepted(lines: Sequence[Line], **layout: Any) -> None:
    verify(by_hand(lines, **layout))


def test_code_that_keeps_the_rules() -> None:
    accepted([("RESUME", 0), ("LOAD_FAST", 0), ("STORE_FAST", 1), *RETURN_NONE], arguments=1)


def test_the_stack_has_one_depth() -> None:
    lines = [*IF_A, ("LOAD_CONST", 0), "yes:", *RETURN_NONE]
    refused(lines, "stack '' and 'v'", arguments=1)


def test_the_stack_does_not_underflow() -> None:
    refused(["POP_TOP", *RETURN_NONE], "POP_TOP takes 1 values from the stack ''")
    refused([("LOAD_CONST", 0), ("SWAP", 2), "RETURN_VALUE"], "SWAP 2 of the stack 'v'")
    refused([("STORE_FAST", 0), *RETURN_NONE], "a store from an empty stack")


def test_the_stack_does_not_overflow() -> None:
    lines: list[Line] = [*[("LOAD_CONST", 0)] * 3, ("BUILD_TUPLE", 3), "RETURN_VALUE"]
    accepted(lines, stacksize=3)
    refused(lines, "exceeds co_stacksize 2", stacksize=2)


def test_no_way_leads_past_the_end() -> None:
    refused([("LOAD_CONST", 0), "POP_TOP"], "a way leads past the last instruction")
    refused([*IF_A, *RETURN_NONE, "yes:"], "a way leads past", arguments=1)


@pytest.mark.skipif(not UNBOUND_LOAD_CRASHES, reason="this Python checks every load")
def test_an_unbound_local_is_not_loaded() -> None:
    load: list[Line] = [("LOAD_FAST", 1), "RETURN_VALUE"]
    refused(load, "slot 1 may be unbound", arguments=1)
    refused([*IF_A, ("LOAD_CONST", 0), ("STORE_FAST", 1), "yes:", *load], "slot 1", arguments=1)
    refused([("DELETE_FAST", 0), ("LOAD_FAST", 0), "RETURN_VALUE"], "slot 0", arguments=1)
    accepted([("LOAD_FAST_CHECK", 1), "RETURN_VALUE"])


@pytest.mark.skipif(not UNBOUND_LOAD_CRASHES, reason="this Python checks every load")
def test_a_handler_knows_only_what_was_stored_before_it() -> None:
    lines: list[Line] = [
        *IF_A,
        ("LOAD_CONST", 0),
        ("STORE_FAST", 1),
        "yes:",
        *RETURN_NONE,
        "handler:",
        "POP_TOP",
        ("LOAD_FAST", 1),
        "RETURN_VALUE",
    ]
    refused(lines, "slot 1 may be unbound", arguments=1, covered=(2, 3, "handler", 0))
    accepted(lines, arguments=2, covered=(2, 3, "handler", 0))


def test_a_null_is_no_object() -> None:
    refused(["PUSH_NULL", "RETURN_VALUE"], "a NULL is used as an object")
    refused(["PUSH_NULL", "POP_TOP", *RETURN_NONE], "a NULL is used as an object")
    refused(["PUSH_NULL", ("COPY", 1), "RETURN_VALUE"], "a NULL is used as an object")
    accepted(["PUSH_NULL", ("STORE_FAST", 1), *RETURN_NONE])


def test_a_null_belongs_to_a_callable() -> None:
    right, wrong = NULL_BELOW, NULL_ABOVE
    if not NULL_BELOW_CALLABLE:
        right, wrong = wrong, right
    accepted([*right, *call(0), "RETURN_VALUE"], arguments=1)
    refused([*wrong, *call(0), "RETURN_VALUE"], "a NULL is used as an object", arguments=1)


def test_a_cell_is_where_one_is_used() -> None:
    refused([("LOAD_DEREF", 0), "RETURN_VALUE"], "slot 0 may hold no cell", arguments=1)
    accepted([("MAKE_CELL", 0), ("LOAD_DEREF", 0), "RETURN_VALUE"], arguments=1)
    lost: list[Line] = [("MAKE_CELL", 0), ("LOAD_CONST", 0), ("STORE_FAST", 0)]
    refused([*lost, ("LOAD_DEREF", 0), "RETURN_VALUE"], "slot 0 may hold no cell", arguments=1)


def test_an_argument_may_be_a_cell() -> None:
    """As in a resume function, where MAKE_CELL wraps it and it is unwrapped again."""
    unwrap: list[Line] = [("MAKE_CELL", 0), ("LOAD_DEREF", 0), ("STORE_FAST", 0)]
    code = by_hand([*unwrap, ("LOAD_DEREF", 0), "RETURN_VALUE"], arguments=1)
    verify(code, cells=(0,))
    with pytest.raises(Unverified, match="slot 0 may hold no cell"):
        verify(code)


def test_nobody_else_has_a_cell_that_wraps_another() -> None:
    store: list[Line] = [("MAKE_CELL", 0), ("LOAD_CONST", 0), ("STORE_DEREF", 0), *RETURN_NONE]
    share: list[Line] = [("MAKE_CELL", 0), (LOAD_CELL, 0), "RETURN_VALUE"]
    for lines in (store, share):
        code = by_hand(lines, arguments=1)
        verify(code)
        with pytest.raises(Unverified, match="slot 0 may"):
            verify(code, cells=(0,))


def test_only_a_saved_exception_ends_the_handling_of_one() -> None:
    refused([("LOAD_CONST", 0), "POP_EXCEPT", *RETURN_NONE], "no saved exception: 'v'")
    accepted([("LOAD_CONST", 0), "PUSH_EXC_INFO", "POP_TOP", "POP_EXCEPT", *RETURN_NONE])


def test_a_handler_keeps_no_more_than_there_is() -> None:
    lines: list[Line] = [("LOAD_CONST", 0), "RETURN_VALUE", "handler:", ("RERAISE", 0)]
    accepted(lines, covered=(0, 0, "handler", 0))
    refused(lines, "below the handler's depth 1", covered=(0, 0, "handler", 1))


def test_constants_names_and_slots_exist() -> None:
    refused([("LOAD_CONST", 7), "RETURN_VALUE"], "there is no constant 7")
    refused([("LOAD_FAST", 9), "RETURN_VALUE"], "there is no slot 9", arguments=1)
    store: list[Line] = [("LOAD_FAST", 0), ("LOAD_FAST", 0), ("STORE_ATTR", 3), *RETURN_NONE]
    refused(store, "there is no name 3", arguments=1)


# What emitted code finds before each original instruction

ORIGINAL: list[Line] = [("RESUME", 0), ("LOAD_CONST", 0), ("STORE_FAST", 1), *RETURN_NONE]
PLACES = {k: k for k in range(5)}


def test_emitted_code_finds_the_same() -> None:
    original = analyse(by_hand(ORIGINAL))
    verify_like(analyse(by_hand(ORIGINAL)), original, PLACES)


@pytest.mark.parametrize(
    ("lines", "places"),
    [
        # a slot is unbound where it is bound in the original
        ([*ORIGINAL[:3], ("DELETE_FAST", 1), *RETURN_NONE], {3: 4}),
        # a slot is bound where it is not
        ([ORIGINAL[0], ("LOAD_CONST", 0), ("STORE_FAST", 0), *ORIGINAL[1:]], {1: 3}),
        # NULL is on the stack instead of a value
        ([ORIGINAL[0], "PUSH_NULL", *ORIGINAL[2:]], {2: 2}),
        # one value more is on the stack
        ([ORIGINAL[0], ("LOAD_CONST", 0), *ORIGINAL[1:3], "POP_TOP", *RETURN_NONE], {2: 3}),
    ],
)
def test_emitted_code_that_finds_something_else(lines: list[Line], places: dict[int, int]) -> None:
    with pytest.raises(Unverified, match=" is not State"):
        verify_like(analyse(by_hand(lines)), analyse(by_hand(ORIGINAL)), places)
