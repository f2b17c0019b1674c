"""Classes and functions that programs define, and what they can do with them.

A paragraph is a definition. Its last lines, with arrows, are what is offered:

    -> int: len(<self>)                   an expression of the kind `int`
    -> self: <Name>(<vec>, <int>)         how instances are made
    -> : <self:var>.count += <int>        a statement

`<Name>` is its name, and `<self>` an instance. `<body vec self v=vec>` stands for statements and a
return, with variables of these kinds; `self` brings its fields.
"""

CLASSES = """
*4 class <Name>:
    def __init__(self, x, n=1):
        self.x = x
        self.n = n
        self.items = [n]
    <members>
-> self: <Name>(<vec>, <int>)
-> self: <Name>(<vec>)
fields: x=vec n=int items=list

*2 class <Name>:
    scale = 2
    def __init__(self, table):
        self.table = table
    <members>
-> self: <Name>(<dict>)
-> int: <self>.scale
-> int: <Name>.scale
-> : <self:var>.scale = <int>
-> : <Name>.scale = <int>
fields: table=dict scale=int

class <Name>:
    __slots__ = ('n', 'x')
    def __init__(self, n, x):
        self.n, self.x = n, x
    <members>
-> self: <Name>(<int>, <vec>)
fields: n=int x=vec

*2 @dataclasses.dataclass
class <Name>:
    x: torch.Tensor
    n: int = 1
    items: list = dataclasses.field(default_factory=list)
    <members>
-> self: <Name>(<vec>)
-> self: <Name>(<vec>, <int>, items=<list>)
-> self: dataclasses.replace(<self>, n=<int>)
-> bool: <self>.n == <self>.n
-> list: list(vars(<self>))
fields: x=vec n=int items=list

@dataclasses.dataclass(frozen=True, order=True)
class <Name>:
    n: int
    word: str = 'a'
    <members>
-> self: <Name>(<int>)
-> self: <Name>(<int>, <str>)
-> bool: <self> == <self>
-> bool: <self> < <self>
-> str: repr(<self>)
-> int: len({<self>, <self>})
-> : <self:var>.n = <int>
fields: n=int word=str

*2 class <Name>(typing.NamedTuple):
    x: torch.Tensor
    n: int = 2
    <members>
-> self: <Name>(<vec>, <int>)
-> self: <Name>(n=<int>, x=<vec>)
-> self: <self>._replace(n=<int>)
-> vec: <self>[0]
-> int: len(<self>)
-> list: list(<self>._asdict())
fields: x=vec n=int

class <Name>(enum.Enum):
    A = 1
    B = 2
    <members>
-> self: <Name>.A
-> self: <Name>(<int>)
-> int: <self>.value
-> str: <self>.name
-> bool: <self> is <Name>.A
-> bool: <self> == <Name>.B
-> list: list(<Name>)

class <Name>(list):
    <members>
-> self: <Name>(<ints>)
-> int: len(<self>)
-> ints: sorted(<self>)
-> : <self:var>.append(<int>)

class <Name>(dict):
    <members>
    def __missing__(self, key):
        <body int key=key>
-> self: <Name>(<dict>)
-> int: <self>[<key>]
-> dict: dict(<self>)
-> : <self:var>[<key>] = <int>

class <Name>(int):
    <members>
-> self: <Name>(<int>)
-> int: <self> + <int>
-> str: repr(<self>)

class <Name>(Exception):
    def __init__(self, message, n=0):
        super().__init__(message)
        self.n = n
    <members>
-> self: <Name>(<str>, <int>)
-> exc: <Name>(<str>)
-> error: <Name>
-> int: <self>.n
fields: n=int

*2 class <Name>(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer('seen', torch.zeros(1))
        self.count = 0
    def forward(self, v):
        <body vec self v=vec>
-> self: <Name>()
-> self: <Name>().eval()
-> vec: <self>(<vec>)
-> vec: <self>.weight * <vec>
-> bool: <self>.training
-> list: [k for k, _ in <self>.named_parameters()]
-> : <self:var>.train(<bool>)
-> : <self:var>.count += 1
-> : <self:var>.seen.add_(<number>)
-> : <self:var>.seen += 1
-> : <self:var>.seen = <vec>
fields: weight=scalar seen=vec count=int

class <Name>(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        self.layers = nn.ModuleList([nn.ReLU(), nn.Dropout(0.5)])
        self.norm = nn.BatchNorm1d(n, track_running_stats=True)
        self.calls = []
    def forward(self, v, **options):
        self.calls.append(<int>)
        for layer in self.layers:
            v = layer(v)
        <body vec self v=vec options=dict>
-> self: <Name>()
-> self: <Name>().eval()
-> vec: <self>(<vec>)
-> vec: <self>(<vec>, scale=<int>)
-> mat: <self>.norm(torch.cat([<mat>, <mat>], 0).repeat(1, 2)[:, :2])
-> int: int(<self>.norm.num_batches_tracked)
-> int: len(<self>.layers)
-> : <self:var>.train(<bool>)
fields: calls=list

*2 class <Name>:
    def __init__(self, log):
        self.log = log
    def __enter__(self):
        self.log.append('in')
        <body any self>
    def __exit__(self, kind, error, traceback):
        self.log.append(kind and kind.__name__)
        <body bool self error=exc>
-> self: <Name>(<list>)
-> : with <Name>(<list>) as <fixed:any>:
    <block>
-> : with <self> as <fixed:any>:
    <block>
fields: log=list

class <Name>:
    def __init__(self, n):
        self.n = n
        self.left = 3
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        <body int self>
-> self: <Name>(<int>)
-> ints: list(<self>)
-> int: next(<self>, <int>)
-> int: sum(<self>)
-> it: iter(<self>)
-> : for <fixed:int> in <self>:
    <block>
fields: n=int

class <Name>:
    def __get__(self, obj, owner=None):
        <body any obj=any>
    def __set__(self, obj, value):
        obj.__dict__['kept'] = value
class <Name>Owner:
    field = <Name>()
    def __init__(self, value):
        self.field = value
-> any: <Name>Owner(<any>).field
-> any: vars(<Name>Owner(<any>))
"""

