"""prime-rl (PrimeIntellect-ai/prime-rl, v0.6 to 559b447): keys of the TOML that its `rl` entry point takes.

Read in packages/prime-rl-configs (rl.py, trainer.py, orchestrator.py, algorithm.py), src/prime_rl/trainer/rl/loss.py and train.py, and
src/prime_rl/orchestrator/algo. One update a step over `batch_size` responses, a mean over the batch's tokens, ratios to the sampler. Its
default loss masks tokens whose probability moved too far in the advantage's direction (DPPO) and adds `kl_tau` times the squared log-ratio
to the sampler, which nothing here is. Responses may be `max_off_policy_steps` steps old. Warm-up is counted in steps.
"""

from __future__ import annotations

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Beside, Translation
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects._declared import NO_CLIP, UNCAPPED, Case, Dialect, lacking, of, refuse, stale
from harness.exchange.dialects._release import Values

ORCHESTRATOR, LOSS, OPTIM = "orchestrator", "trainer.loss", "trainer.optim"
SAMPLING, SCHEDULER, SOURCE = (
    f"{ORCHESTRATOR}.train.sampling",
    "trainer.scheduler",
    f"{ORCHESTRATOR}.train.source",
)
ADVANTAGE, SURROGATE, CORRECTION = "algorithm.advantage", "algorithm.surrogate", "algorithm.engine_correction"
ALSO = (f"{ORCHESTRATOR}.train.env", SOURCE, "model.name", "deployment.num_train_gpus", "inference")
_ALGO, _FILTER, _GATE = (
    f"{ORCHESTRATOR}.algo.type",
    f"{ORCHESTRATOR}.train.filter_zero_advantages",
    "advantage_range",
)
_STALE = f"{ORCHESTRATOR}.max_off_policy_steps"
_GROUP = of(ADVANTAGE, kind="group", baseline="group_mean")
CHOICES = {
    SURROGATE: (
        Case(
            {f"{LOSS}.type": "default", f"{LOSS}.adv_tau": 1.0, f"{LOSS}.kl_tau": 0.0},
            of(SURROGATE, kind="divergence_mask", divergence="tv", cap=NO_CLIP),
            [(f"{LOSS}.dppo_mask_low", f"{SURROGATE}.threshold_low"), (f"{LOSS}.dppo_mask_high", f"{SURROGATE}.threshold_high")],
        ),
        Case(
            {f"{LOSS}.type": "default"},
            of(SURROGATE, kind="divergence_mask", divergence="tv", cap=NO_CLIP),
            [(f"{LOSS}.dppo_mask_low", f"{SURROGATE}.threshold_low"), (f"{LOSS}.dppo_mask_high", f"{SURROGATE}.threshold_high")],
            lost="kl_tau times the squared log-ratio to the sampler is added there, and adv_tau multiplies the advantage",
        ),
        Case(
            {f"{LOSS}.type": "ipo"}, of(SURROGATE, kind="divergence_mask", divergence="tv", cap=NO_CLIP),
            [(f"{LOSS}.ipo_threshold", f"{SURROGATE}.threshold_low"), (f"{LOSS}.ipo_threshold", f"{SURROGATE}.threshold_high")],
            lost="tokens are masked whatever the advantage's sign is there; here only in its direction",
        ),
    ),
    ADVANTAGE: (
        Case({_ALGO: "grpo"}, _GROUP | of(ADVANTAGE, scale="none")),
        Case({_ALGO: "max_rl"}, _GROUP | of(ADVANTAGE, scale="group_mean", epsilon=0.0)),
        Case({_ALGO: "echo"}, _GROUP | of(ADVANTAGE, scale="none"), lost="tokens of the environment are trained on, too"),
    ),
    "algorithm.dead_groups": (
        Case({_FILTER: True}, {"algorithm.dead_groups.policy": "drop", "algorithm.dead_groups.metric": "reward"}),
        Case({_FILTER: False}, {"algorithm.dead_groups.policy": "keep"}),
    ),
}  # fmt: skip


