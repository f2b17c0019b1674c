"""The programs, the ways in which each is compiled, and what that may take at most."""

from tests.example_programs.support import INCLUDE, RUN, Program, Way

COMPILE = ("--compile",)

LOOPS = ("GenerationMixin._sample", "GenerationMixin._beam_search")
"""They keep the scores of all tokens in a tuple, which is a length longer for each."""

PROGRAMS = (
    Program(
        "nanogpt-train",
        "nanogpt/train.py",
        (
            Way("run", RUN, entries=46, breaks=12, storms=("GPT._init_weights",), slow=True),
            Way("dynamo", (), ("--compile=True", "--compile_backend=jitpkg"), slow=True),
        ),
    ),
    Program(
        "nanogpt-float16",
        "nanogpt/train.py",
        (Way("run", RUN, entries=46, breaks=12, storms=("GPT._init_weights",), slow=True),),
        ("--dtype=float16", "--flash=False"),
        tolerance=0.05,
    ),
    Program(
        "nanogpt-sample",
        "nanogpt/sample.py",
        (
            Way("compile", (), ("--compile=True",), entries=4, slow=True),
            Way("run", RUN, entries=13, breaks=3, storms=("GPT._init_weights",), slow=True),
        ),
    ),
    *(
        Program(
            f"trainer-{model}",
            "hf_trainer.py",
            (
                Way("compile", (), ("--compile", "jitpkg"), entries=4, slow=model == "gpt2"),
                Way("auto", (), ("--compile", "auto"), 16, 3, storms=(storm,), slow=True),
                Way(
                    "trainer",
                    (),
                    ("--compile", "trainer"),
                    entries=10,
                    seconds=60,
                    slow=model == "bert",
                ),
                Way("run", (*RUN, *INCLUDE), entries=16, breaks=5, storms=(storm,), slow=True),
            ),
            ("--model", model),
            needs=("transformers", "accelerate"),
        )
        for model, storm in (
            ("bert", "BertPreTrainedModel._init_weights"),
            ("gpt2", "GPT2PreTrainedModel._init_weights"),
        )
    ),
    *(
        Program(
            f"llama-{mode}",
            "llama_generate.py",
            (
                Way("compile", (), COMPILE, entries=12, breaks=6, slow=mode != "beams"),
                Way("run", (*RUN, *INCLUDE), (), entries, 24, storms=LOOPS, slow=True),
            ),
            ("--mode", mode),
            needs=("transformers",),
        )
        for mode, entries in (("greedy", 58), ("sample", 58), ("static", 100), ("beams", 90))
    ),
    *(
        Program(
            f"images-{model}",
            "train_images.py",
            (
                Way("compile", (), COMPILE, entries=6, slow=model == "resnet"),
                Way("run", RUN, entries=64, breaks=30, slow=True),
            ),
            ("--model", model),
        )
        for model in ("vit", "resnet")
    ),
    Program(
        "images-resnet-bfloat16",
        "train_images.py",
        (Way("compile", (), COMPILE, entries=6, slow=True),),
        ("--model", "resnet", "--amp", "--channels-last"),
        tolerance=0.05,
    ),
    Program(
        "diffusion",
        "diffusion_sample.py",
        (
            Way("compile", (), COMPILE, entries=2),
            Way("run", RUN, entries=20, breaks=5, slow=True),
        ),
        ("--scheduler", "ddpm"),
    ),
    Program(
        "lstm",
        "lstm_lm.py",
        (
            Way("compile", (), COMPILE, entries=8, breaks=2),
            Way("run", RUN, entries=64, breaks=28, slow=True),
        ),
    ),
    Program(
        "graph-network",
        "graph_network.py",
        (
            Way("compile", (), COMPILE, entries=6, breaks=1),
            Way(
                "run", RUN, entries=75, breaks=22, storms=("Batch.from_graphs", "loader"), slow=True
            ),
        ),
    ),
    Program(
        "function-transforms",
        "function_transforms.py",
        (
            Way("compile", (), COMPILE, entries=6),
            Way("run", RUN, entries=24, breaks=12, slow=True),
        ),
    ),
    Program(
        "attention-masks",
        "attention_masks.py",
        (
            Way("compile", (), COMPILE, entries=1),
            Way("run", RUN, entries=4, slow=True),
        ),
    ),
    Program(
        "ppo",
        "ppo.py",
        (
            Way("compile", (), COMPILE, entries=12, breaks=4),
            Way("run", RUN, entries=24, breaks=6, slow=True),
        ),
    ),
    Program(
        "scikit-learn",
        "sklearn_pipeline.py",
        (
            Way("compile", (), COMPILE, entries=20),
            Way("run", RUN, entries=32, breaks=14, slow=True),
        ),
        needs=("sklearn",),
    ),
    Program(
        "notebook",
        "notebook.py",
        (
            Way("compile", (), COMPILE, entries=30, breaks=4),
            Way("run", RUN, entries=8, breaks=2, slow=True),
        ),
    ),
    Program(
        "processes",
        "processes.py",
        (
            Way("compile", (), COMPILE, entries=20),
            Way("run", RUN, entries=12, breaks=12, slow=True),
        ),
    ),
    *(
        Program(
            f"ranks-{way}",
            "distributed.py",
            (
                Way("compile", (), COMPILE, entries=12, slow=way == "ddp"),
                Way("run", RUN, slow=True),
            ),
            ("--way", way),
        )
        for way in ("ddp", "all_reduce")
    ),
)
