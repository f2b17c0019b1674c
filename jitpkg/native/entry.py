"""Entry points: the functions that CPython calls, as LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, assert_never

from jitpkg.errors import InvalidArgument
from jitpkg.native import runtime
from jitpkg.native.extents import Extent, instructions
from jitpkg.native.llvm import CALLS
from jitpkg.native.signature import Output, Signature
from jitpkg.native.symbols import dtype_code
from jitpkg.native.text import AS_IT_IS, array, string

Binding = Literal["tensors", "pointers"]
"""How native code gets tensors: it reads the Python objects, or Python passes data pointers."""

ADAPTER = ".adapter"
ABOUT = ".about"
"""Ends of the symbols that stand for an entry point under the binding "pointers"."""


def entry_text(name: str, signature: Signature, kernel: str, binding: Binding) -> str:
    """The IR of an entry point, for the module that defines its kernel.

    Raises:
        InvalidArgument: a name cannot be a symbol, or torch's C interface lacks a dtype.
    """
    for symbol in (name, kernel):
        if not re.fullmatch(r"[!#-\[\]-~]+", symbol):
            raise InvalidArgument(f"{symbol!r} cannot be the name of native code")
    match binding:
        case "tensors":
            lines = _reading_tensors(name, signature, kernel)
        case "pointers":
            lines = _taking_pointers(name, signature, kernel)
        case _:
            assert_never(binding)
    return "\n".join(lines) + "\n"


def _reading_tensors(name: str, signature: Signature, kernel: str) -> Iterator[str]:
    """A METH_FASTCALL function: what can fail are steps, each of which may go to the end."""
    inputs, integers = signature.inputs, signature.integers
    steps = [
        *(_allocation(name, k, inputs + k, output) for k, output in enumerate(signature.outputs)),
        *(
            _scratch(name, k, inputs + len(signature.outputs) + k, extent)
            for k, extent in enumerate(signature.scratch)
        ),
    ]
    yield from runtime.DECLARATIONS
    yield from _constants(name, signature)
    yield f'define ptr @"{name}"(ptr %self, ptr %args, i64 %count) {AS_IT_IS} {{'
    yield from _arrays(signature)
    yield (
        f"  %read = call i32 @jitpkg_read(ptr %args, i64 %count, i64 {inputs}, i64 {integers},"
        f' ptr %pointers, ptr %integers, ptr @"{name}{ABOUT}")'
    )
    yield "  %was_read = icmp eq i32 %read, 0"
    yield "  br i1 %was_read, label %step0, label %unread"
    yield "unread:"
    yield "  ret ptr null"
    yield "step0:"
    for k in range(integers):
        yield from _load("i64", f"%i{k}", "%integers", k)
    for k, (before, call) in enumerate(steps):
        yield from before
        yield f"  %step{k}.status = call i32 {call}"
        yield f"  %step{k}.done = icmp eq i32 %step{k}.status, 0"
        yield f"  br i1 %step{k}.done, label %step{k + 1}, label %finish"
        yield f"step{k + 1}:"
    yield from _guarded_call(signature, kernel, f"step{len(steps)}")
    yield "finish:"
    failed = "".join(f", [ -1, %step{k} ]" for k in range(len(steps)))
    yield f"  %status = phi i32 [ %done, %called ]{failed}"
    for k in range(len(signature.scratch)):
        yield from _load("ptr", f"%block{k}", "%blocks", k)
        yield f"  call void @PyMem_RawFree(ptr %block{k})"
    yield (
        f"  %result = call ptr @jitpkg_finish(i32 %status, i64 {len(signature.outputs)},"
        f' ptr %handles, ptr @"{name}{ABOUT}")'
    )
    yield "  ret ptr %result"
    yield "}"


def _taking_pointers(name: str, signature: Signature, kernel: str) -> Iterator[str]:
    """A C function for `jitpkg.native.pointers`, and the signature for it to read."""
    yield string(name + ABOUT, f"{name} {signature.text()}")
    yield f'define i32 @"{name}{ADAPTER}"(ptr %pointers, ptr %integers) {AS_IT_IS} {{'
    for k in range(signature.integers):
        yield from _load("i64", f"%i{k}", "%integers", k)
    yield from _kernel_call(signature, kernel)
    yield "  ret i32 %done"
    yield "}"


def _constants(name: str, signature: Signature) -> Iterator[str]:
    yield string(name + ABOUT, f"{name} {signature.text()}")
    for k, output in enumerate(signature.outputs):
        for what, extents in (("sizes", output.sizes), ("strides", output.strides)):
            if _known(extents):
                yield f'@"{name}.{what}{k}" = constant {array("i64", extents)}'


def _arrays(signature: Signature) -> Iterator[str]:
    """Memory of the call. What is to be let go of at the end is null at first."""
    outputs, scratch = len(signature.outputs), len(signature.scratch)
    yield f"  %pointers = alloca [{signature.inputs + outputs + scratch + 1} x ptr]"
    yield f"  %integers = alloca [{signature.integers + 1} x i64]"
    yield f"  %handles = alloca [{outputs + 1} x ptr]"
    yield f"  %blocks = alloca [{scratch + 1} x ptr]"
    dims = max((len(output.sizes) for output in signature.outputs), default=0)
    yield f"  %sizes = alloca [{dims + 1} x i64]"
    yield f"  %strides = alloca [{dims + 1} x i64]"
    for k in range(outputs):
        yield from _store("ptr", "null", "%handles", k)
    for k in range(scratch):
        yield from _store("ptr", "null", "%blocks", k)


Step = tuple[list[str], str]
"""Instructions, and the call after them that returns 0, or fails with an error set."""


def _allocation(name: str, k: int, position: int, output: Output) -> Step:
    code = dtype_code(output.dtype)
    if code is None:
        raise InvalidArgument(f"torch's C interface has no {output.dtype}")
    lines: list[str] = []
    arrays = []
    for what, extents in (("sizes", output.sizes), ("strides", output.strides)):
        if _known(extents):
            arrays.append(f'ptr @"{name}.{what}{k}"')
            continue
        arrays.append(f"ptr %{what}")
        for dim, extent in enumerate(extents):
            computed, operand = instructions(extent, f"{what}{k}.{dim}")
            lines += [*computed, *_store("i64", operand, f"%{what}", dim, str(k))]
    handle, pointer = f"%handle{k}.at", f"%pointer{position}.at"
    lines += [_at("ptr", handle, "%handles", k), _at("ptr", pointer, "%pointers", position)]
    more, size = instructions(output.bytes(), f"bytes{k}")
    lines += more
    of = f"i64 {len(output.sizes)}, {', '.join(arrays)}, i32 {code}, i64 {size}"
    return lines, f'@jitpkg_allocate({of}, ptr {handle}, ptr {pointer}, ptr @"{name}{ABOUT}")'


def _scratch(name: str, k: int, position: int, extent: Extent) -> Step:
    lines, operand = instructions(extent, f"scratch{k}")
    block, pointer = f"%block{k}.at", f"%pointer{position}.at"
    lines += [_at("ptr", block, "%blocks", k), _at("ptr", pointer, "%pointers", position)]
    return (
        lines,
        f'@jitpkg_scratch(i64 {operand}, ptr {block}, ptr {pointer}, ptr @"{name}{ABOUT}")',
    )


def _guarded_call(signature: Signature, kernel: str, begin: str) -> Iterator[str]:
    """The call of the kernel, with or without the GIL: from a block on, to the block `called`."""
    release = signature.releases_gil
    if isinstance(release, str):
        lines, work = instructions(release, "work")
        yield from lines
        yield f"  %is_long = icmp sgt i64 {work}, 0"
        yield "  br i1 %is_long, label %release, label %call"
        yield "release:"
    if release:
        yield "  %released = call ptr @PyEval_SaveThread()"
    if isinstance(release, str):
        yield "  br label %call"
        yield "call:"
        yield f"  %thread = phi ptr [ null, %{begin} ], [ %released, %release ]"
    yield from _kernel_call(signature, kernel)
    if isinstance(release, str):
        yield "  %was_long = icmp ne ptr %thread, null"
        yield "  br i1 %was_long, label %restore, label %called"
        yield "restore:"
    if release:
        thread = "%thread" if isinstance(release, str) else "%released"
        yield f"  call void @PyEval_RestoreThread(ptr {thread})"
    yield "  br label %called"
    yield "called:"
    yield "  br label %finish"


def _kernel_call(signature: Signature, kernel: str) -> Iterator[str]:
    pointers = signature.inputs + len(signature.outputs) + len(signature.scratch)
    for k in range(pointers):
        yield from _load("ptr", f"%p{k}", "%pointers", k)
    arguments = [f"ptr %p{k}" for k in range(pointers)]
    arguments += [f"i64 %i{k}" for k in range(signature.integers)]
    yield f"; {CALLS}{kernel}: i32 ({', '.join(argument.split()[0] for argument in arguments)})"
    yield f'  %done = call i32 @"{kernel}"({", ".join(arguments)})'


def _known(extents: tuple[Extent, ...]) -> bool:
    return all(isinstance(extent, int) for extent in extents)


def _at(kind: str, name: str, array: str, k: int) -> str:
    return f"{name} = getelementptr {kind}, ptr {array}, i64 {k}"


def _load(kind: str, name: str, array: str, k: int) -> Iterator[str]:
    yield f"  {_at(kind, f'{name}.from', array, k)}"
    yield f"  {name} = load {kind}, ptr {name}.from"


def _store(kind: str, operand: str, array: str, k: int, name: str = "") -> Iterator[str]:
    to = f"{array}{name}.{k}.to"
    yield f"  {_at(kind, to, array, k)}"
    yield f"  store {kind} {operand}, ptr {to}"