MEMBERS = """
*3 def scaled(self, v, k=2):
    <body vec self v=vec k=int>
-> vec: <self>.scaled(<vec>)
-> vec: <self>.scaled(<vec>, k=<int>)
-> fn: <self>.scaled

*2 def __len__(self):
    <body int self>
-> int: len(<self>)
-> bool: bool(<self>)
-> bool: not <self>

def __len__(self):
    <body odd self>
-> int: len(<self>)
-> bool: bool(<self>)

def __bool__(self):
    <body bool self>
-> bool: bool(<self>)
-> bool: not <self>
-> int: (1 if <self> else 2)

def __bool__(self):
    <body odd self>
-> bool: bool(<self>)
-> int: (1 if <self> else 2)

*2 def __call__(self, v):
    <body vec self v=vec>
-> vec: <self>(<vec>)

*2 def __getitem__(self, k):
    <body any self k=plain>
-> any: <self>[<int>]
-> any: <self>[<key>]
-> any: <self>[1:<int>]

def __setitem__(self, k, value):
    <body none self k=plain value=plain>
-> : <self:var>[<key>] = <any>
-> : <self:var>[<int>] = <any>

def __contains__(self, k):
    <body any self k=plain>
-> bool: <int> in <self>
-> bool: <key> not in <self>

*2 def __add__(self, other):
    <body any self other=plain>
-> any: <self> + <any>

def __radd__(self, other):
    <body any self other=plain>
-> any: <any> + <self>
-> any: <vec> + <self>
-> any: sum([<self>, <self>])

def __mul__(self, other):
    if isinstance(other, str):
        return NotImplemented
    <body any self other=plain>
-> any: <self> * <any>

def __iadd__(self, other):
    <body any self other=plain>
    return self
-> : <self:set> += <any>

def __neg__(self):
    <body any self>
-> any: -<self>

*2 def __eq__(self, other):
    <body any self other=plain>
-> bool: bool(<self> == <any>)
-> bool: <self> in [<any>, <any>]
-> bool: [<any>, <self>] == [<any>, <self>]
-> any: <self> != <any>

def __hash__(self):
    <body int self>
-> int: hash(<self>)
-> int: {<self>: <int>}[<self>]
-> bool: <self> in {<self>}

def __hash__(self):
    <body odd self>
-> int: hash(<self>)
-> bool: <self> in {<any:var>: 1}

def __lt__(self, other):
    <body any self other=plain>
-> list: sorted([<self>, <self>])
-> any: <self> < <any>
-> any: <any> > <self>
-> any: max(<self>, <self>)

def __index__(self):
    <body int self>
-> int: <ints>[<self>]
-> ints: list(range(3))[<self>:]
-> int: operator.index(<self>)

def __index__(self):
    <body odd self>
-> int: <ints>[<self>]
-> int: operator.index(<self>)

def __int__(self):
    <body odd self>
-> int: int(<self>)

def __float__(self):
    <body odd self>
-> float: float(<self>)

*2 def __repr__(self):
    <body str self>
-> str: repr(<self>)
-> str: f'{<self>}'
-> str: str([<self>])

def __str__(self):
    <body odd self>
-> str: str(<self>)
-> str: f'{<self>!s:>5}'

def __format__(self, spec):
    <body str self spec=str>
-> str: f'{<self>:a}'
-> str: format(<self>, <str>)

def __iter__(self):
    <generate any self>
-> list: list(<self>)
-> list: [*<self>]
-> : for <fixed:any> in <self>:
    <block>
-> : <new:any>, *<new:list> = <self>

def __iter__(self):
    <body any self>
-> list: list(<self>)

*2 def __getattr__(self, name):
    if name.startswith('__'):
        raise AttributeError(name)
    <body any name=str>
-> any: <self>.missing
-> any: getattr(<self>, <str>)
-> any: getattr(<self>, <str>, <any>)
-> bool: hasattr(<self>, <str>)

def __setattr__(self, name, value):
    <body none value=plain name=str>
    object.__setattr__(self, name, value)
-> : <self:var>.extra = <any>

def __eq__(self, other):
    return NotImplemented
-> bool: <self> == <any>

*2 @property
def size(self):
    <body int self>
@size.setter
def size(self, value):
    <body none self value=int>
-> int: <self>.size
-> : <self:var>.size = <int>
-> : <self:var>.size += <int>

@functools.cached_property
def cached(self):
    <body any self>
-> any: <self>.cached

@staticmethod
def shifted(v, by=1):
    <body vec v=vec by=int>
-> vec: <self>.shifted(<vec>)
-> vec: <Name>.shifted(<vec>, <int>)
-> fn: <Name>.shifted

@classmethod
def made(cls, value):
    <body any value=any>
-> any: <Name>.made(<any>)
-> any: <self>.made(<any>)

def each(self):
    <generate any self>
-> list: list(<self>.each())
-> gen: <self>.each()
-> : for <fixed:any> in <self>.each():
    <block>

def __enter__(self):
    <body any self>
def __exit__(self, *error):
    <body any self>
-> : with <self> as <fixed:any>:
    <block>

def __del_item(self):
    <body any self>
def visible(self):
    return self.__del_item()
-> any: <self>.visible()
"""

