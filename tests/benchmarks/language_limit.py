"""What a hand-written sampler and update take for a step of a Llama-shaped model. Torch alone; see `language_step.py`.

    python language_limit.py CHECKPOINT REQUESTS.pt THREADS

REQUESTS.pt: a list of steps, each (prompts, response tokens end to end, their lengths). The sampler prefills each prompt once, draws a
token a row and then takes the given one instead, so that every tool computes the same tokens; two clipped policy-gradient updates follow,
on packed tokens, a prompt once for its group. Float32, oneDNN's products where this torch has them. No tokenising, grading or recording.
Prints a JSON line a step.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from safetensors.torch import load_file

GROUPS = 4  # whose responses are in one forward and backward
product = lambda x, w: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")  # noqa: E731
if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
    product = functional.linear


class Product(torch.autograd.Function):
    """x Wᵀ."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return product(x, w)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (grad,), (x, w) = grads, ctx.saved_tensors
        wide = w.shape[0] > w.shape[1]
        return product(grad, w.t()), product(x.t(), grad.t()).t() if wide else product(grad.t(), x.t())


class Model:
    """Fused float32 weights and the forward; `attend(layer, heads [N, H + 2K, D]) -> [N, H D]` decides what a token sees."""

    def __init__(self, folder: Path) -> None:
        c = json.loads((folder / "config.json").read_text())
        t = {
            name.removeprefix("model."): w.float()
            for name, w in load_file(folder / "model.safetensors").items()
        }
        self.heads, self.kv, self.eps = c["num_attention_heads"], c["num_key_value_heads"], c["rms_norm_eps"]
        self.size, count = c["hidden_size"] // self.heads, c["num_hidden_layers"]
        rope = c.get("rope_parameters") or c
        inverse = rope["rope_theta"] ** (-torch.arange(0, self.size, 2).float() / self.size)
        angle = torch.arange(512).float()[:, None] * inverse
        self.cos, self.sin = torch.cat([angle.cos()] * 2, -1), torch.cat([-angle.sin(), angle.sin()], -1)
        self.embed, self.norm, self.layers = t["embed_tokens.weight"], t["norm.weight"], []
        for i in range(count):
            at = f"layers.{i}."
            qkv = torch.cat([t[f"{at}self_attn.{part}_proj.weight"] for part in "qkv"])
            gate_up = torch.cat([t[f"{at}mlp.{part}_proj.weight"] for part in ("gate", "up")])
            norms = t[f"{at}input_layernorm.weight"], t[f"{at}post_attention_layernorm.weight"]
            out, down = t[f"{at}self_attn.o_proj.weight"], t[f"{at}mlp.down_proj.weight"]
            self.layers.append((qkv, out, gate_up, down, *norms))
        self.parameters = [self.embed, self.norm, *(w for layer in self.layers for w in layer)]
        for w in self.parameters:
            w.requires_grad_()
        self.adam = torch.optim.AdamW(self.parameters, lr=2e-5, weight_decay=0.0, fused=True)

    def rms(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, w.shape, w, self.eps)

    def hidden(self, ids: torch.Tensor, place: torch.Tensor, attend: Any) -> torch.Tensor:
        x, cos, sin = (
            functional.embedding(ids, self.embed),
            self.cos[place][:, None],
            self.sin[place][:, None],
        )
        linear, turned = (Product.apply if torch.is_grad_enabled() else product), self.heads + self.kv
        for i, (qkv, out, gate_up, down, before, after) in enumerate(self.layers):
            heads = linear(self.rms(x, before), qkv).view(len(ids), -1, self.size)
            qk = heads[:, :turned] * cos + heads[:, :turned].roll(self.size // 2, -1) * sin
            x = x + linear(attend(i, qk[:, : self.heads], qk[:, self.heads :], heads[:, turned:]), out)
            gate, up = linear(self.rms(x, after), gate_up).chunk(2, -1)
            x = x + linear(functional.silu(gate) * up, down)
        return self.rms(x, self.norm)

    def seen(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Queries [B, H, S, D], keys and values [B, K, T, D], bias to [B, 1, 1, S, T]: attended [B, S, H D]."""
        b, _, s, d = q.shape
        q = q.reshape(b, self.kv, -1, d)
        scores = (q @ k.transpose(-1, -2) * d**-0.5).view(b, self.kv, -1, s, k.shape[2]) + bias
        return (
            (scores.softmax(-1).view(*q.shape[:3], -1) @ v)
            .view(b, -1, s, d)
            .transpose(1, 2)
            .reshape(b, s, -1)
        )


@torch.no_grad()
def sample(
    model: Model, prompts: list[list[int]], tokens: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Log-probabilities [R, T] of given tokens [R, T], as a sampler makes them."""
    count, (rows, cap), width = len(prompts), tokens.shape, max(map(len, prompts))
    pads = torch.tensor([width - len(prompt) for prompt in prompts])
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    cache = torch.empty(2, len(model.layers), rows, model.kv, width + cap, model.size)
    place = (torch.arange(width) - pads[:, None]).clamp(min=0).view(-1)
    real = torch.arange(width) >= pads[:, None]
    causal = torch.ones(width, width, dtype=torch.bool).tril() & real[:, None] | torch.eye(
        width, dtype=torch.bool
    )
    bias = torch.zeros(causal.shape).masked_fill(~causal, float("-inf"))[:, None, None]

    def prefill(i: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(count, width, -1, model.size).transpose(1, 2) for part in (q, k, v))
        for kept, part in zip(cache[:, i], (k, v), strict=True):
            kept.view(count, -1, *kept.shape[1:])[..., :width, :] = part[:, None]
        return model.seen(q, k, v, bias).view(count * width, -1)

    last = model.hidden(ids.view(-1), place, prefill).view(count, width, -1)[:, -1]
    hidden, live, pads = (
        last.repeat_interleave(rows // count, 0),
        torch.arange(rows),
        pads.repeat_interleave(rows // count),
    )
    log_probs = torch.zeros(rows, cap)
    for step in range(cap):
        scores = product(hidden, model.embed).log_softmax(-1)
        (scores - torch.empty_like(scores).exponential_().log()).argmax(-1)  # a draw
        log_probs[live, step] = scores.gather(-1, tokens[live, step, None])[:, 0]
        keep = (lengths[live] > step + 1).nonzero()[:, 0]
        if not len(keep) or step + 1 == cap:
            break
        if len(keep) <= 0.9 * len(live):
            for layer in cache.view(-1, *cache.shape[2:]):
                layer[: len(keep), :, : width + step] = layer[keep, :, : width + step]
            live, pads = live[keep], pads[keep]
        end, n = width + step + 1, len(live)
        hide = torch.zeros(n, end).masked_fill(torch.arange(end) < pads[:, None], float("-inf"))[
            :, None, None, None
        ]

        def decode(
            i: int,
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            end: int = end,
            n: int = n,
            hide: torch.Tensor = hide,
        ) -> torch.Tensor:
            keys, values = cache[0, i, :n, :, :end], cache[1, i, :n, :, :end]
            keys[:, :, -1], values[:, :, -1] = k, v
            return model.seen(q[:, :, None], keys, values, hide)[:, 0]

        hidden = model.hidden(tokens[live, step], width + step - pads, decode)
    return log_probs


def log_probs_of(
    model: Model, prompts: list[list[int]], tokens: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """Log-probabilities of the responses' tokens, end to end; each prompt is computed once for its responses."""
    each, spread, places, ids, predicts = len(lengths) // len(prompts), [], [], [], []
    for g, prompt in enumerate(prompts):
        start, width = len(ids), len(prompt)
        ids, places = ids + prompt, places + list(range(width))
        for row in range(g * each, (g + 1) * each):
            count, first = int(lengths[row]), len(ids)
            ids, places = (
                ids + tokens[row, : count - 1].tolist(),
                places + list(range(width, width + count - 1)),
            )
            whole = list(range(start, start + width)) + list(range(first, first + count - 1))
            spread.append(whole)
            predicts += whole[width - 1 :]
    longest = max(map(len, spread))
    grid = torch.tensor([row + [0] * (longest - len(row)) for row in spread])
    own = {token: b * longest + s for b, row in enumerate(spread) for s, token in enumerate(row)}
    back = torch.tensor([own[token] for token in range(len(ids))])
    bias = torch.full((longest, longest), float("-inf")).triu_(1)

    def attend(i: int, *heads: torch.Tensor) -> torch.Tensor:
        q, k, v = (part[grid].transpose(1, 2) for part in heads)
        return model.seen(q, k, v, bias).flatten(0, 1)[back]

    hidden = model.hidden(torch.tensor(ids), torch.tensor(places), attend)[torch.tensor(predicts)]
    inside = torch.arange(tokens.shape[1]) < lengths[:, None]
    return -functional.cross_entropy(Product.apply(hidden, model.embed), tokens[inside], reduction="none")


def step(
    model: Model, prompts: list[list[int]], flat: torch.Tensor, lengths: torch.Tensor
) -> dict[str, float]:
    inside = torch.arange(int(lengths.max())) < lengths[:, None]
    tokens = torch.zeros(inside.shape, dtype=torch.long).masked_scatter_(inside, flat)
    cpu, wall = time.process_time(), time.perf_counter()
    old, each = sample(model, prompts, tokens, lengths), len(lengths) // len(prompts)
    sampled, gap = time.process_time() - cpu, 0.0
    for half in torch.arange(len(prompts)).chunk(2):
        total = int(lengths.view(-1, each)[half].sum())
        for part in half.split(GROUPS):
            rows = (part[:, None] * each + torch.arange(each)).view(-1)
            new = log_probs_of(model, [prompts[g] for g in part.tolist()], tokens[rows], lengths[rows])
            change = new - old[rows][inside[rows]]
            gap = gap or float(change.detach().abs().mean())
            advantage = (rows % 2 * 2.0 - 1).repeat_interleave(lengths[rows])
            gain = torch.min(change.exp() * advantage, change.exp().clamp(0.8, 1.2) * advantage)
            (-gain.sum() / total).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters, 1.0)
        model.adam.step()
        model.adam.zero_grad()
    spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return {**spent, "rollout": sampled, "tokens": len(flat), "gap": gap}


def main(folder: str, requests: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    model = Model(Path(folder))
    for request in torch.load(requests):
        print(json.dumps(step(model, *request)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
