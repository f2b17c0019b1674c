"""The function that docs/kernels.md follows."""


def waves(x):
    for _ in range(6):
        x = x.sin()
    return x
