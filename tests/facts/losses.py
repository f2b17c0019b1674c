"""Cases of gated activations, losses of two tensors and similarities: see `tests.facts.cases`."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.facts.examples import M, case, facts, of

BCE = F.binary_cross_entropy_with_logits
cosine = F.cosine_similarity

LOSSES = [
    *(
        case("glu", facts(layout, dtype, grad), dim, call=F.glu)
        for layout in ("matrix", "transposed", "sliced", "columns", "turned cube", "channels last")
        for dtype, grad in ((torch.float32, True), (torch.bfloat16, False), (torch.int64, False))
        for dim in (-1, 0, 1, 3)
    ),
    *(
        case("prelu", facts(layout, grad=True), of(size), call=F.prelu)
        for layout in (
            "matrix",
            "transposed",
            "columns",
            "images",
            "channels last",
            "row",
            "number",
        )
        for size in (1, 3, 4)
    ),
    case("prelu", M, of(4, dtype=torch.float64), call=F.prelu),
    *(
        case(name, facts(layout, dtype, grad=True), facts(target, other), call=call, **kwargs)
        for name, call in (
            ("binary_cross_entropy", F.binary_cross_entropy),
            ("binary_cross_entropy_with_logits", BCE),
            ("kl_div", F.kl_div),
        )
        for layout, target in (
            *(("matrix", "matrix"), ("transposed", "transposed"), ("matrix", "transposed")),
            *(("channels last", "images"), ("matrix", "row"), ("number", "number")),
        )
        for dtype, other in (
            *((torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.float32, torch.float64)),
            *((torch.float32, torch.int64), (torch.float32, torch.bool)),
        )
        for kwargs in (*([{}] * (name != "kl_div")), {"reduction": "none"}, {"reduction": "sum"})
    ),
    *(
        case("binary_cross_entropy_with_logits", M, M, weight=weight, call=BCE, **kwargs)
        for weight in (M, of(4), of(4, dtype=torch.float64))
        for kwargs in ({}, {"reduction": "none"})
    ),
    case("binary_cross_entropy_with_logits", M, M, pos_weight=of(4), call=BCE),
    case("kl_div", M, M, log_target=True, reduction="batchmean", call=F.kl_div),
    *(
        case("cosine_similarity", facts(a, dtype, grad=True), facts(b, dtype), dim, call=cosine)
        for a, b in (
            *(("matrix", "matrix"), ("transposed", "transposed"), ("matrix", "row")),
            *(("turned cube", "cube"), ("column", "matrix"), ("channels last", "images")),
        )
        for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.int64)
        for dim in (0, 1, -1)
    ),
]