def _there(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer, cap = config.algorithm, config.optimizer, config.sampling.max_response_tokens
    out.settings |= {
        "max_steps": config.training.steps, f"{ORCHESTRATOR}.batch_size": algorithm.prompts_per_step * algorithm.responses_per_prompt,
        f"{SAMPLING}.max_completion_tokens": cap, _STALE: config.sampling.lag_steps, f"{OPTIM}.type": "adamw",
    }  # fmt: skip
    out.notes.append("seq_len counts the prompt, too: at least the longest prompt and max_completion_tokens")
    warm, rest = optimizer.warmup_steps, config.training.steps - optimizer.warmup_steps
    if optimizer.decay == "none" and not warm:
        out.settings[f"{SCHEDULER}.type"] = "constant"
    else:
        out.settings |= {
            f"{SCHEDULER}.type": "cosine" if optimizer.decay == "cosine" else "linear",
            f"{SCHEDULER}.warmup_steps": warm,
            f"{SCHEDULER}.min_lr": optimizer.learning_rate * optimizer.final_share,
        }
        if optimizer.decay != "cosine":
            out.settings[f"{SCHEDULER}.decay_steps"] = rest if optimizer.decay == "linear" else 0
    if optimizer.epsilon != 1e-8:
        out.cannot("optimizer.epsilon", optimizer.epsilon, "prime-rl's AdamW has 1e-8")
    if algorithm.overlong.policy != "score":
        out.cannot(
            "algorithm.overlong.policy",
            algorithm.overlong.policy,
            "the environment scores responses; give it one that does",
        )


def _here(given: Values, beside: Beside, out: Translation) -> None:
    group = given.count(f"{ORCHESTRATOR}.group_size")
    batch = given.count(f"{ORCHESTRATOR}.batch_size") or 128
    if given.get(f"{ORCHESTRATOR}.token_batch_size") is not None:
        out.cannot(
            f"{ORCHESTRATOR}.token_batch_size",
            given.get(f"{ORCHESTRATOR}.token_batch_size"),
            "batches here have a number of prompts",
        )
    elif batch % group:
        raise ConfigError(
            f"{ORCHESTRATOR}.batch_size={batch} responses are no multiple of group_size={group}; mend one of them"
        )
    out.settings["algorithm.prompts_per_step"] = max(1, batch // group)
    steps = given.number("max_steps") or given.number(f"{ORCHESTRATOR}.max_steps")
    if steps:
        out.settings["training.steps"] = int(steps)
    else:
        out.cannot("max_steps", "null", "training goes on without end there; give max_steps=N")
    _schedule(given, int(steps or 0), out)
    stale(_STALE, given.number(_STALE), out)
    cap, whole = (
        given.count(f"{SAMPLING}.max_completion_tokens"),
        given.count("seq_len") or given.count(f"{ORCHESTRATOR}.seq_len"),
    )
    out.settings["sampling.max_response_tokens"] = cap or whole
    given.idle("seq_len", f"{ORCHESTRATOR}.seq_len")
    if cap is None:
        out.notes.append(
            f"no max_completion_tokens: seq_len={whole} bounds prompt and response together there, the response here"
        )
    out.settings |= {
        "algorithm.reward.correct": 1.0,
        "algorithm.reward.wrong": 0.0,
        "algorithm.overlong.policy": "score",
    }
    out.notes.append("rewards are its environment's: 1 for a right answer and 0 for a wrong one are set here")
    if given.get(f"{OPTIM}.type") != "adamw":
        out.cannot(f"{OPTIM}.type", given.get(f"{OPTIM}.type"), "AdamW trains here")
    refuse(given, out, {
        f"{ORCHESTRATOR}.algo.length_penalty": (None, "the group's longest response scales it there"),
        f"{ORCHESTRATOR}.advantage.length_penalty": (None, "the sequence length scales it there"),
        f"{ORCHESTRATOR}.advantage.length_weighted_baseline": (False, "responses weigh the same in the mean here"),
        f"{ORCHESTRATOR}.advantage.type": ("default", "a function of one's own"),
        f"{ORCHESTRATOR}.training_mode": ("rl", "no teacher trains here"),
    })  # fmt: skip
    given.idle(*(key for key in given.given if key.startswith((f"{LOSS}.", f"{SCHEDULER}."))))
    _sources(given, out)
    _model(given, out)


def _schedule(given: Values, steps: int, out: Translation) -> None:
    kind, lr = given.get(f"{SCHEDULER}.type"), out.settings["optimizer.learning_rate"]
    warm = 0 if kind == "constant" else given.number(f"{SCHEDULER}.warmup_steps")
    fall = given.number(f"{SCHEDULER}.decay_steps") if kind == "linear" else 0
    out.settings |= {
        "optimizer.warmup_steps": warm, "optimizer.decay": "cosine" if kind == "cosine" else "linear" if fall else "none",
        "optimizer.final_share": given.number(f"{SCHEDULER}.min_lr") / lr if kind != "constant" else 0.0,
    }  # fmt: skip
    if warm and given.number(f"{SCHEDULER}.min_lr"):
        out.notes.append("the learning rate rises from min_lr there, from its share of the warm-up here")
    if fall and fall != steps - warm:
        out.cannot(
            f"{SCHEDULER}.decay_steps",
            fall,
            "the rate falls over the last steps there, from the warm-up to the end here",
        )


def _sources(given: Values, out: Translation) -> None:
    """Environments, their filters, and the model."""
    listed = given.get(SOURCE) or given.get(f"{ORCHESTRATOR}.train.env") or []
    filters = [
        *(given.get(f"{ORCHESTRATOR}.pre_batch_filters") or []),
        *(given.get(f"{ORCHESTRATOR}.post_batch_filters") or []),
    ]
    gates = [gate for one in listed for gate in (one.get("curriculum") or {}).get("gates", {}).values()]
    refills = any(gate.get("type") == _GATE and not gate.get("reject_max") for gate in gates)
    refills = refills or any(
        one.get("type") == "zero_advantage" and one.get("enforce")
        for one in given.get(f"{ORCHESTRATOR}.pre_batch_filters") or []
    )
    if refills:
        out.settings |= {"algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "reward"}
        out.cannot(
            "zero_advantage",
            "refilled",
            "without limit there; algorithm.dead_groups.max_rounds bounds a step here",
        )
    for one in filters:
        if one.get("enforce") and one.get("type") != "zero_advantage":
            out.cannot(f"{ORCHESTRATOR}.filters", one.get("type"), "such responses are left out there")
    names = [
        str(one.get("id") or ((one.get("env") or {}).get("taskset") or {}).get("id") or one.get("name"))
        for one in listed
    ]
    out.cannot(
        f"{ORCHESTRATOR}.train.source",
        ", ".join(names) or "none",
        "environments of verifiers: choose task= and verifier= for their problems",
    )
    for one in listed:
        for key in {"algo", "sampling", "group_size", "advantage"} & one.keys():
            out.cannot(
                f"{ORCHESTRATOR}.train.source.{key}", one[key], "one environment's own; give it for all"
            )
        if (one.get("curriculum") or {}).get("sampler", {}).get("type", "standard") != "standard":
            out.cannot(
                f"{ORCHESTRATOR}.train.source.curriculum",
                one["curriculum"]["sampler"],
                "choose algorithm/curriculum= for it",
            )


def _model(given: Values, out: Translation) -> None:
    lora = "trainer.model.lora"
    on = any(
        key.startswith(f"{lora}.") or (key == lora and given.given[key] is not None) for key in given.given
    )
    rank = given.count(f"{lora}.rank", 16) if on else 0
    adapter = {
        "rank": rank,
        "alpha": given.number(f"{lora}.alpha", 32.0),
        "targets": given.get(f"{lora}.target_modules"),
    }
    given.idle(
        lora,
        f"{ORCHESTRATOR}.model.lora.rank",
        f"{ORCHESTRATOR}.model.lora.alpha",
        f"{ORCHESTRATOR}.model.lora",
    )
    experiment.run_of(
        given.given.get("model.name", given.given.get("trainer.model.name")), adapter, None, out
    )
    given.idle("model.name", "trainer.model.name", f"{ORCHESTRATOR}.model.name")


DIALECT = Dialect(
    "prime_rl",
    "prime-rl",
    rows=(
        (f"{ORCHESTRATOR}.group_size", "algorithm.responses_per_prompt"),
        (f"{SAMPLING}.temperature", "sampling.temperature"),
        (f"{OPTIM}.lr", "optimizer.learning_rate"),
        (f"{OPTIM}.betas1", "optimizer.beta1"),
        (f"{OPTIM}.betas2", "optimizer.beta2"),
        (f"{OPTIM}.weight_decay", "optimizer.weight_decay"),
        (f"{OPTIM}.max_norm", "optimizer.max_gradient_norm", UNCAPPED),
    ),
    choices=CHOICES,
    fixed={
        "algorithm.updates_per_step": (1, "prime-rl has one update a step"),
        "algorithm.epochs_per_step": (1, "prime-rl has one update a step"),
        "algorithm.engine_correction.old_log_probs": ("sampler", "prime-rl's ratio is to the sampler"),
        "algorithm.engine_correction.kind": ("none", "prime-rl's ratio to the sampler is the correction"),
        "algorithm.aggregation.kind": ("batch_token_mean", "prime-rl has the mean over the batch's tokens"),
        "algorithm.importance_ratio": ("token", "prime-rl has token ratios"),
        "algorithm.kl.coefficient": (0.0, "prime-rl has no reference policy beside a reward"),
        "sampling.top_p": (1.0, "prime-rl samples from the whole distribution"),
        "sampling.top_k": (0, "prime-rl samples from the whole distribution"),
    },
    without=lacking("prime-rl", ("lag_steps",), stop_strings="its environments end responses", format_credit="its environment rewards"),
    there=(_there,),
    here=(_here,),
    renamed={f"{ORCHESTRATOR}.group_size": (f"{ORCHESTRATOR}.rollouts_per_example",)},
)  # fmt: skip
export, overrides = DIALECT.export, DIALECT.overrides
