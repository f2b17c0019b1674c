"""Shapes and scalars: sizes, strides and numbers that differ from call to call."""

import torch

from tests.footguns.support import floats, plain


def G01_shape_sequence(C):
    g = C(lambda x: x.sum() * x.shape[0])
    return [plain(g(torch.ones(n))) for n in (3, 4, 0, 1, 2, 7, 1)]


def G02_broadcast_vs_equal_dim(C):
    g = C(lambda a, b: a * b)
    return [
        tuple(g(torch.ones(p, 2), torch.ones(q, 2)).shape)
        for p, q in ((3, 3), (4, 4), (5, 1), (1, 5), (1, 1), (6, 6))
    ]


def G03_duck_shape_breaks(C):
    g = C(lambda a, b: (a.shape[0] == b.shape[0], a.sum() + b.sum()))
    return [g(torch.ones(p), torch.ones(q))[0] for p, q in ((3, 3), (4, 4), (4, 5), (5, 5))]


def G04_branch_on_size(C):
    g = C(lambda x: x + 1 if x.shape[0] > 4 else x - 1)
    return [plain(g(torch.zeros(n)))[:1] for n in (2, 3, 5, 9, 4)]


def G06_float_arg_sequence(C):
    g = C(lambda x, k: (x * k, k * 2))
    return [plain(g(floats(1), k)) for k in (1.5, 2.5, 3.0, float("inf"), -0.0)]


def G07_int_float_type_flip(C):
    g = C(lambda x, k: (x * k).dtype)
    return [str(g(torch.ones(1, dtype=torch.int64), k)) for k in (2, 2.0, True, 3)]


def G08_shape_returned_types(C):
    g = C(lambda x: (x.shape, x.size(0), x.numel(), list(x.shape), x.shape[0] * 2))
    r = [g(torch.ones(n, 2)) for n in (3, 4, 5)]
    return [(type(v[0]).__name__, type(v[1]).__name__, tuple(v[0]), v[2], v[3], v[4]) for v in r]


def G09_shape_as_dict_key_and_list_index(C):
    tb = {3: 10, 4: 20, 5: 30}
    g = C(lambda x: x.sum() + tb[x.shape[0]] + [1, 2, 3, 4, 5, 6][x.shape[0]])
    return [plain(g(torch.zeros(n))) for n in (3, 4, 5)]


def G10_range_over_shape(C):
    g = C(lambda x: sum(x[i] * i for i in range(x.shape[0])))
    return [plain(g(torch.ones(n))) for n in (3, 4, 5)]


def G11_reshape_minus1_and_mod(C):
    g = C(
        lambda x: x.reshape(-1, 2).sum(0) if x.shape[0] % 2 == 0 else x[:-1].reshape(-1, 2).sum(0)
    )
    return [plain(g(torch.ones(n))) for n in (4, 6, 5, 7, 8)]


def G13_stride_dependent(C):
    g = C(lambda x: x.stride(0) * 1.0 + x.sum())
    return [plain(g(x)) for x in (torch.ones(2, 3), torch.ones(2, 4), torch.ones(4, 2).t())]


def G14_storage_offset(C):
    b = torch.arange(6.0)
    g = C(lambda x: (x.storage_offset(), x.sum()))
    return [plain(g(v)) for v in (b[0:2], b[2:4])]
