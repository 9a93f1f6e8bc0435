"""Optimiser updates on a step's kept groups: advantages, denominators over the whole update, packed micro-batches, clipping.

Responses with exactly zero gradient (zero advantage or no loss tokens, and no KL, entropy or likelihood term) are left out of
forward and backward but stay in the denominators, so leaving them out changes no gradient. Of the recorded metrics, clip fractions
are over all loss tokens either way (a token without advantage is never clipped); largest ratio, KL and log-prob gap are over the
tokens that were computed.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import AlgorithmConfig
from harness.model.policy import NativePolicy, Policy, adamw, fill_gradients
from harness.model.ranks import ALONE, Ranks, whole
from harness.objective.correction import Mismatch, engine_weights
from harness.objective.objective import Objective, ObjectiveStats
from harness.objective.types import RolloutBatch
from harness.reward.shaping import reward_components
from harness.rollout.noise import key, uniforms
from harness.rollout.types import Completions, Watch, row_tokens
from harness.sampling.selection import Groups
from harness.training.mechanisms import mechanism_shares
from harness.training.metrics import UpdateStats
from harness.training.micro_batches import micro_batches, rank_batches, rank_shares
from harness.training.step_data import NumericalFault, StepData


class Updater:
    """Holds policy, reference policy and optimiser, and trains on one step's groups; with several ranks each does its share."""

    def __init__(
        self, config: RunConfig, policy: Policy, objective: Objective, ranks: Ranks = ALONE, watch: Watch | None = None
    ) -> None:
        self.watch = watch
        self.config, self.policy, self.objective, self.ranks = config, policy, objective, ranks
        self.divides_tokens = ranks.world > 1
        self.reference = policy.frozen_copy() if objective.needs_reference else None
        if (
            self.reference is not None
            and config.algorithm.kl.reset_every_steps
            and not isinstance(policy, NativePolicy)
        ):
            raise ConfigError("algorithm.kl.reset_every_steps needs a model of the built-in decoder: set it to null")
        self.entropy_control = EntropyController(config.algorithm)
        self.critic = Critic(config, policy) if objective.advantage.needs_values else None
        self._parameters = list(policy.parameters())
        self.optimizer = adamw(self._parameters, config.optimizer, config.optimizer.learning_rate)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs besides the policy's weights and optimiser, which checkpoints store in their own form."""
        moves = self.reference is not None and self.config.algorithm.kl.reset_every_steps
        return {
            "critic": self.critic.state() if self.critic else None,
            "reference": self.reference.state() if moves and self.reference is not None else None,
            "entropy_coefficient": self.entropy_control.value,
        }

    def restore(self, state: dict[str, Any]) -> None:
        if self.critic:
            self.critic.restore(state["critic"])
        if state["reference"] is not None and self.reference is not None:
            self.reference.restore(state["reference"])
        self.entropy_control.value = state["entropy_coefficient"]

    def reset_reference(self, step: int) -> None:
        """After every `kl.reset_every_steps` steps the current policy becomes the reference, and Adam forgets its moments."""
        every = self.config.algorithm.kl.reset_every_steps
        if every and step % every == 0 and self.reference is not None:
            self.reference = self.policy.frozen_copy()
            self.optimizer.state.clear()

    def update_step(self, step: int, groups: Groups, prompts: Sequence[Sequence[int]]) -> UpdateStats:
        """Make the step's updates. `prompts` are the token ids of each group's prompt.

        Raises:
            NumericalFault: loss or gradient is not finite; weights are those before the faulty update.
        """
        stats, algorithm = UpdateStats(), self.config.algorithm
        if not len(groups):
            return stats
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.config, step)
        # What the whole step shares: old log-probabilities, advantages, masks, weights.
        data, rollouts = self._prepare(groups, prompts, stats)
        has_advantage_R = data.sums_R(data.advantages_N.abs()) > 0
        has_gradient_R = has_advantage_R & (data.loss_lengths_R > 0)
        if algorithm.entropy_control.target_nats is not None:
            entropy = float(groups.completions.entropy_N.double().mean())
            data.entropy_coefficient = stats.entropy_coefficient = self.entropy_control.observe(entropy)
        stats.shares = mechanism_shares(self.config, self.objective, groups, data, rollouts, has_advantage_R)
        stats.gradient_groups = len(data.group_R[has_gradient_R].unique())
        # Epochs over the groups in a fresh order, each cut into updates of whole groups.
        for epoch in range(algorithm.epochs_per_step):
            order = np.random.default_rng(int(key("minibatch", self.config.seed, step, epoch))).permutation(len(groups))
            # Fewer groups than planned (dropped, or a refill that ended short) still make the same number of updates, while they last.
            for part in np.array_split(order, min(algorithm.updates_per_step, len(groups))):
                rows = data.rows_of(torch.from_numpy(part))
                if self.critic is not None:
                    batches = [batch for _, batch in self._own_passes(data, rows)]
                    stats.value_losses.append(self.critic.fit(batches))
                if self.critic is None or step > self.critic.settings.warmup_steps:  # else the critic trains alone
                    if self.objective.surrogate.selects:
                        count = self._select(data, rows, key("selection", self.config.seed, step, epoch))
                        stats.selected_tokens = (stats.selected_tokens or 0) + count
                    self._step_optimizer(data, has_gradient_R, rows, stats)
        return stats

    def _prepare(
        self, groups: Groups, prompts: Sequence[Sequence[int]], stats: UpdateStats
    ) -> tuple[StepData, RolloutBatch]:
        """Lay out a step's responses with all that its updates share, and what their advantages are computed from.

        The order matters: recomputed old log-probabilities come before the KL penalty, which is taken at the old policy, and the critic's
        values and the penalty before the advantages.
        """
        algorithm = self.config.algorithm
        # 1. Tokens, lengths, masks.
        masked_PG = groups.truncated_PG & algorithm.overlong.masks
        data = StepData.of_groups(groups, prompts, masked_PG)
        # 2. Old log-probabilities, engine correction, entropy mask.
        self._correct(data, groups.completions, stats)
        data.keep_high_entropy(groups.completions.entropy_N, algorithm.top_entropy_fraction)
        # 3. The reference policy, and its penalty where that lowers the reward.
        penalty_N = None
        if self.reference is not None:
            data.ref_logprobs_N, _ = self.score(self.reference, data)
            penalty_N = self.objective.kl_penalty(data.old_logprobs_N, data.ref_logprobs_N)
        # 4. Rewards and values, and the advantages that they make.
        rollouts = rollout_batch(self.config, self.objective, groups, masked_PG, penalty_N)
        rollouts.old_logprobs_N = data.old_logprobs_N
        if self.critic is not None:
            rollouts.values_N = data.values_N = self._values(self.critic, data)
            data.value_targets_N = self.objective.advantage.value_targets(rollouts).float()
            stats.value_explained_variance = explained_variance(data.values_N, data.value_targets_N)
        data.advantages_N = self.objective.advantages(rollouts)
        if not bool(data.advantages_N.isfinite().all()):
            # A comparison with NaN is false: such responses would silently count as dead.
            raise NumericalFault("advantages are not finite", {"data": data, "rollouts": rollouts})
        return data, rollouts

    def _correct(self, data: StepData, completions: Completions, stats: UpdateStats) -> None:
        """Set the weights between sampler and trainer, and the old log-probabilities where the trainer recomputes them."""
        correction = self.config.algorithm.engine_correction
        if correction.kind == "none" and correction.old_log_probs == "sampler":
            return
        sampler_N = completions.log_probs_N
        trainer_N, _ = self.score(self.policy, data)
        stats.mismatch = Mismatch.between(trainer_N, sampler_N)
        if correction.kind != "none":
            data.correction_N = data.policy_weights_N = engine_weights(
                trainer_N, sampler_N, data.lengths_R, correction.kind, correction.cap, correction.floor
            )
        if correction.old_log_probs == "recomputed":
            data.old_logprobs_N, data.sampler_logprobs_N = trainer_N, sampler_N

    @torch.no_grad()
    def score(
        self, policy: Policy, data: StepData, rows: torch.Tensor | None = None, with_entropy: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and (else 0) entropies in nats under a policy, [N]: of all tokens, or of those of `rows` (else 0)."""
        scores_N, entropy_N = torch.zeros_like(data.old_logprobs_N), torch.zeros_like(data.old_logprobs_N)
        parts = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]()
        with policy.constant_weights():
            for part, batch in self._passes(data, torch.arange(len(data.lengths_R)) if rows is None else rows):
                if part is None or batch is None:
                    self._idle_pass(policy)
                    continue
                temperature = self.config.sampling.temperature
                # Cloned: a view would travel with all that it views.
                parts.append((part.clone(), *policy.token_log_probs(*batch.inputs, temperature, with_entropy)))
        for part, scores, entropy in itertools.chain(*self.ranks.gather(parts)):
            index_N = row_tokens(data.lengths_R, part)
            scores_N[index_N] = scores
            if entropy is not None:
                entropy_N[index_N] = entropy
        return scores_N, entropy_N

    def score_responses(
        self, prompts: Sequence[Sequence[int]], completions: Completions
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [N] under the policy of responses that it did not sample; as many to each prompt."""
        size, none_R = len(completions.lengths_R) // len(prompts), torch.zeros_like(completions.finished_R)
        rows = [prompt for prompt in prompts for _ in range(size)]
        return self.score(
            self.policy, StepData.of_responses(rows, completions, size, none_R, none_R), with_entropy=True
        )

    @torch.no_grad()
    def _values(self, critic: Critic, data: StepData) -> torch.Tensor:
        values_N = torch.empty_like(data.old_logprobs_N)
        for rows, batch in self._own_passes(data, torch.arange(len(data.lengths_R))):
            values_N[row_tokens(data.lengths_R, rows)] = critic.values(batch)
        return values_N

    def _passes(
        self, data: StepData, rows: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, StepData] | tuple[None, None]]:
        """This rank's micro-batches of `rows` with their data; None is a pass that only keeps step with the other ranks. Collective."""
        limit, pairs = self.config.runtime.micro_batch_tokens, self.objective.surrogate.pairs
        parts: list[torch.Tensor | None]
        if self.ranks.world > 1:
            shares = rank_shares(rows, data, self.ranks.world, pairs=pairs)
            parts = rank_batches(shares, data, limit, self.ranks.rank, pairs=pairs)
            data = data.fetch(shares, self.ranks) if self.divides_tokens else data
        else:
            parts = list(micro_batches(rows, data, limit, shares_prompts=self.policy.shares_prompts, pairs=pairs))
        for number, part in enumerate(parts):
            if self.watch is not None:
                self.watch("micro-batch", number, len(parts))
            yield (None, None) if part is None else (part, data.select(part))

    def _own_passes(self, data: StepData, rows: torch.Tensor) -> list[tuple[torch.Tensor, StepData]]:
        """The micro-batches of `rows` on the one rank of a run with a critic."""
        return [(part, batch) for part, batch in self._passes(data, rows) if part is not None and batch is not None]

    def _idle_pass(self, policy: Policy) -> torch.Tensor:
        """A forward whose value is 0: sharded parameters are gathered by all ranks together."""
        one = torch.ones(1, dtype=torch.long)
        logprobs_N, _ = policy.token_log_probs([[0]], one, one)
        return logprobs_N.sum() * 0.0

    def _select(self, data: StepData, rows: torch.Tensor, stream: np.uint64) -> int:
        """Choose the tokens of an update that the surrogate treats apart, by the policy as it is now; returns how many.

        Every rank scores its share and chooses among all, so that neither ranks nor micro-batches change the choice.
        """
        rows = rows[data.loss_lengths_R[rows] > 0]
        data.selected_N = torch.zeros(len(data.old_logprobs_N), dtype=torch.bool)
        if not len(rows):
            return 0
        (scores_N, _), index_N = self.score(self.policy, data, rows), row_tokens(data.lengths_R, rows)
        draws_N = torch.from_numpy(uniforms(np.array([stream]), len(data.old_logprobs_N))[0])
        data.selected_N[index_N] = self.objective.surrogate.select(
            scores_N[index_N], data.old_logprobs_N[index_N], data.advantages_N[index_N], draws_N[index_N]
        )
        return int(data.selected_N.sum())

    def _step_optimizer(
        self, data: StepData, has_gradient_R: torch.Tensor, rows: torch.Tensor, stats: UpdateStats
    ) -> None:
        # Denominators and weights, over all responses of the update.
        lengths_R, group_R, correct_R = data.loss_lengths_R[rows], data.group_R[rows], data.correct_R[rows]
        counts = self.objective.count(lengths_R, group_R, correct_R)
        weights_R = self.objective.aggregation.response_weights(lengths_R, group_R, counts)
        likelihood_R = self.objective.likelihood_weights(lengths_R, correct_R, counts)
        data.weights_R = torch.zeros(len(data.lengths_R)).index_copy_(0, rows, weights_R.float())
        if likelihood_R is not None:
            data.likelihood_weights_R = torch.zeros_like(data.weights_R).index_copy_(0, rows, likelihood_R.float())
        stats.loss_tokens += counts.tokens
        stats.shares.add_update(self.objective, weights_R, lengths_R, group_R, counts, has_gradient_R[rows])
        # Forward and backward, over the responses that can have gradient.
        compute_R = has_gradient_R if self.objective.skips_zero_advantage else data.loss_lengths_R > 0
        loss, sums = self._accumulate(data, rows[compute_R[rows]])
        if not stats.updates:
            stats.first_update = sums
        stats.objective = stats.objective + sums
        # Clip and step.
        limit = self.config.optimizer.max_gradient_norm
        parameters = self._parameters
        total_norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        norm = float(whole(total_norm))
        # The ratio is bounded, so that a log-probability which is infinite may leave the loss finite.
        if not np.isfinite([norm, loss, sums.gap_max]).all():
            raise NumericalFault(
                f"update {stats.updates + 1}: loss {loss}, gradient norm {norm}, largest change of a log-probability {sums.gap_max} nats; "
                "lower optimizer.learning_rate or optimizer.max_gradient_norm",
                {"data": data, "rows": rows, "loss": loss, "gradient_norm": norm},
            )
        # As `clip_grad_norm_`, without a product for each tensor where the factor is 1.
        clips = norm + 1e-6 > limit
        if clips:
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, total_norm)
        self.optimizer.step()
        stats.losses.append(loss)
        stats.gradient_norms.append(norm)
        stats.clipped_updates += clips

    def _accumulate(self, data: StepData, rows: torch.Tensor) -> tuple[float, ObjectiveStats]:
        """Gradients of one update over all micro-batches and ranks; its loss and statistics."""
        self.optimizer.zero_grad()
        total, sums, world = 0.0, ObjectiveStats.zero(), self.ranks.world
        with self.policy.constant_weights():
            for _, batch in self._passes(data, rows):
                if batch is None:
                    self._idle_pass(self.policy).backward()
                    continue
                loss, part_sums = self._forward(batch)
                # Sharded gradients are averaged over ranks; the loss is a sum over them.
                (loss * world).backward()
                total += float(loss.detach())
                sums = sums + part_sums
        # An update without gradient still moves Adam's moments, as it does where nothing is skipped.
        fill_gradients(self._parameters)
        if world > 1:
            rank_sums = self.ranks.gather((total, sums))
            total = sum(value for value, _ in rank_sums)
            sums = functools.reduce(operator.add, (part for _, part in rank_sums))
        return total, sums

    def _forward(self, batch: StepData) -> tuple[torch.Tensor, ObjectiveStats]:
        temperature, needs_entropy = self.config.sampling.temperature, self.objective.needs_entropy
        targets_NK = None
        if batch.head_NK is not None:
            targets_NK = torch.cat([batch.tokens_N[:, None], batch.head_NK.long()], -1)
        scores, entropy_N = self.policy.token_log_probs(*batch.inputs, temperature, needs_entropy, targets_NK)
        if targets_NK is not None:
            scores, batch.logprobs_NK = scores[:, 0], scores[:, 1:]
        return self.objective(scores, batch, entropy_N)


