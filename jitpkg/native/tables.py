"""One builtin that runs tables of tests: what must hold of Python's objects, 5 ns each.

A table is bytes: how many arguments and registers there are, and records of four words: what to do
(`jitpkg.native.records`), and three operands. A record reads an object into the next register, or
tests one. A test that fails ends the table with None, an exception with that; the last record gives
a tuple of registers. Each register owns its object, so that no code that a read happens to run can
take away what is still looked at.

The code is compiled once. Where things lie in objects is looked up in objects of this process, and
what the builtin then answers is tried on real ones.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from string import Template
from typing import Any

import torch

from jitpkg.dataclass import dataclass
from jitpkg.internals import tensors
from jitpkg.internals.c_guards import counts_changes, sees_changes
from jitpkg.native import functions, histories, llvm, states
from jitpkg.native.memory import place, words_at
from jitpkg.native.records import END, ROWS, STATES
from jitpkg.native.row import ANY, Row
from jitpkg.native.symbols import dtype_code, has
from jitpkg.native.tensor_records import LEAVES, TENSORS
from jitpkg.native.text import AS_IT_IS

ON_STACK = 256
"""Registers; a table with more of them takes memory."""

CODES = {END: 0} | {row.name: k for k, row in enumerate(ROWS, 1)}
"""What a record begins with."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things lie in objects, in bytes."""

    code_at: int
    """The code of a function."""
    items_at: int
    """The first item of a tuple."""
    order_at: int
    """The method resolution order of a class."""
    counts_changes: bool
    """Whether `version_word` is another one after each change of a dictionary that has its values
    in itself."""
    counts_stores: bool
    """Whether it is after each change of one whose values lie in an object."""
    keys_at: int | None
    """The dispatch keys in the C++ object of a tensor; None where tensors cannot be looked at."""
    histories: histories.Histories | None
    """What autograd knows of a tensor; None where that cannot be looked at."""
    states: states.States | None
    """How torch is asked for its state; None where Python has to ask."""


def look() -> Layout:
    """The layout of this process's objects.

    Raises:
        ValueError: something is not where it was in any CPython that is known.
    """

    def function() -> None:
        pass

    class Example:
        pass

    return Layout(
        code_at=place(function.__code__, function),
        items_at=place(Example, (Example,)),
        order_at=place(Example.__mro__, Example),
        counts_changes=_counts_changes(),
        counts_stores=_counts_stores(),
        keys_at=_keys_at(),
        histories=histories.look(),
        states=states.look(),
    )


VERSION_AT = 24
"""Where the version of a dictionary is, in bytes."""
VALUES_AT = 40
"""Where a dictionary says that its values lie in an object, or are kept apart: else 0 is there."""
VERSION_BITS = {11: -1, 12: ~0xFF}.get(sys.version_info.minor, ~0xFFF)
"""Of the word there; from 3.12 on the lower bits say who watches a dictionary."""


def version_word(dictionary: int) -> tuple[int, int, int]:
    """Of the dictionary at an address: where its version is, the bits of that word, and these."""
    (word,) = words_at(dictionary + VERSION_AT, 1)
    return dictionary + VERSION_AT, VERSION_BITS, word & VERSION_BITS


def _counts_changes() -> bool:
    """Whether `version_word` is another one after each change, tried on a class."""
    if sys.version_info >= (3, 14) or words_at(id({1: 2}) + VALUES_AT, 1) != [0]:
        return False
    return counts_changes(_version)


class _Instance:
    def __init__(self) -> None:
        self.first = self.second = 1


def _counts_stores() -> bool:
    """Whether it is where attributes of an instance are changed: not in CPython 3.13."""
    instance = _Instance()
    names = vars(instance)
    if sys.version_info >= (3, 14) or words_at(id(names) + VALUES_AT, 1) == [0]:
        return False
    return sees_changes(_version, instance, instance, names)


def _version(dictionary: dict[str, object]) -> int:
    return version_word(id(dictionary))[2]


