"""SkyRL (NovaSky-AI/SkyRL, skyrl_train v0.1 to v0.4 as train-0.1 to train-0.4, skyrl v0.1 to a956457): its dotted keys.

Read in skyrl/backends/skyrl_train/utils/ppo_utils.py, off_policy_correction_utils.py, skyrl/backends/skyrl_train/workers/worker.py,
skyrl/train/trainer.py and examples/train/algorithms/dapo/main_dapo.py. Batches are counted in prompts, warm-up in optimiser updates. Its
KL term is a mean over each response's tokens and then over responses, whatever the loss reduction is; its entropy bonus is a mean over
tokens. Masks by importance weights leave the denominators as they are, as here. `token_mean` was that of each micro-batch before 0.2.
"""

from __future__ import annotations

import math

from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects._declared import (
    MINUS_OFF,
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
from harness.exchange.dialects._skyrl_tables import (
    ALGORITHM,
    ALSO,
    CHOICES,
    CORRECTION,
    DUAL,
    ESTIMATOR,
    FILTER,
    HIGH,
    KIND,
    KL,
    LOW,
    OFF,
    OPTIMIZER,
    OVERLONG,
    PENALTY,
    POLICY,
    SAMPLING,
    STD,
    TIS,
)


def _there(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer, kl = config.algorithm, config.optimizer, config.algorithm.kl
    per_step = algorithm.updates_per_step * algorithm.epochs_per_step
    warm, falls = optimizer.warmup_steps * per_step, optimizer.decay != "none"
    out.settings |= {
        f"{OPTIMIZER}.adam_betas": [optimizer.beta1, optimizer.beta2], f"{OPTIMIZER}.num_warmup_steps": warm,
        f"{OPTIMIZER}.scheduler": optimizer.decay if falls else "constant_with_warmup", "trainer.max_training_steps": config.training.steps,
        KL[0]: kl.coefficient > 0 and kl.placement == "loss", KL[1]: kl.coefficient > 0 and kl.placement == "reward",
        PENALTY: kl.coefficient, f"{ALGORITHM}.use_entropy_loss": bool(algorithm.entropy_coefficient),
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
        out.settings[KIND] = kl.kind
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
            OVERLONG[0]: round(cap * overlong.buffer_fraction),
            OVERLONG[1]: overlong.penalty,
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
    kind, old = (ours.get(f"{CORRECTION}.{name}", "none") for name in ("kind", "old_log_probs"))
    if old == "sampler" and kind != "none":
        out.cannot(OFF, kind, "beside a ratio to the sampler these weights are 1 here")
        ours[f"{CORRECTION}.kind"] = "none"
    _idle(given, beside, out)
    _experiment(given, out)


def _kl(given: Values, out: Translation) -> None:
    in_loss, in_reward = (given.number(key) for key in KL)
    kind, weight = given.get(KIND), given.number(PENALTY)
    out.settings["algorithm.kl.coefficient"] = weight if in_loss or in_reward else 0.0
    if not (in_loss or in_reward) or not weight:
        return
    if kind not in ("k1", "k2", "k3"):
        out.cannot(KIND, kind, "no counterpart")
        return
    out.settings["algorithm/kl"] = kind
    out.settings["algorithm.kl.placement"] = "loss" if in_loss else "reward"
    if in_loss and out.settings["algorithm/aggregation"] != "response_mean":
        out.cannot(
            KL[0],
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
    if OVERLONG[0] in given:
        cap = given.count(f"{SAMPLING}.max_generate_length")
        soft_overlong(given.count(OVERLONG[0]), given.number(OVERLONG[1], 1.0), cap, out)
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
    if given.number(FILTER) and out.settings["algorithm/aggregation"] != "batch_token_mean":
        out.cannot(FILTER, True, "masked groups stay in this reduction's denominators there")
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
        if given.number(f"{ALGORITHM}.{key}", False) and given.get(KIND) != kind:
            out.cannot(f"{ALGORITHM}.{key}", True, f"give {KIND}={kind}")
    refuse(given, out, {
        f"{OFF}.outlier_token_is_threshold_low": (None, "one token far off masks its response there"),
        f"{OFF}.outlier_token_is_threshold_high": (None, "one token far off masks its response there"),
        "trainer.update_ref_every_epoch": (False, "the reference moves at every epoch's end there"),
        "generator.max_turns": (1, "responses here have one turn"),
        "trainer.mtp.enabled": (False, "no draft heads are trained here"),
    })  # fmt: skip


def _idle(given: Values, beside: Beside, out: Translation) -> None:
    """Keys of what is not on, and the program."""
    if given.get(f"{ALGORITHM}.policy_loss_type") in ("clip_cov", "kl_cov") and given.get(TIS):
        out.cannot(TIS, given.get(TIS), "these losses are not corrected there")
    off = (f"{OFF}.", f"{ALGORITHM}.cispo.", f"{ALGORITHM}.sapo.", f"{ALGORITHM}.dppo.", f"{ALGORITHM}.clip_cov.", f"{ALGORITHM}.kl_cov.",
           f"{ALGORITHM}.dynamic_sampling.", "trainer.critic.")  # fmt: skip
    names = ("lambd", "gamma", "value_clip", "max_seq_len", "zero_variance_filter_tol", "kl_ctrl.type")
    others = (
        *(f"{ALGORITHM}.{name}" for name in names),
        DUAL,
        LOW,
        HIGH,
        STD,
        KIND,
        PENALTY,
        "trainer.micro_train_batch_size_per_gpu",
    )
    if given.get(ESTIMATOR) == "reinforce++" and given.number(f"{ALGORITHM}.gamma") != 1:
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
__all__ = ["ALSO", "export", "overrides"]

export, overrides = DIALECT.export, DIALECT.overrides
