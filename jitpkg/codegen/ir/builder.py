"""Makes nodes: equal ones once, indices in one normal form, and nothing that the table forbids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import torch

from jitpkg.codegen.ir import ops
from jitpkg.codegen.ir.extents import at_least, less, same, varies, within
from jitpkg.codegen.ir.nodes import (
    Apply,
    Axis,
    Buffer,
    Checked,
    Const,
    Definition,
    Extent,
    Given,
    Load,
    Node,
    Reduce,
    Scan,
    below,
    checks,
    operands,
)
from jitpkg.codegen.ir.ranges import Linear, range_of

INDEX = torch.int64


class IllegalNode(Exception):
    """A lowering asked for a node that the IR does not have."""


class Builder:
    """An arena of nodes.

    Args:
        rounds: whether a value that becomes bfloat16 or float16, and float32 again, is rounded.
    """

    def __init__(self, *, rounds: bool = True) -> None:
        self._rounds = rounds
        self._made: dict[Any, Any] = {}
        self._count = 0
        self._of_dims: dict[tuple[int, Extent], Axis] = {}

    def _node(self, kind: type[Any], key: tuple[Any, ...], **fields: Any) -> Any:
        whole = (kind, *key)
        known = self._made.get(whole)
        if known is None:
            self._count += 1
            known = self._made[whole] = kind(serial=self._count, **fields)
        return known

    # Leaves

    def axis(self, extent: Extent) -> Axis:
        """A new axis, equal to no other."""
        self._count += 1
        serial = self._count
        made = Axis(INDEX, serial, frozenset(), extent)
        object.__setattr__(made, "axes", frozenset({made}))
        return made

    def axes(self, sizes: Sequence[Extent]) -> tuple[Axis, ...]:
        """The axes of a tensor's dims.

        Tensors of one shape share them, and those that are broadcast to it: elementwise ops need
        no substitution. Folds bind axes of their own.
        """
        found = []
        for dim, size in enumerate(sizes):
            key = (len(sizes) - dim, size)
            if key not in self._of_dims:
                self._of_dims[key] = self.axis(size)
            found.append(self._of_dims[key])
        return tuple(found)

    def const(self, value: bool | int | float, dtype: torch.dtype) -> Const:
        """A number of a dtype: rounded to it, wrapped around, or tested against zero."""
        value = exact(value, dtype)
        key = (dtype, repr(value))  # 0.0 is not -0.0, and 1 is not True
        made: Const = self._node(Const, key, dtype=dtype, axes=frozenset(), value=value)
        return made

    def index(self, value: int) -> Node:
        if not varies(value):
            return self.const(value, INDEX)
        made: Given = self._node(Given, (value,), dtype=INDEX, axes=frozenset(), value=value)
        return made

    def load(self, buffer: Buffer, index: Sequence[Node], mask: Node | None = None) -> Node:
        if len(index) != len(buffer.sizes):
            raise IllegalNode(f"{len(index)} indices for {buffer}, which has {len(buffer.sizes)}")
        if any(at.dtype is not INDEX for at in index):
            raise IllegalNode(f"an index of {buffer} is no int64")
        if isinstance(mask, Const):
            if not mask.value:
                return self.const(0, buffer.dtype)
            mask = None
        index = tuple(
            self.index(0) if same(size, 1) and mask is None and not checks(at) else at
            for at, size in zip(index, buffer.sizes, strict=True)
        )
        parts = index if mask is None else (*index, mask)
        made: Load = self._node(
            Load,
            (buffer, index, mask),
            dtype=buffer.dtype,
            axes=_axes(parts),
            buffer=buffer,
            index=index,
            mask=mask,
        )
        return made

    # Scalar ops

    def apply(self, op: str, *args: Node) -> Node:
        """A row of `ops.OPS`.

        Raises:
            IllegalNode: the op does not take such operands.
        """
        row = ops.OPS.get(op)
        dtype = None if row is None else row.signature(tuple(arg.dtype for arg in args))
        if row is None or dtype is None:
            given = ", ".join(str(arg.dtype).removeprefix("torch.") for arg in args)
            raise IllegalNode(f"{op}({given}) is not in the table")
        if all(isinstance(arg, Const) for arg in args):
            return self._folded(row, args, dtype)
        simple = self._simplified(op, args)
        if simple is not None:
            return simple
        made: Apply = self._node(
            Apply, (op, dtype, args), dtype=dtype, axes=_axes(args), op=op, args=args
        )
        return made

    def cast(self, value: Node, dtype: torch.dtype) -> Node:
        if dtype not in ops.EVERY:
            raise IllegalNode(f"there is no {dtype} in kernels")
        if value.dtype is dtype:
            return value
        if not self._rounds and dtype in ops.FLOATS and _is_narrowed(value, dtype):
            return operands(value)[0]
        if isinstance(value, Const) and _casts_exactly(value.value, dtype):
            return self.const(value.value, dtype)
        made: Apply = self._node(
            Apply,
            (ops.CAST, dtype, (value,)),
            dtype=dtype,
            axes=value.axes,
            op=ops.CAST,
            args=(value,),
        )
        return made

    def where(self, condition: Node, yes: Node, no: Node) -> Node:
        return self.apply("where", condition, yes, no)

    def check(self, index: Node, extent: Extent) -> Node:
        """An index out of data, made to lie within an extent; or else the kernel fails."""
        index = self.cast(index, INDEX)
        low, high = range_of(index)
        if within(low, high, extent):
            return index
        made: Checked = self._node(
            Checked, (index, extent), dtype=INDEX, axes=index.axes, index=index, extent=extent
        )
        return made

    def _folded(self, row: ops.ScalarOp, args: Sequence[Node], dtype: torch.dtype) -> Const:
        given = [torch.tensor(arg.value, dtype=arg.dtype) for arg in args if isinstance(arg, Const)]
        return self.const(row.reference(*given).item(), dtype)

    def _simplified(self, op: str, args: tuple[Node, ...]) -> Node | None:
        """What is the same bit for bit, and simpler."""
        if op == "where" and isinstance(args[0], Const):
            return args[1] if args[0].value else args[2]
        if op == "where" and args[1] is args[2]:
            return args[1]
        if args[0].dtype is INDEX and op in _LINEAR:
            return self._linear(op, args)
        if args[0].dtype is torch.bool and op in ("and", "or"):
            return _logic(op, args)
        if op in _COMPARISONS and args[0].dtype is INDEX:
            return self._compared(op, args)
        if op == "mul" and isinstance(args[1], Const) and args[1].value == 1:
            return args[0]
        if op == "xor":
            zeros = [isinstance(arg, Const) and not arg.value for arg in args]
            return args[0] if zeros[1] else args[1] if zeros[0] else None
        return None

    # Indices: sums of multiples in one order, so that equal ones are one node

    def _linear(self, op: str, args: tuple[Node, ...]) -> Node | None:
        match op:
            case "neg":
                return self.of_linear(Linear.of(args[0]).times(-1))
            case "add":
                return self.of_linear(Linear.of(args[0]).plus(Linear.of(args[1])))
            case "sub":
                return self.of_linear(Linear.of(args[0]).plus(Linear.of(args[1]).times(-1)))
            case "mul" if isinstance(args[1], Const | Given):
                return self.of_linear(Linear.of(args[0]).times(_number(args[1])))
            case "mul" if isinstance(args[0], Const | Given):
                return self.of_linear(Linear.of(args[1]).times(_number(args[0])))
            case "floordiv" | "mod" if isinstance(args[1], Const | Given) and args[1].value > 0:
                return self._divided(op, args[0], _number(args[1]))
            case _:
                return None

    def _divided(self, op: str, value: Node, by: int) -> Node | None:
        """`value = by * q + r` with `0 <= r < by`, where that can be seen."""
        if same(by, 1):
            return value if op == "floordiv" else self.index(0)
        quotient, rest = Linear.of(value).split(by)
        low, high = rest.range()
        if within(low, high, by):
            return self.of_linear(quotient if op == "floordiv" else rest)
        if not quotient.terms and same(quotient.constant, 0):
            return self._divided_twice(op, value, by)
        inner = self.of_linear(rest)
        if op == "mod":
            return self.apply("mod", inner, self.index(by))
        return self.of_linear(
            quotient.plus(Linear.of(self.apply("floordiv", inner, self.index(by))))
        )

    def _divided_twice(self, op: str, value: Node, by: int) -> Node | None:
        """Quotients and remainders of quotients and remainders, in one form."""
        match value:
            case Apply(op="floordiv" | "mod" as of, args=(inner, Const() | Given() as divisor)):
                first = _number(divisor)
            case _:
                return None
        if not at_least(first, 1):
            return None
        match op, of:
            case "floordiv", "floordiv" if varies(first) or varies(by) or first * by < _LARGE:
                return self.apply("floordiv", inner, self.index(first * by))
            case "floordiv", "mod" if same(first % by, 0):
                quotient = self.apply("floordiv", inner, self.index(by))
                return self.apply("mod", quotient, self.index(first // by))
            case "mod", "mod" if same(first % by, 0):
                return self.apply("mod", inner, self.index(by))
            case _:
                return None

    def _rejoined(self, linear: Linear) -> Linear:
        """Without quotients and remainders that make up what was divided.

        `by * (x // by) + x % by` is `x`, and `by * ((x // by) % n) + x % by` is `x % (by * n)`.
        """
        remainders = [(atom, k) for atom, k in linear.terms if _is_remainder(atom)]
        for atom, factor in remainders:
            whole, divisor = atom.args
            by = _number(divisor)
            quotient = self.apply("floordiv", whole, divisor)
            pairs = [(quotient, whole)]
            pairs += [
                (other, self.apply("mod", whole, self.index(by * _number(other.args[1]))))
                for other, _ in remainders
                if other.args[0] is quotient
            ]
            for high, both in pairs:
                parts = Linear.of(high).times(by).plus(Linear(((atom, 1),)))
                joined = linear.plus(Linear.of(both).plus(parts.times(-1)).times(factor))
                if _divisions(joined) < _divisions(linear):
                    return self._rejoined(joined)
        return linear

    def of_linear(self, linear: Linear) -> Node:
        """The node of a sum: multiples of atoms in the order of their making, then the constant."""
        linear = self._rejoined(linear)
        total: Node | None = None
        for atom, factor in linear.terms:
            term = atom if same(factor, 1) else self._binary("mul", atom, self.index(factor))
            total = term if total is None else self._binary("add", total, term)
        if total is None:
            return self.index(linear.constant)
        if not same(linear.constant, 0):
            total = self._binary("add", total, self.index(linear.constant))
        return total

    def _binary(self, op: str, a: Node, b: Node) -> Node:
        made: Apply = self._node(
            Apply, (op, INDEX, (a, b)), dtype=INDEX, axes=a.axes | b.axes, op=op, args=(a, b)
        )
        return made

    def _compared(self, op: str, args: tuple[Node, ...]) -> Node | None:
        """A comparison of indices that is decided by how far they run."""
        low, high = Linear.of(args[0]).plus(Linear.of(args[1]).times(-1)).range()
        decided = {
            "lt": _decided(_is_below(high, 0), _is_above(low, -1)),
            "le": _decided(_is_below(high, 1), _is_above(low, 0)),
            "gt": _decided(_is_above(low, 0), _is_below(high, 1)),
            "ge": _decided(_is_above(low, -1), _is_below(high, 0)),
        }.get(op)
        return None if decided is None else self.const(decided, torch.bool)

    # Folds

    def reduce(self, op: str, value: Node, over: Iterable[Axis]) -> Node:
        """A fold over axes. Those that run once are put away.

        Raises:
            IllegalNode: no such fold of such values, or over nothing where it has no identity.
        """
        row = ops.REDUCTIONS.get(op)
        if row is None or value.dtype not in row.allowed:
            raise IllegalNode(f"{op} of {value.dtype} is not in the table")
        over = tuple(over)
        if row.combine is None:
            if len(over) != 1:
                raise IllegalNode(f"{op} is along one axis")
            dtype = INDEX
            if same(over[0].extent, 1):
                return self.index(0)
        else:
            dtype = value.dtype
            once = {axis: self.index(0) for axis in over if same(axis.extent, 1)}
            value, over = self.substitute(value, once), tuple(a for a in over if a not in once)
            if not over:
                return self.started(op, value) if once else value
        if any(axis.extent == 0 for axis in over):
            if row.identity is None:
                raise IllegalNode(f"{op} of nothing")
            return self.const(row.identity(dtype), dtype)
        made: Reduce = self._node(
            Reduce,
            (op, value, over),
            dtype=dtype,
            axes=value.axes - frozenset(over),
            op=op,
            value=value,
            over=over,
        )
        return made

    def started(self, op: str, value: Node) -> Node:
        """A fold of one value: a sum starts with 0.0, to which -0.0 is added."""
        if op != "sum" or value.dtype not in ops.FLOATS:
            return value
        return self.apply("add", value, self.const(0.0, value.dtype))

    def folded_over_idle(
        self, op: str, value: Node, index: Sequence[Node], axes: Iterable[Axis]
    ) -> Node:
        """What is combined at an index over all of `axes`: once for each position of those that
        neither the value nor the index depends on. What is combined once starts with no 0."""
        used = value.axes.union(*(at.axes for at in index))
        idle = [axis for axis in axes if axis not in used and not same(axis.extent, 1)]
        return self.reduce(op, value, idle)

    def scan(self, op: str, value: Node, along: Axis) -> Node:
        if op not in ops.SCANS or value.dtype not in ops.REDUCTIONS[op].allowed:
            raise IllegalNode(f"a running {op} of {value.dtype} is not in the table")
        if same(along.extent, 1):
            return self.started(op, value)
        made: Scan = self._node(
            Scan,
            (op, value, along),
            dtype=value.dtype,
            axes=value.axes | {along},
            op=op,
            value=value,
            along=along,
        )
        return made

    # Substitution

    def substitute(
        self,
        value: Node,
        axes: Mapping[Axis, Node],
        definitions: Mapping[Buffer, Definition] | None = None,
    ) -> Node:
        """`value` with nodes for axes, and with definitions in place of loads of their buffers.

        The definitions' own values are taken as they are. A fold over an axis that becomes a number
        is over the others only.

        Raises:
            IllegalNode: a running fold would not be along an axis any more.
        """
        new = self.substituted((value,), axes, definitions)
        return new[0]

    def substituted(
        self,
        values: Sequence[Node],
        axes: Mapping[Axis, Node],
        definitions: Mapping[Buffer, Definition] | None = None,
    ) -> tuple[Node, ...]:
        if not axes and not definitions:
            return tuple(values)  # or folds in folds would be walked through again and again
        done: dict[Node, Node] = {}
        done.update(axes.items())
        return self._with(values, done, definitions or {})

    def replaced(self, values: Sequence[Node], nodes: Mapping[Node, Node]) -> tuple[Node, ...]:
        """The values with other nodes for some of those that they are made of."""
        return self._with(values, dict(nodes), {})

    def _with(
        self,
        values: Sequence[Node],
        done: dict[Node, Node],
        definitions: Mapping[Buffer, Definition],
    ) -> tuple[Node, ...]:
        for node in below(*values):
            if node not in done:
                done[node] = self._rebuilt(node, done, definitions)
        return tuple(done[value] for value in values)

    def _rebuilt(
        self, node: Node, done: Mapping[Node, Node], definitions: Mapping[Buffer, Definition]
    ) -> Node:
        match node:
            case Load(buffer=buffer, index=index, mask=mask):
                at = tuple(done[each] for each in index)
                mask = None if mask is None else done[mask]
                definition = definitions.get(buffer)
                if definition is None:
                    return self.load(buffer, at, mask)
                return self.at(definition, at, mask)
            case Apply(op=ops.CAST, args=(value,)):
                return self.cast(done[value], node.dtype)
            case Apply(op=op, args=args):
                return self.apply(op, *(done[arg] for arg in args))
            case Checked(index=index, extent=extent):
                return self.check(done[index], extent)
            case Reduce(op=op, value=value, over=over):
                renamed = [done.get(axis, axis) for axis in over]
                renamed = [axis for axis in renamed if not isinstance(axis, Const)]
                if not all(isinstance(axis, Axis) for axis in renamed):
                    raise IllegalNode("the axis of a fold is no axis any more")
                return self.reduce(op, done[value], renamed)  # type: ignore[arg-type]
            case Scan(op=op, value=value, along=along):
                axis = done.get(along, along)
                if not isinstance(axis, Axis):
                    raise IllegalNode(f"a running {op} can be read only along its axis")
                return self.scan(op, done[value], axis)
            case _:
                return node

    def at(self, definition: Definition, index: Sequence[Node], mask: Node | None = None) -> Node:
        """A definition's element at an index; zero where the mask is false.

        Where there is a mask, the index may lie outside: so every load gets it.
        """
        value = definition.value
        if tuple(index) != definition.axes:
            value = self.substitute(value, dict(zip(definition.axes, index, strict=True)))
        if mask is None:
            return value
        if isinstance(value, Load):
            return self.masked(value, mask)
        return self.where(mask, self.masked(value, mask), self.const(0, value.dtype))

    def masked(self, value: Node, mask: Node, along: frozenset[Axis] | None = None) -> Node:
        """A value that loads nothing where the mask is false; what it is there is not said.

        Args:
            along: the axes that the mask is about, where the rest may be loaded in any case.
        """
        done: dict[Node, Node] = {}
        for node in below(value):
            if along is not None and not node.axes & along:
                done[node] = node
                continue
            match node:
                case Load(buffer=buffer, index=index, mask=own):
                    both = mask if own is None else self.apply("and", done[own], mask)
                    done[node] = self.load(buffer, tuple(done[at] for at in index), both)
                case Checked(index=index, extent=extent):
                    # Where the mask is false, what was loaded for the index is 0.
                    inside = self.where(mask, done[index], self.index(0))
                    done[node] = self.check(inside, extent)
                case Axis() | Const() | Given():
                    done[node] = node
                case _:
                    done[node] = self._rebuilt(node, done, {})
        return done[value]


def _is_narrowed(value: Node, dtype: torch.dtype) -> bool:
    """Whether a value has been cast down, from this very dtype."""
    match value:
        case Apply(op=ops.CAST, args=(wide,)):
            return value.dtype in ops.NARROW and wide.dtype is dtype
        case _:
            return False


def _axes(nodes: Iterable[Node]) -> frozenset[Axis]:
    return frozenset().union(*(node.axes for node in nodes))


_LARGE = 2**62
"""Products below it are numbers of 64 bits."""

_LINEAR = frozenset({"add", "sub", "mul", "neg", "floordiv", "mod"})
_COMPARISONS = frozenset({"lt", "le", "gt", "ge"})


def _number(node: Node) -> int:
    assert isinstance(node, Const | Given)
    return int(node.value) if isinstance(node, Const) else node.value


def _divisions(linear: Linear) -> int:
    return sum(
        isinstance(atom, Apply) and atom.op in ("floordiv", "mod") for atom, _ in linear.terms
    )


def _is_remainder(node: Node) -> TypeGuard[Apply]:
    match node:
        case Apply(op="mod", args=(_, Const() | Given() as by)):
            return at_least(_number(by), 1)
        case _:
            return False


def _is_below(value: int | None, end: int) -> bool:
    return value is not None and less(value, end)


def _is_above(value: int | None, end: int) -> bool:
    return value is not None and at_least(value, end + 1)


def _decided(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _logic(op: str, args: tuple[Node, ...]) -> Node | None:
    for one, other in (args, args[::-1]):
        if isinstance(one, Const):
            return other if bool(one.value) is (op == "and") else one
    return args[0] if args[0] is args[1] else None


def _casts_exactly(value: bool | int | float, dtype: torch.dtype) -> bool:
    """Whether a number's cast is defined: not that of a float that no integer holds."""
    if not isinstance(value, float) or dtype.is_floating_point or dtype is torch.bool:
        return True
    return value == value and abs(value) < 2**31


def exact(value: bool | int | float, dtype: torch.dtype) -> bool | int | float:
    """A number as a dtype holds it."""
    if dtype is torch.bool:
        return bool(value)
    if not dtype.is_floating_point:
        bits = torch.iinfo(dtype).bits
        wrapped = int(value) & ((1 << bits) - 1)
        signed = dtype is not torch.uint8 and wrapped >= 1 << (bits - 1)
        return wrapped - (1 << bits) if signed else wrapped
    held: float = torch.tensor(float(value), dtype=dtype).item()
    return held
