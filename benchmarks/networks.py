"""Networks in two sizes: tiny but of full depth, to compile, and of working size, to run."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from chains import layers
from models import Residual
from torch import Tensor, nn

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Network:
    """A module, and the arguments of its calls."""

    title: str
    tiny: Callable[[], nn.Module]
    tiny_inputs: Callable[[], Inputs]
    working: Callable[[], nn.Module]
    working_inputs: Callable[[], Inputs]
    needs: str = "torch"
    """The library that has its classes."""
    trains: bool = True
    """Whether a step of training is measured, too."""


def perceptron(width: int, depth: int = 4) -> nn.Module:
    hidden = [nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth - 1)]
    return nn.Sequential(*hidden, nn.Linear(width, 10))


def resnet18(width: int) -> nn.Module:
    """Eight residual blocks at four widths."""
    stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    modules: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, 1)]
    channels = width
    for k in range(4):
        out = width << k
        modules += [Residual(channels, out, 1 if k == 0 else 2), Residual(out, out, 1)]
        channels = out
    modules += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*modules)


def transformer(name: str, **settings: Any) -> nn.Module:
    """A model of the transformers library."""
    library = importlib.import_module("transformers")
    config = getattr(library, name.removesuffix("Model").removesuffix("LMHead") + "Config")
    made = getattr(library, name)(config(**settings))
    assert isinstance(made, nn.Module)
    return made


def bert(width: int, heads: int) -> nn.Module:
    wide = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": heads}
    return transformer("BertModel", vocab_size=1000, **wide)


def gpt2(width: int, heads: int) -> nn.Module:
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return transformer("GPT2LMHeadModel", n_embd=width, n_head=heads, vocab_size=1000, **ends)


def vit(width: int, heads: int, image: int, patch: int) -> nn.Module:
    wide = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": heads}
    return transformer("ViTModel", image_size=image, patch_size=patch, **wide)


def _of(*shape: int) -> Inputs:
    return {"input": torch.randn(shape)}


def _words(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(1000, (batch, length))}


def _generated(batch: int, length: int) -> Inputs:
    return _words(batch, length) | {"use_cache": False}


def _pixels(batch: int, image: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, image, image)}


NETWORKS = (
    Network(
        "MLP",
        partial(perceptron, 16),
        partial(_of, 4, 16),
        partial(perceptron, 512),
        partial(_of, 64, 512),
    ),
    Network(
        "transformer block",
        partial(layers, 1),
        partial(_of, 2, 8, 16),
        partial(layers, 1, 512, 8),
        partial(_of, 4, 128, 512),
    ),
    Network(
        "BERT",
        partial(bert, 16, 2),
        partial(_words, 2, 8),
        partial(bert, 256, 4),
        partial(_words, 2, 128),
        "transformers",
    ),
    Network(
        "GPT-2",
        partial(gpt2, 16, 2),
        partial(_generated, 2, 8),
        partial(gpt2, 256, 4),
        partial(_generated, 2, 128),
        "transformers",
    ),
    Network(
        "ResNet-18",
        partial(resnet18, 8),
        partial(_of, 2, 3, 32, 32),
        partial(resnet18, 64),
        partial(_of, 8, 3, 64, 64),
    ),
    Network(
        "ViT",
        partial(vit, 16, 2, 16, 4),
        partial(_pixels, 2, 16),
        partial(vit, 192, 3, 224, 16),
        partial(_pixels, 2, 224),
        "transformers",
    ),
)


def available(every: Iterable[Network] = NETWORKS) -> Iterator[Network]:
    """Those whose library is installed."""
    for network in every:
        if importlib.util.find_spec(network.needs) is not None:
            yield network


def loss(result: Any) -> Tensor:
    """A number to minimise, of a tensor or of a library's outputs, the first of which is one."""
    first = result if isinstance(result, Tensor) else result[0]
    return first.square().mean()


def infer(function: Callable[..., Any], inputs: Inputs) -> Any:
    with torch.no_grad():
        return function(**inputs)


def train(function: Callable[..., Any], inputs: Inputs, optimizer: torch.optim.Optimizer) -> None:
    """One step of training."""
    optimizer.zero_grad()
    loss(function(**inputs)).backward()
    optimizer.step()
