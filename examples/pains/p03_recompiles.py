"""Forty batch sizes: the second one makes the size vary, and there the compiling ends."""

import torch

import jitpkg
from jitpkg import events


def layer(x, weight):
    return torch.relu(x @ weight).sum(0)


weight = torch.randn(8, 8)
compiled = jitpkg.compile(layer)
seen = []
with events.STREAM.listening(seen.append):
    for batch in range(1, 41):
        x = torch.randn(batch, 8)
        torch.testing.assert_close(compiled(x, weight), layer(x, weight))
entries = sum(isinstance(event, events.EntryAdded) for event in seen)
print(f"40 batch sizes, {entries} entries")
for event in seen:
    if isinstance(event, events.Recompiled):
        print("compiled again:", "; ".join(event.reasons))
