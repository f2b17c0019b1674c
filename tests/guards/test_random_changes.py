"""Random nested objects are changed between calls; compiled code must see what eager code sees.

A graph of lists, dicts, objects, tensors, modules and numbers is built from a recipe, twice:
one copy for eager code, one for compiled code. A program walks it by random paths, reads, and now
and then writes. Between calls random steps change both copies in the same way: items, keys, order,
attributes, classes, shapes, aliases. After each call results and graphs must agree.
"""

import collections
import types
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitpkg
from jitpkg import config, events
from tests.guards.support import described
from tests.portions import share

X = torch.tensor([1.0, 2.0])


class Node:
    """An object with attributes."""

    scale = 1

    def weight(self) -> int:
        return self.scale


class Heavy(Node):
    """One whose class says something else."""

    scale = 3

    def weight(self) -> int:
        return super().weight() + 1


class Slotted:
    __slots__ = ("a", "b")


class Items(list):
    """A list of a class of its own."""


NAMES = "ab"
NUMBERS = st.sampled_from([0, 1, 2, True, 1.0, -0.0, 0.0, 2.5, "a", "bc", None])

Recipe = Any
"""How to build something: a kind, and what is in it."""

LEAVES = st.one_of(
    st.tuples(st.just("number"), NUMBERS),
    st.tuples(st.just("tensor"), st.sampled_from([(2,), (1,), (2, 2), ()])),
    st.tuples(st.just("parameter"), st.just((2,))),
    st.tuples(st.just("shared"), st.integers(0, 3)),
    st.tuples(st.just("function"), st.integers(0, 2)),
)


def containers(parts: st.SearchStrategy[Recipe]) -> st.SearchStrategy[Recipe]:
    some = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["list", "items", "tuple", "deque"]), some),
        st.tuples(st.sampled_from(["dict", "ordered", "default"]), some),
        st.tuples(st.sampled_from(["node", "heavy", "slotted", "namespace", "module"]), some),
    )


RECIPES = st.recursive(LEAVES, containers, max_leaves=8)


def made(recipe: Recipe, shared: list[Any]) -> Any:
    """What a recipe says. What is shared was made before."""
    kind, detail = recipe
    match kind:
        case "number":
            return detail
        case "tensor":
            return torch.ones(detail)
        case "parameter":
            return torch.nn.Parameter(torch.ones(detail))
        case "shared":
            return shared[detail % len(shared)] if shared else detail
        case "function":
            return (lambda k: lambda v: v + k)(detail)
    parts = []
    for part in detail:
        parts.append(made(part, shared))
        shared.append(parts[-1])
    return assembled(kind, parts)


def assembled(kind: str, parts: list[Any]) -> Any:
    match kind:
        case "list":
            return parts
        case "items":
            return Items(parts)
        case "tuple":
            return tuple(parts)
        case "deque":
            return collections.deque(parts)
        case "dict":
            return dict(zip("abc", parts, strict=False))
        case "ordered":
            return collections.OrderedDict(zip("cba", parts, strict=False))
        case "default":
            return collections.defaultdict(int, zip("abc", parts, strict=False))
        case "module":
            module = torch.nn.Module()
            for name, part in zip("abc", parts, strict=False):
                setattr(module, name, part)
            return module
    cls = {"node": Node, "heavy": Heavy, "slotted": Slotted}.get(kind, types.SimpleNamespace)
    o = cls()
    for name, part in zip("ab", parts, strict=False):
        setattr(o, name, part)
    return o


# Reading


