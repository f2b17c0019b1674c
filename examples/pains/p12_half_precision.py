"""bfloat16, fused: every op rounds as eager code's does, and a cast of the program's stays one."""

import torch

import jitpkg


def swish(x, gate):
    y = (x.float() * 1.001).bfloat16()
    return torch.sigmoid(y * gate) * y + x


torch.manual_seed(0)
x, gate = torch.randn(2, 10_000).bfloat16()
compiled = jitpkg.compile(swish)(x, gate)
print("largest difference from eager code:", (compiled - swish(x, gate)).abs().max().item())
faster = jitpkg.compile(swish, options={"precision": "fused"})(x, gate)
print("with precision='fused' it may differ:", bool((faster != swish(x, gate)).any()))
