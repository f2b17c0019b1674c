"""Train a small vision transformer and a small CNN on handwritten digits, eager and compiled.

Both copies of a model start from the same seed and take turns, step by step, on the same batches.
Compiled code is the same program. With the backend `eager`, which runs graphs op by op, every loss
and every accuracy must agree bit for bit. Kernels round elsewhere, and training magnifies that:
with them each loss of the first epoch must agree to a thousandth, and the last accuracies to a
hundredth. The script exits with 1 if they do not.

    python examples/digits.py                    half a minute
    python examples/digits.py --backend eager
    python examples/digits.py --quick            a few seconds, for a test
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import jitpkg

BATCH = 64
TEST_IMAGES = 360

LossAndLogits = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, Tensor]]


# The models


class Block(nn.Module):
    """Attention, then a perceptron, each after a normalisation and added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))

    def attend(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return self.project(mixed.transpose(1, 2).reshape(batch, tokens, width))


class VisionTransformer(nn.Module):
    """For images of 8 x 8 pixels: 16 patches of 2 x 2, and one token that collects the answer."""

    def __init__(self, width: int = 64, depth: int = 3, heads: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.answer = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, 17, width) / 2)
        self.blocks = nn.ModuleList(Block(width, heads, dropout=0.1) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        count = len(images)
        patches = images.view(count, 4, 2, 4, 2).transpose(2, 3).reshape(count, 16, 4)
        x = torch.cat([self.answer.expand(count, -1, -1), self.embed(patches)], dim=1)
        x = x + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


class ConvolutionalNetwork(nn.Module):
    """Two convolutions, with batch normalisation and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 4 * 4, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.features(images.unsqueeze(1)).flatten(1)
        return self.head(self.dropout(x))


# Training


def loss_and_logits(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """What is compiled."""
    logits = model(images)
    return functional.cross_entropy(logits, labels), logits


def train_step(
    forward: LossAndLogits,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    labels: Tensor,
) -> Tensor:
    optimizer.zero_grad()
    loss, _ = forward(model, images, labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def evaluate(
    forward: LossAndLogits, model: nn.Module, images: Tensor, labels: Tensor
) -> tuple[float, float]:
    """Loss and accuracy."""
    model.eval()
    loss, logits = forward(model, images, labels)
    model.train()
    return loss.item(), (logits.argmax(1) == labels).float().mean().item()


@dataclass
class Contestant:
    """One copy of a model, and how it fared."""

    model: nn.Module
    forward: LossAndLogits
    optimizer: torch.optim.Optimizer
    losses: list[float] = field(default_factory=list)
    """One for each training step."""
    seconds: list[float] = field(default_factory=list)
    """How long each training step took."""

    def step(self, seed: int, batch: Data) -> None:
        torch.manual_seed(seed)  # dropout draws the same numbers for both
        began = time.perf_counter()
        loss = train_step(self.forward, self.model, self.optimizer, batch.images, batch.labels)
        self.seconds.append(time.perf_counter() - began)
        self.losses.append(loss.item())


@dataclass(frozen=True)
class Data:
    """Images as floats in 0…1, and the digits that they show."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: slice | Tensor) -> Data:
        return Data(self.images[index], self.labels[index])

    def batches(self, seed: int) -> Iterator[Data]:
        """Whole batches in an order that the seed decides."""
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(self) - BATCH + 1, BATCH):
            yield self[order[start : start + BATCH]]


def load() -> tuple[Data, Data]:
    """The data to train with, and to test with."""
    digits = load_digits()
    images = torch.tensor(digits.images / 16, dtype=torch.float32)
    everything = Data(images, torch.tensor(digits.target))
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0))
    shuffled = everything[order]
    return shuffled[TEST_IMAGES:], shuffled[:TEST_IMAGES]


# The report


