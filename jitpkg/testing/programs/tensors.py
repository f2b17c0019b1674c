"""Expressions and statements of tensors: sizes are such that most of them fit each other."""

EXPRESSIONS = """
vec:
    *2 torch.ones(1)
    torch.tensor([0.5])
    *3 <vec> + <vec>
    *3 <vec> * <vec>
    *2 <vec> - <vec>
    *3 <vec> + <number>
    *3 <vec> * <number>
    *2 <number> - <vec>
    <vec> / 2
    !rounds <vec> / <vec>
    -<vec>
    *2 <fn>(<vec>)
    <vec>.abs()
    torch.relu(<vec>)
    F.relu(<vec>)
    <vec>.clamp(<float>, 2)
    <vec>.clamp(min=<number>)
    torch.maximum(<vec>, <vec>)
    torch.where(<mask>, <vec>, <vec>)
    torch.where(<vec> > 0, <vec>, <number>)
    <vec>.masked_fill(<mask>, <float>)
    <vec>.clone()
    <vec>.detach()
    <vec>.contiguous()
    <vec>.flip(0)
    <vec>.roll(1)
    <vec>.cumsum(0)
    <vec>.sort().values
    <vec>.view(-1)
    <vec>.reshape(-1)
    <vec>.unsqueeze(0).squeeze(0)
    <vec>[None][0]
    <vec>[:]
    *2 <mat>[0]
    <mat>[:, 0].sum() + <vec>
    <mat>.sum(0)
    <mat>.amax(0)
    <mat>.max(0)[0]
    torch.zeros_like(<vec>)
    torch.full_like(<vec>, <number>)
    torch.ones(<vec>.shape[0])
    torch.full((<vec>.shape[0],), <number>)
    torch.arange(<vec>.shape[0]) * <vec>
    torch.tensor([<number>, <number>])
    torch.stack(<vecs>).sum(0)
    torch.stack([<vec>, <vec>]).amax(0)
    <vecs>[-1]
    <vdict>["a"]
    <pair>[0]
    sum(<vecs>)
    sum(<vecs>, <vec>)
    functools.reduce(torch.add, <vecs>)
    <vec>.to(torch.float64)
    <vec>.float()
    <vec>.half()
    <vec>.to(<tensor>.dtype)
    <vec>.type_as(<vec>)
    <vec> if <bool> else <vec>
    torch.add(<vec>, <vec>, alpha=<int>)
    torch.lerp(<vec>, <vec>, 0.5)
    torch.addcmul(<vec>, <vec>, <vec>, value=2)
    <vec> % 2
    <vec> // 2
    <vec> ** 2
    <vec>.sign()
    <vec>.round()
    <vec>.floor()
    <vec>.nan_to_num(<float>)
    *2 <vec:var>.add_(<number>)
    *2 <vec:var>.mul_(<number>)
    <vec:var>.copy_(<vec>)
    <vec:var>.zero_()
    <vec:var>.fill_(<number>)
    <vec:var>.clamp_(max=1)
    <vec:var>.add_(<vec>)
    <vec:var>.requires_grad_(False)
    <ivec> * <vec>
    <mask> * <vec>
    <ivec>.float()
    !rounds <vec>.sin()
    !rounds <vec>.exp()
    !rounds torch.sigmoid(<vec>)
    !rounds <vec>.softmax(0)
    !rounds <vec>.tanh() * <float>
    !rounds F.gelu(<vec>)
    !rounds (<vec> - <vec>.mean()) / (<vec>.std() + 1)
    !rounds <mat> @ <mat:var>[0]
    !rounds F.layer_norm(<vec>, (<vec>.shape[0],))
    !rounds torch.rsqrt(<vec>.abs() + 1)
    !rounds torch.rand(<vec>.shape[0])
    !rounds torch.randn_like(<vec>)
    *2 torch.rand(2).sum() * 0 + <vec>
    F.dropout(<vec>, 0.5)
    F.dropout(<vec>, 0.5, training=<bool>)
    torch.bernoulli(torch.full_like(<vec>, 0.5))
    <module>(<vec>)
    nn.Parameter(<vec>.detach())
    nn.Parameter(<vec>, requires_grad=False) * 2
    copy.deepcopy(<vec>)
    copy.copy(<vec>)
    <vec>.new(<ints>)
    <vec>.new_tensor([<number>])
    getattr(<vec>, "tag", <vec>)
    torch.from_numpy(<vec>.detach().numpy())
    torch.from_numpy(np.array([<float>, <float>]))
    torch.as_tensor(<vec>.detach().numpy()) * 2
mat:
    *2 <mat> + <mat>
    *2 <mat> * <number>
    *2 <mat> + <vec>
    <mat> * <vec>
    <mat> - <mat>.sum(0)
    <mat>.t().contiguous().t()
    <mat>.clone()
    <mat>.abs()
    <mat>.flip(1)
    <mat>[:]
    <mat>[::1]
    <mat>[1:]
    <mat>[2:]
    <mat>[2:] * <vec>
    <mat>[:0] + <vec>
    <mat>[: <vec>.shape[0] - 1]
    <mat>.transpose(0, 1).transpose(0, 1)
    torch.stack([<vec>, <vec>])
    <vec>[None] + <mat>
    <vec>.expand(2, -1)
    <vec>.repeat(2, 1)
    torch.outer(<vec>, <vec>)
    torch.cat([<mat>, <mat>])
    torch.where(<mat> > 0, <mat>, <number>)
    torch.ones(1, 1)
    <mat:var>.add_(<vec>)
    <mat:var>.mul_(<number>)
    torch.tril(<mat>)
    <mat>.cumsum(1)
    !rounds <mat> @ <mat>.t()
    !rounds torch.mm(<mat>, <mat>.t()).relu()
    !rounds <mat>.softmax(-1)
    !rounds F.linear(<mat>, <mat>)
    !rounds torch.einsum("ij,kj->ik", <mat>, <mat>)
scalar:
    torch.tensor(<number>)
    *3 <vec>.sum()
    <mat>.sum()
    <vec>.amax()
    <vec>.max()
    <vec>[0]
    <vec>[-1]
    <mat>[0, -1]
    <scalar> + <scalar>
    <scalar> * <number>
    -<scalar>
    <scalar> + <float>
    <ivec>.sum()
    <mask>.any()
    (<vec> > 0).sum()
    <anyt>.sum()
    torch.zeros(())
    torch.dot(<vec:var>, <vec:var>)
    !rounds <vec>.mean()
    !rounds <vec>.norm()
    !rounds <vec>.std()
    !rounds F.mse_loss(<vec>, <vec>)
ivec:
    torch.tensor([0])
    torch.arange(<vec>.shape[0])
    <vec>.argsort()
    <vec>.long()
    <vec>.int()
    <ivec> + <int>
    <ivec> * 2
    <ivec> % 2
    <ivec> // 2
    <mask>.long()
    <vec>.sort().indices
    torch.tensor(<ints>)
    torch.full((2,), <int>)
    <ivec>.clamp(0, 1)
mask:
    *2 <vec> > <number>
    <vec> == <vec>
    <vec> >= <vec>
    ~<mask>
    <mask> & <mask>
    <mask> | (<vec> < 0)
    <ivec> == <int>
    <vec>.isnan()
    <vec>.bool()
    torch.tensor([True])
anyt:
    <vec>[<int>:]
    <vec>[::2]
    <vec>[:-1]
    <vec>[<int>:<int>]
    *2 torch.cat([<vec>, <vec>])
    torch.cat(<vecs>)
    <mat>.t()
    <mat>[:, :1]
    <mat>[..., None]
    <vec>.view(1, -1)
    <vec>.reshape(-1, 1)
    <mat>.view(-1)
    <mat>.reshape(-1)
    <vec>[<ivec> % 1]
    <mat>[<int> % 2, :]
    <anyt> * 2
    <anyt> + <anyt>
    <anyt>.clone()
    <anyt>.abs()
    torch.zeros(<tup>)
    torch.zeros(<int> % 4, 2)
    torch.empty(0)
    torch.ones(<vec>.shape[0], <int> % 3)
    torch.tensor(<list>)
    torch.tensor(<ints>)
    <vec>.split(1)[0]
    <mat>.unbind(1)[0]
    <vec>.to(torch.bfloat16)
    F.one_hot(<vec>.argmax(), <vec>.shape[0])
    <tensor>.to(torch.int32)
    F.pad(<vec>, (1, <int> % 3))
    !data <vec>[<mask>]
    !data <vec>.nonzero()
    !data <vec>.unique()
module:
    nn.ReLU()
    nn.Identity()
    nn.Dropout(0.5)
    !rounds nn.Linear(1, 2)
    nn.Sequential(nn.ReLU(), nn.Identity())
    !rounds nn.LayerNorm(1)
    nn.Sequential(nn.Embedding(3, 2), nn.ReLU())[1]
"""

