"""Small native functions to test with."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch

from jitpkg import native
from jitpkg.native import Binding, Output, Signature

needs_llvm = pytest.mark.skipif(
    importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed"
)
both_bindings = pytest.mark.parametrize("binding", ["tensors", "pointers"])


def built(
    kernel: str,
    signature: Signature,
    binding: Binding = "tensors",
    name: str = "tested",
) -> Callable[..., Any]:
    """A function that calls the kernel of this text."""
    text = native.joined(kernel, native.entry_point(name, signature, binding=binding))
    library = native.load(native.compile_ir(text))
    return native.builtin(library, name, name, f"{name}(...)")


def vector(*sizes: int | str, dtype: torch.dtype = torch.float32) -> Output:
    """A contiguous result."""
    strides: list[int | str] = []
    after: int | str = 1
    for size in reversed(sizes):
        strides.insert(0, after)
        both = isinstance(size, int) and isinstance(after, int)
        after = size * after if both else f"({size}) * ({after})"
    return Output(dtype, sizes, tuple(strides))


STATUS = """
define i32 @kernel(i64 %status) {
  %narrow = trunc i64 %status to i32
  ret i32 %narrow
}
"""
"""Returns the status that it is given."""


def summing(inputs: int, outputs: int = 1, scratch: int = 0) -> str:
    """A kernel: result k is the sum of the inputs, plus k; `i0` floats."""
    pointers = [f"%a{k}" for k in range(inputs)]
    results = [f"%o{k}" for k in range(outputs)]
    blocks = [f"%s{k}" for k in range(scratch)]
    names = [f"ptr {name}" for name in pointers + results + blocks]
    arguments = ", ".join([*names, "i64 %n"])
    loads = "".join(
        f"  {name}.at = getelementptr float, ptr {name}, i64 %k\n"
        f"  {name}.element = load float, ptr {name}.at\n"
        f"  %sum{k + 1} = fadd float %sum{k}, {name}.element\n"
        for k, name in enumerate(pointers)
    )
    stores = "".join(
        f"  {name}.at = getelementptr float, ptr {name}, i64 %k\n"
        f"  {name}.element = fadd float %sum{inputs}, {k}.0\n"
        f"  store float {name}.element, ptr {name}.at\n"
        for k, name in enumerate(results)
    )
    return f"""
define i32 @kernel({arguments}) {{
start:
  br label %loop
loop:
  %k = phi i64 [ 0, %start ], [ %next, %body ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %body, label %done
body:
  %sum0 = fadd float 0.0, 0.0
{loads}{stores}  %next = add i64 %k, 1
  br label %loop
done:
  ret i32 0
}}
"""
