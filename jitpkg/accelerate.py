"""`import jitpkg.accelerate` lets Hugging Face's Trainer take `torch_compile_backend="jitpkg"`.

Its library `accelerate` knows the backends of torch.compile by a list of names, and refuses others.
"""

from __future__ import annotations

import contextlib
from typing import Any

from accelerate.utils import DynamoBackend

_NAME = "JITPKG"


def _offer(backends: Any) -> None:
    """Add the name to an enumeration of backends, unless it is there."""
    with contextlib.suppress(ValueError):
        backends(_NAME)
        return
    ours = str.__new__(backends, _NAME)
    ours._name_ = ours._value_ = _NAME
    others = backends._missing_

    def _missing_(cls: object, value: object) -> Any:
        return ours if value == _NAME else others(value)

    backends._missing_ = classmethod(_missing_)


_offer(DynamoBackend)