def compare(
    name: str,
    make: Callable[[], nn.Module],
    optimizer: Callable[..., torch.optim.Optimizer],
    epochs: int,
    backend: str,
    train: Data,
    test: Data,
) -> bool:
    """Train both copies side by side, and print what happened; whether they agree."""
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    forward = jitpkg.compile(loss_and_logits, backend=backend)
    eager = Contestant(model, loss_and_logits, optimizer(model.parameters()))
    compiled = Contestant(twin, forward, optimizer(twin.parameters()))

    parameters = sum(p.numel() for p in model.parameters())
    print(f"\n{name}: {parameters:,} parameters, {epochs} epochs, batches of {BATCH}\n")
    print("         training loss           test loss               test accuracy")
    print("epoch    eager      compiled     eager      compiled     eager    compiled")
    agree = near = True
    made = jitpkg.Explanation()
    with jitpkg.events.STREAM.listening(made.note):
        for epoch in range(1, epochs + 1):
            first = len(eager.losses)
            for seed, batch in enumerate(train.batches(epoch)):
                turns = [eager, compiled] if seed % 2 == 0 else [compiled, eager]
                for contestant in turns:
                    contestant.step(seed, batch)
            agree = agree and eager.losses == compiled.losses
            if epoch == 1:
                near = all(map(about(1e-3), eager.losses, compiled.losses))
            mean_1, mean_2 = (statistics.fmean(c.losses[first:]) for c in (eager, compiled))
            loss_1, right_1 = evaluate(eager.forward, eager.model, test.images, test.labels)
            loss_2, right_2 = evaluate(compiled.forward, compiled.model, test.images, test.labels)
            agree = agree and (loss_1, right_1) == (loss_2, right_2)
            print(
                f"{epoch:5}    {mean_1:.6f}   {mean_2:.6f}     {loss_1:.6f}   {loss_2:.6f}"
                f"    {right_1:6.2%}   {right_2:6.2%}"
            )
    agree = agree and same_state(eager.model, compiled.model)
    near = near and abs(right_1 - right_2) <= 0.01
    if agree:
        print("\nLosses, accuracies, parameters and buffers agree bit for bit.")
    elif near and backend != "eager":
        print("\nLosses and accuracies agree, up to rounding.")
    else:
        print("\nLosses, accuracies, parameters or buffers DIFFER.")
    print(
        f"Compiled: {made.graph_count} graphs with {made.op_count} ops,"
        f" {made.graph_break_count} breaks, {len(made.out_guards)} guards"
    )
    for graph_break in made.break_reasons:
        print(f"  {graph_break.title()} ({graph_break.where})")
    print_times(eager.seconds, compiled.seconds)
    return agree or (near and backend != "eager")


def about(relative: float) -> Callable[[float, float], bool]:
    return partial(math.isclose, rel_tol=relative)


def same_state(model: nn.Module, other: nn.Module) -> bool:
    """Whether all parameters and buffers are equal."""
    states = zip(model.state_dict().items(), other.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in states)


def print_times(eager: list[float], compiled: list[float]) -> None:
    """Of the first training step, and of those after the tenth, where everything is warm."""
    warm = slice(min(10, len(eager) // 2), None)
    steady_1, steady_2 = statistics.median(eager[warm]), statistics.median(compiled[warm])
    print("\n                             eager      compiled   compiled / eager")
    for title, a, b in [
        ("first training step", eager[0], compiled[0]),
        ("median of those after", steady_1, steady_2),
    ]:
        print(f"{title:25}{1000 * a:6.2f} ms  {1000 * b:8.2f} ms   {b / a:8.2f}")


def warm_up() -> None:
    """Let torch load what it loads for its first optimizer, so that no contestant pays for it."""
    model = nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 1)).sum().backward()
    optimizer.step()


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on digits, eager and compiled.")
    parser.add_argument("--quick", action="store_true", help="fewer images, one epoch")
    parser.add_argument("--backend", default=jitpkg.config.backend, help="of the compiled copies")
    arguments = parser.parse_args()
    quick, backend = arguments.quick, arguments.backend
    began = time.perf_counter()
    torch.set_num_threads(1)  # for tensors this small more threads mostly wait for one another
    train, test = load()
    if quick:
        train = train[: 6 * BATCH]
    print(
        f"{len(train)} digits to train with, {len(test)} to test with;"
        f" torch {torch.__version__}, {torch.get_num_threads()} thread; backend {backend!r}"
    )
    warm_up()
    adamw = partial(torch.optim.AdamW, lr=1e-3)
    sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
    rest = backend, train, test
    agree = [
        compare("Vision transformer", VisionTransformer, adamw, 1 if quick else 15, *rest),
        compare("Convolutional network", ConvolutionalNetwork, sgd, 1 if quick else 8, *rest),
    ]
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    return 0 if all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
