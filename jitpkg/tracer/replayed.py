"""What calls of `logging` and `warnings` come to, when a trace's effects are replayed."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any


def log(
    logger: logging.Logger,
    level: int,
    message: object,
    args: tuple[object, ...],
    exc_info: Any,
    file: str,
    line: int,
    function: str,
) -> None:
    """`logger._log(level, message, args)`, called at a place in the program."""
    if not vars(logging)["_srcfile"]:
        file, line, function = "(unknown file)", 0, "(unknown function)"
    record = logger.makeRecord(
        logger.name, level, file, line, message, args, exc_info, function, None, None
    )
    logger.handle(record)


def call(function: Callable[..., object], *args: object) -> None:
    """Of a function that writes messages and returns None."""
    function(*args)


def warn(
    namespace: dict[str, Any], text: str, category: type[Warning], file: str, line: int
) -> None:
    """`warnings.warn(text, category)`, called at a place in a module with these globals."""
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, file, line, module_name(namespace), registry)


def ignored(
    namespace: dict[str, Any], text: str, category: type[Warning], file: str, line: int
) -> None:
    """The same where all warnings are ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn(namespace, text, category, file, line)


def filters_were_caught(module: ModuleType) -> None:
    """What stays of a `warnings.catch_warnings()` that is over: warnings that were to be shown once
    are shown again."""
    with warnings.catch_warnings():
        pass


def module_name(namespace: dict[str, Any]) -> str:
    """As warnings know it."""
    name = namespace.get("__name__")
    return name if isinstance(name, str) else "<string>"


MESSAGES = (log, warn, filters_were_caught)
"""What a message's effect calls, or one that decides whether messages are shown."""
