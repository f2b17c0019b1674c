"""Tiny models with random weights, of the kinds that people train: what tracing is measured on."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Any]
Make = Callable[[], tuple[nn.Module, Inputs]]


@dataclass(frozen=True)
class Model:
    """A module in evaluation mode, and the arguments of its call, by name."""

    title: str
    make: Make
    needs: str = "torch"
    """The library that has its classes."""


def available() -> Iterator[Model]:
    """Those whose library is installed."""
    for model in MODELS:
        if importlib.util.find_spec(model.needs) is not None:
            yield model


class Residual(nn.Module):
    """Two convolutions and a short cut, as in ResNet."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        same = x if self.shortcut is None else self.shortcut(x)
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += same
        return self.relu(out)


class Inverted(nn.Module):
    """A narrow block that is wide inside, as in MobileNet."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        wide = 4 * channels
        self.adds = stride == 1 and channels == out
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(True)),
            *(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide)),
            *(nn.ReLU6(True), nn.Conv2d(wide, out, 1, bias=False), nn.BatchNorm2d(out)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


def convolutional(block: type[nn.Module], blocks: int) -> Make:
    """A classifier of images with so many blocks at each of three widths."""

    def make() -> tuple[nn.Module, Inputs]:
        layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU()]
        channels = 8
        for out in (8, 16, 32):
            for k in range(blocks):
                layers.append(block(channels, out, 2 if k == 0 and out != 8 else 1))
                channels = out
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
        return nn.Sequential(*layers).eval(), {"input": torch.randn(2, 3, 16, 16)}

    return make


class RecurrentLanguageModel(nn.Module):
    """An LSTM whose hidden state goes in and comes out."""

    def __init__(self, words: int = 50, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(width, words)

    def forward(
        self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        hidden, state = self.lstm(self.embed(tokens), state)
        return self.out(hidden), state


def recurrent() -> tuple[nn.Module, Inputs]:
    return RecurrentLanguageModel().eval(), {"tokens": _tokens()}


def _tokens(length: int = 8) -> Tensor:
    return torch.arange(2 * length).reshape(2, length) % 40 + 1


def transformer(name: str, inputs: Callable[[], Inputs], config: str = "", **settings: Any) -> Make:
    """A model of the transformers library with a small configuration."""

    def make() -> tuple[nn.Module, Inputs]:
        library = importlib.import_module("transformers")
        chosen = getattr(library, config or name.partition("Model")[0] + "Config")(**settings)
        return getattr(library, name)(chosen).eval(), inputs()

    return make


def _text() -> Inputs:
    return {"input_ids": _tokens(), "attention_mask": torch.ones(2, 8, dtype=torch.long)}


def _causal() -> Inputs:
    return _text() | {"use_cache": False}


def _pairs() -> Inputs:
    return {"input_ids": _tokens(), "decoder_input_ids": _tokens(4), "use_cache": False}


def _image() -> Inputs:
    return {"pixel_values": torch.randn(2, 3, 16, 16)}


def _speech() -> Inputs:
    sound = torch.randn(2, 8, 32)
    return {"input_features": sound, "decoder_input_ids": _tokens(4), "use_cache": False}


_BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
_LAYERS = {**_BERT, "intermediate_size": 32}
_VISION = {**_LAYERS, "image_size": 16, "patch_size": 4}

MODELS = (
    Model("ResNet-like", convolutional(Residual, 2)),
    Model("MobileNet-like", convolutional(Inverted, 2)),
    Model("LSTM language model", recurrent),
    *(
        Model(title, make, "transformers")
        for title, make in (
            ("BERT", transformer("BertModel", _text, **_LAYERS)),
            (
                "GPT-2",
                transformer(
                    "GPT2LMHeadModel",
                    _causal,
                    "GPT2Config",
                    n_embd=16,
                    n_layer=2,
                    n_head=2,
                    vocab_size=50,
                ),
            ),
            (
                "T5",
                transformer(
                    "T5ForConditionalGeneration",
                    _pairs,
                    "T5Config",
                    d_model=16,
                    d_kv=8,
                    d_ff=32,
                    num_layers=2,
                    num_heads=2,
                    vocab_size=50,
                ),
            ),
            ("Llama", transformer("LlamaModel", _causal, num_key_value_heads=2, **_LAYERS)),
            (
                "CLIP",
                transformer(
                    "CLIPModel",
                    lambda: _text() | _image(),
                    text_config={**_LAYERS, "eos_token_id": 2},
                    vision_config=_VISION,
                    projection_dim=8,
                ),
            ),
            (
                "Whisper",
                transformer(
                    "WhisperModel",
                    _speech,
                    d_model=16,
                    encoder_layers=2,
                    decoder_layers=2,
                    encoder_attention_heads=2,
                    decoder_attention_heads=2,
                    encoder_ffn_dim=32,
                    decoder_ffn_dim=32,
                    num_mel_bins=8,
                    max_source_positions=16,
                    vocab_size=50,
                    pad_token_id=0,
                    bos_token_id=1,
                    eos_token_id=2,
                    decoder_start_token_id=1,
                ),
            ),
            (
                "Mixtral",
                transformer(
                    "MixtralModel", _causal, num_key_value_heads=2, num_local_experts=2, **_LAYERS
                ),
            ),
            ("ViT", transformer("ViTModel", _image, **_VISION)),
        )
    ),
)
