"""Second derivatives, as for a gradient penalty or a Hessian.

The backward half of a graph is kernels, which nobody can differentiate. Where its gradients are to
be differentiated (`create_graph=True`) eager code computes them, from the graph's inputs. These are
remembered by weak references: all other backward passes keep nothing alive for that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch.autograd.function import FunctionCtx

from jitpkg.codegen.aten.prepare import prepare
from jitpkg.codegen.aten.prepared import Prepared
from jitpkg.codegen.aten.traced import NO_GRAD, REPLACES
from jitpkg.codegen.aten.writes import STATISTICS
from jitpkg.codegen.autograd.unseen import is_unseen, with_history_of
from jitpkg.errors import BackendError
from jitpkg.facts.outcome import HIDDEN_WRITES
from jitpkg.internals import modes, tensors
from jitpkg.internals.ops import FUNCTIONAL_BATCH_NORM
from jitpkg.interrupts import from_outside

Function = Callable[..., Any]
Tangents = Sequence[torch.Tensor | None]
Gradients = Callable[[list[torch.Tensor | None]], Sequence[torch.Tensor | None]]
"""The gradients of a graph's inputs, given those of its results."""


Remembered = tuple[list[tensors.Reference], list[int]]
"""The inputs of one call of a graph, and their versions."""


def remembered(given: Sequence[Any]) -> Remembered | None:
    """The tensors among the inputs; None where one has no version, as in inference mode."""
    version, reference = tensors.VERSION.found(), tensors.references()
    if version is None:
        return None
    try:
        return list(map(reference, given)), list(map(version, given))
    except (TypeError, AttributeError) as error:  # of a number
        if from_outside(error):
            raise
        return remembered([x for x in given if isinstance(x, torch.Tensor)])
    except RuntimeError as error:
        if from_outside(error):
            raise
        return None


def numbers_among(given: Sequence[Any], inputs: Remembered | None) -> tuple[Any, ...]:
    """The inputs; None for each tensor."""
    if inputs is not None and len(inputs[0]) == len(given):
        return (None,) * len(given)
    return tuple(None if isinstance(x, torch.Tensor) else x for x in given)


def recalled(
    inputs: Remembered | None,
    again: Again | str,
    results: Sequence[int],
    edges: Sequence[tuple[Any, int]],
) -> tuple[torch.Tensor, ...]:
    """The inputs.

    Args:
        results: those that have gradients.
        edges: where autograd's node of the call leads to, for each.

    Raises:
        BackendError: they cannot be had. Gradients that do not hang together with the inputs would
            be taken for constants by whoever asks for the derivative by one of these.
    """
    if inputs is None:
        raise refusal("a tensor that it was given has no version (one made in inference mode)")
    references, versions = inputs
    found = tuple(map(tensors.referred, references))
    alive = tuple(x for x in found if x is not None)
    if len(alive) < len(found):
        raise refusal("a tensor that it was given is gone")
    version = tensors.VERSION.get()
    changed = {k for k, x in enumerate(alive) if version(x) != versions[k]}
    if not isinstance(again, str):
        changed |= again.written(alive)
    if changed and (isinstance(again, str) or not changed.isdisjoint(again.read(alive, results))):
        raise refusal("a tensor that it was given has been written to since")
    if not all(_leads_to(x, node) for x, (node, _) in zip(alive, edges, strict=True)):
        raise refusal("a tensor that it was given has got another history since")
    return alive


def _leads_to(x: torch.Tensor, node: Any) -> bool:
    """Whether gradients of a tensor go where they went when the graph was called."""
    if node is None:
        return True
    return node is x.grad_fn if x.grad_fn is not None else getattr(node, "variable", None) is x


def recorded(
    again: Again,
    given: Sequence[Any],
    inputs: Sequence[torch.Tensor],
    tangents: Sequence[tuple[int, torch.Tensor]],
) -> tuple[torch.Tensor | None, ...]:
    """The gradients by eager code, which has derivatives in turn.

    Args:
        given: all inputs; None for each tensor, of which `inputs` are.
        tangents: the gradients of results, each with the result's place.
    """
    places = [k for k, value in enumerate(given) if value is None]
    every = list(given)
    for k, x in zip(places, inputs, strict=True):
        every[k] = x.view_as(x) if x.requires_grad else x  # one input may be made of another
    with modes.NO_AUTOCAST.get()():  # as the graph was called, whatever the backward pass is under
        values = again(*every)
    wanted = [k for k in places if every[k].requires_grad]
    gradients = torch.autograd.grad(
        [values[k] for k, _ in tangents],
        [every[k] for k in wanted],
        [tangent for _, tangent in tangents],
        create_graph=True,
        allow_unused=True,
    )
    found: list[torch.Tensor | None] = [None] * len(given)
    for k, gradient in zip(wanted, gradients, strict=True):
        found[k] = gradient
    return tuple(found)


