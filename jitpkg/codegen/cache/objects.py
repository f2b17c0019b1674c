"""Object code for IR text: from the cache, or compiled now and kept."""

from __future__ import annotations

from jitpkg import native
from jitpkg.codegen.cache import kernel_key, kernels


def object_code(text: str) -> bytes:
    """What `native.compile_ir` gives.

    Raises:
        NativeError: LLVM is not there, or the text is not a valid module.
    """
    key = kernel_key(text, native.target())
    found = kernels().get(key)
    if found is None:
        found = native.compile_ir(text)
        kernels().put(key, found)
    return found
