"""How much of the training data the difference between two arms affected."""

from dataclasses import dataclass, fields

from harness.engagement.measure import Measure
from harness.statistics.intervals import Estimate, Verdict


class Untested(Estimate):
    """A difference that is not resolved, of a mechanism that hardly acted: whatever its interval, it says nothing of the mechanism."""

    @property
    def verdict(self) -> Verdict:
        """Nothing is known, however small the difference is."""
        return Verdict.NOT_RESOLVED

    def words(self, scale: float = 1.0, unit: str = "") -> str:
        """``not tested``."""
        return "not tested"


@dataclass(frozen=True)
class Engagement:
    """A difference's measures and their values: fractions, NaN where nothing is known."""

    measures: tuple[Measure, ...] = ()
    values: tuple[float, ...] = ()

    @property
    def hardly(self) -> bool:
        """Say if everything that differs is measured, known, and under its threshold."""
        return bool(self.measures) and all(map(Measure.hardly, self.measures, self.values))

    def judged(self, estimate: Estimate) -> Estimate:
        """The estimate of the difference, or the same as one that tests nothing; one whose sign is known came from somewhere."""
        if not self.hardly or estimate.resolved or estimate.seeds < 2:
            return estimate
        return Untested(**{item.name: getattr(estimate, item.name) for item in fields(estimate)})

    def text(self, resolved: bool = False) -> str:
        """``14 % of responses``, each mechanism of several by its name; beside a resolved difference none is called hardly engaged."""
        mark = not (resolved and self.hardly)
        pairs = zip(self.measures, self.values, strict=True)
        texts = [(measure.name if measure.fields else "", measure.text(value, mark)) for measure, value in pairs]
        return "; ".join(f"{name}: {text}" if name and len(texts) > 1 else text for name, text in texts if text)
