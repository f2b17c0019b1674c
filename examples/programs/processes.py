"""Score documents in threads, in forked and in spawned processes, with one model.

$ python processes.py
$ python processes.py --compile
$ python -m jitpkg run processes.py
"""

import argparse
import multiprocessing
import os
import pickle
import queue
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import torch
from torch import nn


class Scorer(nn.Module):
    """Bag of words, attention pooling, and a score."""

    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.attention = nn.Linear(width, 1)
        self.body = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1)

    def forward(self, ids):
        x = self.embedding(ids)
        weight = self.attention(x).squeeze(-1).masked_fill(ids == 0, float("-inf")).softmax(-1)
        return self.head(self.body((weight[..., None] * x).sum(1))).squeeze(-1)


def documents(count, batch, words, seed):
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        ids = torch.randint(1, words, (batch, 12), generator=generator)
        lengths = torch.randint(1, 13, (batch, 1), generator=generator)
        made.append(ids.masked_fill(torch.arange(12) >= lengths, 0))
    return made


def normalized(scores):
    return (scores - scores.mean()) / (scores.std() + 1e-6)


MODEL = None


def initialize(model):
    """In each process of a pool."""
    global MODEL
    torch.set_num_threads(1)
    MODEL = model


@torch.inference_mode()
def score(batch):
    return normalized(MODEL(batch)).max().item()


def score_all(model, batches):
    initialize(model)
    return [score(batch) for batch in batches]


def child(model, batches, results, rank):
    initialize(model)
    results.put((rank, [score(batch) for batch in batches]))


def train_child(model, batches, results):
    """Trains a copy of the model, and sends its weights back."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        loss = (model(batch) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    results.put(
        (loss.item(), {k: v.detach().numpy().copy() for k, v in model.state_dict().items()})
    )


class Server(threading.Thread):
    """Answers requests from a queue, until it gets None."""

    def __init__(self, model):
        super().__init__(daemon=True)
        self.model = model
        self.requests = queue.Queue()

    def run(self):
        while (request := self.requests.get()) is not None:
            batch, answer = request
            with torch.inference_mode():
                answer.put(normalized(self.model(batch)).max().item())

    def ask(self, batch):
        answer = queue.Queue()
        self.requests.put((batch, answer))
        return answer.get(timeout=60)


def by_threads(model, batches, threads):
    initialize(model)
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(score, batches))


def by_server(model, batches):
    server = Server(model)
    server.start()
    answers = [server.ask(batch) for batch in batches]
    server.requests.put(None)
    server.join()
    return answers


def by_pool(model, batches, method, workers):
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(workers, context, initializer=initialize, initargs=(model,)) as pool:
        return list(pool.map(score, batches))


def by_processes(model, batches, method, workers):
    context = multiprocessing.get_context(method)
    results = context.Queue()
    started = [
        context.Process(target=child, args=(model, batches[k::workers], results, k))
        for k in range(workers)
    ]
    for process in started:
        process.start()
    found = dict(results.get(timeout=120) for _ in started)
    for process in started:
        process.join()
    return [found[k % workers][k // workers] for k in range(len(batches))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--words", type=int, default=100)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--ways",
        nargs="+",
        default=["plain", "threads", "server", "pickle", "fork", "spawn", "train"],
    )
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Scorer(args.words, args.width).eval()
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    batches = documents(args.batches, args.batch_size, args.words, seed=1)
    ways = {
        "plain": lambda: score_all(model, batches),
        "threads": lambda: by_threads(model, batches, 4),
        "server": lambda: by_server(model, batches),
        "pickle": lambda: score_all(pickle.loads(pickle.dumps(model)), batches),
        "fork": lambda: by_pool(model, batches, "fork", args.workers),
        "spawn": lambda: by_processes(model, batches, "spawn", args.workers),
    }
    parent = os.getpid()
    step = 0
    for _ in range(args.rounds):
        for way in args.ways:
            began = time.perf_counter()
            if way == "train":
                context = multiprocessing.get_context("fork")
                results = context.Queue()
                process = context.Process(target=train_child, args=(model, batches, results))
                process.start()
                loss, state = results.get(timeout=120)
                process.join()
                total = sum(abs(v).sum() for v in state.values())
                print(f"train: loss {loss:.4f}, weights {total:.3f}, exit code {process.exitcode}")
            else:
                scores = ways[way]()
                print(f"{way}: " + " ".join(f"{s:.4f}" for s in scores))
            took = 1000 * (time.perf_counter() - began)
            print(f"step {step}: {took:.2f} ms ({way})", file=sys.stderr)
            step += 1
    assert os.getpid() == parent


if __name__ == "__main__":
    main()
