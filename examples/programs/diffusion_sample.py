"""Sample images from a UNet with classifier-free guidance, as diffusers' pipelines do.

$ python diffusion_sample.py --steps 10 --scheduler ddim
$ python diffusion_sample.py --compile
$ python -m jitpkg run diffusion_sample.py
"""

import argparse
import math
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class UNetOutput:
    sample: torch.Tensor


@dataclass
class SchedulerOutput:
    prev_sample: torch.Tensor
    pred_original_sample: torch.Tensor | None = None


def get_timestep_embedding(timesteps, dim, flip_sin_to_cos=True, max_period=10000):
    assert len(timesteps.shape) == 1, "Timesteps should be a 1d-array"
    half = dim // 2
    exponent = -math.log(max_period) * torch.arange(half, dtype=torch.float32)
    emb = torch.exp(exponent / half).to(timesteps.device)
    emb = timesteps[:, None].float() * emb[None, :]
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    if flip_sin_to_cos:
        emb = torch.cat([emb[:, half:], emb[:, :half]], dim=-1)
    if dim % 2 == 1:
        emb = F.pad(emb, (0, 1, 0, 0))
    return emb


class ResnetBlock2D(nn.Module):
    def __init__(self, in_channels, out_channels, temb_channels, groups=4):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, in_channels, eps=1e-5)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, padding=1)
        self.time_emb_proj = nn.Linear(temb_channels, out_channels)
        self.norm2 = nn.GroupNorm(groups, out_channels, eps=1e-5)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.nonlinearity = nn.SiLU()
        self.conv_shortcut = None
        if in_channels != out_channels:
            self.conv_shortcut = nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, input_tensor, temb):
        hidden_states = self.conv1(self.nonlinearity(self.norm1(input_tensor)))
        temb = self.time_emb_proj(self.nonlinearity(temb))[:, :, None, None]
        hidden_states = hidden_states + temb
        hidden_states = self.conv2(self.nonlinearity(self.norm2(hidden_states)))
        if self.conv_shortcut is not None:
            input_tensor = self.conv_shortcut(input_tensor)
        return input_tensor + hidden_states


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim, heads=2):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(query_dim, query_dim, bias=False)
        self.to_k = nn.Linear(context_dim, query_dim, bias=False)
        self.to_v = nn.Linear(context_dim, query_dim, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(query_dim, query_dim), nn.Dropout(0.0)])

    def forward(self, hidden_states, encoder_hidden_states=None):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        batch = hidden_states.shape[0]
        q, k, v = self.to_q(hidden_states), self.to_k(context), self.to_v(context)
        q, k, v = (
            t.view(batch, -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2)
            for t in (q, k, v)
        )
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=False)
        out = out.transpose(1, 2).reshape(batch, -1, self.to_q.out_features)
        for layer in self.to_out:
            out = layer(out)
        return out


class Transformer2D(nn.Module):
    def __init__(self, channels, context_dim):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels, eps=1e-6)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = CrossAttention(channels, channels)
        self.attn2 = CrossAttention(channels, context_dim)
        self.proj = nn.Linear(channels, 4 * channels * 2)
        self.out = nn.Linear(4 * channels, channels)

    def forward(self, hidden_states, encoder_hidden_states):
        batch, channel, height, width = hidden_states.shape
        residual = hidden_states
        x = self.norm(hidden_states).permute(0, 2, 3, 1).reshape(batch, height * width, channel)
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x), encoder_hidden_states=encoder_hidden_states) + x
        h, gate = self.proj(self.norm3(x)).chunk(2, dim=-1)
        x = self.out(h * F.gelu(gate)) + x
        x = x.reshape(batch, height, width, channel).permute(0, 3, 1, 2).contiguous()
        return x + residual


class Upsample2D(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, hidden_states, output_size=None):
        if output_size is None:
            hidden_states = F.interpolate(hidden_states, scale_factor=2.0, mode="nearest")
        else:
            hidden_states = F.interpolate(hidden_states, size=output_size, mode="nearest")
        return self.conv(hidden_states)