_NEEDED = ("dtype", "device_type", "device_index", "dim", "sizes", "strides")


def _keys_at() -> int | None:
    """Where all tensors have what torch says to be their dispatch keys."""
    keys = tensors.KEYS.found()
    missing = keys is None or not all(has(f"aoti_torch_get_{name}") for name in _NEEDED)
    if keys is None or missing or not has("jitpkg_requires_grad"):
        return None
    with torch.inference_mode():
        kinds = [torch.zeros(2)]
    kinds += [torch.zeros(2), torch.zeros(2, device="meta"), torch.zeros(2, dtype=torch.cfloat)]
    kinds += [kinds[-1].conj(), kinds[-1].conj().imag, torch.zeros(2, requires_grad=True)]
    common: set[int] = set(range(26))
    for tensor in kinds:
        words = words_at(tensors.ADDRESS.get()(tensor), 26)
        wanted = _signed(keys(tensor).raw_repr())
        common &= {k for k, word in enumerate(words) if word == wanted}
    return common.pop() * 8 if len(common) == 1 else None


class Evaluator:
    """The builtin, for any number of tables."""

    def __init__(self, layout: Layout, library: llvm.Library) -> None:
        self.layout = layout
        self._library = library
        self._definition = functions.definition(
            library.address("jitpkg_evaluate"), "guards", "The objects that were read, or None."
        )

    def function(self, inputs: int, registers: int, records: Iterable[int]) -> Callable[..., Any]:
        """What runs a table: a function of so many arguments.

        The objects that records refer to by address must live as long as it is called.
        """
        words = [inputs, registers, *map(_signed, records)]
        return functions.made(self._definition, struct.pack(f"{len(words)}q", *words))

    def described(self, tensor: torch.Tensor) -> tuple[int, int] | None:
        """What the record `TENSOR` compares besides sizes and strides; None where it cannot."""
        word, keys = _device_word(tensor), tensors.KEYS.found()
        if word is None or keys is None:
            return None
        return keys(tensor).raw_repr(), word


def _signed(word: int) -> int:
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


def _device_word(tensor: torch.Tensor) -> int | None:
    """Dtype, device and gradient of a tensor, as the record `TENSOR` has them; None without."""
    code = dtype_code(tensor.dtype)
    if code is None or tensor.device.type != "cpu":
        return None
    index: int = 0xFF if str(tensor.device) == "cpu" else tensor.device.index
    return code | index << 32 | tensor.requires_grad << 48


def text(layout: Layout) -> str:
    """The module."""
    lacking = [
        *(() if layout.keys_at is not None else TENSORS),
        *(() if layout.histories is not None else LEAVES),
        *(() if layout.states is not None else STATES),
    ]
    rows = [row for row in ROWS if row not in lacking]
    written = _Writer(layout)
    body = "\n".join(line for row in rows for line in written.row(row))
    cases = "\n".join(f"    i64 {CODES[row.name]}, label %{row.name}.start" for row in rows)
    holes = {
        "AS_IT_IS": AS_IT_IS,
        "cases": cases,
        "rows": body,
        "on_stack": ON_STACK,
        "items_at": layout.items_at,
        "passed": written.phi("pass"),
        "owned": written.phi("own"),
        "borrowed": written.phi("borrow"),
        "owned_words": written.phi("own words"),
        "borrowed_words": written.phi("borrow words"),
    }
    return _references(Template(_TEXT).substitute(holes))


_SMALL = ("dtype", "kind", "index")
"""Memory of the call for what torch's C interface tells."""


