"""Arguments of calls: they vary from call to call, tensors in size, dtype, layout and values."""

from __future__ import annotations

from jitpkg.dataclass import dataclass
from jitpkg.testing.programs.choices import Choices, chance, one_of, weighted
from jitpkg.testing.programs.writer import Writer

PARAMETERS = (
    "vec vec vec mat int int float bool str list ints dict vdict vecs set tup deque odict ddict"
    " counter any obj obj fn ifn exc it key none scalar ivec"
).split()

VALUES = (1.0, 2.0, -1.0, 0.5, 0.0, 3.0, -2.5, 4.0, -0.0)
ODD = ("float('nan')", "float('inf')", "-float('inf')")
DTYPES = ("float64", "int64", "float16", "bfloat16", "int32", "bool", "uint8")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of vectors, and the number of rows of matrices."""

    n: int
    m: int


def sizes(choices: Choices) -> Sizes:
    return Sizes(one_of(choices, (3, 2, 4, 1, 5, 0)), one_of(choices, (2, 3, 1)))


def tensor(
    choices: Choices, kind: str, size: Sizes, known: list[str], leaves: int, *, vary: bool
) -> str:
    """An expression that makes one.

    Args:
        leaves: how many of a hundred require grad, about.
        known: arguments of the same call that are tensors, by name.
        vary: whether it may have another dtype or layout than usual.
    """
    if kind == "ivec":
        return f"torch.arange({size.n})"
    if kind == "scalar":
        return f"torch.tensor({one_of(choices, VALUES)})"
    if known and chance(choices, 12):
        return one_of(choices, known) + one_of(choices, ("", "[:]", ".detach()"))
    count = size.n * (size.m if kind == "mat" else 1)
    shape = f".reshape({size.m}, {size.n})" if kind == "mat" else ""
    if not vary or chance(choices, 70):
        values = ", ".join(str(one_of(choices, VALUES)) for _ in range(count))
        made = f"torch.tensor([{values}]){shape}"
        return made + (".requires_grad_()" if chance(choices, leaves) else "")
    match choices.below(5):
        case 0:
            return f"torch.arange({2 * count}.0)[::2]{shape}"
        case 1:
            return f"torch.ones(1).expand({count}){shape}"
        case 2 if kind == "mat":
            return f"torch.arange({count}.0).reshape({size.n}, {size.m}).t()"
        case 3 if count:
            values = ", ".join([one_of(choices, ODD)] + ["1.0"] * (count - 1))
            return f"torch.tensor([{values}]){shape}"
    return f"torch.arange({count}){shape}.to(torch.{one_of(choices, DTYPES)})"


def argument(writer: Writer, kind: str, size: Sizes, known: list[str], *, vary: bool) -> str:
    """An expression for an argument of a kind, made outside of any function."""
    choices = writer.choices
    while kind in writer.unions and kind not in writer.expressions:
        kind = one_of(choices, writer.unions[kind])
    if kind in ("vec", "mat", "ivec", "scalar"):
        return tensor(choices, kind, size, known, writer.leaves, vary=vary)
    return writer.expression(kind, 1)


def differing(choices: Choices, kind: str) -> str:
    """The kind of another call's argument, where one of this kind was."""
    if chance(choices, 8):
        return weighted(choices, ("any", "int", "float", "none", "vec"), (3, 1, 1, 1, 1))
    return kind
