"""Architectures of public libraries, as small as their configurations make them.

Of transformers every class that `AutoModel` knows, where it can be made from its configuration
alone and be called with words, an image or a sound; of torchvision and timm the smallest of each
family.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tests.architectures.tiny import WORDS, tiny

MOST = 20_000_000
"""Parameters of a model that is tiny enough to be trained here."""

Batch = dict[str, Any]


class Unfit(Exception):
    """It cannot be made, or called, from its configuration alone: it says why."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A module, and what it can be called with."""

    module: nn.Module
    batches: tuple[Batch, ...]
    """Three: a shape, another length or number of examples, and a third."""
    generator: nn.Module | None = None
    """The model of the same configuration that generates text, if it has one."""


def names(library: str) -> list[str]:
    """What there is, as in `transformers/bert`; nothing where the library is not installed."""
    if importlib.util.find_spec(library) is None:
        return []
    return [f"{library}/{name}" for name in LIBRARIES[library].names()]


def subject(name: str) -> Subject:
    """
    Raises:
        Unfit: there is no such thing.
    """
    library, _, name = name.partition("/")
    return LIBRARIES[library].subject(name)


@dataclass(frozen=True, slots=True)
class Library:
    names: Callable[[], list[str]]
    subject: Callable[[str], Subject]


# transformers


def known_types() -> list[str]:
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    return list(auto.MODEL_MAPPING_NAMES)


def _pretrained(name: str) -> Subject:
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    configs = importlib.import_module("transformers.models.auto.configuration_auto")
    kind = configs.CONFIG_MAPPING[name]
    module = _made(auto.MODEL_MAPPING, kind)
    batches = _batches(module)
    generator = None
    for mapping in (auto.MODEL_FOR_CAUSAL_LM_MAPPING, auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING):
        if generator is None and kind in mapping and "input_ids" in batches[0]:
            generator = _generating(mapping, kind)
    return Subject(module, batches, generator)


def _made(mapping: Any, kind: Any) -> nn.Module:
    try:
        cls = mapping[kind]
        cls = cls[0] if isinstance(cls, list | tuple) else cls
        config = tiny(kind())
        with torch.device("meta"):
            size = sum(p.numel() for p in cls(config).parameters())
        if size > MOST:
            raise Unfit(f"{size / 1e6:.0f} million parameters")
        torch.manual_seed(0)
        made: nn.Module = cls(config)
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f"cannot be made: {_short(error)}") from error
    return made


def _generating(mapping: Any, kind: Any) -> nn.Module | None:
    try:
        made = _made(mapping, kind).eval()
        config: Any = made.generation_config
        config.eos_token_id = None  # an answer of the length that is asked for
        generate: Any = made.generate
        generate(words(2, 5), max_new_tokens=2, do_sample=False)
    except Exception:
        return None
    return made


def _batches(module: nn.Module) -> tuple[Batch, ...]:
    """
    Raises:
        Unfit: nothing that is tried is taken.
    """
    error: Exception | None = None
    for wanted in _arguments(module):
        try:
            batches = tuple(_batch(module, wanted, *size) for size in ((2, 9), (2, 12), (3, 14)))
            with torch.no_grad():
                for batch in batches:
                    module.eval()(**batch)
        except Exception as found:
            error = error or found
        else:
            return batches
    raise Unfit(f"cannot be called: {_short(error)}")


def _arguments(module: nn.Module) -> Iterator[tuple[str, ...]]:
    """Names of arguments that may be enough, fewer first."""
    known = inspect.signature(module.forward).parameters
    main = str(getattr(module, "main_input_name", "input_ids"))
    some = ("input_ids", "pixel_values", "input_features", "input_values")
    others = tuple(name for name in some if name in known and name != main)
    for wanted in ((main,), (main, "decoder_input_ids"), (main, *others), others):
        if wanted and all(name in known and name in MAKERS for name in wanted):
            yield wanted


def _batch(module: nn.Module, wanted: tuple[str, ...], examples: int, length: int) -> Batch:
    return {name: MAKERS[name](module.config, examples, length) for name in wanted}