class _Writer:
    """Rows as IR: names are made their own, and where each way of theirs leads is noted."""

    _COMMON = frozenset(
        ["registers", "record", "a", "b", "c", *("position", "first", "second"), *_SMALL]
    )

    def __init__(self, layout: Layout) -> None:
        self._holes = {
            "code_at": layout.code_at,
            "state_words": states.WORDS,
            "version_at": VERSION_AT,
            "version_bits": VERSION_BITS,
            "values_at": VALUES_AT,
            "counts_changes": str(layout.counts_changes).lower(),
            "counts_stores": str(layout.counts_stores).lower(),
            "items_at": layout.items_at,
            "keys_at": layout.keys_at,
            "any": ANY,
        }
        if (known := layout.histories) is not None:
            self._holes |= {"known_at": known.known_at, "node_at": known.node_at}
            self._holes |= dict(zip(("dtype_1", "dtype_2"), known.dtype_at, strict=True))
            self._holes |= dict(zip(("hooks_1", "hooks_2"), known.hooks_at, strict=True))
        self._ways: dict[str, list[tuple[str, str]]] = {}

    def phi(self, way: str) -> str:
        """The values that come on a way, each with the block that it comes from."""
        return ", ".join(f"[ {value}, %{block} ]" for value, block in self._ways.get(way, ()))

    def row(self, row: Row) -> Iterator[str]:
        own = Template(row.text).substitute(self._holes)
        own += "".join(
            f"\n{label}:\n{end}"
            for label, end in _ENDS.items()
            if f"label %{label}" in own and not re.search(rf"^\s*{label}:", own, re.MULTILINE)
        )
        block = f"{row.name}.start"
        yield f"{block}:"
        for register in "AC":
            if re.search(rf"\b{register}\b", own):
                at = f"%{row.name}.{register}.at"
                yield f"  {at} = getelementptr ptr, ptr %registers, i64 %{register.lower()}"
                yield f"  %{row.name}.{register} = load ptr, ptr {at}"
        for line in self._named(row.name, own).splitlines():
            line = line.strip()
            word, _, value = line.partition(" ")
            if line.endswith(":"):
                block = f"{row.name}.{line[:-1]}"
                yield f"{block}:"
            elif word in _TARGETS:
                self._note(word, value.split(), block)
                yield f"  br label %{_TARGETS[word]}"
            elif " = typeof " in line:
                name, _, object_ = line.partition(" = typeof ")
                yield f"  {name}.at = getelementptr i8, ptr {object_}, i64 8"
                yield f"  {name} = load ptr, ptr {name}.at"
            elif line:
                yield f"  {line}"

    def _note(self, way: str, values: Sequence[str], block: str) -> None:
        """Take note of a way to one of `_TARGETS`: the object, if any, and how many more words."""
        if way in ("own", "borrow"):
            self._ways.setdefault(way, []).append((values[0], block))
            values = values[1:]
            way = f"{way} words"
        self._ways.setdefault(way, []).append(([*values, "0"][0], block))

    def _named(self, name: str, text: str) -> str:
        def own(found: re.Match[str]) -> str:
            word = found[1]
            return found[0] if word in self._COMMON else f"%{name}.{word}"

        text = re.sub(r"(?<![\w.%@])([AC])(?![\w.:])", r"%\1", text)
        return re.sub(r"%([\w.]+)", own, text)


_TARGETS = {
    "pass": "passed",
    "own": "owned",
    "borrow": "borrowed",
    "fail": "failed",
    "raise": "raised",
}
"""Where each way leads."""

_ENDS = {"right": "pass", "wrong": "fail", "broken": "raise"}
"""What the blocks do that rows need not write."""


def _references(text: str) -> str:
    """The lines `keep %x` and `drop %x`, which count references as this Python does."""
    immortal = sys.version_info >= (3, 12)
    lines = []
    for k, line in enumerate(text.splitlines()):
        word, _, of = line.strip().partition(" ")
        if word not in ("keep", "drop"):
            lines.append(line)
            continue
        step, name = (1 if word == "keep" else -1), f"%count.{k}"
        kind = "i32" if immortal else "i64"
        lines.append(f"  {name} = load {kind}, ptr {of}")
        if immortal:
            lines.append(f"  {name}.for_ever = icmp slt i32 {name}, 0")
            lines.append(f"  br i1 {name}.for_ever, label %kept.{k}, label %mortal.{k}")
            lines.append(f"mortal.{k}:")
        lines.append(f"  {name}.now = add {kind} {name}, {step}")
        lines.append(f"  store {kind} {name}.now, ptr {of}")
        if word == "drop":
            lines.append(f"  {name}.none = icmp eq {kind} {name}.now, 0")
            lines.append(f"  br i1 {name}.none, label %dead.{k}, label %kept.{k}")
            lines.append(f"dead.{k}:")
            lines.append(f"  call void @_Py_Dealloc(ptr {of})")
        if immortal or word == "drop":
            lines.append(f"  br label %kept.{k}")
            lines.append(f"kept.{k}:")
    return "\n".join(lines)


