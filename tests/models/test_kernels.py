"""The models on the backend `jitpkg`: evaluation, and training steps of some, against eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import jitpkg
from tests.models.support import MODELS, copied, tensors_of, trained

TRAINED = ("ResNet-like", "BERT", "ViT")
"""One of each kind: a training step takes seconds to compile, most of it in AOTAutograd."""


def module_of(title: str) -> tuple[torch.nn.Module, dict[str, object]]:
    model = MODELS[title]
    pytest.importorskip(model.needs)
    torch.manual_seed(3)
    return model.module(), model.inputs(model.size)


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=2e-3, atol=2e-4)
    assert got.stride() == want.stride()


@pytest.mark.parametrize("title", MODELS)
def test_evaluation(title: str) -> None:
    module, inputs = module_of(title)
    module.eval()
    compiled = jitpkg.compile(module, backend="jitpkg", fullgraph=True)
    with torch.no_grad():
        want = tensors_of(module(**inputs))
        for _ in range(2):
            got = tensors_of(compiled(**inputs))
            assert len(got) == len(want)
            for ours, theirs in zip(got, want, strict=True):
                close(ours, theirs)


@pytest.mark.parametrize("title", TRAINED)
def test_training(title: str) -> None:
    module, inputs = module_of(title)
    module.train()
    state = copied(module)
    want = trained(module, module, inputs, state)
    compiled = jitpkg.compile(module, backend="jitpkg", fullgraph=True)
    got = trained(compiled, module, inputs, state)
    assert got.keys() == want.keys()
    for name, theirs in want.items():
        close(got[name], theirs)
