"""verl's keys, as its release 0.9.1 reads them: what its table (`verl.yaml`) cannot say in a row, both ways.

Batches are counted in prompts (verl multiplies by `rollout.n` inside). Fixed in verl: ddof 1 and epsilon 1e-6 in the group estimator,
whitening over tokens in REINFORCE++ and GDPO, a dual clip that cannot be switched off (a constant that no ratio reaches stands for none).
Clip bounds of `cispo` are offsets from 1. The actor clips gradients at `optim.clip_grad`.
"""

from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange import dialect
from harness.exchange.dialect import COMPONENTS, NO_CLIP, Settings, Translation

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
OPTIMIZER = f"{ACTOR}.optim"
DEVIATIONS = ("warmup_from_zero", "unbounded_refill", "selection_per_micro_batch")
_BATCH, _MINI = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size"
_STEPS, _WARMUP = "trainer.total_training_steps", f"{OPTIMIZER}.lr_warmup_steps"
_MODE, _MEAN = f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.loss_agg_mode"
_ENTROPY = f"{ACTOR}.entropy_coeff"
_CLIP, _LOW, _HIGH, _DUAL = (f"{ACTOR}.clip_ratio{side}" for side in ("", "_low", "_high", "_c"))
_GDPO_KEYS, _GDPO_WEIGHTS = "algorithm.gdpo_reward_keys", "algorithm.gdpo_reward_weights"
_OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"
_FILTER, _CORRECTION = "algorithm.filter_groups", "algorithm.rollout_correction"
_NO_FLOOR = 1e-9  # a weight that none falls below: verl cuts log-ratios at -20
# Losses that are means of responses whatever loss_agg_mode says.
_RESPONSE_MEANS = ("sapo", "geo_mean")
_KL_PLACES = {  # where the KL term stands → its switch, its coefficient and its estimator
    "loss": (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type"),
    "reward": ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty"),
}
_ESTIMATORS = {"kl": "k1", "mse": "k2", "low_var_kl": "k3", "low_var_kl+": "k3_k2", "k1": "k1", "k2": "k2"}
# With a plus the value is the estimator's and the gradient k2's. In the reward only the value counts.
_ESTIMATORS |= {"k3": "k3", "k3+": "k3_k2", "kl+": "k2", "k1+": "k2", "mse+": "k2", "k2+": "k2"}


def export(config: RunConfig) -> Translation:
    """Return the algorithm's part of a configuration in verl's keys and units."""
    parts = (
        _export_batches, _export_schedule, _export_advantage, _export_loss, _export_kl, _export_overlong, _export_dead_groups,
        _export_correction,
    )  # fmt: skip
    return dialect.export_config("verl", config, parts, {"algorithm.surrogate.kind": "ppo_clip"})


def _export_batches(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer = config.algorithm, config.optimizer
    out.settings |= {
        _MINI: algorithm.prompts_per_step // algorithm.updates_per_step,
        f"{OPTIMIZER}.betas": [optimizer.beta1, optimizer.beta2],
        _STEPS: config.training.steps,
    }
    out.notes.append("train_batch_size and ppo_mini_batch_size count prompts; verl multiplies by rollout.n")
    if algorithm.updates_per_step > 1:
        out.notes.append("verl deals a step's responses out to its GPUs by length: its updates take no whole groups")


def _export_schedule(config: RunConfig, out: Translation) -> None:
    steps = config.optimizer.warmup_steps
    out.settings[_WARMUP] = steps
    if steps:
        out.deviations["warmup_from_zero"] = (
            f"optimizer.warmup_steps={steps}: rollout step s has (s - 1)/{steps} of the learning rate in verl (the first changes "
            f"nothing), s/{steps} here"
        )


def _export_advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if config.algorithm.responses_per_prompt == 1 and advantage.kind == "group":
        out.cannot("algorithm.responses_per_prompt", 1, "verl subtracts no baseline from a group of one")
    if advantage.kind == "decoupled":
        out.settings |= {_GDPO_KEYS: list(COMPONENTS), _GDPO_WEIGHTS: dialect.reward_weights(advantage)}
        out.notes += [
            "verl's gdpo whitens the sum over tokens, here it is divided over sequences",
            f"gdpo_reward_keys: compute_score must return these rewards ({', '.join(COMPONENTS)}) beside the score",
        ]
    elif advantage.kind == "gae":
        out.notes.append("verl's critic begins with a random head, ours with zeros")
        if advantage.lambda_value != advantage.lambda_policy:
            out.cannot("algorithm.advantage.lambda_value", advantage.lambda_value, "verl has one lambda")


def _export_loss(config: RunConfig, out: Translation) -> None:
    algorithm, surrogate, mode = config.algorithm, config.algorithm.surrogate, out.settings[_MODE]
    if algorithm.aggregation.kind == "constant_sum":
        # A sum without a divisor is a divisor of 1 there, too.
        constant = algorithm.aggregation.constant_tokens
        whole = int(constant) if constant == int(constant) else constant
        out.settings |= {_MEAN: "seq-mean-token-sum-norm", f"{ACTOR}.loss_scale_factor": whole}
    if surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
        out.settings |= {_LOW: 1.0, _HIGH: NO_CLIP, _DUAL: NO_CLIP}
    elif surrogate.kind == "ppo_clip":
        out.settings[_CLIP] = surrogate.clip_low
    elif surrogate.kind == "clipped_is":
        out.settings |= {_LOW: 1 - surrogate.cap_min, _HIGH: surrogate.cap_max - 1}
        out.notes.append(
            "cispo's bounds are offsets from 1: cap_min is 1 - clip_ratio_low, cap_max 1 + clip_ratio_high"
        )
    elif surrogate.kind in ("clip_cov", "kl_cov"):
        out.deviations["selection_per_micro_batch"] = (
            f"algorithm.surrogate={mode}: verl centres the covariance and counts its share of tokens in every micro-batch, at least one "
            "token in each; here over the optimiser update"
        )
    # gspo weighs each token's gradient by its own advantage: with a critic, a baseline of tokens or a penalty of tokens these differ.
    kind = algorithm.advantage.kind
    is_per_token = kind == "gae" or (kind == "return_to_go" and algorithm.kl_in_reward)
    if is_per_token and mode == "gspo":
        reason = "verl's gspo weighs each token's gradient by its own advantage, here all of a response's by their mean"
        out.cannot("algorithm.advantage.kind", kind, reason)


def _export_kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    names = {ours: source for source, ours in reversed(_ESTIMATORS.items())}
    if kl.coefficient and kl.reset_every_steps:
        out.cannot("algorithm.kl.reset_every_steps", kl.reset_every_steps, "verl keeps its reference policy")
    for place, (switch, coefficient, estimator) in _KL_PLACES.items():
        used = kl.coefficient > 0 and kl.placement == place
        out.settings[switch] = used
        if used and kl.kind in names:
            out.settings |= {coefficient: kl.coefficient, estimator: names[kl.kind]}
            if kl.kind.startswith("k3"):
                out.notes.append(
                    "verl holds low_var_kl within 10: beyond 2.6 nats between reference and policy it has no gradient there"
                )
        elif used:
            out.cannot("algorithm.kl", kl.kind, "verl weights no KL estimate by the ratio; nearest: low_var_kl (k3)")


def _export_overlong(config: RunConfig, out: Translation) -> None:
    overlong = config.algorithm.overlong
    if overlong.punishes:
        out.settings |= {
            "reward.reward_manager.name": "dapo",
            f"{_OVERLONG}.enable": True,
            f"{_OVERLONG}.len": dialect.buffer_tokens(config, out),
            f"{_OVERLONG}.penalty_factor": overlong.penalty,
            f"{_OVERLONG}.log": False,
            "reward.reward_kwargs.max_resp_len": config.sampling.max_response_tokens,
        }
        if overlong.shape != "additive":
            out.cannot("algorithm.overlong.shape", overlong.shape, "verl's punishment is added")
    if overlong.masks:
        out.cannot("algorithm.overlong.policy", overlong.policy, "verl has no overlong filtering")
    if overlong.policy == "wrong":
        out.cannot("algorithm.overlong.policy", "wrong", "verl's reward function is not told what was truncated")


def _export_dead_groups(config: RunConfig, out: Translation) -> None:
    dead = config.algorithm.dead_groups
    if dead.policy == "never_give_up":
        out.cannot("algorithm.dead_groups.policy", dead.policy, "verl tries no prompt again in a later step")
    if dead.policy != "refill":
        return
    out.settings[f"{_FILTER}.max_num_gen_batches"] = dead.max_rounds
    out.deviations["unbounded_refill"] = (
        f"algorithm.dead_groups.max_rounds={dead.max_rounds}: verl's own trainer ignores max_num_gen_batches and refills until the "
        "batch is full (its DAPO recipe raises there); here the step trains on what it has"
    )


def _export_correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    # In bypass mode the sampler's log-probabilities are the old ones, as ours with old_log_probs=sampler.
    out.settings[f"{_CORRECTION}.bypass_mode"] = correction.old_log_probs == "sampler"
    if correction.kind == "geometric_mask":
        reason = "verl's rollout_rs=seq_mean_k1 takes rejected responses out of the denominators, too"
        out.cannot("algorithm.engine_correction.kind", correction.kind, reason)
    elif correction.kind != "none":
        level, _, mask = correction.kind.partition("_")
        bounds = f"{correction.floor or _NO_FLOOR:g}_{correction.cap:g}"  # two zero the weights outside
        out.settings |= {
            f"{_CORRECTION}.rollout_is": level,
            f"{_CORRECTION}.rollout_is_threshold": bounds if mask else correction.cap,  # one cuts those above
        }
        if correction.floor and not mask:
            out.cannot("algorithm.engine_correction.floor", correction.floor, "verl cuts weights above the cap only")


def translate(values: Mapping[str, Any], devices: int | None = None) -> Translation:
    """Return verl's resolved configuration as overrides of ours. Raises `ConfigError`, also for `devices`: verl counts over all of them."""
    if devices is not None:
        raise ConfigError("devices= is for from=trl: verl counts its batches over all devices")
    parts = (_batches, _optimizer, _length, _advantage, _clip, _kl, _overlong, _correction, _model)
    values = dict(values)
    for old, new in dialect.load_table("verl").renamed.items():
        if values.get(old) is not None and values.get(new) is None:
            values[new] = values.pop(old)
    return dialect.translate_config("verl", values, parts, {})


def _batches(source: Settings, out: Translation) -> None:
    batch, mini = source.count(_BATCH), source.count(_MINI)
    if batch and mini and batch % mini:
        raise ConfigError(f"{_BATCH}={batch} prompts are no multiple of {_MINI}={mini}; mend one of them")
    if batch and mini:
        out.set("algorithm.updates_per_step", batch // mini)
    elif mini:
        out.cannot(_MINI, mini, f"{_BATCH} is not given")


def _optimizer(source: Settings, out: Translation) -> None:
    betas, clip, old = source.numbers(f"{OPTIMIZER}.betas"), f"{OPTIMIZER}.clip_grad", f"{ACTOR}.grad_clip"
    if betas is not None and len(betas) != 2:
        raise ConfigError(f"{OPTIMIZER}.betas={betas} are not two numbers")
    out.set("optimizer.beta1", betas[0] if betas else 0.9)  # as all releases without the key
    out.set("optimizer.beta2", betas[1] if betas else 0.999)
    if source.number(old) and clip not in source:  # before 0.8
        out.set("optimizer.max_gradient_norm", source.number(old))
    elif old in source and source.get(old) != source.get(clip):
        out.cannot(old, source.get(old), f"read by nothing from verl 0.8 on, where {clip} clips; before, it was this")
    override_key = f"{OPTIMIZER}.override_optimizer_config"
    if override_key in source and not source.get(override_key):
        out.set("optimizer.epsilon", 1e-8)  # AdamW's own
    elif override_key in source:
        out.cannot(override_key, source.get(override_key), "only its eps has a counterpart")


def _length(source: Settings, out: Translation) -> None:
    """Training steps, and the warm-up: none, 0 or less means its share of the training steps."""
    total, epochs = source.count(_STEPS), source.number("trainer.total_epochs")
    if total:
        out.set("training.steps", total)
    elif epochs is not None:
        out.cannot("trainer.total_epochs", epochs, f"the length follows from the size of the data set; give {_STEPS}=N")
    steps, ratio = source.number(_WARMUP, -1), source.number(f"{_WARMUP}_ratio", 0.0)
    if steps <= 0 < ratio and not total:
        out.cannot(f"{_WARMUP}_ratio", ratio, f"a share of {_STEPS}; give it")
    elif _WARMUP in source or f"{_WARMUP}_ratio" in source:
        ratio_steps = int(ratio * (total or 0)) if ratio > 0 else 0
        out.set("optimizer.warmup_steps", int(steps) if steps > 0 else ratio_steps)
    if steps > 0 and ratio:
        out.notes.append(f"{_WARMUP}_ratio={ratio} has no effect in verl beside {_WARMUP}={steps}")


def _advantage(source: Settings, out: Translation) -> None:
    name = source.get("algorithm.adv_estimator")
    if name == "gdpo":
        keys, weights = source.names(_GDPO_KEYS), source.numbers(_GDPO_WEIGHTS)
        if not keys or not set(keys) <= set(COMPONENTS):
            for key in (_GDPO_KEYS, _GDPO_WEIGHTS):
                out.cannot(key, source.get(key), f"the rewards here are {', '.join(COMPONENTS)}")
            return
        if weights is not None and len(weights) != len(keys):
            raise ConfigError(f"{_GDPO_KEYS} has {len(keys)} names, {_GDPO_WEIGHTS} {len(weights)} numbers")
        dialect.set_reward_weights(keys, weights or [1.0] * len(keys), out)
    elif name == "gae" and (value := source.number("algorithm.lam")) is not None:
        out.set("algorithm.advantage.lambda_value", value)


def _clip(source: Settings, out: Translation) -> None:
    mode, whole, low, high = source.get(_MODE), *map(source.number, (_CLIP, _LOW, _HIGH))
    if whole is not None and whole not in (low, high):
        out.notes.append(f"{_CLIP}={whole} has no effect in verl beside clip_ratio_low and clip_ratio_high")
    if low is None or high is None:
        return
    if mode == "cispo":
        out.set("algorithm.surrogate.cap_min", max(0.0, 1 - low))  # from 1 on no lower bound binds
        out.set("algorithm.surrogate.cap_max", 1 + high)
    elif mode in ("vanilla", "gspo") and low >= 1 and high >= NO_CLIP:
        out.set("algorithm.surrogate.kind", "policy_gradient")


def _kl(source: Settings, out: Translation) -> None:
    """Verl can add both terms, in the loss and in the reward; here is place for one, so the second is listed."""
    placements: list[str] = []
    for place, (switch, coefficient, estimator) in _KL_PLACES.items():
        if not source.flag(switch):
            continue
        weight, name = source.number(coefficient, 0.0), source.text(estimator)
        kind = _ESTIMATORS.get(name.removesuffix("+") if place == "reward" else name)
        if placements:
            reason = f"verl adds this KL term of {coefficient}={weight} to the {placements[0]}'s; one has a place here"
            out.cannot(switch, True, reason)
        elif kind is None:
            out.cannot(estimator, name, f"no counterpart here, only for {', '.join(_ESTIMATORS)}")
        else:
            out.set("algorithm.kl.kind", kind)
            out.set("algorithm.kl.coefficient", weight)
            out.set("algorithm.kl.placement", place)
        placements.append(place)
    if not placements and any(switch in source for switch, *_ in _KL_PLACES.values()):
        out.set("algorithm.kl.coefficient", 0.0)
    mode, mean = source.get(_MODE), source.get(_MEAN, "token-mean")
    if mode in _RESPONSE_MEANS and mean != "seq-mean-token-mean":
        reason = f"verl aggregates it by {mean} beside {mode}; here it is the policy loss's response_mean"
        if "loss" in placements:
            out.cannot(_KL_PLACES["loss"][0], True, reason)
        if entropy := source.number(_ENTROPY, 0.0):
            out.cannot(_ENTROPY, entropy, reason)


def _overlong(source: Settings, out: Translation) -> None:
    tokens, cap = source.number(f"{_OVERLONG}.len"), source.count("data.max_response_length")
    if source.flag(f"{_OVERLONG}.enable") and source.get("reward.reward_manager.name") != "dapo":
        out.cannot(
            f"{_OVERLONG}.enable",
            True,
            "only reward.reward_manager.name=dapo reads it; give that too if the run had it",
        )
    elif source.flag(f"{_OVERLONG}.enable") and tokens and cap:
        out.set("algorithm.overlong.policy", "soft")
        out.set("algorithm.overlong.buffer_fraction", tokens / cap)
        penalty = float(source.number(f"{_OVERLONG}.penalty_factor", 1.0))
        out.set("algorithm.overlong.penalty", penalty)
    elif source.flag(f"{_OVERLONG}.enable"):
        out.cannot(f"{_OVERLONG}.enable", True, f"{_OVERLONG}.len and data.max_response_length are not both given")
    rounds = source.number(f"{_FILTER}.max_num_gen_batches", 0)
    if source.flag(f"{_FILTER}.enable") and rounds > 0:
        out.set("algorithm.dead_groups.max_rounds", rounds)
    elif source.flag(f"{_FILTER}.enable"):
        reason = "verl refills without limit; algorithm.dead_groups.max_rounds bounds a step here"
        out.cannot(f"{_FILTER}.max_num_gen_batches", rounds, reason)


def _correction(source: Settings, out: Translation) -> None:
    bypass, kind = source.flag(f"{_CORRECTION}.bypass_mode"), "algorithm.engine_correction.kind"
    level, threshold = (source.get(f"{_CORRECTION}.rollout_is"), source.get(f"{_CORRECTION}.rollout_is_threshold"))
    if f"{_CORRECTION}.bypass_mode" in source:
        old = "sampler" if bypass else "recomputed"
        out.set("algorithm.engine_correction.old_log_probs", old)
    if level not in (None, "token", "sequence"):
        out.cannot(f"{_CORRECTION}.rollout_is", level, "no counterpart here, only for null, token, sequence")
    elif bypass or level is None:  # in bypass mode the ratio itself corrects
        out.set(kind, "none")
    else:
        out.set(kind, level)
        if threshold is not None:
            _bounds(threshold, out)


def _bounds(threshold: Any, out: Translation) -> None:
    """One number is a cap (weights above are cut); lower_upper zeroes the weights outside (IcePop)."""
    key, prefix = f"{_CORRECTION}.rollout_is_threshold", "algorithm.engine_correction"
    lower, separator, upper = str(threshold).strip().rpartition("_")
    try:
        floor, cap = float(lower) if separator else 0.0, float(upper)
    except ValueError:
        raise ConfigError(f"{key}={threshold} is neither a number nor lower_upper, such as 0.5_5.0") from None
    if separator:
        out.settings[f"{prefix}.kind"] += "_mask"
        out.set(f"{prefix}.floor", 0.0 if floor <= _NO_FLOOR else floor)
    if floor <= 1 <= cap:
        out.set(f"{prefix}.cap", cap)
    else:
        out.cannot(key, threshold, "the bounds must hold 1 here")
        out.settings.pop(f"{prefix}.floor", None)


def _model(source: Settings, out: Translation) -> None:
    out.settings |= {"algorithm.reward.correct": 1.0, "algorithm.reward.wrong": 0.0}
    out.notes.append("rewards are 1 for right and 0 for wrong, as verl's gsm8k scores them (its math_dapo: 1 and -1)")
    model = "actor_rollout_ref.model"
    files, path = source.get("data.train_files"), source.text(f"{model}.path")
    if files is not None:
        fields = "task.fields.problem=prompt.0.content task.fields.answer=reward_model.ground_truth"
        out.cannot("data.train_files", files, f"choose task=, or task=dataset with task.path=FILE {fields}")
    if longest := source.number("data.max_prompt_length"):
        out.notes.append(f"data.max_prompt_length={longest} has no counterpart: no prompt is dropped or cut here")
    rank = int(source.number(f"{model}.lora_rank", 0))
    targets, alpha = (source.names(f"{model}.target_modules"), source.number(f"{model}.lora_alpha", 16))
    if path:
        dialect.set_model(path, max(0, rank), alpha, targets, out)
        out.set("engine", "vllm")
    elif rank > 0:
        out.cannot(f"{model}.lora_rank", rank, f"an adapter needs the model; give {model}.path")
