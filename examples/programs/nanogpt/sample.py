"""Sample from a trained model, as nanoGPT does; the window slides once it is full.

$ python sample.py --out_dir=out
$ python sample.py --compile=True
"""

import os
import pickle
import sys
import time
from contextlib import nullcontext

import torch
from model import GPT, GPTConfig
from prepare import prepare

# -----------------------------------------------------------------------------
init_from = "random"  # 'resume' (from an out_dir), or 'random'
out_dir = "out"
start = "\n"  # or "FILE:prompt.txt"
num_samples = 2
max_new_tokens = 80
temperature = 0.8
top_k = 20
seed = 1337
device = "cpu"
dtype = "float32"
n_layer, n_head, n_embd, block_size = 2, 2, 32, 32  # of a random model
compile = False
exec(open(os.path.join(os.path.dirname(__file__), "configurator.py")).read())
# -----------------------------------------------------------------------------

torch.manual_seed(seed)
device_type = "cuda" if "cuda" in device else "cpu"
ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]
ctx = (
    nullcontext()
    if dtype == "float32"
    else torch.amp.autocast(device_type=device_type, dtype=ptdtype)
)

data_dir = os.path.join(out_dir, "data")
if not os.path.exists(os.path.join(data_dir, "meta.pkl")):
    prepare(data_dir)
with open(os.path.join(data_dir, "meta.pkl"), "rb") as f:
    meta = pickle.load(f)
stoi, itos = meta["stoi"], meta["itos"]
encode = lambda s: [stoi[c] for c in s]  # noqa: E731
decode = lambda l: "".join([itos[i] for i in l])  # noqa: E731, E741

if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"), map_location=device)
    model = GPT(GPTConfig(**checkpoint["model_args"]))
    model.load_state_dict({k.removeprefix("_orig_mod."): v for k, v in checkpoint["model"].items()})
else:
    shape = dict(n_layer=n_layer, n_head=n_head, n_embd=n_embd, block_size=block_size)
    model = GPT(GPTConfig(**shape, vocab_size=meta["vocab_size"], bias=False))
model.eval()
model.to(device)
if compile:
    import jitpkg

    model = jitpkg.compile(model)

if start.startswith("FILE:"):
    with open(start[5:], encoding="utf-8") as f:
        start = f.read()
x = torch.tensor(encode(start), dtype=torch.long, device=device)[None, ...]

with torch.no_grad(), ctx:
    for k in range(num_samples):
        t0 = time.time()
        y = model.generate(x, max_new_tokens, temperature=temperature, top_k=top_k)
        print(decode(y[0].tolist()))
        print("---------------")
        print(f"step {k}: {(time.time() - t0) * 1000:.2f} ms", file=sys.stderr)
