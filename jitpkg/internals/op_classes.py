"""The classes of torch's ops: that of a public one is the same, wherever it is defined."""

import torch

__all__ = ["OpOverload", "OpOverloadPacket"]

OpOverloadPacket = type(torch.ops.aten.add)
OpOverload = type(torch.ops.aten.add.Tensor)
