"""What a table of tests can do with tensors."""

from __future__ import annotations

from jitpkg.native.row import Row

TENSORS = (
    Row(
        "TENSOR",
        "`A` is a tensor of the class `b` with `c` dims; behind it dispatch keys, dtype, kind and"
        " number of its device, whether it requires a gradient, sizes and strides",
        """
        %class = typeof A
        %class.is = ptrtoint ptr %class to i64
        %alike = icmp eq i64 %class.is, %b
        br i1 %alike, label %keys, label %wrong
      keys:
        %then = getelementptr i64, ptr %record, i64 4
        %handle = getelementptr i8, ptr A, i64 16
        %tensor = load ptr, ptr %handle
        %keys.at = getelementptr i8, ptr %tensor, i64 $keys_at
        %keys.now = load i64, ptr %keys.at
        %keys.then = load i64, ptr %then
        %same.keys = icmp eq i64 %keys.now, %keys.then
        br i1 %same.keys, label %ask, label %wrong
      ask:
        %small.at = getelementptr i64, ptr %then, i64 1
        %small.then = load i64, ptr %small.at
        %status.1 = call i32 @aoti_torch_get_dtype(ptr %handle, ptr %dtype)
        %status.2 = call i32 @aoti_torch_get_device_type(ptr %handle, ptr %kind)
        %status.3 = call i32 @aoti_torch_get_device_index(ptr %handle, ptr %index)
        %needs = call i1 @jitpkg_requires_grad(ptr %tensor)
        %dtype.now = load i32, ptr %dtype
        %kind.now = load i32, ptr %kind
        %index.now = load i32, ptr %index
        %shown.1 = zext i32 %dtype.now to i64
        %shown.2 = zext i32 %kind.now to i64
        %index.short = trunc i32 %index.now to i8
        %shown.3 = zext i8 %index.short to i64
        %shown.4 = zext i1 %needs to i64
        %part.2 = shl i64 %shown.2, 16
        %part.3 = shl i64 %shown.3, 32
        %part.4 = shl i64 %shown.4, 48
        %both.1 = or i64 %shown.1, %part.2
        %both.2 = or i64 %part.3, %part.4
        %small.now = or i64 %both.1, %both.2
        %status.4 = call i32 @aoti_torch_get_dim(ptr %handle, ptr %position)
        %dims = load i64, ptr %position
        %same.small = icmp eq i64 %small.now, %small.then
        %same.dims = icmp eq i64 %dims, %c
        %same.both = and i1 %same.small, %same.dims
        br i1 %same.both, label %lengths, label %wrong
      lengths:
        %status.5 = call i32 @aoti_torch_get_sizes(ptr %handle, ptr %first)
        %status.6 = call i32 @aoti_torch_get_strides(ptr %handle, ptr %second)
        %failed.1 = or i32 %status.1, %status.2
        %failed.2 = or i32 %status.3, %status.4
        %failed.3 = or i32 %status.5, %status.6
        %failed.4 = or i32 %failed.1, %failed.2
        %failed.5 = or i32 %failed.4, %failed.3
        %fine = icmp eq i32 %failed.5, 0
        br i1 %fine, label %begin, label %wrong
      begin:
        %sizes = load ptr, ptr %first
        %strides = load ptr, ptr %second
        %sizes.then = getelementptr i64, ptr %then, i64 2
        %strides.then = getelementptr i64, ptr %sizes.then, i64 %c
        br label %walk
      walk:
        %k = phi i64 [ 0, %begin ], [ %k.next, %equal ]
        %ended = icmp eq i64 %k, %c
        br i1 %ended, label %right, label %compare
      compare:
        %size.at = getelementptr i64, ptr %sizes, i64 %k
        %size = load i64, ptr %size.at
        %size.then.at = getelementptr i64, ptr %sizes.then, i64 %k
        %size.then = load i64, ptr %size.then.at
        %size.same = icmp eq i64 %size, %size.then
        %size.any = icmp eq i64 %size.then, $any
        %size.holds = or i1 %size.same, %size.any
        %stride.at = getelementptr i64, ptr %strides, i64 %k
        %stride = load i64, ptr %stride.at
        %stride.then.at = getelementptr i64, ptr %strides.then, i64 %k
        %stride.then = load i64, ptr %stride.then.at
        %stride.same = icmp eq i64 %stride, %stride.then
        %stride.any = icmp eq i64 %stride.then, $any
        %stride.holds = or i1 %stride.same, %stride.any
        %holds = and i1 %size.holds, %stride.holds
        br i1 %holds, label %equal, label %wrong
      equal:
        %k.next = add i64 %k, 1
        br label %walk
      right:
        %lengths.count = shl i64 %c, 1
        %words = add i64 %lengths.count, 2
        pass %words
        """,
    ),
    Row(
        "DISTINCT",
        "behind it, `a` numbers of registers: no two hold one object. At `b` is memory, `c` words:"
        " a power of two, at least twice as many",
        """
        %memory = inttoptr i64 %b to ptr
        %bytes = shl i64 %c, 3
        call ptr @memset(ptr %memory, i32 0, i64 %bytes)
        %mask = sub i64 %c, 1
        %numbers = getelementptr i64, ptr %record, i64 4
        br label %walk
      walk:
        %k = phi i64 [ 0, %start ], [ %k.next, %new ]
        %ended = icmp eq i64 %k, %a
        br i1 %ended, label %right, label %look
      look:
        %number.at = getelementptr i64, ptr %numbers, i64 %k
        %number = load i64, ptr %number.at
        %object.at = getelementptr i64, ptr %registers, i64 %number
        %object = load i64, ptr %object.at
        %short = lshr i64 %object, 4
        %mixed = mul i64 %short, -7046029254386353131
        %high = lshr i64 %mixed, 32
        br label %probe
      probe:
        %place = phi i64 [ %high, %look ], [ %place.next, %taken ]
        %slot = and i64 %place, %mask
        %slot.at = getelementptr i64, ptr %memory, i64 %slot
        %held = load i64, ptr %slot.at
        %free = icmp eq i64 %held, 0
        br i1 %free, label %new, label %other
      other:
        %twice = icmp eq i64 %held, %object
        br i1 %twice, label %wrong, label %taken
      taken:
        %place.next = add i64 %place, 1
        br label %probe
      new:
        store i64 %object, ptr %slot.at
        %k.next = add i64 %k, 1
        br label %walk
      right:
        pass %a
        """,
    ),
)

