"""Sources written by hand, as the printer would."""

from __future__ import annotations

import torch

from jitpkg.codegen.triton.source import Config, Source

_TOP = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"

POINTWISE = Source(
    "sin_mul",
    _TOP
    + """def sin_mul(in0, out0, XBLOCK: tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    mask = x < 1000
    t0 = tl.load(in0 + x, mask=mask)
    tl.store(out0 + x, tl.sin(t0) * 2.0, mask=mask)
""",
    (torch.float32, torch.float32),
    (),
    False,
    ("cdiv(1000, XBLOCK)",),
    (Config((("XBLOCK", 256),), 4), Config((("XBLOCK", 64),), 2)),
)

SOFTMAX = Source(
    "softmax",
    _TOP
    + """def softmax(in0, out0, n0, n1, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    x = (tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK))[:, None]
    r = tl.arange(0, RBLOCK)[None, :]
    mask = (x < n0) & (r < n1)
    t0 = tl.load(in0 + x * n1 + r, mask=mask, other=float("-inf")).to(tl.float32)
    t1 = tl.exp(t0 - tl.max(t0, 1)[:, None])
    tl.store(out0 + x * n1 + r, t1 / tl.sum(t1, 1)[:, None], mask=mask)
""",
    (torch.float16, torch.float16),
    (2, 2),  # any two numbers
    False,
    ("cdiv(n0, XBLOCK)",),
    (Config((("XBLOCK", 2),), 4),),
    (("RBLOCK", 64),),
)

PICK = Source(
    "pick",
    _TOP
    + """def pick(in0, in1, out0, XBLOCK: tl.constexpr):
    x = tl.arange(0, XBLOCK)
    at = tl.load(in1 + x)
    tl.device_assert((at >= 0) & (at < 10), "index out of range")
    tl.store(out0 + x, tl.load(in0 + at, mask=(at >= 0) & (at < 10)))
""",
    (torch.float32, torch.int64, torch.float32),
    (),
    False,
    ("1",),
    (Config((("XBLOCK", 4),), 4),),
)
