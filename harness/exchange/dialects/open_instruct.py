"""open-instruct's GRPO (allenai/open-instruct, v0.1 to e6c3044): flags of `open_instruct/grpo_fast.py`.

Read in open_instruct: grpo_utils.py (`compute_grpo_loss`, `compute_rho_correction`), model_utils.py (`estimate_kl`), data_loader.py
(advantages, filters, rewards) and grpo_fast.py. A right answer earns `verification_reward` (10), a wrong one 0; deviations are the
population's. Responses are packed and dealt to devices, so mini-batches there take no whole groups. The learning rate moves with every
optimiser update. Truncated responses that are "masked" leave the batch before groups are formed again by position. `rho` is π_trainer /
π_sampler.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects._declared import (
    BOUND,
    NO_CLIP,
    OVER_ONE,
    UNCAPPED,
    Case,
    Dialect,
    lacking,
    of,
    refuse,
    stale,
)
from harness.exchange.dialects._release import Values

ADVANTAGE, SURROGATE, CORRECTION = "algorithm.advantage", "algorithm.surrogate", "algorithm.engine_correction"
ALSO = ("model_name_or_path", "model_revision", "dataset_mixer_list", "exp_name", "chat_template_name")
_PROGRAMS = ("grpo_fast.py", "grpo_vllm_thread_ray_gtrl.py", "grpo.py")
_RHO = "use_rho_correction"
_CLAMP, _MASK = (
    [f"rho_clamp_{side}_bound" for side in ("lower", "upper")],
    [f"rho_mask_{side}_bound" for side in ("lower", "upper")],
)
_TOKEN = {_RHO: True, "rho_mask_sequence_level": False, "rho_mask_tv_divergence": False}
_CAP = "truncated_importance_sampling_ratio_cap"
_GROUP = of(ADVANTAGE, kind="group", baseline="group_mean")
_REFILL = {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "reward"}
CHOICES = {
    SURROGATE: (
        Case(
            {"loss_fn": "dapo", "clip_lower": 1.0, "clip_higher": NO_CLIP},
            of(SURROGATE, kind="policy_gradient", importance_weighted=True),
        ),
        Case(
            {"loss_fn": "dapo"}, of(SURROGATE, kind="ppo_clip", dual_clip=None),
            [("clip_lower", f"{SURROGATE}.clip_low", BOUND), ("clip_higher", f"{SURROGATE}.clip_high")],
        ),
        Case(
            {"loss_fn": "cispo"}, of(SURROGATE, kind="clipped_is", cap_min=0.0),
            [("clip_higher", f"{SURROGATE}.cap_max", OVER_ONE)],
        ),
    ),
    ADVANTAGE: (
        Case(
            {"advantage_normalization_type": "standard"},
            _GROUP | {f"{ADVANTAGE}.scale": "group_std", f"{ADVANTAGE}.ddof": 0, f"{ADVANTAGE}.epsilon": 1e-8},
        ),
        Case({"advantage_normalization_type": "centered"}, _GROUP | of(ADVANTAGE, scale="none")),
    ),
    CORRECTION: (
        Case({_RHO: False, _CAP: 0.0}, of(CORRECTION, kind="none")),
        Case({_RHO: False}, of(CORRECTION, kind="token", floor=0.0), [(_CAP, f"{CORRECTION}.cap")]),
        Case(
            {**_TOKEN, _MASK[0]: 0.0, _MASK[1]: 0.0}, of(CORRECTION, kind="token"),
            [(_CLAMP[0], f"{CORRECTION}.floor"), (_CLAMP[1], f"{CORRECTION}.cap", UNCAPPED)],
        ),
        Case(
            {**_TOKEN, _CLAMP[0]: 0.0, _CLAMP[1]: 0.0}, of(CORRECTION, kind="token_mask"),
            [(_MASK[0], f"{CORRECTION}.floor"), (_MASK[1], f"{CORRECTION}.cap", UNCAPPED)],
        ),
        Case(
            {_RHO: True}, of(CORRECTION, kind="token_mask"), [(_MASK[0], f"{CORRECTION}.floor"), (_MASK[1], f"{CORRECTION}.cap", UNCAPPED)],
            lost="tokens' weights are cut and masked, or masked by response there; here the one or the other",
        ),
    ),
    f"{CORRECTION}.old_log_probs": (
        Case({"use_vllm_logprobs": True}, of(CORRECTION, old_log_probs="sampler")),
        Case({"use_vllm_logprobs": False}, of(CORRECTION, old_log_probs="recomputed")),
    ),
    "algorithm.dead_groups": (
        Case({"active_sampling": True}, _REFILL),
        Case({"active_sampling": False, "filter_zero_std_samples": True}, of("algorithm.dead_groups", policy="drop", metric="reward")),
        Case({"active_sampling": False, "filter_zero_std_samples": False}, of("algorithm.dead_groups", policy="keep")),
    ),
}  # fmt: skip
_KL = {0: "k1", 1: "k2", 2: "k3"}
_OLD_KL = {"kl1": 0, "kl2": 1, "kl3": 2, "kl4": 3}


def _there(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer, reward = config.algorithm, config.optimizer, config.algorithm.reward
    per_step, size = (
        algorithm.updates_per_step * algorithm.epochs_per_step,
        algorithm.prompts_per_step * algorithm.responses_per_prompt,
    )
    falls = (
        optimizer.decay
        if optimizer.decay != "none"
        else "constant_with_warmup"
        if optimizer.warmup_steps
        else "constant"
    )
    out.settings |= {
        "total_episodes": size * config.training.steps, "lr_scheduler_type": falls,
        "warmup_ratio": optimizer.warmup_steps / config.training.steps,
        "verification_reward": reward.correct, "stop_strings": list(config.sampling.stop_strings),
        "async_steps": max(1, config.sampling.lag_steps),
        "inflight_updates": False, "mask_truncated_completions": algorithm.overlong.masks, "beta": algorithm.kl.coefficient,
        "load_ref_policy": algorithm.kl.coefficient > 0, "no_resampling_pass_rate": getattr(algorithm.curriculum, "pass_rate", None),
        "non_stop_penalty": algorithm.overlong.policy == "wrong", "non_stop_penalty_value": reward.wrong,
    }  # fmt: skip
    if not config.sampling.lag_steps:
        out.cannot("sampling.lag_steps", 0, "open-instruct is at least one step ahead of its sampler")
    if optimizer.final_share and optimizer.decay != "none":
        out.cannot("optimizer.final_share", optimizer.final_share, "transformers' schedules end at 0")
    if optimizer.warmup_steps and per_step > 1:
        out.notes.append(
            "the learning rate rises with every optimiser update there, here with every rollout step"
        )
    exact = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    for name, value in exact.items():
        if getattr(optimizer, name) != value:
            out.cannot(f"optimizer.{name}", getattr(optimizer, name), f"open-instruct's AdamW has {value:g}")
    if reward.wrong or reward.format_credit:
        out.cannot(
            "algorithm.reward",
            f"wrong {reward.wrong:g}, format {reward.format_credit:g}",
            "a wrong answer earns 0 there, and a format is a tag's",
        )
    _terms_there(config, out)


def _terms_there(config: RunConfig, out: Translation) -> None:
    algorithm, kl = config.algorithm, config.algorithm.kl
    estimator = next((number for number, kind in _KL.items() if kind == kl.kind), None)
    if kl.coefficient and (estimator is None or kl.placement != "loss" or kl.reset_every_steps):
        out.cannot(
            "algorithm.kl", f"{kl.kind} in the {kl.placement}", "open-instruct has k1, k2 and k3 in the loss"
        )
    out.settings["kl_estimator"] = 2 if estimator is None else estimator
    aggregation, update = (
        algorithm.aggregation,
        algorithm.prompts_per_step * algorithm.responses_per_prompt // algorithm.updates_per_step,
    )
    denominators: dict[str, Callable[[], str]] = {
        "batch_token_mean": lambda: "token",
        "token_sum": lambda: "1",
        "constant_sum": lambda: f"{aggregation.constant_tokens * update:g}",
    }
    if aggregation.kind in denominators:
        out.settings["loss_denominator"] = denominators[aggregation.kind]()
    else:
        out.cannot("algorithm.aggregation", aggregation.kind, "a mean over tokens, or a sum over a constant")
    if algorithm.overlong.masks:
        out.cannot(
            "algorithm.overlong.policy",
            algorithm.overlong.policy,
            "responses leave the batch before groups are formed there",
        )
    elif algorithm.overlong.punishes:
        out.cannot(
            "algorithm.overlong.policy", algorithm.overlong.policy, "open-instruct has no soft punishment"
        )
    if algorithm.curriculum.kind not in ("uniform", "retire"):
        out.cannot(
            "algorithm.curriculum.kind",
            algorithm.curriculum.kind,
            "problems retire there by no_resampling_pass_rate only",
        )
    if algorithm.dead_groups.policy == "refill":
        out.notes.append(
            "max_rounds: open-instruct refills without limit; it asks for async_steps of at least 2"
        )


def _here(given: Values, beside: Beside, out: Translation) -> None:
    ours, epochs = out.settings, given.count("num_epochs")
    prompts, samples = (
        given.count(f"num_{name}") for name in ("unique_prompts_rollout", "samples_per_prompt_rollout")
    )
    steps = given.count("total_episodes") // (prompts * samples)
    ours["training.steps"] = max(1, steps)
    if prompts % ours["algorithm.updates_per_step"]:
        out.cannot(
            "num_mini_batches",
            ours["algorithm.updates_per_step"],
            f"packed responses are divided there; {prompts} prompts here in updates of whole groups",
        )
        del ours["algorithm.updates_per_step"]
    per_step = given.count("num_mini_batches") * epochs
    kind = str(given.get("lr_scheduler_type"))
    experiment.decay(kind, {}, "lr_scheduler_type", out)
    warm = given.number("warm_up_steps", 0) or int(steps * per_step * given.number("warmup_ratio"))
    ours["optimizer.warmup_steps"] = 0 if kind == "constant" else math.ceil(warm / per_step)
    ours["sampling.stop_strings"] = list(given.get("stop_strings") or [])
    ours["optimizer.beta1"], ours["optimizer.beta2"] = given.release.code["adam_betas"]
    ours["optimizer.epsilon"] = given.release.code["adam_epsilon"]
    stale("async_steps", given.count("async_steps"), out)
    given.idle("inflight_updates", "async_mode")
    _terms(given, prompts * samples // given.count("num_mini_batches"), out)
    _rewards(given, out)
    _experiment(given, beside, out)


def _terms(given: Values, responses: int, out: Translation) -> None:
    beta, estimator = given.number("beta"), given.get("kl_estimator")
    estimator = _OLD_KL.get(estimator, estimator)
    out.settings["algorithm.kl.coefficient"] = beta
    if beta and estimator not in _KL:
        out.cannot(
            "kl_estimator", estimator, "the log-ratio weighted by the importance ratio has no counterpart"
        )
    elif beta:
        out.settings["algorithm/kl"] = _KL[estimator]
    if beta and given.get("ref_policy_update_freq") is not None:
        out.cannot(
            "ref_policy_update_freq",
            given.get("ref_policy_update_freq"),
            "the reference moves towards the policy there",
        )
    given.idle("alpha", "ref_policy_update_freq", "load_ref_policy", "kl_estimator")
    denominator = given.get("loss_denominator")
    if denominator == "token":
        out.settings["algorithm/aggregation"] = "batch_token_mean"
        return
    summed = float(denominator) == 1
    out.settings["algorithm/aggregation"] = "token_sum" if summed else "constant_sum"
    if not summed:
        out.settings["algorithm.aggregation.constant_tokens"] = float(denominator) / responses
    if out.settings.get("algorithm.dead_groups.policy") == "drop":
        out.settings["algorithm.dead_groups.policy"] = "keep"  # the constant does not shrink with the groups
        if beta:
            out.cannot(
                "filter_zero_std_samples",
                True,
                "dead groups have no KL term there; with loss_denominator they are kept here",
            )


def _rewards(given: Values, out: Translation) -> None:
    right = float(given.number("verification_reward")) if given.number("apply_verifiable_reward") else 0.0
    out.settings |= {
        "algorithm.reward.correct": right,
        "algorithm.reward.wrong": 0.0,
        "algorithm.overlong.policy": "score",
    }
    out.notes.append(f"rewards are {right:g} for a right answer and 0 for a wrong one")
    if given.number("non_stop_penalty") and given.number("non_stop_penalty_value") == 0:
        out.settings["algorithm.overlong.policy"] = "wrong"
    elif given.number("non_stop_penalty"):
        out.cannot(
            "non_stop_penalty_value",
            given.number("non_stop_penalty_value"),
            "truncated responses earn a wrong answer's 0 here",
        )
    if given.number("mask_truncated_completions"):
        out.settings["algorithm.overlong.policy"] = "mask"
        out.cannot(
            "mask_truncated_completions",
            True,
            "truncated responses leave the batch there before groups are formed by position",
        )
    if given.number("active_sampling"):
        out.cannot(
            "active_sampling",
            True,
            "refilled without limit there; algorithm.dead_groups.max_rounds bounds a step here",
        )
    rate = given.number("no_resampling_pass_rate")
    if rate is not None:
        out.settings |= {"algorithm/curriculum": "retire", "algorithm.curriculum.pass_rate": float(rate)}
    given.idle(
        "filter_zero_std_samples",
        "non_stop_penalty_value",
        "r1_style_format_reward",
        "additive_format_reward",
        "verification_reward",
    )
    refuse(given, out, {
        "apply_verifiable_reward": (True, "verifiers give the reward here"),
        "apply_r1_style_format_reward": (False, "tags of thought and answer earn a reward of their own there"),
        "apply_evolving_rubric_reward": (False, "rubrics that a model writes score responses there"),
        "remap_verifier": (None, "another verifier grades some problems there"),
        "max_steps": (None, "responses here have one turn"),
    })  # fmt: skip
    if given.given.get("tools"):
        out.cannot("tools", given.get("tools"), "responses here have one turn and call no tools")
    given.idle("mask_tool_use")


def _experiment(given: Values, beside: Beside, out: Translation) -> None:
    if beside.program is not None and not beside.program.endswith(_PROGRAMS):
        out.cannot(
            "program",
            beside.program,
            "no GRPO trainer of open-instruct: what its code does is not known here",
        )
    named = given.given.get("dataset_mixer_list")
    mixer = (
        [str(word) for word in named]
        if isinstance(named, list)
        else [named]
        if isinstance(named, str)
        else []
    )
    given.idle("dataset_mixer_list", "dataset_transform_fn")
    sets, split = mixer[::2], given.get("dataset_mixer_list_splits")
    if len(sets) > 1:
        out.cannot(
            "dataset_mixer_list",
            f"{len(sets)} data sets",
            "task=dataset reads one; join them to a file with task.path",
        )
    data = (
        experiment.Data(
            sets[0], split if isinstance(split, str) else split[0], "messages.0.content", "ground_truth"
        )
        if sets
        else None
    )
    if len(mixer) == 2 and mixer[1] not in ("1.0", "1"):
        out.notes.append(
            f"dataset_mixer_list: {mixer[1]} of {mixer[0]} there; task.limit=N takes the first N"
        )
    if "chat_template_name" in given:
        out.notes.append(
            f"chat_template_name={given.get('chat_template_name')}: the model's own template here; give its words as task.template"
        )
    if "system_prompt_override_file" in given:
        out.cannot(
            "system_prompt_override_file",
            given.get("system_prompt_override_file"),
            "give its text as task.system",
        )
    longest = given.number("max_prompt_token_length")
    out.notes.append(
        f"max_prompt_token_length={longest}: longer prompts are left out there, all are kept here"
    )
    experiment.run_of(
        given.given.get("model_name_or_path"), {"rank": 0}, data, out, given.given.get("model_revision")
    )
    given.idle("model_name_or_path", "model_revision")
    if "seed" in given:
        out.settings["seed"] = int(given.number("seed"))


DIALECT = Dialect(
    "open_instruct",
    "open-instruct",
    rows=(
        ("num_unique_prompts_rollout", "algorithm.prompts_per_step"),
        ("num_samples_per_prompt_rollout", "algorithm.responses_per_prompt"),
        ("num_mini_batches", "algorithm.updates_per_step"),
        ("num_epochs", "algorithm.epochs_per_step"),
        ("response_length", "sampling.max_response_tokens"),
        ("temperature", "sampling.temperature"),
        ("vllm_top_p", "sampling.top_p"),
        ("learning_rate", "optimizer.learning_rate"),
        ("weight_decay", "optimizer.weight_decay"),
        ("max_grad_norm", "optimizer.max_gradient_norm"),
    ),
    choices=CHOICES,
    fixed={
        "algorithm.importance_ratio": ("token", "open-instruct has token ratios"),
        "sampling.top_k": (0, "open-instruct samples from the whole distribution"),
    },
    without=lacking(
        "open-instruct", ("lag_steps", "stop_strings", "algorithm.curriculum.kind", "format_credit")
    ),
    there=(_there,),
    here=(_here,),
)
export, overrides = DIALECT.export, DIALECT.overrides
