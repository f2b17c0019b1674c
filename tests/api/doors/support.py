"""What the programs share."""

import torch

X = torch.tensor([1.0, 2.0])


def plain(value):
    """Tensors as lists, in containers, too."""
    if isinstance(value, torch.Tensor):
        return [round(v, 4) for v in value.detach().double().flatten().tolist()]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value


def outcome(f, *args, **kwargs):
    try:
        return plain(f(*args, **kwargs))
    except Exception as error:
        return type(error).__name__, str(error)[:60]


class Obj:
    tag = "t"

    def __init__(self, k=2):
        self.k = k
        self.seen = []

    def __call__(self, x):
        return x * self.k

    def m(self, x):
        return x + self.k

    def __len__(self):
        return 3
