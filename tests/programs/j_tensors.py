"""Tensors: creation, views, indexing, in-place ops, dtypes, reductions, linear algebra."""

import torch
import torch.nn.functional as F

from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()


@program(call(grid(2, 3)), call(grid(3, 3)))
def creation(x):
    a = torch.zeros(2, 3) + torch.ones_like(x[:2]) * torch.full((3,), 2.0)
    b = torch.arange(0, x.shape[0], 0.5)
    c = torch.tensor([1, 2, x.size(1)], dtype=torch.float64)
    d = torch.eye(2, dtype=torch.int64)
    e = x.new_zeros(2), x.new_tensor([1.5]), torch.empty(0), torch.linspace(0, 1, 3)
    return a, b, c, d, e, x.new_full((2,), 3)


@program(call(grid(2, 3)), call(torch.ones(2, 2, dtype=torch.int32)), call(grid(2, 2).bool()))
def dtypes(x):
    return x.float(), x.to(torch.int64), x.double() + 1, x.half(), x.type_as(torch.ones(1)), x.dtype


@program(call(grid(2, 3)), every_break=True)
def metadata(x):
    facts = x.shape, x.size(0), x.dim(), x.ndim, x.numel(), x.stride(), x.device, x.layout
    flags = (
        x.is_contiguous(),
        x.t().is_contiguous(),
        x.is_floating_point(),
        x.requires_grad,
        x.is_cuda,
    )
    return x * facts[1], facts, flags, x.element_size(), len(x), x.device.type == "cpu"


@program(call(grid(2, 3, 4)), call(grid(2, 3, 4)))
def views(x):
    a = x.view(6, 4), x.reshape(-1), x.transpose(0, 2), x.permute(2, 0, 1), x.flatten(1)
    b = (
        x.unsqueeze(0).squeeze(),
        x[0].T,
        x.mT,
        x.expand(2, 2, 3, 4),
        x.narrow(1, 0, 2),
        x.select(2, 1),
    )
    c = (
        x.unbind(0),
        x.chunk(2, dim=2),
        x.split(2, dim=1),
        x.movedim(0, 1),
        x.unfold(2, 2, 1),
        x.diagonal(),
    )
    return a, b, c


@program(call(grid(3, 4)), call(grid(4, 4)), every_break=True)
def indexing(x):
    rows = torch.tensor([0, 2])
    mask = x[0] > 1
    return x[rows], x[:, [1, 0]], x[rows, rows], x[..., -1:], torch.where(mask, x[0], 0), x[None, 0]


@program(call(floats(1, -2, 3)), call(floats(-1, -2, 3)), graphs=None)
def masks_select(x):
    y = x + 1
    kept = y[y > 0]
    return kept * 2, y.nonzero()


@program(call(grid(3, 3)), call(grid(3, 3)))
def items_are_set(x):
    x[0] = 5
    x[1, 1:] += 1
    x[x > 6] = 0
    x[:, 0] = floats(7, 8, 9)
    x[torch.tensor([2])] *= 2
    return x.sum()


@program(call(floats(1, 2)), call(floats(1, 2)), every_break=True)
def in_place_ops(x):
    y = x.add_(1)
    z = y.mul_(2)
    x.clamp_(max=5).sub_(1)
    x.zero_().fill_(3).copy_(floats(4, 5))
    return y is x, z + 1, torch.relu_(z)


@program(call(grid(2, 2)), call(grid(2, 2)))
def views_and_in_place_ops(x):
    row = x[0]
    row += 10
    column = x[:, 1]
    column.mul_(2)
    flat = x.view(-1)
    flat[3] = -1
    return row, column, flat, x + 1


@program(call(grid(2, 3)), call(grid(2, 3)))
def outputs_alias_inputs(x):
    return x, x[0], x.view(3, 2), x.detach(), x.t()


@program(call(grid(2, 3)), call(leaf(1, 2, 3).view(1, 3)))
def reductions(x):
    parts = (
        x.sum(),
        x.sum(0),
        x.mean(1, keepdim=True),
        x.max(),
        x.min(),
        x.prod(),
        x.std(),
        x.var(0),
    )
    more = (
        x.argmax(),
        x.any(),
        x.all(),
        x.norm(),
        x.cumsum(1),
        x.logsumexp(0),
        x.amax(1),
        x.median(),
    )
    return parts, more


@program(call(grid(2, 3)))
def reductions_with_indices(x):
    values, indices = x.max(dim=1)
    result = torch.sort(x, dim=1, descending=True)
    top = x.topk(2)
    return values, indices, result, result.values + 1, top.indices, torch.min(x, 0)[1]


@program(call(grid(2, 3), grid(3, 2)), call(leaf(1, 2).view(1, 2), leaf(3, 4).view(2, 1)))
def linear_algebra(a, b):
    return (
        a @ b,
        torch.mm(a, b),
        torch.einsum("ij,jk->ik", a, b),
        a.matmul(b).trace(),
        torch.outer(a[0], b[:, 0]),
    )


@program(call(grid(3, 3) + torch.eye(3) * 5))
def linear_algebra_module(a):
    q, r = torch.linalg.qr(a)
    return (
        torch.linalg.norm(a),
        torch.linalg.det(a),
        torch.linalg.solve(a, a[0]),
        q @ r,
        torch.linalg.inv(a),
    )


@program(call(grid(2, 2), grid(2, 2, start=4)), every_break=True)
def joining(a, b):
    return (
        torch.cat([a, b]),
        torch.stack((a, b), dim=1),
        torch.hstack([a, b]),
        torch.cat((a, b), -1),
    )