def refused(
    why: str, kernels: Gradients, inputs: Sequence[torch.Tensor], tangents: Tangents
) -> tuple[torch.Tensor | None, ...]:
    """The gradients, whose derivatives are refused in words that help."""
    apply: Function = _Refused.apply
    found: tuple[torch.Tensor | None, ...] = apply(why, kernels, len(inputs), *inputs, *tangents)
    return found


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, why: str, kernels: Gradients, inputs: int, *given: torch.Tensor | None
    ) -> Any:
        ctx.why = why
        return tuple(kernels(list(given[inputs:])))

    @staticmethod
    def backward(ctx: FunctionCtx, *_: torch.Tensor | None) -> Any:
        raise refusal(ctx.why)  # type: ignore[attr-defined]


def refusal(why: str) -> BackendError:
    """What is raised where second derivatives are asked for."""
    return BackendError(
        "A compiled graph has no second derivative, as for a gradient penalty or a Hessian, since"
        f' {why}: compile what is differentiated twice with backend="eager"'
    )


# The results once more

RANDOM, SIZES = "it draws random numbers", "sizes in it vary"


class Original:
    """A graph whose results are those that have gradients, and that writes to nothing: it is called
    as it is.

    Args:
        symbols: how many values of sizes follow the graph's own inputs.
    """

    def __init__(self, gm: fx.GraphModule, symbols: int = 0) -> None:
        self._gm = gm
        self._symbols = symbols

    def __call__(self, *inputs: Any) -> Sequence[torch.Tensor]:
        """The results once more."""
        results: Sequence[torch.Tensor] = self._gm.forward(*inputs[: len(inputs) - self._symbols])
        return results

    def read(self, inputs: Sequence[torch.Tensor], _: Sequence[int]) -> frozenset[int]:
        """The inputs of which these results are made."""
        return frozenset(range(len(inputs)))

    def written(self, _: Sequence[torch.Tensor]) -> frozenset[int]:
        """The inputs that the graph itself has written to."""
        return frozenset()


class Values:
    """A graph of which more is made than its results: what it comes to before anything is written.

    Args:
        prepared: the graph as it is prepared, where it is known; else it is when it is needed.
    """

    def __init__(self, gm: fx.GraphModule, prepared: Prepared | None = None) -> None:
        self._gm = gm
        self._prepared = prepared

    def __call__(self, *inputs: Any) -> Sequence[torch.Tensor]:
        """The results once more.

        Raises:
            BackendError: nothing computes them.
        """
        prepared = self._of(inputs)
        placeholders = prepared.graph.find_nodes(op="placeholder")
        made: dict[fx.Node, Any] = dict(zip(placeholders, inputs, strict=True))
        for node in prepared.graph.nodes:
            if node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
                with torch.set_grad_enabled(NO_GRAD not in node.meta):
                    made[node] = node.target(*args, **kwargs)
                if is_unseen(node) and (before := made[node.meta[REPLACES]]).requires_grad:
                    made[node] = with_history_of(before, made[node])
        return [made[node] for node in prepared.values]

    def read(self, inputs: Sequence[torch.Tensor], results: Sequence[int]) -> frozenset[int]:
        """The inputs of which these results are made: others may have been written to, as batch
        norm writes to its statistics."""
        prepared = self._of(inputs)
        below = {prepared.values[k] for k in results}
        for node in reversed(prepared.graph.nodes):
            if node in below:
                below.update(_read_by(node, below))
        placeholders = prepared.graph.find_nodes(op="placeholder")
        return frozenset(k for k, node in enumerate(placeholders) if node in below)

    def written(self, inputs: Sequence[torch.Tensor]) -> frozenset[int]:
        """The inputs that the graph itself has written to, which their versions may not tell."""
        return frozenset(write.input for write in self._of(inputs).writes)

    def _of(self, inputs: Sequence[torch.Tensor]) -> Prepared:
        if self._prepared is None:
            prepared = prepare(self._gm, list(inputs), None, trains=True)
            if isinstance(prepared, str):
                raise refusal(prepared)
            self._prepared = prepared
        return self._prepared


def _read_by(node: fx.Node, below: Collection[fx.Node]) -> list[fx.Node]:
    """What a node's value is made of. In training, the statistics of a batch norm are read only for
    what they become."""
    if node.target != FUNCTIONAL_BATCH_NORM.found() or not node.args[_TRAINING]:
        return node.all_input_nodes
    made = range(len(node.meta["facts"]) - len(STATISTICS))
    items = (user.args[1] for user in node.users if user in below and user.target is getitem)
    if not all(item in made for item in items):
        return node.all_input_nodes
    statistics = [node.args[k] for k in STATISTICS]
    return [each for each in node.all_input_nodes if each not in statistics]


_TRAINING = HIDDEN_WRITES["aten::native_batch_norm"]


Again = Original | Values
"""What computes a graph's results by eager code."""


def again_of(prepared: Prepared, symbols: int) -> Again | str:
    """What computes a graph's results by eager code; or why nothing does.

    Args:
        symbols: how many values of sizes follow the graph's own inputs.
    """
    if any("random" in node.meta for node in prepared.graph.nodes):
        return RANDOM
    if not symbols:
        return Values(prepared.original, prepared)
    return Original(prepared.original, symbols) if prepared.is_whole else SIZES
