"""Losses of whole training steps, over time: a few cases here, all of them by `make curves`."""

import pytest

from tests.curves.check import checked
from tests.curves.models import MODELS, Model, available
from tests.curves.train import Case, distance


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
def test_a_few_steps(autocast: bool) -> None:
    (model,) = (model for model in MODELS if model.name == "UNet")
    row = checked(Case(model, 0.1, autocast, steps=6))
    assert row.wrong == []
    assert row.kernels.breaks == ()
    assert row.kernels.graphs <= 2  # one more when the optimizer has its state
    assert row.kernels.later == 0


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("model", list(available()), ids=lambda model: model.name)
def test_fifty_steps(model: Model, autocast: bool, dropout: float) -> None:
    if autocast and not model.autocasts:
        pytest.skip("eager code cannot do it here")
    assert checked(Case(model, dropout, autocast)).wrong == []


def test_what_is_apart_is_found() -> None:
    assert distance([2.0, 1.0, 0.5], [2.0, 1.0, 0.5]) == 0
    assert distance([2.0, 1.1, 0.5], [2.0, 1.0, 0.5]) == pytest.approx(0.05)
