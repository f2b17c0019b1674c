"""Proximal policy optimization on a NumPy CartPole, in one file, as CleanRL does.

$ python ppo.py --total-timesteps 1024
$ python -m jitpkg run ppo.py
"""

import argparse
import random
import sys
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical


@dataclass
class Box:
    low: np.ndarray
    high: np.ndarray

    @property
    def shape(self):
        return self.low.shape


@dataclass
class Discrete:
    n: int


class CartPole:
    """A pole on a cart, with gym's interface and constants."""

    def __init__(self):
        high = np.array([4.8, np.inf, 0.418, np.inf], dtype=np.float32)
        self.observation_space = Box(-high, high)
        self.action_space = Discrete(2)
        self.rng = np.random.default_rng()
        self.state = None
        self.steps = 0

    def reset(self, seed=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, size=4)
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        x, x_dot, theta, theta_dot = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = np.cos(theta), np.sin(theta)
        temp = (force + 0.05 * theta_dot**2 * sin) / 1.1
        theta_acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
        x_acc = temp - 0.05 * theta_acc * cos / 1.1
        tau = 0.02
        self.state = np.array(
            [
                x + tau * x_dot,
                x_dot + tau * x_acc,
                theta + tau * theta_dot,
                theta_dot + tau * theta_acc,
            ]
        )
        self.steps += 1
        terminated = bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095)
        return self.state.astype(np.float32), 1.0, terminated, self.steps >= 200, {}


class RecordEpisodeStatistics:
    def __init__(self, env):
        self.env = env
        self.returns, self.length = 0.0, 0

    def __getattr__(self, name):
        return getattr(self.env, name)

    def reset(self, **kwargs):
        self.returns, self.length = 0.0, 0
        return self.env.reset(**kwargs)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.returns += reward
        self.length += 1
        if terminated or truncated:
            info["episode"] = {"r": self.returns, "l": self.length}
        return obs, reward, terminated, truncated, info


class SyncVectorEnv:
    """Several environments, one after the other; one that ends begins anew."""

    def __init__(self, env_fns):
        self.envs = [fn() for fn in env_fns]
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space

    def reset(self, seed):
        return np.stack([env.reset(seed=seed + k)[0] for k, env in enumerate(self.envs)]), {}

    def step(self, actions):
        observations, rewards, terminations, truncations, infos = [], [], [], [], {}
        for env, action in zip(self.envs, actions, strict=True):
            obs, reward, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                infos.setdefault("final_info", []).append(info)
                obs, _ = env.reset()
            observations.append(obs)
            rewards.append(reward)
            terminations.append(terminated)
            truncations.append(truncated)
        return (
            np.stack(observations),
            np.array(rewards, dtype=np.float32),
            np.array(terminations),
            np.array(truncations),
            infos,
        )


def make_env():
    def thunk():
        return RecordEpisodeStatistics(CartPole())

    return thunk


def layer_init(layer, std=2**0.5, bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, envs, width):
        super().__init__()
        inputs = np.array(envs.single_observation_space.shape).prod()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(inputs, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(inputs, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, width)),
            nn.Tanh(),
            layer_init(nn.Linear(width, envs.single_action_space.n), std=0.01),
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def advantages_of(args, rewards, dones, values, next_done, next_value):
    """Generalized advantage estimation."""
    advantages = torch.zeros_like(rewards)
    lastgaelam = 0
    for t in reversed(range(args.num_steps)):
        if t == args.num_steps - 1:
            nextnonterminal = 1.0 - next_done
            nextvalues = next_value
        else:
            nextnonterminal = 1.0 - dones[t + 1]
            nextvalues = values[t + 1]
        delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
        advantages[t] = lastgaelam = (
            delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
        )
    return advantages


