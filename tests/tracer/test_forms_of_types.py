"""What stands for a type, as `Optional[int]`, made in a compiled function."""

# ruff: noqa: UP006, UP007, UP045
import collections
import typing
from collections.abc import Callable
from typing import Any, Optional, Union, cast

import pytest
import torch
from torch import Tensor

from jitpkg.testing import Comparison

T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    pass


FORMS: dict[str, Callable[[], Any]] = {
    "optional": lambda: Optional[int],
    "by name": lambda: Optional["Box"],  # type: ignore[type-arg]
    "union": lambda: Union[int, str, None],
    "bar": lambda: int | None,
    "list": lambda: list[int],
    "dict": lambda: dict[str, list[Tensor]],
    "tuple": lambda: tuple[int, ...],
    "old dict": lambda: typing.Dict[str, Optional[int]],
    "callable": lambda: typing.Callable[[int, str], bool],
    "literal": lambda: typing.Literal["a", 1],
    "ordered": lambda: collections.OrderedDict[str, int],
    "type": lambda: type[int],
    "own": lambda: Box[int],
    "wrong": lambda: Optional[int, str],  # type: ignore[misc]
    "of what is none": lambda: int[3],  # type: ignore[index]
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    form = FORMS[name]

    def program(x: Tensor) -> Any:
        try:
            made = form()
        except TypeError as error:
            return x + 1, str(error)
        return x + 1, made, cast(made, 3)

    # Those of builtin classes are objects of their own on each call in eager code.
    Comparison(ignore=("identity",)).assert_same(program, torch.ones(2))


def test_a_nested_function_with_annotations() -> None:
    def program(x: Tensor) -> Any:
        def inner(y: list[int], z: Optional[Tensor] = None) -> dict[str, Tensor]:
            return {"a": x * y[0]}

        return inner([2]), inner.__annotations__

    Comparison(ignore=("identity",)).assert_same(program, torch.ones(2))
