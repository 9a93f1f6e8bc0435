"""One page in Markdown from what `parts.py` left in a folder: `python tests/gpu/table.py OUT > results/published/gpu/DATE-GPU.md`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from steps import gpu_of

ORDER = ("contract", "native", "ladder", "resume", "transformers", "trl", "vllm")
COLUMNS = (
    ("step, s", "step_seconds", "{:.2f}"),
    ("rollout, s", "rollout_seconds", "{:.2f}"),
    ("update, s", "update_seconds", "{:.2f}"),
    ("weights to the engine, s", "sync_seconds", "{:.2f}"),
    ("rollout, tokens/s", "rollout_tokens_per_second", "{:,.0f}"),
    ("its limit by bandwidth", "rollout_limit_tokens_per_second", "{:,.0f}"),
    ("update, tokens/s", "update_tokens_per_second", "{:,.0f}"),
    ("update, TFLOP/s", "update_tflops", "{:.1f}"),
    ("peak memory, GiB", "peak_memory_gib", "{:.1f}"),
    ("estimated, GiB", "estimated_peak_gib", "{:.1f}"),
    ("log-prob gap, mean (max) nats", "gap", "{}"),
)


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """The parts that are there, in order."""
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    return {name: found[name] for name in ORDER if name in found}


def cell(row: dict[str, Any], key: str, form: str) -> str:
    if key == "gap" and row.get("log_prob_gap_mean") is not None:
        return f"{row['log_prob_gap_mean']:.2g} ({row['log_prob_gap_max']:.2g})"
    return "–" if row.get(key) is None else form.format(row[key])


def named(row: dict[str, Any]) -> str:
    """Engine and what sets this row apart."""
    extras = ["checkpointing"] if row.get("checkpointing") else []
    extras += [f"{row['response_tokens']} tokens"] if "response_tokens" in row else []
    return ", ".join([row["engine"], *row.get("overrides", ()), *extras])


def step_lines(parts: dict[str, dict[str, Any]]) -> list[str]:
    """The table of steps, and what follows from it."""
    rows = [row for part in parts.values() for row in part["results"] if "engine" in row]
    lines = [
        "| engine | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    notes = []
    for row in rows:
        if "failed" in row or "absent" in row:
            why = " ".join(str(row.get("failed") or row["absent"]).replace("|", "/").split())[:300]
            lines.append(f"| {named(row)} | not run: {why} " + "| " * (len(COLUMNS) - 1) + "|")
            continue
        lines.append(
            f"| {named(row)} | " + " | ".join(cell(row, key, form) for _, key, form in COLUMNS) + " |"
        )
    gpu = gpu_of(next(iter(parts.values()))["device"])
    for row in rows:
        if gpu and row.get("update_tflops"):
            notes.append(
                f"* {named(row)}: the update runs at {row['update_tflops'] / gpu.teraflops:.0%} of the bfloat16 peak."
            )
    compared = [row for row in parts.get("trl", {}).get("results", []) if "step_seconds" in row]
    if len(compared) == 2:
        theirs, ours = compared
        notes.append(
            f"* TRL / {named(ours)}: {theirs['step_seconds'] / ours['step_seconds']:.2f} in seconds a step."
        )
    return [*lines, "", *notes]


def other_lines(parts: dict[str, dict[str, Any]]) -> list[str]:
    """Tests, the killed run and the ladder."""
    lines = []
    if contract := parts.get("contract"):
        said = next((line for line in reversed(contract["said"].splitlines()) if " in " in line), "")
        lines.append(f"* Contract tests: {'passed' if contract['good'] else 'FAILED'} ({said.strip()}).")
    if resume := parts.get("resume"):
        lines.append(
            f"* A run killed in training and run again: {'went on and ended' if resume['good'] else 'FAILED'}."
        )
    for row in parts.get("ladder", {}).get("results", []):
        for sweep in row["rows"]:
            lines.append(
                f"* The testbed's ladder, {sweep['runs']} runs, {sweep['at_once']} at once: {sweep['seconds']} s, code {sweep['exit']}."
            )
    return lines


def page(folder: Path) -> str:
    """The page. Raises SystemExit where there is no part."""
    parts = load(folder)
    if not parts:
        raise SystemExit(f"{folder} holds no result of a part; run tests/gpu/parts.py first")
    first = next(iter(parts.values()))
    versions = ", ".join(f"{name} {version}" for name, version in first["packages"].items())
    missing = [name for name in ORDER if name not in parts]
    lines = [f"{first['device']} · Python {first['python']} · {versions}", ""]
    lines += [
        "Steps of a random model of real shape, medians over all steps but the first two (`tests/gpu/parts.py`).",
        "",
    ]
    lines += [*step_lines(parts), *other_lines(parts)]
    if missing:
        lines.append(f"* Not run: {', '.join(missing)}.")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(page(parser.parse_args().folder), end="")


if __name__ == "__main__":
    main()
