"""SkyRL (NovaSky-AI/SkyRL, skyrl_train v0.1 to v0.4 as train-0.1 to train-0.4, skyrl v0.1 to a956457): its dotted keys.

Read in skyrl/backends/skyrl_train/utils/ppo_utils.py, off_policy_correction_utils.py, skyrl/backends/skyrl_train/workers/worker.py,
skyrl/train/trainer.py and examples/train/algorithms/dapo/main_dapo.py. Batches are counted in prompts, warm-up in optimiser updates. Its
KL term is a mean over each response's tokens and then over responses, whatever the loss reduction is; its entropy bonus is a mean over
tokens. Masks by importance weights leave the denominators as they are, as here. `token_mean` was that of each micro-batch before 0.2.
"""

from __future__ import annotations

import math
from typing import Any

from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects._declared import (
    BOUND,
    MINUS_OFF,
    NO_CLIP,
    OVER_ONE,
    UNDER_ONE,
    Case,
    Dialect,
    lacking,
    length,
    of,
    refuse,
    soft_overlong,
    stale,
    updates,
)
from harness.exchange.dialects._release import Values

ALGORITHM, POLICY = "trainer.algorithm", "trainer.policy"
OPTIMIZER, SAMPLING = f"{POLICY}.optimizer_config", "generator.sampling_params"
ADVANTAGE, SURROGATE, CORRECTION = "algorithm.advantage", "algorithm.surrogate", "algorithm.engine_correction"
_OVERLONG = (
    f"{ALGORITHM}.overlong_buffer_len",
    f"{ALGORITHM}.overlong_buffer_penalty_factor",
)  # of its DAPO example
ALSO = ("data.val_data", *_OVERLONG)
_LOSS, _REDUCTION, _ESTIMATOR = (
    f"{ALGORITHM}.{name}" for name in ("policy_loss_type", "loss_reduction", "advantage_estimator")
)
_STD, _WHITE = f"{ALGORITHM}.grpo_norm_by_std", f"{ALGORITHM}.advantage_batch_normalize"
_LOW, _HIGH, _DUAL = (f"{ALGORITHM}.{name}" for name in ("eps_clip_low", "eps_clip_high", "clip_ratio_c"))
_CLIPS = ((_LOW, f"{SURROGATE}.clip_low", BOUND), (_HIGH, f"{SURROGATE}.clip_high"))
_OFF = f"{ALGORITHM}.off_policy_correction"
_TIS, _MASK = f"{_OFF}.tis_ratio_type", f"{_OFF}.sequence_mask_metric"
_SAMPLER, _RECOMPUTED = (
    of(CORRECTION, old_log_probs="sampler"),
    of(CORRECTION, old_log_probs="recomputed"),
)
_KL = (f"{ALGORITHM}.use_kl_loss", f"{ALGORITHM}.use_kl_in_reward")
_PENALTY, _KIND = f"{ALGORITHM}.kl_loss_coef", f"{ALGORITHM}.kl_estimator_type"
_FILTER, _SAMPLED = f"{ALGORITHM}.zero_variance_filter", f"{ALGORITHM}.dynamic_sampling.type"
_PPO, _TOKEN, _SEQUENCE = (
    of(SURROGATE, kind="ppo_clip"),
    {"algorithm.importance_ratio": "token"},
    {"algorithm.importance_ratio": "sequence"},
)
_GROUP = of(ADVANTAGE, kind="group")
_EXACT = {f"{ADVANTAGE}.ddof": 1, f"{ADVANTAGE}.epsilon": 1e-6}


def _loss(name: str, kind: str, rows: Any = (), **more: Any) -> Case:
    """A policy loss by name, whose ratio is to the old policy and of tokens."""
    fields = {f"{SURROGATE}.{key}": value for key, value in more.items()}
    return Case({_LOSS: name}, of(SURROGATE, kind=kind) | fields | _TOKEN | _RECOMPUTED, rows)


