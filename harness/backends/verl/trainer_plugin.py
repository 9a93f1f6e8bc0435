"""Loaded by verl's trainer, by its path, in verl's environment: overlong filtering, bounded refilling and our advantages.

Public hooks of verl 0.9.1 only; nothing of it is replaced. `Sampler` is its custom sampler (`trainer.v1.sampler.custom_sampler`), which
hands out the groups of a step before anything is computed from them; `sampler_kwargs` are its settings, written by `extension`. It
registers our estimator (`core_algos.register_adv_est`), which `algorithm.adv_estimator` names.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer


class _Response(NamedTuple):
    key: str
    tag: dict[str, Any]
    outcome: float
    truncated: bool
    mask: torch.Tensor

    @property
    def uid(self) -> str:
        """The prompt's: verl's keys are `{uid}_{session}_{output}`."""
        return self.key.split("_")[0]


_Groups = list[list[_Response]]


class Sampler(ReplayBuffer):  # type: ignore[misc]
    """verl's replay buffer, whose rounds go through the selection of `harness.sampling.selection`; validation is verl's own."""

    def __init__(self, *, sampler_kwargs: Any, **kwargs: Any) -> None:
        super().__init__(sampler_kwargs=sampler_kwargs, **kwargs)
        self._settings, self._counted_uids = sampler_kwargs, frozenset[str]()
        _load_harness(Path(sampler_kwargs.root))
        advantage = dict(sampler_kwargs.advantage)
        self._estimator = importlib.import_module(f"harness.objective.advantage.{advantage['kind']}").Config(
            **advantage
        )
        register_adv_est(sampler_kwargs.estimator)(self.advantages)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, Any]]:
        """See verl. Its batches are full: groups without contrast fill up a step that has too few others, and carry no loss."""
        if partition_id == "val":
            return super().sample(global_steps, partition_id, batch_size)
        live, dead, metrics, rounds = _Groups(), _Groups(), dict[str, Any](), 0
        while rounds < self._settings.max_rounds and len(live) < batch_size:
            if rounds:
                self.refill_fn(batch_size)
            batch, round_metrics = super().sample(global_steps, partition_id, batch_size)
            metrics, rounds = metrics | round_metrics, rounds + 1
            for group in self._groups(batch):
                is_live = not self._settings.drops_dead or len({one.outcome for one in group}) > 1
                (live if is_live else dead).append(group)
        groups, fill = live[:batch_size], dead[: max(0, batch_size - len(live))]
        unused_groups = [*live[len(groups) :], *dead[len(fill) :]]
        if unused_groups:
            tq.kv_clear(keys=[one.key for group in unused_groups for one in group], partition_id=partition_id)
        self._counted_uids = frozenset(one.uid for group in groups for one in group)
        self._mask([one for group in groups for one in group], [one for group in fill for one in group], partition_id)
        responses = [one for group in [*groups, *fill] for one in group]
        keys, tags = [one.key for one in responses], [one.tag for one in responses]
        return KVBatchMeta(partition_id=partition_id, keys=keys, tags=tags), metrics | {"train/num_gen_batches": rounds}

    def _groups(self, batch: KVBatchMeta) -> _Groups:
        """The responses of a round by prompt; what came of them was written by `reward_plugin`."""
        names = ["extra_fields", "rm_scores", "response_mask"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=names)
        columns = [list(data[name]) for name in names]
        groups: dict[str, list[_Response]] = {}
        for key, tag, extra, scores, mask in zip(batch.keys, batch.tags, *columns, strict=True):
            info = getattr(extra, "data", extra)["reward_extra_info"]
            outcome = float(info["acc"] if self._settings.metric == "accuracy" else scores.sum())
            response = _Response(key, tag, outcome, info["finish_reason"] == "length", mask)
            groups.setdefault(response.uid, []).append(response)
        # In an order that knows nothing of who finished first: a surplus cut off by that would prefer short responses.
        return [groups[uid] for uid in sorted(groups)]

    def _mask(self, responses: Sequence[_Response], fill: Sequence[_Response], partition_id: str) -> None:
        """Take the loss off truncated responses and off groups that only fill the batch."""
        targets = [one for one in responses if self._settings.masks_truncated and one.truncated] + list(fill)
        if len(targets) == len(responses) + len(fill):
            # verl fails on a batch without a loss token: one response keeps its own, and no advantage is but zero.
            targets, self._counted_uids = targets[1:], frozenset()
        if targets:
            zeros = torch.nested.as_nested_tensor([torch.zeros_like(one.mask) for one in targets], layout=torch.jagged)
            fields = TensorDict({"response_mask": zeros, "loss_mask": zeros.clone()}, batch_size=len(targets))
            tq.kv_batch_put(keys=[one.key for one in targets], partition_id=partition_id, fields=fields)

    def advantages(
        self, token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: np.ndarray, **_others: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return our estimator's advantages twice, [responses, width], as verl's estimators do.

        `index` is the prompt of each row. Rows of no group of this step (verl's padding, what fills the batch) are not counted.
        """
        types = importlib.import_module("harness.objective.types")
        _, group_R = np.unique(index, return_inverse=True)
        sizes = np.bincount(group_R)
        # Rows in the order of their groups; a group that lost a response ends with a cell of length 0.
        order = torch.from_numpy(np.argsort(group_R, kind="stable"))
        cells = torch.from_numpy(np.arange(sizes.max()) < sizes[:, None])
        mask = response_mask[order].bool()
        has_statistics = torch.tensor([uid in self._counted_uids for uid in index])[order]
        if not self._settings.counts_masked:
            has_statistics &= mask.any(1)
        batch = types.RolloutBatch(
            rewards_PG=types.pad_tokens(token_level_rewards[order].double().sum(1), cells),
            correct_PG=cells,
            lengths_PG=types.pad_tokens(mask.sum(1), cells),
            counted_PG=types.pad_tokens(has_statistics, cells),
        )
        result = torch.zeros_like(token_level_rewards)
        flat = self._estimator.advantages(batch).to(result.dtype)
        result[order] = torch.zeros_like(result).masked_scatter(mask, flat)
        return result, result


def _load_harness(root: Path) -> None:
    """Make our package importable from its checkout, and nothing else that lies beside it."""
    if "harness" in sys.modules:
        return
    folder = root / "harness"
    spec = importlib.util.spec_from_file_location(
        "harness", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["harness"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["harness"])
