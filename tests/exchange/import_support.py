"""Logs as verl and TRL write them, and the command that imports one."""

from __future__ import annotations

import json


def verl_line(step, score=None, tokens=60_000.0, **extra):
    data = {
        "critic/score/mean": -0.5 + 0.01 * step,
        "critic/rewards/mean": -0.6,
        "actor/entropy": 0.4,
        "response_length/mean": 750.0,
        "prompt_length/mean": 250.0,
        "response_length/clip_ratio": 0.125,
        "perf/total_num_tokens": tokens,
        "actor/pg_clipfrac": 0.002,
        "actor/grad_norm": 0.3,
        "actor/lr": 1e-6,
        "timing_s/gen": 30.0,
        "timing_s/step": 80.0,
        "training/global_step": step,
        **extra,
    }
    if score is not None:
        data["val-core/HuggingFaceH4/aime_2024/acc/mean@32"] = score
        data["val-core/HuggingFaceH4/aime_2024/acc/best@32/mean"] = 0.7
        data["val-aux/HuggingFaceH4/aime_2024/reward/mean@32"] = -0.4
    return json.dumps({"step": step, "data": data})


def write_verl(path, final, start=0.1):
    lines = [json.dumps({"step": 0, "data": {"val-core/HuggingFaceH4/aime_2024/acc/mean@32": start}})]
    lines += [verl_line(1), verl_line(2, (start + final) / 2), verl_line(3), verl_line(4, final)]
    path.write_text("\n".join(lines) + '\n{"step": 5, "da')  # torn by the end of the job
    return path


def trl_state(path, rewards, every=10, **evaluations):
    history = []
    for index, reward in enumerate(rewards, start=1):
        step = index * every
        history.append(
            {
                "step": step,
                "epoch": 0.1 * index,
                "reward": reward,
                "entropy": 0.5,
                "completions/mean_length": 200.0,
                "completions/clipped_ratio": 0.25,
                "clip_ratio/low_mean": 0.001,
                "clip_ratio/high_mean": 0.003,
                "frac_reward_zero_std": 0.5,
                "grad_norm": 0.2,
                "learning_rate": 1e-6,
                "num_tokens": 1e5 * index,
                "step_time": 12.0,
            }
        )
    history += [{"step": step, **values} for step, values in evaluations.get("at", {}).items()]
    history.append({"step": len(rewards) * every, "train_runtime": 99.0, "train_loss": 0.1})
    path.write_text(json.dumps({"global_step": len(rewards) * every, "log_history": history}))
    return path


def import_of(path, root, experiment, arm, *more):
    """The arguments of an import of a verl log."""
    return [
        "import_runs",
        "format=verl",
        f"path={path}",
        f"experiment={experiment}",
        f"arm={arm}",
        f"runtime.results={root}",
        *more,
    ]
