"""Expressions of Python's own values: rows by kind."""

UNIONS = {
    "number": "int int float bool",
    "tensor": "vec vec vec mat scalar ivec mask anyt",
    "floats": "vec vec mat scalar",
    "sized": "ints list tup strs dict set deque vecs odict counter",
    "seq": "ints ints list tup strs deque",
    "iter": "ints ints tup deque set list gen it",
    "mapping": "dict dict odict counter ddict",
    "plain": "int int str float bool none tup ints",
    "odd": "int float str none bool",
    "obj": "list dict vec",
    "any": "int int str float bool none vec vec tup ints list dict strs scalar obj obj pair",
}

EXPRESSIONS = """
int:
    *3 1
    *2 0
    *2 2
    *2 3
    -1
    7
    *2 <int> + <int>
    <int> - <int>
    <int> * 2
    (<int> & 7) * (<int> & 7)
    -<int>
    <int> // 2
    <int> % (<int> or 1)
    <int> // <int>
    <int> % 3
    *2 len(<sized>)
    *2 <int> if <bool> else <int>
    <ints>[<int>]
    *2 [1, 2, 3][<int> % 3]
    <dict>[<key>]
    *4 <dict>.get(<key>, <int>)
    sum(<ints>)
    max(<int>, <int>)
    min(<ints>, default=<int>)
    max([<int>, <int>], key=<ifn>)
    abs(<int>)
    int(0.5)
    int("3")
    divmod(<int>, 3)[<int> % 2]
    <ifn>(<int>)
    *3 <vec>.shape[0]
    <mat>.size(-1)
    <tensor>.dim()
    <tensor>.numel()
    len(<vec>)
    len(<strs>[0])
    [2, 1, 3].index(<int> % 3 + 1)
    <ints:var>.index(<int>)
    <ints>.count(<int>)
    <list>.count(<any>)
    <str>.find(<str>)
    next(iter(<ints>), 0)
    next(<it>, <int>)
    next(<gen>, -1)
    functools.reduce(operator.add, <ints>, <int>)
    functools.reduce(lambda <new:int>, <new:int>: <int>, <ints:out>, 1)
    <ints:var>.pop()
    <ints:var>.pop(0)
    <deque:var>.popleft()
    <dict:var>.pop(<key>, <int>)
    <dict:var>.setdefault(<key>, <int>)
    <counter>[<key>]
    sum(<counter>.values())
    sum(1 for <new:int> in <ints:out> if <bool>)
    (<int> << 2) | 1
    <int> ^ <int>
    ~<int>
    int(<bool>)
    math.floor(0.5)
    hash(<int>) == hash(float(<int>))
    operator.index(<int>)
    getattr(<any>, "real", <int>)
    (<int:var> or <int>)
    (<int> and <int>)
    !data int(<vec>.sum().item())
    !data random.randint(0, 3)
float:
    *2 0.5
    1.0
    -1.5
    2.0
    0.0
    *2 <float> + <float>
    <float> * 0.5
    <float> - <int>
    <int> / 2
    <int> / 4
    <float> if <bool> else <float>
    float(<int>)
    abs(<float>)
    max(<float>, <int>)
    float("nan")
    float("inf")
    -0.0
    <float> // 1
    <float> % 2
    math.sqrt(abs(<int>))
    math.fabs(<float>)
    round(<float>, 1)
    sum(<ints>) / 4
    !data <vec>.sum().item()
    !data <vec>.tolist()[0]
bool:
    *2 True
    False
    *3 <int> > <int>
    *2 <int> == <int>
    <int> < <int> <= <int>
    <float> > <float>
    <float> == <float>
    not <bool>
    <bool> and <bool>
    <bool> or <int> > 2
    *2 <int> in <ints>
    <key> in <dict>
    <any> in <list>
    <any> in [<any>, <any>]
    <float> in [<float>]
    <float> in (<float>, 1.0)
    <key> not in <odict>
    <any> == <any>
    <any> != <any>
    <list> == <list>
    <list> < <list>
    <tup> < <tup>
    <tup> == <tup>
    <dict> == <dict>
    <any:var> is <any:var>
    <any:var> is None
    bool(<any>)
    <str> in <str>
    <str> == <str>
    <str>.startswith(<str>)
    isinstance(<any>, int)
    isinstance(<any>, (list, torch.Tensor))
    isinstance(<any>, str)
    hasattr(<any>, "shape")
    callable(<any>)
    all(<int> > 0 for <new:int> in <ints:out>)
    any(<bool> for <new:int> in <ints:out>)
    <set> <= <set>
    <int> in <set>
    issubclass(type(<any>), int)
    *2 <vec>.shape[0] > 2
    <tensor>.dtype == torch.float32
    <tensor>.is_floating_point()
    <tensor>.requires_grad
    <tensor>.is_contiguous()
    torch.is_grad_enabled()
    torch.is_tensor(<any>)
    <vec:var> is <vec:var>
    *2 !data bool(<vec>.sum() > 0)
    !data bool((<vec> > 0).all())
    !data torch.equal(<vec>, <vec>)
none:
    None
str:
    *2 "a"
    *2 "b"
    ""
    "c-d"
    <str> + <str>
    (<str> * 2)[:6]
    *3 f"{<int:var>}"
    f"{<any:var>!r:>4}"
    f"{<float:var>:.2f}|{<int:var>:+d}"
    f"{<str:var>:*^5}"
    *2 str(<plain>)
    repr(<plain>)
    repr(<list>)
    str(<dict>)
    "%s-%r" % (<plain>, <str>)
    "{}:{!r}".format(<plain>, <int>)
    <str>.upper()
    <str>.replace("a", <str>)
    "-".join(<strs>)
    ",".join(str(<any>) for <new:int> in <ints:out>)
    ",".join(map(str, <ints>))
    <strs>[-1]
    <str>[::-1]
    <str>[:1]
    <str>[1:]
    <str> or <str>
    <str> if <bool> else <str>
    type(<any>).__name__
    str(<vec>.dtype)
    str(tuple(<vec>.shape))
    str(<exc>)
    repr(<exc>)
    type(<exc>).__qualname__
    next(iter(<dict>))
    max(<strs>, key=len)
    <key>
key:
    *6 "a"
    *6 "b"
    "c"
    "zz"
    <str>
list:
    []
    *3 [<any>, <any>]
    [<any>]
    list(<iter>)
    list(<dict>.items())
    list(<mapping>)
    list(zip(<ints>, <strs>))
    list(enumerate(<iter>, <int>))
    [<any> for <new:int> in <ints:out>]
    [<any> for <new:int> in <iter:out> if <bool>]
    [*<iter>, <any>]
    [(<e=new:str>, <any>) for <e>, _ in <dict:out>.items()]
    <list>[<int>:]
    <list>[::-1]
    <list> + <list>
    <list> * 2
    sorted(<list>, key=repr)
    sorted(<list>, key=str, reverse=True)
    list(map(<fn>, <vecs>))
    list(filter(None, <list>))
    list(itertools.chain(<iter>, <iter>))
    list(itertools.zip_longest(<ints>, <tup>, fillvalue=<any>))
    [list(v) for _, v in itertools.groupby(<list>, key=type)]
    copy.copy(<list>)
    list(<pair>)
    <list:var>.copy()
    list(reversed(<seq>))
    [<list>, <list>]
ints:
    *2 [1, 2, 3]
    [3, 1, 2]
    [0]
    []
    *3 [<int>, <int>]
    [<int>, <int>, <int>]
    *2 list(range(<int> % 5))
    [<int> for <new:int> in <ints:out>]
    [<int> for <new:int> in range(3)]
    [<int> for <new:int> in <ints:out> if <bool>]
    [<int> for <new:int> in range(2) for <new:int> in range(2)]
    sorted(<ints>)
    sorted(<ints>, key=lambda <new:int>: <int>)
    sorted(<ints>, reverse=<bool>)
    sorted(<set>)
    <ints>[1:]
    <ints>[<int>:<int>]
    <ints>[::-1]
    <ints> + <ints>
    [*<ints>, *<tup>]
    list(<tup>)
    list(<dict>.values())
    list(map(<ifn>, <ints>))
    list(filter(<ifn>, <ints>))
    list(itertools.accumulate(<ints>))
    list(itertools.islice(<ints>, 2))
    [a + b for a, b in zip(<ints>, <ints>)]
    [k * v for k, v in enumerate(<ints>)]
    list(<gen>)
    list(<it>)
    list(<deque>)
    list(<vec>.shape)
    [len(<e=new:str>) for <e> in <strs:out>]
    (<ints> or [<int>])
    heapq.nsmallest(2, <ints>)
    !data <ivec>.tolist()
strs:
    *2 ["a", "b"]
    ["b", "a"]
    [<str>, <str>]
    sorted(<strs>)
    <str>.split("-")
    [<str> for <new:int> in range(2)]
    [<str> for <new:str> in <strs:out>]
    list(<dict>)
    [f"{<i=new:int>}:{<e=new:str>}" for <i>, <e> in enumerate(<strs:out>)]
    <strs>[::-1]
tup:
    *2 (1, 2)
    (<int>, <int>)
    (<int>,)
    ()
    tuple(<ints>)
    tuple(<int> for <new:int> in <ints:out>)
    <tup> + <tup>
    <tup>[1:]
    tuple(<vec>.shape)
    tuple(<mat>.stride())
    (*<ints>, <int>)
    tuple(sorted(<tup>))
pair:
    *3 (<vec>, <int>)
    (<vec>, <any>)
    (<fn>(<vec>), len(<sized>))
vecs:
    *3 [<vec>, <vec>]
    [<vec>]
    [<fn>(<e=new:vec>) for <e> in <vecs:out>]
    [<vec> for <new:int> in range(2)]
    [<vec> * <e=new:int> for <e> in <ints:out>]
    list(<vdict>.values())
    list(<mat>)
    list(<mat>.unbind(0))
    list(<vec>.chunk(2))
    <vecs>[::-1]
    [*<vecs>, <vec>]
dict:
    *2 {"a": 1, "b": 2}
    {}
    *2 {"a": <int>, <key>: <int>}
    {<key>: <int>}
    {k: <int> for k in <strs>}
    {<e=new:str>: <int> for <e> in <strs:out> if <bool>}
    {k: v for k, v in <dict>.items() if v}
    {**<dict>, <key>: <int>}
    <dict> | <dict>
    dict(a=<int>, b=<int>)
    dict(zip(<strs>, <ints>))
    dict.fromkeys(<strs>, <int>)
    dict(<dict>)
    <dict:var>.copy()
    dict(<odict>)
    dict(sorted(<dict>.items(), key=lambda <e=new:tup>: str(<e>)))
vdict:
    *2 {"a": <vec>, "b": <vec>}
    {<key>: <vec>}
    {k: <vec> for k in <strs>}
    {k: <fn>(<e=new:vec>) for k, <e> in <vdict:out>.items()}
    dict(zip(<strs>, <vecs>))
set:
    {1, 2}
    {<int>, <int>}
    set(<ints>)
    set()
    {<int> for <new:int> in <ints:out>}
    <set> | <set>
    <set> & <set>
    <set> - <set>
    frozenset(<ints>)
deque:
    collections.deque([1, 2, 3])
    collections.deque(<ints>)
    collections.deque(<ints>, maxlen=2)
odict:
    collections.OrderedDict(a=1, b=2)
    collections.OrderedDict(<dict>)
    collections.OrderedDict([(<key>, <int>)])
ddict:
    collections.defaultdict(list)
    collections.defaultdict(list, a=<ints>)
counter:
    collections.Counter(<strs>)
    collections.Counter("abca")
    collections.Counter(<dict>)
it:
    iter(<ints>)
    iter(<tup>)
    iter(range(<int> % 5))
    iter(<dict>.values())
    reversed(<ints>)
    map(<ifn>, <ints>)
    filter(None, <ints>)
    itertools.islice(itertools.count(<int>), 3)
    itertools.chain(<ints>, <tup>)
    (<int> for <new:int> in <ints:out>)
gen:
    *2 (<int> for <new:int> in <ints:out>)
    (<int> for <new:int> in range(3) if <bool>)
fn:
    *2 lambda <new:vec>: <vec>
    lambda <e=new:vec>, n=<int:out>: <e> * n
    functools.partial(torch.add, <vec>)
    torch.neg
    torch.Tensor.abs
    operator.neg
ifn:
    *2 lambda <new:int>: <int>
    lambda <e=new:int>, k=<int:out>: <e> + k
    functools.partial(max, <int>)
    operator.neg
    abs
    bool
exc:
    *3 ValueError(<str>)
    KeyError(<key>)
    TypeError(<str>, <int>)
    RuntimeError(f"at {<int:var>}")
    IndexError()
    StopIteration(<int>)
    ZeroDivisionError("by hand")
rng:
    range(2)
    range(3)
    range(<int> % 4)
    range(<int> % 3, 3)
    range(3, 0, -1)
error:
    *6 Exception
    *3 (KeyError, IndexError)
    *2 ValueError
    *2 (TypeError, ZeroDivisionError, RuntimeError)
    LookupError
    (UnboundLocalError, AttributeError)
    StopIteration
    ArithmeticError
turns:
    1
"""
