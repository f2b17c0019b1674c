"""Statements: more rows, of Python's rarer forms."""

STATEMENTS = """
(<new:int>, <new:int>), <new:any> = <tup>, <any>

<new:any>, *<new:list>, <new:any> = <list>

*<new:list>, <new:any> = <ints>

[<new:int>, <new:int>] = <ints>

<new:int>, <new:int> = <mat>.shape

<new:int>, = <vec>.shape

for <fixed:int>, (<fixed:str>, <fixed:int>) in enumerate(<dict>.items()):
    <block>

for <fixed:int>, *<fixed:list> in [<tup>, (1, 2, 3)]:
    <block>

for <fixed:int> in <ints>[::2]:
    <block>

for <fixed:int> in range(<vec>.shape[0]):
    if <int> > 3:
        break
    <block>

for <fixed:str>, <fixed:int> in zip(<strs>, itertools.count()):
    <block>

for <fixed:str>, <fixed:vec> in <vdict>.items():
    <block>

for <fixed:int> in sorted(<set>):
    <block>

for <fixed:int>, <fixed:int> in itertools.product(range(2), <ints>[:2]):
    <block>

for <fixed:int> in <ints>:
    try:
        <block>
        if <bool>:
            continue
    finally:
        <block>

for <fixed:int> in <rng>:
    try:
        if <bool>:
            break
    except <error>:
        <block>
    finally:
        <block>
else:
    <block>

<k=fixed:turns> = 3
while True:
    <k> -= 1
    if <k> < 0 or <bool>:
        break
    <block>

while <l=ints:var> and len(<l>) < 9:
    <l>.pop()
    <block>

<k=fixed:turns> = 3
while (<new:int> := <int>) and <k>:
    <k> -= 1
    <block>

*2 !function try:
    return <any>
finally:
    <block>

!function try:
    <block>
finally:
    return <any>

!function try:
    <block>
    return <any>
except <error>:
    <block>
    return <any>
else:
    <block>

!function for <fixed:int> in <ints>:
    with contextlib.suppress(<error>):
        <block>
        return <any>

!function for <fixed:int> in <rng>:
    if <bool>:
        return <any>
    <block>

try:
    <block>
except* ValueError as <e=fixed:exc>:
    print(<e>.exceptions)
except* (TypeError, KeyError):
    <new:int> = <int>

try:
    try:
        <block>
        raise <exc>
    except <error> as <fixed:exc>:
        raise <exc>
    finally:
        <block>
except <error> as <e=fixed:exc>:
    print(type(<e>.__context__), type(<e>.__cause__), <e>.__suppress_context__)

try:
    <block>
except <error> as <fixed:exc>:
    raise <exc> from None

try:
    <block>
except <error>:
    print(sys.exc_info()[0], sys.exception() is None)

with contextlib.suppress(<error>), contextlib.nullcontext(<any>) as <fixed:any>:
    <block>

with contextlib.ExitStack() as stack:
    stack.enter_context(contextlib.suppress(<error>))
    stack.enter_context(torch.no_grad())
    <block>

with contextlib.closing(<gen:var>):
    <block>

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    <block>

print(*<ints>, <str>, sep=",", end=";")

print(f"{<plain:var>} {<str:var>!r}")

print(<list>)

print(<dict>, <tup>)

del <dict:var>["a"], <list:var>[0]

del <list:var>[::2]

del <any:set>

<list:var>[::2] = <ints>

<list:var>[:] = [<any>]

<list:var>[<int>:<int>] = <list>

<list:var>[<int>], <list:var>[0] = <any>, <any>

<ints:var>[<int>] = <ints:var>[0]

<ints:var>[0], <ints:var>[-1] = <ints:var>[-1], <ints:var>[0]

<ints:set> *= 2

<ints:set> += <tup>

<tup:set> += (<int>,)

<str:set> += "a"

<int:set> //= 2

<int:set> |= 1

<int:set> **= 2

<int:set> <<= 1

<float:set> += <int>

<float:set> /= 2

<bool:set> &= <bool>

<bool:set> = not <bool>

<set:set> |= <set>

<set:set> -= {<int>}

<set:set> ^= {1}

<dict:set> = {**<dict>, "b": <int>}

<dict:var>.setdefault(<key>, <int>)

<dict:var>.popitem()

<dict:var>.update(a=<int>, **<dict>)

for <k=fixed:str> in list(<d=dict:var>):
    <d>[<k>] += 1

for <k=fixed:str>, <v=fixed:int> in [*<d=dict:var>.items()]:
    if <v> > 1:
        del <d>[<k>]

<ddict:var>[<key>] += [<int>]

<ddict:var>["a"].extend(<ints>)

<counter:var>.subtract(<strs>)

<counter:set> += <counter>

<counter:set> -= <counter>

<deque:var>.extend(<ints>)

<deque:var>.extendleft(<ints>)

<deque:var>[0] = <int>

<odict:var>.popitem(last=False)

<odict:var>.update(<dict>)

<new:it> = iter(<l=ints:var>)
<l>.append(<int>)
<new:int> = next(<it:var>, 0)
<l>.clear()

<new:any> = [k for k in <l=ints:var> if len(<l>) < 9 and not <l>.append(k)]

setattr(<obj>, "extra", <any>)

<new:any> = getattr(<obj>, "extra", None)

*2 def <new:fn>(v, k=<int>):
    if k <= 0:
        return v
    <body vec v=vec k=int>

def <new:ifn>(k, seen=<list>):
    seen.append(k)
    <body int k=int seen=list>

def <g=new:maker>(v, *, k, scale=<float>):
    <body vec v=vec k=int scale=float>
<new:vec> = <g>(<vec>, k=<int>)

def <g=new:maker>():
    total = <int>
    def inner(k):
        nonlocal total
        total += k
        <body int k=int total=int>
    return inner
<new:ifn> = <g>()

def <g=new:maker>(function):
    def inner(*args, **kwargs):
        <body none args=tup kwargs=dict>
    return lambda v: (inner(v), function(v))[1]
@<g>
def <new:fn>(v):
    <body vec v=vec>

def <g=new:maker>(n):
    if n > 0:
        yield <int>
        yield from <g>(n - 1)
<new:ints> = list(<g>(2))

def <g=new:maker>():
    try:
        <generate int>
    finally:
        <block>
<new:int> = next(<g>(), 0)

class <g=new:kept>:
    a = <int>
    b: int = <int>
<new:int> = <g>.a + <g>().b

async def <g=new:maker>(k):
    <body int k=int>
<c=fixed:any> = <g>(<int>)
try:
    <c>.send(None)
except StopIteration as stopped:
    <new:any> = stopped.value

<new:ifn> = functools.partial(<ifn>, <int>)

<new:fn> = functools.lru_cache(<fn>)

match <any>:
    case torch.Tensor() as <new:vec> if <bool>:
        <block>
    case str() | None:
        <block>
    case {"a": _} | [_, _]:
        <block>
    case _:
        <block>

match (<int>, <str>):
    case (0 | 1, "a"):
        <block>
    case (<new:int>, "b" | "c") if <bool>:
        <block>
    case (_, <new:str>):
        <block>

match <tup>:
    case ():
        <block>
    case (<k=new:int>,) | (<k>, _) if <bool>:
        <block>
    case (<new:int>, *<new:list>):
        <block>

assert isinstance(<any>, (int, list)), f"{<str:var>}"

assert <bool>, <any>

if not <any>:
    <block>

if <any> is None:
    <block>
else:
    <block>

if <int> < <int> <= <int> or <bool>:
    <block>

if <bool> and (<new:int> := <int>) and <int>:
    <block>

if isinstance(<a=any:var>, torch.Tensor):
    <new:any> = <a>.sum()
elif isinstance(<a>, (list, tuple)):
    <new:any> = len(<a>)
elif callable(<a>):
    <new:any> = <a>.__class__
"""