_TEXT = """
@PyDict_Type = external global i8
@PyFunction_Type = external global i8
@PyUnicode_Type = external global i8
@PyLong_Type = external global i8
@PyBytes_Type = external global i8
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_GetItem(ptr, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i32 @PyDict_Contains(ptr, ptr)
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PySequence_Contains(ptr, ptr)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyErr_NoMemory()
declare ptr @PyTuple_New(i64)
declare void @Py_DecRef(ptr)
declare void @_Py_Dealloc(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @memset(ptr, i32, i64)
declare i32 @aoti_torch_get_dtype(ptr, ptr)
declare i32 @aoti_torch_get_device_type(ptr, ptr)
declare i32 @aoti_torch_get_device_index(ptr, ptr)
declare i32 @aoti_torch_get_dim(ptr, ptr)
declare i32 @aoti_torch_get_sizes(ptr, ptr)
declare i32 @aoti_torch_get_strides(ptr, ptr)
declare i1 @jitpkg_requires_grad(ptr)

; Whether two objects are equal, of one class that is str, int or bytes.
define internal i32 @jitpkg_same_text(ptr %one, ptr %other) $AS_IT_IS {
start:
  %one.at = getelementptr i8, ptr %one, i64 8
  %other.at = getelementptr i8, ptr %other, i64 8
  %one.class = load ptr, ptr %one.at
  %other.class = load ptr, ptr %other.at
  %alike = icmp eq ptr %one.class, %other.class
  %text = icmp eq ptr %one.class, @PyUnicode_Type
  %int = icmp eq ptr %one.class, @PyLong_Type
  %bytes = icmp eq ptr %one.class, @PyBytes_Type
  %either = or i1 %text, %int
  %any = or i1 %either, %bytes
  %plain = and i1 %alike, %any
  br i1 %plain, label %compare, label %no

compare:
  %equal = call i32 @PyObject_RichCompareBool(ptr %one, ptr %other, i32 2)
  ret i32 %equal

no:
  ret i32 0
}

define ptr @jitpkg_evaluate(ptr %self, ptr %args, i64 %count) {
enter:
  %position = alloca i64
  %first = alloca ptr
  %second = alloca ptr
  %dtype = alloca i32
  %kind = alloca i32
  %index = alloca i32
  %small = alloca ptr, i64 $on_stack
  %table = getelementptr i8, ptr %self, i64 32
  %inputs = load i64, ptr %table
  %needed.at = getelementptr i64, ptr %table, i64 1
  %needed = load i64, ptr %needed.at
  %begin = getelementptr i64, ptr %table, i64 2
  %counted = icmp eq i64 %inputs, %count
  br i1 %counted, label %room, label %none

room:
  %few = icmp ule i64 %needed, $on_stack
  br i1 %few, label %ready, label %allocate

allocate:
  %bytes = shl i64 %needed, 3
  %large = call ptr @PyMem_RawMalloc(i64 %bytes)
  %full = icmp eq ptr %large, null
  br i1 %full, label %memory, label %ready

memory:
  %refused = call ptr @PyErr_NoMemory()
  ret ptr null

ready:
  %registers = phi ptr [ %small, %room ], [ %large, %allocate ]
  %heap = phi ptr [ null, %room ], [ %large, %allocate ]
  br label %argument

argument:
  %k = phi i64 [ 0, %ready ], [ %k.next, %copy ]
  %copied = icmp eq i64 %k, %inputs
  br i1 %copied, label %next, label %copy

copy:
  %from = getelementptr ptr, ptr %args, i64 %k
  %to = getelementptr ptr, ptr %registers, i64 %k
  %given = load ptr, ptr %from
  store ptr %given, ptr %to
  %k.next = add i64 %k, 1
  br label %argument

next:
  %record = phi ptr [ %begin, %argument ], [ %record.passed, %passed ], [ %record.read, %read ]
  %top = phi i64 [ %inputs, %argument ], [ %top, %passed ], [ %top.next, %read ]
  %what = load i64, ptr %record
  %a.at = getelementptr i64, ptr %record, i64 1
  %b.at = getelementptr i64, ptr %record, i64 2
  %c.at = getelementptr i64, ptr %record, i64 3
  %a = load i64, ptr %a.at
  %b = load i64, ptr %b.at
  %c = load i64, ptr %c.at
  switch i64 %what, label %end [
$cases
  ]

passed:
  %more = phi i64 $passed
  %words = add i64 %more, 4
  %record.passed = getelementptr i64, ptr %record, i64 %words
  br label %next

owned:
  %made = phi ptr $owned
  %made.words = phi i64 $owned_words
  %nothing = icmp eq ptr %made, null
  br i1 %nothing, label %raised, label %read

borrowed:
  %seen = phi ptr $borrowed
  %seen.words = phi i64 $borrowed_words
  keep %seen
  br label %keep

keep:
  br label %read

read:
  %new = phi ptr [ %made, %owned ], [ %seen, %keep ]
  %new.more = phi i64 [ %made.words, %owned ], [ %seen.words, %keep ]
  %new.at = getelementptr ptr, ptr %registers, i64 %top
  store ptr %new, ptr %new.at
  %top.next = add i64 %top, 1
  %new.words = add i64 %new.more, 4
  %record.read = getelementptr i64, ptr %record, i64 %new.words
  br label %next

$rows

end:
  %tuple = call ptr @PyTuple_New(i64 %a)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %raised, label %items

items:
  %numbers = getelementptr i64, ptr %record, i64 4
  %items.at = getelementptr i8, ptr %tuple, i64 $items_at
  br label %item

item:
  %i = phi i64 [ 0, %items ], [ %i.next, %set ]
  %all = icmp eq i64 %i, %a
  br i1 %all, label %finish, label %take

take:
  %number.at = getelementptr i64, ptr %numbers, i64 %i
  %number = load i64, ptr %number.at
  %taken.at = getelementptr ptr, ptr %registers, i64 %number
  %taken = load ptr, ptr %taken.at
  keep %taken
  br label %set

set:
  %item.at = getelementptr ptr, ptr %items.at, i64 %i
  store ptr %taken, ptr %item.at
  %i.next = add i64 %i, 1
  br label %item

failed:
  keep @_Py_NoneStruct
  br label %finish.failed

finish.failed:
  br label %finish

raised:
  br label %finish

finish:
  %result = phi ptr [ %tuple, %item ], [ @_Py_NoneStruct, %finish.failed ], [ null, %raised ]
  br label %drop

drop:
  %d = phi i64 [ %inputs, %finish ], [ %d.next, %dropped ]
  %done = icmp eq i64 %d, %top
  br i1 %done, label %leave, label %one

one:
  %d.at = getelementptr ptr, ptr %registers, i64 %d
  %old = load ptr, ptr %d.at
  drop %old
  br label %dropped

dropped:
  %d.next = add i64 %d, 1
  br label %drop

leave:
  br i1 %few, label %return, label %free

free:
  call void @PyMem_RawFree(ptr %heap)
  br label %return

return:
  ret ptr %result

none:
  keep @_Py_NoneStruct
  br label %none.kept

none.kept:
  ret ptr @_Py_NoneStruct
}
"""
