"""The web page about what was compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import events
from jitpkg.ranges import Times
from jitpkg.webreport import Recording, page, running
from tests.auto import support
from tests.native.support import needs_llvm

ROOT = Path(__file__).parents[1]
VOID = {"meta", "input", "rect", "br"}


class Checked(HTMLParser):
    """Every element is closed in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[Any] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(html: str) -> str:
    """What a page shows, if it is well-formed and refers to nothing else."""
    checked = Checked()
    checked.feed(html)
    checked.close()
    assert not checked.open
    assert not checked.links
    assert not re.search(r"https?://|@import|url\(", html)
    return "".join(checked.text)


def clipped(x: torch.Tensor, limit: float) -> torch.Tensor:
    norm = x.norm()
    if norm > limit:  # <a branch & "its" comment>
        print("clipped")
        x = x * (limit / norm)
    return x + 1


@pytest.fixture
def explanation() -> jitpkg.Explanation:
    return jitpkg.explain(clipped, backend="jitpkg")(torch.ones(4), 1.0)


def test_what_is_compiled_is_on_the_page(explanation: jitpkg.Explanation) -> None:
    html = explanation.html()
    text = text_of(html)
    assert "<title>clipped, as jitpkg compiled it</title>" in html
    for found in explanation.break_reasons:
        assert found.title() in text and found.reason.fix in text
    for shown in (*explanation.sources.values(), *explanation.kernel_sources.values()):
        assert shown in text
    assert all(each in text for each in (*explanation.assumptions, *explanation.out_guards))
    assert '# <a branch & "its" comment>' in text and "<a branch" not in html


def test_the_lines_of_breaks_are_marked(explanation: jitpkg.Explanation) -> None:
    marked = re.findall(r"<span class=broken>\s*\d+ +(.*?)</span>", explanation.html())
    comment = "# &lt;a branch &amp; &quot;its&quot; comment&gt;"
    assert marked == [f"if norm &gt; limit:  {comment}", "print(&quot;clipped&quot;)"]


def test_a_call_that_compiles_nothing() -> None:
    assert "Nothing was compiled." in text_of(jitpkg.Explanation().html("empty"))
    assert "Nothing was compiled." in text_of(page(Recording(), "<empty>"))


def test_in_a_notebook_each_part_unfolds(explanation: jitpkg.Explanation) -> None:
    html: str = explanation._repr_html_()
    text = text_of(html)
    assert html.startswith("<p>") and html.count("<details>") == len(list(explanation._parts()))
    assert all(line.strip() in text for line in str(explanation).splitlines())


def test_a_thousand_kernels() -> None:
    recording = Recording()
    kernel = jitpkg.explain(clipped, backend="jitpkg")(torch.ones(4), 9.0)
    ((_, source), *_) = kernel.kernel_sources.items()
    for k in range(1000):
        function = f"layers.{k}.forward"
        recording(events.CompileStarted(function, f"{function}#0"))
        recording(events.KernelCompiled(f"kernel_{k}", source, 0.001))
        recording(events.EntryAdded(function, f"{function}#0", ("g",) * 40, ("a",) * 9, "s", 0.1))
        recording(events.CompileEnded(function, f"{function}#0", 0.2))
    html = page(recording, "many")
    assert len(html.encode()) < 10_000_000
    assert text_of(html).count("What was compiled") == 1000


def test_nothing_is_left_of_a_compilation_that_made_nothing() -> None:
    recording = Recording()
    recording(events.CompileStarted("f", "f#0"))
    recording(events.CompileEnded("f", "f#0", 0.1))
    assert not recording.entries


# Kernels that run


