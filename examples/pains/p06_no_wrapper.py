"""A compiled model is the model: same object, names, checkpoints, copies and pickles."""

import copy
import pickle

import torch
from torch import nn

import jitpkg

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
x = torch.ones(2, 4)
before = model(x)
compiled = jitpkg.jit(model)
print("jit(model) is model:", compiled is model)
print("its state:", ", ".join(compiled.state_dict()))
for name, made in {
    "a deep copy": copy.deepcopy(compiled),
    "a pickle": pickle.loads(pickle.dumps(compiled)),
    "jitpkg.compile(model)": jitpkg.compile(nn.Sequential(*model)),
}.items():
    same = torch.allclose(made(x), before) and list(made.state_dict()) == ["0.weight", "0.bias"]
    print(f"{name}: a {type(made).__name__}, as before: {same}")
