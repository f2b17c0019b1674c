"""Tiny models with random weights, of the kinds that people train: what tracing is measured on."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Any]
Size = tuple[int, int]
"""How many examples, and how long each is: tokens, frames of sound, rows of an image."""


@dataclass(frozen=True)
class Model:
    """A module in evaluation mode, and the arguments of its call, by name."""

    title: str
    module: Callable[[], nn.Module]
    inputs: Callable[[Size], Inputs]
    needs: str = "torch"
    """The library that has its classes."""
    size: Size = (2, 8)
    others: tuple[Size, ...] = ((2, 11), (3, 13), (5, 9))
    """Further sizes that it is called with."""


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


def convolutional(title: str, block: type[nn.Module], blocks: int = 2) -> Model:
    """A classifier of images with so many blocks at each of three widths."""

    def module() -> nn.Module:
        layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU()]
        channels = 8
        for out in (8, 16, 32):
            for k in range(blocks):
                layers.append(block(channels, out, 2 if k == 0 and out != 8 else 1))
                channels = out
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
        return nn.Sequential(*layers)

    def inputs(size: Size) -> Inputs:
        return {"input": torch.randn(size[0], 3, size[1], size[1])}

    return Model(title, module, inputs, size=(2, 16), others=((2, 20), (3, 24), (5, 18)))


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


def _tokens(size: Size) -> Tensor:
    return torch.randint(3, 50, size)


def _only_tokens(size: Size) -> Inputs:
    return {"tokens": _tokens(size)}


def _text(size: Size) -> Inputs:
    mask = torch.ones(size, dtype=torch.long)
    mask[-1, -2:] = 0
    return {"input_ids": _tokens(size), "attention_mask": mask}


def _causal(size: Size) -> Inputs:
    return _text(size) | {"use_cache": False}


def _with_labels(size: Size) -> Inputs:
    tokens = _tokens(size)
    return {"input_ids": tokens, "labels": tokens, "use_cache": False}


def _pairs(size: Size) -> Inputs:
    batch, length = size
    tokens, answers = _tokens(size), _tokens((batch, length // 2))
    return {"input_ids": tokens, "decoder_input_ids": answers, "use_cache": False}


def _image(size: Size) -> Inputs:
    return {"pixel_values": torch.randn(size[0], 3, 16, 16)}


def _captioned(size: Size) -> Inputs:
    return _text(size) | _image(size)


def _speech(size: Size) -> Inputs:
    batch, length = size
    sound, answers = torch.randn(batch, 8, 32), _tokens((batch, length))
    return {"input_features": sound, "decoder_input_ids": answers, "use_cache": False}


def transformer(
    name: str, inputs: Callable[[Size], Inputs], *, title: str = "", **settings: Any
) -> Model:
    """A model of the transformers library with a small configuration."""
    family = re.split("Model|LMHead|For", name)[0]

    def module() -> nn.Module:
        library = importlib.import_module("transformers")
        config = getattr(library, f"{family}Config")(**settings)
        made = getattr(library, name)(config)
        assert isinstance(made, nn.Module)
        return made

    return Model(title or family, module, inputs, "transformers")


_BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
_LAYERS = {**_BERT, "intermediate_size": 32}
_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 50}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2, "vocab_size": 50}
_VISION = {**_LAYERS, "image_size": 16, "patch_size": 4}
_CLIP = {"text_config": {**_LAYERS, "eos_token_id": 2}, "vision_config": _VISION}
_WHISPER = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "num_mel_bins": 8,
    "max_source_positions": 16,
    "vocab_size": 50,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

MODELS = (
    convolutional("ResNet-like", Residual),
    convolutional("MobileNet-like", Inverted),
    Model("LSTM language model", RecurrentLanguageModel, _only_tokens),
    transformer("BertModel", _text, title="BERT", **_LAYERS),
    transformer("GPT2LMHeadModel", _causal, title="GPT-2", **_GPT2),
    transformer("GPT2LMHeadModel", _with_labels, title="GPT-2 with labels", **_GPT2),
    transformer("T5ForConditionalGeneration", _pairs, **_T5),
    transformer("LlamaModel", _causal, num_key_value_heads=2, **_LAYERS),
    transformer("CLIPModel", _captioned, projection_dim=8, **_CLIP),
    transformer("WhisperModel", _speech, **_WHISPER),
    transformer("MixtralModel", _causal, num_key_value_heads=2, num_local_experts=2, **_LAYERS),
    transformer("ViTModel", _image, **_VISION),
)
