"""Which loops of a schedule become the grid, which run side by side as tiles, and how wide.

The outermost loops are the grid, as far as nothing is folded or written between them. All of its
positions in a row are cut into blocks (`x`); or each is a program of its own where what is inside
is long; or they are two dims of a tile (`y`, `x`) where some memory lies along another axis than
the results. Inside of it one loop of each nest is the dim `r` of the tile. It is *persistent* where
its whole length fits into registers: then it is no loop at all, and what two such loops have in
common is computed once. All other loops run as they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod

from jitpkg.codegen.fusion.kernel import Compute, Loop, Schedule, Statement, Write
from jitpkg.codegen.fusion.statements import loops, offset, span, typical
from jitpkg.codegen.ir.extents import less, same, varies
from jitpkg.codegen.ir.nodes import Apply, Axis, Buffer, Extent, Load, Store
from jitpkg.codegen.ir.ranges import Linear
from jitpkg.codegen.triton.source import Config
from jitpkg.codegen.triton.target import Target
from jitpkg.dataclass import dataclass

PERSISTENT = 16384
"""Elements of a row, at most, that registers hold. A row of 32768 needs 32 of them in each of 1024
threads for every value that lives from one loop to the next, of 64."""

ACROSS = 128
"""The same where neighbouring elements are of different rows, of which some are in one tile."""

SHORT = 8
"""Loops that are no longer run one by one where there is something else to run side by side."""

FEW = 64
"""And so are nests of those, where they have no more positions."""

FLAT = 512
"""Where the inner one of two loops of a fold is shorter, both become one dim."""

ROW = 1024
"""Elements from which on a row has programs of its own."""

LOOPED = 4096
"""Elements of a block of a row that is too long for registers."""

NARROW = (1 << 31) - (1 << 17)
"""What indices of 32 bits may count: a tile may reach a little beyond the end."""


@dataclass(frozen=True, eq=False, slots=True)
class Tile:
    """A dim of the tiles."""

    dim: str
    """`y`, `x` or `r`: which one."""
    block: str
    """The parameter that says how wide it is."""
    axes: tuple[Axis, ...]
    """That it runs along; the last one is the fastest. Others of the same extents may share it."""
    looped: bool = False
    """Whether a loop goes over its blocks."""

    @property
    def extent(self) -> Extent:
        whole: Extent = 1
        for axis in self.axes:
            whole = whole * axis.extent
        return whole


@dataclass(frozen=True, eq=False, slots=True)
class Plan:
    rows: tuple[Axis, ...]
    """Of the grid: each position is a program of its own."""
    grid: tuple[Tile, ...]
    """Dims of the tiles that the grid's blocks run along."""
    body: tuple[Statement, ...]
    """What a program does."""
    outer: tuple[Compute, ...]
    """What is computed before."""
    tiles: Mapping[Loop, Tile]
    """The loops inside that are dims; several where one dim is for several loops in each other."""
    along: Mapping[Loop, tuple[Axis, ...]]
    """The axes that the dim is for in the outermost one of these: of the tile's own extents."""
    configs: tuple[Config, ...]
    wide: bool

    @property
    def programs(self) -> frozenset[Axis]:
        """The axes of the grid."""
        return frozenset(self.rows).union(*(tile.axes for tile in self.grid))

    def is_whole(self, tile: Tile) -> bool:
        """Whether no block reaches beyond the end, whatever the config."""
        widest = max(dict(config.blocks)[tile.block] for config in self.configs)
        return same(tile.extent % widest, 0)


def plan(schedule: Schedule, target: Target) -> Plan:
    axes, outer, body = _grid(schedule.body)
    inner = _Inner(body, axes)
    reach = _Reach(schedule.body)
    grid, rows = _blocked(axes, inner, reach)
    configs = _configs(axes, grid, inner, reach, target)
    return Plan(
        rows, grid, body, outer, inner.tiles, inner.along, configs, _is_wide(schedule, axes, inner)
    )


def _is_wide(schedule: Schedule, axes: Sequence[Axis], inner: _Inner) -> bool:
    """Whether some index may need more than 32 bits."""
    kernel = schedule.kernel
    lengths = [span(buffer) for buffer in (*kernel.inputs, *kernel.outputs)]
    whole: Extent = 1
    for axis in axes:
        whole = whole * axis.extent
    lengths += [whole, *(tile.extent for tile in inner.tiles.values())]
    lengths += [loop.axis.extent for loop in loops(schedule.body)]
    return not all(less(length, NARROW) for length in lengths)


# The grid


