"""Generate text with a small Llama: greedily, by sampling, with a static cache, or by beams.

$ python llama_generate.py --mode beams --compile
$ python -m jitpkg run --include transformers llama_generate.py --mode sample
"""

import argparse
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, set_seed

MODES = {
    "greedy": dict(do_sample=False),
    "sample": dict(do_sample=True, temperature=0.8, top_k=20, top_p=0.95),
    "static": dict(do_sample=False, cache_implementation="static"),
    "beams": dict(do_sample=False, num_beams=3, num_return_sequences=2, length_penalty=0.9),
}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=12)
    parser.add_argument("--hidden-size", type=int, default=32)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def build_model(args):
    config = LlamaConfig(
        vocab_size=args.vocab_size,
        hidden_size=args.hidden_size,
        intermediate_size=2 * args.hidden_size,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).eval()


def make_prompts(args):
    """Batches of prompts of several lengths, padded on the left."""
    generator = torch.Generator().manual_seed(args.seed)
    for _ in range(args.prompts):
        lengths = torch.randint(3, 9, (args.batch_size,), generator=generator).tolist()
        longest = max(lengths)
        ids = torch.zeros(args.batch_size, longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(lengths):
            tokens = torch.randint(3, args.vocab_size, (length,), generator=generator)
            ids[row, longest - length :] = tokens
            mask[row, longest - length :] = 1
        yield ids, mask


@torch.inference_mode()
def generate(model, mode, args):
    set_seed(args.seed)
    for k, (ids, mask) in enumerate(make_prompts(args)):
        began = time.perf_counter()
        made = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=args.new_tokens,
            output_scores=True,
            return_dict_in_generate=True,
            **MODES[mode],
        )
        took = time.perf_counter() - began
        for row in made.sequences[:, ids.shape[1] :].tolist():
            print(mode, k, " ".join(map(str, row)))
        if mode != "beams":
            scores = model.compute_transition_scores(
                made.sequences, made.scores, normalize_logits=True
            )
            print(f"{mode} {k} log likelihood {scores[scores.isfinite()].sum():.3f}")
        else:
            print(f"{mode} {k} scores", [round(s, 3) for s in made.sequences_scores.tolist()])
        print(f"step {k}: {1000 * took:.2f} ms ({mode})", file=sys.stderr)


def main():
    args = parse_args()
    set_seed(args.seed)
    model = build_model(args)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    for mode in MODES if args.mode == "all" else [args.mode]:
        generate(model, mode, args)


if __name__ == "__main__":
    main()
