"""What `torch.func`'s transforms do: what they are given is called once, inside a level.

Arguments come in by an `enter_…`, which makes tensors of the level of them; results go out by a
`leave_…`, which makes one op of all that the graph has got in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

Function = Callable[..., Any]
Tensors = tuple[Tensor, ...]

# vmap


def vmap(
    func: Function,
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """What a function calls that `torch.func.vmap` has returned."""
    if not args:
        refused("vmap of a call without arguments, which raises")
    leaves, structure = flatten(args)
    dims: list[int | None] = []
    _spread(in_dims, args, dims)
    sizes = []
    for k, leaf in enumerate(leaves):
        dim = dims[k]
        if dim is None:
            continue
        if not torch.is_tensor(leaf) or not -leaf.dim() <= dim < leaf.dim():
            refused("in_dims that do not fit, which raises")
        dims[k] = dim % leaf.dim()
        sizes.append(leaf.size(dim))
    if not sizes or any(size != sizes[0] for size in sizes):
        refused("nothing to map over, or tensors of different sizes, which raises")
    if chunk_size is None:
        return _mapped(func, leaves, structure, dims, out_dims, randomness, kwargs)
    if randomness == "same" or chunk_size < 1:
        refused("chunks that draw the same numbers")
    made = []
    for first in range(0, sizes[0], chunk_size):
        length = min(chunk_size, sizes[0] - first)
        chunk = [
            leaf if dim is None else leaf.narrow(dim, first, length)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
        made.append(flatten(_mapped(func, chunk, structure, dims, out_dims, randomness, kwargs)))
    out: list[int | None] = []
    structure = made[0][1]
    _spread(out_dims, unflatten(made[0][0], structure), out)
    joined = []
    for k, dim in enumerate(out):
        if dim is None:
            refused("chunks of what is not mapped")
        joined.append(torch.cat([leaves[k] for leaves, _ in made], dim=dim))
    return unflatten(joined, structure)


def _mapped(
    func: Function,
    leaves: Sequence[Any],
    structure: Any,
    dims: Sequence[int | None],
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> Any:
    inner = enter_vmap(tuple(leaves), tuple(dims), randomness)
    result = called(func, unflatten(inner, structure), kwargs)
    made, structure = flatten(result)
    out: list[int | None] = []
    if torch.is_tensor(result) and isinstance(out_dims, tuple):
        if len(out_dims) != 1:
            refused("out_dims that do not fit, which raises")
        out_dims = out_dims[0]
    _spread(out_dims, result, out)
    for each, dim in zip(made, out, strict=True):
        if dim is not None and not torch.is_tensor(each):
            refused("what is no tensor is returned, which raises")
    return unflatten(
        _passed_by(made, leave_vmap(_tensors(made), _of_tensors(made, out))), structure
    )


def _of_tensors(made: Sequence[Any], dims: Sequence[int | None]) -> tuple[int | None, ...]:
    return tuple([dim for each, dim in zip(made, dims, strict=True) if torch.is_tensor(each)])


def _spread(dims: Any, tree: Any, found: list[int | None]) -> None:
    """One dim for each leaf."""
    if dims is None or type(dims) is int:
        found.extend([dims] * len(flatten(tree)[0]))
    elif type(dims) in (tuple, list) and type(tree) is type(dims) and len(dims) == len(tree):
        for each, part in zip(dims, tree, strict=True):
            _spread(each, part, found)
    elif type(dims) is dict and type(tree) is dict and dims.keys() == tree.keys():
        for key in tree:
            _spread(dims[key], tree[key], found)
    else:
        refused("dims that are not built like what they are for")


def called(func: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    """What a function returns inside of a level."""
    try:
        return func(*args, **kwargs)
    except BaseException:
        refused("an exception inside")


def _tensors(leaves: Sequence[Any]) -> Tensors:
    return tuple([each for each in leaves if torch.is_tensor(each)])


def _passed_by(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    """The leaves with these tensors, in order, in place of their own."""
    left = list(tensors)
    found = []
    for each in leaves:
        if torch.is_tensor(each):
            found.append(left.pop(0))
        elif each is None or type(each) in (int, float, bool, str, complex):
            found.append(each)
        else:
            refused("what is no tensor is returned")
    return found


# grad


def grad(
    func: Function, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The same of `torch.func.grad`."""
    gradients, value = grad_and_value(func, argnums, has_aux, args, kwargs)
    return (gradients, value[1]) if has_aux else gradients


