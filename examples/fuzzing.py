"""Fuzz a function of one's own: compiled, it must do what it does eagerly, for any arguments.

    python examples/fuzzing.py

Needs hypothesis (pip install jitpkg[testing]).
"""

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from jitpkg.testing import Comparison, NotTheSame, assert_same
from jitpkg.testing.strategies import structures, tensors

# A function as people write them: it walks a structure, branches, changes its arguments.


def clip_all(batch, limit, history):
    """Clip every float tensor in place; notes how many values each had."""
    match batch:
        case torch.Tensor() if batch.is_floating_point():
            history.append(batch.numel())
            with torch.no_grad():
                batch.clamp_(-limit, limit)
            return batch
        case dict():
            return {key: clip_all(value, limit, history) for key, value in batch.items()}
        case list() | tuple():
            return type(batch)([clip_all(value, limit, history) for value in batch])
    return batch


floats = tensors(dtype=torch.float32)
batches = structures(floats | st.integers(0, 3))
known = settings(max_examples=40, deadline=None, derandomize=True, database=None)


@known
@given(batches, st.sampled_from([0.5, 1.0, 2.0]))
def test_clip_all(batch, limit):
    assert_same(clip_all, batch, limit, [])


# A backend with a mistake that one has to look for: it forgets that a size can be 0.


def careless(graph, examples):
    def run(*inputs):
        results = graph(*inputs)
        return tuple(r.sum(0, keepdim=True) if r.shape[:1] == (0,) else r for r in results)

    return run


def doubled(x):
    return x * 2


@settings(known, phases=[Phase.generate, Phase.shrink])
@given(floats)
def test_doubled(x):
    Comparison(backend=careless).assert_same(doubled, x)


def main():
    test_clip_all()
    print("clip_all: compiled as eagerly, for 40 random batches")
    try:
        test_doubled()
    except NotTheSame as difference:
        print(f"The smallest call that shows the mistake:\n{difference}")


if __name__ == "__main__":
    main()