def total(value: Any, x: torch.Tensor, depth: int = 0) -> torch.Tensor:
    """Walks everything, and adds something for all that it meets."""
    if depth > 5:
        return x
    match value:
        case None:
            return x - 1
        case bool():
            return x + 10 if value else x
        case int() | float():
            return x * 2 + value
        case str():
            return x + len(value)
        case torch.Tensor():
            return x + value.sum() + value.dim()
        case list() | tuple() | collections.deque():
            for item in value:
                x = total(item, x, depth + 1) * 1.5
            return x
        case dict():
            for key, item in value.items():
                x = total(item, x, depth + 1) + len(key)
            return x
        case torch.nn.Module():
            for parameter in value.parameters(recurse=False):
                x = x + parameter.sum()
            return total(getattr(value, "a", 7), x, depth + 1)
        case Node():
            return total(getattr(value, "a", 7), x, depth + 1) * value.weight()
        case Slotted() | types.SimpleNamespace():
            return total(getattr(value, "b", 5), x, depth + 1)
        case types.FunctionType():
            return value(x)
    return x


Step = tuple[str, Any]

READS = st.lists(
    st.one_of(
        st.tuples(st.just("item"), st.integers(-2, 2)),
        st.tuples(st.just("key"), st.sampled_from("abc")),
        st.tuples(st.just("attribute"), st.sampled_from(NAMES)),
        st.tuples(st.just("last"), st.just(0)),
    ),
    max_size=3,
)


def at(value: Any, path: list[Step]) -> Any:
    """What lies at the end of a path, or where the path leads nowhere."""
    for kind, name in path:
        if kind == "item" and isinstance(value, list | tuple | collections.deque):
            if not -len(value) <= name < len(value):
                return value
            value = value[name]
        elif kind == "key" and isinstance(value, dict):
            if name not in value:
                return value
            value = value[name]
        elif kind == "attribute" and hasattr(value, name):
            value = getattr(value, name)
        elif kind == "last" and isinstance(value, dict) and value:
            value = list(value.values())[-1]
    return value


def reads_everything(root: Any, path: list[Step], x: torch.Tensor) -> Any:
    return total(root, x)


def reads_a_path(root: Any, path: list[Step], x: torch.Tensor) -> Any:
    found = at(root, path)
    return total(found, x), type(found).__name__, found is root


def writes_at_a_path(root: Any, path: list[Step], x: torch.Tensor) -> Any:
    found = at(root, path)
    y = total(found, x)
    if isinstance(found, list):
        found.append(len(found))
    elif isinstance(found, dict):
        found["new"] = len(found)
    elif isinstance(found, Node):
        found.a = found.weight()
    elif isinstance(found, torch.Tensor) and not found.requires_grad:
        found.add_(1)
    return y, total(root, y)


def compares(root: Any, path: list[Step], x: torch.Tensor) -> Any:
    found = at(root, path)
    facts = [
        isinstance(found, (list, dict)),
        isinstance(found, Node),
        hasattr(found, "a"),
        callable(found),
        found is None,
        bool(found) if isinstance(found, (list, dict, tuple, int, str)) else None,
        len(found) if isinstance(found, (list, dict, tuple)) else None,
    ]
    return x + sum(fact is True for fact in facts), facts


PROGRAMS: list[Callable[..., Any]] = [reads_everything, reads_a_path, writes_at_a_path, compares]


# Changing


