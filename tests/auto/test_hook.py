"""The import hook: which functions it stubs, what becomes of them, and what it leaves alone."""

import functools
import gc
import importlib
import importlib.util
import pickle
import sys
import threading
import types
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import jitpkg
from jitpkg import auto, config
from tests.auto.project import Project, called, has_stub, stubs_of

X = torch.tensor([1.0, 2.0])


# What is compiled


KINDS = """
import functools, torch

def plain(x):
    return x.sin() + 1

anonymous = lambda x: x * 2

def outer(x):
    def inner(y):
        return y + x
    return inner

def decorated_by(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * 2
    return wrapper

@decorated_by
def decorated(x):
    return x.cos()

class Base:
    def method(self, x):
        return x - 1

class Thing(Base):
    factor = 3.0
    def method(self, x):
        return super().method(x) * self.factor
    @staticmethod
    def static(x):
        return x.exp()
    @classmethod
    def of_class(cls, x):
        return x * cls.factor
    @property
    def value(self):
        return self.tensor.tanh()
    def __init__(self):
        self.tensor = torch.ones(2)
    def __call__(self, x):
        return x.abs() + self.tensor
    def __private(self, x):
        return x.neg()
    def private(self, x):
        return self.__private(x) + 1

def generate(x):
    y = x.sin()
    yield y
    yield y + 1

async def wait(x):
    return x.sinh()

def branches(x, flag=False, *, scale=2.0):
    if flag:
        return x * scale
    print("here")
    return x + scale
"""


def awaited(coroutine: Any) -> Any:
    with pytest.raises(StopIteration) as info:
        coroutine.send(None)
    return info.value.value


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("plain", lambda m, x: m.plain(x)),
        ("<lambda>", lambda m, x: m.anonymous(x)),
        ("outer.<locals>.inner", lambda m, x: m.outer(x)(x)),
        ("decorated_by.<locals>.wrapper", lambda m, x: m.decorated(x)),
        ("Thing.method", lambda m, x: m.Thing().method(x)),
        ("Thing.static", lambda m, x: m.Thing.static(x)),
        ("Thing.of_class", lambda m, x: m.Thing.of_class(x)),
        ("Thing.value", lambda m, x: m.Thing().value),
        ("Thing.__call__", lambda m, x: m.Thing()(x)),
        ("Thing.private", lambda m, x: m.Thing().private(x)),
        ("generate", lambda m, x: list(m.generate(x))),
        ("wait", lambda m, x: awaited(m.wait(x))),
        ("branches", lambda m, x: (m.branches(x), m.branches(x, True), m.branches(x, scale=x))),
    ],
)
def test_a_function_is_compiled(
    project: Project, capsys: pytest.CaptureFixture[str], name: str, run: Callable[..., Any]
) -> None:
    hooked = project.load("kinds", KINDS)
    auto.uninstall()
    plain = project.load("kinds_plain", KINDS)
    for k in range(5):
        wanted, output = run(plain, X + k), capsys.readouterr().out
        found = run(hooked, X + k)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert capsys.readouterr().out == output
    assert name in project.compiled


def test_what_runs_once_is_not_compiled(project: Project) -> None:
    module = project.load("once", "def f(x): return x.sin()")
    module.f(X)
    assert project.compiled == []
    module.f(X)
    assert project.compiled == ["f"]


def test_the_code_of_a_module_runs_as_it_is_and_calls_compiled_functions(project: Project) -> None:
    source = "import torch\ndef f(x): return x.sin()\ny = [f(torch.ones(2) * k) for k in range(3)]"
    module = project.load("loop", source)
    torch.testing.assert_close(torch.stack(module.y)[2], torch.full((2,), 2.0).sin())
    assert project.compiled == ["f"]


def test_a_compiled_function_has_the_emitters_code(project: Project) -> None:
    module = project.load("settles", "def f(x): return x.sin()")
    assert len(stubs_of(module.f)) == 1
    called(module.f, X)
    assert has_stub(module.f)
    assert stubs_of(module.f) == []


def test_closures_of_every_turn_share_what_is_compiled(project: Project) -> None:
    module = project.load(
        "turns",
        "def make(k):\n"
        "    def f(x):\n        y = x * 2\n        print(k)\n        return y.sin() + k\n"
        "    return f",
    )
    for k in range(6):
        torch.testing.assert_close(module.make(k)(X), (X * 2).sin() + k)
    assert "make.<locals>.f" in project.compiled


