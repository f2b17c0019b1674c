"""Variables of the environment: what is misspelt is said, once, with what may have been meant."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jitpkg import config
from jitpkg.errors import JitpkgWarning

ROOT = Path(__file__).parents[2]


def test_a_misspelt_setting_is_said_with_the_nearest() -> None:
    with pytest.warns(JitpkgWarning, match="JITPKG_RECOMPILELIMIT") as seen:
        found = config.from_environment({"JITPKG_RECOMPILELIMIT": "3", "JITPKG_DISABLE": "1"})
    assert len(seen) == 1
    assert "'JITPKG_RECOMPILE_LIMIT'" in str(seen[0].message)
    assert found.disable
    assert found.recompile_limit == config.Options().recompile_limit


def test_several_are_one_warning() -> None:
    with pytest.warns(JitpkgWarning) as seen:
        config.from_environment({"JITPKG_LOG": "graphs", "JITPKG_CACHEDIR": "x", "JITPKG_QQQ": ""})
    (warning,) = seen
    for name in ("JITPKG_LOG ", "'JITPKG_LOGS'", "JITPKG_CACHEDIR", "'JITPKG_CACHE_DIR'", "QQQ"):
        assert name in str(warning.message)


@pytest.mark.filterwarnings("error")
def test_what_is_known_or_not_ours_is_no_matter() -> None:
    config.from_environment(
        {
            **dict.fromkeys(config.variables(), ""),
            "JITPKG_RECOMPILE_LIMIT": "8",
            "JITPKG_POOL_MEGABYTES": "8",
            "JITPKG_TEST_EXAMPLES": "3",
            "MYJITPKG_THING": "1",
            "jitpkg_disabled": "1",
        }
    )


def test_a_process_says_it_once_at_the_program_s_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import jitpkg\nimport torch\nf = jitpkg.jit(lambda x: x + 1, backend='eager')\n"
        "print(f(torch.ones(1)), jitpkg.config.recompile_limit)\n"
    )
    ran = subprocess.run(
        [sys.executable, str(program)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "JITPKG_RECOMPILELIMIT": "3",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert ran.stdout == "tensor([2.]) 8\n"
    assert ran.stderr.count("JitpkgWarning") == 1
    assert "program.py:3: JitpkgWarning" in ran.stderr


def test_the_names_that_are_read_are_known() -> None:
    """Wherever the package reads a variable by its whole name."""
    read = {
        name
        for file in (ROOT / "jitpkg").rglob("*.py")
        for name in re.findall(r'"(JITPKG_[A-Z_]*[A-Z])"', file.read_text(encoding="utf-8"))
    }
    assert read
    assert read <= config.variables()
