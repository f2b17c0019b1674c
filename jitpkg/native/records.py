"""What a table of tests can do: read Python's objects, and say what must hold of them.

See `jitpkg.native.tables`.
"""

from __future__ import annotations

from jitpkg.native.row import Row
from jitpkg.native.tensor_records import LEAVES, TENSORS

_UNCHANGED = """
      look:
        %version.at = getelementptr i8, ptr A, i64 $version_at
        %version.word = load i64, ptr %version.at
        %version = and i64 %version.word, $version_bits
        %last.at = getelementptr i64, ptr %record, i64 4
        %last = load i64, ptr %last.at
        %alike = icmp eq i64 %version, %last
        %values.at = getelementptr i8, ptr A, i64 $values_at
        %values = load ptr, ptr %values.at
        %combined = icmp eq ptr %values, null
        %counted = or i1 %combined, $counts_stores
        %sure = and i1 %counted, $counts_changes
        %unchanged = and i1 %alike, %sure
"""
"""Of a dict: whether its version is the one after the record, and counts all that is changed."""

_STILL = """
        %after.word = load i64, ptr %version.at
        %after = and i64 %after.word, $version_bits
        %same = icmp eq i64 %version, %after
"""
"""Whether it is still that, after a look into the dict."""

READS = (
    Row("CONSTANT", "the object `b`", "%it = inttoptr i64 %b to ptr\n borrow %it"),
    Row(
        "DICTIONARY",
        "`A.__dict__`, of an instance of the class `b`; `c` is the name",
        """
        %class = typeof A
        %wanted = inttoptr i64 %b to ptr
        %plain = icmp eq ptr %class, %wanted
        br i1 %plain, label %direct, label %other
      direct:
        %found = call ptr @PyObject_GenericGetDict(ptr A, ptr null)
        own %found
      other:
        %name = inttoptr i64 %c to ptr
        %asked = call ptr @PyObject_GetAttr(ptr A, ptr %name)
        own %asked
        """,
    ),
    Row(
        "ATTRIBUTE",
        "`getattr(A, b)`",
        """
        %name = inttoptr i64 %b to ptr
        %found = call ptr @PyObject_GetAttr(ptr A, ptr %name)
        own %found
        """,
    ),
    Row(
        "KEY",
        "`A[b]`, most often of an exact dict; after it the version of that when it was read last,"
        " and what was there then, which is there as long as the version is the same",
        """
        %class = typeof A
        %exact = icmp eq ptr %class, @PyDict_Type
        br i1 %exact, label %look, label %other
        """
        + _UNCHANGED
        + """
        br i1 %unchanged, label %again, label %direct
      again:
        %again.at = getelementptr i64, ptr %record, i64 5
        %held = load ptr, ptr %again.at
        borrow %held 2
      direct:
        %key = inttoptr i64 %b to ptr
        %found = call ptr @PyDict_GetItemWithError(ptr A, ptr %key)
        %none = icmp eq ptr %found, null
        br i1 %none, label %lacking, label %there
      there:
        """
        + _STILL
        + """
        br i1 %same, label %remember, label %moving
      remember:
        store i64 %version, ptr %last.at
        %held.at = getelementptr i64, ptr %record, i64 5
        store ptr %found, ptr %held.at
        br label %moving
      moving:
        borrow %found 2
      lacking:
        %error = call ptr @PyErr_Occurred()
        %clear = icmp eq ptr %error, null
        br i1 %clear, label %missing, label %broken
      missing:
        fail
      other:
        %key.other = inttoptr i64 %b to ptr
        %asked = call ptr @PyObject_GetItem(ptr A, ptr %key.other)
        own %asked 2
        """,
    ),
    Row(
        "KEYED",
        "`A[C]` of a dict, as `dict` itself has it",
        """
        %found = call ptr @PyDict_GetItemWithError(ptr A, ptr C)
        %none = icmp eq ptr %found, null
        br i1 %none, label %lacking, label %there
      there:
        borrow %found
      lacking:
        %error = call ptr @PyErr_Occurred()
        %clear = icmp eq ptr %error, null
        br i1 %clear, label %missing, label %broken
      missing:
        fail
        """,
    ),
    Row(
        "CALL",
        "`b(A)`, or `b(A, c)` where there is a `c`",
        """
        %function = inttoptr i64 %b to ptr
        %argument = inttoptr i64 %c to ptr
        %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
            ptr %function, ptr A, ptr %argument, ptr null)
        own %result
        """,
    ),
)

