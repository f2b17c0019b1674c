"""`python -m tests.curves`: loss curves of whole training steps, eager and compiled, as a table.

Ten models, with and without dropout, in float32 and under autocast to bfloat16. On `eager`, losses,
weights and the random stream are those of eager code, bit for bit; with kernels, losses are as near
to eager code's as those of eager code that adds in another order are.
"""

from __future__ import annotations

import argparse
import re
import sys

import torch

from tests.curves import models, train
from tests.curves.check import checked


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.curves", description=__doc__)
    parser.add_argument("--only", default="", help="models whose name matches")
    parser.add_argument("--steps", type=int, default=train.STEPS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':34}{'graphs':>7}{'later':>6}{'loss':>16}{'orders':>10}{'kernels':>10}")
    wrong = 0
    for model in models.available():
        if not re.search(given.only, model.name):
            continue
        for autocast in (False, True)[: 1 + model.autocasts]:
            for dropout in (0.0, 0.1):
                row = checked(train.Case(model, dropout, autocast, given.steps))
                print(row, flush=True)
                wrong += bool(row.wrong)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