def words(examples: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(3, WORDS - 25, (examples, length), generator=generator)


def _image(config: Any, examples: int, length: int) -> Tensor:
    side = _number(config, ("image_size",), 32)
    height, width = side if isinstance(side, list | tuple) else (side, side)
    channels = _number(config, ("num_channels", "in_channels", "in_chans"), 3)
    return _noise(examples, channels, height, width)


def _film(config: Any, examples: int, length: int) -> Tensor:
    frames = _number(config, ("num_frames", "frames_per_clip"), 4)
    return _noise(examples, frames, 3, *(_number(config, ("image_size",), 32),) * 2)


def _spectrum(config: Any, examples: int, length: int) -> Tensor:
    bins = _number(config, ("num_mel_bins", "feature_size"), 16)
    return _noise(examples, bins, 2 * _number(config, ("max_source_positions",), 32))


def _sound(config: Any, examples: int, length: int) -> Tensor:
    return _noise(examples, 160 * length)


MAKERS: dict[str, Callable[[Any, int, int], Tensor]] = {
    "input_ids": lambda config, examples, length: words(examples, length),
    "decoder_input_ids": lambda config, examples, length: words(examples, length - 2),
    "pixel_values": _image,
    "pixel_values_videos": _film,
    "input_features": _spectrum,
    "input_values": _sound,
}
"""An argument for a configuration, a number of examples and a length."""


def _number(config: Any, called: tuple[str, ...], default: int) -> Any:
    """An attribute of a configuration, or of one inside of it."""
    inside = ("vision_config", "audio_config", "backbone_config")
    for part in (config, *(getattr(config, name, None) for name in inside)):
        for name in called:
            if getattr(part, name, None) is not None:
                return getattr(part, name)
    return default


def _noise(*size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


def _short(error: Exception | None) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:160]


# timm and torchvision


def _families() -> list[str]:
    """The smallest model of each family of timm, which are its modules."""
    timm = importlib.import_module("timm")
    found = []
    for family in timm.list_modules():
        inside = timm.list_models(module=family)
        if inside:
            found.append(min(inside, key=lambda name: (_rank(name), name)))
    return found


SIZES = "test atto femto pico nano xxs xxtiny xs tiny _s0 b0 small".split()
"""Parts of names of models, smaller ones first."""


def _rank(name: str) -> int:
    return next((k for k, size in enumerate(SIZES) if size in name), len(SIZES))


def _of_timm(name: str) -> Subject:
    timm = importlib.import_module("timm")
    torch.manual_seed(0)
    try:
        module = timm.create_model(name, num_classes=5)
        config = module.default_cfg
        size = tuple(config["input_size"]) if config.get("fixed_input_size") else (3, 96, 96)
        return _of_images(module, size)
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(_short(error)) from error


def _of_torchvision(name: str) -> Subject:
    models = importlib.import_module("torchvision.models")
    torch.manual_seed(0)
    side = {"inception_v3": 128, "maxvit_t": 224, "vit_b_16": 224}.get(name, 64)
    try:
        module = models.get_model(name, weights=None, weights_backbone=None)
    except TypeError:
        module = models.get_model(name, weights=None)
    return _of_images(module, (3, side, side))


CHOSEN = """
alexnet convnext_tiny deeplabv3_mobilenet_v3_large densenet121 efficientnet_b0 efficientnet_v2_s
fcn_resnet50 googlenet inception_v3 lraspp_mobilenet_v3_large maxvit_t mnasnet0_5 mobilenet_v2
mobilenet_v3_small regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 swin_t
swin_v2_t vgg11 vit_b_16 wide_resnet50_2
""".split()
"""The smallest of each family of torchvision."""


def _of_images(module: nn.Module, size: tuple[int, ...]) -> Subject:
    image = next(iter(inspect.signature(module.forward).parameters))
    batches = tuple({image: _noise(examples, *size)} for examples in (2, 3, 4))
    return Subject(module, batches)


LIBRARIES = {
    "transformers": Library(known_types, _pretrained),
    "timm": Library(_families, _of_timm),
    "torchvision": Library(lambda: CHOSEN, _of_torchvision),
}
