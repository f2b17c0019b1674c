"""Configurations of the transformers library, made tiny by the names of their numbers."""

from __future__ import annotations

import re
from typing import Any

WIDTH, HEADS, LAYERS, WORDS, IMAGE = 32, 4, 2, 99, 32

RULES: tuple[tuple[str, int], ...] = (
    (r"(vocab_size|num_embeddings)$", WORDS),
    (r"(num|n)_?(global_)?(key_value|kv)_heads$|num_key_value_groups$|multi_query_group_num", 2),
    (r"(^|_)(num|n)_?(\w+_)?(attention_)?heads?$|(^|_)attention_heads$", HEADS),
    (r"rotary_dim$", 4),
    (r"head_dim$|head_size$|d_kv$|kv_channels$|d_head$", WIDTH // HEADS),
    (r"(^|_)(num|n)_?(\w+_)?layers?$|(encoder|decoder)_layers$|num_\w*blocks$", LAYERS),
    (r"^(depth|layers)$", LAYERS),
    (r"(intermediate|ffn|inner|feed_?forward|mlp)_?(size|dim|hidden_size)?$", 2 * WIDTH),
    (r"^d_ff$|ffn_dim$|feed_?forward_\w*(dim|size)$|dim_feedforward", 2 * WIDTH),
    (r"hidden_size$|(^|_)d_model$|^n_embd$|(^|_)dim$|hidden_dim$|model_dim$|conv_dim$", WIDTH),
    (r"embed(ding)?_(dim|size)$|projection_dim$|hidden_channels$|embed_dims?$", WIDTH),
    (r"num_experts_per_tok(en)?$|top_k$|num_selected_experts|topk_group", 2),
    (r"(num|n)_(\w+_)?experts$", 4),
    (r"n_group$", 2),
    (r"shared_experts$", 1),
    (r"lora_rank$|dt_rank$|state_size$|d_state$", 8),
    (r"max_\w*position\w*$|n_positions$|n_ctx$|max_seq\w*$", 64),
    (r"image_size$", IMAGE),
    (r"num_mel_bins$|feature_size$|input_dim$", 16),
    (r"num_labels$|num_queries$", 5),
)
"""Names that a number may have, and how large it may be; the first that matches counts."""

KINDS = ("layer_types", "mlp_layer_types", "layers_block_type", "block_types", "attention_types")
"""Attributes that say of what kind each layer is."""


SECTIONS = [1, 1, 2]
"""What half of a head is divided into for positions in time, height and width."""


def tiny(config: Any) -> Any:
    """The configuration, changed: few narrow layers, few words, small images."""
    from transformers import PreTrainedConfig  # noqa: PLC0415 - it takes seconds

    for name, value in dict(vars(config)).items():
        if name.startswith("_") or isinstance(value, bool):
            continue
        if isinstance(value, PreTrainedConfig):
            tiny(value)
        elif isinstance(value, int):
            _put(config, name, value, _small(name, value))
        elif isinstance(value, list | tuple) and name in KINDS:
            _put(config, name, value, _of_each_kind(value))
        elif isinstance(value, list | tuple) and re.search(r"heads$", name):
            _put(config, name, value, [2] * len(value))
        elif isinstance(value, dict) and "mrope_section" in value:
            _put(config, name, value, {**value, "mrope_section": SECTIONS})
    if {"kv_lora_rank", "num_key_value_heads"} <= vars(config).keys():
        _put(config, "num_key_value_heads", None, HEADS)  # keys are made for each head
    return config


def _small(name: str, value: int) -> int:
    if name.endswith(("token_id", "token_index")):
        return value if value < WORDS else WORDS - 20 + value % 17
    for pattern, most in RULES:
        if re.search(pattern, name):
            return min(value, most)
    return value


def _of_each_kind(kinds: list[str] | tuple[str, ...]) -> list[str]:
    """As many as there are layers, of as many kinds as that allows."""
    first = list(dict.fromkeys(kinds))
    return (first * LAYERS)[:LAYERS]


def _put(config: Any, name: str, old: Any, new: Any) -> None:
    """Set an attribute, unless the configuration forbids it: it may be computed of others."""
    if old == new:
        return
    try:
        setattr(config, name, new)
    except (AttributeError, TypeError, ValueError):
        return
