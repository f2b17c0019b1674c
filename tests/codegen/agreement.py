"""Whether two descriptions of what a program did agree, where numbers may differ a little."""

import math
import re

_NUMBER = re.compile(r"(?<![\w#])[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|nan|inf)(?!\w)")
_NODE = re.compile(r"\b[A-Z]\w*Backward\w*\b")
_VERSION = re.compile(r"\bversion \d+\b")
_VIEW = re.compile(r"\bNODE view\b|(?<=\d) view(?= \[)")

RTOL, ATOL = 1e-4, 1e-5


def split(line: str) -> tuple[str, list[float]]:
    """A line's text without its numbers, and those; what only says how it was computed is gone."""
    line = _VERSION.sub("version", _NODE.sub("NODE", line))
    line = line.replace("NODE view", "NODE").replace("version view", "version")
    return _NUMBER.sub("%", line), [float(number) for number in _NUMBER.findall(line)]


def agrees(a: str, b: str) -> bool:
    (text, numbers), (other_text, other_numbers) = split(a), split(b)
    return text == other_text and all(
        (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=RTOL, abs_tol=ATOL)
        for x, y in zip(numbers, other_numbers, strict=True)
    )


def disagreement(eager: list[str], compiled: list[str]) -> str:
    """The first lines that disagree, or nothing."""
    pairs = list(zip(eager, compiled, strict=False))
    wrong = [f"eager    {a}\ncompiled {b}" for a, b in pairs if not agrees(a, b)]
    if len(eager) != len(compiled):
        wrong.append(f"{len(eager)} lines eagerly, {len(compiled)} compiled")
    return "\n".join(wrong[:6])