class UNet2DCondition(nn.Module):
    def __init__(self, in_channels=3, channels=(8, 16), context_dim=16):
        super().__init__()
        temb = 4 * channels[0]
        self.time_proj_dim = channels[0]
        self.time_embedding = nn.Sequential(
            nn.Linear(channels[0], temb), nn.SiLU(), nn.Linear(temb, temb)
        )
        self.conv_in = nn.Conv2d(in_channels, channels[0], 3, padding=1)
        self.down_blocks = nn.ModuleList()
        skips, last = [channels[0]], channels[0]
        for k, width in enumerate(channels):
            block = nn.ModuleDict({"resnet": ResnetBlock2D(last, width, temb)})
            block["attention"] = Transformer2D(width, context_dim)
            skips.append(width)
            if k < len(channels) - 1:
                block["downsample"] = nn.Conv2d(width, width, 3, stride=2, padding=1)
                skips.append(width)
            self.down_blocks.append(block)
            last = width
        self.mid_block = ResnetBlock2D(last, last, temb)
        self.up_blocks = nn.ModuleList()
        for k, width in reversed(list(enumerate(channels))):
            resnets = nn.ModuleList()
            for _ in range(2):
                resnets.append(ResnetBlock2D(last + skips.pop(), width, temb))
                last = width
            block = nn.ModuleDict({"resnets": resnets})
            if k:
                block["upsample"] = Upsample2D(width)
            self.up_blocks.append(block)
        self.conv_norm_out = nn.GroupNorm(4, channels[0])
        self.conv_out = nn.Conv2d(channels[0], in_channels, 3, padding=1)

    def forward(self, sample, timestep, encoder_hidden_states, return_dict=True):
        timesteps = timestep
        if not torch.is_tensor(timesteps):
            timesteps = torch.tensor([timesteps], dtype=torch.int64, device=sample.device)
        elif timesteps.ndim == 0:
            timesteps = timesteps[None].to(sample.device)
        timesteps = timesteps.expand(sample.shape[0])
        t_emb = get_timestep_embedding(timesteps, self.time_proj_dim).to(dtype=sample.dtype)
        emb = self.time_embedding(t_emb)
        sample = self.conv_in(sample)
        residuals = (sample,)
        for block in self.down_blocks:
            sample = block["resnet"](sample, emb)
            sample = block["attention"](sample, encoder_hidden_states)
            residuals += (sample,)
            if "downsample" in block:
                sample = block["downsample"](sample)
                residuals += (sample,)
        sample = self.mid_block(sample, emb)
        for block in self.up_blocks:
            for resnet in block["resnets"]:
                sample = torch.cat([sample, residuals[-1]], dim=1)
                residuals = residuals[:-1]
                sample = resnet(sample, emb)
            if "upsample" in block:
                sample = block["upsample"](sample, residuals[-1].shape[2:])
        sample = self.conv_out(F.silu(self.conv_norm_out(sample)))
        if not return_dict:
            return (sample,)
        return UNetOutput(sample=sample)


class Scheduler:
    """DDIM, or with eta=1 and noise of its own DDPM."""

    def __init__(self, num_train_timesteps=1000, eta=0.0):
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, num_train_timesteps) ** 2
        self.alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)
        self.final_alpha_cumprod = torch.tensor(1.0)
        self.num_train_timesteps = num_train_timesteps
        self.init_noise_sigma = 1.0
        self.eta = eta

    def set_timesteps(self, num_inference_steps):
        self.num_inference_steps = num_inference_steps
        ratio = self.num_train_timesteps // num_inference_steps
        steps = (np.arange(0, num_inference_steps) * ratio).round()[::-1].copy()
        self.timesteps = torch.from_numpy(steps.astype(np.int64))

    def scale_model_input(self, sample, timestep=None):
        return sample

    def step(self, model_output, timestep, sample, generator=None):
        prev = timestep - self.num_train_timesteps // self.num_inference_steps
        alpha = self.alphas_cumprod[timestep]
        alpha_prev = self.alphas_cumprod[prev] if prev >= 0 else self.final_alpha_cumprod
        beta = 1 - alpha
        original = (sample - beta ** (0.5) * model_output) / alpha ** (0.5)
        original = original.clamp(-1, 1)
        variance = (1 - alpha_prev) / (1 - alpha) * (1 - alpha / alpha_prev)
        std = self.eta * variance ** (0.5)
        direction = (1 - alpha_prev - std**2) ** (0.5) * model_output
        prev_sample = alpha_prev ** (0.5) * original + direction
        if self.eta > 0:
            noise = torch.randn(model_output.shape, generator=generator, dtype=model_output.dtype)
            prev_sample = prev_sample + std * noise
        return SchedulerOutput(prev_sample, original)


