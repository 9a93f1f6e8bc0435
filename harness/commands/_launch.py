"""Hydra's launcher and the runs that it takes: given by job number, skipped where they are finished, read from the store afterwards."""

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

from harness.configuration.compose import of_hydra, searchpath
from harness.configuration.error import ConfigError
from harness.execution.progress import Progress
from harness.execution.supervisor import Summary, dispatch
from harness.experiment.plan import Plan, RunSpec
from harness.store import ResultStore, StoreError
from harness.store.reader import run_state

OURS = "processes"  # takes runs as they are planned; every other launcher gets them as overrides
REMOTE = ("submitit_slurm", "ray", "ray_aws", "rq")  # send runs to other machines


@dataclass
class Launch:
    """What launches the runs of one command.

    `specs`: the runs that it was given so far; a job's number is its place among them. `content`: hashes of the data that they read.
    `stopped_by`: the signal that ended a run in this process or here, after which no other begins.
    """

    command: str
    launcher: Launcher | None = None
    name: str = OURS
    content: dict[str, str] = field(default_factory=dict)
    specs: list[RunSpec] = field(default_factory=list)
    returns: list[Sequence[JobReturn]] = field(default_factory=list)
    stopped_by: int | None = None

    @property
    def overrides(self) -> list[str]:
        """What the launcher adds to every run: where its code lies, and that it is sent to another machine."""
        return [item for item in searchpath() if not of_hydra(item)] + ["++runtime.elsewhere=true"] * (
            self.name in REMOTE
        )

    def bring(self, plan: Plan, specs: Sequence[RunSpec], store: ResultStore) -> Summary:
        """Have the launcher bring runs of the plan to their end, and read what became of them."""
        return self.settle(specs, store, lambda left: self._launch(plan, left, store))

    def settle(
        self, specs: Sequence[RunSpec], store: ResultStore, train: Callable[[list[RunSpec]], dict[str, str]]
    ) -> Summary:
        """Have `train` take the runs that are not finished, which tells why jobs of it ended with errors; read what became of all."""
        runs = {spec.run_id: spec for spec in specs}
        old_ids = {name for name in runs if run_state(store, name).status == "finished"}
        left = [spec for name, spec in runs.items() if name not in old_ids]
        errors = train(left) if left and self.stopped_by is None else {}
        return summary_of(list(runs), store, old_ids, errors, self.stopped_by)

    def _launch(self, plan: Plan, specs: Sequence[RunSpec], store: ResultStore) -> dict[str, str]:
        """Run id → why its job ended with an error. Raises what ours raises, and `ConfigError` where another one began no run."""
        assert self.launcher is not None
        first, attempts = len(self.specs), {spec.run_id: run_state(store, spec.run_id).attempts for spec in specs}
        self.specs += specs
        try:
            returns = self.launcher.launch([job_of(plan, spec) for spec in specs], initial_job_idx=first)
        except Exception as error:
            if self.name == OURS or isinstance(error, ConfigError | StoreError | ImportError):
                raise
            begun = [name for name, count in attempts.items() if run_state(store, name).attempts > count]
            return self._errors_of_a_launcher(error, begun, store)
        self.returns.append(returns)
        pairs = zip(specs, returns, strict=True)
        return {spec.run_id: _error_of(job) for spec, job in pairs if job.status == JobStatus.FAILED}

    def _errors_of_a_launcher(self, error: Exception, begun: Sequence[str], store: ResultStore) -> dict[str, str]:
        """Go on where a launcher gave up: what it began may have finished, and what it did not begin may begin later."""
        reason = f"{type(error).__name__}: {error}"
        if begun:
            traceback.print_exception(error)
            print(f"a job died; run the same command again to finish what it left: {self.command}")
            return {name: reason for name in begun if run_state(store, name).status == "lost"}
        # Slurm gives a number again, and tells of the job that had it before.
        if type(error).__name__ == "UncompletedJobError" and "COMPLETED" in str(error):
            print(f"hydra/launcher={self.name}: a job left no result and may start yet: {' '.join(str(error).split())}")
            return {}
        raise ConfigError(f"hydra/launcher={self.name} began no run: {reason}") from error

    def train_here(self, specs: Sequence[RunSpec], store: ResultStore, progress: Progress) -> dict[str, str]:
        """Bring runs to their end in processes of this machine. Run id → why it failed, or could not begin."""
        summary = dispatch(specs, store, progress, self.command, self.content)
        self.stopped_by = summary.stopped_by
        return summary.errors


def job_of(plan: Plan, spec: RunSpec) -> list[str]:
    """A planned run as overrides, for launchers that take nothing else; `experiment.name` says which stored plan has its labels."""
    arm = next(arm for arm in plan.arms if spec.run_id in arm.runs.values())
    return [*arm.overrides, *arm.more, f"seed={spec.seed}", f"++experiment.name={plan.name}"]


def _error_of(job: JobReturn) -> str:
    try:
        _ = job.return_value
    except Exception as error:  # what the job ended with, whatever that is
        return str(error)
    return ""


def summary_of(
    run_ids: Sequence[str],
    store: ResultStore,
    old_ids: Collection[str],
    errors: Mapping[str, str],
    stopped_by: int | None = None,
) -> Summary:
    """Summarise by what the store holds now; runs in `old_ids` were finished before, `errors` are of jobs that ended with one."""
    summary = Summary(skipped=sorted(old_ids), stopped_by=stopped_by)
    for name in (run_id for run_id in run_ids if run_id not in old_ids):
        state, reason = run_state(store, name), errors.get(name, "")
        if state.status == "finished":
            summary.finished.append(name)
            continue
        if state.status == "running":
            summary.elsewhere.append(name)
        elif state.status in ("failed", "unreadable") or (reason and state.status != "interrupted"):
            summary.failed.append(name)
        else:
            (summary.interrupted if state.attempts else summary.not_started).append(name)
        if state.status == "failed":
            reason = reason or str((store.run(name).manifest() or {}).get("error") or "")
        if reason := reason or state.problem:
            summary.errors[name] = reason
    return summary
