"""NeMo-RL's GRPO (NVIDIA-NeMo/RL, v0.3 to 7ea279a): keys of `examples/configs/grpo_math_1B.yaml`.

Read in nemo_rl/algorithms: loss/loss_functions.py (`ClippedPGLossFn`), advantage_estimator.py, utils.py (`calculate_kl`,
`calculate_baseline_and_std_per_prompt`) and grpo.py. Batches are counted in prompts, the optimiser's in responses. Its default advantage
has mean and deviation of the group's *other* responses and leaves a group's odd one out undivided. Since 0.7 the KL term is weighted by
exp(log π - stop(log π)), which adds the score function's gradient: that of k3 times the ratio where the ratio is 1. The learning rate
moves once a rollout step. Clamps of the KL (20 nats in, 10 out) are not kept.
"""

from __future__ import annotations

from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects._declared import (
    NULL_OFF,
    Dialect,
    lacking,
    length,
    refuse,
    soft_overlong,
    stale,
    updates,
)
from harness.exchange.dialects._nemo_rl_tables import (
    ADVANTAGE,
    ALSO,
    CHOICES,
    GRPO,
    LOSS,
    MEGATRON,
    NAME,
    NORMALISED,
    OTHERS,
    POLICY,
    TORCH,
)
from harness.exchange.dialects._release import Values


