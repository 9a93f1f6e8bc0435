"""One machine-readable row an effect: what two arms differ by, how sure that is, and where it comes from.

Claims have a row for each look. `results/published/effects.csv` (and `.parquet`) has those of all published comparisons beside them; a
second look can be taken at a first one that only such a row tells of.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from harness.store import StoreError
from harness.store.atomic import write_file

FIRST, SECOND = "first", "second"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A row. Values are as shown (``unit``); what is not known is empty, or NaN.

    Attributes:
        experiment: its name.
        look: first or second of a claim, empty of a comparison without one.
        title: of the claim or experiment.
        system, reference: the arms, arm minus reference.
        regime: presets, `default` without one, empty where nothing records it.
        metric, unit: what differs.
        seeds: training seeds, or their number where only that is known; ``starts``: the base policy of each.
        looks: numbers of seeds at which the design looks.
        effect, low, high, level, standard_error, degrees: the estimate, its interval and the nominal level of that.
        margin: differences below it do not matter.
        words: of the interval, of a claim those of the claim; ``expects``: what it predicts.
        engagement, share: what the difference touched, in words and as the largest share.
        tokens, hours: generated tokens and core-hours of the runs.
        chance: that a second look says the first one's word, if the first effect is true.
        declaration, protocol, declared_after: fingerprints of what was declared (`harness.experiment.claim`, `.replication`).
        commit: of the code that made the runs.
        statement, source, setting, differs, notes: the claim's own words.
        published: what a paper reports of the same step, in per cent points; ``published_source``: which, on what.
    """

    experiment: str
    look: str = ""
    title: str = ""
    system: str = ""
    reference: str = ""
    regime: str = ""
    metric: str = "avg"
    unit: str = ""
    seeds: str = ""
    starts: str = ""
    looks: str = ""
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    level: float = math.nan
    standard_error: float = math.nan
    degrees: float = math.nan
    margin: float = math.nan
    expects: str = ""
    words: str = ""
    engagement: str = ""
    share: float = math.nan
    tokens: float = math.nan
    hours: float = math.nan
    chance: float = math.nan
    declared_after: bool = False
    declaration: str = ""
    protocol: str = ""
    commit: str = ""
    statement: str = ""
    source: str = ""
    setting: str = ""
    differs: str = ""
    notes: str = ""
    published: float = math.nan
    published_source: str = ""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Effect:
        """Read a row of a file; an unknown column is left out, an absent one has its default.

        Raises:
            StoreError: no experiment is named, or a number is none.
        """
        if not raw.get("experiment"):
            raise StoreError("a row of the record names no experiment")
        found: dict[str, Any] = {}
        for item in fields(cls):
            text = raw.get(item.name, "")
            if text in ("", None):
                continue
            try:
                found[item.name] = (
                    float(text)
                    if item.type == "float"
                    else _truth(text)
                    if item.type == "bool"
                    else str(text)
                )
            except ValueError as error:
                raise StoreError(f"{raw['experiment']}: {item.name}={text!r} is no number") from error
        return cls(**found)

    def record(self) -> dict[str, Any]:
        """The row as plain values, NaN as an empty text."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            key: "" if isinstance(value, float) and math.isnan(value) else value
            for key, value in values.items()
        }


def joined(values: Iterable[object]) -> str:
    """Values with a space between them, as lists stand in a row."""
    return " ".join(map(str, values))


def _truth(text: object) -> bool:
    return str(text).lower() == "true"


def write_effects(rows: Sequence[Effect], path: Path) -> None:
    """Write the rows as ``path`` with the suffixes .csv and .parquet; equal rows give equal CSV bytes."""
    import pandas as pd

    records = [row.record() for row in rows]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [item.name for item in fields(Effect)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_file(path.with_suffix(".csv"), text.getvalue().encode())
    frame = pd.DataFrame([{item.name: getattr(row, item.name) for item in fields(Effect)} for row in rows])
    write_file(path.with_suffix(".parquet"), frame.to_parquet(index=False))


def read_effects(path: Path) -> list[Effect]:
    """Read the rows of a CSV file.

    Raises:
        StoreError: there is no such file, or a row cannot be read; names them.
    """
    if not path.is_file():
        raise StoreError(f"there is no record of effects at {path}")
    with path.open(newline="", encoding="utf-8") as file:
        return [Effect.of(raw) for raw in csv.DictReader(file)]
