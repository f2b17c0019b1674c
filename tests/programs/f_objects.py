"""Classes of the program's own: attributes, dunders, descriptors, dataclasses, enums."""

import abc
import dataclasses
import enum
import functools
import types
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import torch

from tests.programs.program import Programs, call, floats, leaf

program = Programs()


class Plain:
    shared = 10

    def __init__(self, value):
        self.value = value

    def double(self):
        return self.value * 2


@program(call(floats(1, 2), Plain(3)), call(floats(1, 2), Plain(4)), every_break=True)
def attributes_read_and_written(x, p):
    p.value = p.value + 1
    p.tensor = x * p.value
    p.value += p.shared
    q = p
    q.other = [p.tensor]
    return p.tensor + p.double(), p


@program(call(floats(1, 2)), every_break=True)
def objects_made(x):
    p = Plain(x)
    q = Plain(p)
    p.back = q
    return p, q.value.double(), Plain(1).value


@program(call(floats(1, 2), Plain(3)), every_break=True)
def attribute_deleted(x, p):
    del p.value
    p.fresh = 1
    del p.fresh
    return x + 1, hasattr(p, "value"), vars(p)


@program(call(floats(1, 2), Plain(3)), graphs=None)
def missing_attribute(x, p):
    y = x + 1
    try:
        return p.nothing
    except AttributeError as error:
        return y, str(error)


class Base:
    def __init__(self, a):
        self.a = a

    def describe(self, x):
        return x + self.a

    @classmethod
    def make(cls, a):
        return cls(a)


class Left(Base):
    def describe(self, x):
        return super().describe(x) * 2


class Right(Base):
    def describe(self, x):
        return super().describe(x) - 1


class Both(Left, Right):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def describe(self, x):
        return super(Both, self).describe(x) + self.b


@program(call(floats(1, 2), Both(3, 4)), call(floats(1, 2), Left(3)), every_break=True)
def inheritance_and_super(x, obj):
    made = Left.make(5)
    return obj.describe(x), made.describe(x), type(made), isinstance(obj, Base), Both.__mro__[1]


class Vector:
    def __init__(self, data):
        self.data = data

    def __add__(self, other):
        return Vector(self.data + getattr(other, "data", other))

    def __radd__(self, other):
        return Vector(other + self.data)

    def __mul__(self, k):
        return Vector(self.data * k) if isinstance(k, (int, float)) else NotImplemented

    def __neg__(self):
        return Vector(-self.data)

    def __iadd__(self, other):
        self.data = self.data + other
        return self

    def __matmul__(self, other):
        return (self.data * other.data).sum()

    def __getitem__(self, k):
        return self.data[k]

    def __setitem__(self, k, value):
        self.data[k] = value

    def __len__(self):
        return self.data.shape[0]

    def __contains__(self, item):
        return item == "data"

    def __bool__(self):
        return len(self) > 1

    def __call__(self, k):
        return self.data + k


@program(call(Vector(floats(1, 2)), Vector(floats(3, 4))), every_break=True)
def operators_of_a_class(a, b):
    c = a + b + 1
    d = 2 + a * 3
    e = -c
    a += 5
    return c, d, e, a @ b, a


@program(call(Vector(floats(1, 2))), call(Vector(floats(1))), every_break=True)
def container_methods_of_a_class(v):
    v[0] = 9
    n = len(v)
    return v[0] * n, "data" in v, "x" in v, bool(v), v(3), not v


class Money:
    def __init__(self, amount):
        self.amount = amount

    def __eq__(self, other):
        return isinstance(other, Money) and self.amount == other.amount

    def __hash__(self):
        return hash(self.amount)

    def __lt__(self, other):
        return self.amount < other.amount

    def __repr__(self):
        return f"Money({self.amount})"

    def __str__(self):
        return f"{self.amount} coins"

    def __format__(self, spec):
        return spec + str(self.amount)

    def __index__(self):
        return self.amount

    def __float__(self):
        return float(self.amount)