# What is given back


def test_a_function_without_tensors_gets_its_own_code_back(project: Project) -> None:
    module = project.load("numbers_only", "def f(a, b): return [a + b]\nclass C:\n  def m(self): 0")
    for function in (lambda: module.f(1, 2), module.C().m):
        called(function, times=20)
    assert not has_stub(module.f)
    assert not has_stub(module.C.m)
    assert project.compiled == []
    assert module.f(1, 2) == [3]


def test_a_closure_without_tensors_asks_no_more(project: Project) -> None:
    module = project.load("closures_only", "def make(k):\n    return lambda a: a + k")
    kept = module.make(3)
    (stub,) = map(weakref.ref, stubs_of(kept))
    assert called(kept, 4, times=16) == [7] * 16
    assert stub() is None
    assert stubs_of(module.make(5)) == []


def test_a_function_that_gives_no_graph_gets_its_own_code_back(project: Project) -> None:
    module = project.load("shapes", "def f(x): return list(x.shape)")
    assert called(module.f, X, times=30) == [[2]] * 30
    assert not has_stub(module.f)


def test_tensors_are_seen_in_containers_and_objects(project: Project) -> None:
    module = project.load("contained", "def f(c): return g(c).sin()\ndef g(c): return c['x'][0].t")
    holder = types.SimpleNamespace(t=X)
    called(module.f, {"x": [holder]})
    assert project.compiled == ["f"]


def test_objects_are_not_asked_whether_they_are_tensors(project: Project) -> None:
    class Touchy:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

    module = project.load("touchy", "def f(a): return 3")
    assert called(module.f, [Touchy()], times=20) == [3] * 20
    assert called(module.f, Touchy(), times=20) == [3] * 20


# What is left alone


def test_which_modules(project: Project) -> None:
    own = str(project.folder / "m.py")
    library = str(Path(torch.__file__))
    standard = str(Path(functools.__file__))
    default = auto.Selection()
    assert default.selects("m", own)
    assert not default.selects("torch", library)
    assert not default.selects("functools", standard)
    assert not default.selects("builtins", None)
    assert not default.selects("jitpkg.api", own)
    assert not default.selects("jitpkg", own)
    only = auto.Selection(include=("torch.nn", "m*"))
    assert only.selects("torch.nn.functional", library)
    assert only.selects("mm.k", own)
    assert not only.selects("torch.optim", library)
    assert not only.selects("other", own)
    but = auto.Selection(include=("m",), exclude=("m.secret*",))
    assert but.selects("m.open", own)
    assert not but.selects("m.secrets.deep", own)


def test_patterns_come_from_the_environment_and_from_code(project: Project) -> None:
    with config.patch(include="a, b.*,", exclude="c"):
        assert auto.install() == auto.Selection(("a", "b.*"), ("c",))
        assert auto.install(include=["x"], exclude=()) == auto.Selection(("x",), ())
    assert auto.install(exclude="left") == auto.Selection((), ("left",))
    assert not has_stub(project.load("left", "def f(): pass").f)
    assert has_stub(project.load("right", "def f(): return 3").f)


def test_nothing_is_stubbed_when_the_hook_is_gone(project: Project) -> None:
    auto.uninstall()
    assert not has_stub(project.load("late", "def f(): return 3").f)
    assert not [finder for finder in sys.meta_path if isinstance(finder, auto.Finder)]


def test_installing_twice_leaves_one_finder(project: Project) -> None:
    auto.install()
    auto.install()
    assert len([finder for finder in sys.meta_path if isinstance(finder, auto.Finder)]) == 1


def test_a_disabled_function_is_left_alone(project: Project) -> None:
    module = project.load(
        "disabled",
        "import jitpkg\n@jitpkg.disable\ndef f(x): return x.sin()\n"
        "def make():\n    @jitpkg.disable\n    def g(x): return x.cos()\n    return g\n"
        "g = make()",
    )
    called(module.f, X)
    called(module.g, X)
    assert project.compiled == []


def test_a_function_that_is_compiled_by_name_stays_so(project: Project) -> None:
    module = project.load(
        "named", "import jitpkg\n@jitpkg.jit(fullgraph=True)\ndef f(x): return x.sin()"
    )
    module.f(X)
    assert project.compiled == ["f"]
    called(module.f, X)
    assert project.compiled == ["f"]


