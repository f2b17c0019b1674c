"""What torch consists of on disk."""

from __future__ import annotations

from jitpkg.internals.row import Row

EXTENSION = Row[str](
    "torch._C.__file__",
    use="finding functions of torch's that native code calls",
    lost="they are looked for in torch's own libraries only",
)
