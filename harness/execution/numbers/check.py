"""The check itself: train the few runs, read them, compare."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.configuration.schema import RunConfig
from harness.execution.dispatch import dispatch_runs
from harness.execution.numbers import protocol
from harness.execution.numbers.compare import Finding, Found, compare
from harness.execution.numbers.measured import measured
from harness.execution.numbers.reference import Reference, read_reference
from harness.execution.progress import Progress
from harness.execution.supervise import Summary
from harness.store import ResultStore
from harness.store.errors import write_errors

FIXED_RESPONSES = 64
COMMAND = "harness doctor numbers=true"


@dataclass(frozen=True)
class Outcome:
    """What came of the check: the findings, or none where runs are missing; `summary` says which, `root` is where they lie."""

    findings: list[Finding]
    summary: Summary
    root: Path
    reference: Reference

    @property
    def right(self) -> bool:
        """Whether everything was compared and is inside."""
        return self.summary.complete and all(finding.inside for finding in self.findings)


def check_numbers(overrides: Sequence[str], progress: Progress) -> Outcome:
    """Train two arms with a few seeds in a new folder of the results root, apart from all experiments, and compare with the reference.

    Args:
        overrides: of engine, backend and runtime.
        progress: who is told.

    Returns:
        The outcome. Runs of a check that found nothing wrong are deleted, others stay for a look.

    Raises:
        ConfigError: an override changes what is compared, the launcher does not wait, or the reference points belong to other runs.
        StoreError: nothing can be written.
    """
    configs = protocol.check_configs(overrides)
    reference = read_reference()
    root = _new_folder(Path(next(iter(configs.values())).runtime.results))
    configs = placed(configs, root)
    summary = train(configs, protocol.CHECK_SEEDS, progress)
    findings = compare(found(configs, protocol.CHECK_SEEDS), reference) if summary.complete else []
    outcome = Outcome(findings, summary, root, reference)
    if outcome.right:
        shutil.rmtree(root, ignore_errors=True)
    return outcome


def _new_folder(results: Path) -> Path:
    """A folder that nobody else has: finished runs are never run again, and these must be."""
    with write_errors(results):
        results.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{protocol.NAME}-", dir=results))


def placed(configs: Mapping[str, RunConfig], root: Path) -> dict[str, RunConfig]:
    """The configurations with a results root of their own and no trackers."""
    return {
        arm: dataclasses.replace(
            config, runtime=dataclasses.replace(config.runtime, results=str(root), trackers={})
        )
        for arm, config in configs.items()
    }


def train(configs: Mapping[str, RunConfig], seeds: Iterable[int], progress: Progress) -> Summary:
    """Bring the runs of all arms and seeds to their end."""
    runtime = next(iter(configs.values())).runtime
    runs = list(protocol.specs(configs, list(seeds)).values())
    return dispatch_runs(
        runs, ResultStore(runtime.results), runtime, progress, command=COMMAND, experiment=protocol.NAME
    )


def found(configs: Mapping[str, RunConfig], seeds: Sequence[int]) -> Found:
    """What finished runs gave, and what their base policies say to fixed responses (computed in this process)."""
    from harness.training.base_log_probs import base_log_probs

    first = next(iter(configs.values()))
    store = ResultStore(first.runtime.results)
    runs: dict[str, dict[int, dict[str, float]]] = {arm: {} for arm in configs}
    for (arm, seed), spec in protocol.specs(configs, seeds).items():
        runs[arm][seed] = measured(store.run(spec.run_id))
    bases = sorted({first.model.bases.index(seed) for seed in seeds})
    log_probs = {
        base: base_log_probs(dataclasses.replace(first, seed=base), store.root / "cache", FIXED_RESPONSES)
        for base in bases
    }
    return Found(runs, log_probs, protocol.own_noise(first))