@program(call(floats(1, 2), Money(3), Money(4)), call(floats(1, 2), Money(4), Money(4)))
def comparison_and_text_of_a_class(x, a, b):
    texts = repr(a), str(a), f"{a:>}", f"{a!r}"
    flags = a == b, a != b, a < b, a == 3
    return (
        x * float(a),
        texts,
        flags,
        [10, 20, 30, 40, 50][a],
        min(a, b) is a,
        sorted([b, a])[0] is a,
    )


@program(call(floats(1, 2), Money(3), Money(4)), graphs=None)
def own_hash_in_sets_and_dicts(x, a, b):
    table = {a: 1, b: 2}
    return x * table[Money(3)], len({a, b, Money(4)}), Money(4) in table


@functools.total_ordering
class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@program(call(floats(1, 2), Version(1), Version(2)))
def total_ordering_class(x, a, b):
    return x + 1, a <= b, a > b, a >= b, a != b, max(a, b) is b


class Temperature:
    def __init__(self, celsius):
        self._celsius = celsius
        self.reads = 0

    @property
    def celsius(self):
        self.reads += 1
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        if value < -273:
            raise ValueError("too cold")
        self._celsius = value

    @celsius.deleter
    def celsius(self):
        self._celsius = None


@program(call(floats(1, 2), Temperature(20)), call(floats(1, 2), Temperature(30)), every_break=True)
def properties(x, t):
    y = x * t.celsius
    t.celsius = 25
    t.celsius += 1
    last = t.celsius
    del t.celsius
    return y, last


@program(call(floats(1, 2), Temperature(20)), graphs=None)
def property_setter_raises(x, t):
    y = x + 1
    try:
        t.celsius = -300
    except ValueError as error:
        return y, str(error)


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name, 0)

    def __set__(self, obj, value):
        setattr(obj, self.name, value + 1)


class Lazy:
    def __init__(self, function):
        self.function = function

    def __get__(self, obj, owner=None):
        value = self.function(obj)
        obj.__dict__[self.function.__name__] = value
        return value


class Described:
    level = Typed()

    def __init__(self, k):
        self.level = k

    @Lazy
    def heavy(self):
        return self.level * 100


@program(call(floats(1, 2), Described(3)), call(floats(1, 2), Described(4)))
def data_descriptors(x, d):
    d.level = d.level + 1
    return x * d.level, Described.level is type(d).__dict__["level"], Described(1).level


@program(call(floats(1, 2), Described(3)), call(floats(1, 2), Described(4)), graphs=None)
def non_data_descriptor_that_caches(x, d):
    return x * d.heavy, d.heavy, vars(d)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@program(call(floats(1, 2), Slotted(3)), call(floats(1, 2), Slotted(4)), every_break=True)
def slots(x, s):
    s.b = x * s.a
    s.a += 1
    made = Slotted(7)
    return s.b, made, hasattr(made, "b"), s