def _grid(
    body: tuple[Statement, ...],
) -> tuple[tuple[Axis, ...], tuple[Compute, ...], tuple[Statement, ...]]:
    """The axes of the outermost loops, what is computed between them, and what is inside."""
    axes: list[Axis] = []
    outer: list[Compute] = []
    while True:
        inside = [each for each in body if isinstance(each, Loop)]
        alone = len(inside) == 1 and not any(isinstance(each, Write) for each in body)
        if not alone or inside[0].folds or inside[0].scans:
            return tuple(axes), tuple(outer), body
        outer.extend(each for each in body if isinstance(each, Compute))
        axes.append(inside[0].axis)
        body = inside[0].body


_CALLING = frozenset({"sin", "cos", "tan"})
"""Ops that libdevice calls a function for where arguments are large."""


class _Reach:
    """Along which axes memory is contiguous."""

    def __init__(self, body: Sequence[Statement]) -> None:
        self.loads: list[tuple[Load, Linear]] = []
        self.stores: list[tuple[Store, Linear]] = []
        self.nodes = 0
        self.calls = 0
        """Of functions that are not inlined, each for one element of a thread."""
        self._collect(body)

    def _collect(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case Compute(nodes=nodes):
                    self.nodes += sum(isinstance(node, Apply | Load) for node in nodes)
                    for node in nodes:
                        if isinstance(node, Apply) and node.op in _CALLING:
                            self.calls += 1
                        if isinstance(node, Load):
                            self.loads.append((node, offset(node.buffer, node.index)))
                case Write(store=store):
                    self.stores.append((store, offset(store.buffer, store.index)))
                case Loop(body=inside):
                    self._collect(inside)

    def accesses(self) -> list[tuple[Buffer, Linear]]:
        return [(load.buffer, at) for load, at in self.loads] + [
            (store.buffer, at) for store, at in self.stores
        ]

    @cached_property
    def _large(self) -> list[tuple[Buffer, Linear]]:
        every = [(access, _positions(access[1])) for access in self.accesses()]
        most = max((positions for _, positions in every), default=0)
        return [access for access, positions in every if positions * _ROW_BESIDE > most]

    def along(self, axis: Axis, among: Sequence[Axis] = ()) -> int:
        """Bytes of an element of all that lies contiguously along an axis, of what depends on one
        of some other axes. A row beside a matrix does not count."""
        return sum(
            buffer.dtype.itemsize
            for buffer, at in self._large
            if same(at.factor(axis), 1)
            and (not among or any(not same(at.factor(each), 0) for each in among))
        )

    def kept(self, axes: Sequence[Axis]) -> int:
        """How many different values of each of these positions are read more than once."""
        reads = Counter(load for load, _ in self.loads if not load.axes.isdisjoint(axes))
        return sum(times > 1 for times in reads.values())

    def itemsize(self) -> int:
        """The widest."""
        return max((buffer.dtype.itemsize for buffer, _ in self.accesses()), default=4)


_ROW_BESIDE = 16
"""How many times as many elements as another one a tensor has that counts alone."""


def _positions(at: Linear) -> int:
    """How many elements there are, at most, by the axes that they lie along."""
    axes = frozenset[Axis]().union(*(atom.axes for atom, _ in at.terms))
    return prod(typical(axis.extent) for axis in axes)


def _blocked(
    axes: tuple[Axis, ...], inner: _Inner, reach: _Reach
) -> tuple[tuple[Tile, ...], tuple[Axis, ...]]:
    """The dims that the grid has, and the axes whose positions have programs of their own."""
    if not axes:
        return (), ()
    if not inner.tiles:
        turned = _turned(axes, reach)
        if turned is not None:
            x, y = turned
            rows = tuple(axis for axis in axes if axis not in turned)
            return (Tile("y", "YBLOCK", (y,)), Tile("x", "XBLOCK", (x,))), rows
    long = [tile for tile in inner.tiles.values() if typical(tile.extent) >= ROW or tile.looped]
    fast = max((reach.along(tile.axes[-1], axes) for tile in inner.tiles.values()), default=0)
    inside = [axis for tile in inner.tiles.values() for axis in tile.axes]
    if long and fast >= max(reach.along(axis, inside) for axis in axes):
        return (), axes
    return (Tile("x", "XBLOCK", axes),), ()


def _turned(axes: tuple[Axis, ...], reach: _Reach) -> tuple[Axis, Axis] | None:
    """The axis that most results lie along, and another one that something is read along."""
    written = [axis for axis in axes if any(same(at.factor(axis), 1) for _, at in reach.stores)]
    if not written or typical(written[-1].extent) < 16:
        return None
    x = written[-1]
    for y in axes:
        if y is x or typical(y.extent) < 16:
            continue
        if any(
            same(at.factor(y), 1) and not same(at.factor(x), 0) and not same(at.factor(x), 1)
            for _, at in reach.loads
        ):
            return x, y
    return None


# Inside


@dataclass(eq=False)
class _Inner:
    """Finds the dims inside of a program."""

    body: tuple[Statement, ...]
    axes: tuple[Axis, ...]
    """The grid's."""
    tiles: dict[Loop, Tile] = field(default_factory=dict)
    along: dict[Loop, tuple[Axis, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reach = _Reach(self.body)
        self._shared: dict[tuple[Extent, ...], Tile] = {}
        self._assign(self.body)

    def _assign(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self._nest(statement)

    def _nest(self, loop: Loop) -> None:
        chain = [loop]
        while (inside := _only(chain[-1])) is not None:
            chain.append(inside)
        last = chain[-1]
        deeper = list(loops(last.body))
        picked = max(chain, key=self._worth)
        for each in chain:
            if each.scans:
                picked = each
        length = typical(picked.axis.extent)
        if any(typical(each.axis.extent) > 2 * length for each in deeper):
            self._assign(last.body)
            return
        together = self._together(chain)
        if together:
            length = 1
            for each in chain:
                length *= each.axis.extent
        few = length <= FEW and all(typical(each.axis.extent) <= SHORT for each in chain)
        if few and self.axes and not picked.scans:
            return
        axes = tuple(each.axis for each in (chain if together else [picked]))
        tile = self._tile(axes)
        self.along[chain[0] if together else picked] = axes
        for each in chain if together else [picked]:
            self.tiles[each] = tile

    def _worth(self, loop: Loop) -> tuple[bool, int]:
        length = typical(loop.axis.extent)
        return length >= 16 and self._reach.along(loop.axis) > 0, length

    def _together(self, chain: Sequence[Loop]) -> bool:
        """Whether all loops of a fold become one dim."""
        axes = tuple(each.axis for each in chain)
        if len(chain) < 2 or any(varies(axis.extent) for axis in axes):
            return False
        if any(each.scans or set(each.folds) != set(chain[0].folds) for each in chain):
            return False
        if any(fold.over != axes for fold in chain[0].folds):
            return False
        for each in loops(self.body):  # an axis of another dim has other positions there
            alike = each.folds and all(fold.over == axes for fold in each.folds)
            if each.axis in axes and not alike:
                return False
        return axes[-1].extent < FLAT

    def _tile(self, axes: tuple[Axis, ...]) -> Tile:
        """One for all loops of the same extents."""
        key = tuple(axis.extent for axis in axes)
        if key not in self._shared:
            count = len(self._shared)
            block = f"RBLOCK{count}" if count else "RBLOCK"
            whole = 1
            for axis in axes:
                whole = whole * axis.extent
            most = PERSISTENT // max(1, self._reach.kept(axes) - 1)
            inside = self._reach.along(axes[-1], self.axes)
            if any(self._reach.along(axis, axes) > inside for axis in self.axes):
                most = ACROSS
            self._shared[key] = Tile("r", block, axes, not less(whole, most + 1))
        return self._shared[key]


def _only(loop: Loop) -> Loop | None:
    """The loop that is all that a loop does, besides computing."""
    inside = [each for each in loop.body if not isinstance(each, Compute)]
    if len(inside) == 1 and isinstance(inside[0], Loop) and not loop.scans:
        first = inside[0]
        return first if set(first.folds) >= set(loop.folds) and not first.scans else None
    return None


# Blocks


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << max(0, number - 1).bit_length()


def _configs(
    axes: tuple[Axis, ...],
    grid: tuple[Tile, ...],
    inner: _Inner,
    reach: _Reach,
    target: Target,
) -> tuple[Config, ...]:
    """The first should be fastest; the others are tried where time is given for that."""
    positions = 1
    for axis in axes:
        positions *= typical(axis.extent)
    tiles = list(dict.fromkeys(inner.tiles.values()))
    if not tiles:
        return _pointwise(grid, positions, reach, target)
    return _with_rows(grid, tiles, positions, reach, target)


def _pointwise(
    grid: tuple[Tile, ...], positions: int, reach: _Reach, target: Target
) -> tuple[Config, ...]:
    match [tile.block for tile in grid]:
        case []:
            return (Config((), 1),)
        case [one]:
            widest = 8 * 1024 // max(reach.itemsize(), 4)  # 2048 elements of 4 bytes
            most = _power(positions)
            first = widest // 2
            while first > 256 and positions < 2 * target.processors * first:
                first //= 2
            if reach.nodes > 150 or len(reach.loads) > 6:  # or few warps have room for it all
                first = min(first, 512)
            if reach.calls:  # code for each element of a thread; what lives meanwhile is saved
                first = min(first, 128)
            found = []
            for elements in (first, widest, 512, 256, 4096):
                block = min(elements, most)
                config = Config(
                    ((one, block),), max(1, min(4 if block <= 1024 else 8, block // 32))
                )
                if config not in found:
                    found.append(config)
            return tuple(found)
        case blocks:
            sides = _sides(positions, reach, target)
            return tuple(
                Config(tuple(zip(blocks, each[:2], strict=True)), each[2]) for each in sides
            )


def _sides(positions: int, reach: _Reach, target: Target) -> tuple[tuple[int, int, int], ...]:
    """Of tiles that turn what they read: as large as leaves each processor two programs. On an
    H100, squares of 128 move 4 to 12% more a second than squares of 32."""
    squares = ((128, 128, 16), (64, 64, 4), (32, 32, 4))
    most = 128 if len(reach.loads) <= 2 else 64
    fits = [
        square
        for square in squares
        if square[0] <= most and positions >= 2 * target.processors * square[0] ** 2
    ]
    first = fits[0] if fits else squares[-1]
    others = (*squares, (32, 64, 4), (64, 32, 4), (16, 64, 4))
    return (first, *(each for each in others if each is not first))


def _with_rows(
    grid: tuple[Tile, ...],
    tiles: Sequence[Tile],
    positions: int,
    reach: _Reach,
    target: Target,
) -> tuple[Config, ...]:
    if not grid:
        return _rows_alone(tiles, reach)
    (x,) = grid
    inside = [axis for tile in tiles for axis in tile.axes]
    along_x = max(reach.along(axis, inside) for axis in x.axes)
    along_r = max(reach.along(tile.axes[-1], x.axes) for tile in tiles)
    if along_x > along_r:
        return _columns(x, tiles, positions, reach, target)
    longest = max(_row(tile) for tile in tiles)
    across = min(_power(positions), max(1, _ROOM // longest))
    while across > 1 and positions < 2 * target.processors * across:
        across //= 2
    found = []
    for wide, warps in ((across, 4), (2 * across, 8), (max(1, across // 2), 4)):
        config = _config(x, tiles, min(wide, _power(positions)), _ROOM, warps)
        if config not in found:
            found.append(config)
    return tuple(found)


_ROOM = 2048
"""Elements of a tile of several short rows."""


def _rows_alone(tiles: Sequence[Tile], reach: _Reach) -> tuple[Config, ...]:
    """Each program has a row. On an H100, what goes over a row in blocks wants all warps that there
    are, and narrow numbers that stay in registers want few."""
    longest = max(_row(tile) for tile in tiles)
    warps = 4 if longest <= 2048 else min(longest // 512, 32 if longest > 8192 else 16)
    if any(tile.looped for tile in tiles):
        warps = 32
    elif longest > 8192 and reach.itemsize() <= 2:
        warps = 8
    if reach.nodes > 100:
        warps = min(32 if warps > 16 else 16, 2 * warps)
    blocks = tuple((tile.block, _row(tile)) for tile in tiles)
    others = [w for w in (warps // 2, warps * 2, warps // 4) if 1 <= w <= 32]
    return tuple(Config(blocks, each) for each in (warps, *others))


def _columns(
    x: Tile, tiles: Sequence[Tile], positions: int, reach: _Reach, target: Target
) -> tuple[Config, ...]:
    """Neighbouring elements are of different folds. On an H100, 64 of them with 64 steps each at
    once, or 128 of narrow numbers, move most."""
    across = min(_power(positions), 64)
    while across > 16 and positions < target.processors * across:
        across //= 2
    narrow = reach.itemsize() <= 2
    first = _config(x, tiles, across, across * (128 if narrow else 64), 4)
    others = (
        _config(x, tiles, across, across * (64 if narrow else 128), 4),
        _config(x, tiles, max(1, across // 2), _ROOM, 4),
        _config(x, tiles, max(1, across // 4), _ROOM, 4),
    )
    return tuple(dict.fromkeys((first, *others)))


def _config(x: Tile, tiles: Sequence[Tile], wide: int, room: int, least: int) -> Config:
    """Tiles of so many columns and about so many elements; with that many warps, or more."""
    sizes = [(x.block, wide)]
    for tile in tiles:
        length = _row(tile)
        sizes.append((tile.block, min(length, max(8, room // wide)) if tile.looped else length))
    whole = wide * max(size for _, size in sizes[1:])
    warps = max(least, whole // 512) if any(tile.looped for tile in tiles) else least
    while warps < 32 and whole > warps * 32 * 32:
        warps *= 2
    return Config(tuple(sizes), max(1, min(warps, 32, whole // 32)))


def _row(tile: Tile) -> int:
    """How wide a dim is where nothing else is."""
    return LOOPED if tile.looped else _power(typical(tile.extent))
