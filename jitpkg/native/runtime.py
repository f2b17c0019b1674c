"""The code that all entry points share: reads arguments, makes results, raises errors.

It is compiled once per process, with the self-test.
"""

from __future__ import annotations

from string import Template

from jitpkg.native import pool
from jitpkg.native.refusals import Kind
from jitpkg.native.storages import Layout
from jitpkg.native.text import AS_IT_IS, string

DECLARATIONS = (
    "declare i32 @jitpkg_read(ptr, i64, i64, i64, ptr, ptr, ptr)",
    "declare i32 @jitpkg_allocate(i64, ptr, ptr, i32, i64, ptr, ptr, ptr)",
    "declare i32 @jitpkg_scratch(i64, ptr, ptr, ptr)",
    "declare ptr @jitpkg_finish(i32, i64, ptr, ptr)",
    "declare void @PyMem_RawFree(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
)
"""What entry points call, as they declare it. A status of 0 is success; else an error is set."""

EXPORTS = ("jitpkg_read", "jitpkg_allocate", "jitpkg_scratch", "jitpkg_finish")


def text(layout: Layout | None) -> str:
    """The module; without a layout no result's memory is pooled."""
    kinds = {kind.name: kind.value for kind in Kind}
    own = _TEXT.substitute(kinds, AS_IT_IS=AS_IT_IS)
    return f"{string('jitpkg_format', 'isnO')}\n{pool.text(layout)}{own}"


