"""What an experiment is beside its objective, from trainers' settings: model, data, prompts, verifier, rewards, lengths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from harness.exchange.dialects import Translation
from harness.exchange.dialects._release import Values

_COMMIT = re.compile(r"[0-9a-f]{40}")
_TASKS = {"openai/gsm8k": "gsm8k_train", "BytedTsinghua-SIA/DAPO-Math-17k": "dapo_math_17k"}
_UNKNOWN_REWARD = "no such reward here; algorithm.reward.function=FILE.py:NAME takes a function of one's own"


def decay(kind: str, more: Mapping[str, Any], key: str, out: Translation) -> None:
    """Set how the learning rate falls, from a name of transformers' schedulers."""
    name = kind.removesuffix("_with_min_lr").removesuffix("_with_warmup")
    if name in ("linear", "cosine") and not set(more) - {"min_lr_rate"}:
        out.settings["optimizer.decay"] = name
        out.settings["optimizer.final_share"] = more.get("min_lr_rate") or 0.0
    elif name != "constant" or more:
        out.cannot(
            key,
            f"{kind} {dict(more)}" if more else kind,
            "the learning rate here stays, or falls linearly or as a cosine",
        )


def trl(given: Values, out: Translation) -> None:
    """Set what TRL's and open-r1's scripts say beside `GRPOConfig`."""
    _trl_rewards(given, out)
    path = given.get("model_name_or_path", given.get("model"))
    if "seed" in given:
        out.settings["seed"] = int(given.number("seed"))
    adapter = {
        "rank": given.count("lora_r", 16) if given.number("use_peft", False) else 0,
        "alpha": given.number("lora_alpha", 32),
        "targets": given.get("lora_target_modules"),
    }
    if adapter["rank"] and not adapter["targets"]:
        out.cannot(
            "lora_target_modules", "null", "peft adapts what it has for the model's type; here all-linear"
        )
    source = given.get("dataset_name")
    split = given.get("dataset_train_split", given.get("dataset_split", "train"))
    subset = given.get("dataset_config")
    if not isinstance(subset, str | None):
        out.cannot("dataset_config", subset, "task.subset is a name")
        subset = None
    fields = (given.get("dataset_prompt_column", "problem"), given.get("dataset_answer_column", "solution"))
    run_of(
        path, adapter, None if source is None else Data(str(source), split, *fields, subset), out, given.get("model_revision"),
        engine="vllm" if given.number("use_vllm", False) else "transformers",
    )  # fmt: skip
    if path is not None and source is not None and "system_prompt" in given:
        out.settings["++task.system"] = given.get("system_prompt")


def _trl_rewards(given: Values, out: Translation) -> None:
    names = [str(name).rpartition(".")[2] for name in given.get("reward_funcs", [])]
    weights = given.get("reward_weights") or [1.0] * max(1, len(names))
    separate = out.settings.get("algorithm/advantage") == "decoupled"
    out.settings |= {"algorithm.reward.correct": 1.0, "algorithm.reward.wrong": 0.0}
    if not names and (separate or list(weights) == [1.0]):
        out.notes.append(
            "rewards are functions of the script there: 1 for a right answer and 0 for a wrong one are set here"
        )
    elif not names:
        how = "weights are read with multi_objective_aggregation=normalize_then_sum"
        out.cannot(
            "reward_weights", weights, f"the reward here is algorithm.reward and algorithm.overlong; {how}"
        )
    for name, weight in zip(names, weights, strict=False):
        if "accuracy" in name and not separate:
            out.settings["algorithm.reward.correct"] = float(weight)
            out.notes.append(
                f"rewards are {weight:g} for a right answer and 0 for a wrong one, as {name} gives them"
            )
        elif "soft_overlong" in name and "soft_punish_cache" in given:
            out.settings["algorithm.overlong.policy"] = _soft(out)
            cap = given.number("max_completion_len", given.number("max_completion_length"))
            out.settings["algorithm.overlong.buffer_fraction"] = given.number("soft_punish_cache") / cap
            out.settings["algorithm.overlong.penalty"] = float(weight)
        elif not separate:
            out.cannot("reward_funcs", f"{name} (weight {weight:g})", _UNKNOWN_REWARD)
    if names and not any("accuracy" in name for name in names) and not separate:
        out.notes.append(
            "none of the reward functions is the accuracy: the verifier's 1 and 0 stand here for them"
        )


def _soft(out: Translation) -> str:
    return "mask_and_soft" if out.settings.get("algorithm.overlong.policy") == "mask" else "soft"


@dataclass(frozen=True)
class Data:
    """Problems that a trainer names.

    Attributes:
        source: a dataset of the Hub, or a file.
        split: its split; None: `source` is a file.
        problem: the field with the statement.
        answer: the field with the gold.
        subset: its configuration.
        template: as in `task.template`.
    """

    source: str
    split: str | None
    problem: str
    answer: str
    subset: str | None = None
    template: str = "plain_chat"


def run_of(
    path: Any,
    adapter: Mapping[str, Any],
    data: Data | None,
    out: Translation,
    revision: Any = None,
    engine: str = "vllm",
    verifier: str = "any",
) -> None:
    """Set model, engine, data, verifier and evaluation of the experiment that a trainer's settings are; nothing where no model is named."""
    if path is None:
        out.notes.append(
            "no model is given: model and task stay as here, and these rates and lengths may not fit them"
        )
        return
    _model(str(path), revision, adapter, out)
    out.settings["engine"] = engine
    if data is not None:
        _data(data, out)
        out.settings["task.template"] = data.template
    out.settings["verifier"] = verifier
    _evaluation("" if data is None else data.source, out.settings.get("sampling.max_response_tokens"), out)