def _optimizer_there(config: RunConfig, out: Translation) -> None:
    optimizer, shape = config.optimizer, config.algorithm
    out.settings |= {
        f"{TORCH}.lr": optimizer.learning_rate, f"{TORCH}.weight_decay": optimizer.weight_decay, f"{TORCH}.eps": optimizer.epsilon,
        f"{TORCH}.betas": [optimizer.beta1, optimizer.beta2], f"{POLICY}.megatron_cfg.enabled": False,
        f"{GRPO}.max_num_steps": config.training.steps, f"{POLICY}.max_total_sequence_length": config.sampling.max_response_tokens,
    }  # fmt: skip
    out.notes.append("max_total_sequence_length counts the prompt, too: raise it by the longest prompt")
    constant = {
        "name": "torch.optim.lr_scheduler.ConstantLR",
        "kwargs": {"factor": 1.0, "total_iters": 10**10},
    }
    warm = optimizer.warmup_steps
    rising = {"start_factor": 1 / max(warm, 1), "end_factor": 1.0, "total_iters": warm - 1}
    linear = {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": rising}
    out.settings[f"{POLICY}.scheduler"] = (
        [linear, constant, {"milestones": [warm - 1]}] if warm > 1 else [constant]
    )
    if optimizer.decay != "none":
        out.cannot("optimizer.decay", optimizer.decay, "write its torch scheduler into policy.scheduler")
    if shape.overlong.masks and not out.settings.get(f"{LOSS}.token_level_loss"):
        out.cannot(
            "algorithm.overlong.policy",
            shape.overlong.policy,
            "NeMo-RL's mean over responses leaves masked ones out",
        )


def _optimizer_here(given: Values, beside: Beside, out: Translation) -> None:
    megatron = given.number(f"{POLICY}.megatron_cfg.enabled", False)
    names = ("lr", "weight_decay", *(("adam_beta1", "adam_beta2", "adam_eps") if megatron else ("eps",)))
    found = {name: given.number(f"{MEGATRON if megatron else TORCH}.{name}") for name in names}
    betas = [found.get("adam_beta1"), found.get("adam_beta2")] if megatron else given.get(f"{TORCH}.betas")
    out.settings |= {
        "optimizer.learning_rate": found["lr"], "optimizer.weight_decay": found["weight_decay"], "optimizer.beta1": betas[0],
        "optimizer.beta2": betas[1], "optimizer.epsilon": found["adam_eps" if megatron else "eps"],
    }  # fmt: skip
    name = given.get(f"{MEGATRON}.optimizer") if megatron else given.get(f"{POLICY}.optimizer.name")
    if name not in ("adam", "torch.optim.AdamW"):
        out.cannot("policy.optimizer", name, "AdamW trains here")
    unused = TORCH if megatron else MEGATRON
    given.idle(f"{POLICY}.optimizer", f"{POLICY}.dtensor_cfg.enabled", f"{POLICY}.max_total_sequence_length")
    if megatron:  # clips by a key of its own
        norm = given.number(f"{MEGATRON}.clip_grad", out.settings["optimizer.max_gradient_norm"])
        out.settings["optimizer.max_gradient_norm"] = norm
    given.idle(
        *(key for key in given.given if key.startswith((f"{unused}.", f"{POLICY}.megatron_cfg.scheduler")))
    )
    shape, prompts = out.settings, out.settings["algorithm.prompts_per_step"]
    steps = given.number(f"{GRPO}.max_num_steps")
    if steps is not None and steps < 10**6 and beside.rows is None:
        shape["training.steps"] = int(steps)
        given.idle(f"{GRPO}.max_num_epochs")
    else:
        most = length(given, beside, out, 0, f"{GRPO}.max_num_epochs", prompts)
        shape |= {"training.steps": min(most, int(steps or most))} if most else {}
    _schedule(given, megatron, out)


def _schedule(given: Values, megatron: bool, out: Translation) -> None:
    """A warm-up is linear from a share of the rate; then the rate stays."""
    if megatron:
        part = f"{POLICY}.megatron_cfg.scheduler"
        style, warm = given.get(f"{part}.lr_decay_style"), given.number(f"{part}.lr_warmup_iters") or 0
        first = (given.number(f"{part}.lr_warmup_init") or 0.0) / out.settings["optimizer.learning_rate"]
        given.idle(f"{part}.lr_decay_iters", f"{MEGATRON}.min_lr", f"{POLICY}.scheduler")
    else:
        listed = given.get(f"{POLICY}.scheduler") or []
        rising = [one["kwargs"] for one in listed if str(one.get("name")).endswith(".LinearLR")]
        others = [
            one.get("name")
            for one in listed
            if "name" in one and not str(one["name"]).endswith((".LinearLR", ".ConstantLR"))
        ]
        style = "constant" if not others and len(rising) < 2 else f"{others or listed}"
        warm, first = (
            (rising[0].get("total_iters", 0), rising[0].get("start_factor", 1 / 3)) if rising else (0, 1.0)
        )
    if style != "constant":
        out.cannot(
            "policy.scheduler",
            style,
            "after its warm-up the rate there falls by a scheduler of its own; here it stays",
        )
    exact = abs(first * (warm + 1) - 1) < 1e-6  # s / (warm + 1) at step s, as here
    out.settings["optimizer.warmup_steps"] = warm + 1 if warm and exact else int(warm)
    if warm and not exact:
        out.notes.append(
            f"the learning rate rises over {warm} steps from {first:.3g} of its peak there, from 1/{warm} here"
        )


def _kl_there(config: RunConfig, out: Translation) -> None:
    kl, key = config.algorithm.kl, f"{LOSS}.reference_policy_kl_penalty"
    out.settings[key] = kl.coefficient
    if not kl.coefficient:
        return
    out.settings[f"{LOSS}.reference_policy_kl_type"] = kl.kind[:2]
    out.settings[f"{LOSS}.use_on_policy_kl_approximation"] = False
    if kl.kind != "k3_ratio" or config.algorithm.updates_per_step > 1 or kl.placement != "loss":
        said = f"{kl.kind} in the {kl.placement}"
        out.cannot(
            "algorithm.kl",
            said,
            "NeMo-RL's KL term has the score function's gradient, too: k3_ratio in the loss, with one update a step",
        )


def _kl_here(given: Values, _: Beside, out: Translation) -> None:
    penalty, key = given.number(f"{LOSS}.reference_policy_kl_penalty"), f"{LOSS}.reference_policy_kl_type"
    kind, weighted = given.get(key), given.number(f"{LOSS}.use_on_policy_kl_approximation", False)
    out.settings["algorithm.kl.coefficient"] = penalty
    given.idle(f"{LOSS}.kl_input_clamp_value", f"{LOSS}.kl_output_clamp_value")
    if given.get(f"{LOSS}.use_kl_in_reward") and penalty:
        out.cannot(
            f"{LOSS}.use_kl_in_reward",
            True,
            "there it changes the tokens' advantages, each by its own; here the reward",
        )
    if not penalty:
        return
    score = given.release.code["kl_weight"] == "score"
    out.settings["algorithm/kl"] = "k3_ratio" if kind == "k3" and (score or weighted) else kind
    if weighted:
        out.cannot(
            f"{LOSS}.use_on_policy_kl_approximation",
            True,
            "weights there are relative to the sampler, here to the old policy",
        )
    elif score and (kind != "k3" or out.settings["algorithm.updates_per_step"] > 1):
        out.cannot(
            key,
            kind,
            "since 0.7 the score function's gradient is added with a weight of 1; here that of k3_ratio has the ratio's",
        )


def _overlong_there(config: RunConfig, out: Translation) -> None:
    overlong, cap = config.algorithm.overlong, config.sampling.max_response_tokens
    shaping, buffer = f"{GRPO}.reward_shaping", round(cap * overlong.buffer_fraction)
    out.settings |= {
        f"{GRPO}.overlong_filtering": overlong.masks,
        f"{shaping}.enabled": overlong.punishes or overlong.policy == "wrong",
    }
    if overlong.punishes:
        out.settings |= {
            f"{shaping}.overlong_buffer_length": buffer, f"{shaping}.overlong_buffer_penalty": overlong.penalty,
            f"{shaping}.max_response_length": cap, f"{shaping}.stop_properly_penalty_coef": None,
        }  # fmt: skip
    if overlong.policy == "wrong":
        out.settings[f"{shaping}.stop_properly_penalty_coef"] = 0.0
        if config.algorithm.reward.wrong:
            out.cannot("algorithm.overlong.policy", "wrong", "truncated responses earn 0 there")
    if overlong.punishes and overlong.shape != "additive":
        out.cannot("algorithm.overlong.shape", overlong.shape, "NeMo-RL's punishment is added")
    if overlong.masks and overlong.statistics == "exclude":
        out.cannot(
            "algorithm.overlong.statistics", "exclude", "masked responses stay in the group statistics"
        )
    reward = config.algorithm.reward
    scaled = (reward.correct, reward.wrong) != (1.0, 0.0)
    out.settings[f"{GRPO}.reward_scaling.enabled"] = scaled
    if scaled:
        names = {
            "source_min": 0.0,
            "source_max": 1.0,
            "target_min": reward.wrong,
            "target_max": reward.correct,
        }
        out.settings |= {f"{GRPO}.reward_scaling.{name}": value for name, value in names.items()}
    if reward.format_credit:
        out.cannot("algorithm.reward.format_credit", reward.format_credit, "its math environment gives none")


def _overlong_here(given: Values, _: Beside, out: Translation) -> None:
    shaping, cap = (
        f"{GRPO}.reward_shaping",
        given.count(f"{POLICY}.generation.max_new_tokens")
        or given.count(f"{POLICY}.max_total_sequence_length"),
    )
    out.settings["sampling.max_response_tokens"] = cap
    filtering = given.number(f"{GRPO}.overlong_filtering", False)
    out.settings["algorithm.overlong.policy"] = "mask" if filtering else "score"
    if filtering and out.settings["algorithm/aggregation"] == "response_mean":
        out.cannot(
            f"{GRPO}.overlong_filtering",
            True,
            "masked responses leave the mean over responses there, here they count in it",
        )
    if given.number(f"{shaping}.enabled", False):
        share = given.number(f"{shaping}.stop_properly_penalty_coef")
        longest = given.count(f"{shaping}.max_response_length") or cap
        if share is None:
            soft_overlong(
                given.number(f"{shaping}.overlong_buffer_length"),
                given.number(f"{shaping}.overlong_buffer_penalty"),
                cap,
                out,
            )
            if longest != cap:
                out.cannot(
                    f"{shaping}.max_response_length",
                    longest,
                    f"the punishment ends at the cap of {cap} tokens here",
                )
        elif share == 0 and not filtering:
            out.settings["algorithm.overlong.policy"] = "wrong"
        elif share != 1:
            out.cannot(
                f"{shaping}.stop_properly_penalty_coef",
                share,
                "truncated responses keep their reward here, or earn the wrong one",
            )
    given.idle(*(key for key in given.given if key.startswith(f"{shaping}.")))
    low, high = 0.0, 1.0
    if given.number(f"{GRPO}.reward_scaling.enabled", False):
        source, target = (
            [given.number(f"{GRPO}.reward_scaling.{side}_{end}") for end in ("min", "max")]
            for side in ("source", "target")
        )
        low, high = (
            target[0]
            + (min(max(x, source[0]), source[1]) - source[0])
            / (source[1] - source[0])
            * (target[1] - target[0])
            for x in (0.0, 1.0)
        )
    given.idle(*(key for key in given.given if key.startswith(f"{GRPO}.reward_scaling.")))
    out.settings |= {"algorithm.reward.correct": float(high), "algorithm.reward.wrong": float(low)}
    out.notes.append(
        f"rewards are {high:g} for a right answer and {low:g} for a wrong one, as its math environment scores them"
    )


def _rest_here(given: Values, _: Beside, out: Translation) -> None:
    if f"{ADVANTAGE}.ddof" in out.settings and given.get(NAME) == "grpo":
        out.settings[f"{ADVANTAGE}.ddof"] = given.release.code["std_ddof"]
    for name, key in (("normalize_rewards", NORMALISED), ("use_leave_one_out_baseline", OTHERS)):
        if given.get(f"{GRPO}.adv_estimator.{name}", given.get(key)) != given.get(key):
            out.cannot(
                f"{GRPO}.adv_estimator.{name}",
                given.get(f"{GRPO}.adv_estimator.{name}"),
                f"give {key} the same value",
            )
    if given.number(f"{GRPO}.async_grpo.enabled", False):
        stale(
            f"{GRPO}.async_grpo.max_trajectory_age_steps",
            given.count(f"{GRPO}.async_grpo.max_trajectory_age_steps"),
            out,
        )
    given.idle(
        f"{GRPO}.async_grpo.max_trajectory_age_steps",
        f"{GRPO}.batch_multiplier",
        f"{GRPO}.dynamic_sampling_max_gen_batches",
    )
    refuse(given, out, {
        f"{GRPO}.max_rollout_turns": (1, "responses here have one turn"),
        f"{GRPO}.seq_logprob_error_threshold": (None, "responses far from the sampler's probabilities are masked there"),
        f"{GRPO}.advantage_clip_low": (None, "advantages are not clipped here"),
        f"{GRPO}.advantage_clip_high": (None, "advantages are not clipped here"),
        f"{LOSS}.positive_example_nll_weight": (0.0, "a mean over each micro-batch there, over the update here"),
        "on_policy_distillation": (None, "no teacher trains here"),
    })  # fmt: skip
    _data(given, out)


_SETS = {
    "OpenMathInstruct-2": ("nvidia/OpenMathInstruct-2", "train_1M", "problem", "expected_answer"),
    "DeepScaler": ("agentica-org/DeepScaleR-Preview-Dataset", "train", "problem", "answer"),
    "DAPOMath17K": ("BytedTsinghua-SIA/DAPO-Math-17k", "train", "prompt", "answer"),
    "gsm8k": ("openai/gsm8k", "train", "question", "answer"),
}


def _data(given: Values, out: Translation) -> None:
    lora, peft = f"{POLICY}.dtensor_cfg.lora_cfg", f"{POLICY}.megatron_cfg.peft"
    part = peft if given.number(f"{POLICY}.megatron_cfg.enabled", False) else lora
    rank = given.count(f"{part}.dim") if given.number(f"{part}.enabled", False) else 0
    adapter = {
        "rank": rank,
        "alpha": given.number(f"{part}.alpha", 32),
        "targets": given.get(f"{part}.target_modules") or None,
    }
    given.idle(*(key for key in given.given if key.startswith((lora, peft)) and not key.endswith(".dropout")))
    name = given.get("data.train.dataset_name", given.get("data.dataset_name"))
    source, split, problem, answer = _SETS.get(str(name), (None, None, "input", "output"))
    given.idle(
        "data.default.processor",
        "data.default.env_name",
        "data.processor",
        "data.env_name",
        "data.default.dataset_name",
    )
    for key in ("data.default.prompt_file", "data.prompt_file"):
        if given.get(key) is not None and key in given.given:
            out.notes.append(
                f"{key}={given.get(key)}: task.template=boxed here; give the file's words as task.template"
            )
    file = given.get("data.train.data_path", given.get("data.train_data_path"))
    data = experiment.Data(
        source or str(file), None if source is None else split, problem, answer, template="boxed"
    )
    if source is None and file is None:
        out.cannot(
            "data.train.dataset_name", name, "no task here has this name; give task=dataset with its fields"
        )
    experiment.run_of(given.given.get(f"{POLICY}.model_name"), adapter, data if source or file else None, out)
    given.idle(f"{POLICY}.model_name")
    if f"{GRPO}.seed" in given:
        out.settings["seed"] = int(given.number(f"{GRPO}.seed"))


_UPDATES = updates(
    f"{GRPO}.num_prompts_per_step", f"{POLICY}.train_global_batch_size", f"{GRPO}.num_generations_per_prompt"
)
DIALECT = Dialect(
    "nemo_rl",
    "NeMo-RL",
    rows=(
        (f"{GRPO}.num_prompts_per_step", "algorithm.prompts_per_step"),
        (f"{GRPO}.num_generations_per_prompt", "algorithm.responses_per_prompt"),
        (f"{POLICY}.generation.temperature", "sampling.temperature"),
        (f"{POLICY}.generation.top_p", "sampling.top_p"),
        (f"{POLICY}.generation.top_k", "sampling.top_k", NULL_OFF),
        (f"{POLICY}.max_grad_norm", "optimizer.max_gradient_norm"),
    ),
    choices=CHOICES,
    fixed={
        "algorithm.engine_correction.old_log_probs": (
            "recomputed",
            "NeMo-RL's old log-probabilities are the trainer's own",
        ),
        "algorithm.epochs_per_step": (1, "NeMo-RL passes over a step's groups once"),
    },
    without=lacking(
        "NeMo-RL",
        lag_steps="its asynchronous trainer bounds the age",
        stop_strings="give policy.generation.stop_strings",
    ),
    there=(_UPDATES[0], _optimizer_there, _kl_there, _overlong_there),
    here=(_UPDATES[1], _optimizer_here, _kl_here, _overlong_here, _rest_here),
)
__all__ = ["ALSO", "export", "overrides"]

export, overrides = DIALECT.export, DIALECT.overrides