CHANGES = st.lists(
    st.tuples(
        READS,
        st.sampled_from(
            """
            set append pop clear reverse reorder alias class shape dtype values grad attribute
            delete train dictionary rebind
            """.split()
        ),
        RECIPES,
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)


def change(root: Any, path: list[Step], kind: str, recipe: Recipe, k: int) -> None:
    """Change what lies at a path; what cannot be changed so stays."""
    target = at(root, path)
    new = made(recipe, [root])
    match target:
        case list() | collections.deque():
            change_sequence(target, kind, new, k, root)
        case dict():
            change_mapping(target, kind, new, "abc"[k % 3], root)
        case torch.Tensor():
            change_tensor(target, kind, k)
        case torch.nn.Module() if kind == "train":
            target.train(not target.training)
        case Node() | Slotted() | types.SimpleNamespace() | torch.nn.Module():
            change_object(target, kind, new, NAMES[k % 2], root)


def change_sequence(target: Any, kind: str, new: Any, k: int, root: Any) -> None:
    match kind:
        case "append" | "attribute":
            target.append(new)
        case "pop" if target:
            target.pop()
        case "clear":
            target.clear()
        case "reverse" | "reorder":
            target.reverse()
        case "alias" if len(target) > 1:
            target[0] = target[-1]
        case "set" if target:
            target[k % len(target)] = new


def change_mapping(target: Any, kind: str, new: Any, key: str, root: Any) -> None:
    match kind:
        case "set" | "append" | "attribute":
            target[key] = new
        case "pop" | "delete":
            target.pop(key, None)
        case "clear":
            target.clear()
        case "reorder" if key in target:
            target[key] = target.pop(key)
        case "alias" if len(target) > 1:
            first, *_, last = target
            target[first] = target[last]


def change_tensor(target: torch.Tensor, kind: str, k: int) -> None:
    match kind:
        case "shape":
            target.data = torch.ones([(3,), (2, 2), (), (0,)][k])
        case "dtype" if not target.requires_grad:
            target.data = target.data.to([torch.float64, torch.float32, torch.int64, torch.half][k])
        case "values":
            target.data.fill_(k)
        case "grad" if target.is_floating_point():
            target.requires_grad_(not target.requires_grad)


def change_object(target: Any, kind: str, new: Any, name: str, root: Any) -> None:
    match kind:
        case "set" | "attribute" | "append":
            if isinstance(target, torch.nn.Module) and hasattr(target, name):
                delattr(target, name)
            setattr(target, name, new)
        case "delete" | "pop" if hasattr(target, name):
            delattr(target, name)
        case "class" if type(target) is Node:
            target.__class__ = Heavy
        case "class" if type(target) is Heavy:
            target.__class__ = Node
        case "dictionary" if isinstance(target, Node):
            target.__dict__ = {name: new}
        case "alias" if hasattr(target, "a") and isinstance(target, Node):
            target.b = target.a


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return described(f(*args))
    except Exception as error:
        return type(error).__name__, str(error)


def state(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Everything in a graph of objects, with who is the same object as whom."""
    seen = {} if seen is None else seen
    if not isinstance(value, int | float | str | None):
        if id(value) in seen:
            return "seen", seen[id(value)]
        seen[id(value)] = len(seen)
    match value:
        case list() | tuple() | collections.deque():
            return type(value).__name__, [state(item, seen) for item in value]
        case dict():
            return type(value).__name__, [(k, state(v, seen)) for k, v in value.items()]
        case torch.nn.Module():
            names = [n for n in NAMES if hasattr(value, n)]
            return "Module", value.training, [(n, state(getattr(value, n), seen)) for n in names]
        case Node() | types.SimpleNamespace():
            return type(value).__name__, [(k, state(v, seen)) for k, v in vars(value).items()]
        case Slotted():
            return "Slotted", [state(getattr(value, name, "unset"), seen) for name in NAMES]
        case types.FunctionType():
            return "function", value.__closure__[0].cell_contents
    return described(value)


@settings(
    max_examples=share(150, 2),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    recipe=containers(RECIPES),
    program=st.sampled_from(PROGRAMS),
    path=READS,
    changes=CHANGES,
)
def test_changed_graphs_of_objects(
    recipe: Recipe, program: Callable[..., Any], path: list[Step], changes: list[Any]
) -> None:
    eager, compiled = made(recipe, []), made(recipe, [])
    plain = types.FunctionType(program.__code__, program.__globals__, program.__name__)
    f = jitpkg.jit(types.FunctionType(program.__code__, program.__globals__, program.__name__))
    errors: list[BaseException] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.FellBack):
            errors.append(event.error)

    with events.STREAM.listening(listen), config.patch(recompile_limit=20):
        for step in [None, *changes, None]:
            if step is not None:
                change(eager, *step)
                change(compiled, *step)
            assert state(compiled) == state(eager)
            assert outcome(f, compiled, path, X) == outcome(plain, eager, path, X)
            assert state(compiled) == state(eager)
    assert not errors
