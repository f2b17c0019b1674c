"""Memory of large results that nobody has any more, kept for the next ones.

A fresh page costs the kernel of the operating system more than writing to it costs ours: 64 MB took
54 ms new and 8 ms used. So large results lie in blocks of ours, which torch gives back when their
storage dies: that is, when no tensor, view, array, saved value or other owner is left in any
thread, as for all memory of torch. A block is never in use twice, because a storage dies once.

The functions run with or without the GIL, in any thread; a slot changes by one atomic exchange.
"""

from __future__ import annotations

import ctypes
from string import Template

import torch

from jitpkg.native.llvm import Library
from jitpkg.native.storages import Layout

FROM = 1 << 18
"""Bytes of the smallest result that is pooled: malloc itself keeps what is much smaller."""

SLOTS = 128
"""Blocks that are kept at most; a power of two."""

EXPORTS = ("jitpkg_limit", "jitpkg_held", "jitpkg_empty")


_LARGE = 31 << 20
"""Bytes; glibc adapts to blocks of up to 32 MB."""


def settle_malloc() -> None:
    """Let malloc keep what is freed, up to twice this size, and not give it back at once.

    glibc does so once a block as large has been freed, as eager code frees its results sooner or
    later. Ours lie in the pool, so that it would go on with blocks of 128 KB: a step of a small
    LSTM took new pages, and a quarter longer, in two of three processes.
    """
    torch.empty(_LARGE, dtype=torch.uint8)


class Pool:
    """The blocks of this process that no tensor has."""

    def __init__(self, library: Library) -> None:
        # Storages call into the library when they die, which may be at the very end.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
        self._limit = ctypes.c_int64.from_address(library.address("jitpkg_limit"))
        self._held = ctypes.c_int64.from_address(library.address("jitpkg_held"))
        self._empty = ctypes.CFUNCTYPE(None)(library.address("jitpkg_empty"))
        self._has_settled = False

    def limit_to(self, count: int) -> None:
        """Keep at most so many bytes from now on; 0 keeps none, and new results get none."""
        if count and not self._has_settled:
            self._has_settled = True
            settle_malloc()
        if self._limit.value != count:
            self._limit.value = count
            self._empty()

    def held(self) -> int:
        """How many bytes are kept."""
        return self._held.value

    def empty(self) -> None:
        """Free all that is kept."""
        self._empty()


def text(layout: Layout | None) -> str:
    """`jitpkg_pooled` and what it needs; without a layout it gives nothing."""
    if layout is None:
        return _NONE
    return _TEXT.substitute(
        FROM=FROM,
        SLOTS=SLOTS,
        LAST=SLOTS - 1,
        STORAGE=layout.storage,
        RESIZABLE=layout.resizable,
        ALLOCATOR=layout.allocator,
    )


_NONE = """
@jitpkg_limit = global i64 0
@jitpkg_held = global i64 0

define void @jitpkg_empty() {
  ret void
}

define internal i1 @jitpkg_pooled(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes,
    ptr %handle.at, ptr %pointer.at) {
  ret i1 false
}
"""

