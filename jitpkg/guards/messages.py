"""Who would see a log record or a warning: where it is plain text in a stream and nothing else,
nobody can tell whether it was made a moment later.

A handler, a filter, a formatter or a stream of the program's own may look at anything, and may
raise; so may a warning that a filter turns into an exception.
"""

from __future__ import annotations

import io
import logging
import re
import sys
import warnings
from types import BuiltinMethodType, FunctionType
from typing import Any

from jitpkg.dataclass import dataclass

_LOGGING = logging.addLevelName.__code__.co_filename
_WARNINGS = warnings.simplefilter.__code__.co_filename


@dataclass(frozen=True, slots=True)
class _Usual:
    """Methods that do what the standard library says, unless somebody has replaced them."""

    cls: type
    methods: dict[str, object]

    @classmethod
    def of(cls, owner: type, *names: str) -> _Usual:
        return cls(owner, {name: vars(owner).get(name) for name in names})

    def hold(self) -> bool:
        return all(
            self.cls.__dict__.get(name) is found and _is_of(found, _LOGGING)
            for name, found in self.methods.items()
        )


def _is_of(function: object, file: str) -> bool:
    return type(function) is FunctionType and function.__code__.co_filename == file


_LOGGER_METHODS = ("handle", "callHandlers", "makeRecord", "findCaller", "_log")
_HANDLER_METHODS = ("handle", "format", "acquire", "release")
_USUAL = (
    _Usual.of(logging.Logger, *_LOGGER_METHODS),
    _Usual.of(logging.Filterer, "filter"),
    _Usual.of(logging.Handler, *_HANDLER_METHODS),
    _Usual.of(logging.StreamHandler, "emit", "flush"),
    _Usual.of(logging.FileHandler, "emit"),
    _Usual.of(logging.NullHandler, "handle", "emit"),
    _Usual.of(logging.Formatter, "format", "formatTime", "formatMessage", "usesTime"),
)
_LOGGERS = (logging.Logger, logging.RootLogger)
_STREAM_HANDLERS = (logging.StreamHandler, logging.FileHandler, type(logging.lastResort))
_FORMATTER = frozenset(vars(logging.Formatter()))
_STYLES = (logging.PercentStyle, logging.StrFormatStyle, logging.StringTemplateStyle)
_OWN_METHODS = frozenset({*_LOGGER_METHODS, *_HANDLER_METHODS, "filter", "emit", "flush"})


def logs_plainly(logger: logging.Logger, level: int) -> bool:
    """Whether a record of a logger only becomes text in streams of Python's own."""
    if not all(usual.hold() for usual in _USUAL):
        return False
    if vars(logging)["_logRecordFactory"] is not logging.LogRecord:
        return False
    if type(logger) not in _LOGGERS or logger.filters or _OWN_METHODS & vars(logger).keys():
        return False
    found = False
    at: logging.Logger | None = logger
    while at is not None:
        for handler in at.handlers:
            found = True
            if level >= handler.level and not _is_plain(handler):
                return False
        at = at.parent if at.propagate else None
    last = logging.lastResort
    return found or (last is not None and (level < last.level or _is_plain(last)))


def _is_plain(handler: logging.Handler) -> bool:
    if type(handler) is logging.NullHandler:
        return True
    if type(handler) not in _STREAM_HANDLERS or handler.filters:
        return False
    own = {name for name in _OWN_METHODS & vars(handler).keys() if not _flushes(handler, name)}
    if own:
        return False
    formatter = handler.formatter
    if formatter is not None:
        is_usual = type(formatter) is logging.Formatter and vars(formatter).keys() <= _FORMATTER
        if not is_usual or type(vars(formatter).get("_style")) not in _STYLES:
            return False
    stream = handler.stream  # type: ignore[attr-defined]
    if stream is None:
        return type(handler) is logging.FileHandler  # it opens its file then
    return _is_plain_stream(stream)


def _flushes(handler: logging.Handler, name: str) -> bool:
    """Whether a method of the handler's own is that of a stream of Python's."""
    found = vars(handler)[name]
    is_flush = name == "flush" and type(found) is BuiltinMethodType and found.__name__ == name
    return is_flush and _is_plain_stream(found.__self__)


_WRITE = io.TextIOWrapper.write
_FLUSH = io.TextIOWrapper.flush


def _is_plain_stream(stream: Any) -> bool:
    cls = type(stream)
    if cls is not io.StringIO:
        if not issubclass(cls, io.TextIOWrapper):
            return False
        if cls.write is not _WRITE or cls.flush is not _FLUSH:
            return False
    return not stream.closed


def warns_plainly(_: object, category: type[Warning], text: str, module: str, line: int) -> bool:
    """Whether a warning is ignored, or only becomes text in `sys.stderr`."""
    action = _action(category, text, module, line)
    return action == "ignore" or (action in _SHOWN and shows_plainly())


def shows_plainly(_: object = None, *, recorded: bool = False) -> bool:
    """Whether warnings that are shown only become text in `sys.stderr`; or are `recorded`."""
    names: dict[str, Any] = vars(warnings)
    if names["showwarning"] is not names["_showwarning_orig"]:
        return False
    if names["formatwarning"] is not names["_formatwarning_orig"]:
        return False
    if recorded and isinstance(getattr(names["_showwarnmsg_impl"], "__self__", None), list):
        return True
    if not all(_is_of(names[name], _WARNINGS) for name in _SHOWING):
        return False
    return sys.stderr is None or _is_plain_stream(sys.stderr)


def warns_in_graph(_: object) -> bool:
    """Whether the op that warns may be in a graph: nothing of the program's is called."""
    return shows_plainly(recorded=True)


_SHOWN = frozenset({"default", "always", "all", "module", "once"})
_SHOWING = ("_showwarnmsg", "_showwarnmsg_impl", "_formatwarnmsg", "_formatwarnmsg_impl")


def _action(category: type[Warning], text: str, module: str, line: int) -> str | None:
    """What the filters say; None where a filter is of an unusual kind."""
    for action, message, of, where, at in warnings.filters:
        patterns = (message, where)
        if not all(p is None or type(p) in (str, re.Pattern) for p in patterns):
            return None
        fits = _fits(message, text) and issubclass(category, of) and _fits(where, module)
        if fits and at in (0, line):
            return action
    default: str = vars(warnings)["defaultaction"]
    return default


def _fits(pattern: Any, text: str) -> bool:
    if pattern is None:
        return True
    return pattern == text if isinstance(pattern, str) else pattern.match(text) is not None


def names_logger(_: object, name: str | None, logger: logging.Logger) -> bool:
    """Whether `logging.getLogger` would return this very logger, and make none."""
    if not name:
        return logging.root is logger
    return logging.root.manager.loggerDict.get(name) is logger
