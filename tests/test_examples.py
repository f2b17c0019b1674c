"""Every example runs by itself, succeeds, and prints what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

SAID = {
    "breaks_explained.py": [
        "B103: a branch depends on a tensor's data",
        "if norm > 1:",
        "GraphBreak: B103: a branch depends on a tensor's data",
        "clipped_without_branch, with fullgraph=True: one graph, the same result",
        "Three compiled calls and an eager one each said: the largest is",
        "centred_with_tensors, with fullgraph=True: one graph, the same result",
    ],
    "custom_backend.py": [
        "A graph with 2 inputs:",
        "9 nodes before, 7 after",
        "3 calls of one graph",
    ],
    "decorator.py": [
        "jit(gelu) is gelu: True",
        "x has dtype torch.float64; built for torch.float32",
        "jit(model) is model; its state: 0.weight, 0.bias, 2.weight, 2.bias",
        "Do you mean 'eager'?",
    ],
    "digits.py": [
        "Vision transformer",
        "Convolutional network",
        "agree",
        "0 breaks",
        "median of those after",
    ],
    "equal_layers.py": [
        "A training step of 4 layers, one thread",
        "eager              0",
        "as a whole         1",
        "each block         1",
        "All losses are as eager code's.",
    ],
    "fuzzing.py": [
        "clip_all: compiled as eagerly, for 40 random batches",
        "doubled, compiled (backend='careless'), in call 1 of 2 is not as eager:",
        "result, shape: (0,) eagerly, (1,) compiled",
    ],
    "quantized_weights.py": [
        "Int8((64, 64)) in each of 4 linear layers",
        "1 graph, 0 graph breaks",
        "The results agree.",
    ],
    "transformer_block.py": [
        "d_model 32, 4 heads, batch 2 x 16",
        "first call        median",
        "eager ",
        "default ",
        "reduce-overhead ",
        "max-autotune ",
        "max-autotune-no-cudagraphs ",
        "All results are as eager code's.",
    ],
    "speed.py": [
        "jitpkg",
        "gelu and gate",
        "smooth cross entropy",
        "… with gradients",
    ],
    "usual.py": [
        "mse = ",
        "n = -2: [-0.5, -2.0], 3 graphs by now",
        "mul = x * 4",
        "b.sum() < 0: right, 3 graphs by now",
        "graphs: 2, breaks: B106",
        "after two calls: [0.0, 100.0, 200.0]; a view of it: [100.0, 200.0]",
        "All as expected.",
    ],
}
"""For each example, lines of its output in order."""

ARGUMENTS = {
    name: ["--quick"]
    for name in (
        *("digits.py", "equal_layers.py", "quantized_weights.py", "speed.py"),
        "transformer_block.py",
    )
}
NEEDS = {
    "digits.py": "sklearn",
    "fuzzing.py": "hypothesis",
    "transformer_block.py": "llvmlite",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example(example: Path) -> None:
    if example.name in NEEDS:
        pytest.importorskip(NEEDS[example.name])
    command = [sys.executable, str(example), *ARGUMENTS.get(example.name, [])]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "JITPKG_STRICT": "1"}
    environment.pop("JITPKG_BACKEND", None)  # they run as users run them
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert not run.stderr
    rest = run.stdout
    for said in SAID[example.name]:
        assert said in rest, f"{said!r} is missing, or in another place, in\n{run.stdout}"
        rest = rest.partition(said)[2]


def test_each_example_is_described() -> None:
    assert [example.name for example in EXAMPLES] == sorted(SAID)
