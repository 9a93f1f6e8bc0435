"""A published claim that an experiment decides, declared before its runs. A second look at it is a claim file with other seeds."""

from dataclasses import dataclass
from typing import Any

from harness.configuration.error import ConfigError, require

EXPECTS = ("higher", "lower", "equivalent", "not_higher", "not_lower")


@dataclass
class Claim:
    """The prediction that the only comparison of the experiment is held against.

    Attributes:
        statement: the claim in a sentence.
        source: paper and section, and how much of it was read.
        setting: the source's models and data.
        expects: what the source predicts of arm minus reference: higher, lower, equivalent (within the margin), not_higher or not_lower
            (by the margin or more).
        differs: which difference between the source's setting and this one could explain another result.
    """

    statement: str
    source: str
    setting: str
    expects: str
    differs: str

    def __post_init__(self) -> None:
        require("experiment.claim.expects", self.expects, EXPECTS)
        for name in ("statement", "source", "setting", "differs"):
            if not getattr(self, name).strip():
                raise ConfigError(f"experiment.claim.{name} is empty; a claim says it before it is run")


def check_claim(claim: Claim, arms: list[dict[str, Any]], metrics: list[str], margin: object) -> None:
    """Raise `ConfigError` unless one comparison in one metric decides the claim, with a margin."""
    if len(arms) != 2:
        raise ConfigError(f"experiment.claim: one comparison decides a claim, so two arms; there are {len(arms)}")
    if len(metrics) != 1:
        raise ConfigError("experiment.claim: one metric decides a claim; declare another claim for the other")
    if margin is None:
        raise ConfigError(f"experiment.claim: expects={claim.expects} needs experiment.margin")
