"""nn.Module: parameters, buffers, containers, hooks, modes; layers of every common kind."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.programs.program import Programs, call, floats, grid, leaf

program = Programs()

torch.manual_seed(0)


def sample(*shape):
    return grid(*shape) / 10


class Mlp(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 2)
        self.scale = 2.0

    def forward(self, x):
        return self.second(F.relu(self.first(x))) * self.scale


program(call(sample(2, 3)), call(sample(4, 3)), name="one_layer", every_break=True)(nn.Linear(3, 2))


program(call(sample(2, 3)), call(sample(2, 3)), call(sample(4, 3)), name="mlp")(Mlp())


mlp = Mlp()


@program(call(sample(2, 3), mlp), call(sample(2, 3), Mlp(5)), call(sample(2, 3), mlp))
def module_as_argument(x, model):
    return model(x) + model.first.weight.sum(), model.training, model.first.in_features


@program(call(sample(2, 3)), call(sample(2, 3)))
def module_as_global(x):
    y = mlp(x)
    return y.softmax(-1), y


program(call(sample(2, 3)), call(sample(1, 3)), name="sequential")(
    nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 1), nn.Sigmoid())
)


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 2)})
        self.shifts = nn.ParameterList([nn.Parameter(floats(k)) for k in range(2)])
        self.named = nn.ParameterDict({"gain": nn.Parameter(floats(3))})

    def forward(self, x, head="a"):
        for k, layer in enumerate(self.layers):
            x = x + layer(x) * k
        for shift in self.shifts:
            x = x + shift
        return self.heads[head](x) * self.named["gain"], len(self.layers), self.layers[-1](x)


program(call(sample(2, 3)), call(sample(2, 3), head="b"), name="module_containers")(Containers())


class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.count += 1
        self.mean.mul_(0.9).add_(x.mean(0) * 0.1)
        self.calls += 1
        self.last = x
        return x - self.mean


program(
    call(sample(2, 3)),
    call(sample(2, 3)),
    call(sample(2, 3)),
    name="buffers_and_attributes_written",
)(RunningMean())


class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(2))
        self.weight = nn.Parameter(floats(1, 2))

    def forward(self, x):
        self.state = self.state * 0.5 + x.detach()
        return self.weight * self.state


program(call(floats(1, 2)), call(floats(1, 2)), name="buffer_replaced")(Replaced())


class BatchNormed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        return self.pool(F.relu(self.norm(self.conv(x)))).flatten(1)


program(call(sample(2, 1, 4, 4)), call(sample(2, 1, 4, 4)), name="batch_norm_in_training")(
    BatchNormed()
)
program(call(sample(2, 1, 4, 4)), call(sample(3, 1, 4, 4)), name="batch_norm_in_evaluation")(
    BatchNormed().eval()
)


@program(call(sample(2, 3), Mlp()), call(sample(2, 3), Mlp().eval()))
def mode_is_branched_on(x, model):
    return model(x) * 2 if model.training else model(x)


@program(call(sample(2, 3), nn.Dropout(0.5)), call(sample(2, 3), nn.Dropout(0.5).eval()))
def dropout(x, layer):
    return layer(x) + 1


@program(call(sample(2, 3), nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))), graphs=None)
def modes_switched(x, model):
    model.eval()
    y = model(x)
    model.train()
    return y, model[1].training


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.seen = []
        self.inner.register_forward_hook(self.after)
        self.inner.register_forward_pre_hook(lambda m, args: (args[0] * 2,))

    def after(self, module, args, output):
        self.seen.append(output.shape)
        return output + 1

    def forward(self, x):
        return self.inner(x)


program(call(sample(1, 2)), call(sample(1, 2)), name="forward_hooks")(Hooked())


hooked = nn.Linear(2, 2)
hooked.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))


@program(call(leaf(1, 2).view(1, 2)), graphs=None)
def backward_hooks(x):
    return hooked(x * 1).sum()


class TinyTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        y, _ = self.attention(self.norm(x), x, x, need_weights=False)
        return self.out(x + y)


program(call(torch.tensor([[1, 2, 0]])), call(torch.tensor([[1, 2, 0]])), name="transformer")(
    TinyTransformer()
)

program(call(sample(1, 3, 4)), name="transformer_encoder_layer")(
    nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
)


@program(call(sample(2, 3, 4), nn.LSTM(4, 3)), graphs=None)
def lstm(x, layer):
    y, (h, c) = layer(x * 1)
    return y, h + 1, c


@program(call(sample(2, 4), nn.GRUCell(4, 3), nn.LSTMCell(4, 3)))
def recurrent_cells(x, gru, lstm_cell):
    h = gru(x)
    h = gru(x, h)
    return h, lstm_cell(x, (h, h))[0]


@program(call(sample(1, 2, 4)), graphs=None)
def gru_and_rnn_modules(x):
    return nn.GRU(4, 2, batch_first=True)(x)[0], nn.RNN(4, 2)(x)[1]


@program(call(sample(2, 3), Mlp()), call(sample(2, 3), Mlp()))
def modules_walked(x, model):
    total = sum(p.sum() for p in model.parameters())
    names = [name for name, _ in model.named_parameters()]
    kinds = [type(m).__name__ for m in model.modules()]
    children = [name for name, _ in model.named_children()]
    return model(x) + total, names, kinds, children, len(list(model.buffers()))


@program(call(sample(2, 3), Mlp()), graphs=None)
def state_dict_read(x, model):
    return model(x), list(model.state_dict()), model.state_dict()["first.bias"].sum()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = self.a

    def forward(self, x):
        return self.b(self.a(x)), self.a is self.b


program(call(sample(1, 2)), call(sample(1, 2)), name="shared_submodule")(Shared())


class Inherited(Mlp):
    def __init__(self):
        super().__init__()
        self.extra = nn.Identity()

    def forward(self, x, flag=True):
        y = super().forward(x)
        return self.extra(y) if flag else y.sum()

    def extra_repr(self):
        return "x"


program(call(sample(2, 3)), call(sample(2, 3), flag=False), name="inherited_forward")(Inherited())


@program(call(sample(2, 3), Mlp()), call(sample(2, 3), Mlp()), graphs=None)
def submodule_replaced(x, model):
    y = model(x)
    model.first = nn.Linear(3, 4, bias=False)
    with torch.no_grad():
        model.first.weight.fill_(0.5)
    return y, model(x)


@program(call(sample(2, 3)), graphs=None)
def module_made_inside(x):
    torch.manual_seed(3)
    layer = nn.Linear(3, 2)
    return layer(x)


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(x, **kwargs) + x


@program(call(sample(2, 3), Residual(nn.Linear(3, 3))), call(sample(2, 3), Residual(nn.Tanh())))
def wrapped_modules(x, model):
    return model(x)


@program(call(sample(2, 3), nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))), graphs=None)
def weight_norm(x, layer):
    return layer(x) * 2


program(call(sample(1, 3, 8, 8)), name="convolutional_network")(
    nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1),
        nn.GroupNorm(2, 4),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 1, groups=2),
        nn.Upsample(scale_factor=2),
        nn.Flatten(),
        nn.Linear(64, 2),
    )
)


@program(call(sample(2, 3), torch.tensor([0, 2]), nn.CrossEntropyLoss(), nn.MSELoss()))
def loss_modules(x, target, cross_entropy, mse):
    return cross_entropy(x, target), mse(x, x * 2), nn.L1Loss(reduction="sum")(x, x + 1)


@program(call(sample(2, 3), Mlp()), call(sample(2, 3), Mlp().requires_grad_(False)), graphs=None)
def frozen_parameters(x, model):
    y = model(x)
    return y, y.requires_grad, all(p.requires_grad for p in model.parameters())


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}

    def forward(self, x):
        key = tuple(x.shape)
        if key not in self.cache:
            self.cache[key] = torch.arange(x.shape[1], dtype=x.dtype)
        return x + self.cache[key]


program(call(sample(2, 3)), call(sample(2, 3)), call(sample(1, 4)), name="cache_by_shape")(Lazy())


@program(call(sample(2, 3), nn.LazyLinear(2)), graphs=None)
def lazy_module(x, layer):
    return layer(x) + 1


@program(call(sample(2, 3), Mlp()), graphs=None)
def functional_call(x, model):
    params = {name: p * 2 for name, p in model.named_parameters()}
    return torch.func.functional_call(model, params, (x,))
