"""The numbers that torch's generator draws on the CPU, sixteen words at a time.

`Tensor.bernoulli_(p)` asks the generator for two words for each element, one after the other: 6 ns
an element. Here the words are made by vectors where the generator lies in memory, while its lock is
held: 0.4 ns (AMD, Zen 4, AVX-512). The generator is M. Matsumoto's and T. Nishimura's MT19937 (ACM
Transactions on Modeling and Computer Simulation 8, 1998); an element is true where the lower 53
bits of its two words, as a fraction, are less than p.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from string import Template

import torch

from jitpkg import threads
from jitpkg.errors import JitpkgError
from jitpkg.internals import tensors
from jitpkg.internals.usual import usual_state
from jitpkg.native import generators, llvm, selftest

WORTHWHILE = 256
"""Elements from which on this makes up for its call."""

AFTER = 1 << 20
"""Elements that ATen draws first, in 6 ms: to compile this and to try it takes 10 to 30."""

_BITS = 53
"""Of a number that an element is compared by."""


def bernoulli_(made: torch.Tensor, p: float = 0.5) -> bool:
    """Fill a new, dense tensor as `made.bernoulli_(p)` does, from the default generator.

    Returns:
        Whether it did; nothing was drawn where not: few elements, another thread that draws, or a
        build of torch that draws otherwise.
    """
    if made.numel() < WORTHWHILE or not 0 <= p <= 1:
        return False
    if _DRAWN.by_aten < AFTER:
        _DRAWN.by_aten += made.numel()
        return False
    fill = _found()
    return fill is not None and fill(made, p, torch.default_generator)


class _Drawn:
    """What was left to ATen in this process."""

    by_aten = 0


_DRAWN = _Drawn()


def start() -> None:
    """Draw here from now on, where that can be done."""
    _DRAWN.by_aten = AFTER


Fill = Callable[[torch.Tensor, float, torch.Generator], bool]


@cache
def _found() -> Fill | None:
    """What fills a tensor; None where it cannot be done, or torch draws otherwise: on processors of
    Intel's it asks Intel's library."""
    if selftest.outcome().why_not is not None:
        return None

    def tried() -> Fill | None:
        with usual_state():
            layout = generators.look()
            fill = None if layout is None else filling(layout)
            return fill if fill is not None and as_torch_draws(fill) else None

    try:
        # In a thread none of torch's modes is on.
        with ThreadPoolExecutor(1, "jitpkg.native.mersenne", threads.begin) as thread:
            return thread.submit(tried).result()
    except (JitpkgError, RuntimeError):  # or there is no thread to be had
        return None


def filling(layout: generators.Layout) -> Fill:
    """What fills tensors from generators that lie so.

    Raises:
        NativeError: it cannot be compiled or linked.
    """
    library = llvm.link(selftest.compiled(text()), selftest.outcome().imports())
    # Python's lock is held meanwhile: nobody can write to what is given.
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.PYFUNCTYPE(
        ctypes.c_int32, pointer, pointer, number, pointer, number, ctypes.c_uint64
    )
    functions = {width: kind(library.address(f"jitpkg_bernoulli_{width}")) for width in _WIDTHS}
    address_of = tensors.GENERATOR_ADDRESS.get()

    def fill(made: torch.Tensor, p: float, generator: torch.Generator) -> bool:
        assert library is not None  # the code lives as long as what calls it
        one = _one(made.dtype)
        if one is None:
            return False
        address = address_of(generator)
        # A fraction is less than p where its numerator is less than this.
        bound = math.ceil(p * 2**_BITS)
        status: int = functions[made.element_size()](
            address + layout.lock_at,
            address + layout.engine_at,
            bound,
            made.data_ptr(),
            made.numel(),
            one,
        )
        return status == 0

    return fill


@cache
def _one(dtype: torch.dtype) -> int | None:
    """The bits of a one, where elements of this type are drawn here."""
    if dtype.is_complex or dtype.itemsize not in _WIDTHS:
        return None
    with usual_state():
        as_bytes = torch.ones(1, dtype=dtype).view(torch.uint8).tolist()
    return int.from_bytes(bytes(as_bytes), "little")


def as_torch_draws(fill: Fill) -> bool:
    """Whether it gives the same elements, and leaves the generator at the same place."""
    ours, torchs = torch.Generator(), torch.Generator()
    for dtype, count, p, words in (
        (torch.bool, 311, 0.5, 0),
        (torch.float32, 1, 0.9, 1),  # between two states, where a number has a word of each
        (torch.bfloat16, 2000, 0.1, 623),
        (torch.float64, 700, 1 / 3, 30),
    ):
        for generator in (ours, torchs):
            generator.manual_seed(count)
            torch.empty(words, dtype=torch.float32).uniform_(generator=generator)
        for _ in range(2):
            made = torch.empty(count, dtype=dtype)
            if not fill(made, p, ours):
                return False
            if not torch.equal(made, torch.empty_like(made).bernoulli_(p, generator=torchs)):
                return False
        if not torch.equal(ours.get_state(), torchs.get_state()):
            return False
    return True


_WIDTHS = (1, 2, 4, 8)
"""Bytes of an element."""


def text() -> str:
    """The module: a function for elements of each width."""
    twists = {part: _TWIST.substitute(N=mark) for part, mark in (("FIRST", ""), ("SECOND", ".2"))}
    return _NEXT_STATE.substitute(twists) + "".join(map(_filling, _WIDTHS))


def _filling(width: int) -> str:
    bits = 8 * width
    narrow = "add i64 %bits, 0" if bits == 64 else f"trunc i64 %bits to i{bits}"
    places = {
        "LEFT_AT": generators.LEFT_AT,
        "NEXT_AT": generators.NEXT_AT,
        "WORDS_AT": generators.WORDS_AT,
    }
    return _FILL.substitute(places, W=width, B=bits, NARROW=narrow)


_NEXT_STATE = Template("""
declare i32 @pthread_mutex_trylock(ptr)
declare i32 @pthread_mutex_unlock(ptr)

