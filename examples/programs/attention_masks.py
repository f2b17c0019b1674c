"""Score packed documents with a transformer whose layers attend by flex_attention.

Layers take turns: causal within each document, a window that slides, all keys but padding.

$ python attention_masks.py
$ python attention_masks.py --compile
"""

import argparse
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Attention(nn.Module):
    def __init__(self, width, heads, slope):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.slope = slope
        self.register_buffer("bias", 2.0 ** -torch.arange(1, heads + 1))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        bias = self.bias

        def alibi(score, b, h, q_idx, kv_idx):
            return score + bias[h] * (kv_idx - q_idx)

        y = flex_attention(q, k, v, score_mod=alibi if self.slope else None, block_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, slope):
        super().__init__()
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, slope)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x, mask):
        x = x + self.attention(self.before(x), mask)
        return x + self.mlp(self.after(x))


class Scorer(nn.Module):
    def __init__(self, tokens, width, heads, layers):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads, k % 2 == 0) for k in range(layers))
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens, masks):
        x = self.embed(tokens)
        for k, block in enumerate(self.blocks):
            x = block(x, masks[k % len(masks)])
        logits = self.head(x[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")


def masks_of(documents, lengths, window):
    """Masks for a batch: which document each token is of, and how many tokens count."""
    batch, length = documents.shape

    def causal_in_document(b, h, q, k):
        return (q >= k) & (documents[b, q] == documents[b, k])

    def sliding(b, h, q, k):
        return (q >= k) & (q - k < window)

    def unpadded(b, h, q, k):
        return k < lengths[b]

    return [
        create_block_mask(each, batch, None, length, length, device="cpu", BLOCK_SIZE=16)
        for each in (causal_in_document, sliding, unpadded)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
    torch.manual_seed(args.seed)
    model = Scorer(97, args.width, args.heads, args.layers).eval()
    score = model
    if args.compile:
        import jitpkg

        score = jitpkg.compile(model, fullgraph=True)
    with torch.no_grad():
        for number in range(args.batches):
            tokens = torch.randint(97, (args.batch, args.length))
            starts = torch.rand(args.batch, args.length) < 0.1
            lengths = torch.randint(args.length // 2, args.length + 1, (args.batch,))
            masks = masks_of(starts.cumsum(dim=1), lengths, window=8)
            began = time.perf_counter()
            losses = score(tokens, masks)
            print(f"step {number}: {time.perf_counter() - began:.3f} s", file=sys.stderr)
            print(f"batch {number}: loss {losses.mean():.4f}, at most {losses.max():.4f}")


if __name__ == "__main__":
    main()
