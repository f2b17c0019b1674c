"""The table of calls: a row is a function of the traced arguments, keyed by the real callable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from jitpkg.internals import Row as PrivateRow
from jitpkg.tracer import reasons
from jitpkg.tracer.values import Constant, Value
from jitpkg.tracer.vm import VM, Args, Kwargs

Row = Callable[[VM, Args, Kwargs], Value]
Handler = TypeVar("Handler", bound=Callable[..., Value])


def by_polyfill(polyfill: Callable[..., Any]) -> Callable[..., Value]:
    """A row for what a polyfill does."""

    def row(vm: VM, *args: Value, **kwargs: Value) -> Value:
        return vm.call(vm.trusted(polyfill), args, kwargs)

    return row


def text_of(vm: VM, value: Value) -> str:
    """A text that a polyfill hands over."""
    known = vm.look(value)
    return str(known.value) if isinstance(known, Constant) else ""


class CallTable:
    """Rows by callable, filled by decorators while a module is loaded."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._keys: list[object] = []
        self._late: list[tuple[PrivateRow[Any], Row]] = []
        """Those for private functions of torch's, which are looked up with the first question."""

    def row(self, *functions: object) -> Callable[[Handler], Handler]:
        """Register what calling these functions means.

        The handler is called as `handler(vm, *args, **kwargs)`; where the arguments do not fit
        it, the real call raises.
        """

        def register(handler: Handler) -> Handler:
            for function in functions:
                self.add(function, handler)
            return handler

        return register

    def add(self, function: object, handler: Callable[..., Value]) -> None:
        if isinstance(function, PrivateRow):
            self._late.append((function, _fitted(handler)))
            return
        if id(function) in self._rows:
            raise ValueError(f"two rows for {function}")
        self._rows[id(function)] = _fitted(handler)
        self._keys.append(function)

    def get(self, function: object) -> Row | None:
        if self._late:
            self._look_up()
        return self._rows.get(id(function))

    def _look_up(self) -> None:
        late, self._late = self._late, []
        for row, handler in late:
            function = row.found()
            if function is not None:
                self._rows[id(function)] = handler
                self._keys.append(function)

    def include(self, other: CallTable) -> None:
        self._late.extend(other._late)
        for function in other._keys:
            if id(function) in self._rows:
                raise ValueError(f"two rows for {function}")
            self._rows[id(function)] = other._rows[id(function)]
            self._keys.append(function)

    def __contains__(self, function: object) -> bool:
        return id(function) in self._rows

    def __iter__(self) -> object:
        return iter(self._keys)


def _fitted(handler: Callable[..., Value]) -> Row:
    def row(vm: VM, args: Args, kwargs: Kwargs) -> Value:
        try:
            return handler(vm, *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                vm.stop(reasons.RAISES, f"a call that does not fit: {error}")
            raise

    return row


def merged(*tables: CallTable) -> CallTable:
    """One table of several; a callable may be in one of them only."""
    whole = CallTable()
    for table in tables:
        whole.include(table)
    return whole
