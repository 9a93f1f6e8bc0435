"""What the objective costs: time over forward + backward, and peak memory over the logits' own.

    python tests/benchmarks/objective_cost.py            # testbed shape and a 0.5B shape with 2 of its 24 layers
    python tests/benchmarks/objective_cost.py --device cuda --layers 24 --tokens 8192

The base is forward + backward of the same model with a loss that costs nothing beside the logits' product (a dot product with a fixed
vector in the hidden space gives the head no work, so the sum of logits is used). The objective is everything else: log-probabilities,
ratio, clip, aggregation, statistics. On CPU the 0.5B shape is measured with fewer layers, which makes the objective's share larger than
it really is; it is scaled to 24 layers as well.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from harness.configuration.schema import RunConfig
from harness.model.decoder import Decoder, Shape
from harness.model.linear import Linear
from harness.model.token_scores import token_scores
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch

SHAPES = {
    "testbed": {"vocab": 22, "hidden": 64, "intermediate": 176, "layers": 3, "heads": 4, "kv_heads": 4, "head_size": 16},
    "0.5B": {"vocab": 151936, "hidden": 896, "intermediate": 4864, "layers": 24, "heads": 14, "kv_heads": 2, "head_size": 64},
}  # fmt: skip


def build(name: str, layers: int | None, device: str) -> Decoder:
    sizes = dict(SHAPES[name])
    sizes["layers"] = layers or sizes["layers"]
    shape = Shape(
        model_type="llama",
        max_positions=2048,
        norm_epsilon=1e-6,
        rope_theta=1e4,
        tied=False,
        qkv_bias=False,
        **sizes,
    )
    decoder = Decoder(shape, Linear("torch")).to(device)
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.normal_(0, 0.02, generator=generator)
    return decoder


class Step:
    """One update of R responses of L tokens: with the objective, and the bare forward and backward."""

    def __init__(self, decoder: Decoder, responses: int, length: int, device: str) -> None:
        self.decoder, self.device = decoder, device
        vocab, number = decoder.shape.vocab, responses * length
        self.ids = torch.randint(0, vocab, (responses, length), device=device)
        self.tokens = torch.randint(0, vocab, (number,), device=device)
        self.objective = Objective(RunConfig().algorithm)
        self.lengths = torch.full((responses,), length)
        self.group_R = torch.arange(responses) // min(8, responses)
        self.rewards = torch.randn(len(self.group_R.unique()), min(8, responses))
        self.old = torch.full((number,), -3.0, device=device)

    def bare(self) -> None:
        self.decoder.logits(self.decoder.hidden(self.ids)).sum().backward()

    def full(self) -> None:
        hidden, decoder = self.decoder.hidden(self.ids), self.decoder
        if decoder.shape.vocab > 4096:
            log_probs, _ = token_scores(hidden, decoder.head, self.tokens, linear=decoder.linear)
        else:
            log_probs = -torch.nn.functional.cross_entropy(
                decoder.logits(hidden), self.tokens, reduction="none"
            )
        self.loss(log_probs).backward()

    def loss(self, log_probs: torch.Tensor) -> torch.Tensor:
        ones = torch.ones_like(self.rewards, dtype=torch.bool)
        batch = RolloutBatch(self.rewards, ones, self.lengths.view(self.rewards.shape), ones)
        counts = self.objective.count(self.lengths, self.group_R)
        weights_R = self.objective.weights(self.lengths, self.group_R, counts).float()
        response_N = torch.arange(len(self.lengths)).repeat_interleave(self.lengths)
        loss, _ = self.objective(
            log_probs,
            TokenBatch(
                response_N=response_N.to(self.device),
                old_log_probs_N=self.old,
                advantages_N=self.objective.advantages(batch).to(self.device),
                weights_N=weights_R[response_N].to(self.device),
            ),
        )
        return loss


def seconds(steps: dict[str, Callable[[], None]], repeats: int, device: str) -> dict[str, float]:
    """Smallest time of each, measured in turn so that drift of the machine hits all of them; CPU time where there is no GPU."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    best = dict.fromkeys(steps, float("inf"))
    for round_ in range(repeats + 2):
        for name, run in steps.items():
            start = clock()
            run()
            if device == "cuda":
                torch.cuda.synchronize()
            if round_ > 1:
                best[name] = min(best[name], clock() - start)
    return best


def peak_copies(decoder: Decoder, step: Step, device: str) -> dict[str, float]:
    """Peak memory of scoring the tokens (head's product, log-probabilities, entropy, backward) in copies of the logits."""
    hidden = decoder.hidden(step.ids).detach().requires_grad_()
    copy = len(step.tokens) * decoder.shape.vocab * 4

    def plain() -> None:
        log_probs = decoder.logits(hidden).log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        (log_probs.gather(-1, step.tokens[:, None]).sum() + entropy.sum()).backward()

    def fused(recompute: bool) -> None:
        scores, entropy = token_scores(
            hidden, decoder.head, step.tokens, with_entropy=True, recompute=recompute
        )
        assert entropy is not None
        (scores.sum() + entropy.sum()).backward()

    runs = {"plain": plain, "kept": lambda: fused(False), "recomputed": lambda: fused(True)}
    return {name: _peak(run, decoder, device) / copy for name, run in runs.items()}


def _peak(run: Callable[[], None], decoder: Decoder, device: str) -> float:
    """Largest number of bytes above the start, the head's gradient (which any method needs) taken off."""
    for parameter in decoder.parameters():
        parameter.grad = None
    head = decoder.head.numel() * 4
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before - head
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        run()
    current = highest = 0
    for event in trace.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            current += event.nbytes()
            highest = max(highest, current)
    return highest - head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, default=2, help="layers of the 0.5B shape that are run")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of the 0.5B step")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    step = Step(build("testbed", None, options.device), 64, 24, options.device)
    best = seconds({"bare": step.bare, "full": step.full}, options.repeats * 10, options.device)
    share = best["full"] / best["bare"] - 1
    print(
        f"testbed: forward + backward {best['bare'] * 1e3:.2f} ms, with objective {best['full'] * 1e3:.2f} ms: +{share:.1%}"
    )
    decoder = build("0.5B", options.layers, options.device)
    step = Step(decoder, max(1, options.tokens // 128), 128, options.device)
    best = seconds({"bare": step.bare, "full": step.full}, options.repeats, options.device)
    extra = best["full"] - best["bare"]
    print(
        f"0.5B shape, {options.layers} layers: {best['bare']:.3f} s, with objective {best['full']:.3f} s: +{extra / best['bare']:.1%}"
    )
    if options.layers < 24:
        fewer = Step(build("0.5B", 1, options.device), max(1, options.tokens // 128), 128, options.device)
        one = seconds({"bare": fewer.bare}, options.repeats, options.device)["bare"]
        per_layer = (best["bare"] - one) / (options.layers - 1)
        whole = best["bare"] + (24 - options.layers) * per_layer
        print(f"0.5B shape, 24 layers (extrapolated): {whole:.3f} s, objective +{extra / whole:.1%}")
    copies = peak_copies(decoder, step, options.device)
    print(
        "peak memory of scoring, in copies of the logits: "
        + ", ".join(f"{k} {v:.2f}" for k, v in copies.items())
    )


if __name__ == "__main__":
    main()