SUBCLASSES = """
class <Name>(<Base>):
    <members>

*2 class <Name>(<Base>):
    def scaled(self, v, k=3):
        v = super().scaled(v)
        <body vec v=vec k=int>
-> vec: <self>.scaled(<vec>)
"""

FUNCTIONS = """
*4 def <Name>(v):
    <body vec v=vec>
-> fn: <Name>
-> vec: <Name>(<vec>)

*3 def <Name>(k):
    <body int k=int>
-> ifn: <Name>
-> int: <Name>(<int>)

*2 def <Name>(v, k=2, *rest, scale=1.0, **more):
    <body vec v=vec k=int rest=tup scale=float more=dict>
-> vec: <Name>(<vec>)
-> vec: <Name>(<vec>, <int>, *<ints>, scale=<float>)
-> vec: <Name>(<vec>, **<dict>)
-> vec: <Name>(k=<int>, v=<vec>)

*2 def <Name>(items):
    <body any items=list>
-> any: <Name>(<list>)

def <Name>(table, v):
    <body none table=dict v=vec>
-> : <Name>(<dict>, <vec>)
-> none: <Name>(<dict:var>, <vec>)

*2 def <Name>(n):
    <generate int n=int>
-> gen: <Name>(<int>)
-> ints: list(<Name>(<int>))
-> : for <fixed:int> in <Name>(<int>):
    <block>

def <Name>(parts):
    for part in parts:
        <generate vec part=vec>
-> vecs: list(<Name>(<vecs>))
-> vec: sum(<Name>(<vecs>))
-> : for <fixed:vec> in <Name>(<vecs>):
    <block>

@contextlib.contextmanager
def <Name>(log):
    log.append('before')
    try:
        yield log
    except <error> as error:
        log.append(repr(error))
    finally:
        log.append('after')
-> : with <Name>(<list>) as <fixed:list>:
    <block>

def <Name>(n):
    def inner(v):
        nonlocal n
        n += 1
        <body vec v=vec n=int>
    return inner
-> fn: <Name>(<int>)

def <Name>(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        found = function(*args, **kwargs)
        <body vec found=vec args=tup>
    return wrapper
-> fn: <Name>(<fn>)

@functools.lru_cache
def <Name>(n):
    <body int n=int>
-> int: <Name>(<int>)
-> ifn: <Name>

@functools.singledispatch
def <Name>(value):
    <body any value=any>
@<Name>.register
def _(value: int):
    <body any value=int>
-> any: <Name>(<any>)

def <Name>(n):
    if n <= 0 or n > 4:
        return <int>
    return <Name>(n - 1) + <int>
-> int: <Name>(<int>)
"""

GLOBALS = """
int: 1
list: [1, 'a']
dict: {'a': 1, 'b': 2}
vec: torch.ones(1)
ints: [1, 2]
float: 0.5
"""
