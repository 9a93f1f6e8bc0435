"""The self-contained HTML page: what the objective does to one token by ratio comes from Python, what sliders change is in `algebra.js`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from harness.configuration.algorithm import AlgorithmConfig
from harness.explain.shares import Group
from harness.objective.objective import Objective
from harness.objective.types import TokenBatch

_HERE = Path(__file__).parent
_LENGTHS = (220, 950, 1100, 180)
_CLUSTER = (1.05, 1.07, 1.10, 1.10, 1.04, 1.08, 1.09, 1.10)
_SLIDER = (50, 200)  # the ratios of a slider, in hundredths
_WIDEST = (1, 1000)

PRESETS: dict[str, dict[str, Any]] = {
    "length bias": {"rewards": [1.1, 0.1, 0.0, 1.1], "lengths": list(_LENGTHS)},
    "all correct": {"rewards": [1.1] * 4, "lengths": list(_LENGTHS)},
    "uniform length": {"rewards": [1.1, 0.1, 0.0, 1.1], "lengths": [400] * 4},
    "tight cluster": {"rewards": list(_CLUSTER), "lengths": [400] * 8},
}


def slopes(algorithm: AlgorithmConfig, ratios: torch.Tensor, old: float) -> list[list[float]] | None:
    """Compute the coefficient of a token before its aggregation's weight: of the advantages 0, 1 and -1, at each ratio.

    Args:
        algorithm: a system.
        ratios: importance ratios that all tokens of a response share, float64.
        old: the tokens' log-probability under the sampling policy, also the reference's.

    Returns:
        Three lists. None where a token's coefficient is not a multiple of its advantage, or depends on more than its own ratio.
    """
    objective = Objective(algorithm)
    if objective.pairs:
        return None

    def coefficients(advantage: float, length: int) -> torch.Tensor:
        log_ratio_N = ratios.log().repeat_interleave(length)
        old_N = torch.full_like(log_ratio_N, old)
        new_N = (old_N + log_ratio_N).requires_grad_()
        batch = TokenBatch(
            response_N=torch.arange(len(ratios)).repeat_interleave(length),
            old_log_probs_N=old_N,
            advantages_N=torch.full_like(old_N, advantage),
            weights_N=torch.ones_like(old_N),
            reference_log_probs_N=old_N if objective.needs_reference else None,
            selected_N=torch.zeros(len(old_N), dtype=torch.bool),
        )
        return -torch.autograd.grad(objective(new_N, batch)[0], new_N)[0][::length]

    still, up, down = (coefficients(advantage, 1) for advantage in (0.0, 1.0, -1.0))
    if not torch.allclose(coefficients(2.0, 3) - still, 2 * (up - still), rtol=1e-9, atol=1e-12):
        return None
    return [still.tolist(), (up - still).tolist(), (down - still).tolist()]


def html(group: Group, algorithms: Mapping[str, AlgorithmConfig]) -> str:
    """Write one page without any outside resource. Log-probabilities enter as one ratio a rollout, in hundredths (a slider)."""
    means = [[sum(row) / len(row) for row in rows] for rows in (group.old_log_probs, group.new_log_probs)]
    ratios = [math.exp(new - old) for old, new in zip(*means, strict=True)]
    shown = [min(max(round(100 * ratio), _WIDEST[0]), _WIDEST[1]) for ratio in ratios]
    low, high = min(*shown, _SLIDER[0]), max(*shown, _SLIDER[1])
    grid = torch.arange(low, high + 1, dtype=torch.float64) / 100
    old = sum(means[0]) / len(means[0])
    keys = ("advantage", "aggregation", "positive_nll_coefficient")
    systems, tables = {}, list[Any]()
    for name, algorithm in algorithms.items():
        values, table = dataclasses.asdict(algorithm), slopes(algorithm, grid, old)
        if table not in tables:
            tables.append(table)
        systems[name] = {**{key: values[key] for key in keys}, "slopes": tables.index(table)}
    data = {
        "group": {
            "rewards": group.rewards,
            "lengths": group.lengths,
            "ratios": [hundredths / 100 for hundredths in shown],
        },
        "presets": PRESETS,
        "lowest": low,
        "slopes": tables,
        "systems": systems,
    }
    # "</" inside a script element would end it.
    text = json.dumps(data).replace("</", "<\\/")
    page = (_HERE / "page.html").read_text(encoding="utf-8")
    page = page.replace("/*ALGEBRA*/", (_HERE / "algebra.js").read_text(encoding="utf-8"), 1)
    return page.replace("{/*DATA*/}", text, 1)
