"""More networks for the benchmark of models: convolutions of several kinds, and a language model's
prompt and single token."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from networks import Inputs, Network, transformer
from torch import Tensor, nn
from torch.nn import functional


def convolution(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> nn.Module:
    layer = nn.Conv2d(channels, out, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(out))


class Inverted(nn.Module):
    """The block of MobileNet v3."""

    def __init__(
        self, channels: int, inner: int, out: int, size: int, stride: int, squeeze: bool, hard: bool
    ) -> None:
        super().__init__()
        activation = nn.Hardswish if hard else nn.ReLU
        layers = [convolution(channels, inner, 1), activation()] if inner != channels else []
        layers += [convolution(inner, inner, size, stride, inner), activation()]
        self.body = nn.Sequential(*layers)
        less = max(8, inner // 4 // 8 * 8)
        gate = (nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, less, 1), nn.ReLU())
        self.gate = (
            nn.Sequential(*gate, nn.Conv2d(less, inner, 1), nn.Hardsigmoid()) if squeeze else None
        )
        self.project = convolution(inner, out, 1)
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        y = self.project(y if self.gate is None else y * self.gate(y))
        return x + y if self.adds else y


LARGE = (
    *((16, 16, 16, 3, 1, False, False), (16, 64, 24, 3, 2, False, False)),
    *((24, 72, 24, 3, 1, False, False), (24, 72, 40, 5, 2, True, False)),
    *((40, 120, 40, 5, 1, True, False), (40, 120, 40, 5, 1, True, False)),
    *((40, 240, 80, 3, 2, False, True), (80, 200, 80, 3, 1, False, True)),
    *((80, 184, 80, 3, 1, False, True), (80, 184, 80, 3, 1, False, True)),
    *((80, 480, 112, 3, 1, True, True), (112, 672, 112, 3, 1, True, True)),
    *((112, 672, 160, 5, 2, True, True), (160, 960, 160, 5, 1, True, True)),
    (160, 960, 160, 5, 1, True, True),
)
"""The rows of MobileNet v3 Large."""


def mobilenet(blocks: int) -> nn.Module:
    rows = LARGE[:blocks]
    out = rows[-1][2]
    return nn.Sequential(
        *(convolution(3, 16, 3, 2), nn.Hardswish(), *(Inverted(*row) for row in rows)),
        *(convolution(out, 6 * out, 1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        nn.Linear(6 * out, 10),
    )


class Step(nn.Module):
    """A block of a diffusion's UNet: group norms, and what is added at each step."""

    def __init__(self, channels: int, out: int, width: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, out, 3, padding=1)
        )
        self.time = nn.Linear(width, out)
        self.second = nn.Sequential(
            nn.GroupNorm(8, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1)
        )
        self.skip = nn.Identity() if channels == out else nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor, when: Tensor) -> Tensor:
        y = self.first(x) + self.time(when)[..., None, None]
        return self.second(y) + self.skip(x)


