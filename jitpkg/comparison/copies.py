"""Copies of objects from which a program can start again.

What was one object is one object in the copy, and what shared memory shares it again: views,
strides, storage offsets, `requires_grad` and gradients are as they were.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import io
import pickle
import random
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch

from jitpkg.errors import InvalidArgument
from jitpkg.internals import library, modes, tensors

T = TypeVar("T")

ATOMS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    slice,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
"""Values without an identity that matters."""

_SHARED = (
    type,
    enum.Enum,
    io.IOBase,
    types.CodeType,
    types.FrameType,
    types.GetSetDescriptorType,
    types.MappingProxyType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.ModuleType,
    types.WrapperDescriptorType,
    torch.jit.ScriptFunction,
    property,
    staticmethod,
    classmethod,
)
"""What a copy refers to as the original does."""

_SHARED_ROOMS = frozenset({"_thread", "threading", *library.OF_C})
"""Modules whose other objects are shared, too: locks, and ops of torch."""


class Copies:
    """Copies of any number of objects, as of one: each object is copied once.

    Args:
        begun: others, whose copies these refer to.
    """

    def __init__(self, begun: Copies | None = None) -> None:
        self._made: dict[int, Any] = {} if begun is None else dict(begun._made)
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._alive: list[object] = []
        for obj in _of_the_process():
            self._remember(obj, obj)
        if begun is not None:
            self._storages.update(begun._storages)
            self._alive.extend(begun._alive)

    def of(self, obj: T) -> T:
        """A copy.

        Raises:
            InvalidArgument: there is something that cannot be copied, such as a generator.
        """
        if type(obj) in ATOMS or isinstance(obj, _SHARED):
            return obj
        if id(obj) in self._made:
            known: T = self._made[id(obj)]
            return known
        made: T = self._remember(obj, self._copied(obj))
        return made

    def _remember(self, obj: object, made: Any) -> Any:
        self._made[id(obj)] = made
        self._alive.append(obj)
        return made

    def _copied(self, obj: Any) -> Any:
        match obj:
            case torch.Tensor():
                return self._tensor(obj)
            case torch.Generator():
                return obj.clone_state()
            case types.FunctionType():
                return self._function(obj)
            case types.MethodType():
                return types.MethodType(self.of(obj.__func__), self.of(obj.__self__))
            case types.BuiltinFunctionType():
                return self._builtin(obj)
            case types.CellType():
                return self._cell(obj)
            case weakref.ref():
                return obj if obj() is None else weakref.ref(self.of(obj()))
        if type(obj) is list:
            made_list = self._remember(obj, [])
            made_list.extend(map(self.of, obj))
            return made_list
        if type(obj) is dict:
            made_dict = self._remember(obj, {})
            made_dict.update((self.of(key), self.of(value)) for key, value in obj.items())
            return made_dict
        if type(obj) is tuple:
            items = tuple(map(self.of, obj))
            if id(obj) in self._made:  # through a cycle
                return self._made[id(obj)]
            return obj if all(map(_is, items, obj)) else items
        if type(obj) in (set, frozenset):
            return type(obj)(map(self.of, obj))
        return self._object(obj)

    # Tensors

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if _has_no_plain_memory(tensor):
            return copy.deepcopy(tensor, self._made)
        with modes.WITHOUT_SUBCLASSES.get()():
            made = self._memory(tensor)
        self._remember(tensor, made)
        if tensor.is_leaf and tensor.grad is not None:
            made.grad = self.of(tensor.grad)
        if tensor.retains_grad and not tensor.is_leaf:
            made.retain_grad()
        hooks = tensors.HOOKS.found()
        for hook in ((hooks and hooks(tensor)) or {}).values():
            made.register_hook(self.of(hook))  # type: ignore[no-untyped-call]
        made.__dict__.update(self.of(tensor.__dict__))
        return made

    def _memory(self, tensor: torch.Tensor) -> torch.Tensor:
        base_of = tensors.BASE.found()
        base = None if base_of is None else base_of(tensor)
        if base is not None and not (tensor.is_leaf and tensor.requires_grad):
            return _as_subclass(self._view(tensor, self.of(base)), tensor)
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            made.set_(
                self._storage(tensor.untyped_storage()),
                tensor.storage_offset(),
                tensor.shape,
                tensor.stride(),
            )
            made = made.data  # which was never written to
            made = made.conj() if tensor.is_conj() else made
            made = tensors.NEGATED.get()(made) if tensor.is_neg() else made
        if not tensor.requires_grad:
            return _as_subclass(made, tensor)
        if tensor.is_leaf:
            return _as_subclass(made.requires_grad_(), tensor)
        with torch.enable_grad():  # what it was computed from is not copied
            return _as_subclass(made.requires_grad_().clone(), tensor)

    def _view(self, tensor: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(tensor.requires_grad):
            view_of = tensors.VIEW_OF.found()
            if view_of is not None and _layout(made := view_of(tensor, base)) == _layout(tensor):
                return made  # type: ignore[no-any-return]
            if base.dtype != tensor.dtype:
                base = base.view(tensor.dtype)
            return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def _storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        at = tensors.STORAGE_ADDRESS.get()(storage)
        if at not in self._storages:
            self._storages[at] = storage.clone()  # type: ignore[no-untyped-call]
            self._alive.append(storage)
        return self._storages[at]

    # Functions and other objects

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        """The same function unless its cells hold state."""
        if not has_state(function):
            return function
        cells = tuple(self._empty(cell) for cell in function.__closure__ or ())
        made = types.FunctionType(
            function.__code__, function.__globals__, function.__name__, None, cells
        )
        self._remember(function, made)
        for cell, new in zip(function.__closure__ or (), cells, strict=True):
            self._fill(cell, new)
        made.__defaults__ = self.of(function.__defaults__)
        made.__kwdefaults__ = self.of(function.__kwdefaults__)
        functools.update_wrapper(made, function)
        made.__dict__.pop("__wrapped__", None)
        made.__dict__.update(self.of(function.__dict__))
        return made

    def _builtin(self, function: types.BuiltinFunctionType) -> Any:
        """The same function; a method of the copy, if it is a method."""
        owner = function.__self__
        made = self.of(owner)
        return function if made is owner else getattr(made, function.__name__)

    def _cell(self, cell: types.CellType) -> types.CellType:
        made: types.CellType = self._remember(cell, types.CellType())
        self._fill(cell, made)
        return made

    def _empty(self, cell: types.CellType) -> types.CellType:
        made: types.CellType = self._made.get(id(cell)) or self._remember(cell, types.CellType())
        return made

    def _fill(self, cell: types.CellType, made: types.CellType) -> None:
        with contextlib.suppress(ValueError):  # an empty one stays empty
            made.cell_contents = self.of(cell.cell_contents)

    def _object(self, obj: Any) -> Any:
        if type(obj).__module__ in _SHARED_ROOMS:
            return obj
        if hasattr(type(obj), "__deepcopy__"):
            return obj.__deepcopy__(self._made)
        try:
            reduced = obj.__reduce_ex__(4)
        except (TypeError, pickle.PicklingError) as error:
            raise InvalidArgument(
                f"{obj!r} ({type(obj).__qualname__}) cannot be copied, so that two runs cannot"
                " begin with the same: let the function make it."
            ) from error
        return obj if isinstance(reduced, str) else self._rebuilt(obj, *reduced)

    def _rebuilt(
        self,
        obj: object,
        make: Callable[..., Any],
        args: tuple[Any, ...],
        state: Any = None,
        items: Iterable[Any] | None = None,
        pairs: Iterable[tuple[Any, Any]] | None = None,
        set_state: Callable[[Any, Any], None] | None = None,
    ) -> Any:
        """What `__reduce_ex__` describes: see the documentation of pickle."""
        made = self._remember(obj, make(*map(self.of, args)))
        if state is not None:
            state = self.of(state)
            if set_state is not None:
                set_state(made, state)
            elif hasattr(made, "__setstate__"):
                made.__setstate__(state)
            else:
                plain, slots = state if isinstance(state, tuple) else (state, None)
                if plain:
                    made.__dict__.update(plain)
                for name, value in (slots or {}).items():
                    setattr(made, name, value)
        for item in items or ():
            made.append(self.of(item))
        for key, value in pairs or ():
            made[self.of(key)] = self.of(value)
        return made


def _of_the_process() -> Iterator[object]:
    """The generators behind `random.random` and `numpy.random.rand`."""
    yield vars(random)["random"].__self__
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        yield numpy_random.rand.__self__


def has_state(function: types.FunctionType) -> bool:
    """Whether its cells or defaults hold anything that may change."""
    return _has_state(function, set())


def _has_state(function: types.FunctionType, seen: set[int]) -> bool:
    if id(function) in seen or is_library(function.__module__ or ""):
        return False
    seen.add(id(function))
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if any(type(value) not in ATOMS and _is_state(value, seen) for value in defaults):
        return True
    try:
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        return True
    return any(_is_state(value, seen) for value in contents)


def _is_state(value: object, seen: set[int]) -> bool:
    if isinstance(value, types.FunctionType):
        return _has_state(value, seen)
    return not isinstance(value, _SHARED)


_LIBRARIES = frozenset({"torch", "numpy", "jitpkg", "functorch", "torchgen"})


def is_library(module: str) -> bool:
    """Whether the state of this module's classes and globals is none of the user's program."""
    root = module.partition(".")[0]
    if root == "__main__":
        return False
    if root in _LIBRARIES or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in file


def _is(a: object, b: object) -> bool:
    return a is b


def codes(code: types.CodeType) -> Iterable[types.CodeType]:
    """A code object, and all that are inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def _has_no_plain_memory(tensor: torch.Tensor) -> bool:
    dispatches = type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    return dispatches or tensor.layout is not torch.strided or tensor.is_quantized


def _as_subclass(plain: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if type(like) is torch.Tensor:
        return plain
    if like.is_leaf:
        made: torch.Tensor = tensors.MAKE_SUBCLASS.get()(
            type(like), plain.detach(), like.requires_grad
        )
        return made
    return plain.as_subclass(type(like))


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.is_conj()