# A block is what malloc gave; what a tensor sees of it begins at a multiple of 64. The 16 bytes
# before that are the address to free and the number of bytes behind. A result's number of bytes is
# rounded up to four binary digits, so a block fits results of about its size only.
#
# The slots are a ring: the newest block is taken first, the oldest are freed.
_TEXT = Template("""
@jitpkg_limit = global i64 0
@jitpkg_held = global i64 0
@jitpkg_slots = internal global [$SLOTS x ptr] zeroinitializer
@jitpkg_sizes = internal global [$SLOTS x i64] zeroinitializer
@jitpkg_count = internal global i64 0
@jitpkg_cpu_allocator = external global i8

declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i32 @torch_from_blob(ptr, i64, ptr, ptr, i64, i32, i32, i32, ptr, i32, ptr, i64, ptr, ptr)

define internal ptr @jitpkg_new_block(i64 %size) {
  %more = add i64 %size, 128
  %block = call ptr @malloc(i64 %more)
  %none = icmp eq ptr %block, null
  br i1 %none, label %full, label %made

full:
  ret ptr null

made:
  %address = ptrtoint ptr %block to i64
  %above = add i64 %address, 127
  %even = and i64 %above, -64
  %data = inttoptr i64 %even to ptr
  %block.at = getelementptr i8, ptr %data, i64 -16
  %size.at = getelementptr i8, ptr %data, i64 -8
  store ptr %block, ptr %block.at
  store i64 %size, ptr %size.at
  ret ptr %data
}

define internal void @jitpkg_free_block(ptr %data) {
  %block.at = getelementptr i8, ptr %data, i64 -16
  %block = load ptr, ptr %block.at
  call void @free(ptr %block)
  ret void
}

; What is in a slot, which is then empty.
define internal ptr @jitpkg_out(i64 %slot) {
  %at = getelementptr ptr, ptr @jitpkg_slots, i64 %slot
  %data = atomicrmw xchg ptr %at, ptr null acq_rel
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %had

had:
  %size.at = getelementptr i8, ptr %data, i64 -8
  %size = load i64, ptr %size.at
  atomicrmw sub ptr @jitpkg_held, i64 %size monotonic
  br label %done

done:
  ret ptr %data
}

define internal void @jitpkg_drop(i64 %slot) {
  %data = call ptr @jitpkg_out(i64 %slot)
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %had

had:
  call void @jitpkg_free_block(ptr %data)
  br label %done

done:
  ret void
}

; Keeps a block that nobody uses, and drops the oldest ones where that is too much.
define internal void @jitpkg_in(ptr %data) {
start:
  %size.at = getelementptr i8, ptr %data, i64 -8
  %size = load i64, ptr %size.at
  %limit = load atomic i64, ptr @jitpkg_limit monotonic, align 8
  %is_larger = icmp sgt i64 %size, %limit
  br i1 %is_larger, label %free, label %keep

free:
  call void @jitpkg_free_block(ptr %data)
  ret void

keep:
  %count = atomicrmw add ptr @jitpkg_count, i64 1 monotonic
  %slot = and i64 %count, $LAST
  call void @jitpkg_drop(i64 %slot)
  %hint.at = getelementptr i64, ptr @jitpkg_sizes, i64 %slot
  store atomic i64 %size, ptr %hint.at monotonic, align 8
  atomicrmw add ptr @jitpkg_held, i64 %size monotonic
  %slot.at = getelementptr ptr, ptr @jitpkg_slots, i64 %slot
  %other = atomicrmw xchg ptr %slot.at, ptr %data acq_rel
  %alone = icmp eq ptr %other, null
  br i1 %alone, label %trim, label %crowded

crowded:
  %other.size.at = getelementptr i8, ptr %other, i64 -8
  %other.size = load i64, ptr %other.size.at
  atomicrmw sub ptr @jitpkg_held, i64 %other.size monotonic
  call void @jitpkg_free_block(ptr %other)
  br label %trim

trim:
  %k = phi i64 [ 1, %keep ], [ 1, %crowded ], [ %next, %oldest ]
  %held = load atomic i64, ptr @jitpkg_held monotonic, align 8
  %too_much = icmp sgt i64 %held, %limit
  %more = icmp sle i64 %k, $SLOTS
  %again = and i1 %too_much, %more
  br i1 %again, label %oldest, label %done

oldest:
  %far = add i64 %count, %k
  %old = and i64 %far, $LAST
  call void @jitpkg_drop(i64 %old)
  %next = add i64 %k, 1
  br label %trim

done:
  ret void
}

; The newest block of exactly this size.
define internal ptr @jitpkg_taken(i64 %size) {
start:
  %count = load atomic i64, ptr @jitpkg_count monotonic, align 8
  br label %slot

slot:
  %k = phi i64 [ 1, %start ], [ %next, %other ]
  %more = icmp sle i64 %k, $SLOTS
  br i1 %more, label %look, label %none

look:
  %next = add i64 %k, 1
  %back = sub i64 %count, %k
  %number = and i64 %back, $LAST
  %hint.at = getelementptr i64, ptr @jitpkg_sizes, i64 %number
  %hint = load atomic i64, ptr %hint.at monotonic, align 8
  %may = icmp eq i64 %hint, %size
  br i1 %may, label %take, label %other

take:
  %data = call ptr @jitpkg_out(i64 %number)
  %gone = icmp eq ptr %data, null
  br i1 %gone, label %other, label %check

check:
  %size.at = getelementptr i8, ptr %data, i64 -8
  %found = load i64, ptr %size.at
  %fits = icmp eq i64 %found, %size
  br i1 %fits, label %right, label %wrong

wrong:
  call void @jitpkg_in(ptr %data)
  br label %other

other:
  br label %slot

right:
  ret ptr %data

none:
  ret ptr null
}

; What torch calls when a storage dies.
define internal void @jitpkg_unused(ptr %data, ptr %context) {
  call void @jitpkg_in(ptr %data)
  ret void
}

define void @jitpkg_empty() {
start:
  br label %slot

slot:
  %k = phi i64 [ 0, %start ], [ %next, %slot ]
  call void @jitpkg_drop(i64 %k)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, $SLOTS
  br i1 %more, label %slot, label %done

done:
  ret void
}

; A new tensor whose memory is a block; false where it is to be made in another way.
define internal i1 @jitpkg_pooled(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes,
    ptr %handle.at, ptr %pointer.at) {
start:
  %limit = load atomic i64, ptr @jitpkg_limit monotonic, align 8
  %large = icmp sge i64 %bytes, $FROM
  %fits = icmp sle i64 %bytes, %limit
  %pooled = and i1 %large, %fits
  br i1 %pooled, label %round, label %no

round:
  %zeros = call i64 @llvm.ctlz.i64(i64 %bytes, i1 true)
  %digits = sub i64 60, %zeros
  %step = shl i64 1, %digits
  %over = sub i64 %step, 1
  %sum = add i64 %bytes, %over
  %down = sub i64 0, %step
  %size = and i64 %sum, %down
  %old = call ptr @jitpkg_taken(i64 %size)
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %first, label %wrap

first:
  %new = call ptr @jitpkg_new_block(i64 %size)
  %lacking = icmp eq ptr %new, null
  br i1 %lacking, label %second, label %wrap

second:
  call void @jitpkg_empty()
  %last = call ptr @jitpkg_new_block(i64 %size)
  %full = icmp eq ptr %last, null
  br i1 %full, label %no, label %wrap

wrap:
  %data = phi ptr [ %old, %round ], [ %new, %first ], [ %last, %second ]
  %status = call i32 @torch_from_blob(ptr %data, i64 %dims, ptr %sizes, ptr %strides, i64 0,
      i32 %dtype, i32 0, i32 -1, ptr %handle.at, i32 0, ptr null, i64 0, ptr @jitpkg_unused,
      ptr null)
  %made = icmp eq i32 %status, 0
  br i1 %made, label %made_one, label %refused

refused:
  store ptr null, ptr %handle.at
  call void @jitpkg_in(ptr %data)
  br label %no

made_one:
  %handle = load ptr, ptr %handle.at
  %tensor = load ptr, ptr %handle
  %storage.at = getelementptr i8, ptr %tensor, i64 $STORAGE
  %storage = load ptr, ptr %storage.at
  %resizable.at = getelementptr i8, ptr %storage, i64 $RESIZABLE
  store i8 1, ptr %resizable.at
  %allocator.at = getelementptr i8, ptr %storage, i64 $ALLOCATOR
  store ptr @jitpkg_cpu_allocator, ptr %allocator.at
  store ptr %data, ptr %pointer.at
  ret i1 true

no:
  ret i1 false
}
""")
