"""Expressions of the standard library and of Python's rarer forms: rows by kind."""

EXPRESSIONS = """
int:
    (<int:var> if <int:var> > 1 else len(<sized>))
    0 if <any> is None else <int>
    min(<int>, *<ints>)
    max(<strs>, key=len).count("a")
    pow(<int> & 3, 2)
    round(<float>)
    (<int> & 15).bit_length()
    int(str(<int>))
    int("11", base=2)
    ord("a") - 96
    math.prod(<ints>)
    math.gcd(<int>, <int>)
    math.isqrt(abs(<int>))
    math.ceil(<float> * 2)
    sum(map(<ifn>, <ints>))
    sum(a * b for a, b in zip(<ints>, <ints>))
    sum(len(<e=new:str>) for <e> in <strs:out>)
    operator.itemgetter(0)(<tup>)
    operator.attrgetter("ndim")(<vec>)
    operator.methodcaller("dim")(<tensor>)
    (lambda *many, by=1: len(many) * by)(*<ints>)
    (lambda *many, by=1: len(many) + by)(<any>, by=<int>)
    (lambda k=<int>, /, **more: k + len(more))(**<dict>)
    next((<e=new:int> for <e> in <ints:out> if <e> > 1), <int>)
    next(filter(None, <ints>), 0)
    <ints>[-1] if <ints> else 0
    len({*<ints>, *<tup>})
    len(<mat>.shape)
    len(set(map(type, <list>)))
    [*<ints>, 0][-1]
    <tup:var>.count(<int>)
    <ints>[<int> % 2 : :2].__len__()
    <list:var>.__len__()
    getattr(<any>, "ndim", <int>)
    {"a": <int>}.get(<key>)
    {True: <int>, False: 0}[<bool>]
    (<int>, <int>)[<bool>]
    collections.ChainMap(<dict>, {"zz": 0}).get("a", 1)
    <counter>.most_common(1)[0][1]
    <counter>.total()
    dict(<counter>).get("a", 0)
    <deque:var>.pop()
    <deque>.count(<int>)
    <deque>[<int>]
    <ddict:var>["a"].__len__()
    (<ints:var>.append(<int>) or 1)
    int(isinstance(<any>, int | str))
    1 if (<new:int> := <int:out>) else 2
    functools.reduce(max, <ints>, 0)
    <vec>.shape.numel()
    <tensor>.size().numel()
    <tensor>.element_size()
    <vec>.stride(0)
    <vec>.storage_offset()
    <vec:var>.size(<int> % 1)
    (<mat>.shape[0] * <mat>.shape[1])
    <mat>.shape.index(<mat>.shape[-1])
    -(-<vec>.shape[0] // 2)
    max(<vec>.shape[0], 2)
    <vec>.__len__()
    torch.tensor([<int>, 2]).sum().item()
    !data max(<ivec>.sum().item(), 1)
    !data <ivec>.sum().item()
    !data int(<vec>.argmax())
    !data <scalar>.int().item()
    !data [1, 2, 3][<ivec>[0] % 3]
    !data len(<vec>[<mask>])
    !data <mask>.sum().item()
    !data torch.bincount(<ivec>.abs()).numel()
    !data (<vec> > 0).nonzero().shape[0]
float:
    <float> ** 2
    math.copysign(<float>, -1)
    float(str(<float>))
    float(round(<float>, 2))
    math.inf if <bool> else <float>
    min(<float>, 1.0, key=abs)
    <int> / (<int> or 1)
    divmod(<float>, 2)[1]
    abs(complex(<int>, 1)) * 0
    <float> if <float> == <float> else 0.0
    sum([<float>, 0.5])
    math.fsum([<float>, 0.25])
    math.dist([0.0], [1.0])
    float(<bool>)
    <vec>.shape[0] ** 0.5
    1.0 / max(<vec>.shape[0], 1)
    <float>.__add__(0.5)
    !data float(<scalar>)
    !data <vec>.max().item()
    !data (<vec> > 0).float().mean().item()
    !data random.random()
    !data round(float(<vec>.sum()), 3)
bool:
    <int> < <int> < <int>
    0 <= <int> < <vec>.shape[0] <= 9
    <int> == <int> == <int>
    <bool> != <bool>
    <bool> is True
    <bool> ^ <bool>
    <any> is not None and <any> is not <any:var>
    not <list>
    not <any> or <bool>
    <int> in (1, 2, <int>)
    <int> in range(3)
    <str> in ("a", "b")
    <str> in {"a", <str>}
    <str> not in <strs>
    "a" in <vdict>
    any(map(bool, <list>))
    all([])
    any(<e=new:str> == "a" for <e> in <strs:out>)
    <str>.isdigit()
    <str>.endswith(("a", "d"))
    <str> < <str>
    <tup> is <tup:var>
    <float>.is_integer()
    math.isnan(<float>)
    math.isclose(<float>, 0.5)
    isinstance(<any>, int | str | None)
    isinstance(<any>, torch.Tensor) and <any:var>.dim() == 1
    isinstance(<any>, (tuple, collections.abc.Sequence))
    isinstance(<any>, collections.abc.Mapping)
    isinstance(<any>, (int, float)) and not isinstance(<any>, bool)
    type(<any>) is int
    type(<any>) in (int, float)
    issubclass(bool, int)
    <set> < <set>
    <set>.isdisjoint(<set>)
    <set>.issubset(<ints>)
    <dict>.keys() == <dict>.keys()
    <dict>.keys() <= {"a", "b"}
    <dict>.items() >= set()
    <odict> == <dict>
    <deque> == <deque>
    hasattr(<any:var>, "append")
    <vec>.shape == (3,)
    <vec>.shape == <vec>.shape
    <tensor>.shape != <tensor>.shape
    <tensor>.ndim == 2
    <tensor>.dtype in (torch.float32, torch.float64)
    <tensor>.device.type == "cpu"
    <vec>.is_leaf
    <vec>.grad is None
    <vec:var>.data_ptr() == <vec:var>.data_ptr()
    <vec>.numel() > 0 and <vec>.dim() == 1
    <vec> is None
    torch.is_floating_point(<tensor>)
    torch.is_inference_mode_enabled()
    torch.compiler.is_compiling() and False
    !data <vec>[0] > 0
    !data (<vec> > 0).any().item()
    !data torch.allclose(<vec>, <vec>)
    !data not <scalar>
    !data not <scalar>.item() > <number>
    !data math.isnan(<vec>.sum().item())
    bool(torch.tensor([<float>, 1.0]).max() > 1)
    !data <scalar> > 0 and <bool>
    !data <vec>.max() > <vec>.min()
    !data bool(<scalar> > <number>) or <bool>
    !data <int> in <ivec>
    !data <scalar> in (1, 2)
str:
    f"{<int:var>:>{<int:var> % 5}}|"
    f"{<str:var>!r}{<int:var>=}"
    f"{<list:var>}"
    f"{{{<str:var>}}}"
    f"{<float:var>:8.3e}"
    f"{<bool:var>:d}"
    f"{<any:var> is None} {<tup:var>}"
    f"{', '.join(<strs:var>)}"
    "{0[a]}-{1:03d}".format({"a": <int>}, 7)
    "{k}{j!r}".format(k=<int>, j=<str>)
    "%(a)s %(b)03d" % {"a": <plain>, "b": 7}
    "%5.1f%%" % <float>
    <str>.title().center(5, "-")
    <str>.strip("a").zfill(3)
    <str>.partition("-")[2]
    <str>.removeprefix("a")
    <str>.encode().decode()
    <str>.split("-")[0]
    <str>.join(["x", "y"])
    <str>.format(<int>)
    <str>.translate({97: "b"})
    <str>.swapcase().casefold()
    chr(97 + <int> % 3)
    ascii(<str>)
    repr(<tup>)
    repr(<set>)
    repr(<odict>)
    str(<deque>)
    str(<counter>)
    str(<bool>)
    str(<rng>)
    repr(<vec>.shape)
    str(<vec>.device)
    str(<mat>.size())
    sorted(<str> + "ba")[0]
    max(<str>, "b")
    ("a" if <int> > 1 else "b") + <str>
    type(<exc>).__name__ + str(<exc>.args)
    type(<exc>).__mro__[1].__name__
    <fn>.__class__.__name__
    next(iter(<strs>), "none")
    functools.reduce(lambda a, b: a + b, <strs>, "")
    "".join(reversed(<str>))
    "".join(<e=new:str>.upper() for <e> in <strs:out>)
    !data f"{<scalar:var>.item():.1f}"
    !data f"{<vec:var>.sum():.2f}"
    !data f"{<scalar:var>}"
    !data str(<vec>.tolist())
    !data str(<vec>.detach())
list:
    [<any>, *<list>, *<ints>]
    <list>[::2]
    <list>[::-2]
    <list>[<int>:<int>:2]
    list(<list>)[-2:]
    [*map(str, <ints>)]
    [None] * (<int> % 3)
    [[<int>] * 2 for _ in range(2)]
    [[a, b] for a in <ints> for b in <strs>]
    [[<e=new:int> for _ in range(2)] for <e> in <ints:out>]
    [x if <bool> else <any> for x in <ints>]
    [y for x in <ints> if (y := x % 3)]
    list(zip(<ints>, <vecs>, strict=<bool>))
    list(zip(*[<ints>, <ints>]))
    list(zip())
    list(map(operator.add, <ints>, <ints>))
    list(map(lambda a, b=<int>: (a, b), <ints>))
    list(itertools.product(<ints>, repeat=2))[:3]
    list(itertools.combinations(<ints>, 2))
    list(itertools.permutations(<ints>, 2))[:2]
    list(itertools.pairwise(<ints>))
    list(itertools.starmap(pow, [(2, 1), (3, 2)]))
    list(itertools.takewhile(<ifn>, <ints>))
    list(itertools.dropwhile(<ifn>, <ints>))
    list(itertools.compress(<list>, [1, 0, 1]))
    list(itertools.repeat(<any>, 2))
    list(itertools.islice(itertools.cycle(<ints>), 4))
    list(itertools.chain.from_iterable([<ints>, <tup>]))
    list(itertools.filterfalse(None, <list>))
    list(itertools.tee(<ints>)[1])
    list(enumerate(<strs>, start=<int>))
    list(<dict>.keys())
    list(<vdict>)
    list(reversed(<dict>))
    list(<counter>.elements())
    list(map(type, <list>))
    <counter>.most_common()
    [*<dict>, *<dict>.values()]
    [*<str>]
    list(<str>)
    sorted(<list>, key=lambda v: (type(v).__name__, str(v)))
    sorted(<dict>.items(), key=lambda kv: -kv[1])
    sorted(<dict>, key=<dict:var>.get)
    sorted(<strs>, key=str.lower, reverse=True)
    sorted(zip(<ints>, <strs>))
    [f() for f in [lambda: <int> for _ in range(2)]]
    [f(i) for i, f in enumerate([lambda v: v, lambda v: v + 1])]
    copy.deepcopy(<list>)
    <list>.__add__([<any>])
    [<vec>.shape, <mat>.shape]
    list(<vec>.size())
    [*<mat>.shape, <int>]
    [p.shape for p in <module>.parameters()]
    [k for k in <module>.state_dict()]
    [type(m).__name__ for m in <module>.modules()]
    list(vars(<exc>))
    list(divmod(<int>, 3))
    [ValueError, <any>]
    !data <mat>.tolist()
    !data [v.item() for v in <vec>]
    !data [float(v) > 0 for v in <vec>]
    !data random.sample([1, 2, 3], 2)
ints:
    [*range(<int> % 4)]
    <ints>[::2]
    <ints>[<int>::-1]
    <ints>[:<int>:2]
    [<int>] * (<int> % 3)
    [i for i, _ in enumerate(<list>)]
    [a for a, *_ in [<tup>, (1, 2)]]
    [min(a, b) for a, b in zip(<ints>, <ints>[1:])]
    [b - a for a, b in itertools.pairwise(<ints>)]
    [y for x in range(3) if (y := x * <int>) > 0]
    [(lambda: k)() for k in range(2)]
    list({k: None for k in <ints>})
    sorted({*<ints>})
    sorted(<ints>, key=lambda v: (v % 2, -v))
    sorted(<dict>.values(), reverse=True)
    list(itertools.accumulate(<ints>, max))
    list(itertools.accumulate(<ints>, initial=<int>))
    list(range(<int> % 5, -1, -2))
    list(range(<vec>.shape[0]))
    list(reversed(range(3)))
    [<vec>.shape[0], *<mat>.shape]
    [ord(c) for c in <str>]
    [t.numel() for t in <vecs>]
    [*<gen>]
    list(map(len, <strs>))
    list(map(int, "123"))
    (<ints:var>.sort() or <ints:var>)
    !data <vec>.long().tolist()
    !data [int(v) for v in <ivec>]
    !data <ivec>.tolist()[::-1]
    !data random.sample(range(4), 2)
strs:
    [*<str>]
    <strs> + [<str>]
    sorted(<strs>, key=len)
    sorted({*<strs>})
    [k for k, v in <dict>.items() if v]
    [c * 2 for c in <str>]
    list(map(str.upper, <strs>))
    [str(d) for d in <vec>.shape]
    <str>.splitlines()
    "a b".split()
    <strs>[::2]
tup:
    (<int>, *<tup>)
    <tup>[::-1]
    <tup> * 2
    <tup>[:<int>]
    tuple(<rng>)
    tuple(<ints>[1:])
    tuple(map(<ifn>, <tup>))
    tuple(k for k in <tup> if k)
    divmod(<int>, 2)
    (*<vec>.shape, 1)
    <vec>.shape + (1,)
    torch.Size([<int> % 3, 2])
    tuple(max(a, b) for a, b in zip(<tup>, <tup>))
    (lambda *a: a)(*<ints>)
    <tup> or (0,)
    ((<new:int> := <int:out>), <int>)
dict:
    {**<dict>, **<dict>}
    {k: i for i, k in enumerate(<strs>)}
    {k: <int> for k in <dict> if k != "a"}
    {v: k for k, v in enumerate(<strs>)}
    {k: v + 1 for (k, v) in sorted(<dict>.items())}
    {k: v for d in (<dict>, <dict>) for k, v in d.items()}
    dict(<dict>, a=<int>)
    dict(**<dict>)
    dict([("a", <int>), (<str>, 2)])
    dict(map(lambda kv: (kv[0], 1), <dict>.items()))
    dict(collections.ChainMap(<dict>, <dict>))
    dict(collections.Counter(<strs>))
    dict(itertools.islice(<dict>.items(), 1))
    copy.deepcopy(<dict>)
    (lambda **more: more)(**<dict>)
    <dict>.__or__({"b": <int>})
    dict(enumerate(<ints>)) and {"a": 1}
    {"a": {frozenset(<ints>): <int>}.get(frozenset(<ints>), <int>)}
    {k: len(v) for v, k in {frozenset(<ints>): "a", ("a", frozenset([1])): "b"}.items()}
vdict:
    {"a": <vec>, **<vdict>}
    {k: v * 2 for k, v in <vdict>.items()}
    {k: v.detach() for k, v in <vdict>.items()}
    <vdict> | {"b": <vec>}
    dict(a=<vec>, b=<vec>)
set:
    {*<ints>}
    {*<tup>, <int>}
    <set> ^ <set>
    <set>.union(<ints>, <tup>)
    set(<ints>).difference(<tup>)
    {k % 2 for k in <ints>}
    {len(k) for k in <strs>}
    <set>.copy()
deque:
    collections.deque(<ints>, <int> & 3)
    collections.deque(reversed(<ints>))
    copy.copy(<deque>)
it:
    zip(<ints>, <ints>)
    enumerate(<ints>)
    itertools.chain([<int:out>], (<new:int> for _ in <ints:out>))
    itertools.count(<int>)
    itertools.repeat(<int>, 3)
    itertools.accumulate(<ints>)
    iter(<strs>)
    iter(<deque>)
    iter(<set>)
    iter(<dict>)
    iter(<ints:var>.pop, 1)
    map(operator.neg, <ints>)
    reversed(<dict>)
gen:
    (<int> for <new:int> in <ints:out> for _ in range(2))
    (v for v in <it>)
    (v * 2 for v in <gen>)
fn:
    functools.partial(torch.mul, other=<number>)
    functools.partial(torch.clamp, min=<int>)
    lambda *many: many[0] + <number>
    lambda v, /, *, by=<int>: v * by
    functools.partial(lambda k, v: v * k, <int>)
    torch.nn.functional.relu
    operator.methodcaller("add", <number>)
    operator.methodcaller("clone")
    torch.Tensor.clone
    <vec>.add
    <vec:var>.mul_
    <module>
    {"a": torch.neg, "b": torch.abs}["a"]
    [torch.relu, torch.neg][<bool>]
    functools.reduce(lambda f, g: lambda v: g(f(v)), [torch.neg, torch.abs])
ifn:
    functools.partial(pow, 2)
    functools.partial(operator.add, <int>)
    int
    str
    (2).__add__
    <ints:var>.append
    <ints>.count
    {"a": abs, "b": bool}.get("a")
    lambda k, *, by=<int>: k - by
    lambda *many, **more: len(many)
    operator.itemgetter(0)
exc:
    AssertionError(<str>)
    KeyError(<plain>)
    Exception(<any>)
    NotImplementedError
    OSError(2, <str>)
    UnicodeError(<str>)
    AttributeError(<str>)
    ExceptionGroup("many", [ValueError(<str>), TypeError(<int>)])
    RecursionError("by hand")
rng:
    range(<vec>.shape[0])
    range(0, <vec>.shape[0], 2)
    range(len(<list>) % 4)
    range(-1, 2)
error:
    (AssertionError, NotImplementedError, OSError)
    BaseException
    RuntimeError
    (KeyError, (IndexError, ValueError))
    ZeroDivisionError
"""
