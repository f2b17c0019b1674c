"""Values as JSON, and back."""

import functools
import json
import math
import operator
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.nn import functional

from jitpkg.codegen.cache.plain import NotPlain, read, written

VALUES: list[Any] = [
    *(None, True, 0, -1, 2**70, "text", 0.1, -0.0, math.inf, complex(1, -0.0), ...),
    *((1, [2.5, ()]), [], {"a": 1, 2: (None,)}, slice(1, None, 2), torch.Size([2, 3])),
    *(torch.float32, torch.bfloat16, torch.channels_last, torch.strided),
    *(torch.device("cpu"), torch.device("cuda", 1)),
    *(torch.ops.aten.add.Tensor, torch.ops.aten.mm.default, operator.getitem, getattr, slice),
    *(torch.tanh, functional.gelu, functional.softmax, functional.max_pool2d, torch.Tensor.expand),
    *(torch.linalg.norm, torch.get_rng_state, torch._C._set_grad_enabled, torch.return_types.max),
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_value_is_read_as_it_was(value: Any) -> None:
    found = read(json.loads(json.dumps(written(value))), {})
    assert type(found) is type(value)
    assert found == value
    assert repr(found) == repr(value)


def test_no_number_is_another_one() -> None:
    texts = {json.dumps(written(value)) for value in (1, 1.0, True, -0.0, 0.0, 0, False, 1 + 0j)}
    assert len(texts) == 8
    assert math.isnan(read(written(math.nan), {}))


def test_fx_s_own_containers_are_plain_ones() -> None:
    assert read(written(immutable_list([1, immutable_dict(a=2)])), {}) == [1, {"a": 2}]


@functools.wraps(functional.gelu)
def gelu(x: torch.Tensor) -> torch.Tensor:
    return x


def of_another_package() -> object:
    library = torch.library.Library("jitpkg_plain", "FRAGMENT")
    library.define("op(Tensor x) -> Tensor")
    return torch.ops.jitpkg_plain.op.default


class Number(int):
    pass


REFUSED: list[Callable[[], object]] = [
    *(object, lambda: torch.ones(2), lambda: gelu, lambda: zlib.crc32, of_another_package),
    *(lambda: Number(1), lambda: {1}, lambda: torch.nn.Linear(1, 1), lambda: print.__call__),
    lambda: fx.Graph().placeholder,
]


@pytest.mark.parametrize("make", REFUSED)
def test_other_values_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(NotPlain):
        written(make())


def test_a_patched_function_is_not_torch_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what is put in the place of a function, nor the function then."""
    before = functional.softmax
    monkeypatch.setattr(functional, "gelu", gelu)
    monkeypatch.setattr(functional, "softmax", torch.no_grad()(gelu))
    for value in (functional.gelu, functional.softmax, before):
        with pytest.raises(NotPlain):
            written(value)


@pytest.mark.parametrize("plain", [["path", "os", "system"], ["op", "other::op", ""], ["strange"]])
def test_nothing_else_is_read(plain: Any) -> None:
    with pytest.raises(NotPlain):
        read(plain, {})