def test_a_function_that_is_compiled_by_name_later(project: Project) -> None:
    module = project.load("named_later", "def f(x, n):\n    if n: print(n)\n    return x.sin()")
    called(module.f, X, 0)
    jitpkg.jit(module.f, fullgraph=True)
    code = module.f.__code__
    module.f(X, 0)
    assert module.f.__code__ is code
    with pytest.raises(jitpkg.errors.GraphBreak):
        module.f(X, 1)


def test_under_a_trace_function_nothing_is_compiled(project: Project) -> None:
    module = project.load("watched", "def f(x): return x.sin()")
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        called(module.f, X)
    finally:
        sys.settrace(before)
    assert project.compiled == []
    called(module.f, X)
    assert project.compiled == ["f"]


def test_when_compiling_is_disabled_functions_wait(project: Project) -> None:
    module = project.load("waiting", "def f(x): return x.sin()")
    with config.patch(disable=True):
        called(module.f, X, times=30)
    assert project.compiled == []
    called(module.f, X)
    assert project.compiled == ["f"]


# Loaders


def test_modules_of_a_zip_file(project: Project) -> None:
    archive = project.folder / "zipped.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_one.py", "def f(x): return x.sin()")
        file.writestr("zipped_two.py", "def f(x): return x.cos()")
    sys.path.insert(0, str(archive))
    project.names |= {"zipped_one", "zipped_two"}
    try:
        one, two = map(importlib.import_module, ("zipped_one", "zipped_two"))
    finally:
        sys.path.remove(str(archive))
    torch.testing.assert_close(called(one.f, X)[-1], X.sin())
    torch.testing.assert_close(called(two.f, X)[-1], X.cos())
    assert project.compiled == ["f", "f"]
    assert one.__loader__.get_source("zipped_one") == "def f(x): return x.sin()"


def test_a_namespace_package(project: Project) -> None:
    module = project.load("spaces.inner.module", "def f(x): return x.sin()")
    called(module.f, X)
    assert project.compiled == ["f"]
    assert importlib.import_module("spaces").__file__ is None


