"""What is kept on disk between processes: `info()` says where and how much, `clear()` removes it,
`export_to(file)` writes it into one file, which `import_from(file)` adds on another machine.

`JITPKG_CACHE_DIR` names another directory than the platform's; `off` keeps nothing.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from jitpkg.codegen.cache import Info, archive, kernels

__all__ = ["Info", "clear", "export_to", "import_from", "info"]


def info() -> Info:
    """Where compiled kernels and graphs are kept, how many there are, and what they take."""
    return kernels().info()


def clear() -> int:
    """Remove all compiled kernels and graphs that are kept; returns how many it were.

    Functions that are compiled stay so; other processes compile anew what they ask for next.

    Raises:
        OSError: the directory belongs to another user, or cannot be read or written.
    """
    return kernels().clear()


def export_to(file: str | PathLike[str]) -> int:
    """Write all compiled kernels and graphs that are kept into one file; returns how many.

    Machines with the same kind of processor, Python, PyTorch and jitpkg find what they need in it.
    The binaries of Triton's are not in it.

    Raises:
        OSError: the file cannot be written, or the directory cannot be read.
    """
    return archive.write(kernels(), Path(file))


def import_from(file: str | PathLike[str]) -> int:
    """Add the compiled kernels and graphs of a file that are not here yet; returns how many.

    They are run as they are: import only what you trust as you trust a program.

    Raises:
        InvalidArgument: `export_to` has not written the file, or that of another version, or it is
            damaged.
        OSError: the file cannot be read, or nothing can be kept on disk.
    """
    return archive.read(kernels(), Path(file))
