"""Fine-tune a small BERT classifier, or train a small GPT-2, with Hugging Face's Trainer.

$ python hf_trainer.py --model bert
$ python hf_trainer.py --model gpt2 --compile jitpkg
$ python hf_trainer.py --model bert --compile trainer   # torch_compile_backend="jitpkg"
$ python -m jitpkg run --include transformers hf_trainer.py
"""

import argparse
import logging
import os
import random
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--model", choices=["bert", "gpt2"], default="bert")
parser.add_argument("--compile", choices=["no", "jitpkg", "auto", "trainer"], default="no")
parser.add_argument("--max-steps", type=int, default=12)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--hidden-size", type=int, default=32)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--examples", type=int, default=96)
parser.add_argument("--max-length", type=int, default=24)
parser.add_argument("--gradient-accumulation", type=int, default=1)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()

if args.compile == "auto":
    os.environ.setdefault("JITPKG_INCLUDE", "transformers.models,__main__")
    import jitpkg.auto

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

if args.compile == "jitpkg":
    import jitpkg
elif args.compile == "trainer":
    import jitpkg.accelerate  # noqa: F401  # the backend's name for Trainer

logger = logging.getLogger(__name__)

GOOD = ["lovely", "great", "brilliant", "moving", "a joy", "witty", "warm"]
BAD = ["awful", "dull", "a bore", "weak", "tedious", "cold", "a mess"]
THINGS = ["film", "plot", "cast", "music", "story", "ending", "dialogue"]


def make_tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = sorted({word for phrase in GOOD + BAD + THINGS for word in phrase.split()})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, "the", "is", "and", "but", *words]
    vocab = {word: k for k, word in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def review(rng):
    label = rng.randint(0, 1)
    words = []
    for _ in range(rng.randint(1, 4)):
        kind = (GOOD if label else BAD) if rng.random() < 0.9 else (BAD if label else GOOD)
        words.append(f"the {rng.choice(THINGS)} is {rng.choice(kind)}")
    return " and ".join(words), label


class Reviews(Dataset):
    def __init__(self, tokenizer, size, seed, labels=True):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(size):
            text, label = review(rng)
            row = dict(tokenizer(text, truncation=True, max_length=args.max_length))
            if labels:
                row["label"] = label
            self.rows.append(row)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class StepTimes(TrainerCallback):
    """Times each optimizer step."""

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        took = 1000 * (time.perf_counter() - self.began)
        print(f"step {state.global_step}: {took:.2f} ms", file=sys.stderr)


def compute_metrics(prediction):
    logits, labels = prediction
    predicted = np.argmax(logits, axis=-1)
    return {"accuracy": float((predicted == labels).mean())}


def build(tokenizer):
    if args.model == "bert":
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=args.hidden_size,
            num_hidden_layers=args.layers,
            num_attention_heads=2,
            intermediate_size=4 * args.hidden_size,
            max_position_embeddings=args.max_length + 8,
            num_labels=2,
        )
        return BertForSequenceClassification(config), DataCollatorWithPadding(tokenizer)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=args.hidden_size,
        n_layer=args.layers,
        n_head=2,
        n_positions=args.max_length + 8,
        bos_token_id=2,
        eos_token_id=3,
    )
    return GPT2LMHeadModel(config), DataCollatorForLanguageModeling(tokenizer, mlm=False)


def main():
    logging.basicConfig(level=logging.WARNING)
    set_seed(args.seed)
    tokenizer = make_tokenizer()
    model, collator = build(tokenizer)
    classifies = args.model == "bert"
    train = Reviews(tokenizer, args.examples, 0, classifies)
    test = Reviews(tokenizer, args.examples // 3, 1, classifies)
    print(f"{args.model}: {model.num_parameters():,} parameters, {len(train)} examples")
    if args.compile == "jitpkg":
        model = jitpkg.compile(model)
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder,
            max_steps=args.max_steps,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            gradient_accumulation_steps=args.gradient_accumulation,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=max(1, args.max_steps // 10),
            weight_decay=0.01,
            logging_steps=max(1, args.max_steps // 4),
            eval_strategy="steps",
            eval_steps=max(1, args.max_steps // 2),
            save_strategy="steps",
            save_steps=max(1, args.max_steps // 2),
            save_total_limit=1,
            load_best_model_at_end=True,
            seed=args.seed,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            torch_compile=args.compile == "trainer",
            torch_compile_backend="jitpkg" if args.compile == "trainer" else None,
        )
        trainer = Trainer(
            model=model,
            args=training,
            train_dataset=train,
            eval_dataset=test,
            data_collator=collator,
            compute_metrics=compute_metrics if classifies else None,
            callbacks=[StepTimes()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        for row in trainer.state.log_history:
            kept = {k: v for k, v in row.items() if "runtime" not in k and "per_second" not in k}
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in kept.items()})
        metrics = trainer.evaluate()
        print(
            {
                k: round(metrics[k], 4)
                for k in sorted(metrics)
                if k in ("eval_loss", "eval_accuracy")
            }
        )
        predictions = trainer.predict(test).predictions
        print("mean logit:", f"{float(np.mean(predictions)):.4f}")
        trainer.save_model(folder)
        again = type(model).from_pretrained(folder)
        same = all(
            torch.equal(a, b)
            for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True)
        )
        print("saved and loaded:", same)


if __name__ == "__main__":
    main()
