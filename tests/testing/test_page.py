"""docs/testing.md: its programs do what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from jitpkg.testing import Comparison, NotTheSame

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")


def test_the_first_programs_do_what_is_said() -> None:
    first, second, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    namespace: dict[str, Any] = {"__name__": "a_page"}
    exec(first, namespace)
    with pytest.raises(NotTheSame) as caught:
        exec(second, namespace)
    assert f"jitpkg.testing.same.NotTheSame: {caught.value}\n```" in PAGE


def test_every_option_is_described() -> None:
    for name in Comparison.__slots__:
        assert f"`{name}`" in PAGE
