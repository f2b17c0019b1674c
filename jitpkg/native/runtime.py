"""The code that all entry points share: reads arguments, makes results, raises errors.

It is compiled once per process, with the self-test.
"""

from __future__ import annotations

from jitpkg.native import symbols
from jitpkg.native.text import string

DECLARATIONS = (
    "declare i32 @jitpkg_read(ptr, i64, i64, i64, ptr, ptr, ptr)",
    "declare i32 @jitpkg_allocate(i64, ptr, ptr, i32, ptr, ptr)",
    "declare i32 @jitpkg_scratch(i64, ptr, ptr)",
    "declare ptr @jitpkg_finish(i32, i64, ptr, i64, ptr, i32, ptr, ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)
"""What entry points call, as they declare it. A status of 0 is success; else an error is set."""


EXPORTS = ("jitpkg_read", "jitpkg_allocate", "jitpkg_scratch", "jitpkg_finish")

MESSAGES = {
    "text.count": "%s() takes %zd arguments, %zd were given",
    "text.type": "argument %zd of %s() must be a torch.Tensor, not %R",
    "text.argument": "argument %zd of %s(): %s",
    "text.memory": "argument %zd of %s() is a tensor without memory",
    "text.scratch": "scratch memory below 0",
    "text.status": "%s() failed with status %d",
    "text.what": "torch refused; it has written why to stderr",
}
"""The words of errors, for `PyErr_Format`."""


def text() -> str:
    """The module."""
    told = symbols.has("torch_exception_get_what_without_backtrace")
    messages = [string(name, message) for name, message in MESSAGES.items()]
    return "\n".join([*messages, _TEXT, _TOLD if told else _UNTOLD])


# Layout of CPython's and torch's objects, which the self-test checks: the type at 8, and at 16,
# in a tensor, the `at::Tensor` whose address is its handle in torch's C interface.
_TEXT = r"""
@jitpkg_Tensor = external global i8
@jitpkg_Parameter = external global i8
@_Py_NoneStruct = external global i8
@PyExc_RuntimeError = external global ptr
@PyExc_TypeError = external global ptr
@PyExc_ValueError = external global ptr

declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_get_numel(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare ptr @THPVariable_Wrap(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyErr_NoMemory()
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)


; The data pointers of tensors, then integers, from the arguments of a call.
define i32 @jitpkg_read(ptr %args, i64 %count, i64 %tensors, i64 %integers, ptr %pointers,
    ptr %numbers, ptr %name) {
start:
  %elements = alloca i64
  %wanted = add i64 %tensors, %integers
  %counted = icmp eq i64 %count, %wanted
  br i1 %counted, label %tensor, label %miscounted

miscounted:
  %type_error.0 = load ptr, ptr @PyExc_TypeError
  call ptr (ptr, ptr, ...) @PyErr_Format(
      ptr %type_error.0, ptr @text.count, ptr %name, i64 %wanted, i64 %count)
  ret i32 -1

tensor:
  %k = phi i64 [ 0, %start ], [ %k.next, %kept ]
  %more = icmp slt i64 %k, %tensors
  br i1 %more, label %look, label %integer

look:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %is_tensor = icmp eq ptr %type, @jitpkg_Tensor
  %is_parameter = icmp eq ptr %type, @jitpkg_Parameter
  %right = or i1 %is_tensor, %is_parameter
  br i1 %right, label %point, label %mistyped

mistyped:
  %type_error.1 = load ptr, ptr @PyExc_TypeError
  call ptr (ptr, ptr, ...) @PyErr_Format(
      ptr %type_error.1, ptr @text.type, i64 %k, ptr %name, ptr %type)
  ret i32 -1

point:
  %handle = getelementptr i8, ptr %object, i64 16
  %pointer.at = getelementptr ptr, ptr %pointers, i64 %k
  %status = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %pointer.at)
  %had = icmp eq i32 %status, 0
  br i1 %had, label %pointed, label %refused

refused:
  %runtime_error.0 = load ptr, ptr @PyExc_RuntimeError
  %what = call ptr @jitpkg_what()
  call ptr (ptr, ptr, ...) @PyErr_Format(
      ptr %runtime_error.0, ptr @text.argument, i64 %k, ptr %name, ptr %what)
  ret i32 -1

pointed:
  %pointer = load ptr, ptr %pointer.at
  %null = icmp eq ptr %pointer, null
  br i1 %null, label %empty, label %kept

empty:
  store i64 1, ptr %elements
  call i32 @aoti_torch_get_numel(ptr %handle, ptr %elements)
  %numel = load i64, ptr %elements
  %none = icmp eq i64 %numel, 0
  br i1 %none, label %kept, label %bare

bare:
  %runtime_error.1 = load ptr, ptr @PyExc_RuntimeError
  call ptr (ptr, ptr, ...) @PyErr_Format(ptr %runtime_error.1, ptr @text.memory, i64 %k, ptr %name)
  ret i32 -1

kept:
  %k.next = add i64 %k, 1
  br label %tensor

integer:
  %j = phi i64 [ 0, %tensor ], [ %j.next, %stored ]
  %more.j = icmp slt i64 %j, %integers
  br i1 %more.j, label %convert, label %done

convert:
  %position = add i64 %tensors, %j
  %integer.at = getelementptr ptr, ptr %args, i64 %position
  %integer.object = load ptr, ptr %integer.at
  %number = call i64 @PyLong_AsLongLong(ptr %integer.object)
  %suspect = icmp eq i64 %number, -1
  br i1 %suspect, label %ask, label %stored

ask:
  %error = call ptr @PyErr_Occurred()
  %clear = icmp eq ptr %error, null
  br i1 %clear, label %stored, label %unconverted

unconverted:
  ret i32 -1

stored:
  %number.at = getelementptr i64, ptr %numbers, i64 %j
  store i64 %number, ptr %number.at
  %j.next = add i64 %j, 1
  br label %integer

done:
  ret i32 0
}

; A new tensor on the CPU: its handle, and where its elements are.
define i32 @jitpkg_allocate(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype, ptr %handle.at,
    ptr %pointer.at) {
start:
  %made = call i32 @aoti_torch_empty_strided(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype,
      i32 0, i32 0, ptr %handle.at)
  %had = icmp eq i32 %made, 0
  br i1 %had, label %point, label %refused

point:
  %handle = load ptr, ptr %handle.at
  %status = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %pointer.at)
  %pointed = icmp eq i32 %status, 0
  br i1 %pointed, label %done, label %refused

done:
  ret i32 0

refused:
  %runtime_error = load ptr, ptr @PyExc_RuntimeError
  %what = call ptr @jitpkg_what()
  call void @PyErr_SetString(ptr %runtime_error, ptr %what)
  ret i32 -1
}

; Memory that is aligned to 64 bytes, and the block to free.
define i32 @jitpkg_scratch(i64 %bytes, ptr %block.at, ptr %pointer.at) {
start:
  %negative = icmp slt i64 %bytes, 0
  br i1 %negative, label %wrong, label %take

wrong:
  %value_error = load ptr, ptr @PyExc_ValueError
  call void @PyErr_SetString(ptr %value_error, ptr @text.scratch)
  ret i32 -1

take:
  %size = add i64 %bytes, 64
  %block = call ptr @PyMem_RawMalloc(i64 %size)
  %null = icmp eq ptr %block, null
  br i1 %null, label %full, label %align

full:
  call ptr @PyErr_NoMemory()
  ret i32 -1

align:
  store ptr %block, ptr %block.at
  %address = ptrtoint ptr %block to i64
  %above = add i64 %address, 63
  %even = and i64 %above, -64
  %pointer = inttoptr i64 %even to ptr
  store ptr %pointer, ptr %pointer.at
  ret i32 0
}

; Frees what a call has taken, and returns its results or raises. Handles and blocks may be null.
define ptr @jitpkg_finish(i32 %status, i64 %outputs, ptr %handles, i64 %scratch, ptr %blocks,
    i32 %failures, ptr %failure, ptr %name) {
start:
  br label %block

block:
  %b = phi i64 [ 0, %start ], [ %b.next, %free ]
  %b.more = icmp slt i64 %b, %scratch
  br i1 %b.more, label %free, label %freed

free:
  %block.at = getelementptr ptr, ptr %blocks, i64 %b
  %taken = load ptr, ptr %block.at
  call void @PyMem_RawFree(ptr %taken)
  %b.next = add i64 %b, 1
  br label %block

freed:
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %results, label %failed

results:
  switch i64 %outputs, label %several [
    i64 0, label %none
    i64 1, label %one
  ]

none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct

one:
  %only = load ptr, ptr %handles
  %result = call ptr @THPVariable_Wrap(ptr %only)
  call i32 @aoti_torch_delete_tensor_object(ptr %only)
  ret ptr %result

several:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %drop, label %item

item:
  %k = phi i64 [ 0, %several ], [ %k.next, %set ]
  %k.more = icmp slt i64 %k, %outputs
  br i1 %k.more, label %wrap, label %complete

complete:
  ret ptr %tuple

wrap:
  %handle.at = getelementptr ptr, ptr %handles, i64 %k
  %handle = load ptr, ptr %handle.at
  %tensor = call ptr @THPVariable_Wrap(ptr %handle)
  call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  store ptr null, ptr %handle.at
  %no_tensor = icmp eq ptr %tensor, null
  br i1 %no_tensor, label %undo, label %set

set:
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %tensor)
  %k.next = add i64 %k, 1
  br label %item

undo:
  call void @Py_DecRef(ptr %tuple)
  br label %drop

failed:
  %error = call ptr @PyErr_Occurred()
  %untold = icmp eq ptr %error, null
  br i1 %untold, label %tell, label %drop

tell:
  %row = sub i32 %status, 1
  %in_table = icmp ult i32 %row, %failures
  br i1 %in_table, label %table, label %unknown

table:
  %class.at.at = getelementptr {ptr, ptr}, ptr %failure, i32 %row, i32 0
  %class.at = load ptr, ptr %class.at.at
  %class = load ptr, ptr %class.at
  %words.at = getelementptr {ptr, ptr}, ptr %failure, i32 %row, i32 1
  %words = load ptr, ptr %words.at
  call void @PyErr_SetString(ptr %class, ptr %words)
  br label %drop

unknown:
  %runtime_error = load ptr, ptr @PyExc_RuntimeError
  call ptr (ptr, ptr, ...) @PyErr_Format(
      ptr %runtime_error, ptr @text.status, ptr %name, i32 %status)
  br label %drop

drop:
  br label %dropping

dropping:
  %d = phi i64 [ 0, %drop ], [ %d.next, %next ]
  %d.more = icmp slt i64 %d, %outputs
  br i1 %d.more, label %delete, label %raised

delete:
  %left.at = getelementptr ptr, ptr %handles, i64 %d
  %left = load ptr, ptr %left.at
  %gone = icmp eq ptr %left, null
  br i1 %gone, label %next, label %let_go

let_go:
  call i32 @aoti_torch_delete_tensor_object(ptr %left)
  br label %next

next:
  %d.next = add i64 %d, 1
  br label %dropping

raised:
  ret ptr null
}
"""

_TOLD = """
declare ptr @torch_exception_get_what_without_backtrace()
define internal ptr @jitpkg_what() {
  %what = call ptr @torch_exception_get_what_without_backtrace()
  ret ptr %what
}
"""

_UNTOLD = """
define internal ptr @jitpkg_what() {
  ret ptr @text.what
}
"""
