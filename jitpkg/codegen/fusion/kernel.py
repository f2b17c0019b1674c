"""A kernel: writes inside of loops. What a printer is given."""

from __future__ import annotations

from jitpkg.codegen.fusion.online import Pair
from jitpkg.codegen.ir.nodes import Axis, Buffer, Extent, Load, Node, Reduce, Scan, Store
from jitpkg.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Writes, each done for every position of the axes that it depends on."""

    name: str
    axes: tuple[Axis, ...]
    """The loop nest, outermost first. A value is computed at the innermost of its axes."""
    stores: tuple[Store, ...]
    inputs: tuple[Buffer, ...]
    """Buffers that are read and not written, in the order of the kernel's parameters."""
    outputs: tuple[Buffer, ...]
    """Buffers that are written; parameters behind the inputs."""
    ops: tuple[str, ...] = ()
    """Names of the ops that it computes, where a graph was made of it; views are none."""


@dataclass(frozen=True, eq=False, slots=True)
class Compute:
    """Values become known here, in this order. Loads are among them; folds are not."""

    nodes: tuple[Node, ...]
    again: frozenset[Node] = frozenset()
    """Loads of which the memory is read again soon."""
    ahead: frozenset[Node] = frozenset()
    """Loads that ask for what the lanes read some iterations later, too."""


@dataclass(frozen=True, slots=True)
class Serial:
    """A loop's iterations run one after another."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """So many iterations run side by side, in vector registers."""

    count: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Each iteration is a block of so many positions; the last one may have fewer. Loops inside
    along the same axis run over the block's positions only."""

    count: int


@dataclass(frozen=True, slots=True)
class Chunks(Blocks):
    """Such blocks, which threads share; what each of them folds is folded by one thread then."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Threads share the positions, in parts that are blocks of any multiple of `count`, but for the
    last one; nothing is folded."""

    count: int
    work: Extent
    """About how often the innermost statements run for `count` positions."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Each iteration is a part of another program: these come in no order, and share nothing."""

    dim: str = ""
    """The dim of the programs' tiles that a block of iterations lies along; without one, each has
    programs of its own."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Iterations run side by side in one program, along a dim of its tile. Loops in each other that
    have the same dim are one, the innermost is the fastest."""

    dim: str
    whole: bool
    """Whether all run at once, and what is kept stays in registers. Otherwise they run in blocks,
    one after another."""


Kind = Serial | Lanes | Blocks | Chunks | Parts | Grid | Tile


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Runs its body for each position of an axis."""

    axis: Axis
    body: tuple[Statement, ...]
    folds: tuple[Reduce, ...] = ()
    """Folds that this loop carries, each combining its `value` in every iteration; known behind the
    outermost loop of the axes that they are over. A fold over two axes is carried by both loops."""
    scans: tuple[Scan, ...] = ()
    """Running folds that this loop carries; known in the body, from the iteration's value on."""
    kind: Kind = Serial()
    pairs: tuple[Pair, ...] = ()
    """Of which this loop carries both folds in one state: the first one is among its folds, and the
    second one becomes known where the pair is finished."""

    @property
    def extent(self) -> int:
        """How many positions there are."""
        return self.axis.extent

    @property
    def lanes(self) -> int:
        """How many iterations run side by side."""
        return self.kind.count if isinstance(self.kind, Lanes) else 1

    @property
    def step(self) -> int:
        """How many positions an iteration goes on."""
        match self.kind:
            case Lanes(count=count) | Blocks(count=count) | Parts(count=count):
                return count
            case _:
                return 1

    @property
    def iterations(self) -> int:
        """How many iterations there are."""
        return -(-self.extent // self.step)

    @property
    def is_split(self) -> bool:
        """Whether it only says which positions the loops inside along its axis have."""
        return isinstance(self.kind, Blocks | Parts)


@dataclass(frozen=True, slots=True)
class Write:
    store: Store


@dataclass(frozen=True, slots=True)
class Keep:
    """A value is kept for its position in the loop, which is in lanes or a whole tile, until the
    iteration of the loops around ends."""

    node: Node
    along: Axis | None = None
    """That of the loop that this is in, where it is a column inside of a loop in lanes: the value
    is kept for its position along both."""


@dataclass(frozen=True, slots=True)
class Take:
    """A value becomes known that an earlier loop has kept at the same position."""

    node: Node
    along: Axis | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A fold, or a scan, that an inner loop carries has come by nothing yet at this position of the
    loop that this is in."""

    node: Reduce | Scan


@dataclass(frozen=True, slots=True)
class Gather:
    """What an inner loop has come by, which goes over a block, is added to what it had come by at
    this position before; it is to be taken behind."""

    node: Reduce | Scan


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """What a load reads in the blocks of two axes is read here, and lies turned in memory of ours:
    neighbouring elements belong to neighbours along `outer`, and lanes run along `lanes`."""

    load: Load
    outer: Axis
    lanes: Axis
    high: int
    """Positions of a block of `outer`, at most."""
    wide: int | None
    """Of a block of `lanes`; all that there are, if None."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The second fold of a pair becomes known: an earlier loop has carried both."""

    pair: Pair


Statement = Compute | Loop | Write | Keep | Take | Begin | Gather | Turn | Finish


@dataclass(frozen=True, eq=False, slots=True)
class Schedule:
    """A kernel as a program of loops."""

    kernel: Kernel
    body: tuple[Statement, ...]