STATEMENTS = """
*3 <vec:var>.add_(<number>)

*2 <vec:var>.mul_(<vec>)

<vec:var>[<int>] = <number>

*2 <vec:var>[-1:] = <number>

<vec:var>[0] = <scalar>

<vec:var>[<int>:] = <number>

<x=vec:var>[<x> > 0] = <number>

<vec:var>[:2] += <number>

<mat:var>[0] = <vec>

<mat:var>[0].add_(<number>)

<mat:var>[:, 0] *= <number>

<anyt:var>.zero_()

<anyt:var>.add_(1)

*2 <vec:set> += <vec>

*2 <vec:set> *= <number>

*2 <vec:set> = <vec>

*2 <new:vec> = <vec:var>.view(-1)

<new:vec> = <vec:var>[:]

<new:vec> = <mat:var>[0]

<new:anyt> = <vec:var>[1:]

<new:scalar> = <vec:var>[0]

<new:vec>, <new:anyt> = <vec>, <vec:var>[::2]

*3 <new:vec> = <vec>

*2 <new:mat> = <mat>

<new:scalar> = <scalar>

<new:ivec> = <ivec>

<new:mask> = <mask>

<new:anyt> = <anyt>

<new:vec>, <new:ivec> = <vec>.sort()

<new:vec>, *<new:vecs> = <mat>

<vec:var>.grad = None

torch.add(<vec>, 1, out=<vec:var>)

!rounds <vec:var>.uniform_()

<vec:var>.bernoulli_(0.5)

torch.manual_seed(<int> % 5)

torch.nn.init.constant_(<vec:var>, <number>)

*2 <vec:var>.tag = <vec>

<tensor:var>.note = <any>

del <vec:var>.tag

<new:any> = getattr(<tensor>, "note", None)

<new:vec>, <new:vec> = copy.deepcopy((<vec>, <vec>))

@torch.no_grad()
def <new:fn>(v):
    <body vec v=vec>

@torch.enable_grad()
def <new:fn>(v, by=<number>):
    <body vec v=vec by=number>

@torch.inference_mode()
def <new:fn>(v):
    <body vec v=vec>

*2 with torch.no_grad():
    <block>

with torch.enable_grad():
    <block>

with torch.set_grad_enabled(<bool>):
    <block>

!rounds with torch.autocast("cpu", dtype=torch.bfloat16):
    <block>

!rounds with torch.autocast("cpu", dtype=torch.bfloat16):
    <new:mat> = <mat> @ <mat>.t()

with torch.inference_mode():
    <new:vec> = <vec>

torch.set_grad_enabled(<bool>)

!data *2 if <vec>.sum() > <number>:
    <block>

!data if <mask>.any():
    <block>
else:
    <block>

!data for <new:scalar> in <vec>:
    <block>

for <new:vec> in <mat>:
    <block>

!data print(<scalar>.item())

!data print("sum", <vec>.sum().detach())

assert <vec>.dim() == 1, <str>

!data while <scalar> > <number>:
    <block>
    break
"""
