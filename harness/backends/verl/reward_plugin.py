"""Loaded by verl, by its path, in verl's own environment: rewards through our verifier, and a ledger of every graded response.

Imports nothing of this project. `compute_score` is verl's custom reward function; its keyword arguments after `extra_info` come from
`reward.custom_reward_function.reward_kwargs`. `RecordingRewardManager` is verl's DAPO reward manager (with its overlong buffer), which also
notes what verl's metrics leave out: groups that dynamic sampling threw away, accuracy, exact lengths.
"""

import json
import os
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager


class _Service:
    """The grading process of our interpreter; one request at a time, started anew once if it dies."""

    def __init__(self, python: str, root: str, rules: str) -> None:
        self._command = [python, "-m", "harness.backends.verl.grading_service", rules]
        self._environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def grade(self, **case: Any) -> dict[str, Any]:
        """Return what the service says of `response`, `gold`, `problem` and whether the response was `truncated`."""
        request = json.dumps(case) + "\n"
        with self._lock:
            try:
                return self._send_request(request)
            except (OSError, ValueError):
                self._process = None
                return self._send_request(request)

    def _send_request(self, request: str) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise OSError(f"the grading process ended with code {self._process.wait()}: {self._command}")
        return dict(json.loads(reply))


_services: dict[tuple[str, str, str], _Service] = {}
_start_lock = threading.Lock()


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    *,
    python: str,
    root: str,
    extraction: str,
    answer_must_end: bool,
    form: str,
    workers: int,
    correct: float,
    wrong: float,
    format_credit: float,
) -> dict[str, Any]:
    """The outcome reward without length punishment, and what it came from.

    Texts in the result stay texts on purpose: verl bootstraps every number in it.
    """
    rules = json.dumps({"extraction": extraction, "answer_must_end": answer_must_end, "form": form, "workers": workers})
    with _start_lock:
        service = _services.setdefault((python, root, rules), _Service(python, root, rules))
    known = {key: value for key, value in (extra_info or {}).items() if key in ("problem", "truncated")}
    verdict = service.grade(response=solution_str, gold=ground_truth, **known)
    score = (correct if verdict["correct"] else wrong) + (format_credit if verdict["answered"] else 0.0)
    return {"score": float(score), "acc": float(verdict["correct"])}


class RecordingRewardManager(DAPORewardManager):  # type: ignore[misc]
    """verl's DAPO reward manager; writes a line of the ledger for every training response it grades."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, tokenizer, compute_score, *args, **kwargs)
        settings = config.reward.reward_kwargs
        self._stop_token_ids = {int(token) for token in settings.stop_token_ids}
        folder = Path(settings.ledger)
        folder.mkdir(parents=True, exist_ok=True)
        self._ledger = (folder / f"{socket.gethostname()}-{os.getpid()}.jsonl").open("a", buffering=1)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """See verl. The reward function learns whether the response was cut off; texts of one prompt share their `extra_info`."""
        item = data[-1:][0]
        responses = item.batch["responses"]
        tokens = int(item.batch["attention_mask"][-responses.shape[-1] :].sum())
        stopped = tokens > 0 and int(responses[tokens - 1]) in self._stop_token_ids
        truncated = tokens >= int(self.max_resp_len) and not stopped
        extra_infos = data.non_tensor_batch["extra_info"]
        extra_infos[-1] = {**extra_infos[-1], "truncated": truncated}
        result: dict[str, Any] = await super().run_single(data)
        info = result["reward_extra_info"]
        info["finish_reason"] = "length" if truncated else "stop"
        result["reward_score"] = float(result["reward_score"])
        step, uid = int(item.non_tensor_batch["global_steps"]), str(item.non_tensor_batch["uid"])
        line = [step, uid, tokens, result["reward_score"], int(info["acc"]), int(truncated)]
        self._ledger.write(json.dumps(line) + "\n")
        return result