def _estimator(name: str, baseline: str, scale: str, more: Any = None, **theirs: Any) -> Case:
    keys = {f"{ALGORITHM}.{key}": value for key, value in theirs.items()}
    ours = _GROUP | of(ADVANTAGE, baseline=baseline, scale=scale)
    return Case({_ESTIMATOR: name, _WHITE: False} | keys, ours | (more or {}))


_CISPO, _DPPO = f"{ALGORITHM}.cispo", f"{ALGORITHM}.dppo"
_CAPS = (
    (f"{_CISPO}.cispo_eps_clip_low", f"{SURROGATE}.cap_min", UNDER_ONE),
    (f"{_CISPO}.cispo_eps_clip_high", f"{SURROGATE}.cap_max", OVER_ONE),
)  # fmt: skip
_THRESHOLDS = (
    (f"{_DPPO}.delta_low", f"{SURROGATE}.threshold_low"),
    (f"{_DPPO}.delta_high", f"{SURROGATE}.threshold_high"),
)
CHOICES = {
    SURROGATE: (
        Case(
            {_LOSS: "regular", _LOW: 1.0, _HIGH: NO_CLIP},
            of(SURROGATE, kind="policy_gradient", importance_weighted=True) | _TOKEN | _RECOMPUTED,
        ),
        _loss("regular", "ppo_clip", _CLIPS, dual_clip=None),
        Case({_LOSS: "gspo"}, _PPO | of(SURROGATE, dual_clip=None) | _SEQUENCE | _RECOMPUTED, _CLIPS),
        _loss("dual_clip", "ppo_clip", (*_CLIPS, (_DUAL, f"{SURROGATE}.dual_clip"))),
        Case(
            {_LOSS: "cispo", f"{_CISPO}.cispo_anchor": "rollout", _TIS: None},
            of(SURROGATE, kind="clipped_is") | _TOKEN | _SAMPLER, _CAPS,
        ),
        _loss("cispo", "clipped_is", _CAPS),
        _loss("sapo", "soft_gate", ((f"{ALGORITHM}.sapo.tau_pos", f"{SURROGATE}.temperature_positive"),
                                    (f"{ALGORITHM}.sapo.tau_neg", f"{SURROGATE}.temperature_negative"))),
        Case(
            {_LOSS: "clip_cov"}, of(SURROGATE, kind="clip_cov") | _TOKEN | _RECOMPUTED,
            (*_CLIPS, (f"{ALGORITHM}.clip_cov.clip_ratio", f"{SURROGATE}.fraction"),
             (f"{ALGORITHM}.clip_cov.clip_cov_lb", f"{SURROGATE}.low"),
             (f"{ALGORITHM}.clip_cov.clip_cov_ub", f"{SURROGATE}.high")),
            lost="covariance and share of tokens are those of each micro-batch there, of the update here",
        ),
        Case(
            {_LOSS: "kl_cov"}, of(SURROGATE, kind="kl_cov") | _TOKEN | _RECOMPUTED,
            ((f"{ALGORITHM}.kl_cov.kl_cov_frac", f"{SURROGATE}.fraction"), (f"{ALGORITHM}.kl_cov.ppo_kl_coef", f"{SURROGATE}.coefficient")),
            lost="covariance and share of tokens are those of each micro-batch there, and the penalty has no reduction; here of the update",
        ),
        *(
            Case(
                {_LOSS: "dppo", f"{_DPPO}.dppo_type": f"binary_{name}"},
                of(SURROGATE, kind="divergence_mask", divergence=name, cap=round(math.exp(20))) | _TOKEN | _SAMPLER,
                _THRESHOLDS,
            )
            for name in ("tv", "kl")
        ),
        Case({_LOSS: "importance_sampling"}, of(SURROGATE, kind="policy_gradient", importance_weighted=True) | _RECOMPUTED),
        Case(
            {_LOSS: "rollout_is"}, of(SURROGATE, kind="clipped_is") | _TOKEN | _SAMPLER, (),
            lost="tokens whose ratio to the sampler is outside the bounds have no gradient there; here it is cut",
        ),
    ),
    "algorithm.aggregation": (
        Case({_REDUCTION: "token_mean"}, {"algorithm.aggregation.kind": "batch_token_mean"}),
        Case({_REDUCTION: "sequence_mean"}, {"algorithm.aggregation.kind": "response_mean"}),
        Case({_REDUCTION: "prompt_mean"}, {"algorithm.aggregation.kind": "group_token_mean"}),
        Case(
            {_REDUCTION: "seq_mean_token_sum_norm"}, {"algorithm.aggregation.kind": "constant_sum"},
            [(f"{ALGORITHM}.max_seq_len", "algorithm.aggregation.constant_tokens")],
        ),
        Case(
            {_REDUCTION: "token_mean_legacy"}, {"algorithm.aggregation.kind": "microbatch_token_mean"},
            [("trainer.micro_train_batch_size_per_gpu", "algorithm.aggregation.micro_batch_responses")],
        ),
    ),
    ADVANTAGE: (
        _estimator("grpo", "group_mean", "group_std", _EXACT, grpo_norm_by_std=True),
        _estimator("grpo", "group_mean", "none", grpo_norm_by_std=False),
        _estimator("rloo", "leave_one_out", "none"),
        _estimator("maxrl", "group_mean", "group_mean", {f"{ADVANTAGE}.epsilon": 1e-6}),
        Case(
            {_ESTIMATOR: "reinforce++", _WHITE: False},
            of(ADVANTAGE, kind="return_to_go", baseline="none", whiten_over="tokens", ddof=1, epsilon=1e-8),
        ),
        Case(
            {_ESTIMATOR: "gae", _WHITE: False},
            of(ADVANTAGE, kind="gae", whiten_over="tokens", ddof=1, epsilon=1e-8, length_adaptive_alpha=None),
            [(f"{ALGORITHM}.gamma", f"{ADVANTAGE}.discount"), (f"{ALGORITHM}.lambd", f"{ADVANTAGE}.lambda_policy"),
             (f"{ALGORITHM}.lambd", f"{ADVANTAGE}.lambda_value"), (f"{ALGORITHM}.value_clip", f"{ADVANTAGE}.critic.value_clip"),
             ("trainer.critic.optimizer_config.lr", f"{ADVANTAGE}.critic.learning_rate"),
             ("trainer.critic.optimizer_config.max_grad_norm", f"{ADVANTAGE}.critic.max_gradient_norm")],
        ),
        Case({_WHITE: True}, _GROUP, lost="the batch's mean is over padding, too, there, and its deviation over tokens"),
    ),
    CORRECTION: (
        Case({_TIS: None, _MASK: None, f"{_OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="none")),
        Case(
            {_TIS: "token", _MASK: None, f"{_OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="token", floor=0.0),
            [(f"{_OFF}.token_tis_ratio_clip_high", f"{CORRECTION}.cap")],
        ),
        Case(
            {_TIS: "sequence", _MASK: None, f"{_OFF}.token_mask_is_threshold_high": None},
            of(CORRECTION, kind="sequence", floor=0.0), [(f"{_OFF}.sequence_tis_ratio_clip_high", f"{CORRECTION}.cap")],
        ),
        Case(
            {_TIS: None, _MASK: "geometric", f"{_OFF}.token_mask_is_threshold_high": None}, of(CORRECTION, kind="geometric_mask"),
            [(f"{_OFF}.geo_mask_high", f"{CORRECTION}.cap"), (f"{_OFF}.geo_mask_low", f"{CORRECTION}.floor")],
        ),
        Case(
            {_TIS: "sequence", _MASK: "product", f"{_OFF}.sequence_tis_ratio_clip_high": NO_CLIP}, of(CORRECTION, kind="sequence_mask"),
            [(f"{_OFF}.product_mask_high", f"{CORRECTION}.cap"), (f"{_OFF}.product_mask_low", f"{CORRECTION}.floor")],
        ),
        Case(
            {_TIS: "token", _MASK: None, f"{_OFF}.token_tis_ratio_clip_high": NO_CLIP}, of(CORRECTION, kind="token_mask"),
            [(f"{_OFF}.token_mask_is_threshold_high", f"{CORRECTION}.cap"), (f"{_OFF}.token_mask_is_threshold_low", f"{CORRECTION}.floor")],
        ),
    ),
    "algorithm.dead_groups": (
        Case(
            {_SAMPLED: "filter"}, {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "reward"},
            [(f"{ALGORITHM}.dynamic_sampling.max_sample_batches", "algorithm.dead_groups.max_rounds")],
        ),
        Case({_SAMPLED: None, _FILTER: True}, {"algorithm.dead_groups.policy": "drop", "algorithm.dead_groups.metric": "reward"}),
        Case({_SAMPLED: None, _FILTER: False}, {"algorithm.dead_groups.policy": "keep"}),
        Case({_SAMPLED: "replace"}, {}, lost="dead groups are replaced by copies of live ones there"),
    ),
}  # fmt: skip


def _there(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer, kl = config.algorithm, config.optimizer, config.algorithm.kl
    per_step = algorithm.updates_per_step * algorithm.epochs_per_step
    warm, falls = optimizer.warmup_steps * per_step, optimizer.decay != "none"
    out.settings |= {
        f"{OPTIMIZER}.adam_betas": [optimizer.beta1, optimizer.beta2], f"{OPTIMIZER}.num_warmup_steps": warm,
        f"{OPTIMIZER}.scheduler": optimizer.decay if falls else "constant_with_warmup", "trainer.max_training_steps": config.training.steps,
        _KL[0]: kl.coefficient > 0 and kl.placement == "loss", _KL[1]: kl.coefficient > 0 and kl.placement == "reward",
        _PENALTY: kl.coefficient, f"{ALGORITHM}.use_entropy_loss": bool(algorithm.entropy_coefficient),
        f"{ALGORITHM}.entropy_loss_coef": algorithm.entropy_coefficient, f"{SAMPLING}.stop": config.sampling.stop_strings or None,
        "generator.apply_overlong_filtering": algorithm.overlong.masks,
        "generator.zero_reward_on_non_stop": algorithm.overlong.policy == "wrong",
    }  # fmt: skip
    if optimizer.warmup_steps and per_step > 1:
        out.notes.append(
            "num_warmup_steps counts optimiser updates and rises with each; here with every rollout step"
        )
    if falls and optimizer.final_share:
        out.cannot("optimizer.final_share", optimizer.final_share, "transformers' schedules end at 0")
    advantage = algorithm.advantage
    if advantage.kind == "gae" and advantage.lambda_value != advantage.lambda_policy:
        out.cannot("algorithm.advantage.lambda_value", advantage.lambda_value, "SkyRL has one lambda")
        out.settings[f"{ALGORITHM}.lambd"] = advantage.lambda_policy
    if optimizer.epsilon != 1e-8:
        out.cannot("optimizer.epsilon", optimizer.epsilon, "SkyRL's AdamW has 1e-8")
    if kl.coefficient and kl.kind in ("k1", "k2", "k3"):
        out.settings[_KIND] = kl.kind
        if kl.placement == "loss" and algorithm.aggregation.kind != "response_mean":
            out.cannot("algorithm.kl", kl.kind, "SkyRL's KL term is always a mean of responses' means")
    elif kl.coefficient:
        out.cannot("algorithm.kl", kl.kind, "SkyRL has k1, k2 and k3")
    if kl.coefficient and kl.reset_every_steps:
        out.cannot(
            "algorithm.kl.reset_every_steps",
            kl.reset_every_steps,
            "SkyRL's reference moves at an epoch's end only",
        )
    if algorithm.entropy_coefficient:
        out.notes.append("SkyRL's entropy bonus is a token mean of its own, not reduced like the policy loss")
    _overlong_there(config, out)


def _overlong_there(config: RunConfig, out: Translation) -> None:
    overlong, cap = config.algorithm.overlong, config.sampling.max_response_tokens
    if overlong.punishes:
        out.settings |= {
            _OVERLONG[0]: round(cap * overlong.buffer_fraction),
            _OVERLONG[1]: overlong.penalty,
        }
        out.notes.append(
            "overlong_buffer_* are keys of examples/train/algorithms/dapo/main_dapo.py: run that"
        )
        if overlong.shape != "additive":
            out.cannot("algorithm.overlong.shape", overlong.shape, "SkyRL's punishment is added")
    if overlong.policy == "wrong" and config.algorithm.reward.wrong:
        out.cannot("algorithm.overlong.policy", "wrong", "truncated responses earn 0 there")
    if overlong.masks and overlong.statistics == "exclude":
        out.cannot(
            "algorithm.overlong.statistics", "exclude", "masked responses stay in the group statistics"
        )
    if config.algorithm.dead_groups.policy == "refill":
        out.notes.append("max_sample_batches: SkyRL stops there with an error, here the step trains on less")


def _here(given: Values, beside: Beside, out: Translation) -> None:
    ours = out.settings
    out.settings["optimizer.beta1"], out.settings["optimizer.beta2"] = given.get(f"{OPTIMIZER}.adam_betas")
    ours["optimizer.epsilon"] = given.release.code["optimizer_epsilon"]
    ours["sampling.stop_strings"] = list(given.get(f"{SAMPLING}.stop") or [])
    steps = given.number("trainer.max_training_steps")
    length(given, beside, out, int(steps or 0), "trainer.epochs", ours["algorithm.prompts_per_step"])
    per_step = ours["algorithm.updates_per_step"] * ours["algorithm.epochs_per_step"]
    kind = str(given.get(f"{OPTIMIZER}.scheduler"))
    experiment.decay(kind, {}, f"{OPTIMIZER}.scheduler", out)
    warm = 0 if kind == "constant" else given.number(f"{OPTIMIZER}.num_warmup_steps")
    ours["optimizer.warmup_steps"] = math.ceil(warm / per_step)
    _kl(given, out)
    on = given.number(f"{ALGORITHM}.use_entropy_loss")
    ours["algorithm.entropy_coefficient"] = given.number(f"{ALGORITHM}.entropy_loss_coef") if on else 0.0
    given.idle(f"{ALGORITHM}.entropy_loss_coef")
    if on and ours["algorithm/aggregation"] != "batch_token_mean":
        out.cannot(
            f"{ALGORITHM}.use_entropy_loss",
            True,
            "the bonus is a mean over tokens there, reduced like the loss here",
        )
    if (
        ours["algorithm/aggregation"] == "batch_token_mean"
        and given.release.code["token_mean_over"] == "micro-batch"
    ):
        ours["algorithm/aggregation"] = "microbatch_token_mean"
        ours["algorithm.aggregation.micro_batch_responses"] = given.count(
            "trainer.micro_train_batch_size_per_gpu"
        )
    _overlong_here(given, out)
    _old_keys(given, out)
    _idle(given, beside, out)
    _experiment(given, out)


def _kl(given: Values, out: Translation) -> None:
    in_loss, in_reward = (given.number(key) for key in _KL)
    kind, weight = given.get(_KIND), given.number(_PENALTY)
    out.settings["algorithm.kl.coefficient"] = weight if in_loss or in_reward else 0.0
    if not (in_loss or in_reward) or not weight:
        return
    if kind not in ("k1", "k2", "k3"):
        out.cannot(_KIND, kind, "no counterpart")
        return
    out.settings["algorithm/kl"] = kind
    out.settings["algorithm.kl.placement"] = "loss" if in_loss else "reward"
    if in_loss and out.settings["algorithm/aggregation"] != "response_mean":
        out.cannot(
            _KL[0],
            True,
            "the KL term is a mean of responses' means there; here it is reduced like the policy loss",
        )
    if in_reward and given.get(f"{ALGORITHM}.kl_ctrl.type") != "fixed":
        out.cannot(f"{ALGORITHM}.kl_ctrl.type", given.get(f"{ALGORITHM}.kl_ctrl.type"), "the weight is fixed")


def _overlong_here(given: Values, out: Translation) -> None:
    masked, zeroed = (
        given.number(f"generator.{name}", False)
        for name in ("apply_overlong_filtering", "zero_reward_on_non_stop")
    )
    out.settings["algorithm.overlong.policy"] = "mask" if masked else "wrong" if zeroed else "score"
    if masked and zeroed:
        out.notes.append("zero_reward_on_non_stop beside the mask moves the group's mean there only")
    if _OVERLONG[0] in given:
        cap = given.count(f"{SAMPLING}.max_generate_length")
        soft_overlong(given.count(_OVERLONG[0]), given.number(_OVERLONG[1], 1.0), cap, out)
    dapo = given.get("environment.env_class") == "aime"
    wrong = -1.0 if dapo else 0.0
    out.settings |= {"algorithm.reward.correct": 1.0, "algorithm.reward.wrong": wrong}
    out.notes.append(
        f"rewards are 1 for a right answer and {wrong:g} for a wrong one, as {given.get('environment.env_class')} scores them there"
    )
    if zeroed and wrong:
        out.cannot(
            "generator.zero_reward_on_non_stop",
            True,
            "truncated responses earn 0 there, -1 like wrong ones here",
        )
    if given.number(_FILTER) and out.settings["algorithm/aggregation"] != "batch_token_mean":
        out.cannot(_FILTER, True, "masked groups stay in this reduction's denominators there")
    rounds = out.settings.get("algorithm.dead_groups.max_rounds")
    if rounds is not None and rounds < 0:
        del out.settings["algorithm.dead_groups.max_rounds"]
        out.cannot(
            f"{ALGORITHM}.dynamic_sampling.max_sample_batches",
            rounds,
            "algorithm.dead_groups.max_rounds bounds a step here",
        )


def _old_keys(given: Values, out: Translation) -> None:
    """Older spellings: token weights cut at a cap, and estimators of the KL."""
    if given.number(f"{ALGORITHM}.use_tis", False):
        out.settings |= of(CORRECTION, kind="token", cap=given.number(f"{ALGORITHM}.tis_imp_ratio_cap"))
    given.idle(f"{ALGORITHM}.tis_imp_ratio_cap")
    for key, kind in (("use_kl_estimator_k3", "k3"), ("use_abs_kl", "abs")):
        if given.number(f"{ALGORITHM}.{key}", False) and given.get(_KIND) != kind:
            out.cannot(f"{ALGORITHM}.{key}", True, f"give {_KIND}={kind}")
    refuse(given, out, {
        f"{_OFF}.outlier_token_is_threshold_low": (None, "one token far off masks its response there"),
        f"{_OFF}.outlier_token_is_threshold_high": (None, "one token far off masks its response there"),
        "trainer.update_ref_every_epoch": (False, "the reference moves at every epoch's end there"),
        "generator.max_turns": (1, "responses here have one turn"),
        "trainer.mtp.enabled": (False, "no draft heads are trained here"),
    })  # fmt: skip


def _idle(given: Values, beside: Beside, out: Translation) -> None:
    """Keys of what is not on, and the program."""
    if given.get(f"{ALGORITHM}.policy_loss_type") in ("clip_cov", "kl_cov") and given.get(_TIS):
        out.cannot(_TIS, given.get(_TIS), "these losses are not corrected there")
    off = (f"{_OFF}.", f"{ALGORITHM}.cispo.", f"{ALGORITHM}.sapo.", f"{ALGORITHM}.dppo.", f"{ALGORITHM}.clip_cov.", f"{ALGORITHM}.kl_cov.",
           f"{ALGORITHM}.dynamic_sampling.", "trainer.critic.")  # fmt: skip
    names = ("lambd", "gamma", "value_clip", "max_seq_len", "zero_variance_filter_tol", "kl_ctrl.type")
    others = (
        *(f"{ALGORITHM}.{name}" for name in names),
        _DUAL,
        _LOW,
        _HIGH,
        _STD,
        _KIND,
        _PENALTY,
        "trainer.micro_train_batch_size_per_gpu",
    )
    if given.get(_ESTIMATOR) == "reinforce++" and given.number(f"{ALGORITHM}.gamma") != 1:
        out.cannot(
            f"{ALGORITHM}.gamma", given.number(f"{ALGORITHM}.gamma"), "returns are not discounted here"
        )
    given.idle(*(key for key in given.given if key.startswith(off)), *others)
    asynchronous = given.number("trainer.fully_async.enabled", False) or "async" in str(beside.program)
    if asynchronous:
        one = "main_async" in str(beside.program)
        stale(
            "trainer.fully_async.max_staleness_steps",
            1 if one else given.count("trainer.fully_async.max_staleness_steps", 4),
            out,
        )
    given.idle("trainer.fully_async.max_staleness_steps")
    known = ("main_base", "main_dapo", "async")
    if beside.program is not None and not any(name in beside.program for name in known):
        out.cannot(
            "program", beside.program, "no trainer of SkyRL itself: what its code changes is not known here"
        )


def _experiment(given: Values, out: Translation) -> None:
    lora = f"{POLICY}.model.lora"
    rank = given.number(f"{lora}.rank", 0)
    targets = given.get(f"{lora}.target_modules", "all-linear")
    adapter = {"rank": rank, "alpha": given.number(f"{lora}.alpha", 16), "targets": targets}
    files = given.given.get("data.train_data") or []
    files = [str(one) for one in (files if isinstance(files, list) else [files])]
    given.idle("data.train_data", f"{POLICY}.model.path")
    if len(files) > 1:
        out.cannot("data.train_data", f"{len(files)} files", "task.path takes one; join them")
    name = files[0] if files else None
    data = (
        None if name is None else experiment.Data(name, None, "prompt.0.content", "reward_model.ground_truth")
    )
    verifier = "answer_line" if given.get("environment.env_class") in ("gsm8k", "aime") else "any"
    experiment.run_of(given.given.get(f"{POLICY}.model.path"), adapter, data, out, verifier=verifier)
    env = given.get("environment.env_class")
    if env not in ("gsm8k", "aime"):
        out.cannot("environment.env_class", env, "what this environment asks and rewards is not known here")
    longest = given.number("trainer.max_prompt_length")
    if longest:
        out.notes.append(
            f"trainer.max_prompt_length={longest}: longer prompts are left out there, all are kept here"
        )
    if "trainer.seed" in given:
        out.settings["seed"] = int(given.number("trainer.seed"))


_UPDATES = updates("trainer.train_batch_size", "trainer.policy_mini_batch_size")
DIALECT = Dialect(
    "skyrl",
    "SkyRL",
    rows=(
        ("trainer.train_batch_size", "algorithm.prompts_per_step"),
        ("generator.n_samples_per_prompt", "algorithm.responses_per_prompt"),
        ("trainer.update_epochs_per_batch", "algorithm.epochs_per_step"),
        (f"{SAMPLING}.max_generate_length", "sampling.max_response_tokens"),
        (f"{SAMPLING}.temperature", "sampling.temperature"),
        (f"{SAMPLING}.top_p", "sampling.top_p"),
        (f"{SAMPLING}.top_k", "sampling.top_k", MINUS_OFF),
        (f"{OPTIMIZER}.lr", "optimizer.learning_rate"),
        (f"{OPTIMIZER}.weight_decay", "optimizer.weight_decay"),
        (f"{OPTIMIZER}.max_grad_norm", "optimizer.max_gradient_norm"),
    ),
    choices=CHOICES,
    fixed={},
    without=lacking(
        "SkyRL",
        ("stop_strings", "entropy_coefficient"),
        lag_steps="its asynchronous trainers bound the age of responses",
    ),
    there=(_UPDATES[0], _there),
    here=(_UPDATES[1], _here),
)
export, overrides = DIALECT.export, DIALECT.overrides
