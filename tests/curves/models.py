"""Ten models, tiny and with random weights, that return their loss."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = dict[str, Tensor]

WORDS, CLASSES, WIDTH = 64, 5, 32


@dataclass(frozen=True)
class Model:
    """A model, and what it is trained with."""

    name: str
    make: Callable[[float], nn.Module]
    """With dropout of this probability; called with a batch, it returns the loss."""
    batch: Callable[[torch.Generator], Batch]
    needs: str = "torch"
    autocasts: bool = True
    """Whether eager code can train it under autocast here."""


class OfLibrary(nn.Module):
    """A model of the transformers library, which computes the loss itself."""

    def __init__(self, name: str, dropouts: tuple[str, ...], options: Any, p: float) -> None:
        super().__init__()
        library = importlib.import_module("transformers")
        cls = getattr(library, name)
        self.model = cls(cls.config_class(**options, **dict.fromkeys(dropouts, p)))

    def forward(self, **batch: Tensor) -> Tensor:
        loss: Tensor = self.model(**batch).loss
        return loss


def of_library(name: str, *dropouts: str, **options: Any) -> Callable[[float], nn.Module]:
    return partial(OfLibrary, name, dropouts, options)


class Classifier(nn.Module):
    """Features of images, dropout and a layer, and the cross entropy."""

    def __init__(self, features: nn.Module, channels: int, p: float) -> None:
        super().__init__()
        self.features = features
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(p), nn.Linear(channels, CLASSES)
        )

    def forward(self, pixel_values: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.features(pixel_values)), labels)


def convolution(
    channels: int, out: int, size: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    layer = nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out))


class Residual(nn.Module):
    """The block of ResNet-18."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *convolution(channels, out, 3, stride), nn.ReLU(inplace=True), *convolution(out, out, 3)
        )
        same = channels == out and stride == 1
        self.shortcut = nn.Identity() if same else convolution(channels, out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet(p: float) -> nn.Module:
    blocks: list[nn.Module] = [*convolution(3, 8, 3), nn.ReLU(inplace=True)]
    channels = 8
    for out, stride in ((8, 1), (16, 2), (32, 2), (64, 2)):
        blocks += [Residual(channels, out, stride), Residual(out, out, 1)]
        channels = out
    return Classifier(nn.Sequential(*blocks), channels, p)


class Inverted(nn.Module):
    """The block of MobileNet v3."""

    def __init__(self, channels: int, inner: int, out: int, stride: int, *, hard: bool) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        self.expand = nn.Sequential(*convolution(channels, inner, 1), activation())
        self.depthwise = nn.Sequential(*convolution(inner, inner, 3, stride, inner), activation())
        self.squeeze = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, inner // 4, 1), nn.ReLU()),
            *(nn.Conv2d(inner // 4, inner, 1), nn.Hardsigmoid()),
        )
        self.project = convolution(inner, out, 1)
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        y = self.project(y * self.squeeze(y))
        return x + y if self.adds else y


def mobilenet(p: float) -> nn.Module:
    blocks: list[nn.Module] = [*convolution(3, 8, 3, 2), nn.Hardswish()]
    rows = ((8, 16, 8, 1, False), (8, 32, 16, 2, False), (16, 48, 16, 1, True))
    blocks += [Inverted(*row, hard=hard) for *row, hard in rows]
    return Classifier(nn.Sequential(*blocks, *convolution(16, 48, 1), nn.Hardswish()), 48, p)


class UNet(nn.Module):
    """Predicts the noise that was added, at a step of a diffusion."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 16))
        self.first, self.down = self.block(3, 16, p), nn.Conv2d(16, 16, 3, 2, 1)
        self.middle, self.last = self.block(16, 16, p), self.block(32, 16, p)
        self.out = nn.Conv2d(16, 3, 3, padding=1)

    @staticmethod
    def block(channels: int, out: int, p: float) -> nn.Sequential:
        layer = nn.Conv2d(channels, out, 3, padding=1)
        return nn.Sequential(layer, nn.GroupNorm(4, out), nn.SiLU(), nn.Dropout(p))

    def forward(self, images: Tensor, noise: Tensor, when: Tensor) -> Tensor:
        share = when[:, None, None, None]
        x = self.first(images * (1 - share) + noise * share)
        y = self.middle(self.down(x) + self.time(when[:, None])[..., None, None])
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return F.mse_loss(self.out(self.last(torch.cat([x, y], 1))), noise)


class Lstm(nn.Module):
    """A language model of two layers."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.drop, self.embedding = nn.Dropout(p), nn.Embedding(WORDS, WIDTH)
        self.layers = nn.LSTM(WIDTH, WIDTH, 2, dropout=p)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        y, _ = self.layers(self.drop(self.embedding(input_ids)))
        return F.cross_entropy(self.head(self.drop(y)).flatten(0, 1), labels.flatten())


def sentences(generator: torch.Generator) -> Batch:
    ids = torch.randint(WORDS, (4, 12), generator=generator)
    return {"input_ids": ids, "labels": ids}


def labelled_sentences(generator: torch.Generator) -> Batch:
    ids = torch.randint(WORDS, (4, 12), generator=generator)
    return {"input_ids": ids, "labels": ids[:, 0] % CLASSES}


def images(generator: torch.Generator) -> Batch:
    pixels = torch.randn(4, 3, 16, 16, generator=generator)
    return {"pixel_values": pixels, "labels": (pixels[:, 0, 0, 0] > 0).long()}


def noisy(generator: torch.Generator) -> Batch:
    drawn = torch.randn(2, 4, 3, 16, 16, generator=generator)
    return {"images": drawn[0], "noise": drawn[1], "when": torch.rand(4, generator=generator)}


_BERT = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "num_labels": CLASSES,
}
_LLAMA: dict[str, Any] = {k: v for k, v in _BERT.items() if k != "num_labels"}
_LLAMA |= {"num_key_value_heads": 1, "use_cache": False}
_OF_HIDDEN = "hidden_dropout_prob", "attention_probs_dropout_prob"

MODELS = (
    Model(
        "BERT",
        of_library("BertForSequenceClassification", *_OF_HIDDEN, **_BERT),
        labelled_sentences,
        "transformers",
    ),
    Model(
        "GPT-2",
        of_library(
            "GPT2LMHeadModel",
            *("resid_pdrop", "embd_pdrop", "attn_pdrop"),
            vocab_size=WORDS,
            n_embd=WIDTH,
            n_layer=2,
            n_head=2,
            n_positions=16,
            bos_token_id=0,
            eos_token_id=0,
            use_cache=False,
        ),
        sentences,
        "transformers",
    ),
    Model(
        "T5",
        of_library(
            "T5ForConditionalGeneration",
            "dropout_rate",
            vocab_size=WORDS,
            d_model=WIDTH,
            d_kv=16,
            d_ff=64,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
            use_cache=False,
        ),
        sentences,
        "transformers",
    ),
    Model(
        "Llama",
        of_library("LlamaForCausalLM", "attention_dropout", **_LLAMA),
        sentences,
        "transformers",
    ),
    Model(
        "Mixtral",
        of_library("MixtralForCausalLM", "attention_dropout", num_local_experts=4, **_LLAMA),
        sentences,
        "transformers",
    ),
    Model(
        "ViT",
        of_library(
            "ViTForImageClassification",
            *_OF_HIDDEN,
            **{**_BERT, "image_size": 16, "patch_size": 4},
        ),
        images,
        "transformers",
    ),
    Model("ResNet-18", resnet, images),
    Model("MobileNet v3", mobilenet, images),
    Model("UNet", UNet, noisy),
    Model("LSTM", Lstm, sentences, autocasts=False),
)


def available() -> Iterator[Model]:
    """Those whose library is installed."""
    for model in MODELS:
        if importlib.util.find_spec(model.needs) is not None:
            yield model
