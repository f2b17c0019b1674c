"""`python -m jitpkg run` runs a program as Python does: output, errors, exit status are equal."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import jitpkg
from jitpkg import cli
from tests.auto.support import ROOT, run, same

SHOW = """
import os, sys, helper
print(sys.argv, os.path.relpath(sys.path[0], os.getcwd()), __name__)
print(__file__, __spec__ and __spec__.name, __package__, __builtins__, __doc__)
print(type(__loader__).__name__, [name for name in dir() if name not in ("__loader__",)])
print(sys.modules["__main__"].__dict__ is globals(), helper.__file__, helper.__cached__)
print(helper.shown(), helper.shown.__module__, helper.shown.__code__.co_varnames)
"""

HELPER = """
def shown():
    return [(lambda k: k * 2)(i) for i in range(3)]
def fails(n):
    if n:
        return fails(n - 1)
    raise ValueError("from helper")
"""

ENDS = {
    "exit_number": "import sys; sys.exit(7)",
    "exit_text": "import sys; sys.exit('sorry')",
    "exit_none": "import sys; sys.exit()",
    "exit_at_once": "import os; os._exit(5)",
    "raises": "import helper\ndef f():\n    helper.fails(3)\nf()",
    "raises_from": "import helper\ntry:\n    helper.fails(0)\nexcept ValueError as e:\n    1 / 0",
    "raises_group": "raise ExceptionGroup('two', [ValueError(1), KeyError(2)])",
    "syntax": "def f(:\n  pass",
    "interrupted": "import atexit\natexit.register(print, 'at exit')\nraise KeyboardInterrupt",
    "interrupt_handled": "try:\n    raise KeyboardInterrupt\nexcept BaseException:\n    print(1)",
    "hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[:2], a[2].tb_lineno)\n1 / 0",
    "hook_fails": "import sys\nsys.excepthook = lambda *a: 1 / 0\nraise KeyError('mine')",
    "hook_exits": "import sys\nsys.excepthook = lambda *a: sys.exit(9)\nraise KeyError('mine')",
    "at_exit": "import atexit\natexit.register(lambda: print(__name__, sys.argv))\nimport sys",
    "thread": (
        "import threading, time\n"
        "def work():\n    time.sleep(0.1); print('thread', __name__)\n"
        "threading.Thread(target=work).start()\nprint('main')"
    ),
    "thread_raises": "import threading\nthreading.Thread(target=lambda: 1 / 0, name='t').start()",
    "deep": "def f(n):\n    return n and f(n - 1)\nprint(f(900))",
    "pickle": (
        "import pickle\nclass C:\n    def m(self): return 3\ndef f(): return 4\n"
        "print(pickle.loads(pickle.dumps(f))(), pickle.loads(pickle.dumps(C())).m())\n"
        "print(pickle.dumps(f))"
    ),
    "finalizer": "class C:\n    def __del__(self): print('gone', __name__)\nc = C()",
    "standard_input": "print(input(), 3)\nimport sys\nprint(sys.stdin.read())",
    "future": "def f(x: undefined): pass",
    "annotated": "x: int = 3\nprint(__annotations__)",
    "warns": "import warnings\ndef f():\n    warnings.warn('here', stacklevel=2)\nf()\nf()",
    "inspects": (
        "import inspect, sys\ndef f(a, *, b=1):\n    return sys._getframe(1).f_code.co_name\n"
        "print(inspect.getsource(f), inspect.signature(f), f(1), f(2), f(3))"
    ),
    "many_calls": (
        "def f(a, b=2, *c, d, **e):\n    x = [a, b, c, d, e]\n    return lambda: x\n"
        "print([f(i, d=1, z=2)() for i in range(40)])"
    ),
    "generators": (
        "def f(n):\n    try:\n        got = yield n\n        print(got)\n    finally:\n"
        "        print('closed')\n"
        "for i in range(20):\n    g = f(i); print(next(g)); g.send(i) if i % 2 else g.close()"
    ),
}
ENDS["generators"] = ENDS["generators"].replace("g.send(i)", "print(list(g))")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "show.py").write_text(SHOW)
    (tmp_path / "sub" / "helper.py").write_text(HELPER)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.mark.parametrize("name", ENDS)
def test_a_program_ends_in_the_same_way(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text(ENDS[name])
    ended = same(folder, f"{name}.py", "argument")
    assert ended.out or ended.err or ended.status or name in ("exit_none", "future")


PROCESSES = """
import multiprocessing, sys, helper

