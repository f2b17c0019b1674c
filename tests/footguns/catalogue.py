"""Finds the cases and evaluates them, one at a time, from a clean state."""

import random
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

Compile = Callable[[Any], Any]
Case = Callable[[Compile], object]

FILES = (
    "a_guards",
    "b_side_effects",
    "c_tensors",
    "d_breaks",
    "e_data_model",
    "f_global_state",
    "g_shapes",
    "h_modules",
    "i_callables",
    "j_frames",
)
EAGER_VALUES = Path(__file__).with_name("eager.txt")
"""What each case gives in eager mode, one line each: the same on every Python."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Implementation:
    """A compiler under test; by default none, which is eager mode."""

    compile: Compile = lambda f: f
    graph_break: Callable[[], None] = _nothing
    reset: Callable[[], None] = _nothing


EAGER = Implementation()


def _modules() -> Iterator[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # one case compares strings by `is`
        for file in FILES:
            yield import_module(f"tests.footguns.cases.{file}")


def _cases(module: ModuleType) -> dict[str, Case]:
    return {name: f for name, f in vars(module).items() if re.match(r"[A-Z]\d\d_", name)}


MODULES = tuple(_modules())
CASES: dict[str, Case] = {n: f for module in MODULES for n, f in _cases(module).items()}


def evaluate(name: str, implementation: Implementation = EAGER) -> str:
    """The case's value, as text.

    Raises:
        BaseException: whatever the case lets out; none does in eager mode.
    """
    with _clean_state(), _graph_break(implementation.graph_break):
        implementation.reset()
        return repr(CASES[name](implementation.compile))


@contextmanager
def _graph_break(graph_break: Callable[[], None]) -> Iterator[None]:
    """The implementation's own function, as a global of the cases: no wrapper is between."""
    users = [module for module in MODULES if "graph_break" in vars(module)]
    before = [module.graph_break for module in users]
    for module in users:
        module.graph_break = graph_break
    try:
        yield
    finally:
        for module, known in zip(users, before, strict=True):
            module.graph_break = known


@contextmanager
def _clean_state() -> Iterator[None]:
    """Seeds, and what a case may leave behind when it fails."""
    dtype = torch.get_default_dtype()
    threads = torch.get_num_threads()
    grad = torch.is_grad_enabled()
    torch.manual_seed(0)
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
            torch.set_grad_enabled(grad)


def eager_values() -> dict[str, str]:
    """The eager values that were written down."""
    lines = EAGER_VALUES.read_text(encoding="utf-8").splitlines()
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}
