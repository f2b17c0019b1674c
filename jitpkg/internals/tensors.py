"""What only the tensor itself knows: its versions, its base, its place in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import torch

from jitpkg.internals import modes
from jitpkg.internals.row import Attribute, Row

_NO_FACTS = "nothing is known of what ops write to: each breaks the graph"

VERSION = Attribute[int](
    "torch.Tensor._version", use="seeing that a tensor was written to", lost=_NO_FACTS
)
BASE = Attribute[Any](
    "torch.Tensor._base",
    use="seeing that a tensor is a view, and of what",
    lost="graphs that return views of inputs run op by op; jitpkg.testing compares no views",
)


def _objects() -> Callable[[Any], int]:
    """A storage is one object of Python's for as long as it lives, whoever asks for it."""
    tensor = torch.zeros(2)
    one = id(tensor.untyped_storage())
    if id(tensor.view(2, 1).untyped_storage()) != one:
        raise RuntimeError("storages have no identity")
    return id


STORAGE_ADDRESS = Attribute[int](
    "torch.UntypedStorage._cdata",
    use="seeing that tensors share memory",
    lost="Python's identity of the storages says so; results of kernels lie in memory of torch's",
    instead=_objects,
)
ADDRESS = Attribute[int](
    "torch.Tensor._cdata",
    use="trying where native code finds what a tensor consists of",
    lost="kernels are called with pointers, which is slower",
)
GENERATOR_ADDRESS = Attribute[int](
    "torch.Generator._cdata",
    use="finding where a generator's words lie, from which compiled code draws masks",
    lost="ATen draws the masks of dropout, as eager code does",
)
KEYS = Row[Callable[[Any], Any]](
    "torch._C._dispatch_keys",
    use="trying where native code finds a tensor's dispatch keys",
    lost="torch's own function compares all tensors of an entry, in 100 ns each",
)


def _by_public_means() -> Callable[..., Any]:
    def run(results: Any, tangents: Any, keep: bool, create: bool, inputs: Any, *_: bool) -> Any:
        return torch.autograd.grad(results, inputs, tangents, keep, create, allow_unused=True)

    return run


ENGINE = Row[Callable[..., Any]](
    "torch.autograd.graph._engine_run_backward",
    use="asking for the gradients of a graph while it is compiled",
    lost="torch.autograd.grad is asked, which imports sympy, in half a second",
    instead=_by_public_means,
)


def _always() -> Callable[[Any], bool]:
    return lambda _: True


WILL_RUN = Row[Callable[[Any], bool]](
    "torch._C._will_engine_execute_node",
    use="seeing, in a backward pass, whether gradients are returned",
    lost="a gradient that several inputs get is copied for all but one of them at each call",
    instead=_always,
)


AUTOGRAD_NUMBER = Row[Callable[[], int]](
    "torch._C._autograd._get_sequence_nr",
    use="seeing, while a graph is compiled, what is written to after it was saved for gradients",
    lost="training goes through AOTAutograd",
)
AUTOGRAD_NODE = Row[Callable[[], Any]](
    "torch._C._current_autograd_node",
    use="the same",
    lost="training goes through AOTAutograd",
)


def next_number() -> int:
    """Which number autograd gives to the next op that it sees in this thread."""
    return AUTOGRAD_NUMBER.get()()


def number_of_formula() -> int:
    """The number of the op whose formula runs."""
    node = AUTOGRAD_NODE.get()()
    return 0 if node is None else int(node._sequence_nr())


def gradients(
    results: Any, tangents: Any, inputs: Any, *, keep: bool = False, create: bool = False
) -> Any:
    """The gradients of inputs, from those of results; None for what is not used.

    Args:
        keep: whether they can be asked for again.
        create: whether they have a history.
    """
    run = ENGINE.get()
    return run(
        tuple(results), tuple(tangents), keep, create, tuple(inputs), True, accumulate_grad=False
    )


IS_VIEW = Row[Callable[[Any], bool]](
    "torch.Tensor._is_view",
    use="saving results for the backward pass without what they are views of",
    lost="every tensor is detached before it is saved, which is slower",
    instead=_always,
)
FIX_REFERENCE = Row[Callable[[Any], None]](
    "torch.Tensor._fix_weakref",
    use="finding the inputs of a graph again for second derivatives",
    lost="a graph's inputs live until its results do not",
)

Reference = Callable[[], torch.Tensor | None]


def references() -> Callable[[torch.Tensor], Reference]:
    """What makes a weak reference to a tensor."""
    return ref if FIX_REFERENCE.found() is not None else _held


def _held(x: torch.Tensor) -> Reference:
    return lambda: x


def referred(reference: Reference) -> torch.Tensor | None:
    """What a reference is to; None where it is gone. A tensor whose object Python had let go of,
    while C++ held it, is held by Python again."""
    found, fix = reference(), FIX_REFERENCE.found()
    if found is not None and fix is not None:
        fix(found)
    return found


HOOKS = Attribute[Any](
    "torch.Tensor._backward_hooks",
    use="copying a tensor with its hooks",
    lost="jitpkg.testing copies tensors without their hooks; backward() breaks the graph",
)
HOOKS_BEHIND = Attribute[Any](
    "torch.Tensor._post_accumulate_grad_hooks",
    use="seeing that a leaf has a hook, where backward() is part of a graph",
    lost="backward() breaks the graph",
)
VIEW_OF = Row[Callable[[Any, Any], Any]](
    "torch.Tensor._view_func",
    use="copying a view as one of the copy of its base",
    lost="jitpkg.testing copies views as strided ones, with another history",
)


def _by_alias() -> Callable[..., Any]:
    def make(cls: type, data: torch.Tensor, requires_grad: bool) -> torch.Tensor:
        return data.as_subclass(cls).requires_grad_(requires_grad)

    return make


MAKE_SUBCLASS = Row[Callable[..., Any]](
    "torch.Tensor._make_subclass",
    use="copying a tensor of a subclass",
    lost="as_subclass does it",
    instead=_by_alias,
)
NEGATED = Row[Callable[[Any], Any]](
    "torch._neg_view",
    use="copying a tensor that is lazily negated",
    lost="jitpkg.testing does not copy such tensors",
)
CREATION = Row[Callable[[Any], Any]](
    "torch._C._autograd._get_creation_meta",
    use="seeing how a view was taken, to which eager code may refuse to write",
    lost="graphs that return views without gradients run op by op",
)
IS_TRANSFORMED = Row[Callable[[Any], bool]](
    "torch._C._functorch.is_functorch_wrapped_tensor",
    use="seeing that a tensor is wrapped by a function transform",
    lost="every tensor breaks the graph",
)


def memory(tensor: Any) -> int:
    """What tensors have in common that share memory, as long as one of them lives."""
    return STORAGE_ADDRESS.get()(tensor.untyped_storage())


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether a tensor, real or fake, is a leaf, without a look at the history of a view.

    Autograd makes that when it is asked for, after a write to the base. Until then eager code takes
    the view for a leaf: it refuses to write to it, and does not warn of its `.grad`. (It is one if
    the base has come to require grad since, and was not written to.)

    Raises:
        RuntimeError: it is a view that has no history to ask for.
    """
    if tensor.requires_grad:
        base_of, creation_of = BASE.found(), CREATION.found()
        base = None if base_of is None else base_of(tensor)
        if base is not None and creation_of is not None:
            with modes.unasked(base):
                if base.requires_grad and not int(creation_of(tensor)):
                    return bool(base.is_leaf and not VERSION.get()(tensor) and tensor.is_leaf)
    return tensor.is_leaf