def work(n):
    return n * len(helper.shown()), __name__, sys.argv, helper.__name__

def fails(n):
    raise KeyError(n)

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(work, range(20))[-1])
            try:
                pool.apply(fails, (3,))
            except KeyError as error:
                print(repr(error))
        process = multiprocessing.get_context(method).Process(target=sys.exit, args=(7,))
        process.start()
        process.join()
        print(process.exitcode)
"""


def test_processes(folder: Path) -> None:
    (folder / "processes.py").write_text(PROCESSES)
    ended = same(folder, "processes.py", "argument")
    assert "(57, '__main__', ['processes.py', 'argument'], 'helper')" in ended.out
    assert "(57, '__mp_main__', ['processes.py', 'argument'], 'helper')" in ended.out
    same(folder, "-m", "processes", "argument")


def test_an_interrupt_ends_the_process_by_its_signal(folder: Path) -> None:
    (folder / "interrupted.py").write_text(ENDS["interrupted"])
    ended = run(folder, "-m", "jitpkg", "run", "interrupted.py")
    assert ended.status == -2
    assert ended.out == "at exit\n"
    assert ended.err.startswith("Traceback (most recent call last):\n  File ")
    assert "jitpkg" not in ended.err


def test_a_script_finds_itself(folder: Path) -> None:
    assert "['sub/show.py', '-x', '--', 'run'] sub __main__" in (
        same(folder, "sub/show.py", "-x", "--", "run").out
    )
    same(folder, "./sub/../sub/show.py")
    same(folder / "sub", "show.py", "-m", "other")
    same(folder, str(folder / "sub" / "show.py"))


def test_a_script_finds_itself_by_a_link(folder: Path) -> None:
    (folder / "link.py").symlink_to(folder / "sub" / "show.py")
    assert " sub __main__" in same(folder, "link.py").out


def test_a_script_in_the_isolated_modes(folder: Path) -> None:
    same(folder, "sub/show.py", options=("-P",))
    same(folder, "sub/show.py", options=("-O",))
    same(folder, "sub/show.py", options=("-B", "-W", "error"))


def test_a_module(folder: Path) -> None:
    assert "__main__ sub.show" not in same(folder, "-m", "sub.show", "-m", "x").err
    (folder / "sub" / "__init__.py").write_text("import sys; print(sys.argv, __name__)")
    (folder / "sub" / "__main__.py").write_text("from . import helper\nhelper.fails(2)")
    same(folder, "-m", "helper")
    assert "runpy" in same(folder, "-m", "sub", "1").err


def test_a_module_that_is_not_there(folder: Path) -> None:
    ended = same(folder, "-m", "nowhere.at_all")
    assert ended.status == 1
    assert "No module named" in ended.err or "ModuleNotFoundError" in ended.err


def test_a_script_that_is_not_there(folder: Path) -> None:
    assert same(folder, "nowhere.py").status == 2


def test_a_folder_and_a_zip_file(folder: Path) -> None:
    (folder / "sub" / "__main__.py").write_text(SHOW + "helper.fails(1)")
    same(folder, "sub", "x")
    with zipfile.ZipFile(folder / "app.pyz", "w") as archive:
        archive.write(folder / "sub" / "__main__.py", "__main__.py")
        archive.write(folder / "sub" / "helper.py", "helper.py")
    assert "app.pyz" in same(folder, "app.pyz", "x").out


def test_a_compiled_script(folder: Path) -> None:
    compiled = run(folder, "-m", "compileall", "-q", "-b", "sub/show.py")
    assert not compiled.status
    (folder / "helper.py").rename(folder / "sub" / "helper.py")
    assert "SourcelessFileLoader" in same(folder, "sub/show.pyc", "x").out


def test_caches_of_bytecode_are_python_s_own(folder: Path) -> None:
    run(folder, "-m", "jitpkg", "run", "sub/show.py")
    (cached,) = (folder / "sub" / "__pycache__").glob("helper.*.pyc")
    content = cached.read_bytes()
    assert run(folder, "sub/show.py") == run(folder, "-m", "jitpkg", "run", "sub/show.py")
    assert cached.read_bytes() == content
    cached.unlink()
    run(folder, "sub/show.py")
    assert cached.read_bytes() == content


def test_torch_is_not_loaded_for_a_program_without_tensors(folder: Path) -> None:
    (folder / "plain.py").write_text(
        "import sys, helper\nfor i in range(99): helper.shown()\n"
        "print([name for name in ('torch', 'bytecode', 'jitpkg.api') if name in sys.modules])"
    )
    assert run(folder, "-m", "jitpkg", "run", "plain.py").out == "[]\n"


def test_the_command_says_how_it_is_used(folder: Path) -> None:
    for arguments in ((), ("run",), ("run", "-m"), ("walk",), ("run", "--nothing", "x.py")):
        ended = run(folder, "-m", "jitpkg", *arguments)
        assert (ended.status, ended.out) == (2, "")
        assert ended.err.startswith("usage: python -m jitpkg")
    shown = run(folder, "-m", "jitpkg", "run", "--help")
    assert shown.status == 0
    assert re.search(r"--include PATTERNS\s+only these modules", shown.out)


EXPLAINED = """
import sys, torch, helper
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.sin() * 2
        print("inside", sys.argv[1:])
        return y + 1