def grad_and_value(
    func: Function, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The same of `torch.func.grad_and_value`."""
    chosen, wanted = _chosen(args, argnums)
    leaves, structure = flatten((args, kwargs))
    inner = enter_grad(tuple(leaves), wanted)
    given = unflatten(inner, structure)
    with torch.enable_grad():
        result = called(func, given[0], given[1])
    output, aux = _with_aux(result, has_aux)
    if not torch.is_tensor(output) or output.dim() != 0:
        refused("a result that is no number, which raises")
    others = _leaves(aux)
    made = leave_grad((output, *others))
    count = len(wanted)
    gradients = unflatten(list(made[:count]), flatten(chosen)[1])
    if has_aux:
        return gradients, (made[count], unflatten(list(made[count + 1 :]), flatten(aux)[1]))
    return gradients, made[count]


def _with_aux(result: Any, has_aux: bool) -> tuple[Any, Any]:
    if not has_aux:
        return result, ()
    if not isinstance(result, tuple) or len(result) != 2:
        refused("has_aux, and no pair is returned, which raises")
    return result


def _leaves(aux: Any) -> list[Any]:
    """The tensors in what a function returns besides."""
    leaves = flatten(aux)[0]
    if not all(torch.is_tensor(each) for each in leaves):
        refused("what is no tensor is returned besides, which raises")
    return leaves


def _chosen(args: tuple[Any, ...], argnums: Any) -> tuple[Any, tuple[int, ...]]:
    """Those arguments, and which of all leaves theirs are."""
    numbers = argnums if type(argnums) is tuple else (argnums,)
    counts = [len(flatten(each)[0]) for each in args]
    wanted: list[int] = []
    chosen = []
    for number in numbers:
        if type(number) is not int or not -len(args) <= number < len(args):
            refused("argnums that do not fit, which raises")
        k = number % len(args)
        first = sum(counts[:k])
        wanted.extend(range(first, first + counts[k]))
        chosen.append(args[k])
    if not wanted or len(set(wanted)) < len(wanted):
        refused("argnums without a tensor, or twice the same")
    return chosen[0] if type(argnums) is int else tuple(chosen), tuple(wanted)


# vjp, jvp


def vjp(func: Function, /, *primals: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """`torch.func.vjp`; with regard to some arguments, what `jacrev` calls."""
    numbers = tuple(range(len(primals))) if argnums is None else argnums
    chosen, wanted = _chosen(primals, numbers)
    leaves, structure = flatten(primals)
    inner = enter_grad(tuple(leaves), wanted)
    given = unflatten(inner, structure)
    with torch.enable_grad():
        result = called(func, given, {})
    output, aux = _with_aux(result, has_aux)
    results, output_structure = flatten(output)
    if not results or not all(torch.is_tensor(x) and _is_smooth(x) for x in results):
        refused("a result that is no tensor of floats, which raises")
    others = _leaves(aux)
    pullback, made = leave_vjp((*results, *others), len(results))
    pull = _pulling(pullback, output_structure, flatten(chosen)[1])
    output = unflatten(list(made[: len(results)]), output_structure)
    if has_aux:
        return output, pull, unflatten(list(made[len(results) :]), flatten(aux)[1])
    return output, pull


def _pulling(pullback: Any, results: Any, chosen: Any) -> Function:
    """
    Args:
        results: their structure.
        chosen: that of what is differentiated by.
    """

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, found = flatten(cotangents)
        if found != results or not all(torch.is_tensor(each) for each in given):
            refused("cotangents that are not built like the results, which raises")
        if create_graph is not None and create_graph is not torch.is_grad_enabled():
            refused("create_graph that is not as grad mode")
        return unflatten(list(pulled(pullback, tuple(given))), chosen)

    return pull


def _is_smooth(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def jvp(
    func: Function,
    primals: Any,
    tangents: Any,
    argnums: Any = None,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`torch.func.jvp`; with regard to some arguments, what `jacfwd` calls."""
    if strict:
        refused("jvp with strict=True")
    if not isinstance(primals, tuple):
        refused("primals that are no tuple, which raises")
    numbers = tuple(range(len(primals))) if argnums is None else argnums
    numbers = (numbers,) if type(numbers) is int else numbers
    chosen, wanted = _chosen(primals, numbers)
    leaves, structure = flatten(primals)
    directions, found = flatten(tangents)
    if found != flatten(chosen)[1] or not all(torch.is_tensor(each) for each in directions):
        refused("tangents that are not built like the primals, which raises")
    inner = enter_jvp(tuple(leaves), wanted, tuple(directions))
    output, aux = _with_aux(called(func, unflatten(inner, structure), {}), has_aux)
    results, output_structure = flatten(output)
    if not results or not all(torch.is_tensor(each) for each in results):
        refused("a result that is no tensor, which raises")
    others = _leaves(aux)
    made = leave_jvp((*results, *others), len(results))
    count = len(results)
    values = unflatten(list(made[:count]), output_structure)
    derivatives = unflatten(list(made[count : 2 * count]), output_structure)
    if has_aux:
        return values, derivatives, unflatten(list(made[2 * count :]), flatten(aux)[1])
    return values, derivatives


# What the tracer does


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree, and its structure."""
    raise NotImplementedError


def unflatten(leaves: Sequence[Any], structure: Any) -> Any:
    """A tree of this structure."""
    raise NotImplementedError


def enter_vmap(
    leaves: tuple[Any, ...], dims: tuple[int | None, ...], randomness: str
) -> tuple[Any, ...]:
    """Begin a level, and give the leaves without these dims."""
    raise NotImplementedError


def leave_vmap(tensors: Tensors, dims: tuple[int | None, ...]) -> Tensors:
    """End it, and give the tensors with the dim that was taken away in these places."""
    raise NotImplementedError


def enter_grad(leaves: tuple[Any, ...], wanted: tuple[int, ...]) -> tuple[Any, ...]:
    """Begin a level in which some leaves require grad."""
    raise NotImplementedError


def leave_grad(tensors: Tensors) -> Tensors:
    """End it, and give the gradients of the first tensor by these leaves, and the tensors."""
    raise NotImplementedError


def leave_vjp(tensors: Tensors, count: int) -> tuple[Any, Tensors]:
    """End it, and give what `pulled` takes for the first few, and the tensors."""
    raise NotImplementedError


def pulled(pullback: Any, cotangents: Tensors) -> Tensors:
    """The products of cotangents and the Jacobian."""
    raise NotImplementedError


def enter_jvp(
    leaves: tuple[Any, ...], wanted: tuple[int, ...], tangents: Tensors
) -> tuple[Any, ...]:
    """Begin a level in which some leaves have tangents."""
    raise NotImplementedError


def leave_jvp(tensors: Tensors, count: int) -> Tensors:
    """End it, and give the first few, their tangents, and the other tensors."""
    raise NotImplementedError


def refused(why: str) -> NoReturn:
    """Call torch's function for real: the tracer ends the trace here."""
    raise NotImplementedError(why)
