"""A program that runs one kernel alone: to find out why it fails, or how fast it is."""

from __future__ import annotations

from collections.abc import Sequence

from jitpkg.codegen.triton.source import Config, Source

_TEXT = '''\
"""The kernel {name} alone, on random numbers; without a GPU Triton interprets it.

Needs torch, triton and jitpkg. CUDA_LAUNCH_BLOCKING=1 shows where a launch fails, and
compute-sanitizer which address is read or written.
"""

import os

import torch

HAS_GPU = torch.cuda.is_available()
if not HAS_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

{text}

POINTERS = [
{pointers}
]
"""Each with how many elements its memory has."""
NUMBERS = {numbers}
BLOCKS = {blocks}
OPTIONS = {options}


def cdiv(a, b):
    return -(-a // b)


def memory(dtype, count):
    device = "cuda" if HAS_GPU else "cpu"
    if dtype.is_floating_point:
        return torch.randn(count, device=device).to(dtype)
    return torch.randint(0, 2, (count,), device=device).to(dtype)


def main():
    torch.manual_seed(0)
    tensors = [memory(*each) for each in POINTERS]
    names = {{**{{f"n{{k}}": number for k, number in enumerate(NUMBERS)}}, **BLOCKS, "cdiv": cdiv}}
    grid = tuple(eval(each, names) for each in {grid})
    options = OPTIONS if HAS_GPU else {{}}
    {name}[grid](*tensors, *NUMBERS, **BLOCKS, **options)
    if HAS_GPU:
        torch.cuda.synchronize()
    for k, tensor in enumerate(tensors):
        print(f"p{{k}}", tensor[:8].tolist())


if __name__ == "__main__":
    main()
'''


def script(
    source: Source, config: Config, counts: Sequence[int], numbers: Sequence[int] = ()
) -> str:
    """The program, as text to be written to a file.

    Args:
        counts: how many elements lie behind each pointer.
        numbers: the values of the numbers that vary.
    """
    pointers = zip(source.pointers, counts, strict=True)
    options = {
        "num_warps": config.warps,
        "num_stages": config.stages,
        "enable_fp_fusion": False,
        "debug": source.asserts,
        "sanitize_overflow": False,
    }
    return _TEXT.format(
        name=source.name,
        text=source.text.strip(),
        pointers="\n".join(f"    ({dtype}, {count})," for dtype, count in pointers),
        numbers=list(numbers),
        blocks=dict((*config.blocks, *source.constants)),
        options=options,
        grid=source.grid,
    )