@program(call(grid(2, 3)), call(grid(1, 3)))
def broadcasting(x):
    return (
        x + floats(1, 2, 3),
        x * x[:1],
        torch.broadcast_to(x[0], (2, 3)),
        x.expand_as(torch.ones(2, 3)),
    )


@program(call(floats(-1, 0, 2)), call(leaf(-1, 0, 2)))
def activations(x):
    parts = (
        F.relu(x),
        F.gelu(x),
        F.silu(x),
        F.softmax(x, dim=0),
        F.log_softmax(x, -1),
        F.leaky_relu(x, 0.1),
    )
    return parts, torch.sigmoid(x), x.tanh(), F.elu(x), F.softplus(x), F.hardtanh(x), x.softmax(0)


@program(call(floats(1, 2, 3)), call(floats(4, 5, 6)))
def tensor_and_number_functions(x):
    parts = (
        torch.clamp(x, 1.5, 2.5),
        torch.pow(x, 2),
        2**x,
        torch.sqrt(x),
        x.rsqrt(),
        torch.lerp(x, x * 2, 0.5),
    )
    return (
        parts,
        torch.maximum(x, floats(2, 2, 2)),
        x.floor(),
        x.remainder(2),
        torch.where(x > 2, x, -x),
    )


@program(
    call(floats(1, 2), torch.ones(2, dtype=torch.int64)), call(floats(1, 2), torch.ones(2).bool())
)
def type_promotion(x, y):
    return x + y, y * 2, y + 1.5, x * True, (x + y).dtype, torch.result_type(x, y), y / 2


@program(call(floats(1, 2)), call(floats(5)))
def scalar_tensors(x):
    s = x.sum()
    return s * 2, s + x, s.shape, s[None], s.expand(3), torch.tensor(2.0) * s, s.reshape(1, 1)


@program(call(floats(1, 2)), every_break=True)
def out_arguments(x):
    out = torch.empty(2)
    result = torch.add(x, 1, out=out)
    torch.mul(out, 2, out=out)
    return out, result is out


@program(call(grid(1, 1, 4, 4)), call(grid(1, 1, 6, 6)))
def convolution_and_pooling(x):
    weight = torch.ones(2, 1, 3, 3)
    y = F.conv2d(x, weight, padding=1)
    return (
        y,
        F.max_pool2d(y, 2),
        F.avg_pool2d(y, 2),
        F.interpolate(x, scale_factor=2),
        F.pad(x, (1, 1)),
    )


@program(call(grid(2, 4)), call(grid(3, 4)))
def normalisation(x):
    return F.layer_norm(x, (4,)), F.normalize(x, dim=1), F.batch_norm(x, None, None, training=True)


@program(call(torch.tensor([[0, 2], [1, 1]])), every_break=True)
def embedding_and_gather(index):
    table = grid(3, 2)
    picked = F.embedding(index, table)
    return (
        picked,
        table.gather(0, index),
        table[index],
        F.one_hot(index, 3),
        table.index_select(0, index[0]),
    )


@program(call(grid(2, 3), torch.tensor([0, 2])), call(leaf(1, 2, 3).view(1, 3), torch.tensor([1])))
def losses(x, target):
    parts = (
        F.cross_entropy(x, target),
        F.mse_loss(x, x * 2),
        F.l1_loss(x, x + 1),
        F.nll_loss(x.log_softmax(1), target),
    )
    return (
        parts,
        F.smooth_l1_loss(x, x * 2),
        F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
        F.kl_div(x, x),
    )


@program(call(grid(1, 2, 3, 4)), call(leaf(*range(24)).view(1, 2, 3, 4)))
def attention(x):
    causal = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    scores = (x @ x.transpose(-2, -1) / 2).masked_fill(
        torch.ones(3, 3).triu(1).bool(), float("-inf")
    )
    return causal, scores.softmax(-1) @ x


@program(call(floats(3, 1, 2)), graphs=None)
def values_taken_out(x):
    y = x * 2
    n = int(y[0].item())
    items = y.tolist()
    return y + n, items, float(y[1]), y.max().item(), bool(y[0] > 1)


@program(
    call(torch.tensor(2), floats(1, 2, 3)), call(torch.tensor(1), floats(1, 2, 3)), graphs=None
)
def tensor_as_index(n, x):
    items = [10, 20, 30]
    return x[n] + 1, items[n], x[:n]


@program(call(grid(2, 2)))
def complex_numbers(x):
    z = torch.complex(x, x + 1)
    return z * z.conj(), z.real + z.imag, z.abs(), torch.view_as_real(z), torch.fft.fft(x)


@program(call(floats(1, 2)))
def cloning_and_detaching(x):
    a, b = x.clone(), x.detach()
    a.add_(1)
    return a, b, b is x, x.contiguous() is x, x.to(torch.float32) is x, x.data + 1


@program(call(grid(4, 4)), call(grid(4, 4).t()), call(grid(8, 4)[::2]))
def strides_are_kept(x):
    return x + 1, x.contiguous(), torch.empty_like(x).stride(), x.reshape(2, 8), x.clone()


@program(call(torch.empty(0, 3)), call(torch.ones(1, 3)), call(torch.ones(2, 3)))
def empty_tensors(x):
    return x.sum(0), torch.cat([x, x]), x.numel() == 0, x.view(-1, 1), x.mean() if len(x) else x


@program(call(floats(1, 2, 2)), graphs=None)
def unique_and_bincount(x):
    values, counts = torch.unique(x, return_counts=True)
    return values + 1, counts, torch.bincount(x.long())


@program(call(floats(1, 2), floats(1, 2)), call(floats(1, 2), floats(1, 3)), graphs=None)
def equality_as_a_branch(a, b):
    return a + 1 if torch.equal(a, b) else b - 1