# Layout of CPython's and torch's objects, which the self-test checks: the type at 8, and at 16,
# in a tensor, the `at::Tensor` whose address is its handle in torch's C interface.
_TEXT = Template("""
@jitpkg_Tensor = external global i8
@jitpkg_Parameter = external global i8
@_Py_NoneStruct = external global i8
@jitpkg_explain = external global i8

declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_get_numel(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare ptr @THPVariable_Wrap(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetObject(ptr, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyMem_RawMalloc(i64)

; Raises what Python says that the exception is.
define internal void @jitpkg_raise(i32 %kind, ptr %about, i64 %number, ptr %given) $AS_IT_IS {
start:
  %error = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
      ptr @jitpkg_explain, ptr @jitpkg_format, i32 %kind, ptr %about, i64 %number, ptr %given)
  %none = icmp eq ptr %error, null
  br i1 %none, label %done, label %set

set:
  %class.at = getelementptr i8, ptr %error, i64 8
  %class = load ptr, ptr %class.at
  call void @PyErr_SetObject(ptr %class, ptr %error)
  call void @Py_DecRef(ptr %error)
  br label %done

done:
  ret void
}

; The data pointers of tensors, then integers, from the arguments of a call.
define i32 @jitpkg_read(ptr %args, i64 %count, i64 %tensors, i64 %integers, ptr %pointers,
    ptr %numbers, ptr %about) {
start:
  %elements = alloca i64
  %wanted = add i64 %tensors, %integers
  %counted = icmp eq i64 %count, %wanted
  br i1 %counted, label %argument, label %wrong

argument:
  %k = phi i64 [ 0, %start ], [ %next, %pointed ], [ %next, %empty ], [ %next, %converted ]
  %next = add i64 %k, 1
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %more = icmp slt i64 %k, %count
  br i1 %more, label %which, label %done

done:
  ret i32 0

which:
  %object = load ptr, ptr %object.at
  %is_first = icmp slt i64 %k, %tensors
  br i1 %is_first, label %tensor, label %integer

tensor:
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %is_tensor = icmp eq ptr %type, @jitpkg_Tensor
  %is_parameter = icmp eq ptr %type, @jitpkg_Parameter
  %right = or i1 %is_tensor, %is_parameter
  br i1 %right, label %point, label %wrong

point:
  %handle = getelementptr i8, ptr %object, i64 16
  %pointer.at = getelementptr ptr, ptr %pointers, i64 %k
  %status = call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %pointer.at)
  %had = icmp eq i32 %status, 0
  br i1 %had, label %pointed, label %wrong

pointed:
  %pointer = load ptr, ptr %pointer.at
  %null = icmp eq ptr %pointer, null
  br i1 %null, label %empty, label %argument

empty:
  store i64 1, ptr %elements
  call i32 @aoti_torch_get_numel(ptr %handle, ptr %elements)
  %numel = load i64, ptr %elements
  %none = icmp eq i64 %numel, 0
  br i1 %none, label %argument, label %wrong

integer:
  %number = call i64 @PyLong_AsLongLong(ptr %object)
  %suspect = icmp eq i64 %number, -1
  br i1 %suspect, label %ask, label %converted

ask:
  %error = call ptr @PyErr_Occurred()
  %clear = icmp eq ptr %error, null
  br i1 %clear, label %converted, label %raised

converted:
  %j = sub i64 %k, %tensors
  %number.at = getelementptr i64, ptr %numbers, i64 %j
  store i64 %number, ptr %number.at
  br label %argument

wrong:
  %kind = phi i32 [ $COUNT, %start ], [ $TYPE, %tensor ], [ $REFUSED, %point ], [ $MEMORY, %empty ]
  %which_one = phi i64 [ %count, %start ], [ %k, %tensor ], [ %k, %point ], [ %k, %empty ]
  %given = phi ptr [ @_Py_NoneStruct, %start ], [ %object, %tensor ], [ %object, %point ],
      [ %object, %empty ]
  call void @jitpkg_raise(i32 %kind, ptr %about, i64 %which_one, ptr %given)
  br label %raised

raised:
  ret i32 -1
}

; A new tensor on the CPU: its handle, and where its elements are.
define i32 @jitpkg_allocate(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes,
    ptr %handle.at, ptr %pointer.at, ptr %about) $AS_IT_IS {
start:
  %pooled = call i1 @jitpkg_pooled(i64 %dims, ptr %sizes, ptr %strides, i32 %dtype, i64 %bytes,
      ptr %handle.at, ptr %pointer.at)
  br i1 %pooled, label %done, label %other

other:
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
  call void @jitpkg_raise(i32 $ALLOCATION, ptr %about, i64 0, ptr @_Py_NoneStruct)
  ret i32 -1
}

; Memory that is aligned to 64 bytes, and the block to free.
define i32 @jitpkg_scratch(i64 %bytes, ptr %block.at, ptr %pointer.at, ptr %about) $AS_IT_IS {
start:
  %negative = icmp slt i64 %bytes, 0
  %more = add i64 %bytes, 64
  %size = select i1 %negative, i64 -1, i64 %more
  %block = call ptr @PyMem_RawMalloc(i64 %size)
  %null = icmp eq ptr %block, null
  br i1 %null, label %full, label %align

full:
  call void @jitpkg_raise(i32 $SCRATCH, ptr %about, i64 %bytes, ptr @_Py_NoneStruct)
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

; The results of a call, or an error; lets go of the handles, which may be null after an error.
define ptr @jitpkg_finish(i32 %status, i64 %outputs, ptr %handles, ptr %about) $AS_IT_IS {
start:
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
  %made = call ptr @PyTuple_New(i64 %outputs)
  br label %item

failed:
  %error = call ptr @PyErr_Occurred()
  %untold = icmp eq ptr %error, null
  br i1 %untold, label %tell, label %item

tell:
  %wide = sext i32 %status to i64
  call void @jitpkg_raise(i32 $STATUS, ptr %about, i64 %wide, ptr @_Py_NoneStruct)
  br label %item

item:
  %tuple = phi ptr [ %made, %several ], [ null, %failed ], [ null, %tell ], [ %kept, %next ]
  %k = phi i64 [ 0, %several ], [ 0, %failed ], [ 0, %tell ], [ %k.next, %next ]
  %more = icmp slt i64 %k, %outputs
  br i1 %more, label %look, label %done

done:
  ret ptr %tuple

look:
  %handle.at = getelementptr ptr, ptr %handles, i64 %k
  %handle = load ptr, ptr %handle.at
  %dropping = icmp eq ptr %tuple, null
  br i1 %dropping, label %drop, label %wrap

wrap:
  %tensor = call ptr @THPVariable_Wrap(ptr %handle)
  %lost = icmp eq ptr %tensor, null
  br i1 %lost, label %undo, label %set

undo:
  call void @Py_DecRef(ptr %tuple)
  br label %drop

set:
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %tensor)
  br label %drop

drop:
  %kept = phi ptr [ %tuple, %set ], [ null, %look ], [ null, %undo ]
  %gone = icmp eq ptr %handle, null
  br i1 %gone, label %next, label %delete

delete:
  call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  br label %next

next:
  %k.next = add i64 %k, 1
  br label %item
}
""")