def learning_rate(config: RunConfig, step: int) -> float:
    """The learning rate of a rollout step (1-based): linear warm-up over `warmup_steps` steps, then constant or decaying."""
    settings = config.optimizer
    warmup, steps = settings.warmup_steps, config.training.steps
    if step <= warmup:
        return settings.learning_rate * step / warmup
    fraction = min(1.0, (step - 1 - warmup) / max(1, steps - warmup))
    factor = {"none": 1.0, "linear": 1 - fraction, "cosine": (1 + math.cos(math.pi * fraction)) / 2}[settings.decay]
    return settings.learning_rate * (settings.final_share + (1 - settings.final_share) * factor)


def rollout_batch(
    config: RunConfig,
    objective: Objective,
    groups: Groups,
    masked_PG: torch.Tensor,
    penalty_N: torch.Tensor | None = None,
) -> RolloutBatch:
    """What the advantages of these groups are computed from; masked responses carry no loss."""
    overlong = config.algorithm.overlong
    rollouts = RolloutBatch(
        rewards_PG=groups.rewards_PG,
        correct_PG=groups.correct_PG,
        lengths_PG=groups.lengths_PG,
        counted_PG=~masked_PG if overlong.statistics == "exclude" else torch.ones_like(masked_PG),
        kl_penalty_N=penalty_N,
        earlier_P=groups.earlier_P if config.algorithm.dead_groups.policy == "never_give_up" else None,
    )
    if objective.advantage.uses_components:
        rollouts.components_PGC = components_of(config, groups)
    return rollouts


