"""A claim with what was found: its first look, its second one where somebody looked again, and their rows in the record.

A verdict is about the testbed at the operating point that the claim's experiment declares, and about nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from analysis.answer import describe
from analysis.claims.record import FIRST, SECOND, Effect, joined
from harness.evaluation.metrics.names import Metric, metric
from harness.statistics.estimate import Estimate
from harness.statistics.finding import DECIDED, Finding, Second, second_look
from harness.statistics.replication import Prospect, pooled, prospect, word_p_value

PREFIX = "claim_"


@dataclass(frozen=True)
class Judged:
    """A claim with what one look at it found, and its second look. ``effect`` and ``margin`` are in the shown unit of ``metric``.

    Attributes:
        starts: seed to base policy.
        looks: numbers of seeds at which the design looks.
        declaration, protocol: fingerprints (`harness.experiment.claim`, `.replication`).
        second: the same claim on other seeds and base policies, None where nobody looked again.
        chance: of a second look, the probability that was declared for it to say the first one's word, if the first effect is true.
    """

    name: str
    title: str
    claim: dict[str, str]
    finding: Finding
    effect: Estimate
    margin: float
    metric: Metric
    engaged: str
    share: float
    generated_tokens: float
    hours: float
    declared_after: bool
    system: str = ""
    reference: str = ""
    regime: str = ""
    commit: str = ""
    declaration: str = ""
    protocol: str = ""
    looks: tuple[int, ...] = ()
    starts: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    second: Judged | None = None
    chance: float = math.nan

    @property
    def seeds(self) -> int:
        """Training seeds behind the effect."""
        return self.effect.seeds

    @property
    def most_seeds(self) -> int:
        """Seeds at the last look."""
        return max([*self.looks, self.seeds])

    @property
    def unit(self) -> str:
        """Of effect and margin."""
        return self.metric.unit

    @property
    def sentence(self) -> str:
        """The effect in words."""
        return describe(self.effect.scaled(1 / self.metric.scale), self.metric)

    @property
    def word(self) -> str:
        """The finding, with its margin where that belongs to it."""
        margin = f" within {self.margin:g} {self.unit}" if self.finding is Finding.NOTHING else ""
        return f"{self.finding}{margin}"

    @property
    def verdict(self) -> str:
        """The word of this look, or of both; seeds that are still to come, and whether it was declared after the fact."""
        after = f", {self.unfinished}" if self.unfinished else ""
        late = " (declared after the fact)" if self.declared_after else ""
        if self.second is None:
            return f"{self.word}{after}{late}"
        said = f"{self.answer}: {self.word}, then {self.second.word}"
        if self.answer is Second.REPLICATED:
            said = f"{self.word.replace(' here', '')}, {self.answer}"
        elif self.second.unfinished:
            said = f"{self.word}; second look: {self.second.unfinished}"
        return f"{said}{late}"

    @property
    def answer(self) -> Second | None:
        """What the second look says of the first one's word; None without one."""
        return None if self.second is None else second_look(self.finding, self.second.finding)

    @property
    def unfinished(self) -> str:
        """Such as `8 of up to 16 seeds run` where looks are left that could decide it, else nothing."""
        left = self.finding is Finding.OPEN and self.seeds < self.most_seeds
        return f"{self.seeds} of up to {self.most_seeds} seeds run" if left else ""

    @property
    def decided(self) -> bool:
        """True of a word that a second look can repeat."""
        return self.finding in DECIDED

    def prospect(self, looks: Sequence[int]) -> Prospect:
        """What a second look with these numbers of seeds can be expected to do."""
        return prospect(self.effect, looks, self.claim["expects"], self.finding)

    @cached_property
    def p_value(self) -> float:
        """The evidence for the word: of two looks the weaker one, 1 where a word says nothing (`harness.statistics.replication`)."""
        own = word_p_value(self.effect, self.looks, self.finding, self.claim["expects"])
        if self.second is None:
            return own
        again = word_p_value(self.second.effect, self.second.looks, self.finding, self.claim["expects"])
        return max(own, again)

    @cached_property
    def both(self) -> Estimate | None:
        """The effect over both looks; None where `not_pooled` says why."""
        if self.second is None or self.not_pooled:
            return None
        return pooled(self.effect, self.second.effect, self.looks, self.second.looks)

    @property
    def not_pooled(self) -> str:
        """Why both looks have no common interval; empty where they have, or where there is no second one."""
        if self.second is None:
            return ""
        if self.protocol != self.second.protocol:
            return "the two looks have different protocols"
        if any(len({*one.starts.values()}) < 2 for one in (self, self.second)):
            return "each look is about one base policy"
        if not all(one.effect.degrees >= 1 for one in (self, self.second)):
            return "a look has no interval"
        return ""

    @property
    def seeds_to_decide(self) -> int:
        """Seeds after which an open claim's interval would be narrow enough for a word, if the effect is what was found; 0: unknown."""
        effect, expects = self.effect.value, self.claim["expects"]
        distance = {
            "not_lower": abs(effect + self.margin),
            "not_higher": abs(effect - self.margin),
            "equivalent": abs(self.margin - abs(effect)),
        }.get(expects, max(abs(effect), self.margin - abs(effect)))
        half = (self.effect.high - self.effect.low) / 2
        known = self.finding is Finding.OPEN and math.isfinite(half) and distance > 0
        return math.ceil(self.seeds * (half / distance) ** 2) if known else 0


