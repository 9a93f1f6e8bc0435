"""A claim with what its experiment found: its first look, and its second one where somebody looked again.

A verdict is about the testbed at the operating point that the claim's experiment declares, and about nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.answer import describe
from analysis.caveats import engagements
from analysis.effects import differences_to_reference
from analysis.frames import load_experiment
from analysis.results import results_of
from harness.evaluation.metrics.names import Metric
from harness.statistics.intervals import DECIDED, Estimate, Finding, Second, finding, second_look
from harness.statistics.sequential import pooled, shared, word_p_value
from harness.store import ResultStore, StoreError, layout

PREFIX = "claim_"


@dataclass(frozen=True)
class Look:
    """What one look at a claim found. ``effect`` and ``margin`` are in the shown unit of ``metric``.

    Attributes:
        claim: statement, source, setting, expects and differs, as declared (`harness.experiment.claim.Claim`).
        system, reference: the arms, of which the effect is the difference.
        regime: presets of the experiment; ``default`` without one.
        engaged, share: what the difference between the arms touched, in words and as the largest share.
        policies: seed to base policy. looks: numbers of seeds at which the design looks.
        declaration, protocol: fingerprints (`harness.experiment.claim`). late: declared again after the first run.
    """

    experiment: str
    title: str
    claim: Mapping[str, str]
    finding: Finding
    effect: Estimate
    margin: float
    metric: Metric
    engaged: str = ""
    share: float = math.nan
    tokens: float = 0.0
    hours: float = 0.0
    late: bool = False
    system: str = ""
    reference: str = ""
    regime: str = "default"
    declaration: str = ""
    protocol: str = ""
    looks: tuple[int, ...] = ()
    policies: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def seeds(self) -> int:
        """Training seeds behind the effect."""
        return self.effect.seeds

    @property
    def most_seeds(self) -> int:
        """Seeds at the last look."""
        return max([*self.looks, self.seeds])

    @property
    def sentence(self) -> str:
        """The effect in words."""
        return describe(self.effect.scaled(1 / self.metric.scale), self.metric)

    @property
    def word(self) -> str:
        """The finding, with the margin where it belongs to it."""
        margin = f" within {self.margin:g} {self.metric.unit}" if self.finding is Finding.NOTHING else ""
        return f"{self.finding}{margin}"

    @property
    def unfinished(self) -> str:
        """Such as `8 of up to 16 seeds run` where later looks could still decide it, else nothing."""
        left = self.finding is Finding.OPEN and self.seeds < self.most_seeds
        return f"{self.seeds} of up to {self.most_seeds} seeds run" if left else ""

    @property
    def decided(self) -> bool:
        """Whether the word is one that a second look can repeat."""
        return self.finding in DECIDED


@dataclass(frozen=True)
class JudgedClaim:
    """A claim by its first look, and by its second one unless nobody looked again (None)."""

    first: Look
    second: Look | None = None

    @property
    def name(self) -> str:
        """The claim's name, as in `harness audit claim=NAME`."""
        return self.first.experiment.removeprefix(PREFIX)

    @property
    def all_looks(self) -> list[Look]:
        """The first look, and the second where there is one."""
        return [self.first] if self.second is None else [self.first, self.second]

    @property
    def late(self) -> bool:
        """Whether one of the looks was declared after the fact."""
        return any(look.late for look in self.all_looks)

    @property
    def answer(self) -> Second | None:
        """What the second look says of the first one's word; None without one."""
        return None if self.second is None else second_look(self.first.finding, self.second.finding)

    @property
    def verdict(self) -> str:
        """The word of one look or of both, the seeds that are still to come, and whether it was declared after the fact."""
        first, second = self.first, self.second
        if second is None:
            text = ", ".join(filter(None, [first.word, first.unfinished]))
        elif self.answer is Second.REPLICATED:
            text = f"{first.word.replace(' here', '')}, {self.answer}"
        elif second.unfinished:
            text = f"{first.word}; second look: {second.unfinished}"
        else:
            text = f"{self.answer}: {first.word}, then {second.word}"
        return f"{text} (declared after the fact)" if self.late else text

    @cached_property
    def p_value(self) -> float:
        """The evidence for the first look's word, which is 1 where it says nothing.

        A word of two looks is wrong unless both are right, so the larger value counts (partial conjunction: Benjamini & Heller 2008,
        Biometrics 64, 1215).
        """
        word, expects = self.first.finding, self.first.claim["expects"]
        return max(word_p_value(look.effect, look.looks, word, expects) for look in self.all_looks)

    @cached_property
    def pooled(self) -> Estimate | None:
        """The effect over both looks; None where `not_pooled` says why."""
        if self.second is None or self.not_pooled:
            return None
        return pooled(self.first.effect, self.second.effect, self.first.looks, self.second.looks)

    @property
    def not_pooled(self) -> str:
        """Why both looks have no common interval; empty where they have, or where there is no second look."""
        if self.second is None:
            return ""
        if self.first.protocol != self.second.protocol:
            return "the two looks have different protocols"
        if any(len({*look.policies.values()}) < 2 for look in self.all_looks):
            return "each look is about one base policy"
        if not all(look.effect.degrees >= 1 for look in self.all_looks):
            return "a look has no interval"
        if any("Welch" in look.effect.method for look in self.all_looks):
            return "the looks are not paired by seed"
        return ""