; The next state. Vectors overlap where 16 does not divide: what is read is never written.
define internal void @jitpkg_next_state(ptr noalias %old, ptr noalias %new) noinline {
start:
  br label %first

first:
  %k = phi i64 [ 0, %start ], [ %k.next, %first ]
  %at = getelementptr i32, ptr %old, i64 %k
  %far = getelementptr i32, ptr %at, i64 397
${FIRST}
  %to = getelementptr i32, ptr %new, i64 %k
  store <16 x i32> %made, ptr %to, align 4
  %k.more = add i64 %k, 16
  %k.last = icmp ugt i64 %k.more, 211
  %k.next = select i1 %k.last, i64 211, i64 %k.more
  %k.done = icmp eq i64 %k, 211
  br i1 %k.done, label %between, label %first

between:
  %word = load i32, ptr %new
  %end = getelementptr i32, ptr %old, i64 624
  store i32 %word, ptr %end
  br label %second

second:
  %j = phi i64 [ 227, %between ], [ %j.next, %second ]
  %at.2 = getelementptr i32, ptr %old, i64 %j
  %to.2 = getelementptr i32, ptr %new, i64 %j
  %far.2 = getelementptr i32, ptr %to.2, i64 -227
${SECOND}
  store <16 x i32> %made.2, ptr %to.2, align 4
  %j.more = add i64 %j, 16
  %j.last = icmp ugt i64 %j.more, 608
  %j.next = select i1 %j.last, i64 608, i64 %j.more
  %j.done = icmp eq i64 %j, 608
  br i1 %j.done, label %done, label %second

done:
  ret void
}