LEAVES = (
    Row(
        "LEAF",
        "`A` is a tensor of the class `b`, a leaf and no view; or else `c(A)` is true. After it the"
        " C++ class of what autograd knows of one, and 1 where it has no hooks and takes gradients"
        " of its dtype",
        """
        %class = typeof A
        %class.is = ptrtoint ptr %class to i64
        %alike = icmp eq i64 %class.is, %b
        br i1 %alike, label %begin, label %wrong
      begin:
        %plain.at = getelementptr i64, ptr %record, i64 4
        %bare.at = getelementptr i64, ptr %record, i64 5
        %plain = load i64, ptr %plain.at
        %bare = load i64, ptr %bare.at
        %handle = getelementptr i8, ptr A, i64 16
        %tensor = load ptr, ptr %handle
        %known.at = getelementptr i8, ptr %tensor, i64 $known_at
        %known = load ptr, ptr %known.at
        %nothing = icmp eq ptr %known, null
        br i1 %nothing, label %hooks, label %look
      look:
        %family = load i64, ptr %known
        %node.at = getelementptr i8, ptr %known, i64 $node_at
        %node = load i64, ptr %node.at
        %no.view = icmp eq i64 %family, %plain
        %no.node = icmp eq i64 %node, 0
        %leaf = and i1 %no.view, %no.node
        br i1 %leaf, label %gradients, label %ask
      gradients:
        %flag.1.at = getelementptr i8, ptr %known, i64 $dtype_1
        %flag.2.at = getelementptr i8, ptr %known, i64 $dtype_2
        %flag.1 = load i8, ptr %flag.1.at
        %flag.2 = load i8, ptr %flag.2.at
        %flag.short = or i8 %flag.1, %flag.2
        %flag.any = zext i8 %flag.short to i64
        br label %hooks
      hooks:
        %others = phi i64 [ 0, %begin ], [ %flag.any, %gradients ]
        %hooks.1.at = getelementptr i8, ptr A, i64 $hooks_1
        %hooks.2.at = getelementptr i8, ptr A, i64 $hooks_2
        %hooks.1 = load i64, ptr %hooks.1.at
        %hooks.2 = load i64, ptr %hooks.2.at
        %hooks.any = or i64 %hooks.1, %hooks.2
        %more = or i64 %hooks.any, %others
        %asked = icmp ne i64 %bare, 0
        %counts = select i1 %asked, i64 %more, i64 0
        %clear = icmp eq i64 %counts, 0
        br i1 %clear, label %right, label %ask
      ask:
        %function = inttoptr i64 %c to ptr
        %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
            ptr %function, ptr A, ptr null)
        %failed = icmp eq ptr %answer, null
        br i1 %failed, label %broken, label %compare
      compare:
        call void @Py_DecRef(ptr %answer)
        %holds = icmp eq ptr %answer, @_Py_TrueStruct
        br i1 %holds, label %right, label %wrong
      right:
        pass 2
        """,
    ),
)