def components_of(config: RunConfig, groups: Groups) -> torch.Tensor:
    """The addends of the groups' rewards, float64 [P, G, 3]; see `reward_components`."""
    algorithm, cap = config.algorithm, config.sampling.max_response_tokens
    grids = groups.correct_PG, groups.answered_PG, groups.lengths_PG
    return reward_components(*grids, cap, algorithm.reward, algorithm.overlong, groups.truncated_PG)


class EntropyController:
    """A coefficient of the entropy bonus that follows the entropy (Skywork Open Reasoner 1, arXiv:2505.22312).

    It starts at `algorithm.entropy_coefficient`. Before each rollout step's updates it is raised by `step` where the sampling policy's
    entropy is below the target and lowered by it elsewhere, between 0 and `maximum`; the bonus is on only while the entropy is below the
    target. As in the controller of the authors' code, of which copies were read; the paper's text was not.
    """

    def __init__(self, config: AlgorithmConfig) -> None:
        self.settings = config.entropy_control
        self.value = config.entropy_coefficient

    def observe(self, entropy: float) -> float:
        """Move the coefficient by a step's mean entropy (nats a token); what this step's loss is to use."""
        assert self.settings.target_nats is not None
        is_low = entropy < self.settings.target_nats
        value = self.value + (self.settings.step if is_low else -self.settings.step)
        self.value = min(max(value, 0.0), self.settings.maximum)
        return self.value if is_low else 0.0