class Dynamic:
    def __init__(self):
        self.known = 1
        self.log = []

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return len(name)
        raise AttributeError(name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name != "log":
            self.__dict__.setdefault("log", []).append(name)


@program(call(floats(1, 2), Dynamic()), call(floats(1, 2), Dynamic()), graphs=None)
def dynamic_attributes(x, d):
    d.fresh = 5
    return x * d.dyn_abc + d.known, hasattr(d, "other"), d.log, getattr(d, "nope", 2)


@dataclass
class Config:
    name: str
    size: int = 3
    tags: list = field(default_factory=list)
    limit: ClassVar[int] = 9

    def area(self):
        return self.size**2


@dataclass(frozen=True)
class Frozen:
    a: int
    b: float = 0.5

    def __post_init__(self):
        object.__setattr__(self, "a", self.a + 1)


@dataclass(order=True, slots=True)
class Ranked:
    rank: int
    item: object = field(compare=False, default=None)


@program(call(floats(1, 2), Config("c")), call(floats(1, 2), Config("d", 4, [1])), every_break=True)
def dataclasses_of_all_kinds(x, config):
    config.size += 1
    config.tags.append("t")
    made = Config("new", tags=[x])
    return x * config.area() + Config.limit, made, made == Config("new", tags=[x]), config.limit


@program(call(floats(1, 2), Frozen(3)), call(floats(1, 2), Frozen(4)))
def frozen_and_ordered_dataclasses(x, frozen):
    made = Frozen(1, b=2.5)
    ranks = sorted([Ranked(2, x), Ranked(1)])
    return x * frozen.a + made.b, made == Frozen(1, 2.5), ranks, Ranked(1) < Ranked(2), made


@program(call(floats(1, 2), Frozen(3)), graphs=None)
def write_to_a_frozen_dataclass(x, frozen):
    y = x + 1
    try:
        frozen.a = 5
    except dataclasses.FrozenInstanceError as error:
        return y, str(error)


class Colour(enum.Enum):
    RED = 1
    GREEN = "green"

    def shout(self):
        return self.name + "!"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@program(call(floats(1, 2), Colour.RED), call(floats(1, 2), Colour.GREEN), every_break=True)
def enums(x, colour):
    if colour is Colour.RED:
        return x * colour.value, colour.name, colour.shout()
    return x + Level.HIGH, colour == Colour.GREEN, colour in (Colour.RED,), Level.LOW < 5


@program(call(floats(1, 2)), graphs=None)
def enums_looked_up(x):
    both = Permission.READ | Permission.WRITE
    return (
        x * Level(10),
        Colour["RED"],
        Colour("green"),
        list(Colour),
        Permission.READ in both,
        len(Colour),
    )


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    def twice(self, x):
        return x * self.area() * 2


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


@program(call(floats(1, 2), Square(3)), call(floats(1, 2), Square(2)))
def abstract_classes(x, shape):
    return shape.twice(x), isinstance(shape, Shape), Square(4).area(), issubclass(Square, Shape)


@runtime_checkable
class HasArea(Protocol):
    def area(self): ...


@program(call(floats(1, 2), Square(3)), call(floats(1, 2), Plain(3)), graphs=None)
def protocols(x, obj):
    return x * obj.area() if isinstance(obj, HasArea) else x


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.by_meta = True
        return made

    @property
    def title(cls):
        return cls.__name__.lower()


class WithMeta(metaclass=Meta):
    def __init__(self, k=1):
        self.k = k


@program(call(floats(1, 2)), every_break=True)
def metaclasses(x):
    made = WithMeta(3)
    return x * made.k, made.by_meta, WithMeta.title, type(WithMeta) is Meta


class Node:
    def __init__(self, value, children=()):
        self.value = value
        self.children = list(children)

    def total(self):
        return self.value + sum(child.total() for child in self.children)


@program(call(Node(floats(1), [Node(floats(2)), Node(floats(3), [Node(floats(4))])])))
def tree_of_objects(tree):
    tree.children.append(Node(tree.value * 10))
    return tree.total(), tree


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@program(call(floats(1, 2), Countdown(3)), call(floats(1, 2), Countdown(4)), every_break=True)
def iterator_class(x, countdown):
    for n in countdown:
        x = x + n
    return x, list(Countdown(3)), [*Countdown(2)]


class Singleton:
    _instance = None

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.args = args
        return made


@program(call(floats(1, 2)), every_break=True)
def own_new(x):
    made = Singleton(x, 2)
    return made, made.args[0] + 1


@program(call(floats(1, 2), types.SimpleNamespace(a=1, b=floats(2))), every_break=True)
def simple_namespaces(x, ns):
    ns.c = ns.a + 1
    made = types.SimpleNamespace(x=x)
    return x * ns.b, ns, made


@program(call(leaf(1, 2), Plain(None)), call(leaf(1, 2), Plain(floats(1))))
def state_kept_between_calls(x, state):
    if state.value is None:
        state.value = torch.zeros(2)
    state.value = state.value * 0.9 + x.detach() * 0.1
    return x * state.value


class Unit:
    registry: ClassVar[list] = []

    def __init_subclass__(cls, **kwargs):
        Unit.registry.append(cls.__name__)


class Metre(Unit):
    pass


@program(call(floats(1, 2)), watch="Unit", graphs=None)
def class_attributes_written(x):
    Unit.count = getattr(Unit, "count", 0) + 1
    return x * Unit.count, Unit.registry, Metre.count
