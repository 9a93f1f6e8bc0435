"""The self-contained HTML page: the systems' configurations and the group as data, the arithmetic in `algebra.js`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.algorithm import AlgorithmConfig
from harness.explain.shares import Group

_HERE = Path(__file__).parent
_LENGTHS = (220, 950, 1100, 180)
_CLUSTER = (1.05, 1.07, 1.10, 1.10, 1.04, 1.08, 1.09, 1.10)

PRESETS: dict[str, dict[str, Any]] = {
    "length bias": {"rewards": [1.1, 0.1, 0.0, 1.1], "lengths": list(_LENGTHS)},
    "all correct": {"rewards": [1.1] * 4, "lengths": list(_LENGTHS)},
    "uniform length": {"rewards": [1.1, 0.1, 0.0, 1.1], "lengths": [400] * 4},
    "tight cluster": {"rewards": list(_CLUSTER), "lengths": [400] * 8},
}


def system_data(algorithm: AlgorithmConfig) -> dict[str, Any]:
    """What the page's arithmetic needs of one algorithm."""
    values = dataclasses.asdict(algorithm)
    keys = ("advantage", "importance_ratio", "surrogate", "aggregation", "kl", "positive_nll_coefficient")
    return {key: values[key] for key in (*keys, "off_policy_mask_nats")}


def html(group: Group, algorithms: Mapping[str, AlgorithmConfig]) -> str:
    """One page without any outside resource. Log-probabilities enter as one mean ratio a rollout (a slider)."""
    ratios = [
        math.exp(sum(b - a for a, b in zip(old, new, strict=True)) / len(old))
        for old, new in zip(group.old_log_probs, group.new_log_probs, strict=True)
    ]
    old = [sum(row) / len(row) for row in group.old_log_probs]
    data = {
        "group": {"rewards": group.rewards, "lengths": group.lengths, "ratios": ratios, "old_log_probs": old},
        "cap": group.cap,
        "presets": PRESETS,
        "systems": {name: system_data(algorithm) for name, algorithm in algorithms.items()},
    }
    # "</" inside a script element would end it.
    text = json.dumps(data).replace("</", "<\\/")
    page = (_HERE / "page.html").read_text(encoding="utf-8")
    for slot, content in (
        ("/*ALGEBRA*/", (_HERE / "algebra.js").read_text(encoding="utf-8")),
        ("{/*DATA*/}", text),
    ):
        page = page.replace(slot, content, 1)
    return page
