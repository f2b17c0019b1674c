"""Predict a property of molecules with message passing; every batch has other sizes.

$ python graph_network.py --epochs 3
$ python -m jitpkg run graph_network.py
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Graph:
    x: Tensor  # (nodes, features)
    edge_index: Tensor  # (2, edges): from, to
    edge_attr: Tensor  # (edges, edge features)
    y: Tensor  # ()


@dataclass
class Batch:
    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor
    batch: Tensor  # (nodes,): the graph of each node
    num_graphs: int
    y: Tensor

    @classmethod
    def from_graphs(cls, graphs):
        sizes = torch.tensor([len(g.x) for g in graphs])
        starts = sizes.cumsum(0) - sizes
        return cls(
            x=torch.cat([g.x for g in graphs]),
            edge_index=torch.cat(
                [g.edge_index + s for g, s in zip(graphs, starts, strict=True)], dim=1
            ),
            edge_attr=torch.cat([g.edge_attr for g in graphs]),
            batch=torch.repeat_interleave(torch.arange(len(graphs)), sizes),
            num_graphs=len(graphs),
            y=torch.stack([g.y for g in graphs]),
        )


def random_molecule(rng, features=6, edge_features=3):
    n = int(rng.integers(4, 20))
    chain = np.stack([np.arange(n - 1), np.arange(1, n)])
    rings = rng.integers(0, n, size=(2, int(rng.integers(0, n // 2 + 1))))
    edges = np.concatenate([chain, rings], axis=1)
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    kinds = rng.integers(0, features, size=n)
    bonds = rng.integers(0, edge_features, size=edges.shape[1])
    y = kinds.mean() + 0.5 * (bonds == 1).mean() + 0.1 * n
    return Graph(
        x=F.one_hot(torch.from_numpy(kinds), features).float(),
        edge_index=torch.from_numpy(edges.copy()),
        edge_attr=F.one_hot(torch.from_numpy(bonds), edge_features).float(),
        y=torch.tensor(y, dtype=torch.float32),
    )


def loader(graphs, batch_size, shuffle=False):
    order = torch.randperm(len(graphs)) if shuffle else torch.arange(len(graphs))
    for i in range(0, len(graphs), batch_size):
        yield Batch.from_graphs([graphs[j] for j in order[i : i + batch_size].tolist()])


def scatter_add(src, index, dim_size):
    out = src.new_zeros(dim_size, *src.shape[1:])
    return out.index_add_(0, index, src)


def scatter_softmax(src, index, dim_size):
    """Softmax over the entries that share an index."""
    index = index.unsqueeze(-1).expand_as(src)
    biggest = src.new_full((dim_size, src.size(1)), float("-inf"))
    biggest = biggest.scatter_reduce_(0, index, src.detach(), reduce="amax", include_self=True)
    out = (src - biggest.gather(0, index)).exp()
    total = src.new_zeros(dim_size, src.size(1)).scatter_add_(0, index, out)
    return out / (total.gather(0, index) + 1e-16)


class MessagePassing(nn.Module):
    """Attention over a node's neighbours, gated by what their bond is."""

    def __init__(self, width, edge_features, heads=2):
        super().__init__()
        self.heads = heads
        self.message = nn.Sequential(
            nn.Linear(2 * width + edge_features, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.attention = nn.Linear(width, heads)
        self.update = nn.GRUCell(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        m = self.message(torch.cat([x[source], x[target], edge_attr], dim=-1))
        alpha = scatter_softmax(self.attention(m), target, x.size(0))
        m = m.view(m.size(0), self.heads, -1) * alpha.unsqueeze(-1)
        received = scatter_add(m.flatten(1), target, x.size(0))
        return self.norm(self.update(received, x))


class GraphNetwork(nn.Module):
    def __init__(self, features=6, edge_features=3, width=32, layers=3):
        super().__init__()
        self.embed = nn.Linear(features, width)
        self.layers = nn.ModuleList(MessagePassing(width, edge_features) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, x, edge_index, edge_attr, batch, num_graphs):
        h = self.embed(x)
        for layer in self.layers:
            h = h + layer(h, edge_index, edge_attr)
        total = scatter_add(h, batch, num_graphs)
        count = torch.bincount(batch, minlength=num_graphs).clamp(min=1)
        return self.head(torch.cat([total, total / count[:, None]], dim=-1)).squeeze(-1)


def call(model, batch):
    return model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, batch.num_graphs)


@torch.no_grad()
def evaluate(model, graphs, batch_size):
    model.eval()
    error = sum(
        F.l1_loss(call(model, batch), batch.y, reduction="sum").item()
        for batch in loader(graphs, batch_size)
    )
    return error / len(graphs)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0
        self.state = None

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.bad = value, 0
            self.state = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--patience", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    graphs = [random_molecule(rng) for _ in range(args.graphs)]
    held_out = args.graphs // 4
    train, valid = graphs[held_out:], graphs[:held_out]
    model = GraphNetwork(width=args.width, layers=args.layers)
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    stop = EarlyStopping(args.patience)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in loader(train, args.batch_size, shuffle=True):
            began = time.perf_counter()
            optimizer.zero_grad()
            loss = F.mse_loss(call(model, batch), batch.y)
            loss.backward()
            optimizer.step()
            total += loss.item() * batch.num_graphs
            print(f"step {step}: {1000 * (time.perf_counter() - began):.2f} ms", file=sys.stderr)
            step += 1
        error = evaluate(model, valid, args.batch_size)
        schedule.step(error)
        print(f"epoch {epoch}: train {total / len(train):.4f}, valid {error:.4f}")
        if stop(error, model):
            print(f"no progress in {args.patience} epochs")
            break
    model.load_state_dict(stop.state)
    print(f"best: {evaluate(model, valid, args.batch_size):.4f}")


if __name__ == "__main__":
    main()
