"""What passes do for thousands of elements, done for a few; and kernels to try them on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import hypothesis.strategies as st
import torch

from jitpkg.codegen.fusion.groups import kernel_of
from jitpkg.codegen.fusion.kernel import Kernel
from jitpkg.codegen.fusion.passes import ask_ahead, block_sums, interchange, turn_rows
from jitpkg.codegen.ir.builder import Builder
from jitpkg.codegen.ir.nodes import Axis, Buffer, Node, Store
from tests.codegen.cpu.support import buffer


@contextmanager
def small_blocks(wide: int = turn_rows.WIDE) -> Iterator[None]:
    """Blocks of few elements, however few there are. `wide`: of tiles; printers want no less than
    the loop in lanes has side by side."""
    with (
        patch.multiple(interchange, ROWS=2, SHORTEST=2, FEWEST=0),
        patch.multiple(turn_rows, HIGH=1, WIDE=wide, FEWEST=2, NARROWEST=2),
        patch.multiple(block_sums, ADDED_UP=2),
        patch.multiple(ask_ahead, PAGE=0),
    ):
        yield


def random_columns(data: st.DataObject) -> tuple[Kernel, Builder, dict[Buffer, torch.Tensor]]:
    """Folds and running folds over columns, each perhaps of the ones before, of whole numbers."""
    b = Builder()
    rows, columns = (
        data.draw(st.sampled_from([2, 3, 5, 8])),
        data.draw(st.sampled_from([4, 24, 33])),
    )
    memory: dict[Buffer, torch.Tensor] = {}
    draw = torch.Generator().manual_seed(data.draw(st.integers(0, 100)))
    i, j = b.axes((rows, columns))
    known: list[Node] = []

    def value(at: Axis) -> Node:
        dtype = data.draw(st.sampled_from([torch.float32, torch.int64, torch.bfloat16]))
        x = buffer(f"x{len(memory)}", rows, columns, dtype=dtype)
        memory[x] = torch.randint(-4, 4, (rows, columns), generator=draw).to(dtype)
        found = b.cast(b.load(x, (at, j)), torch.float32)
        if known and data.draw(st.booleans()):
            found = b.apply("sub", found, data.draw(st.sampled_from(known)))
        return found

    stores = []
    for number in range(data.draw(st.integers(1, 3))):
        if data.draw(st.integers(0, 3)) == 0:
            running = b.scan(data.draw(st.sampled_from(["sum", "max"])), value(i), i)
            stores.append(Store(buffer(f"out{number}", rows, columns), (i, j), running))
            continue
        over = b.axis(rows)
        op = data.draw(st.sampled_from(["sum", "max", "min", "argmax"]))
        folded = b.cast(b.reduce(op, value(over), [over]), torch.float32)
        known.append(folded)
        stores.append(Store(buffer(f"out{number}", columns), (j,), folded))
    return kernel_of("columns", stores), b, memory