class UNet(nn.Module):
    """Three sizes, down and up again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        one, two, four = width, 2 * width, 4 * width
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, four), nn.SiLU(), nn.Linear(four, four))
        self.enter, self.leave = nn.Conv2d(3, one, 3, padding=1), nn.Conv2d(one, 3, 3, padding=1)
        self.down = nn.ModuleList([Step(one, one, four), Step(one, two, four)])
        self.middle = Step(two, four, four)
        self.up = nn.ModuleList([Step(four + two, two, four), Step(two + one, one, four)])

    def forward(self, input: Tensor, when: Tensor) -> Tensor:  # noqa: A002
        angles = when[:, None] * torch.arange(self.width // 2)
        when = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        x, kept = self.enter(input), []
        for each in self.down:
            x = each(x, when)
            kept.append(x)
            x = functional.avg_pool2d(x, 2)
        x = self.middle(x, when)
        for each in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = each(torch.cat([x, kept.pop()], 1), when)
        made: Tensor = self.leave(x)
        return made


def efficientnet(image: int, depth: float, width: float) -> nn.Module:
    factors = {"depth_coefficient": depth, "width_coefficient": width, "hidden_dim": 1280}
    return transformer("EfficientNetModel", image_size=image, **factors)


def convnext(width: int, depths: tuple[int, ...]) -> nn.Module:
    widths = [width << k for k in range(4)]
    return transformer("ConvNextModel", hidden_sizes=widths, depths=list(depths))


def llama(width: int, heads: int, count: int) -> nn.Module:
    wide = {"hidden_size": width, "intermediate_size": 3 * width, "num_attention_heads": heads}
    return transformer(
        "LlamaModel",
        vocab_size=1000,
        num_hidden_layers=count,
        num_key_value_heads=heads // 2,
        max_position_embeddings=512,
        **wide,
    )


class OneToken(nn.Module):
    """A language model that has read so many tokens, and reads the next one."""

    def __init__(self, width: int, heads: int, count: int, length: int) -> None:
        super().__init__()
        library = importlib.import_module("transformers")
        self.model = llama(width, heads, count)
        self.cache = library.StaticCache(config=self.model.config, max_cache_len=length + 8)
        self.length = length
        with torch.no_grad():
            prompt = torch.randint(1000, (1, length))
            self.model.eval()(prompt, past_key_values=self.cache)

    def forward(self, input_ids: Tensor) -> Tensor:
        at = torch.tensor([[self.length]])
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(self.length)
        made: Tensor = self.model(input_ids, past_key_values=self.cache, position_ids=at)[0]
        return made


def whisper(width: int, heads: int, count: int, length: int) -> nn.Module:
    model: Any = transformer(
        "WhisperModel",
        d_model=width,
        encoder_layers=count,
        encoder_attention_heads=heads,
        encoder_ffn_dim=4 * width,
        decoder_layers=1,
        decoder_attention_heads=heads,
        max_source_positions=length,
    )
    encoder: nn.Module = model.encoder
    return encoder


def _of(name: str, *shape: int) -> Inputs:
    return {name: torch.randn(shape)}


_input = partial(_of, "input", 4, 3, 128, 128)
_pixels = partial(_of, "pixel_values", 4, 3, 128, 128)


def _noisy(batch: int, size: int) -> Inputs:
    return _of("input", batch, 3, size, size) | {"when": torch.linspace(0, 1, batch)}


def _words(batch: int, length: int) -> Inputs:
    return {"input_ids": torch.randint(1000, (batch, length)), "use_cache": False}


def _word() -> Inputs:
    return {"input_ids": torch.randint(1000, (1, 1))}


def settled(make: Callable[[], nn.Module], inputs: Callable[[], Inputs]) -> nn.Module:
    """With weights, and statistics of such inputs in its batch norms, that let values through: what
    is left after many layers is else nearly zero, and such numbers are slow."""
    module = make().train()
    for each in module.modules():
        if isinstance(each, nn.Conv2d):
            nn.init.kaiming_normal_(each.weight)
    norms = [each for each in module.modules() if isinstance(each, nn.BatchNorm2d)]
    usual = [each.momentum for each in norms]
    for each in norms:
        each.momentum = 1.0
        nn.init.ones_(each.weight)
    with torch.no_grad():
        module(**inputs())
    for each, momentum in zip(norms, usual, strict=True):
        each.momentum = momentum
    return module


def _network(
    title: str, make: Callable[..., nn.Module], inputs: Callable[..., Inputs], **more: Any
) -> Network:
    """One that is measured only."""
    return Network(title, make, inputs, make, inputs, **more)


MORE = (
    _network("MobileNet v3", partial(settled, partial(mobilenet, 15), _input), _input),
    _network(
        "EfficientNet-B0",
        partial(settled, partial(efficientnet, 128, 1.0, 1.0), _pixels),
        _pixels,
        needs="transformers",
    ),
    _network(
        "ConvNeXt",
        partial(convnext, 48, (2, 2, 4, 2)),
        _pixels,
        needs="transformers",
    ),
    _network("UNet", partial(UNet, 32), partial(_noisy, 4, 32)),
    _network(
        "Llama, prompt",
        partial(llama, 512, 8, 4),
        partial(_words, 1, 128),
        needs="transformers",
        trains=False,
    ),
    _network(
        "Llama, one token",
        partial(OneToken, 512, 8, 4, 128),
        _word,
        needs="transformers",
        trains=False,
    ),
    _network(
        "Whisper's encoder",
        partial(whisper, 256, 4, 2, 500),
        partial(_of, "input_features", 1, 80, 1000),
        needs="transformers",
    ),
)
"""Beside `networks.NETWORKS`."""
