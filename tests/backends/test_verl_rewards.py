"""Rewards under verl, whose reward manager is stood in for here: a response that was cut off is graded as such."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
LIMIT, STOP = 4, 9


class Manager:
    """verl's manager as far as it is used: it calls the reward function with the item's `extra_info`."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any) -> None:
        self.max_resp_len, self.compute_score = LIMIT, compute_score

    async def run_single(self, data: Any) -> dict[str, Any]:
        info = self.compute_score("", "Answer: 42", "42", data.non_tensor_batch["extra_info"][-1])
        return {"reward_score": info.pop("score"), "reward_extra_info": info}


class Data(list[SimpleNamespace]):
    """One response and what belongs to it, as verl's protocol shows them."""

    def __init__(self, tokens: list[int], shared: dict[str, Any]) -> None:
        padded, mask = torch.zeros(LIMIT), torch.zeros(LIMIT + 2)
        padded[: len(tokens)], mask[: len(tokens) + 2] = torch.tensor(tokens), 1
        self.non_tensor_batch = {"extra_info": np.array([shared], dtype=object)}
        names = {"global_steps": 1, "uid": "a"}
        super().__init__([SimpleNamespace(batch={"responses": padded, "attention_mask": mask}, non_tensor_batch=names)])


def test_a_response_that_was_cut_off_has_no_answer_on_a_line_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("verl.experimental.reward_loop.reward_manager.dapo")
    module.DAPORewardManager = Manager  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    plugin = importlib.import_module("harness.backends.verl.reward_plugin")
    rules = {"extraction": "answer_line", "answer_must_end": True, "form": "evaluated", "workers": 1}
    rewards = {"correct": 1.0, "wrong": -1.0, "format_credit": 0.0}

    def score(*case: Any) -> dict[str, Any]:
        return dict(plugin.compute_score(*case, python=sys.executable, root=str(ROOT), **rules, **rewards))

    settings = SimpleNamespace(stop_token_ids=[STOP], ledger=str(tmp_path))
    manager = plugin.RecordingRewardManager(
        SimpleNamespace(reward=SimpleNamespace(reward_kwargs=settings)), None, score
    )
    shared = {"index": 0, "problem": "What is 6 times 7?"}
    results = [
        asyncio.run(manager.run_single(Data(tokens, shared))) for tokens in ([1, 2, 3, 4], [1, 2, 3, STOP], [1, STOP])
    ]
    assert [result["reward_score"] for result in results] == [-1.0, 1.0, 1.0]
    assert [result["reward_extra_info"]["finish_reason"] for result in results] == ["length", "stop", "stop"]
    assert shared.keys() == {"index", "problem"}  # the responses of a prompt share it
    assert [json.loads(line)[5] for path in tmp_path.iterdir() for line in path.read_text().splitlines()] == [1, 0, 0]
    sys.modules.pop(plugin.__name__)
