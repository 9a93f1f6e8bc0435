"""Runs in verl's own environment: its trainer's sampling and advantages with our plugin, over its real transfer queue (Ray, no GPU).

JSON in: a list of `{"overrides", "rounds"}`; a round is a list of groups, a group a list of responses `[right, truncated, tokens, score]`.
JSON out, one object a case: `rounds` taken; `rows`, by key (`{group}_{response}`, groups numbered through) what verl trains on: `mask` and
`loss_mask` (sums), `advantage` (of each token); `left`, keys that nothing will ever take.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import ray
import torch
import transfer_queue as tq
import verl.trainer
from hydra import compose, initialize_config_dir
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.tensordict_utils import list_of_dict_to_tensordict


def trajectory(uid, right, truncated, tokens, score):
    """What its agent loop leaves in the queue of one response, with our reward plugin's notes."""
    scores, one = torch.zeros(int(tokens)), torch.ones(int(tokens), dtype=torch.int64)
    scores[-1] = score
    info = {"acc": float(right), "finish_reason": "length" if truncated else "stop"}
    length = {"prompts": one[:1], "responses": one, "input_ids": torch.cat([one[:1], one])}
    return {
        "uid": uid, "response_mask": one, "loss_mask": one, "rm_scores": scores, "rollout_log_probs": -scores.abs(),
        "old_log_probs": -scores.abs(), "extra_fields": {"reward_extra_info": info}, **length,
    }  # fmt: skip


class Trainer(PPOTrainerSync):
    """Whose rollouts are the given rounds."""

    def _add_prompts_to_generate(self, number):
        groups, begin = self.given.pop(0), self.begun
        assert number == len(groups) == self.config.data.train_batch_size
        self.begun += number
        rows = [(f"{begin + i:03}", j, one) for i, group in enumerate(groups) for j, one in enumerate(group)]
        tq.kv_batch_put(
            keys=[f"{uid}_{j}_0" for uid, j, _ in rows],
            partition_id="train",
            fields=list_of_dict_to_tensordict([trajectory(uid, *one) for uid, _, one in rows]),
            tags=[{"seq_len": int(one[2]) + 1} for _, _, one in rows],
        )
        tags = [{"is_prompt": True, "status": "finished", "global_steps": 1}] * number
        tq.kv_batch_put(keys=[f"{begin + i:03}" for i in range(number)], partition_id="train", tags=tags)


@functools.cache
def composed(*overrides):
    return compose("ppo_trainer", list(overrides))


def solve(case):
    core_algos.ADV_ESTIMATOR_REGISTRY.pop("harness", None)  # one run a process in earnest
    trainer = Trainer(composed(*case["overrides"]))
    trainer.given, trainer.begun = case["rounds"], 0
    size = trainer.config.data.train_batch_size
    trainer._add_prompts_to_generate(size)
    batch, metrics = trainer.replay_buffer.sample(global_steps=1, partition_id="train", batch_size=size)
    # As its trainer does before it deals the batch out: two more rows than a multiple of seven.
    batch = upsample_batch_to_divisible_size(batch, len(batch) + 2, 0)
    trainer._compute_advantage(batch, {})
    names = ["response_mask", "loss_mask", "advantages"]
    data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=names)
    columns = [list(data[name]) for name in names]
    rows = {
        key.removesuffix("_0"): {"mask": int(mask.sum()), "loss_mask": int(loss.sum()), "advantage": advantage.tolist()}
        for key, mask, loss, advantage in zip(batch.keys, *columns, strict=True)
        if not key.startswith("pad")
    }
    left = tq.kv_list("train")["train"].keys() - set(batch.keys)
    tq.kv_clear(keys=batch.keys, partition_id="train")
    return {"rounds": metrics["train/num_gen_batches"], "rows": rows, "left": sorted(left)}


cases = json.load(sys.stdin)
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
tq.init()
with initialize_config_dir(str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
    answers = [solve(case) for case in cases]
sys.stdout.write("\nANSWER " + json.dumps(answers) + "\n")
sys.stdout.flush()
tq.close()
ray.shutdown()
