"""Models in evaluation: prepared as a whole, equal to eager bit for bit, and made at once."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import jitpkg
from jitpkg.facts.single import Singles, Unanswered
from tests.codegen.aten.support import OpByOp
from tests.models.support import MODELS, tensors_of


def not_asked(singles: Singles, call: object, *arguments: object) -> None:
    raise Unanswered(f"{call}")


@pytest.mark.parametrize("title", MODELS)
def test_bit_for_bit(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And without FakeTensor, but for one that has an operator of its own."""
    if title != "Mixtral":
        monkeypatch.setattr(Singles, "_outcome", not_asked)
    model = MODELS[title]
    if model.needs != "torch":
        pytest.importorskip(model.needs)
    torch.manual_seed(0)
    module = model.module().eval()
    backend = OpByOp()
    compiled = jitpkg.compile(module, fullgraph=True, backend=backend)
    inputs = model.inputs(model.size)
    with torch.no_grad():
        expected, found = tensors_of(module(**inputs)), tensors_of(compiled(**inputs))
    assert len(backend.prepared) == 1
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
        assert a.dtype is b.dtype


PROGRAM = """
import sys
sys.path[:0] = [".", "benchmarks"]
import torch
from torch import nn
from torch.nn import functional as F
import jitpkg
from models import MODELS
from tests.codegen.aten.support import OpByOp

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (
            part.view(2, 8, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        w = (q @ k.transpose(-1, -2) / 3).masked_fill(torch.ones(8, 8).tril() == 0, -1e9)
        y = y + w.softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(2, 8, 16))
        return x + self.mlp(self.norm2(x))

backend = OpByOp()
for module, inputs in [
    (nn.Sequential(nn.Linear(4, 8), nn.ReLU(True), nn.Linear(8, 2)), {"input": torch.randn(3, 4)}),
    (Block(), {"x": torch.randn(2, 8, 16)}),
    *((m.module(), m.inputs(m.size)) for m in MODELS if m.needs == "torch"),
]:
    with torch.no_grad():
        jitpkg.compile(module.eval(), backend=backend)(**inputs)
assert len(backend.prepared) == 5, backend.declined
print(sorted({"torch._dynamo", "sympy"} & sys.modules.keys()))
"""


def test_nothing_of_torch_s_compiler_is_imported() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.stdout == "[]\n", run.stdout + run.stderr
