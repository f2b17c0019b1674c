"""What importing jitpkg loads, and what compiling does to torch: its own compiler stays asleep.

Each test runs a program in a fresh interpreter, which prints what it has found.
"""

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import jitpkg

ROOT = Path(__file__).parents[1]


def found_by(program: str, **environment: str) -> Any:
    """What a program prints as JSON, run in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_import_loads_the_standard_library_only() -> None:
    loaded = found_by(
        """
        import json, sys
        before = set(sys.modules)
        import jitpkg
        print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
        """
    )
    assert set(loaded) - {"jitpkg"} <= sys.stdlib_module_names


@pytest.mark.parametrize("module", ["config", "errors", "events", "marks"])
def test_leaves_do_not_load_torch(module: str) -> None:
    loaded = found_by(
        f"""
        import json, sys
        import jitpkg.{module}
        print(json.dumps(sorted(sys.modules)))
        """
    )
    assert not {"torch", "numpy", "sympy", "bytecode"} & set(loaded)


def test_every_public_name_is_found_when_it_is_first_used() -> None:
    missing = found_by(
        """
        import json
        import jitpkg
        print(json.dumps([name for name in jitpkg.__all__ if getattr(jitpkg, name, None) is None]))
        """
    )
    assert missing == []


def test_an_unknown_name_is_refused_like_any_module_s() -> None:
    text = found_by(
        """
        import json
        import jitpkg
        try:
            jitpkg.nothing
        except AttributeError as error:
            print(json.dumps(str(error)))
        """
    )
    assert text == "module 'jitpkg' has no attribute 'nothing'"


WATCH = """
import json, sys
import torch
from torch._C._dynamo import eval_frame

callbacks = []
for name in ("set_eval_frame", "set_guard_error_hook", "set_skip_guard_eval_unsafe"):
    if not hasattr(eval_frame, name):
        continue
    def watched(*arguments, _real=getattr(eval_frame, name), _name=name):
        callbacks.append((_name, [repr(a) for a in arguments]))
        return _real(*arguments)
    setattr(eval_frame, name, watched)

def in_force():
    return repr(eval_frame.get_eval_frame_callback())

import jitpkg

def forward(x):
    y = torch.relu(x) + 1
    seen.append(in_force())
    jitpkg.graph_break()
    return y.sum() * 2

seen = [in_force()]
net = torch.nn.Sequential(
    torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(8, 2)
)
compiled = jitpkg.jit(net)
f = jitpkg.jit(forward)
for size in (4, 4):
    loss = f(compiled(torch.ones(size, 1, 4, 4)))
    loss.backward()
f(torch.ones(3, requires_grad=True)).backward()
seen.append(in_force())
loaded = [m for m in ("torch._dynamo", "torch._inductor", "sympy") if m in sys.modules]

# An optimiser's constructor, and an op of which jitpkg has no facts, make torch load its compiler.
optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
optimiser.step()
jitpkg.jit(lambda x: torch.special.bessel_j0(x))(torch.ones(2))
f(torch.ones(5, requires_grad=True)).backward()
seen.append(in_force())
print(json.dumps([loaded, callbacks, seen]))
"""


def test_torch_s_compiler_is_not_woken() -> None:
    """Common ops need none of it: not even its modules are loaded."""
    loaded, callbacks, seen = found_by(WATCH, JITPKG_STRICT="1")
    assert loaded == []
    assert [c for c in callbacks if c[0] == "set_eval_frame" and c[1] != ["None"]] == []
    assert set(seen) == {"None"}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_torch_s_compiler_catches_no_frames_for_a_backend(backend: str) -> None:
    """Its modules are loaded then, by AOTAutograd itself."""
    program = WATCH.replace("jitpkg.jit(net)", f"jitpkg.jit(net, backend={backend!r})")
    program = program.replace("jitpkg.jit(forward)", f"jitpkg.jit(forward, backend={backend!r})")
    assert program.count(f"backend={backend!r}") == 2
    _, callbacks, seen = found_by(program, JITPKG_STRICT="0" if backend == "inductor" else "1")
    assert [c for c in callbacks if c[0] == "set_eval_frame" and c[1] != ["None"]] == []
    assert set(seen) == {"None"}


def test_no_module_of_torch_s_compiler_is_loaded_by_jitpkg() -> None:
    """Where it is loaded at all, a module of torch has asked for it."""
    importers = found_by(
        """
        import json, sys
        importers = []

        class Watch:
            def find_spec(self, name, path=None, target=None):
                if name == "torch._dynamo":
                    frame = sys._getframe(1)
                    while "importlib" in frame.f_globals["__name__"]:
                        frame = frame.f_back
                    importers.append(frame.f_globals["__name__"])

        sys.meta_path.insert(0, Watch())
        import torch
        import jitpkg

        jitpkg.jit(lambda x: torch.sin(x) + 1)(torch.ones(2))
        jitpkg.jit(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()
        first = list(importers)
        jitpkg.jit(lambda x: torch.special.bessel_j0(x) + torch.trapezoid(x))(torch.ones(2))
        print(json.dumps([first, importers]))
        """,
        JITPKG_STRICT="1",
    )
    common, all_ = importers
    assert common == []
    assert all(name.startswith("torch.") for name in all_), all_


def test_the_linter_refuses_imports_of_torch_s_compiler() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    banned = settings["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {"torch._dynamo", "torch._inductor", "torch._subclasses"} <= set(banned)


def test_the_version_is_that_of_the_package() -> None:
    assert jitpkg.__version__ == version("jitpkg")
    assert "__version__" in dir(jitpkg)


LOADED_WITH = """
    import json, pickle, sys
    import torch
    from importlib.abc import MetaPathFinder

    class Watched(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            import gc
            if name.startswith(("jitpkg.rewriter.", "jitpkg.codegen.", "jitpkg.tracer.")):
                found.append(gc.isenabled())

    found = []
    sys.meta_path.insert(0, Watched())
    {used}
    print(json.dumps([len(found), sum(found)]))
"""


@pytest.mark.parametrize(
    "model", ["torch.nn.Linear(2, 2)", "functools.partial(torch.add, other=torch.ones(2))"]
)
def test_the_collector_rests_while_the_compiler_is_loaded(model: str, tmp_path: Path) -> None:
    """In a child that gets a compiled object by pickle, without a call of `jitpkg.compile`."""
    file = tmp_path / "compiled.pickle"
    made = f"""
        import functools, pickle, torch, jitpkg
        with open({str(file)!r}, "wb") as f:
            pickle.dump(jitpkg.compile({model}), f)
        print(0)
    """
    found_by(made)
    used = f"pickle.load(open({str(file)!r}, 'rb'))(torch.ones(2))"
    modules, collecting = found_by(LOADED_WITH.format(used=used))
    assert modules > 100
    assert collecting < 10
