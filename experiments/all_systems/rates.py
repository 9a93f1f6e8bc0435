"""The learning rate of every system: the best of those that experiment=all_systems_rates has tried.

    python experiments/all_systems/rates.py results            # the table
    python experiments/all_systems/rates.py results --write    # and the rates into conf/experiment/all_systems.yaml

The highest mean over seeds counts, of equal ones the lower rate. A rate at which training of a seed diverged is out. Nothing is written
while a run has not ended, or has failed for another reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis import Results, load
from harness.experiment.plan import PlanError, PlannedArm
from harness.store import StoreError

EXPERIMENT = "all_systems_rates"
FILE = Path(__file__).parents[2] / "conf" / "experiment" / "all_systems.yaml"
SYSTEM, RATE = "algorithm=", "optimizer.learning_rate="
_DIVERGED = "NumericalFault"  # what a worker ends with when loss or gradient stop being finite
_SAME = 9  # decimals of a mean, in points, beyond which a difference is rounding
_OVERRIDES = re.compile(r"^(?P<before>.*\boverrides:\s*\[)(?P<items>.*)(?P<after>\].*)$")


@dataclass(frozen=True)
class Trial:
    """One rate of one system: mean accuracy over seeds in points (None without any), how many, and what keeps it from counting."""

    mean: float | None
    seeds: int
    diverged: bool = False
    waiting_runs: int = 0

    @property
    def text(self) -> str:
        """The cell of the table."""
        if self.diverged:
            return "diverged"
        if self.mean is None:
            return "not run"
        return f"{self.mean:.1f}" + (f" ({self.waiting_runs} to run)" if self.waiting_runs else "")


def read_trials(results: Results) -> dict[str, dict[float, Trial]]:
    """System to rate, ascending, to what is known of it, in the order of the plan."""
    trials: dict[str, dict[float, Trial]] = {}
    for arm in results.experiment.plan.arms:
        system, rate = setting_of(arm, SYSTEM), float(setting_of(arm, RATE))
        trials.setdefault(system, {})[rate] = _read_trial(results, arm)
    return {system: dict(sorted(rates.items())) for system, rates in trials.items()}


def setting_of(arm: PlannedArm, key: str) -> str:
    """What an arm's overrides say of ``key=``. Raises PlanError where they say nothing."""
    values = [item.removeprefix(key) for item in arm.overrides if item.startswith(key)]
    if not values:
        raise PlanError(f"arm {arm.name} has no {key.rstrip('=')}: this is no grid of systems and learning rates")
    return values[-1]


def _read_trial(results: Results, arm: PlannedArm) -> Trial:
    states = results.experiment.runs
    open_runs = states[(states["arm"] == arm.name) & (states["status"] != "finished")]
    diverged = (open_runs["status"] == "failed") & open_runs["error"].str.contains(_DIVERGED)
    scores = list(results.scores(arm, "avg").values())
    mean = 100 * float(np.mean(scores)) if scores else None
    return Trial(mean, len(scores), bool(diverged.any()), int((~diverged).sum()))


def choice(rates: Mapping[float, Trial]) -> float | None:
    """The rate of the highest mean, of equal ones the lowest; None where none counts."""
    means = {rate: round(one.mean, _SAME) for rate, one in rates.items() if one.mean is not None and not one.diverged}
    return min(means, key=lambda rate: (-means[rate], rate)) if means else None


def edge(rates: Mapping[float, Trial], best_rate: float | None) -> str:
    """Whether the best may lie beyond the rates that were tried; one above at which training diverged is no edge."""
    if best_rate is None:
        return "no rate counts"
    if best_rate == min(rates):
        return "lowest of those tried"
    return "highest of those tried" if best_rate == max(rates) else ""


def rewrite(text: str, rates: Mapping[str, float]) -> str:
    """The experiment's file with the learning rate of each system in its overrides; all else, comments too, as it was.

    Raises:
        ValueError: a system of the file without a rate, or a rate without a system.
    """
    lines, systems = [], []
    for line in text.splitlines():
        match = _OVERRIDES.match(line)
        system = re.search(rf"(?:^|[\s,\"']){SYSTEM}(\w+)", match["items"]) if match else None
        if match and system:
            name = system[1]
            if name not in rates:
                raise ValueError(f"no learning rate was tried for {name}; add it to {EXPERIMENT}")
            systems.append(name)
            items = re.sub(rf",\s*{re.escape(RATE)}[^,\]]*", "", match["items"])
            line = f"{match['before']}{items}, {RATE}{_rate(rates[name])}{match['after']}"
        lines.append(line)
    missing = [name for name in rates if name not in systems]
    if missing:
        raise ValueError(f"the file has no arm with {SYSTEM}{missing[0]}")
    return "\n".join(lines) + "\n"


def _rate(rate: float) -> str:
    """``2e-4``."""
    return np.format_float_scientific(rate, trim="-", exp_digits=1)


def table(trials: Mapping[str, Mapping[float, Trial]]) -> str:
    """Markdown: system, mean accuracy in per cent at each rate, the chosen one, and whether it is at an edge."""
    all_rates = sorted({rate for rates in trials.values() for rate in rates})
    header = ["system", *map(_rate, all_rates), "chosen", "edge"]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for system, rates in trials.items():
        best_rate = choice(rates)
        cells = [rates[rate].text if rate in rates else "–" for rate in all_rates]
        last = ["–" if best_rate is None else _rate(best_rate), edge(rates, best_rate)]
        lines.append("| " + " | ".join([system, *cells, *last]) + " |")
    return "\n".join(lines)


def find_objections(trials: Mapping[str, Mapping[float, Trial]]) -> list[str]:
    """Why no choice can be written yet."""
    reasons = [
        f"{system} at {_rate(rate)}: {trial.waiting_runs} runs have not finished"
        for system, rates in trials.items()
        for rate, trial in rates.items()
        if trial.waiting_runs and not trial.diverged
    ]
    return reasons + [f"{system}: no rate counts" for system, rates in trials.items() if choice(rates) is None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write the rates if asked; 0, or 2 with one line where that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("--write", nargs="?", type=Path, const=FILE, help=f"the file; without a name {FILE.name}")
    options = parser.parse_args(arguments)
    try:
        trials = read_trials(load(options.root, EXPERIMENT))
        print(table(trials))
        if options.write is not None:
            reasons = find_objections(trials)
            if reasons:
                raise ValueError(f"nothing is written: {reasons[0]} (and {len(reasons) - 1} more)")
            best_rates = {system: rate for system, rates in trials.items() if (rate := choice(rates)) is not None}
            text = options.write.read_text(encoding="utf-8")
            options.write.write_text(rewrite(text, best_rates), encoding="utf-8", newline="\n")
    except (StoreError, PlanError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
