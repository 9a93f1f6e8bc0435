"""One run as a job of a launcher that is not ours: in a process of joblib or Ray, or as a job of Slurm."""

import contextlib
import dataclasses
import shutil
import sys
import tempfile
import time
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from harness.configuration.error import ConfigError
from harness.configuration.identity import arm_id, run_id
from harness.configuration.schema import RunConfig, load
from harness.execution.progress import PlainProgress
from harness.execution.slurm import RequeueError, requeue_if_it_has_to_leave, slurm_job
from harness.execution.supervisor import dispatch
from harness.experiment.checks import absent, refusals
from harness.experiment.data import content_hashes
from harness.experiment.plan import Plan, RunSpec
from harness.experiment.planning import cost_labels, plan_jobs
from harness.store import ResultStore, StoreError

_SECONDS_TO_LEAVE = 600.0
OUR_SWEEPER = "design"


def run_job(config: DictConfig) -> int | None:
    """Bring the composed run to its end here, or a part of the way where a stop comes; returns the signal of that.

    Raises `ConfigError`, `StoreError` and `RequeueError`, which the launcher takes home.
    """
    hydra = HydraConfig.get()
    sweeper, launcher = (hydra.runtime.choices[f"hydra/{part}"] for part in ("sweeper", "launcher"))
    try:
        if sweeper != OUR_SWEEPER:
            raise ConfigError(
                f"hydra/sweeper={sweeper} goes with hydra/launcher=processes, which plans the jobs that it gets; leave hydra/sweeper out "
                f"for hydra/launcher={launcher}"
            )
        return _train(config, list(hydra.overrides.task), f"job {hydra.job.num} of a sweep")
    except (ConfigError, StoreError, RequeueError) as error:
        _leave_nothing(Path(hydra.runtime.output_dir), hydra.output_subdir)
        print(error, file=sys.stderr)
        kind = next(kind for kind in (ConfigError, StoreError, RequeueError) if isinstance(error, kind))
        raise kind(str(error)) from None  # as it goes through a pickle


def _train(config: DictConfig, job: list[str], command: str) -> int | None:
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    experiment = (values.pop("experiment", None) or {}).get("name", "")
    run = load({str(key): value for key, value in values.items()})
    local_run = dataclasses.replace(run, runtime=dataclasses.replace(run.runtime, elsewhere=False))
    if reasons := [*refusals(local_run), *absent(local_run)]:
        raise ConfigError(f"this run cannot be trained here: {'; '.join(reasons)}")
    store, name = ResultStore(run.runtime.results), run_id(run)
    old_step = store.run(name).resume_step()
    spec = RunSpec(run, name, arm_id(run), labels_of(run, name, experiment, store, job))
    with tempfile.TemporaryDirectory(prefix="harness-leases-") as leases:
        summary = dispatch(
            [spec],
            store,
            PlainProgress(sys.stdout),
            command,
            content_hashes([run]),
            Path(leases) if slurm_job() else None,
        )
    if requeue_if_it_has_to_leave(summary, store.run(name).resume_step() > old_step):
        time.sleep(_SECONDS_TO_LEAVE)  # Slurm ends this job; a return would say that it is done
    return summary.stopped_by


def labels_of(run: RunConfig, name: str, experiment: str, store: ResultStore, job: list[str]) -> dict[str, str]:
    """The labels that the stored plan has for a run; those of a sweep of one where another command wrote its plan over that."""
    plan = Plan.read(store.plan(experiment)) if experiment in store.plans() else None
    if plan is None or not any(name in arm.runs.values() for arm in plan.arms):
        plan = plan_jobs([job], job)
    arm = next(arm.name for arm in plan.arms if name in arm.runs.values())
    return {"experiment": plan.name, "arm": arm, **cost_labels(run)}


def _leave_nothing(directory: Path, subdirectory: str | None) -> None:
    """Remove what Hydra wrote of a run that is refused before it begins, and the folders that are empty without it."""
    if subdirectory and not (directory / "config.yaml").exists():
        shutil.rmtree(directory / subdirectory, ignore_errors=True)
    for folder in (directory, *directory.parents[:2]):
        with contextlib.suppress(OSError):
            folder.rmdir()