def judged_claims(root: Path, names: Sequence[str] = ()) -> tuple[list[JudgedClaim], list[str]]:
    """Judge the claims of these experiments, or all of the store, by name; a line for each that cannot be read."""
    plans = {name: _plan(root, name) for name in sorted({*ResultStore(root).plans(), *names})}
    firsts: dict[str, JudgedClaim] = {}
    seconds: dict[str, Look] = {}
    unread = []
    for name, plan in plans.items():
        repeated = str(plan.get("replicates") or "")
        if names and not {name, repeated} & {*names}:
            continue
        try:
            look = judge_look(root, name)
        except StoreError as error:
            unread.append(f"{name}: {error}")
            continue
        if look is not None and repeated:
            seconds[repeated] = look
        elif look is not None:
            firsts[name] = JudgedClaim(look)
    for name, look in seconds.items():
        if why := _no_second(firsts.get(name), look, name):
            unread.append(f"{look.experiment}: {why}")
        else:
            firsts[name] = JudgedClaim(firsts[name].first, look)
    return [firsts[name] for name in sorted(firsts)], unread


def _no_second(claim: JudgedClaim | None, second: Look, name: str) -> str:
    """Why a look is not taken for the second one at a claim; empty where it is."""
    if claim is None:
        return f"there is no first look at {name} to hold it against"
    if not second.policies:
        return "no seed of both arms has finished yet; the same command goes on"
    if not claim.first.policies:
        return "no second look, nothing tells which base policies the first one used"
    both = shared(claim.first.policies, second.policies)
    return f"no second look, they share {both}" if both else ""


def judge_look(root: Path, name: str) -> Look | None:
    """Judge the claim of an experiment by its own runs; None of one that declares no claim.

    Raises:
        StoreError: there is no such experiment, or its plan cannot be read.
    """
    record = ResultStore(root).plan(name)
    if not record.get("claim"):
        return None
    results = results_of(load_experiment(root, name, curves=False))
    (arm_name, effect), *_ = differences_to_reference(results).items()
    plan, engaged = results.experiment.plan, engagements(results.experiment)[arm_name]
    arm, claim = plan.arm(arm_name), record["claim"]
    reference = plan.reference_of(arm)
    # What the runs took, those that other experiments share included.
    steps = results.experiment.steps.drop_duplicates(["run_id", "step"])
    path, declaration = (
        layout.plan_file(root, name).parent / layout.DECLARATION,
        record.get("declaration", ""),
    )
    stored = json.loads(path.read_text()) if path.exists() else {}
    presets = [item.partition("=")[2] for item in record.get("overrides", ()) if item.startswith("preset=")]
    used = {*plan.seeds[: effect.seeds]}
    policies = {int(seed): policy for seed, policy in record.get("starts", {}).items()}
    return Look(
        experiment=name,
        title=record["title"],
        claim=claim,
        finding=finding(effect, claim["expects"], engaged.hardly and engaged.known),
        effect=effect.scaled(results.metric.scale),
        margin=results.shown_margin or math.nan,
        metric=results.metric,
        engaged=engaged.text,
        share=max((value for value in engaged.values if not math.isnan(value)), default=math.nan),
        tokens=float(steps["generated_tokens"].sum()) if len(steps) else 0.0,
        hours=float(steps["seconds_total"].sum()) / 3600 if len(steps) else 0.0,
        late=stored.get("declaration", declaration) != declaration or bool(stored.get("changed")),
        system=arm.label or arm.name,
        reference="" if reference is None else reference.label or reference.name,
        regime=" ".join(presets) or "default",
        declaration=declaration,
        protocol=record.get("protocol", ""),
        looks=plan.looks,
        policies={seed: policy for seed, policy in policies.items() if seed in used},
        notes=tuple(record.get("notes", ())),
    )


def _plan(root: Path, name: str) -> Mapping[str, Any]:
    try:
        return ResultStore(root).plan(name)
    except StoreError:
        return {}  # `judge_look` says why