TESTS = (
    Row(
        "TYPE",
        "`type(A) is b`",
        """
        %class = typeof A
        %address = ptrtoint ptr %class to i64
        %same = icmp eq i64 %address, %b
        br i1 %same, label %right, label %wrong
        """,
    ),
    Row(
        "IS",
        "`A is b`, or is not where `c` is 1",
        """
        %address = ptrtoint ptr A to i64
        %same = icmp eq i64 %address, %b
        %apart = icmp ne i64 %c, 0
        %holds = xor i1 %same, %apart
        br i1 %holds, label %right, label %wrong
        """,
    ),
    Row(
        "SAME",
        "`A is C`, or is not where `b` is 1",
        """
        %same = icmp eq ptr A, C
        %apart = icmp ne i64 %b, 0
        %holds = xor i1 %same, %apart
        br i1 %holds, label %right, label %wrong
        """,
    ),
    Row(
        "EQUAL",
        "`A` is of the class `c`, int, str or bytes, and `A == b`",
        """
        %class = typeof A
        %class.is = ptrtoint ptr %class to i64
        %alike = icmp eq i64 %class.is, %c
        br i1 %alike, label %which, label %wrong
      which:
        %value = inttoptr i64 %b to ptr
        %same = icmp eq ptr A, %value
        br i1 %same, label %right, label %compare
      compare:
        %equal = call i32 @PyObject_RichCompareBool(ptr A, ptr %value, i32 2)
        %holds = icmp eq i32 %equal, 1
        br i1 %holds, label %right, label %unequal
      unequal:
        %failed = icmp slt i32 %equal, 0
        br i1 %failed, label %broken, label %wrong
        """,
    ),
    Row(
        "BITS",
        "`A` is of the class `c`, and the 8 bytes at 16 in it are `b`: a float, a length",
        """
        %class = typeof A
        %class.is = ptrtoint ptr %class to i64
        %alike = icmp eq i64 %class.is, %c
        br i1 %alike, label %look, label %wrong
      look:
        %at = getelementptr i8, ptr A, i64 16
        %word = load i64, ptr %at
        %same = icmp eq i64 %word, %b
        br i1 %same, label %right, label %wrong
        """,
    ),
    Row(
        "CONTAINS",
        "`b in A`, or not where `c` is 1; most often of an exact dict. After it the version of that"
        " when it was so last",
        """
        %class = typeof A
        %key = inttoptr i64 %b to ptr
        %exact = icmp eq ptr %class, @PyDict_Type
        br i1 %exact, label %look, label %other
        """
        + _UNCHANGED
        + """
        br i1 %unchanged, label %right, label %direct
      direct:
        %there = call i32 @PyDict_Contains(ptr A, ptr %key)
        %wide.direct = sext i32 %there to i64
        %as.before = icmp ne i64 %wide.direct, %c
        %known = icmp sge i32 %there, 0
        %holds.direct = and i1 %as.before, %known
        br i1 %holds.direct, label %true, label %asked
      true:
        """
        + _STILL
        + """
        br i1 %same, label %remember, label %right
      remember:
        store i64 %version, ptr %last.at
        br label %right
      other:
        %answer = call i32 @PySequence_Contains(ptr A, ptr %key)
        br label %asked
      asked:
        %found = phi i32 [ %there, %direct ], [ %answer, %other ]
        %failed = icmp slt i32 %found, 0
        br i1 %failed, label %broken, label %compare
      compare:
        %wide = zext i32 %found to i64
        %holds = icmp ne i64 %wide, %c
        br i1 %holds, label %right, label %wrong
      right:
        pass 1
        """,
    ),
    Row(
        "LISTED",
        "`b in A` of a dict, as `dict` itself has it, or not where `c` is 1",
        """
        %key = inttoptr i64 %b to ptr
        %found = call ptr @PyDict_GetItemWithError(ptr A, ptr %key)
        %none = icmp eq ptr %found, null
        br i1 %none, label %lacking, label %compare
      lacking:
        %error = call ptr @PyErr_Occurred()
        %clear = icmp eq ptr %error, null
        br i1 %clear, label %compare, label %broken
      compare:
        %wide = zext i1 %none to i64
        %holds = icmp eq i64 %wide, %c
        br i1 %holds, label %right, label %wrong
        """,
    ),
    Row(
        "KEYS",
        "`A` is an exact dict whose keys are those of the tuple `b`, in order",
        """
        %class = typeof A
        %exact = icmp eq ptr %class, @PyDict_Type
        br i1 %exact, label %count, label %wrong
      count:
        %keys = inttoptr i64 %b to ptr
        %used.at = getelementptr i8, ptr A, i64 16
        %used = load i64, ptr %used.at
        %wanted.at = getelementptr i8, ptr %keys, i64 16
        %wanted = load i64, ptr %wanted.at
        %as_many = icmp eq i64 %used, %wanted
        br i1 %as_many, label %begin, label %wrong
      begin:
        store i64 0, ptr %position
        br label %walk
      walk:
        %k = phi i64 [ 0, %begin ], [ %k.next, %equal ]
        %more = call i32 @PyDict_Next(ptr A, ptr %position, ptr %first, ptr null)
        %ended = icmp eq i32 %more, 0
        br i1 %ended, label %right, label %key
      key:
        %key.now = load ptr, ptr %first
        %items = getelementptr i8, ptr %keys, i64 $items_at
        %key.at = getelementptr ptr, ptr %items, i64 %k
        %key.then = load ptr, ptr %key.at
        %same = icmp eq ptr %key.now, %key.then
        br i1 %same, label %equal, label %compare
      compare:
        %alike = call i32 @jitpkg_same_text(ptr %key.now, ptr %key.then)
        %holds = icmp eq i32 %alike, 1
        br i1 %holds, label %equal, label %wrong
      equal:
        %k.next = add i64 %k, 1
        br label %walk
        """,
    ),
    Row(
        "CODE",
        "`A` is a function, and the code `b` or `c` of its code is `b`",
        """
        %class = typeof A
        %exact = icmp eq ptr %class, @PyFunction_Type
        br i1 %exact, label %look, label %wrong
      look:
        %at = getelementptr i8, ptr A, i64 $code_at
        %now = load ptr, ptr %at
        %wanted = inttoptr i64 %b to ptr
        %same = icmp eq ptr %now, %wanted
        br i1 %same, label %right, label %ask
      ask:
        %function = inttoptr i64 %c to ptr
        %original = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
            ptr %function, ptr %now, ptr null)
        %failed = icmp eq ptr %original, null
        br i1 %failed, label %broken, label %compare
      compare:
        call void @Py_DecRef(ptr %original)
        %holds = icmp eq ptr %original, %wanted
        br i1 %holds, label %right, label %wrong
        """,
    ),
    Row(
        "WORDS",
        "behind it, `a` times an address, bits, and what these are there; or else `b()` is true",
        """
        %triples = getelementptr i64, ptr %record, i64 4
        %length = mul i64 %a, 3
        br label %walk
      walk:
        %k = phi i64 [ 0, %start ], [ %k.next, %equal ]
        %ended = icmp eq i64 %k, %length
        br i1 %ended, label %right, label %look
      look:
        %address.at = getelementptr i64, ptr %triples, i64 %k
        %bits.at = getelementptr i64, ptr %address.at, i64 1
        %word.at = getelementptr i64, ptr %address.at, i64 2
        %address = load ptr, ptr %address.at
        %bits = load i64, ptr %bits.at
        %then = load i64, ptr %word.at
        %all = load i64, ptr %address
        %now = and i64 %all, %bits
        %same = icmp eq i64 %now, %then
        br i1 %same, label %equal, label %ask
      equal:
        %k.next = add i64 %k, 3
        br label %walk
      ask:
        %function = inttoptr i64 %b to ptr
        %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr null)
        %failed = icmp eq ptr %answer, null
        br i1 %failed, label %broken, label %compare
      compare:
        call void @Py_DecRef(ptr %answer)
        %holds = icmp eq ptr %answer, @_Py_TrueStruct
        br i1 %holds, label %right, label %wrong
      right:
        pass %length
        """,
    ),
    Row(
        "ANSWERS",
        "`b()` or `b(c)` is true where `a` is 1, is false where it is 0, and is None where it is 2",
        """
        %function = inttoptr i64 %b to ptr
        %bare = icmp eq i64 %c, 0
        br i1 %bare, label %call, label %call.with
      call:
        %said = call ptr @PyObject_CallNoArgs(ptr %function)
        br label %called
      call.with:
        %argument = inttoptr i64 %c to ptr
        %said.with = call ptr @PyObject_CallOneArg(ptr %function, ptr %argument)
        br label %called
      called:
        %answer = phi ptr [ %said, %call ], [ %said.with, %call.with ]
        %failed = icmp eq ptr %answer, null
        br i1 %failed, label %broken, label %which
      which:
        %about_none = icmp eq i64 %a, 2
        br i1 %about_none, label %identity, label %truth
      identity:
        %none = icmp eq ptr %answer, @_Py_NoneStruct
        call void @Py_DecRef(ptr %answer)
        br i1 %none, label %right, label %wrong
      truth:
        %true = call i32 @PyObject_IsTrue(ptr %answer)
        call void @Py_DecRef(ptr %answer)
        %unknown = icmp slt i32 %true, 0
        br i1 %unknown, label %broken, label %compare
      compare:
        %wide = zext i32 %true to i64
        %holds = icmp eq i64 %wide, %a
        br i1 %holds, label %right, label %wrong
        """,
    ),
    Row(
        "HOLDS",
        "`b(A)`, or `b(A, C)` where `c` is no -1, is true",
        """
        %function = inttoptr i64 %b to ptr
        %single = icmp slt i64 %c, 0
        br i1 %single, label %call, label %two
      two:
        %argument.at = getelementptr ptr, ptr %registers, i64 %c
        %argument = load ptr, ptr %argument.at
        br label %call
      call:
        %other = phi ptr [ null, %start ], [ %argument, %two ]
        %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(
            ptr %function, ptr A, ptr %other, ptr null)
        %failed = icmp eq ptr %answer, null
        br i1 %failed, label %broken, label %truth
      truth:
        %true = call i32 @PyObject_IsTrue(ptr %answer)
        call void @Py_DecRef(ptr %answer)
        %unknown = icmp slt i32 %true, 0
        br i1 %unknown, label %broken, label %compare
      compare:
        %holds = icmp eq i32 %true, 1
        br i1 %holds, label %right, label %wrong
        """,
    ),
)

