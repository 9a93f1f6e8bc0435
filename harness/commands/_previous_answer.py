"""The answer that is stored under an experiment's name: whose runs it is of, and whether it still stands."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

from harness.configuration.identity import content_hash, flatten
from harness.configuration.schema import dump
from harness.experiment.plan import Plan
from harness.store import ResultStore, StoreError, atomic, layout

PAGE = "report.html"
_OF_THE_MOMENT = ("schema_version", "command", "checks", "decisions")  # the same question, asked another time


def answer_key(store: ResultStore, experiment: str) -> str:
    """Hash what an answer is made of: the stored question, and which of its runs are finished."""
    plan = store.plan(experiment)
    question = {key: value for key, value in plan.items() if key not in _OF_THE_MOMENT}
    return content_hash(question, sorted(answered_runs(store, experiment)))


def sign_answer(store: ResultStore, experiment: str, key: str) -> None:
    """Note in the page, which is written last, what tables, figures and page were made of."""
    page = layout.experiment_dir(store.root, experiment) / PAGE
    atomic.write_file(page, page.read_bytes() + _signature(key))


def answer_stands(store: ResultStore, experiment: str) -> bool:
    """Say whether tables and page were made of the stored plan and of the runs that are finished now; no clock is asked."""
    page = layout.experiment_dir(store.root, experiment) / PAGE
    if not page.exists() or not any(page.with_name("tables").glob("*")):
        return False
    return page.read_bytes().endswith(_signature(answer_key(store, experiment)))


def _signature(key: str) -> bytes:
    return f"<!-- answer {key} -->\n".encode()


def is_stored(store: ResultStore, experiment: str, plan: Mapping[str, Any]) -> bool:
    """Say whether the stored plan of this name asks what `plan` asks; another command may have written its own over it."""
    with contextlib.suppress(StoreError):
        stored = {key: value for key, value in store.plan(experiment).items() if key not in _OF_THE_MOMENT}
        asked_plan = json.loads(json.dumps(plan))
        return stored == {key: value for key, value in asked_plan.items() if key not in _OF_THE_MOMENT}
    return False


def answered_runs(store: ResultStore, experiment: str) -> frozenset[str]:
    """The finished runs of the answer that is stored under a name; none where there is no answer, or none that can be read."""
    try:
        stored = store.plan(experiment) if experiment in store.plans() else {"arms": []}
        named = {str(run_id) for arm in stored["arms"] for run_id in arm["runs"].values()}
        return frozenset(run_id for run_id in named if store.run(run_id).status == "finished")
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()


def left_out(plan: Plan, before: frozenset[str]) -> str:
    """Say what this plan takes out of the answer stored under its name, in a sentence; empty where it takes nothing.

    Args:
        plan: what is asked for now. Where arms wait for a budget their runs are not known, and *up to* is said.
        before: the `answered_runs` of its name.
    """
    gone = len(before.difference(spec.run_id for spec in plan.specs))
    if not gone:
        return ""
    which = f"{'up to ' * bool(plan.waits_for)}{gone} of the {len(before)} finished runs"
    name = plan.name
    if plan.claim:
        return (
            f"{name}: a claim is judged by the runs of its newest command, so {which} of the one before no longer count; they stay in the "
            "store. To keep both judgements, add runtime.results=ANOTHER"
        )
    return (
        f"{name}: {which} of the answer stored under this name are not asked for now, so tables, figures and page lose them; the runs "
        "stay. To keep both answers, add experiment.name=ANOTHER"
    )


def edited(plan: Plan, store: ResultStore) -> list[str]:
    """Say whose code of one's own differs from that of the runs that stand under the plan's name: other runs are asked for."""
    name, notes = plan.name, []
    with contextlib.suppress(StoreError, OSError, KeyError, AttributeError, StopIteration):
        before = (
            {arm["name"]: arm["runs"] for arm in store.plan(name)["arms"]} if name in store.plans() else {}
        )
        for planned in plan.arms:
            if run_id := next(iter(before.get(planned.name, {}).values()), None):
                old, new = flatten(store.run(run_id).settings()), flatten(dump(planned.config))
                notes += [
                    f"{planned.name}: the code of {key.removesuffix('.code')}={new.get(f'{key[:-4]}kind')} is not that of the runs "
                    f"stored under {name} ({old[key]}, now {new[key]}): it is asked for in other runs"
                    for key in new
                    if key.endswith(".code") and old.get(key, new[key]) != new[key]
                ]
    return notes


def put_back(store: ResultStore, experiment: str, plan: Mapping[str, Any]) -> None:
    """Write a command's own plan again if another command has written another one meanwhile, and say so: an answer is read from it."""
    if is_stored(store, experiment, plan):
        return
    print(
        f"{experiment}: another command wrote its plan over this one's meanwhile; this one's is written again, and the answer is of its "
        "runs. Give one of the two another experiment.name, and both keep theirs"
    )
    store.write_plan(experiment, plan)
