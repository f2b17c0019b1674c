"""Statements: rows."""

STATEMENTS = """
*4 <new:int> = <int>

*2 <new:float> = <float>

<new:bool> = <bool>

*3 <new:str> = <str>

*3 <new:list> = <list>

*3 <new:ints> = <ints>

<new:strs> = <strs>

<new:tup> = <tup>

<new:pair> = <pair>

*3 <new:dict> = <dict>

<new:vdict> = <vdict>

*2 <new:set> = <set>

<new:deque> = <deque>

<new:odict> = <odict>

<new:ddict> = <ddict>

<new:counter> = <counter>

<new:it> = <it>

<new:gen> = <gen>

*2 <new:vecs> = <vecs>

*2 <new:fn> = <fn>

<new:ifn> = <ifn>

<new:exc> = <exc>

*2 <new:any> = <any>

<new:list> = <new:list> = <list>

<new:int>, <new:vec> = <int>, <vec>

<new:vec>, <new:int> = <pair>

<new:int>, *<new:ints> = <ints>

*2 <int:set> += <int>

<int:set> -= 1

<int:set> = <int>

<float:set> *= 0.5

<str:set> = (<str> + <str>)[-6:]

<any:set> = <any>

<list:set> = <list>

<int:set>, <int:set> = <int>, <int>

*3 <list:var>.append(<any>)

<list:var>.extend(<ints>)

<list:var>.insert(<int>, <any>)

<list:set> += [<any>]

<list:var>.remove(<any>)

<list:var>.clear()

<list:var>.reverse()

<list:var>.sort(key=str)

del <list:var>[:1]

<l=list:var>[-1:] = [<any>, <l>]

<list:var>[0] = <any>

<list:var>[1:] = <ints>

*3 <ints:var>.append(<int>)

<ints:var>.sort()

<ints:var>.sort(key=lambda v: -v)

<ints:var>[0] += <int>

del <ints:var>[:1]

<vecs:var>.append(<vec>)

<vecs:var>[0] = <vec>

<vecs:var>[0] += <vec>

*3 <dict:var>[<key>] = <int>

<dict:var>["a"] += <int>

*2 <dict:var>.update({<key>: <int>})

<dict:var>.update(<dict>)

<dict:set> |= <dict>

del <dict:var>[<key>]

<dict:var>.pop(<key>, None)

<dict:var>.clear()

<vdict:var>[<key>] = <vec>

<odict:var>.move_to_end(<key>)

<odict:var>[<key>] = <int>

<ddict:var>[<key>].append(<int>)

<counter:var>.update(<strs>)

<counter:var>[<key>] += 1

<set:var>.add(<int>)

<set:var>.discard(<int>)

<set:var>.update(<ints>)

<deque:var>.append(<int>)

<deque:var>.appendleft(<int>)

<deque:var>.rotate(1)

print(<plain>)

print(<plain>, <str>, sep="-")

jitpkg.graph_break()

*4 if <bool>:
    <block>

*2 if <bool>:
    <block>
else:
    <block>

if <int> > 1:
    <block>
elif <bool>:
    <block>
else:
    <block>

if (<new:int> := <int>) > 1:
    <block>

if (<new:list> := <list>) and <bool>:
    <block>

*2 for <fixed:int> in <rng>:
    <block>

*2 for <fixed:int> in <ints>:
    <block>

for <fixed:int>, <fixed:str> in enumerate(<strs>):
    <block>

for <fixed:str>, <fixed:int> in <dict>.items():
    <block>

for <fixed:str> in list(<dict>):
    <block>

for <fixed:vec> in <vecs>:
    <block>

for <fixed:int> in reversed(<ints>):
    <block>
else:
    <block>

for <fixed:int>, <fixed:vec> in zip(<ints>, <vecs>):
    <block>

*2 for <fixed:str> in <d=mapping:var>:
    if len(<d>) > 4:
        break
    <block>

for <fixed:str> in <d=mapping:var>:
    <d>[<key>] = <int>
    if len(<d>) > 4:
        break

for <fixed:int> in <d=dict:var>.values():
    if len(<d>) > 4:
        break
    <block>

for <fixed:any> in <l=list:var>:
    if len(<l>) > 4:
        break
    <block>

for <fixed:int> in <l=ints:var>:
    if len(<l>) > 4:
        break
    <l>.append(<int>)
    <block>

for <fixed:int> in <l=set:var>:
    if len(<l>) > 4:
        break
    <block>

for <fixed:int> in <l=deque:var>:
    if len(<l>) > 4:
        break
    <block>

<new:it> = iter(<d=dict:var>)
<d>[<key>] = <int>
<new:str> = next(<it:var>, "none")

<new:ints> = [<d=dict:var>.pop(k) for k in <d>]

<new:ints> = [<d=ints:var>.pop() for k in <d>]

*2 <k=fixed:turns> = 3
while <k> and <bool>:
    <k> -= 1
    <block>

<k=fixed:turns> = <int> % 4
while <k> > 0:
    <k> -= 1
    <block>
else:
    <block>

<k=fixed:turns> = 4
while <l=ints:var> and <k>:
    <k> -= 1
    <new:int> = <l>.pop()
    <block>

!loop if <bool>:
    break

!loop if <bool>:
    continue

!loop continue

!loop break

*4 try:
    <block>
except <error>:
    <block>

*3 try:
    <block>
except <error> as <fixed:exc>:
    <block>

try:
    <block>
except <error>:
    <block>
else:
    <block>
finally:
    <block>

*2 try:
    <block>
finally:
    <block>

try:
    <block>
    raise <exc>
except <error> as <fixed:exc>:
    <block>

try:
    <block>
except <error> as <e=fixed:exc>:
    raise <exc> from <e>

try:
    raise <exc>
except <error> as <e=fixed:exc>:
    <e>.note = <any>
    <e>.add_note(<str>)
    if <bool>:
        raise

if <bool>:
    raise <exc>

with contextlib.suppress(<error>):
    <block>

with contextlib.nullcontext(<any>) as <fixed:any>:
    <block>

with contextlib.redirect_stdout(io.StringIO()):
    <block>

with contextlib.ExitStack() as stack:
    stack.callback(<list>.append, <any>)
    <block>

!function if <bool>:
    return <any>

!function return <any>

*2 !generator yield <any>

!generator yield from <ints>

!generator <new:any> = yield <int>

!generator try:
    <new:any> = yield <int>
except <error> as <fixed:exc>:
    yield <str>
finally:
    <block>

*3 def <new:ifn>(k):
    <body int k=int>

*3 def <new:fn>(v):
    <body vec v=vec>

def <new:fn>(v, k=<int>, *rest, scale=<float>, **more):
    <body vec v=vec k=int rest=tup scale=float more=dict>

def <g=new:maker>():
    <generate int>
<new:gen> = <g>()

*2 def <g=new:maker>(k):
    <generate int k=int>
for <fixed:int> in <g>(<int>):
    <block>

def <g=new:maker>(k):
    <generate int k=int>
<new:gen> = <g>(<int>)
<new:any> = next(<gen:var>, None)

<new:any> = <gen:var>.send(<int>)

<new:any> = <gen:var>.throw(<exc>)

<gen:var>.close()

def <g=new:maker>(k, /, *rest, by=<int>):
    <body int k=int rest=tup by=int>
<new:int> = <g>(<int>, *<ints>, by=<int>)

def <g=new:maker>(*rest, **more):
    <body int rest=tup more=dict>
<new:int> = <g>(*<tup>, **<dict>)

*2 match <any>:
    case int(<new:int>) if <bool>:
        <block>
    case [<new:any>, *_]:
        <block>
    case _:
        <block>

match <dict>:
    case {"a": <new:int>, **<new:dict>}:
        <block>
    case {}:
        <block>

match <list>:
    case []:
        <block>
    case [<new:any>]:
        <block>
    case [<new:any>, <new:any>, *<new:list>]:
        <block>

match <plain>:
    case 0 | 1 as <new:int>:
        <block>
    case "a" | "b":
        <block>
    case None | True:
        <block>
    case (<new:int>, <new:int>):
        <block>

assert <int> != 3, <str>
"""
