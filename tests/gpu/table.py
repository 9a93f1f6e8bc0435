"""One table from what `check.sh` measured: printed, and written to results/gpu/ with date, hardware and versions."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from harness.configuration.gpus import GPUS

PACKAGES = ("torch", "transformers", "vllm", "trl")
COLUMNS = (
    ("step, s", "step_seconds", "{:.2f}"),
    ("rollout, s", "rollout_seconds", "{:.2f}"),
    ("update, s", "update_seconds", "{:.2f}"),
    ("weights to the engine, s", "sync_seconds", "{:.2f}"),
    ("verify, s", "verify_seconds", "{:.3f}"),
    ("rollout, tokens/s", "rollout_tokens_per_second", "{:,.0f}"),
    ("update, tokens/s", "update_tokens_per_second", "{:,.0f}"),
    ("update, TFLOP/s", "update_tflops", "{:.1f}"),
    ("peak memory, GiB", "peak_memory_gib", "{:.1f}"),
    ("log-prob gap, mean (max) nats", "gap", "{}"),
)


def cell(row: dict[str, Any], key: str, form: str) -> str:
    if key == "gap" and row.get("log_prob_gap_mean") is not None:
        return f"{row['log_prob_gap_mean']:.2g} ({row['log_prob_gap_max']:.2g})"
    return "–" if row.get(key) is None else form.format(row[key])


def peak_of(name: str) -> float | None:
    """The dense bfloat16 peak of the GPU in TFLOP/s, None for one that is not in the table."""
    flat = name.lower().replace(" ", "")
    return next((gpu.teraflops for key, gpu in GPUS.items() if key.split("_")[0] in flat), None)


def table(folder: Path, device: str) -> str:
    """The page in Markdown."""
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU ({platform.machine()}), a rehearsal"
    versions = [
        f"{package} {importlib.metadata.version(package)}"
        for package in PACKAGES
        if any(d.metadata["Name"] == package for d in importlib.metadata.distributions())
    ]
    rows = [
        json.loads(path.read_text())
        for path in sorted(folder.glob("*.json"))
        if path.stem not in ("ladder", "contract")
    ]
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d} · {name} · Python {platform.python_version()} · {', '.join(versions)}",
        "",
        "`bash tests/gpu/check.sh`: steps of a random model of real shape, medians over all steps but the first two.",
        "",
        "| engine | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for row in rows:
        if "failed" in row:
            why = " ".join(str(row["failed"]).replace("|", "/").split())[:300]
            lines.append(f"| {row['engine']} | not run: {why} " + "| " * (len(COLUMNS) - 1) + "|")
        else:
            lines.append(f"| {row['engine']} | " + " | ".join(cell(row, k, f) for _, k, f in COLUMNS) + " |")
    lines.append("")
    peak, trl = peak_of(name), next((r for r in rows if "TRL" in r["engine"] and "failed" not in r), None)
    for row in rows:
        if peak and row.get("update_tflops"):
            lines.append(
                f"* {row['engine']}: the update runs at {row['update_tflops'] / peak:.0%} of the bfloat16 peak."
            )
        if trl and row is not trl and row.get("step_seconds"):
            lines.append(
                f"* TRL / {row['engine']}: {trl['step_seconds'] / row['step_seconds']:.2f} in seconds a step."
            )
    if (folder / "contract.json").exists():
        code = json.loads((folder / "contract.json").read_text())["exit"]
        lines.append(
            f"* Contract tests on the GPU (`pytest -m gpu tests/gpu`): {'passed' if code == 0 else f'FAILED, exit code {code}'}."
        )
    if (folder / "ladder.json").exists():
        ladder = json.loads((folder / "ladder.json").read_text())
        lines.append(
            f"* The testbed's ladder with {ladder['runs_per_gpu']} runs a GPU: {ladder['seconds']} s, exit code {ladder['exit']}."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    page = table(options.folder, options.device)
    print(page)
    if options.device == "cuda":
        target = (
            Path("results/gpu")
            / f"{datetime.now(UTC):%Y-%m-%d}-{torch.cuda.get_device_name().replace(' ', '-')}.md"
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page)


if __name__ == "__main__":
    main()