def with_second(first: Judged, second: Judged) -> Judged:
    """Both looks at a claim; where one was declared after the fact, both say so."""
    late = first.declared_after or second.declared_after
    return replace(first, second=replace(second, declared_after=late), declared_after=late)


def effect_of(one: Judged, look: str = FIRST) -> Effect:
    """The row of a look in the record."""
    effect, words = one.effect, one.claim
    return Effect(
        experiment=f"{PREFIX}{one.name}",
        look=look,
        title=one.title,
        system=one.system,
        reference=one.reference,
        regime=one.regime,
        metric=one.metric.name,
        unit=one.metric.unit,
        seeds=joined(one.starts) or str(one.seeds),
        starts=joined(one.starts.values()),
        looks=joined(one.looks),
        effect=effect.value,
        low=effect.low,
        high=effect.high,
        level=effect.level,
        standard_error=effect.standard_error,
        degrees=effect.degrees,
        margin=one.margin,
        expects=words["expects"],
        words=one.finding.value,
        engagement=one.engaged,
        share=one.share,
        tokens=one.generated_tokens,
        hours=one.hours,
        chance=one.chance,
        declared_after=one.declared_after,
        declaration=one.declaration,
        protocol=one.protocol,
        commit=one.commit,
        statement=words["statement"],
        source=words["source"],
        setting=words["setting"],
        differs=words["differs"],
        notes=" | ".join(one.notes),
    )


def effects_of(found: Sequence[Judged]) -> list[Effect]:
    """The rows of claims, a second look behind its first one."""
    return [
        effect_of(look, name)
        for one in found
        for look, name in ((one, FIRST), (one.second, SECOND))
        if look is not None
    ]


def judged_of(row: Effect) -> Judged:
    """A look that only its row in a record tells of."""
    starts = dict(zip(map(int, row.seeds.split()), row.starts.split(), strict=False))
    estimate = Estimate(
        row.effect,
        row.low,
        row.high,
        seeds=len(starts),
        standard_error=row.standard_error,
        degrees=row.degrees,
        level=row.level,
        margin=row.margin,
    )
    return Judged(
        name=row.experiment.removeprefix(PREFIX),
        title=row.title,
        claim={key: getattr(row, key) for key in ("statement", "source", "setting", "expects", "differs")},
        finding=Finding(row.words),
        effect=estimate,
        margin=row.margin,
        metric=metric(row.metric),
        engaged=row.engagement,
        share=row.share,
        generated_tokens=row.tokens,
        hours=row.hours,
        chance=row.chance,
        declared_after=row.declared_after,
        system=row.system,
        reference=row.reference,
        regime=row.regime,
        commit=row.commit,
        declaration=row.declaration,
        protocol=row.protocol,
        looks=tuple(map(int, row.looks.split())),
        starts=starts,
        notes=tuple(filter(None, row.notes.split(" | "))),
    )
