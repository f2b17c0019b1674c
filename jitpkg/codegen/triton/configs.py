"""How wide the blocks of a kernel's dims are, and how many warps work on one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from jitpkg.codegen.fusion.kernel import Schedule
from jitpkg.codegen.fusion.statements import loops, span, typical
from jitpkg.codegen.ir.extents import less
from jitpkg.codegen.ir.nodes import Extent
from jitpkg.codegen.triton.dims import Dim, Dims
from jitpkg.codegen.triton.reach import Reach
from jitpkg.codegen.triton.source import Config
from jitpkg.codegen.triton.target import Target

LOOPED = 4096
"""Elements of a block of a row that is too long for registers."""

NARROW = (1 << 31) - (1 << 17)
"""What indices of 32 bits may count: a tile may reach a little beyond the end."""


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << max(0, number - 1).bit_length()


def configs(schedule: Schedule, of: Dims, target: Target) -> tuple[Config, ...]:
    """The first should be fastest; the others are tried where time is given for that.

    Args:
        schedule: as it was before any pass; what is measured depends on how much that does.
        of: the dims of its last stage.
    """
    reach = Reach(schedule.body)
    positions = prod(typical(axis.extent) for axis in of.programs)
    tiles = list(of.inside.values())
    if not tiles:
        return _pointwise(of.grid, positions, reach, target)
    return _with_rows(of.grid, tiles, positions, reach, target)


def is_wide(schedule: Schedule, of: Dims) -> bool:
    """Whether some index may need more than 32 bits."""
    kernel = schedule.kernel
    lengths = [span(buffer) for buffer in (*kernel.inputs, *kernel.outputs)]
    whole: Extent = 1
    for axis in of.programs:
        whole = whole * axis.extent
    lengths += [whole, *(dim.extent for dim in of.inside.values())]
    lengths += [loop.extent for loop in loops(schedule.body)]
    return not all(less(length, NARROW) for length in lengths)


def _pointwise(
    grid: tuple[Dim, ...], positions: int, reach: Reach, target: Target
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


def _sides(positions: int, reach: Reach, target: Target) -> tuple[tuple[int, int, int], ...]:
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
    grid: tuple[Dim, ...],
    tiles: Sequence[Dim],
    positions: int,
    reach: Reach,
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


def _rows_alone(tiles: Sequence[Dim], reach: Reach) -> tuple[Config, ...]:
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
    x: Dim, tiles: Sequence[Dim], positions: int, reach: Reach, target: Target
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


def _config(x: Dim, tiles: Sequence[Dim], wide: int, room: int, least: int) -> Config:
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


def _row(tile: Dim) -> int:
    """How wide a dim is where nothing else is."""
    return LOOPED if tile.looped else _power(typical(tile.extent))
