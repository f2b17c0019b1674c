"""Fine-tune a small BERT to tell friendly sentences from unfriendly ones."""

import argparse
import logging
import math
import random
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

logger = logging.getLogger("finetune")

GOOD = "lovely great kind warm happy bright gentle wonderful".split()
BAD = "awful cold rude dull sad broken bitter terrible".split()
FILL = "the day was a bit and we met some people at this place who seemed".split()


def set_seed(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def make_sentence(label):
    words = random.choices(FILL, k=random.randint(4, 12))
    for word in random.choices(GOOD if label else BAD, k=2):
        words.insert(random.randrange(len(words)), word)
    return " ".join(words)


class Tokenizer:
    def __init__(self, texts, specials=("[PAD]", "[UNK]", "[CLS]", "[SEP]")):
        counts = Counter(word for text in texts for word in text.split())
        vocabulary = [*specials, *(word for word, _ in counts.most_common())]
        self.ids = {word: k for k, word in enumerate(vocabulary)}
        self.pad, self.unknown, self.cls, self.sep = (self.ids[s] for s in specials)

    def __len__(self):
        return len(self.ids)

    def encode(self, text):
        return [self.cls, *(self.ids.get(word, self.unknown) for word in text.split()), self.sep]


class Sentences(Dataset):
    def __init__(self, texts, labels, tokenizer):
        self.examples = [
            (tokenizer.encode(t), label) for t, label in zip(texts, labels, strict=True)
        ]

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, index):
        ids, label = self.examples[index]
        return {"input_ids": torch.tensor(ids), "label": label}


@dataclass
class Collator:
    pad: int

    def __call__(self, batch):
        longest = max(len(item["input_ids"]) for item in batch)
        ids = torch.full((len(batch), longest), self.pad)
        mask = torch.zeros(len(batch), longest, dtype=torch.long)
        for row, item in enumerate(batch):
            n = len(item["input_ids"])
            ids[row, :n] = item["input_ids"]
            mask[row, :n] = 1
        labels = torch.tensor([item["label"] for item in batch])
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@dataclass
class Meter:
    total: float = 0.0
    count: int = 0
    history: list = field(default_factory=list)

    def update(self, value, n=1):
        self.total += float(value) * n
        self.count += n
        self.history.append(float(value))

    @property
    def average(self):
        return self.total / max(1, self.count)


def accuracy(logits, labels):
    return (logits.argmax(dim=-1) == labels).float().mean()


def to_device(batch, device):
    return {name: tensor.to(device) for name, tensor in batch.items()}


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    losses, right = Meter(), Meter()
    for batch in loader:
        batch = to_device(batch, device)
        output = model(**batch)
        losses.update(output.loss.item(), len(batch["labels"]))
        right.update(accuracy(output.logits, batch["labels"]), len(batch["labels"]))
    return losses.average, right.average


def train_epoch(model, loader, optimizer, scheduler, device, max_norm=1.0):
    model.train()
    meter = Meter()
    for step, batch in enumerate(loader):
        batch = to_device(batch, device)
        optimizer.zero_grad()
        output = model(**batch)
        output.loss.backward()
        norm = clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        meter.update(output.loss.item(), len(batch["labels"]))
        if step % 4 == 0:
            lr = scheduler.get_last_lr()[0]
            print(f"  step {step:3d}  loss {output.loss.item():.6f}  norm {norm:.5f}  lr {lr:.2e}")
        if not math.isfinite(meter.average):
            raise RuntimeError("loss is not finite")
    return meter.average


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=13)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    set_seed(args.seed)

    labels = [k % 2 for k in range(64)]
    texts = [make_sentence(label) for label in labels]
    tokenizer = Tokenizer(texts)
    train = Sentences(texts[:48], labels[:48], tokenizer)
    test = Sentences(texts[48:], labels[48:], tokenizer)
    collate = Collator(tokenizer.pad)
    generator = torch.Generator().manual_seed(args.seed)
    train_loader = DataLoader(
        train, args.batch_size, shuffle=True, collate_fn=collate, generator=generator
    )
    test_loader = DataLoader(test, args.batch_size, collate_fn=collate)

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=32,
        num_labels=2,
    )
    device = torch.device("cpu")
    model = BertForSequenceClassification(config).to(device)
    logger.info("%d parameters", sum(p.numel() for p in model.parameters()))
    decay = [p for n, p in model.named_parameters() if "bias" not in n]
    other = [p for n, p in model.named_parameters() if "bias" in n]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.01}, {"params": other, "weight_decay": 0.0}],
        lr=args.lr,
    )
    steps = len(train_loader) * args.epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_epoch(model, train_loader, optimizer, scheduler, device)
        test_loss, right = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: train {loss:.7f}, test {test_loss:.7f}, accuracy {right:.4f}")
        best = max(best, right)
    print(f"best accuracy {best:.4f}")


if __name__ == "__main__":
    main()
