"""What an experiment was first declared as, remembered beside its plan for good, and what has changed since scores could be seen."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from harness.configuration.sections import of_machine
from harness.experiment.plan import Plan
from harness.store import ResultStore, StoreError, layout
from harness.store.atomic import write_file


def declaration(plan: Plan) -> dict[str, Any]:
    """Metrics, margins, seeds or looks, arms with what they are compared with, and benchmark: nothing that a result has set."""
    arms = {}
    for arm in plan.arms:
        found = {item for part in plan.parts for item in (part.settings or {}).get(arm.name, ())}
        items = {*arm.overrides, *arm.more} - found
        reference = plan.reference_of(arm)
        own = sorted(item for item in items if not of_machine(item) and not item.startswith("seed="))
        arms[arm.name] = [reference.name if reference else "", *own]
    names = [metric.name for metric in plan.metrics]
    seeds = {"looks": list(plan.looks)} if plan.looks else {"seeds": sorted(plan.seeds)}
    question = {"metric": names, "margin": dict(plan.margins), "benchmark": plan.benchmark, "expects": plan.expects}
    budget = plan.match if plan.match_budget is None else f"{plan.match_budget:g} {plan.match}"
    question |= {"match": budget, "paired": str(plan.paired), "tune": "yes" if plan.tuning else "no"}
    return question | {"arms": arms} | seeds


def remember(store: ResultStore, plan: Plan, answered: Collection[str]) -> str:
    """Note the declaration unless it is the newest one; returns what it changes. ``answered``: finished runs of the plan's stored answer.

    One of which nothing has finished when another comes is forgotten: it had no scores.
    """
    entries, now = declarations(store, plan.name), declaration(plan)
    if not plan.comparisons or (entries and entries[-1]["declared"] == now):
        return ""
    if not answered and len(entries) > 1 and entries[-2]["declared"] == now:  # what stood between had no scores
        _write(store, plan, entries[:-1])
        return ""
    run_ids = {run_id for arm in plan.arms for run_id in arm.runs.values()}
    finished_count = sum(store.run(run_id).status == "finished" for run_id in run_ids)
    entries = entries if answered or finished_count or plan.first else entries[:-1]
    texts = _changed(entries[-1]["declared"], now) if entries else []
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entries.append({"at": at, "finished": finished_count, "runs": len(run_ids), "declared": now})
    _write(store, plan, entries)
    advice = "the answer says so for good; another experiment.name asks anew"
    return f"{plan.name}: {'; '.join(texts)}: {advice}" if texts else ""


def _write(store: ResultStore, plan: Plan, entries: Sequence[Mapping[str, Any]]) -> None:
    text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    write_file(layout.declarations_file(store.root, plan.name), text.encode())


def declarations(store: ResultStore, name: str) -> list[dict[str, Any]]:
    """The declarations of an experiment, the first one first; none of one whose runs came from elsewhere."""
    path = layout.declarations_file(store.root, name)
    try:
        entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        assert all([*entry] == ["at", "finished", "runs", "declared"] for entry in entries)
        for entry in entries:
            datetime.fromisoformat(entry["at"])
            assert isinstance(entry["finished"], int)
            assert isinstance(entry["runs"], int)
            _changed(entry["declared"], entry["declared"])
        [_changed(*pair) for pair in pairwise(entry["declared"] for entry in entries)]
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError) as error:
        raise StoreError(f"{path} is damaged ({error}); what was declared first is lost if you delete it") from error
    return entries


def declared_line(store: ResultStore, name: str) -> str:
    """``declared 2026-11-29, before its first run``, or when some of its runs had finished; empty where nothing tells.

    Where a first part chooses what arms run, nobody knew then whether another experiment had run it: the date stands alone.
    """
    if not (entries := declarations(store, name)):
        return ""
    at, finished, runs, _ = entries[0].values()
    when = f", when {finished} of its {runs} runs had finished" if finished else ", before its first run" * bool(runs)
    return f"declared {at[:10]}{when}{', and changed since' * bool(changes(store, name))}"


def changes(store: ResultStore, name: str) -> list[str]:
    """What later declarations changed, each once: ``seeds grew from 4 to 8 after a look``."""
    declared = [entry["declared"] for entry in declarations(store, name)]
    return list(dict.fromkeys(text for pair in pairwise(declared) for text in _changed(*pair)))


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    texts = [
        f"another {key} was declared ({old[key] if isinstance(old[key], str) else ', '.join(old[key])})"
        for key in ("metric", "benchmark", "expects", "match", "paired", "tune")
        if old.get(key) and old[key] != new.get(key)
    ]
    for name in (name for name in new["metric"] if name in old["metric"]):
        before, after = (one["margin"].get(name) for one in (old, new))
        value = "none" if after is None else f"{after:g}"
        changed = f"chosen as {value}" if before is None else f"changed from {before:g} to {value}"
        of = f" of {name}" * (len(new["metric"]) > 1)
        texts += [f"the margin{of} was {changed} after the scores"] * (before != after)
    texts += _changed_seeds(old, new)
    gone, added = (
        sorted(one.keys() - other.keys()) for one, other in ((old["arms"], new["arms"]), (new["arms"], old["arms"]))
    )
    others = [arm for arm in new["arms"] if arm in old["arms"] and old["arms"][arm] != new["arms"][arm]]
    kinds = {"were left out": gone, "were added": added, "were changed": others}
    return [*texts, *(f"arms {verb} after a look ({', '.join(names)})" for verb, names in kinds.items() if names)]


def _changed_seeds(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    before, after = ({key: one[key] for key in ("seeds", "looks") if key in one} for one in (old, new))
    counts = [one.get("looks") or len(one["seeds"]) for one in (old, new)]
    if before == after:
        return []
    if "looks" in before or "looks" in after:
        said = [
            f"looks at {', '.join(map(str, one['looks']))} seeds" if one.get("looks") else f"{len(one['seeds'])} seeds"
            for one in (old, new)
        ]
        return ["{} became {} after a look".format(*said)]
    if counts[0] == counts[1]:
        return ["seeds were exchanged after a look"]
    return ["seeds {} from {} to {} after a look".format("grew" if counts[0] < counts[1] else "fell", *counts)]
