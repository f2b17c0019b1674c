"""Rarer ops, and what gradients and modules give: rows by kind."""

EXPRESSIONS = """
vec:
    *2 torch.autograd.grad((<v=vec:var> * <vec>).sum(), <v>, allow_unused=True)[0]
    torch.autograd.grad(<vec>.sum(), [<vec:var>])[0]
    <vec>.detach().requires_grad_()
    <vec>.detach().clone().requires_grad_(<bool>)
    <vec:var>.data
    <vec:var>.data.clone()
    <vec:var>.grad
    nn.Parameter(<vec>.detach())
    <vec>.requires_grad_()
    torch.autograd.functional.vjp(torch.abs, <vec>)[0]
    torch.utils.checkpoint.checkpoint(<fn>, <vec>, use_reentrant=False)
    copy.copy(<vec>)
    copy.deepcopy(<vec>.detach())
    <vec>.new_zeros(<vec>.shape)
    <vec>.new_full((<vec>.shape[0],), <number>)
    <vec>.new_tensor([<number>])
    torch.empty_like(<vec>).fill_(<number>)
    torch.ones_like(<vec>, dtype=<tensor>.dtype)
    torch.linspace(0, 1, <vec>.shape[0])
    torch.full((<vec>.shape[0],), <int>)
    torch.as_tensor(<vec>)
    torch.tensor([<float>] * 2)
    <vec>[...]
    <vec>[:, None][:, 0]
    <vec>[None, :].squeeze(0)
    <vec>[::2][: <int>]
    <vec>[torch.arange(<vec>.shape[0])]
    <vec>[[0]]
    <vec>[[0, -1]]
    <vec>[<ivec> % 1] + <vec>
    <mat>[torch.tensor([0, 0])][1]
    <mat>[0, :]
    <mat>[-1]
    <mat>[..., 0].sum() * <vec>
    <mat>.T[:, 0]
    <mat>[2:].sum(0) + <vec>
    (<mat>[:0] * <vec>).sum(0) + <vec>
    <vec>[2:]
    <vec>[: <vec>.shape[0] - 1]
    <mat>.diagonal()[:1] + <vec>
    <mat>.flatten()[: <vec>.shape[0]]
    torch.where(<mask>, <number>, <vec>)
    torch.where(<mask>, <vec>, torch.zeros_like(<vec>))
    <vec>.masked_fill(<mask>, <int>)
    <vec>.masked_scatter(<mask>, <vec>)
    <vec>.gather(0, <ivec>.long() % 1)
    <vec>.index_select(0, <ivec>.long() % 1)
    <vec>.index_fill(0, torch.tensor([0]), <number>)
    <vec>.index_add(0, torch.tensor([0]), <vec>[:1])
    <vec>.scatter(0, torch.tensor([0]), <number>)
    <vec>.scatter_add(0, torch.zeros_like(<vec>, dtype=torch.long), <vec>)
    <vec>.take_along_dim(<vec>.argsort(), 0)
    <vec>.topk(1).values + <vec>
    <vec>.sort(descending=<bool>)[0]
    torch.sort(<vec>, stable=True).values
    <vec>.cummax(0).values
    <vec>.cumprod(0)
    <vec>.diff(prepend=<vec>[:1])
    <vec>.unfold(0, 1, 1)[:, 0]
    <vec>.as_strided((<vec>.shape[0],), (1,))
    <vec>.narrow(0, 0, <vec>.shape[0])
    <vec>.tile(2)[: <vec>.shape[0]]
    <vec>.repeat_interleave(2)[::2]
    torch.chunk(<vec>, 2)[0].sum() + <vec>
    torch.cat([<vec>[:1], <vec>[1:]])
    torch.hstack([<vec>, <vec>])[: <vec>.shape[0]]
    torch.stack([<vec>, <vec>], dim=-1).sum(-1)
    torch.minimum(<vec>, <number> + <vec>)
    torch.clamp(<vec>, <vec> - 1, <vec> + 1)
    torch.fmod(<vec>, 2)
    torch.remainder(<vec>, <number>)
    torch.floor_divide(<vec>, 2)
    torch.div(<vec>, 2, rounding_mode="floor")
    torch.sign(<vec>) * <vec>
    torch.logical_not(<vec>)
    torch.nan_to_num(<vec>)
    torch.heaviside(<vec>, <vec>)
    torch.copysign(<vec>, <vec>)
    torch.square(<vec>)
    torch.rsub(<vec>, 1)
    torch.sub(<vec>, <vec>, alpha=2)
    <int> // <vec>
    <int> % (<vec>.abs() + 1)
    2 ** <vec>.clamp(0, 2)
    <vec>.pow(<int>)
    <vec>.neg().abs_()
    <vec> @ torch.ones(<vec>.shape[0], 1)
    F.leaky_relu(<vec>, 0.5)
    F.hardtanh(<vec>)
    F.relu(<vec>, inplace=True)
    F.threshold(<vec>, 0.5, <number>)
    F.pad(<vec>, (1, 0))[1:]
    F.embedding(<ivec>.long() % 1, <mat>)[0]
    F.one_hot(<ivec>.long() % 2, 2).sum(0)
    F.interpolate(<vec>[None, None], scale_factor=2)[0, 0, ::2]
    F.max_pool1d(<vec>[None], 1)[0]
    torch.vmap(<fn>)(<mat>)[0]
    torch.func.grad(lambda v: (v * v).sum())(<vec>)
    functools.reduce(lambda a, b: a * 0.5 + b, <vecs>, <vec>)
    torch.stack(tuple(<vdict>.values())).sum(0)
    sum(v for v in <vdict>.values())
    <vecs>[<int>]
    max(<vecs>, key=len)
    (<vec>, <vec>)[<bool>]
    (lambda v, *rest: v)(*<vecs>)
    next(iter(<vecs>))
    <vec>.to("cpu")
    <vec>.to(torch.float32, copy=True)
    <vec>.double().float()
    <vec>.bool().float()
    <vec>.int() / 2
    <vec>.half().float()
    <vec>.type(torch.float32)
    <vec:var>.T
    <vec:var>.real
    torch.view_as_real(torch.complex(<vec>, <vec>)).sum(-1)
    <vec>.add(<vec>, alpha=2)
    <vec>.__rsub__(<number>)
    torch.Tensor.mul(<vec>, <number>)
    torch.mul(<vec>, other=<vec>)
    <vec:var>.sub_(<vec>)
    <vec:var>.div_(2)
    <vec:var>.relu_()
    <vec:var>.neg_()
    <vec:var>.masked_fill_(<mask>, <number>)
    <vec:var>.index_fill_(0, torch.tensor([0]), <number>)
    <vec:var>.index_add_(0, torch.tensor([0]), <vec>[:1])
    <vec:var>.scatter_(0, torch.tensor([0]), <number>)
    <vec:var>.set_(<vec>.detach().clone())
    <vec:var>.detach_()
    <vec:var>.addcmul_(<vec>, <vec>)
    <vec:var>.lerp_(<vec>, 0.5)
    <vec:var>.cumsum_(0)
    <vec:var>.resize_(<vec>.shape[0]).zero_()
    <vec:var>.squeeze_()
    <vec:var>.unsqueeze_(0)[0]
    <vec:var>.t_()
    <vec:var>.swapaxes(0, 0)
    !rounds <vec>.log1p().cos()
    !rounds F.softplus(<vec>)
    !rounds F.silu(<vec>) + F.elu(<vec>)
    !rounds F.log_softmax(<vec>, -1)
    !rounds F.normalize(<vec>, dim=0)
    !rounds <vec>.logsumexp(0) + <vec>
    !rounds <vec>.var(0) * <vec>
    !rounds F.conv1d(<vec>[None, None], torch.ones(1, 1, 1))[0, 0]
    !rounds F.batch_norm(<mat>, None, None, training=True)[0]
    !rounds F.scaled_dot_product_attention(<mat>[None], <mat>[None], <mat>[None])[0, 0]
    !rounds torch.addmm(<mat>, <mat>, <mat>)[0]
    !rounds <mat>.t() @ <mat>[:, 0]
    !rounds torch.normal(<vec>, 1.0)
    !rounds torch.randperm(<vec>.shape[0]) * <vec>
    !rounds <vec>.dropout(0.5, True)
    !data <vec>[<mask>].sum() + <vec>
    !data <vec>[<vec> > 0]
    !data <vec>[<mask>.nonzero()[:, 0]]
    !data <vec>[: int(<mask>.sum())]
    !data <vec> * <vec>.max().item()
    !data <vec> if <scalar> > 0 else -<vec>
    !data torch.from_numpy(<vec>.detach().numpy() * 2)
    !data torch.tensor(<vec>.tolist())
    !data torch.as_tensor(np.ones(<vec>.shape[0])) + <vec>
    !data torch.repeat_interleave(<vec>, <ivec>.abs() % 2)
mat:
    <mat>.T.contiguous().T
    <mat>.mT.mT
    <mat>[[0]] + <vec>
    <mat>[:, [0]] + <mat>
    <mat>[:1] * <mat>
    <mat>.view(<mat>.shape)
    <mat>.reshape(<mat>.shape[0], -1)
    <mat>.unflatten(1, (-1, 1))[..., 0]
    <mat>.flatten(0).view(<mat>.size())
    <mat>.permute(1, 0).permute(1, 0)
    <mat>.roll(1, 0)
    <mat>.sort(1).values
    <mat>.masked_fill(<mat> > 0, <number>)
    <mat>.sum(1, keepdim=True) + <mat>
    <mat> / <mat>.shape[1]
    <mat>.max(1, keepdim=True)[0] - <mat>
    torch.where(<mask>, <mat>, <vec>)
    torch.vstack([<vec>, <vec>])
    torch.stack(<vecs>)
    torch.cat([<mat>[:1], <mat>[1:]], 0)
    torch.eye(<vec>.shape[0])
    torch.zeros(2, <vec>.shape[0])
    torch.ones(<mat>.shape)
    torch.triu(<mat>, 1)
    torch.meshgrid(<vec>, <vec>, indexing="ij")[0]
    <vec>[:, None] * <vec>[None]
    <vec>[:, None] - <vec>
    <vec>.unsqueeze(1).expand(-1, 2).t()
    torch.broadcast_to(<vec>, (2, <vec>.shape[0]))
    <mat:var>[0].zero_() + <mat>
    <mat:var>.t_().t_()
    <mat:var>.masked_fill_(<mat> > 1, 0)
    !rounds <mat>.mean(0) + <mat>
    !rounds torch.baddbmm(<mat>[None], <mat>[None], <mat>.t()[None])[0]
    !rounds torch.einsum("ij,ij->ij", <mat>, <mat>)
    !rounds F.layer_norm(<mat>, <mat>.shape[-1:])
    !rounds F.softmax(<mat>, dim=<int> % 2)
    !rounds <mat>.norm(dim=1, keepdim=True) + <mat>
scalar:
    <vec>.prod()
    <vec>.min()
    <vec>.argmax()
    <vec>.count_nonzero()
    <vec>.abs().sum(dtype=torch.float64)
    <mat>.sum((0, 1))
    <mat>.max(1).values[0]
    <mat>.trace()
    torch.sum(<vec>)
    torch.stack([<scalar>, <scalar>]).sum()
    torch.tensor(<int>)
    torch.as_tensor(<float>)
    <scalar>.clone().detach()
    <scalar>.view(1)[0]
    <scalar> if <bool> else <scalar>
    torch.where(<scalar> > 0, <scalar>, <number>)
    max(<scalar>, <scalar>) if False else <scalar>
    sum(v.sum() for v in <vecs>)
    F.l1_loss(<vec>, <vec>, reduction="sum")
    !rounds F.cross_entropy(<mat>, torch.zeros(<mat>.shape[0], dtype=torch.long))
    !rounds F.binary_cross_entropy_with_logits(<vec>, <vec>.sigmoid())
    !rounds F.cosine_similarity(<vec>, <vec>, dim=0)
    !rounds torch.linalg.vector_norm(<vec>)
    !data max(<scalar>, <scalar>)
    !data max(<vec>)
    !data min(<vec>, key=abs)
ivec:
    torch.tensor([1, 0])
    torch.arange(<int> % 4)
    torch.arange(0, <vec>.shape[0], 2)
    torch.arange(<vec>.shape[0] - 1, -1, -1)
    torch.zeros(<vec>.shape[0], dtype=torch.int32)
    torch.tensor(<tup>)
    torch.tensor(<vec>.shape)
    torch.searchsorted(torch.arange(3.0), <vec>)
    <vec>.topk(1).indices
    <mat>.argmax(1)
    <mask>.int().cumsum(0)
    <mask>.sum(0, keepdim=True)
    <ivec> & 1
    <ivec> << 1
    ~<ivec>
    <ivec>.clone().add_(<int>)
    torch.where(<mask>, 1, 0)
    !data torch.where(<mask>)[0]
    !data <mask>.nonzero().squeeze(1)
mask:
    <vec> != <vec>
    <vec> < <vec>
    <vec>.isfinite()
    <vec>.isclose(<vec>)
    <mask> ^ <mask>
    <mask>.logical_not()
    torch.logical_and(<vec>, <mask>)
    torch.isin(<ivec>, <ivec>)
    <mask>.clone().fill_(<bool>)
    <ivec> % 2 == 0
    <vec>.eq(<number>)
    torch.ones(<vec>.shape[0], dtype=torch.bool)
    torch.zeros_like(<vec>, dtype=torch.bool)
    (<vec> > 0) & (<vec> < 2)
anyt:
    <vec>[:<int>]
    <vec>[-<int>:]
    <vec>[<int>:<int>:2]
    <vec>[1:] - <vec>[:-1]
    <vec>[1:].view(-1)
    <vec>[..., None, None]
    <vec>[:, None, None].squeeze()
    <mat>[1:, :-1]
    <mat>[::2]
    <mat>[:, ::2]
    <mat>[None].expand(2, -1, -1)
    <mat>.unsqueeze(-1).transpose(0, 1)
    <mat>.permute(1, 0).flatten()
    <mat>.T.reshape(-1)
    <mat>.split(1, dim=0)[0]
    <mat>.chunk(2, 1)[0]
    <vec>.unfold(0, 2, 1)
    <vec>.view(torch.int32)
    <vec>.repeat(<int> % 3)
    <vec>.tile(2, 2)
    <vec>.expand(<int> % 3, -1)
    <vec>.new_empty(0)
    torch.cat([<vec>, torch.empty(0)])
    torch.cat(<vecs>, dim=-1)
    torch.zeros(<vec>.shape[0] + 1)
    torch.zeros(<vec>.shape[0] // 2)
    torch.zeros(2, 0)
    torch.ones(<vec>.shape)
    torch.ones(*<tup>)
    torch.tensor([[<number>, <number>]])
    torch.tensor(<float>, dtype=torch.float64)
    torch.tensor(<bool>)
    torch.complex(<vec>, <vec>)
    torch.combinations(<vec>)
    torch.diag(<vec>)
    <anyt>[0]
    <anyt>[..., -1]
    <anyt>.sum(-1)
    <anyt>.flatten()
    <anyt>.squeeze()
    <anyt>.unsqueeze(0)
    <anyt>.mT
    <anyt>.view(-1, 1)
    <anyt>.float().relu()
    <anyt:var>[<int>:]
    !data torch.unique(<ivec>)
    !data <vec>[<mask>] * 2
    !data torch.masked_select(<vec>, <mask>)
    !data torch.nonzero(<mask>, as_tuple=True)[0]
vecs:
    [v.detach() for v in <vecs>]
    [<vec:var>, <vec:var>]
    list(torch.split(<vec>, 1))
    [*<mat>]
    [<mat>[k] for k in range(<mat>.shape[0])]
    list(torch.unbind(<mat>))
    list(<module>.parameters())
    list(torch.broadcast_tensors(<vec>, <vec>))
    torch.atleast_1d([<vec>, <scalar>])
    [p.data for p in <module>.parameters()]
    [v for _, v in sorted(<vdict>.items())]
    sorted(<vecs>, key=len)
    [*torch.autograd.grad(sum(v.sum() for v in <vecs:out>), [<vec:var>], allow_unused=True)]
    !data sorted(<vecs>, key=lambda v: v.sum().item())
vdict:
    dict(<module>.named_parameters())
    {k: v.detach() for k, v in <module>.state_dict().items()}
    {k: torch.zeros_like(v) for k, v in <vdict>.items()}
    {str(k): v for k, v in enumerate(<vecs>)}
module:
    nn.Tanh()
    nn.Flatten(0)
    nn.ReLU(inplace=True)
    nn.Hardtanh()
    nn.PReLU()
    nn.Sequential(nn.Identity(), nn.ReLU(inplace=True), nn.Dropout(0.5))
    nn.ModuleList([nn.ReLU(), nn.PReLU()])[<int>]
    nn.Sequential(collections.OrderedDict(a=nn.PReLU(), b=nn.ReLU()))
    nn.Sequential(nn.PReLU()).eval()
    nn.PReLU().requires_grad_(<bool>)
    copy.deepcopy(<module>)
    !rounds nn.LayerNorm(1)
    !rounds nn.Sequential(nn.Linear(1, 1), nn.Tanh())
    !rounds nn.Softmax(dim=0)
    !rounds nn.Bilinear(1, 1, 1)
"""
