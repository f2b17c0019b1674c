"""Writes to tensors, parameters and gradients: rows."""

STATEMENTS = """
<new:module> = <module>

<new:module> = <module>
<new:vec> = <module:var>(<vec>)

for <p=fixed:vec> in <module>.parameters():
    <p>.grad = None
    <block>

*2 with torch.no_grad():
    for <p=fixed:vec> in <module:var>.parameters():
        <p>.mul_(<number>)

with torch.no_grad():
    <vec:var>.add_(<vec>)

with torch.no_grad():
    <vec:var>.copy_(<vec>)
    <block>

<module:var>.zero_grad()

<module:var>.train(<bool>)

<module:var>.requires_grad_(<bool>)

<module:var>.load_state_dict(<module>.state_dict())

<module:var>.extra = <vec>

<module:var>.register_buffer("kept", <vec>)

<module:var>.apply(lambda m: m.eval())

<module>(<vec>).sum().backward()

*2 <vec>.sum().backward()

(<v=vec:var> * <v>).sum().backward()
<new:any> = <v>.grad

<l=new:vec> = (<vec:var> * 2).detach().requires_grad_()
(<l> * <vec>).sum().backward()
<new:any> = <l>.grad

<l=new:vec> = nn.Parameter(torch.ones(<vec>.shape[0]))
<o=new:stepper> = torch.optim.SGD([<l>], lr=0.5)
for <fixed:int> in <rng>:
    <o>.zero_grad()
    ((<l> - <vec>) ** 2).sum().backward()
    <o>.step()

<l=new:vec> = nn.Parameter(torch.ones(1))
with torch.no_grad():
    <l> -= 0.5 * <vec>[:1]

<vec:var>.retain_grad()

<vec:var>.register_hook(lambda grad: grad if grad is None else grad * 2)

<vec:var>.requires_grad_(<bool>)

<vec:var>.requires_grad = <bool>

<vec:var>.data = <vec>.detach()

<vec:var>.data.add_(1)

<vec:var>.data[0] = <number>

<vec:var>.grad = torch.zeros_like(<vec:var>)

<vec:var>.extra = <int>

<vec:var>.detach().zero_()

*2 <x=vec:var>[<x> < <number>] *= 2

<x=vec:var>[<mask>] = <vec>[:1]

*2 <vec:var>[<mask>] = <number>

<vec:var>[<mask>] += 1

<vec:var>[<ivec>] = <number>

<vec:var>[<ivec> % 1] += <number>

<vec:var>[[0, -1]] = <number>

<vec:var>[::2] = <number>

<vec:var>[::2] *= <vec>[::2]

<vec:var>[1:] += <vec:var>[:-1]

<vec:var>[:] = <vec>

<vec:var>[...] = <number>

<vec:var>[-1] += <scalar>

<vec:var>[0], <vec:var>[-1] = <scalar>, <scalar>

<mat:var>[:, 0] = <number>

<mat:var>[0, 0] = <scalar>

<mat:var>[<mat> > 0] = <number>

<mat:var>[:, :1] += 1

<mat:var>.t()[0] *= 2

<mat:var>[<int> % 2] = <vec>

<mat:set> += <vec>

<mat:set> = <mat>

<anyt:var>[...] = <number>

<anyt:var>[0] = <number>

<anyt:set> *= 2

<scalar:set> += <scalar>

<scalar:set> = <scalar>

<scalar:var>.add_(<number>)

<ivec:set> += 1

<ivec:var>[0] = <int>

<mask:set> &= <mask>

<mask:var>[0] = <bool>

<vec:set> -= <number> * <vec>

<vec:set> /= 2

<vec:set> //= 2

<vec:set> **= 2

<vec:set> = <vec:set> + <vec>

<vec:set>, <vec:set> = <vec:set>, <vec:set>

*2 <vdict:var>["a"] += <vec>

*2 <vdict:var>["a"].mul_(<number>)

<vdict:var>["b"][0] = <number>

<vdict:var>[<key>] = <vdict:var>["a"] * 2

for <k=fixed:str> in <d=vdict:var>:
    <d>[<k>] = <d>[<k>] * 2

for <k=fixed:str>, <v=fixed:vec> in <vdict:var>.items():
    <v>.add_(<number>)

<vdict:var>.update(a=<vec>)

<vecs:var>[-1].mul_(<number>)

<vecs:var>[<int>] *= 2

for <fixed:int>, <v=fixed:vec> in enumerate(<vecs:var>):
    <v> += <number>
    <block>

<vecs:set> += [<vec>]

<l=vecs:var>.append(<l>[0])

<vecs:set> = [v + 1 for v in <vecs>]

torch.mul(<vec>, 2, out=<anyt:var>)

torch.cat([<vec>, <vec>], out=torch.empty(0))

nn.utils.clip_grad_norm_([<vec:var>], 1.0)

torch.set_default_dtype(torch.float32)

@torch.no_grad()
def <new:fn>(v):
    <body vec v=vec>

with torch.no_grad(), contextlib.suppress(<error>):
    <block>

with torch.random.fork_rng():
    <new:vec> = torch.rand(2)

with torch.autograd.set_detect_anomaly(False):
    <block>

!rounds with torch.autocast("cpu", dtype=torch.bfloat16, enabled=<bool>):
    <new:vec> = <vec>
    <block>

!data <new:float> = <scalar>.item()
if <float:var> > 0:
    <block>

!data <new:int> = int(<vec>.sum())
for <fixed:int> in range(<int:var> % 3):
    <block>

!data if <scalar>.item() > 1:
    <block>
elif <vec>.any():
    <block>

!data if <vec>.max() > 1 and <bool>:
    <block>

!data while <vec>.sum() < 3 and <bool>:
    <vec:set> += 1
    <block>
    if <bool>:
        break

!data for <fixed:int> in <ivec>.tolist():
    <block>

!data <list:var>.append(<scalar>.item())

!data <dict:var>[<key>] = int(<scalar>)

!data assert <scalar> == <scalar>, <str>

!data assert <vec>.max().item() < 50, <str>

!data assert not <vec>.isnan().any()

!data print(<vec>.detach())

!data <new:any> = <vec>.detach().numpy().sum()

!data match <scalar>.item():
    case 0 | 1:
        <block>
    case float(<new:float>) if <float:var> > 0:
        <block>
"""