def other(x):
    return x.cos()
def never(x):
    return x
for _ in range(3):
    Net()(torch.ones(3)), other(torch.ones(3)), helper.shown()
"""


@pytest.mark.parametrize("target", ["net.py::forward", "net.py::Net.forward", "-m net::forward"])
def test_one_function_of_a_program_is_explained(folder: Path, target: str) -> None:
    (folder / "net.py").write_text(EXPLAINED)
    ended = run(folder, "-m", "jitpkg", "explain", *target.split(), "7", JITPKG_BACKEND="eager")
    assert (ended.status, ended.out) == (0, "inside ['7']\n" * 3)
    function = target.rpartition("::")[2]
    assert ended.err.startswith(f"{function}: 2 graphs with 3 ops, 1 graph break")
    assert "B106: something is printed\n    net.py:6, in forward" in ended.err
    assert "other" not in ended.err


def test_what_is_not_compiled_is_said(folder: Path) -> None:
    (folder / "net.py").write_text(EXPLAINED)
    ended = run(folder, "-m", "jitpkg", "explain", "net.py::never", JITPKG_BACKEND="eager")
    assert ended.status == 0
    assert "No call of never is compiled; compiled is: Net.forward, other" in ended.err
    for wrong in ("net.py", "net.py::", "::forward"):
        ended = run(folder, "-m", "jitpkg", "explain", wrong)
        assert (ended.status, ended.out) == (2, "")
        assert "give a script and a function, as in script.py::function" in ended.err
    ended = run(folder, "-m", "jitpkg", "explain", "nowhere.py::f")
    assert ended.status == 2
    assert "can't open file" in ended.err


def test_the_version(folder: Path) -> None:
    assert run(folder, "-m", "jitpkg", "--version").out == f"jitpkg {jitpkg.__version__}\n"


def test_the_command_by_its_own_name(folder: Path) -> None:
    """As pip installs it."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["jitpkg"].partition(":")
    (folder / "jitpkg").write_text(f"from {module} import {function}\n{function}()")
    ended = run(folder, "jitpkg", "--version")
    assert (ended.status, ended.out) == (0, f"jitpkg {jitpkg.__version__}\n")
    assert run(folder, "jitpkg", "walk").err.startswith("usage: jitpkg [-h]")
    (folder / "plain.py").write_text("import sys\nprint(sys.argv)")
    assert run(folder, "jitpkg", "run", "plain.py", "3").out == "['plain.py', '3']\n"
    ended = run(folder, "jitpkg", "cache", JITPKG_STANCE="nothing")
    assert ended.status == 1
    assert ended.err.startswith("There is no stance 'nothing'")


def test_the_arguments_of_the_program_are_its_own() -> None:
    split = cli._split
    assert split(["run", "x.py", "-m", "y"]) == (["run"], ["x.py", "-m", "y"])
    assert split(["run", "--include", "a", "-m", "y"]) == (["run", "--include", "a"], ["-m", "y"])
    assert split(["run", "--include=a", "x.py"]) == (["run", "--include=a"], ["x.py"])
