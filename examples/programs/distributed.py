"""Train on two ranks, by DistributedDataParallel or by reducing gradients by hand.

$ python distributed.py
$ python distributed.py --way all_reduce --compile
$ python -m jitpkg run distributed.py
"""

import argparse
import os
import socket
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Rings(Dataset):
    """Points of rings; which ring is the class."""

    def __init__(self, size, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, 3, (size,), generator=generator)
        angle = 6.2832 * torch.rand(size, generator=generator)
        radius = 1.0 + self.labels + 0.2 * torch.randn(size, generator=generator)
        self.points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def build(width, depth):
    return nn.Sequential(
        nn.Linear(2, width), *(Block(width) for _ in range(depth)), nn.Linear(width, 3)
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def average_gradients(model):
    size = float(dist.get_world_size())
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
            p.grad /= size


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    counts = torch.zeros(2)
    for points, labels in loader:
        counts[0] += (model(points).argmax(1) == labels).sum()
        counts[1] += len(labels)
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def worker(rank, args, port, folder):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=args.world_size)
    torch.manual_seed(args.seed if args.way == "ddp" else args.seed + rank)
    model = build(args.width, args.depth)
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    if args.way == "ddp":
        model = DistributedDataParallel(model)
    else:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    data = Rings(args.examples)
    sampler = DistributedSampler(data, args.world_size, rank, shuffle=True, seed=args.seed)
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    test = Rings(args.examples // 2, seed=1)
    test_loader = DataLoader(
        test, 64, sampler=DistributedSampler(test, args.world_size, rank, False)
    )
    criterion = nn.CrossEntropyLoss()
    step = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(())
        for points, labels in loader:
            began = time.perf_counter()
            loss = criterion(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            if args.way != "ddp":
                average_gradients(model)
            optimizer.step()
            total += loss.detach()
            if rank == 0:
                took = 1000 * (time.perf_counter() - began)
                print(f"step {step}: {took:.2f} ms", file=sys.stderr)
            step += 1
        dist.all_reduce(total)
        accuracy = evaluate(model, test_loader)
        if rank == 0:
            mean = total.item() / len(loader) / args.world_size
            print(f"epoch {epoch}: loss {mean:.4f}, accuracy {accuracy:.3f}", flush=True)
    raw = model.module if args.way == "ddp" else model
    if rank == 0:
        torch.save(raw.state_dict(), os.path.join(folder, "model.pt"))
    dist.barrier()
    again = build(args.width, args.depth)
    again.load_state_dict(torch.load(os.path.join(folder, "model.pt")))
    far = sum(
        (a - b).abs().max() for a, b in zip(raw.parameters(), again.parameters(), strict=True)
    )
    gathered = [torch.zeros(()) for _ in range(args.world_size)]
    dist.all_gather(gathered, far.detach())
    if rank == 0:
        print("ranks differ by", max(gathered).item(), flush=True)
    dist.barrier()  # a rank that leaves while another still talks to it may abort
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--way", choices=["ddp", "all_reduce"], default="ddp")
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--examples", type=int, default=160)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(args, free_port(), folder), nprocs=args.world_size)
    print("done")


if __name__ == "__main__":
    main()
