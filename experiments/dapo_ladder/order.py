"""The order of the ladder, as far as stored runs tell: a trick's effect alone, in its place, and on top of all others.

    python experiments/dapo_ladder/order.py results [more ...]

Every stored run that is naive GRPO on the ladder's task, base policies and settings plus some of its five tricks counts, from any
experiment of the roots, at its last evaluation after 60 steps. What nobody has run is said (`experiment=dapo_factorial` runs the subsets).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from ladder_runs import bases_of, command, ladder

from analysis import Results, load
from harness.configuration.schema import dump
from harness.configuration.schema import load as load_config
from harness.statistics.families import Paired, judge
from harness.store import ResultStore

STEPS = (60, 60)
# What makes a run's numbers; the seed, the machine and when it is evaluated are left out.
_SECTIONS = ("algorithm", "optimizer", "sampling", "task", "model", "training", "evaluation")
_FREE = {
    "training.steps",  # STEPS says
    "training.evaluate_every",
    "evaluation.samples_between",
}
Subset = frozenset[str]


def settings(config: Mapping[str, Any]) -> dict[str, object]:
    """What tells arms apart, by dotted key: another regime or another set of base policies is another arm."""
    flat: dict[str, object] = {}

    def visit(value: Any, path: str) -> None:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                visit(inner, f"{path}.{name}")
        else:
            flat[path] = str(value) if isinstance(value, list) else value

    for section in _SECTIONS:
        visit(config[section], section)
    return {key: value for key, value in flat.items() if key not in _FREE}


def meanings(rungs: list[tuple[str, dict[str, object]]]) -> dict[tuple[str, object], Subset]:
    """(key, value) to the tricks that the ladder has put there; what the base has stands for none."""
    (_, previous), *above = rungs
    found: dict[tuple[str, object], Subset] = {}
    for trick, now in above:
        for key in now:
            if now[key] != previous.get(key):
                before = found.setdefault((key, previous.get(key)), frozenset())
                found[key, now[key]] = before | {trick}
        previous = now
    return found


def subset_of(
    own: dict[str, object], base: dict[str, object], known: Mapping[tuple[str, object], Subset]
) -> Subset | None:
    """The ladder's tricks that a run has; None where it has anything else."""
    found: Subset = frozenset()
    for key in {**own, **base}:
        if own.get(key) == base.get(key):
            continue
        meant = known.get((key, own.get(key)))
        if meant is None:
            return None
        found |= meant
    return found


def collected(roots: list[str]) -> tuple[list[str], dict[Subset, dict[int, float]], int]:
    """The ladder's tricks in order; of every subset that has run its scores in points by seed; the number of base policies.

    A seed that several roots have is the first one's.
    """
    first = ladder(roots[0])
    store = ResultStore(roots[0])
    arms = first.experiment.plan.arms
    rungs = [(arm.label.removeprefix("+ "), settings(_config(store, arm.runs[0]))) for arm in arms]
    known, scores = meanings(rungs), dict[Subset, dict[int, float]]()
    with_filter, alone = (("algorithm.overlong.policy", policy) for policy in ("mask_and_soft", "soft"))
    # The ladder has the punishment on top of the filter only; other designs have it alone as well.
    known[alone] = known[with_filter] - known["algorithm.overlong.policy", "mask"]
    for root in roots:
        store = ResultStore(root)
        for name in store.plans():
            results = first if (root, name) == (roots[0], "dapo_ladder") else load(root, name)
            for arm in results.experiment.plan.arms:
                own = _scores(results, arm.name)
                if not own:  # nothing of it has finished; its configuration may not be there yet
                    continue
                config = _config(store, arm.runs[own[0][0]])
                subset = subset_of(settings(config), rungs[0][1], known)
                for seed, score in own if subset is not None else ():
                    scores.setdefault(subset, {}).setdefault(seed, score)
    return [trick for trick, _ in rungs[1:]], scores, bases_of(first)


def _config(store: ResultStore, run_id: str) -> Mapping[str, Any]:
    """The configuration as it is meant: keys that an older run did not have stand for what they meant then."""
    return dump(load_config(yaml.safe_load(store.run(run_id).config())))


def _scores(results: Results, arm: str) -> list[tuple[int, float]]:
    plan, frame = results.experiment.plan, results.per_seed
    own = frame[(frame["arm"] == arm) & (frame["cap"] == plan.primary_cap)]
    last = [
        (int(seed), steps[-1], 100 * avg)
        for seed, steps, avg in zip(own["seed"], own["steps"], own["avg"], strict=True)
    ]
    return [(seed, score) for seed, step, score in last if STEPS[0] <= step <= STEPS[1]]


def contrast(
    scores: Mapping[Subset, Mapping[int, float]], parts: Mapping[Subset, int], bases: int
) -> Paired | None:
    """A sum of subsets with signs, by base policy of the seeds that all have; None where one has not run."""
    if any(subset not in scores for subset in parts):
        return None
    shared = set.intersection(*(set(scores[subset]) for subset in parts))
    groups: dict[int, list[float]] = {}
    for seed in shared:
        groups.setdefault(seed % bases, []).append(sum(sign * scores[s][seed] for s, sign in parts.items()))
    return Paired([sum(group) / len(group) for group in groups.values()], len(shared))


def main(roots: list[str]) -> None:
    """Print the table: each interval stands alone, since which ones exist depends on what was run."""
    tricks, scores, bases = collected(roots)
    everything = frozenset(tricks)
    print("| trick | alone | in its place | on top of all others | last minus first |\n|---|---|---|---|---|")
    for place, trick in enumerate([*tricks, "all others"]):
        own = frozenset({trick}) if trick in everything else everything - {tricks[-1]}
        below = frozenset(tricks[:place]) if trick in everything else frozenset[str]()
        others = everything - own
        alone, there = {own: 1, frozenset[str](): -1}, {below | own: 1, below: -1}
        last = {everything: 1, others: -1}
        order = {everything: 1, others: -1, own: -1, frozenset[str](): 1}
        cells = [_cell(contrast(scores, parts, bases)) for parts in (alone, there, last, order)]
        name = trick if trick in everything else f"all but {tricks[-1]}"
        print(f"| {name} | " + " | ".join(cells) + " |")
    print(f"\n{len(scores)} of {2 ** len(tricks)} subsets of the tricks have run.")


def _cell(found: Paired | None) -> str:
    if found is None:
        return "not run"
    one = judge({"it": found})["it"]
    return f"{one.value:+.1f} [{one.low:+.1f}, {one.high:+.1f}], {one.seeds} seeds"


if __name__ == "__main__":
    command(main, __doc__)
