"""Surroundings in which messages are text in a stream, and nothing else."""

import importlib.util
import io
import logging
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOG = logging.getLogger("tests.messages")
FORMAT = "%(levelname)s %(name)s %(pathname)s:%(lineno)d %(funcName)s %(message)s"


def _own_show() -> Any:
    """Python's own, which pytest has put away."""
    module = importlib.util.find_spec("warnings")
    assert module is not None
    code = module.loader.get_code("warnings")  # type: ignore[union-attr]
    (found,) = (c for c in code.co_consts if getattr(c, "co_name", "") == "_showwarnmsg_impl")
    return types.FunctionType(found, vars(warnings))


_SHOW = _own_show()


@contextmanager
def plain_surroundings(namespace: dict[str, Any], action: str = "default") -> Iterator[io.StringIO]:
    """A text stream in place of `sys.stderr`, which loggers write to, and Python's own warnings.

    `namespace` is that of the functions that warn: it begins without a warning shown.
    """
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter(FORMAT))
    LOG.addHandler(handler)
    LOG.propagate = False
    LOG.setLevel(logging.INFO)
    before = sys.stderr
    sys.stderr = out
    namespace.pop("__warningregistry__", None)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = warnings._showwarning_orig  # type: ignore[attr-defined]
            warnings._showwarnmsg_impl = _SHOW  # type: ignore[attr-defined]
            warnings.simplefilter(action)  # type: ignore[arg-type]
            yield out
    finally:
        sys.stderr = before
        LOG.removeHandler(handler)
        LOG.propagate = True
        namespace.pop("__warningregistry__", None)
