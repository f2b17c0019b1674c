"""Train a ViT or a ResNet with mixup, label smoothing, EMA and DataLoader workers, as timm does.

$ python train_images.py --model vit
$ python train_images.py --model resnet --compile
$ python -m jitpkg run train_images.py --model resnet
"""

import argparse
import copy
import json
import logging
import math
import random
import sys
import tempfile
import time
from collections import OrderedDict
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from image_models import create_model
from torch import nn
from torch.utils.data import DataLoader, Dataset

_logger = logging.getLogger("train")

parser = argparse.ArgumentParser(description="Train on images")
parser.add_argument("--model", default="vit", choices=["vit", "resnet"])
parser.add_argument("--img-size", type=int, default=16)
parser.add_argument("--num-classes", type=int, default=4)
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--depth", type=int, default=2)
parser.add_argument("--examples", type=int, default=64)
parser.add_argument("-b", "--batch-size", type=int, default=8)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--warmup-epochs", type=int, default=1)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--min-lr", type=float, default=1e-5)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--clip-grad", type=float, default=1.0)
parser.add_argument("--mixup", type=float, default=0.8)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--mixup-switch-prob", type=float, default=0.5)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--drop", type=float, default=0.0)
parser.add_argument("--drop-path", type=float, default=0.1)
parser.add_argument("--model-ema-decay", type=float, default=0.9)
parser.add_argument("--amp", action="store_true", help="bfloat16 autocast")
parser.add_argument("--channels-last", action="store_true")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--log-interval", type=int, default=4)
parser.add_argument("--seed", type=int, default=42)


class RandomImages(Dataset):
    """Coloured blobs; where the blob is, and its colour, say which class it is."""

    def __init__(self, size, img_size, num_classes, seed, transform=None):
        rng = np.random.default_rng(seed)
        self.targets = rng.integers(0, num_classes, size)
        self.transform = transform
        y, x = np.mgrid[:img_size, :img_size] / img_size
        self.images = []
        for target in self.targets:
            angle = 2 * math.pi * target / num_classes
            cx, cy = 0.5 + 0.25 * math.cos(angle), 0.5 + 0.25 * math.sin(angle)
            blob = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) * 20)
            noise = rng.normal(0, 0.15, (img_size, img_size, 3))
            colour = np.eye(3)[target % 3] * 0.7 + 0.3
            image = np.clip(blob[..., None] * colour + noise, 0, 1)
            self.images.append((image * 255).astype(np.uint8))

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image, int(self.targets[index])


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class RandomHorizontalFlip:
    def __call__(self, image):
        return image[:, ::-1] if random.random() < 0.5 else image


class RandomCrop:
    def __init__(self, padding):
        self.padding = padding

    def __call__(self, image):
        p, (h, w, _) = self.padding, image.shape
        padded = np.pad(image, ((p, p), (p, p), (0, 0)), mode="reflect")
        top, left = random.randint(0, 2 * p), random.randint(0, 2 * p)
        return padded[top : top + h, left : left + w]


class ToTensor:
    def __init__(self, mean=(0.3, 0.3, 0.3), std=(0.25, 0.25, 0.25)):
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, image):
        tensor = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1).float() / 255
        return (tensor - self.mean) / self.std


def worker_init(worker_id, seed):
    random.seed(seed + worker_id)
    np.random.seed(seed + worker_id)


def one_hot(x, num_classes, on_value=1.0, off_value=0.0):
    x = x.long().view(-1, 1)
    return torch.full((x.size(0), num_classes), off_value).scatter_(1, x, on_value)


def mixup_target(target, num_classes, lam=1.0, smoothing=0.0):
    off_value = smoothing / num_classes
    on_value = 1.0 - smoothing + off_value
    y1 = one_hot(target, num_classes, on_value=on_value, off_value=off_value)
    y2 = one_hot(target.flip(0), num_classes, on_value=on_value, off_value=off_value)
    return y1 * lam + y2 * (1.0 - lam)


