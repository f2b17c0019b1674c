"""The function whose call docs/one-call.md follows."""


def clipped(x):
    norm = (x * x).sum().sqrt()
    if norm > 1:
        x = x / norm
    return x + 1
