"""Write a character-level data set as train.bin, val.bin and meta.pkl."""

import os
import pickle
import random

import numpy as np

SUBJECTS = ["the king", "a queen", "my lord", "the fool", "thy ghost", "a soldier", "the moon"]
VERBS = ["loves", "fears", "sees", "betrays", "follows", "mourns", "praises"]
ENDS = [".", "!", "?", ", and so it ends.", ";\nalas."]


def write_text(lines, seed=1337):
    rng = random.Random(seed)
    made = []
    for _ in range(lines):
        first, verb, second, end = (
            rng.choice(words) for words in (SUBJECTS, VERBS, SUBJECTS, ENDS)
        )
        made.append(f"{first} {verb} {second}{end}\n")
    return "".join(made).capitalize()


def prepare(data_dir, lines=2000):
    os.makedirs(data_dir, exist_ok=True)
    data = write_text(lines)
    chars = sorted(set(data))
    stoi = {ch: i for i, ch in enumerate(chars)}
    itos = {i: ch for i, ch in enumerate(chars)}
    n = len(data)
    for split, text in (("train", data[: int(n * 0.9)]), ("val", data[int(n * 0.9) :])):
        ids = np.array([stoi[c] for c in text], dtype=np.uint16)
        ids.tofile(os.path.join(data_dir, f"{split}.bin"))
        print(f"{split} has {len(ids):,} tokens")
    with open(os.path.join(data_dir, "meta.pkl"), "wb") as f:
        pickle.dump({"vocab_size": len(chars), "itos": itos, "stoi": stoi}, f)


if __name__ == "__main__":
    prepare("data")