def rand_bbox(img_shape, lam):
    ratio = np.sqrt(1 - lam)
    img_h, img_w = img_shape[-2:]
    cut_h, cut_w = int(img_h * ratio), int(img_w * ratio)
    cy, cx = np.random.randint(0, img_h), np.random.randint(0, img_w)
    yl, yh = np.clip(cy - cut_h // 2, 0, img_h), np.clip(cy + cut_h // 2, 0, img_h)
    xl, xh = np.clip(cx - cut_w // 2, 0, img_w), np.clip(cx + cut_w // 2, 0, img_w)
    return yl, yh, xl, xh


class Mixup:
    """Mixup and cutmix of a whole batch."""

    def __init__(self, mixup_alpha, cutmix_alpha, switch_prob, label_smoothing, num_classes):
        self.mixup_alpha = mixup_alpha
        self.cutmix_alpha = cutmix_alpha
        self.switch_prob = switch_prob
        self.label_smoothing = label_smoothing
        self.num_classes = num_classes
        self.mixup_enabled = True

    def _params_per_batch(self):
        lam, use_cutmix = 1.0, False
        if self.mixup_enabled:
            if self.mixup_alpha > 0.0 and self.cutmix_alpha > 0.0:
                use_cutmix = np.random.rand() < self.switch_prob
                alpha = self.cutmix_alpha if use_cutmix else self.mixup_alpha
                lam = np.random.beta(alpha, alpha)
            elif self.mixup_alpha > 0.0:
                lam = np.random.beta(self.mixup_alpha, self.mixup_alpha)
            lam = float(lam)
        return lam, use_cutmix

    def __call__(self, x, target):
        assert len(x) % 2 == 0, "Batch size should be even when using this"
        lam, use_cutmix = self._params_per_batch()
        if lam != 1.0:
            if use_cutmix:
                yl, yh, xl, xh = rand_bbox(x.shape, lam)
                x[:, :, yl:yh, xl:xh] = x.flip(0)[:, :, yl:yh, xl:xh]
                lam = float(1.0 - (yh - yl) * (xh - xl) / (x.shape[-2] * x.shape[-1]))
            else:
                x_flipped = x.flip(0).mul_(1.0 - lam)
                x.mul_(lam).add_(x_flipped)
        return x, mixup_target(target, self.num_classes, lam, self.label_smoothing)


class SoftTargetCrossEntropy(nn.Module):
    def forward(self, x, target):
        return torch.sum(-target * F.log_softmax(x, dim=-1), dim=-1).mean()


class ModelEma(nn.Module):
    """An exponential moving average of a model's weights and buffers."""

    def __init__(self, model, decay):
        super().__init__()
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        pairs = zip(self.module.state_dict().values(), model.state_dict().values(), strict=True)
        for ema_v, model_v in pairs:
            if ema_v.is_floating_point():
                ema_v.lerp_(model_v, weight=1.0 - self.decay)
            else:
                ema_v.copy_(model_v)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class AverageMeter:
    def __init__(self):
        self.val = self.sum = self.avg = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    maxk = min(max(topk), output.size()[1])
    _, pred = output.topk(maxk, 1, True, True)
    pred = pred.t()
    correct = pred.eq(target.reshape(1, -1).expand_as(pred))
    return [correct[: min(k, maxk)].reshape(-1).float().sum(0) * 100.0 / len(target) for k in topk]


def param_groups_weight_decay(model, weight_decay):
    decay, no_decay = [], []
    for name, param in model.named_parameters():
        if not param.requires_grad:
            continue
        skip = param.ndim <= 1 or name.endswith(".bias") or name in ("cls_token", "pos_embed")
        (no_decay if skip else decay).append(param)
    return [
        {"params": no_decay, "weight_decay": 0.0},
        {"params": decay, "weight_decay": weight_decay},
    ]


class CosineLRScheduler:
    def __init__(self, optimizer, updates, warmup, lr, min_lr):
        self.optimizer = optimizer
        self.updates, self.warmup, self.lr, self.min_lr = updates, warmup, lr, min_lr
        self.step_update(0)

    def step_update(self, t):
        if t < self.warmup:
            lr = self.min_lr + t * (self.lr - self.min_lr) / self.warmup
        else:
            done = (t - self.warmup) / max(1, self.updates - self.warmup)
            lr = self.min_lr + 0.5 * (self.lr - self.min_lr) * (1 + math.cos(math.pi * done))
        for group in self.optimizer.param_groups:
            group["lr"] = lr


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, args, schedule, mixup_fn, ema, amp):
    losses, update_time = AverageMeter(), AverageMeter()
    model.train()
    num_updates = epoch * len(loader)
    update_start = time.time()
    for batch_idx, (input, target) in enumerate(loader):
        input, target = mixup_fn(input, target)
        if args.channels_last:
            input = input.contiguous(memory_format=torch.channels_last)
        with amp():
            output = model(input)
            loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        if args.clip_grad:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
        optimizer.step()
        ema.update(model)
        losses.update(loss.item(), input.size(0))
        num_updates += 1
        schedule.step_update(num_updates)
        update_time.update(time.time() - update_start)
        update_start = time.time()
        print(f"step {num_updates}: {1000 * update_time.val:.2f} ms", file=sys.stderr)
        if batch_idx % args.log_interval == 0 or batch_idx == len(loader) - 1:
            lr = sum(g["lr"] for g in optimizer.param_groups) / len(optimizer.param_groups)
            print(
                f"Train: {epoch} [{batch_idx:>4d}/{len(loader)} "
                f"({100.0 * batch_idx / max(1, len(loader) - 1):>3.0f}%)]  "
                f"Loss: {losses.val:.4f} ({losses.avg:.4f})  LR: {lr:.3e}"
            )
    return OrderedDict([("loss", losses.avg)])


def validate(model, loader, loss_fn, amp, log_suffix=""):
    losses, top1, top2 = AverageMeter(), AverageMeter(), AverageMeter()
    model.eval()
    with torch.inference_mode():
        for input, target in loader:
            with amp():
                output = model(input)
                loss = loss_fn(output, target)
            acc1, acc2 = accuracy(output, target, topk=(1, 2))
            losses.update(loss.item(), input.size(0))
            top1.update(acc1.item(), output.size(0))
            top2.update(acc2.item(), output.size(0))
    print(
        f"Test{log_suffix}:  Loss: {losses.avg:.4f}  Acc@1: {top1.avg:.2f}  Acc@2: {top2.avg:.2f}"
    )
    return OrderedDict([("loss", losses.avg), ("top1", top1.avg), ("top2", top2.avg)])


class CheckpointSaver:
    """Keeps the best checkpoint."""

    def __init__(self, model, optimizer, ema, folder):
        self.model, self.optimizer, self.ema = model, optimizer, ema
        self.path = Path(folder) / "model_best.pth.tar"
        self.best = None

    def save(self, epoch, metric):
        if self.best is None or metric > self.best[0]:
            self.best = metric, epoch
            state = {
                "epoch": epoch,
                "state_dict": self.model.state_dict(),
                "state_dict_ema": self.ema.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            }
            torch.save(state, self.path)
        return self.best


def main():
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    model = create_model(
        args.model,
        img_size=args.img_size,
        num_classes=args.num_classes,
        width=args.width,
        depth=args.depth,
        drop_rate=args.drop,
        drop_path_rate=args.drop_path,
    )
    count = sum(p.numel() for p in model.parameters())
    print(f"Model {args.model} created, param count: {count:,}")
    if args.channels_last:
        model.to(memory_format=torch.channels_last)
    ema = ModelEma(model, args.model_ema_decay)
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    groups = param_groups_weight_decay(model, args.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=args.lr)

    images = partial(RandomImages, img_size=args.img_size, num_classes=args.num_classes)
    augment = Compose([RandomHorizontalFlip(), RandomCrop(2), ToTensor()])
    loaders = partial(
        DataLoader,
        batch_size=args.batch_size,
        num_workers=args.workers,
        worker_init_fn=partial(worker_init, seed=args.seed),
        persistent_workers=args.workers > 0,
    )
    loader_train = loaders(
        images(args.examples, seed=0, transform=augment), shuffle=True, drop_last=True
    )
    loader_eval = loaders(images(args.examples // 2 + 3, seed=1, transform=ToTensor()))
    mixup_fn = Mixup(
        args.mixup, args.cutmix, args.mixup_switch_prob, args.smoothing, args.num_classes
    )
    amp = partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=args.amp)
    schedule = CosineLRScheduler(
        optimizer,
        args.epochs * len(loader_train),
        args.warmup_epochs * len(loader_train),
        args.lr,
        args.min_lr,
    )
    train_loss, eval_loss = SoftTargetCrossEntropy(), nn.CrossEntropyLoss()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        saver = CheckpointSaver(model, optimizer, ema, folder)
        for epoch in range(args.epochs):
            train_metrics = train_one_epoch(
                epoch,
                model,
                loader_train,
                optimizer,
                train_loss,
                args,
                schedule,
                mixup_fn,
                ema,
                amp,
            )
            eval_metrics = validate(model, loader_eval, eval_loss, amp)
            ema_metrics = validate(ema, loader_eval, eval_loss, amp, log_suffix=" (EMA)")
            best_metric, best_epoch = saver.save(epoch, eval_metrics["top1"])
            results.append({"epoch": epoch, "train": train_metrics, "eval": ema_metrics})
        checkpoint = torch.load(saver.path)
    again = create_model(
        args.model,
        img_size=args.img_size,
        num_classes=args.num_classes,
        width=args.width,
        depth=args.depth,
    )
    again.load_state_dict(checkpoint["state_dict"])
    validate(again, loader_eval, eval_loss, amp, log_suffix=" (best, loaded)")
    print(f"*** Best metric: {best_metric:.2f} (epoch {best_epoch})")
    rounded = json.loads(json.dumps(results), parse_float=lambda text: round(float(text), 4))
    print("--result\n" + json.dumps(rounded, indent=2))


if __name__ == "__main__":
    main()
