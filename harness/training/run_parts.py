"""The parts of a run, wired together, and how far it has come. The steps are taken in `harness.training.loop`."""

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.registry import SOURCE, implementation
from harness.configuration.schema import RunConfig
from harness.model.ranks import ALONE, Ranks
from harness.objective.objective import Objective
from harness.reward.shaping import Grader
from harness.rollout.wrappers import WeightSync
from harness.sampling.selection import Selection
from harness.sampling.source import Source, SourceContext
from harness.store import RunDir
from harness.training.checkpoints import Checkpoints, as_data, has_transformers_checkpoint, warn_of_lost_steps
from harness.training.opening import build_engine, open_policy
from harness.training.pulse import Pulse
from harness.training.task import TaskParts
from harness.training.update import Updater


@dataclass
class Progress:
    """How far a run has come: all that its steps change besides weights, optimiser and curriculum.

    Attributes:
        step, updates: rollout steps and optimiser updates made.
        generated_tokens: of all ranks, so far.
        waiting: groups rolled out ahead of their steps, oldest first.
        row: metrics of the newest step while its evaluation is still to come.
    """

    step: int = 0
    updates: int = 0
    generated_tokens: int = 0
    waiting: list[Selection] = field(default_factory=list)
    row: dict[str, Any] | None = None

    def counts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("step", "updates", "generated_tokens")}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what a checkpoint has; one of the last step has the counts alone."""
        vars(self).update({name: state[name] for name in self.counts()})
        self.waiting = [Selection.of_state(item) for item in state.get("waiting", ())]
        self.row = state.get("row")


class RunParts(TaskParts):
    """All parts of one run, wired together; on several ranks each rank has its own.

    Attributes:
        warned: a warning was given that the engine samples from another policy than the trainer's.
    """

    def __init__(
        self,
        config: RunConfig,
        run: RunDir,
        initial: Path,
        linear_kernel: str,
        grader: Grader,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(config, run, initial, linear_kernel, grader, ranks)
        self.progress, self.warned = Progress(), False
        self.pulse = Pulse(self.ranks)
        self.params = replace(self.params, watch=self.pulse)
        # The policy and what trains it.
        self.policy = open_policy(config, initial, linear_kernel, self.ranks, has_transformers_checkpoint(run))
        self.updater = Updater(config, self.policy, Objective(config.algorithm), self.ranks, self.pulse)
        self.checkpoints = Checkpoints(
            run, config.runtime.keep_checkpoints, self.policy, self.updater.optimizer, self.ranks
        )
        # The engine, which is closed where a part after it cannot be made.
        self.engine = build_engine(config, self.policy, self.tokenizer)
        with ExitStack() as on_failure:
            on_failure.callback(self.engine.close)
            self.sync = WeightSync(self.engine, self.policy, self.prompts, self.params, self.ranks)
            # Where responses come from.
            source, score = config.algorithm.source, self.updater.score_responses
            context = SourceContext(
                config, self.policy, self.engine, self.tokenizer, self.problems, self.prompts, score
            )
            self.source: Source = implementation(SOURCE, source).build(source, context)
            self.evaluator = self.evaluator_of(self.engine, self.pulse, self.ranks)
            on_failure.pop_all()

    def close(self) -> None:
        self.engine.close()

    def budget_spent(self) -> bool:
        return self.config.training.is_spent(self.progress.step, self.progress.generated_tokens)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs besides weights and optimiser: tensors and plain values.

        Random numbers need no state: they are counter-based.
        """
        return {**self.updater.state(), "curriculum": self.curriculum.state(), **as_data(self.progress)}

    def resume(self) -> None:
        """Go back to the newest checkpoint, or to step 0 where there is none."""
        state = self.checkpoints.newest()
        if self.ranks.first and state is None:
            warn_of_lost_steps(self.run, self.config)
        if self.ranks.first:  # what a broken-off attempt made beyond the checkpoint is of another policy
            self.run.rewind(state["step"] if state else 0)
        self.ranks.from_first(None)  # nobody looks for samples before
        if state is None:
            return
        self.progress.restore(state)
        if self.budget_spent():  # trained to its end, and stopped before that was recorded
            return
        self.updater.restore(state)
        self.curriculum.restore(state["curriculum"])

    def require_positions(self) -> None:
        """Refuse before the first step what an engine would refuse at the step that draws the longest prompt."""
        longest, problem = max((len(ids), item.id) for ids, item in zip(self.prompts, self.problems, strict=True))
        cap, positions = self.config.sampling.max_response_tokens, self.engine.positions
        if positions is not None and longest + cap > positions:
            prompt = f"the prompt of training problem {problem} has {longest} tokens"
            raise ConfigError(f"{prompt}; with sampling.max_response_tokens={cap} it exceeds the {positions} positions")
