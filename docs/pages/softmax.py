"""The function that docs/triton.md follows."""

import torch


def attention_weights(x):
    return torch.softmax(x * 0.125, dim=-1)