def _model(path: str, revision: Any, adapter: Mapping[str, Any], out: Translation) -> None:
    out.settings |= {"model": "pretrained", "model.path": path}
    if _COMMIT.fullmatch(str(revision)):
        out.settings["model.revision"] = revision
    else:
        said = f" ({revision} is none)" if revision else ""
        out.notes.append(f"a run of {path} needs model.revision=COMMIT{said}, unless it is a folder")
    if adapter["rank"]:
        targets = adapter["targets"] or "all-linear"
        out.settings["model.lora.rank"] = adapter["rank"]
        out.settings["model.lora.alpha"] = float(adapter["alpha"])
        out.settings["model.lora.targets"] = targets if isinstance(targets, str) else ",".join(targets)


def _data(data: Data, out: Translation) -> None:
    """Choose a shipped task, a dataset of the Hub, or (without a split) a file."""
    if data.source in _TASKS:
        out.settings["task"] = _TASKS[data.source]
        return
    name = re.sub(r"[^\w.-]", "_", PurePosixPath(data.source).with_suffix("").name) if data.source else "data"
    where = "task.source" if data.split is not None else "task.path"
    out.settings |= {"task": "dataset", "task.name": name, where: data.source}
    out.settings |= {"task.fields.problem": data.problem, "task.fields.answer": data.answer}
    if data.split is not None:
        out.settings |= {"task.subset": data.subset, "task.split": data.split}
        out.notes.append(f"a run on {data.source} needs task.revision=COMMIT, or task.path=FILE")


def _evaluation(source: str, cap: Any, out: Translation) -> None:
    name = "gsm8k" if "gsm8k" in source.lower() else "dapo" if "dapo" in source.lower() else "open_r1"
    out.settings["evaluation"] = name
    if cap is not None:
        out.settings["evaluation.caps"] = [cap]
    out.notes.append(
        f"evaluation={name} is ours, at the training cap: the trainer's own evaluation is not read"
    )


def verl(given: Values, out: Translation) -> None:
    """Set what verl's keys say beside the objective."""
    files = given.get("data.train_files")
    files = (files or ["none"]) if isinstance(files, list) else [files]
    dapo = any("dapo" in str(file).lower() for file in files)
    manager = str(given.get("reward_model.reward_manager", given.get("reward.reward_manager.name", "naive")))
    _verl_rewards(given, dapo, manager, out)
    path = given.given.get("actor_rollout_ref.model.path")
    given.idle("actor_rollout_ref.model.path")
    engine, longest = given.get("actor_rollout_ref.rollout.name"), given.number("data.max_prompt_length")
    model = "actor_rollout_ref.model"
    names = ("lora_rank", "lora_alpha") if f"{model}.lora_rank" in given else ("lora.rank", "lora.alpha")
    rank = given.number(f"{model}.{names[0]}", 0)
    given.idle(f"{model}.{names[1]}", f"{model}.target_modules")
    adapter = {
        "rank": rank,
        "alpha": given.number(f"{model}.{names[1]}", 16) if rank else None,
        "targets": given.get(f"{model}.target_modules") if rank else None,
    }
    prompt = f"{given.get('data.prompt_key', 'prompt')}.0.content"
    verifier = "answer_line" if dapo or "gsm8k" in str(files) else "any"
    run_of(
        path, adapter, Data(str(files[0]), None, prompt, "reward_model.ground_truth"), out, verifier=verifier
    )
    if path is None:
        return
    if engine != "vllm":
        out.notes.append(f"actor_rollout_ref.rollout.name={engine}: engine=vllm samples here")
    if files == ["none"]:
        out.cannot("data.train_files", "[]", "names no problems; give task.path=FILE")
    if len(files) > 1:
        out.cannot("data.train_files", f"{len(files)} files", "task.path takes one; join them")
    if longest:
        out.notes.append(
            f"data.max_prompt_length={longest} has no counterpart: no prompt is dropped or cut here"
        )


def _verl_rewards(given: Values, dapo: bool, manager: str, out: Translation) -> None:
    wrong = -1.0 if dapo else 0.0
    out.settings |= {"algorithm.reward.correct": 1.0, "algorithm.reward.wrong": wrong}
    which = "math_dapo" if dapo else "gsm8k, MATH and their like"
    out.notes.append(
        f"rewards are 1 for a right answer and {wrong:g} for a wrong one, as verl's {which} score them"
    )
    if manager not in ("naive", "dapo"):
        out.cannot("reward_manager", manager, _UNKNOWN_REWARD)
    for key in ("custom_reward_function.path", "reward.custom_reward_function.path"):
        if key in given:
            out.cannot(key, given.get(key), _UNKNOWN_REWARD)
    given.idle("custom_reward_function.name", "reward.custom_reward_function.name")
    for key in ("reward_model.enable", "reward.reward_model.enable"):
        if given.number(key, False):
            out.cannot(
                key, True, "a reward model scores responses there; here a verifier does, or a function"
            )
        else:
            given.idle("reward_model.model.path", "reward.reward_model.model_path")
