"""One step of a recurrent layer, by ops that know sizes that vary: `torch._VF` has these in C++.

The same ops in the same order as in ATen's RNN.cpp on a CPU. In place they give the same bits: on
chunks that lie in one matrix, `sigmoid_` rounds otherwise than `sigmoid` does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

Bias = Tensor | None

_parts: Callable[..., tuple[Tensor, ...]] = torch.ops.aten.unsafe_split.Tensor
"""Each part is written to; what they are parts of is not read again."""


def gru_cell(
    x: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Bias = None, b_hh: Bias = None
) -> Tensor:
    x_reset, x_update, x_new = _parts(linear(x, w_ih, b_ih), w_hh.size(1), 1)
    h_reset, h_update, h_new = _parts(linear(hx, w_hh, b_hh), w_hh.size(1), 1)
    reset = h_reset.add_(x_reset).sigmoid_()
    update = h_update.add_(x_update).sigmoid_()
    new = x_new.add(h_new.mul_(reset)).tanh_()
    return (hx - new).mul_(update).add_(new)


def lstm_cell(
    x: Tensor,
    hx: list[Tensor] | tuple[Tensor, Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Bias = None,
    b_hh: Bias = None,
) -> tuple[Tensor, Tensor]:
    hidden, cell = hx
    gates = linear(hidden, w_hh, b_hh).add_(linear(x, w_ih, b_ih))
    enter, forget, candidate, leave = _parts(gates, w_hh.size(1), 1)
    enter, forget = enter.sigmoid_(), forget.sigmoid_()
    candidate, leave = candidate.tanh_(), leave.sigmoid_()
    cell = (forget * cell).add_(enter * candidate)
    return leave * cell.tanh(), cell


def rnn_tanh_cell(
    x: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Bias = None, b_hh: Bias = None
) -> Tensor:
    return torch.tanh(linear(hx, w_hh, b_hh).add_(linear(x, w_ih, b_ih)))


def rnn_relu_cell(
    x: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Bias = None, b_hh: Bias = None
) -> Tensor:
    return torch.relu(linear(hx, w_hh, b_hh).add_(linear(x, w_ih, b_ih)))