def test_where_the_time_of_kernels_goes() -> None:
    recording = Recording()
    small, large = (
        events.Kernel("exp_add", ("exp", "add"), 3_000),
        events.Kernel("mul", (), 64 << 20),
    )
    recording(events.Fused("f_0", (small, large, large), ()))
    recording.times = {("f_0", "exp_add"): Times(), ("f_0", "mul"): Times(), ("g", "sin"): Times()}
    for _ in range(4):
        recording.times["f_0", "exp_add"].note(1e-6)
        recording.times["f_0", "mul"].note(0.1)
    first, second = running.ran(recording)
    assert (first.kernel, first.calls, first.bytes) == ("mul", 4, 64 << 20)
    assert first.bandwidth == pytest.approx((64 << 20) / 0.1)
    assert (second.kernel, second.graph, second.bytes) == ("exp_add", "f_0", 3_000)
    text = text_of(page(recording, "times"))
    assert "400 ms in 2 kernels" in text
    assert "exp_addf_044 us1 us3 KiB3.0 GB/sin a cache" in text
    assert re.search(r"mulf_04400 ms100 ms64.0 MiB0.7 GB/s +\d+%", text)


def test_a_copy_has_a_bandwidth() -> None:
    assert 1e8 < running.copy_bandwidth() < 1e13


TIMED = """
import torch

def layer(x):
    return torch.softmax(x * 2, -1)

for k in range(40):
    layer(torch.ones(64, 64))
"""


@needs_llvm
@pytest.mark.parametrize("known", [False, True])
def test_kernels_of_a_program_are_timed(tmp_path: Path, known: bool) -> None:
    (tmp_path / "timed.py").write_text(TIMED)
    for _ in range(2 if known else 1):
        ended = support.run(
            tmp_path,
            *("-m", "jitpkg", "run", "--html", "out.html", "timed.py"),
            JITPKG_BACKEND="jitpkg",
            JITPKG_NEVER_WORSE="0",
            JITPKG_CACHE_DIR=str(tmp_path / "cache"),
        )
        assert ended.status == 0, ended.err
    text = text_of((tmp_path / "out.html").read_text(encoding="utf-8"))
    found = re.search(
        r"kernels? goes.*kernelgraphcalls.*?mul_softmaxlayer_0(\d\d)", text, re.DOTALL
    )
    assert found is not None and int(found[1]) >= 30


# The command line

PROGRAM = """
import os, sys, torch

def layer(x):
    return torch.tanh(x) * 2

if __name__ == "__main__":
    for k in range(3):
        layer(torch.ones(4))
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    sys.exit(3)
"""


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JITPKG_BACKEND": "eager"}
    return subprocess.run(
        [sys.executable, "-m", "jitpkg", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    "what", [("run", "--html", "out.html", "program.py", "--lr", "0.1"),
             ("explain", "--html=out.html", "program.py::layer")]
)  # fmt: skip
def test_a_program_writes_its_page(tmp_path: Path, what: tuple[str, ...]) -> None:
    done = command(tmp_path, *what)
    assert (done.returncode, done.stderr if what[0] == "run" else "") == (3, "")
    text = text_of((tmp_path / "out.html").read_text())
    assert "program.py" in text and "return torch.tanh(x) * 2" in text and "layer#0" in text


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    done = command(tmp_path, "run", "--html", "nowhere/out.html", "program.py")
    assert done.returncode == 2 and "--html: there is no folder nowhere" in done.stderr
    (tmp_path / "folder.html").mkdir()
    done = command(tmp_path, "run", "--html", "folder.html", "program.py")
    assert done.returncode == 3 and "folder.html cannot be written" in done.stderr


# In a browser

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SEARCHED = """
<script>
{
  const field = document.getElementById("search");
  field.value = "%s";
  field.dispatchEvent(new Event("input"));
  const wheel = new WheelEvent("wheel", {deltaY: -1, clientX: 100, cancelable: true});
  document.querySelector("svg.timeline").dispatchEvent(wheel);
}
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize(("wanted", "hidden"), [("clip", False), ("nothing like it", True)])
def test_searched_and_zoomed_in_a_browser(
    explanation: jitpkg.Explanation, tmp_path: Path, wanted: str, hidden: bool
) -> None:
    file = tmp_path / "page.html"
    file.write_text(explanation.html() + SEARCHED % wanted)
    assert BROWSER is not None
    options = "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"
    done = subprocess.run(
        [BROWSER, *options, f"--user-data-dir={tmp_path}", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    functions = re.findall(r"<details data-item=\"\"([^>]*)>", done.stdout)
    assert functions and hidden == all("hidden" in each for each in functions)
    assert "scale(1.25 1)" in done.stdout