; Words as the generator gives them, by those of its state.
define internal void @jitpkg_temper(ptr noalias %state, ptr noalias %words) noinline {
start:
  br label %each

each:
  %k = phi i64 [ 0, %start ], [ %next, %each ]
  %at = getelementptr i32, ptr %state, i64 %k
  %y = load <16 x i32>, ptr %at, align 4
  %a = lshr <16 x i32> %y, splat (i32 11)
  %b = xor <16 x i32> %y, %a
  %c = shl <16 x i32> %b, splat (i32 7)
  %d = and <16 x i32> %c, splat (i32 -1658038656)
  %e = xor <16 x i32> %b, %d
  %f = shl <16 x i32> %e, splat (i32 15)
  %g = and <16 x i32> %f, splat (i32 -272236544)
  %h = xor <16 x i32> %e, %g
  %i = lshr <16 x i32> %h, splat (i32 18)
  %made = xor <16 x i32> %h, %i
  %to = getelementptr i32, ptr %words, i64 %k
  store <16 x i32> %made, ptr %to, align 4
  %next = add i64 %k, 16
  %more = icmp ult i64 %next, 624
  br i1 %more, label %each, label %done

done:
  ret void
}
""")

# Sixteen words of the next state, by as many words, those behind them, and those far before them.
_TWIST = Template("""\
  %behind.at$N = getelementptr i32, ptr %at$N, i64 1
  %these$N = load <16 x i32>, ptr %at$N, align 4
  %behind$N = load <16 x i32>, ptr %behind.at$N, align 4
  %from$N = load <16 x i32>, ptr %far$N, align 4
  %upper$N = and <16 x i32> %these$N, splat (i32 -2147483648)
  %lower$N = and <16 x i32> %behind$N, splat (i32 2147483647)
  %mixed$N = or <16 x i32> %upper$N, %lower$N
  %half$N = lshr <16 x i32> %mixed$N, splat (i32 1)
  %odd$N = and <16 x i32> %behind$N, splat (i32 1)
  %all$N = sub <16 x i32> zeroinitializer, %odd$N
  %matrix$N = and <16 x i32> %all$N, splat (i32 -1727483681)
  %changed$N = xor <16 x i32> %half$N, %matrix$N
  %made$N = xor <16 x i32> %changed$N, %from$N""")

_FILL = Template("""
; 0 where the tensor is filled; else another thread draws. `%words` has a word of the state before,
; if one was left, and then all of a state, from 8 on.
define i32 @jitpkg_bernoulli_$W(ptr %lock, ptr %engine, i64 %bound, ptr %out, i64 %count,
    i64 %bits) {
start:
  %state.1 = alloca [640 x i32], align 64
  %state.2 = alloca [640 x i32], align 64
  %words = alloca [656 x i32], align 64
  %left.at = getelementptr i8, ptr %engine, i64 $LEFT_AT
  %next.at = getelementptr i8, ptr %engine, i64 $NEXT_AT
  %words.at = getelementptr i8, ptr %engine, i64 $WORDS_AT
  %whole = getelementptr i32, ptr %words, i64 8
  %before = getelementptr i32, ptr %words, i64 7
  %last.at = getelementptr i32, ptr %words, i64 631
  %busy = call i32 @pthread_mutex_trylock(ptr %lock)
  %free = icmp eq i32 %busy, 0
  br i1 %free, label %begin, label %ended

begin:
  %left = load i32, ptr %left.at
  %left.wide = zext i32 %left to i64
  %first = sub i64 633, %left.wide
  %bits.narrow = $NARROW
  %one.1 = insertelement <8 x i$B> poison, i$B %bits.narrow, i64 0
  %one = shufflevector <8 x i$B> %one.1, <8 x i$B> poison, <8 x i32> zeroinitializer
  %bound.1 = insertelement <8 x i64> poison, i64 %bound, i64 0
  %bounds = shufflevector <8 x i64> %bound.1, <8 x i64> poison, <8 x i32> zeroinitializer
  br label %take

take:
  %t = phi i64 [ 0, %begin ], [ %t.next, %take ]
  %t.from = getelementptr i32, ptr %words.at, i64 %t
  %t.word = load <16 x i32>, ptr %t.from, align 4
  %t.to = getelementptr i32, ptr %state.1, i64 %t
  store <16 x i32> %t.word, ptr %t.to, align 4
  %t.next = add i64 %t, 16
  %t.more = icmp ult i64 %t.next, 624
  br i1 %t.more, label %take, label %taken

taken:
  call void @jitpkg_temper(ptr %state.1, ptr %whole)
  br label %words.made

words.made:
  %state = phi ptr [ %state.1, %taken ], [ %other, %refill ]
  %other = phi ptr [ %state.2, %taken ], [ %state, %refill ]
  %from = phi i64 [ %first, %taken ], [ %from.next, %refill ]
  %done = phi i64 [ 0, %taken ], [ %upto, %refill ]
  %there = sub i64 632, %from
  %pairs = lshr i64 %there, 1
  %wanted = sub i64 %count, %done
  %fewer = icmp ult i64 %wanted, %pairs
  %taking = select i1 %fewer, i64 %wanted, i64 %pairs
  %upto = add i64 %done, %taking
  %eights = and i64 %taking, -8
  %some = icmp ne i64 %eights, 0
  %pairs.at = getelementptr i32, ptr %words, i64 %from
  %out.at = getelementptr i$B, ptr %out, i64 %done
  br i1 %some, label %eight, label %rest

eight:
  %e = phi i64 [ 0, %words.made ], [ %e.next, %eight ]
  %e.at = getelementptr i64, ptr %pairs.at, i64 %e
  %e.pair = load <8 x i64>, ptr %e.at, align 4
  %e.lower = lshr <8 x i64> %e.pair, splat (i64 32)
  %e.shifted = shl <8 x i64> %e.pair, splat (i64 32)
  %e.upper = and <8 x i64> %e.shifted, splat (i64 9007194959773696)
  %e.number = or <8 x i64> %e.upper, %e.lower
  %e.is = icmp slt <8 x i64> %e.number, %bounds
  %e.made = select <8 x i1> %e.is, <8 x i$B> %one, <8 x i$B> zeroinitializer
  %e.to = getelementptr i$B, ptr %out.at, i64 %e
  store <8 x i$B> %e.made, ptr %e.to, align $W
  %e.next = add i64 %e, 8
  %e.more = icmp ult i64 %e.next, %eights
  br i1 %e.more, label %eight, label %rest

rest:
  %r = phi i64 [ %eights, %words.made ], [ %eights, %eight ], [ %r.next, %single ]
  %r.more = icmp ult i64 %r, %taking
  br i1 %r.more, label %single, label %emptied

single:
  %r.at = getelementptr i64, ptr %pairs.at, i64 %r
  %r.pair = load i64, ptr %r.at, align 4
  %r.lower = lshr i64 %r.pair, 32
  %r.shifted = shl i64 %r.pair, 32
  %r.upper = and i64 %r.shifted, 9007194959773696
  %r.number = or i64 %r.upper, %r.lower
  %r.is = icmp slt i64 %r.number, %bound
  %r.made = select i1 %r.is, i$B %bits.narrow, i$B 0
  %r.to = getelementptr i$B, ptr %out.at, i64 %r
  store i$B %r.made, ptr %r.to, align $W
  %r.next = add i64 %r, 1
  br label %rest

emptied:
  %more = icmp ult i64 %upto, %count
  br i1 %more, label %refill, label %give

refill:
  %last = load i32, ptr %last.at
  store i32 %last, ptr %before
  %odd = and i64 %there, 1
  %from.next = sub i64 8, %odd
  call void @jitpkg_next_state(ptr %state, ptr %other)
  call void @jitpkg_temper(ptr %other, ptr %whole)
  br label %words.made

give:
  %used = shl i64 %taking, 1
  %end = add i64 %from, %used
  %next = sub i64 %end, 8
  %left.now = sub i64 625, %next
  %left.narrow = trunc i64 %left.now to i32
  store i32 %left.narrow, ptr %left.at
  %next.narrow = trunc i64 %next to i32
  store i32 %next.narrow, ptr %next.at
  br label %put

put:
  %p = phi i64 [ 0, %give ], [ %p.next, %put ]
  %p.from = getelementptr i32, ptr %state, i64 %p
  %p.word = load <16 x i32>, ptr %p.from, align 4
  %p.to = getelementptr i32, ptr %words.at, i64 %p
  store <16 x i32> %p.word, ptr %p.to, align 4
  %p.next = add i64 %p, 16
  %p.more = icmp ult i64 %p.next, 624
  br i1 %p.more, label %put, label %unlock

unlock:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %lock)
  br label %ended

ended:
  ret i32 %busy
}
""")