STATES = (
    Row(
        "STATE",
        "after it, `a` times a C function, its argument, where the answer is (bytes from the"
        " address that the function returns; -1: that is the answer), bits, and what these are",
        """
        %words.at = getelementptr i64, ptr %record, i64 4
        %length = mul i64 %a, $state_words
        br label %walk
      walk:
        %k = phi i64 [ 0, %start ], [ %k.next, %equal ]
        %ended = icmp eq i64 %k, %length
        br i1 %ended, label %right, label %look
      look:
        %function.at = getelementptr i64, ptr %words.at, i64 %k
        %argument.at = getelementptr i64, ptr %function.at, i64 1
        %offset.at = getelementptr i64, ptr %function.at, i64 2
        %bits.at = getelementptr i64, ptr %function.at, i64 3
        %then.at = getelementptr i64, ptr %function.at, i64 4
        %function = load ptr, ptr %function.at
        %argument = load i64, ptr %argument.at
        %offset = load i64, ptr %offset.at
        %bits = load i64, ptr %bits.at
        %then = load i64, ptr %then.at
        %value = call i64 %function(i64 %argument)
        %direct = icmp slt i64 %offset, 0
        br i1 %direct, label %compare, label %follow
      follow:
        %address = inttoptr i64 %value to ptr
        %word.at = getelementptr i8, ptr %address, i64 %offset
        %word = load i64, ptr %word.at
        br label %compare
      compare:
        %seen = phi i64 [ %value, %look ], [ %word, %follow ]
        %now = and i64 %seen, %bits
        %same = icmp eq i64 %now, %then
        br i1 %same, label %equal, label %wrong
      equal:
        %k.next = add i64 %k, $state_words
        br label %walk
      right:
        pass %length
        """,
    ),
    Row(
        "EMPTY",
        "the words at `a` and at `c` are one, from the address that the C function `b` returns",
        """
        %function = inttoptr i64 %b to ptr
        %address = call ptr %function()
        %first.at = getelementptr i8, ptr %address, i64 %a
        %other.at = getelementptr i8, ptr %address, i64 %c
        %begin = load i64, ptr %first.at
        %end = load i64, ptr %other.at
        %same = icmp eq i64 %begin, %end
        br i1 %same, label %right, label %wrong
        """,
    ),
)

END = "END"
"""The last record: behind it are `a` numbers of registers, which the tuple has."""

ROWS = (*READS, *TESTS, *STATES, *TENSORS, *LEAVES)
