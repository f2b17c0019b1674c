"""The cells of a notebook, run one after the other as IPython runs them, some of them twice.

$ python notebook.py
$ python notebook.py --compile
"""

import argparse
import ast
import importlib
import linecache
import os
import sys
import tempfile
import textwrap
import time
import traceback
import types

SETUP = """
    import math
    import torch
    from torch import nn
    import torch.nn.functional as F
    torch.manual_seed(0)
    jit = lambda f: f
"""

COMPILE = """
    import jitpkg
    jit = jitpkg.jit
"""

DATA = """
    x = torch.linspace(-3, 3, 64)[:, None]
    y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
    x.shape, y.shape
"""

ACTIVATION = """
    @jit
    def activation(x):
        return torch.tanh(x) * scale

    scale = 1.0
    activation(torch.ones(2))
"""

ACTIVATION_AGAIN = """
    @jit
    def activation(x):
        return F.gelu(x, approximate="tanh") * scale + x.sin()
    activation(torch.ones(2))
"""

MODEL = """
    class Net(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.lift = nn.Linear(1, width)
            self.drop = nn.Linear(width, 1)

        def forward(self, x):
            return self.drop(activation(self.lift(x)))

    net = jit(Net())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    sum(p.numel() for p in net.parameters())
"""

MODEL_AGAIN = """
    class Net(nn.Module):
        def __init__(self, width=16, layers=2):
            super().__init__()
            self.lift = nn.Linear(1, width)
            self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
            self.drop = nn.Linear(width, 1)

        def forward(self, x):
            h = self.lift(x)
            for layer in self.hidden:
                h = h + activation(layer(h))
            return self.drop(h)

    net = jit(Net())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    sum(p.numel() for p in net.parameters())
"""

STEP = """
    def train(steps):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
        return loss.item()
    round(train(STEPS), 4)
"""

SCALE = "scale = 0.5; activation(torch.ones(2))"

PATCH = """
    def forward(self, x):
        return self.drop(torch.relu(self.lift(x)))
    Net.forward = forward
    round(train(STEPS), 4)
"""

WRONG = "net(torch.ones(2, 3))"

FEATURES = """
    %autoreload
    import features
    round(features.fourier(x).abs().sum().item(), 3)
"""

FROM_FEATURES = """
    %autoreload
    from features import Fourier
    f = jit(Fourier(4))
    round(f(x).abs().sum().item(), 3), f.width
"""

FEATURES_FILE = """
    import torch

    BASE = {base}

    def fourier(x, count=4):
        return torch.cat([torch.{wave}(BASE ** k * x) for k in range(count)], dim=-1)

    class Fourier(torch.nn.Module):
        def __init__(self, count):
            super().__init__()
            self.count = count
            self.width = count * {times}

        def forward(self, x):
            return fourier(x, self.count) * {times}
"""

PLAN = [
    ("data", DATA),
    ("activation", ACTIVATION),
    ("model", MODEL),
    ("step", STEP),
    ("step", STEP),
    ("activation", ACTIVATION_AGAIN),
    ("step", STEP),
    ("scale", SCALE),
    ("step", STEP),
    ("model", MODEL_AGAIN),
    ("step", STEP),
    ("wrong", WRONG),
    ("patch", MODEL),
    ("patch", PATCH),
    ("activation", ACTIVATION),
    ("step", STEP),
]


class Notebook:
    """One namespace, `__main__` of a module of its own, and numbered cells."""

    def __init__(self, steps):
        self.module = sys.modules["__main__"] = types.ModuleType("__main__")
        self.module.STEPS = steps
        self.count = 0
        self.modified = {}
        self.folder = tempfile.TemporaryDirectory()
        sys.path.insert(0, self.folder.name)

    def run(self, name, source):
        self.count += 1
        source = textwrap.dedent(source).strip() + "\n"
        if source.startswith("%autoreload"):
            self.autoreload()
            source = source.partition("\n")[2]
        file = f"<ipython-input-{self.count}-{name}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        tree = ast.parse(source, file)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        began = time.perf_counter()
        try:
            exec(compile(tree, file, "exec"), vars(self.module))
            if last is not None:
                value = eval(compile(ast.Expression(last.value), file, "eval"), vars(self.module))
                vars(self.module)["_"] = value
                print(f"Out[{self.count}]: {value}")
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.line for frame in frames if frame.filename.startswith("<ipython")]
            print(f"{type(error).__name__}: {error}", *lines, sep="\n    ")
        print(
            f"step {self.count}: {1000 * (time.perf_counter() - began):.2f} ms ({name})",
            file=sys.stderr,
        )

    def write(self, name, text):
        file = os.path.join(self.folder.name, f"{name}.py")
        with open(file, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(text))
        changed = self.modified.get(name, 0) + 1
        os.utime(file, (changed, changed))
        self.modified[name] = changed
        importlib.invalidate_caches()

    def autoreload(self):
        """Reload what has changed, and give old functions and classes their new code."""
        for name in self.modified:
            module = sys.modules.get(name)
            if module is None or vars(module).get("__seen__") == self.modified[name]:
                continue
            before = dict(vars(module))
            importlib.reload(module)
            for key, old in before.items():
                self.update(old, vars(module).get(key))
            module.__seen__ = self.modified[name]

    def update(self, old, new):
        if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
            old.__code__ = new.__code__
            old.__defaults__ = new.__defaults__
            old.__dict__ = new.__dict__
        elif isinstance(old, type) and isinstance(new, type) and old is not new:
            for key, value in list(vars(old).items()):
                replacement = vars(new).get(key)
                if isinstance(value, types.FunctionType):
                    self.update(value, replacement)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="of training, each time")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    notebook = Notebook(args.steps)
    notebook.run("setup", SETUP)
    if args.compile:
        notebook.run("compile", COMPILE)
    else:
        notebook.count += 1
    for _ in range(args.rounds):
        for name, source in PLAN:
            notebook.run(name, source)
        for wave, base, times in (("sin", 2.0, 1), ("cos", 2.0, 1), ("cos", 1.5, 3)):
            notebook.write("features", FEATURES_FILE.format(wave=wave, base=base, times=times))
            notebook.run("features", FEATURES)
            notebook.run("fourier", FROM_FEATURES)
            notebook.run("same", "round(f(x * 2).abs().sum().item(), 3)")


if __name__ == "__main__":
    main()