class Executing:
    """A loader that compiles and executes by itself, as pytest's does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        file = self.folder / f"{name}.py"
        if not name.startswith("own_") or not file.exists():
            return None
        return importlib.util.spec_from_file_location(name, file, loader=self)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        exec(compile(source, str(module.__file__), "exec"), module.__dict__)


def test_a_loader_that_executes_by_itself(project: Project) -> None:
    finder = Executing(project.folder)
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        project.load("first", "")  # the hook finds itself behind another
        module = project.load("own_kinds", KINDS)
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
    assert type(module.__loader__) is Executing
    for function in (module.plain, module.outer(X), module.Thing().method, module.Thing.static):
        called(function, X)
    called(module.decorated, X)
    assert {"plain", "outer.<locals>.inner", "Thing.method", "Thing.static"} < set(project.compiled)


def test_a_lazy_loader(project: Project) -> None:
    file = project.write("lazy", "def f(x): return x.sin()")
    loader = importlib.util.LazyLoader.factory(importlib.machinery.SourceFileLoader)("lazy", file)
    spec = importlib.util.spec_from_file_location("lazy", file, loader=loader)
    assert spec is not None
    auto.hook(spec, auto.Selection())
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    torch.testing.assert_close(called(module.f, X)[-1], X.sin())


def test_a_module_that_is_not_there(project: Project) -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'not_there'"):
        importlib.import_module("not_there")
    with pytest.raises(ZeroDivisionError):
        project.load("fails", "def f(): pass\n1 / 0")
    assert "fails" not in sys.modules


def test_a_module_seems_to_be_loaded_as_usual(project: Project) -> None:
    module = project.load("usual", "def f(): return 3")
    loader = module.__loader__
    assert type(loader) is importlib.machinery.SourceFileLoader
    assert module.__spec__.loader is loader
    assert loader.get_source("usual") == "def f(): return 3"
    assert module.__cached__.endswith(".pyc")
    assert [name for name in vars(module) if not name.startswith("__")] == ["f"]
    assert vars(module.f) == {}


COMPILES_BY_ITSELF = {
    "an option that is off": (
        "def train(model, compiled=False):\n    if compiled:\n"
        "        model = torch.compile(model)\n    return model"
    ),
    "at the top": "wanted = False\nif wanted:\n    f = torch.compile(f)",
    "a method of another library's": (
        "class Keras:\n    def compile(self, optimizer): return self\n"
        "model = Keras().compile('adam')"
    ),
    "a regular expression": "import re\npattern = re.compile('x')",
    "a query": (
        "class Query:\n    def compile(self, dialect): return str(dialect)\n"
        "def text(query): return query.compile(dialect='lite')\nassert text(Query()) == 'lite'"
    ),
    "a builtin": "three = eval(compile('1 + 2', '', 'eval'))",
    "an export that nobody calls": "def save(m, x): return torch.export.export(m, (x,))",
    "torch's compiler is imported": "import torch._dynamo\nfrom torch import compile",
    "a decorated neighbour": "@torch.compile(backend='eager')\ndef other(x): return x * 2",
    "ours": "import jitpkg\nother = jitpkg.compile(lambda x: x * 2)",
}


@pytest.mark.parametrize("what", COMPILES_BY_ITSELF)
def test_a_module_that_compiles_something_by_itself_is_compiled(
    project: Project, what: str
) -> None:
    source = f"import torch\ndef f(x): return x.sin() + 1\n{COMPILES_BY_ITSELF[what]}"
    module = project.load("by_itself", source)
    torch.testing.assert_close(called(module.f, X)[-1], X.sin() + 1)
    assert project.compiled == ["f"]
    later = project.load("imported_later", "def g(x): return x.cos()")
    called(later.g, X)
    assert project.compiled == ["f", "g"]


def test_reload(project: Project) -> None:
    module = project.load("again", "def f(x): return x.sin()")
    old = module.f
    called(old, X)
    project.write("again", "def f(x): return x.cos()  # longer")
    importlib.reload(module)
    torch.testing.assert_close(called(module.f, X)[-1], X.cos())
    torch.testing.assert_close(called(old, X)[-1], X.sin())
    assert project.compiled == ["f", "f"]


def test_functions_pickle_by_name(project: Project) -> None:
    module = project.load("pickled", "def f(x): return x.sin()\nclass C:\n  def m(self): return 3")
    called(module.f, X)
    assert pickle.loads(pickle.dumps(module.f)) is module.f
    assert pickle.loads(pickle.dumps(module.C().m))() == 3


# Lifetimes


def test_what_is_compiled_dies_with_its_module(project: Project) -> None:
    gone = []
    for k in range(3):
        name = f"dies_{k}"
        module = project.load(
            name,
            "weight = [1]\ndef helper(x): return x * 2\n"
            "def f(x):\n    y = helper(x).sin()\n    print(weight)\n    return y + 1\n"
            "def make(k):\n    return lambda x: f(x) + k\nkept = make(3)",
        )
        for function in (module.f, module.helper, module.kept, module.make(2)):
            called(function, X)
        gone += [weakref.ref(module.f), weakref.ref(module.kept.__code__), weakref.ref(module)]
        del sys.modules[name], module, function
    gc.collect()
    assert [ref() for ref in gone] == [None] * len(gone)


def test_reset_drops_what_was_compiled(project: Project) -> None:
    module = project.load(
        "reset_me", "def f(x): return x.sin()\ndef make(): return lambda x: x + 1"
    )
    early = module.make()
    for _ in range(2):
        called(module.f, X)
        called(early, X)
        called(module.make(), X)
        assert sorted(project.compiled) == ["f", "make.<locals>.<lambda>"]
        jitpkg.reset()
        project.compiled.clear()
    torch.testing.assert_close(called(module.make(), X)[-1], X + 1)


def test_threads_that_begin_together(project: Project) -> None:
    module = project.load(
        "threads", "def f(x, n):\n    y = x * n\n    print(end='')\n    return y + 1"
    )
    found: list[Any] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        found.extend(called(module.f, X, 3, times=10))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    assert all(torch.equal(value, X * 3 + 1) for value in found)


def test_an_error_of_ours_is_a_warning(
    project: Project, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    module = project.load("unlucky", "def f(x): return x.sin()")
    monkeypatch.setattr("jitpkg.api.start", lambda *_: 1 / 0)
    with config.patch(strict=False):
        torch.testing.assert_close(called(module.f, X)[-1], X.sin())
    (warning,) = recwarn
    assert str(warning.message) == (
        "jitpkg could not compile f and runs the original code (ZeroDivisionError: division by"
        " zero)."
    )
    assert not has_stub(module.f)
