"""A small program that shows a difference by itself: the op, its arguments, the context."""

from __future__ import annotations

from typing import Any

import torch

from tests.opinfo.allowed import allowed
from tests.opinfo.changes import Versions
from tests.opinfo.contexts import CONTEXTS, program
from tests.opinfo.samples import SEED, Task, tensors

MOST = 300
"""So many elements of a tensor's memory are written out; larger ones get random numbers."""

HEAD = """\
import torch

import jitpkg
from tests.opinfo.compare import Allowed, Outcome, difference
from tests.opinfo.contexts import copied, default_dtype, described, deterministic
from tests.opinfo.samples import backward, function_of

inf, nan = float("inf"), float("nan")
"""

TAIL = """

def run(program, calls):
    torch.manual_seed({seed})
    leaf = torch.ones(2, requires_grad=True, device={device!r})
    gradients = None
    try:
        with {around}:
            results = program(function, calls, leaf)
        if {grad}:
            gradients = backward(results, (calls, leaf), again={again})
    except Exception as error:
        return Outcome(given=calls, error=error)
    return Outcome(results, gradients, calls)


compiled = jitpkg.compile(program, backend={backend!r}, dynamic={dynamic})
for version in range({versions}):
    found, expected = run(compiled, calls(version)), run(program, calls(version))
    print(difference(found, expected, allowed={allowed}))
"""


def script(op: Any, task: Task, versions: Versions) -> str:
    """The program as text."""
    context = CONTEXTS[task.context].on(task.device)
    tail = TAIL.format(
        seed=SEED,
        device=task.device,
        again=context.again,
        around=context.around or "torch.enable_grad()",
        grad=bool(context.grad or context.before),
        backend=task.backend,
        dynamic=context.dynamic,
        versions=len(versions),
        allowed=allowed(task),
    )
    parts = [
        HEAD,
        f"function = {name_of(op, task)}\n\n",
        _calls(versions),
        f"\n{program(1, context)}{tail}",
    ]
    return "\n".join(parts)


def name_of(op: Any, task: Task) -> str:
    """An expression for the function."""
    function = CONTEXTS[task.context].function(op)
    for path in (f"torch.{op.name}", f"torch.Tensor.{op.name}", f"torch.Tensor.{op.name}_"):
        try:
            if eval(path, {"torch": torch}) is function:
                return path
        except (AttributeError, SyntaxError):
            continue
    return f"function_of({op.formatted_name!r}, in_place={function is not op.op})"


def _calls(versions: Versions) -> str:
    """A function that makes the arguments."""
    lines = ["def calls(version):"]
    if any(x.is_inference() for x in tensors(versions)):
        lines.insert(0, "@torch.inference_mode()")
    for v, call in enumerate(versions):
        arguments = _Arguments()
        made = arguments.text([call])
        lines += [f"    if version == {v}:", *(f"        {line}" for line in arguments.lines)]
        lines.append(f"        return {made}")
    return "\n".join((*lines, ""))


class _Arguments:
    """Expressions that make arguments, with a line for each tensor: what is one stays one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[int, str] = {}

    def text(self, value: Any) -> str:
        match value:
            case torch.Tensor():
                if id(value) not in self._known:
                    self._known[id(value)] = name = f"t{len(self._known)}"
                    self.lines.append(f"{name} = {tensor(value)}")
                return self._known[id(value)]
            case list():
                return f"[{', '.join(map(self.text, value))}]"
            case tuple() if type(value) is tuple:
                return f"({''.join(f'{self.text(each)}, ' for each in value)})"
            case dict():
                items = (f"{key!r}: {self.text(each)}" for key, each in value.items())
                return f"{{{', '.join(items)}}}"
            case torch.Size():
                return f"torch.Size({list(value)})"
            case _:
                return repr(value)


def tensor(x: torch.Tensor) -> str:
    """An expression that makes a tensor: its memory, and how it lies there."""
    if x.layout is not torch.strided or x.is_nested or x.is_quantized:
        return f"...  # {x.layout}, of class {type(x).__name__}"
    memory = torch.empty(0, dtype=x.dtype, device=x.device).set_(x.detach().untyped_storage())  # type: ignore[call-overload]
    on_device = "" if x.device.type == "cpu" else f", device={x.device.type!r}"
    values = f"torch.tensor({memory.tolist()}, dtype={x.dtype}{on_device})"
    if memory.numel() > MOST:
        on_device = f", device={x.device.type!r}"
        values = f"torch.testing.make_tensor({memory.numel()}, dtype={x.dtype}{on_device})"
    lazy = (".conj()" if x.is_conj() else "") + (".detach()._neg_view()" if x.is_neg() else "")
    grad = ".detach().requires_grad_()" if x.requires_grad else ""
    if x.dim() == 1 and x.is_contiguous() and x.numel() == memory.numel():
        return values + lazy + grad
    strided = f".as_strided({list(x.shape)}, {list(x.stride())}, {x.storage_offset()})"
    return values + strided + lazy + grad