class Decoder(nn.Module):
    """Latents to pixels, in place of a VAE."""

    def __init__(self, channels=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1), nn.SiLU(), nn.Upsample(scale_factor=2),
            nn.Conv2d(8, 3, 3, padding=1),
        )  # fmt: skip

    def forward(self, latents):
        return self.body(latents / 0.18215)


def progress_bar(steps, total, file=sys.stderr):
    began = last = time.perf_counter()
    for k, step in enumerate(steps):
        yield step
        now = time.perf_counter()
        print(
            f"step {k}: {1000 * (now - last):.2f} ms of {now - began:.1f} s, {k + 1}/{total}",
            file=file,
        )
        last = time.perf_counter()


class Pipeline:
    def __init__(self, unet, scheduler, decoder, embeddings):
        self.unet, self.scheduler = unet, scheduler
        self.decoder, self.embeddings = decoder, embeddings

    def encode_prompt(self, prompts, guidance):
        ids = [[ord(c) % self.embeddings.num_embeddings for c in p.ljust(12)[:12]] for p in prompts]
        embeds = self.embeddings(torch.tensor(ids))
        if not guidance:
            return embeds
        negative = self.embeddings(torch.zeros(len(prompts), 12, dtype=torch.long))
        return torch.cat([negative, embeds])

    @torch.no_grad()
    def __call__(self, prompts, size, steps, guidance_scale=4.0, generator=None, callback=None):
        guided = guidance_scale > 1.0
        embeds = self.encode_prompt(prompts, guided)
        self.scheduler.set_timesteps(steps)
        latents = torch.randn((len(prompts), 3, size, size), generator=generator)
        latents = latents * self.scheduler.init_noise_sigma
        for t in progress_bar(self.scheduler.timesteps, steps):
            model_input = torch.cat([latents] * 2) if guided else latents
            model_input = self.scheduler.scale_model_input(model_input, t)
            noise_pred = self.unet(model_input, t, encoder_hidden_states=embeds, return_dict=False)[
                0
            ]
            if guided:
                uncond, text = noise_pred.chunk(2)
                noise_pred = uncond + guidance_scale * (text - uncond)
            latents = self.scheduler.step(noise_pred, t, latents, generator=generator).prev_sample
            if callback is not None:
                callback(t, latents)
        image = (self.decoder(latents) / 2 + 0.5).clamp(0, 1)
        return image.permute(0, 2, 3, 1).float().numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", nargs="+", default=["a red boat", "a blue house"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--size", type=int, default=9)
    parser.add_argument("--channels", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--scheduler", choices=["ddim", "ddpm"], default="ddim")
    parser.add_argument("--guidance-scale", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    unet = UNet2DCondition(channels=tuple(args.channels)).eval()
    decoder = Decoder().eval()
    if args.compile:
        import jitpkg

        unet = jitpkg.compile(unet)
    scheduler = Scheduler(eta=1.0 if args.scheduler == "ddpm" else 0.0)
    pipeline = Pipeline(unet, scheduler, decoder, nn.Embedding(64, 16))
    norms = []
    images = pipeline(
        args.prompts,
        args.size,
        args.steps,
        args.guidance_scale,
        torch.Generator().manual_seed(args.seed),
        callback=lambda t, latents: norms.append(f"{int(t)}: {latents.norm():.4f}"),
    )
    print("latents", *norms, sep="\n  ")
    for prompt, image in zip(args.prompts, images, strict=True):
        print(f"{prompt}: {image.shape}, mean {image.mean():.4f}, std {image.std():.4f}")


if __name__ == "__main__":
    main()
