"""The reference points: what the protocol's runs gave where they were made, and whether they belong to what ships beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id
from harness.configuration.schema import RunConfig
from harness.execution.contents import content_hashes
from harness.execution.numbers import protocol

FILE = Path(__file__).with_name("reference.json")
_ANEW = "`python -m harness.execution.numbers.make_reference OUT` makes them anew"


@dataclass(frozen=True)
class Reference:
    """Reference points.

    Attributes:
        version: of the protocol.
        made_with: code, packages and machine.
        bases: content of the base policies that take turns, in order.
        problems: content hashes of the problem sets.
        arms: arm → hash of its configuration.
        log_probs: base policy → what it gives to fixed responses, in nats (see `harness.training.base_log_probs`).
        runs: arm → seed → statistic → value.
    """

    version: int
    made_with: dict[str, Any]
    bases: list[str]
    problems: dict[str, str]
    arms: dict[str, str]
    log_probs: dict[int, list[float]]
    runs: dict[str, dict[int, dict[str, float]]]

    def values(self, arm: str, statistic: str) -> dict[int, float]:
        """Seed → value of one statistic."""
        return {seed: run[statistic] for seed, run in self.runs[arm].items()}

    def base(self, seed: int) -> int:
        """The place of a seed's base policy among those that take turns."""
        return seed % len(self.bases)

    def text(self) -> str:
        """The file's content."""
        return json.dumps(asdict(self), indent=1) + "\n"


def belonging(configs: Mapping[str, RunConfig]) -> dict[str, Any]:
    """What reference points hold of the protocol's plain configurations, to tell whether they belong to them."""
    return {
        "version": protocol.VERSION,
        "bases": next(iter(configs.values())).model.bases.identity(),
        "problems": content_hashes(configs.values()),
        "arms": {arm: arm_id(config) for arm, config in configs.items()},
    }


def read_reference(path: Path = FILE) -> Reference:
    """The reference points of a file, which belong to the base policies, problems and protocol of this package.

    Raises:
        ConfigError: the file is absent or damaged, or belongs to others.
    """
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no reference points in {path} ({error}); reinstall rlvr-harness, or {_ANEW}"
        ) from error
    names = [item.name for item in fields(Reference)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        raise ConfigError(f"{path} does not hold {', '.join(names)}; {_ANEW}")
    here = belonging(protocol.check_configs())
    said = {
        "bases": "base policies",
        "problems": "problems",
        "arms": "run configurations",
        "version": "a protocol",
    }
    for key, what in said.items():
        if values[key] != here[key]:
            raise ConfigError(
                f"the reference points in {path.name} were made with other {what} than this package has ({key}): "
                f"they tell nothing about it; {_ANEW}".replace("other a", "another")
            )
    numbered = {"log_probs": {int(base): found for base, found in values["log_probs"].items()}}
    numbered["runs"] = {
        arm: {int(seed): found for seed, found in runs.items()} for arm, runs in values["runs"].items()
    }
    return Reference(**{**values, **numbered})