class Critic:
    """Value model (see `algorithm.advantage.critic`) and its optimiser, whose learning rate is constant."""

    def __init__(self, config: RunConfig, policy: Policy) -> None:
        assert isinstance(policy, NativePolicy)  # others are refused before launch
        self.settings = config.algorithm.advantage.critic
        self.policy = NativePolicy(copy.deepcopy(policy.decoder), policy.folder)
        self.head_1E = torch.nn.Parameter(torch.zeros(1, policy.decoder.shape.hidden, device=policy.device))
        self.parameters = [*self.policy.parameters(), self.head_1E]
        self.optimizer = adamw(self.parameters, config.optimizer, self.settings.learning_rate)

    def values(self, batch: StepData) -> torch.Tensor:
        """Predictions before each response token, [N], with gradient where enabled."""
        hidden_NE = self.policy.response_hidden(*batch.inputs)
        return (hidden_NE @ self.head_1E.t())[:, 0].cpu()

    def fit(self, batches: Sequence[StepData]) -> float:
        """One optimiser step on the mean squared error over all tokens of the micro-batches; returns the loss (half the MSE).

        Raises:
            NumericalFault: loss or gradient is not finite; weights are those before the update.
        """
        tokens = sum(len(batch.tokens_N) for batch in batches)
        self.optimizer.zero_grad(set_to_none=False)
        total = 0.0
        for batch in batches:
            loss = value_loss(self.values(batch), batch, self.settings.value_clip).sum() / max(tokens, 1)
            loss.backward()
            total += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_gradient_norm))
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise NumericalFault(
                f"critic: loss {total}, gradient norm {norm}; lower algorithm.advantage.critic.learning_rate",
                {"batches": list(batches), "loss": total, "gradient_norm": norm},
            )
        self.optimizer.step()
        return total

    def state(self) -> dict[str, Any]:
        return {
            "decoder": self.policy.decoder.state_dict(),
            "head": self.head_1E.detach().clone(),
            "optimizer": self.optimizer.state_dict(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.policy.decoder.load_state_dict(state["decoder"])
        with torch.no_grad():
            self.head_1E.copy_(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])


def value_loss(values_N: torch.Tensor, batch: StepData, value_clip: float | None) -> torch.Tensor:
    """Half the squared error per token, [N]; with `value_clip` the larger of it and that of the clipped prediction (PPO)."""
    old_N, targets_N = batch.values_N, batch.value_targets_N
    assert old_N is not None
    assert targets_N is not None
    error = (values_N - targets_N).square()
    if value_clip is not None:
        change = (values_N - old_N).clamp(-value_clip, value_clip)
        error = torch.maximum(error, (old_N + change - targets_N).square())
    return error / 2


def explained_variance(values_N: torch.Tensor, targets_N: torch.Tensor) -> float:
    """1 - Var(target - V) / Var(target); NaN when the targets do not vary."""
    spread = float(targets_N.double().var(correction=0))
    return 1.0 - float((targets_N - values_N).double().var(correction=0)) / spread if spread else float("nan")