def losses_of(agent, args, obs, actions, logprobs, advantages, returns, values):
    _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs, actions)
    logratio = newlogprob - logprobs
    ratio = logratio.exp()
    with torch.no_grad():
        approx_kl = ((ratio - 1) - logratio).mean()
        clipfrac = ((ratio - 1.0).abs() > args.clip_coef).float().mean()
    if args.norm_adv:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    pg_loss1 = -advantages * ratio
    pg_loss2 = -advantages * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = torch.max(pg_loss1, pg_loss2).mean()
    newvalue = newvalue.view(-1)
    v_clipped = values + torch.clamp(newvalue - values, -args.clip_coef, args.clip_coef)
    v_loss = 0.5 * torch.max((newvalue - returns) ** 2, (v_clipped - returns) ** 2).mean()
    entropy_loss = entropy.mean()
    loss = pg_loss - args.ent_coef * entropy_loss + v_loss * args.vf_coef
    return loss, pg_loss, v_loss, entropy_loss, approx_kl, clipfrac.item()


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--total-timesteps", type=int, default=768)
    parser.add_argument("--learning-rate", type=float, default=2.5e-3)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=2)
    parser.add_argument("--norm-adv", type=bool, default=True)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    parser.add_argument("--target-kl", type=float, default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    args.batch_size = args.num_envs * args.num_steps
    args.minibatch_size = args.batch_size // args.num_minibatches
    args.num_iterations = args.total_timesteps // args.batch_size
    return args


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    envs = SyncVectorEnv([make_env() for _ in range(args.num_envs)])
    agent = Agent(envs, args.width)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    act, learn, estimate = agent.get_action_and_value, losses_of, advantages_of
    if args.compile:
        import jitpkg

        act, learn, estimate = map(jitpkg.compile, (act, learn, estimate))

    shape = (args.num_steps, args.num_envs)
    obs = torch.zeros(shape + envs.single_observation_space.shape)
    actions = torch.zeros(shape)
    logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(4))

    episodes = deque(maxlen=20)
    global_step = 0
    next_obs, _ = envs.reset(seed=args.seed)
    next_obs = torch.Tensor(next_obs)
    next_done = torch.zeros(args.num_envs)
    for iteration in range(1, args.num_iterations + 1):
        began = time.perf_counter()
        frac = 1.0 - (iteration - 1.0) / args.num_iterations
        optimizer.param_groups[0]["lr"] = frac * args.learning_rate
        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = act(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            next_obs, reward, terminations, truncations, infos = envs.step(action.cpu().numpy())
            next_done = np.logical_or(terminations, truncations)
            rewards[step] = torch.tensor(reward).view(-1)
            next_obs, next_done = torch.Tensor(next_obs), torch.Tensor(next_done)
            for info in infos.get("final_info", ()):
                episodes.append(info["episode"]["r"])

        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = estimate(args, rewards, dones, values, next_done, next_value)
            returns = advantages + values

        b_obs = obs.reshape((-1, *envs.single_observation_space.shape))
        b_logprobs, b_actions = logprobs.reshape(-1), actions.reshape(-1)
        b_advantages, b_returns, b_values = (t.reshape(-1) for t in (advantages, returns, values))
        b_inds = np.arange(args.batch_size)
        clipfracs = []
        for _ in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, args.batch_size, args.minibatch_size):
                mb = b_inds[start : start + args.minibatch_size]
                loss, pg_loss, v_loss, entropy, approx_kl, clipfrac = learn(
                    agent, args, b_obs[mb], b_actions.long()[mb], b_logprobs[mb],
                    b_advantages[mb], b_returns[mb], b_values[mb],
                )  # fmt: skip
                clipfracs.append(clipfrac)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
            if args.target_kl is not None and approx_kl > args.target_kl:
                break

        y_pred, y_true = b_values.numpy(), b_returns.numpy()
        var_y = np.var(y_true)
        explained = np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y
        returned = np.mean(episodes) if episodes else float("nan")
        print(
            f"global_step={global_step}, episodic_return={returned:.1f}, "
            f"policy_loss={pg_loss.item():.4f}, value_loss={v_loss.item():.4f}, "
            f"entropy={entropy.item():.4f}, approx_kl={approx_kl.item():.5f}, "
            f"clipfrac={np.mean(clipfracs):.3f}, explained_variance={explained:.4f}"
        )
        took = time.perf_counter() - began
        print(
            f"step {iteration}: {1000 * took:.2f} ms, SPS: {int(args.batch_size / took)}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
