"""The kernel of a source, as Triton's function."""

from __future__ import annotations

import linecache
import weakref
from typing import Any

from jitpkg import listing
from jitpkg.codegen.triton.source import Source


def loaded(source: Source) -> Any:
    """What `@triton.jit` made: a function that Triton compiles, or interprets where the
    environment of the process has asked for that before Triton was imported.

    Its text is what tracebacks show.
    """
    file = listing.file_name(source.name)
    listing.show(file, source.text)  # Triton reads it while the module runs
    space: dict[str, Any] = {"__name__": f"jitpkg.kernels.{source.name}", "__file__": file}
    try:
        exec(compile(source.text, file, "exec"), space)
        kernel = space[source.name]
    except BaseException:
        linecache.cache.pop(file, None)
        raise
    weakref.finalize(kernel, linecache.cache.pop, file, None).atexit = False
    return kernel
