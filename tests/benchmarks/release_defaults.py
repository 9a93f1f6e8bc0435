"""Write the defaults of a trainer's releases, which `harness import` stands on: harness/exchange/dialects/<dialect>_releases.yaml.

    mkdir wheels; for v in 0.14 0.15 ... 1.16; do pip download --no-deps -d wheels trl==$v.0; done
    python tests/benchmarks/release_defaults.py trl wheels
    git clone https://github.com/verl-project/verl; python tests/benchmarks/release_defaults.py verl verl
    git clone https://github.com/allenai/open-instruct; python tests/benchmarks/release_defaults.py open_instruct open-instruct

Of TRL `GRPOConfig` of every wheel (`trl/trainer/grpo_config.py`); of the others what `TAGS` names at every tag and, as the last release,
at the newest commit: YAML, or classes with defaults, which are read as syntax trees. A release's row says what is `set` since the one
before it, which keys are `gone`, and under `code` what stands in the trainer's code and not in its configuration (`IN_CODE`, read by hand
in the files that it names).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import yaml

DIALECTS = Path(__file__).parents[2] / "harness" / "exchange" / "dialects"
# transformers' TrainingArguments below GRPOConfig: the same values in 4.48 and in 5.19.
TRAINING_ARGUMENTS = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8,
    "weight_decay": 0.0, "max_grad_norm": 1.0, "lr_scheduler_type": "linear", "warmup_steps": 0, "warmup_ratio": 0.0, "max_steps": -1,
    "num_train_epochs": 3.0,
}  # fmt: skip
IN_CODE: dict[str, dict[str, dict[str, Any]]] = {
    "trl": {  # trl/trainer/grpo_trainer.py of the release
        "0.14": {
            **TRAINING_ARGUMENTS, "batch_counts": "prompts", "groups_in": "update", "loss_type": "grpo", "epsilon": 0.2,
            "epsilon_high": None, "delta": None,
            "num_iterations": 1, "scale_rewards": True, "mask_truncated_completions": False, "importance_sampling_level": "token",
            "top_p": 1.0, "top_k": 50, "entropy_coef": 0.0, "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None,
            "use_bias_correction_kl": False, "vllm_importance_sampling_correction": False,
            "multi_objective_aggregation": "sum_then_normalize", "window_mean": True, "scored_at_temperature": False,
            "use_rslora": False, "use_dora": False, "lora_task_type": "CAUSAL_LM", "lora_modules_to_save": None,  # its scripts'
        },
        "0.15": {
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "batch_counts": "responses", "groups_in": "micro-batch",
        },
        "0.16": {"loss_type": "bnpo", "scored_at_temperature": True},
        "0.17": {"groups_in": "update"},
        "0.22": {"window_mean": False},  # `num_items_in_batch` counts the whole generation batch
        "0.23": {"vllm_importance_sampling_mode": "token_truncate"},
        "1.10": {"window_mean": True},
    },
    "verl": {  # verl/workers/actor/dp_actor.py, verl/workers/fsdp_workers.py, verl/trainer/ppo/core_algos.py of the release
        "0.2": {
            "actor_rollout_ref.actor.optim.weight_decay": 0.01, "actor_rollout_ref.actor.optim.betas": [0.9, 0.999],
            "actor_rollout_ref.actor.clip_ratio_c": 1e9, "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
            "actor_rollout_ref.actor.policy_loss.loss_mode": "vanilla", "algorithm.norm_adv_by_std_in_grpo": True,
            "algorithm.use_kl_in_reward": True, "algorithm.rollout_correction.bypass_mode": False,
            "clips_at": "actor_rollout_ref.actor.grad_clip", "token_mean_over": "micro-batch", "ppo_epochs_read": False,
        },
        "0.3": {"ppo_epochs_read": True},
        "0.8": {"clips_at": "actor_rollout_ref.actor.optim.clip_grad", "token_mean_over": "update"},
    },
    "open_instruct": {  # open_instruct/grpo_fast.py, grpo_utils.py and model_utils.py of the release
        "0.1": {
            "adam_epsilon": 1e-8, "adam_betas": [0.9, 0.999], "use_rho_correction": False, "truncated_importance_sampling_ratio_cap": 0.0,
            "lr_scheduler_type": "linear", "model_name_or_path": None, "vllm_top_p": 1.0,
        },
    },
    "skyrl": {  # skyrl/backends/skyrl_train/utils/ppo_utils.py, skyrl/train/trainer.py
        "train-0.1": {
            "optimizer_epsilon": 1e-8, "token_mean_over": "micro-batch", "trainer.algorithm.use_entropy_loss": False,
            "trainer.algorithm.zero_variance_filter": False, "generator.apply_overlong_filtering": False,
            "trainer.algorithm.grpo_norm_by_std": True, "generator.zero_reward_on_non_stop": False, "trainer.max_training_steps": None,
        },
        "0.2": {"token_mean_over": "update"},
    },
    "prime_rl": {  # packages/prime-rl-configs, src/prime_rl/trainer/rl/loss.py, src/prime_rl/orchestrator; unions' other members
        "0.6": {
            "trainer.optim.epsilon": 1e-8, "trainer.scheduler.warmup_steps": 10, "trainer.scheduler.decay_steps": 10,
            "trainer.scheduler.min_lr": 0.0, "orchestrator.algo.type": "grpo", "orchestrator.batch_size": 128,
            "orchestrator.train.filter_zero_advantages": True, "model.name": "Qwen/Qwen3-0.6B",
        },
    },
    "nemo_rl": {  # nemo_rl/algorithms/loss/loss_functions.py, nemo_rl/algorithms/utils.py, nemo_rl/algorithms/grpo.py
        "0.3": {
            "std_ddof": 0, "kl_weight": "none", "loss_fn.sequence_level_importance_ratios": False, "loss_fn.reference_policy_kl_type": "k3",
            "loss_fn.use_cispo": False, "loss_fn.disable_ppo_ratio": False, "loss_fn.force_on_policy_ratio": False,
            "loss_fn.use_kl_in_reward": False, "grpo.adv_estimator.name": "grpo", "loss_fn.positive_example_nll_weight": 0.0,
            "grpo.adv_estimator.minus_baseline": True, "loss_fn.truncated_importance_sampling_type": None, "grpo.max_num_epochs": 1,
        },
        "0.4": {"std_ddof": 1},
        "0.7": {"kl_weight": "score"},  # d/dlogp of exp(logp - stop(logp)) * KL: the score function's term is there, too
    },
}  # fmt: skip
# What a program sets over its classes' defaults (open_instruct/grpo_fast.py, parser.set_defaults), by the first release that does.
SET_OVER = {"open_instruct": {"0.3": {"warmup_ratio": 0.0, "max_grad_norm": 1.0}}}
TAGS: dict[str, dict[str, str]] = {  # release → commit
    "verl": {
        "0.2": "v0.2.0.post2", "0.3": "v0.3.0.post1", "0.4": "v0.4.1", "0.5": "v0.5.0", "0.6": "v0.6.1", "0.7": "v0.7.1", "0.8": "v0.8.0",
        "0.9": "v0.9.0", "0.10": "HEAD",
    },
    "open_instruct": {"0.1": "v0.1.0", "0.2": "v0.2.0", "0.3": "v0.3.0", "0.4": "HEAD"},
    "skyrl": {
        "train-0.1": "skyrl_train-v0.1.0", "train-0.2": "skyrl_train-v0.2.0", "train-0.3": "skyrl_train-v0.3.0",
        "train-0.4": "skyrl_train-v0.4.0", "0.1": "skyrl-v0.1.0", "0.2": "skyrl-v0.2.0", "0.3": "skyrl-v0.3.0", "0.4": "HEAD",
    },
    "prime_rl": {"0.6": "v0.6.0", "0.7": "v0.7.0", "0.8": "v0.8.0", "0.9": "HEAD"},
    "nemo_rl": {"0.3": "v0.3.0", "0.4": "v0.4.0", "0.5": "v0.5.0", "0.6": "v0.6.0", "0.7": "v0.7.0", "0.8": "HEAD"},
}  # fmt: skip
YAML_FILES = {  # the first that a commit has
    "verl": ("verl/trainer/config/_generated_ppo_trainer.yaml", "verl/trainer/config/ppo_trainer.yaml"),
    "skyrl": (
        "skyrl-train/skyrl_train/config/ppo_base_config.yaml",
        "skyrl/train/config/ppo_base_config.yaml",
    ),
    "nemo_rl": ("examples/configs/grpo_math_1B.yaml",),
}
_PRIME = "packages/prime-rl-configs/src/prime_rl/configs"
CLASSES: dict[
    str, tuple[tuple[str, ...], tuple[str, ...]]
] = {  # files, and the classes whose fields are the keys
    "open_instruct": (
        tuple(f"open_instruct/{name}.py" for name in ("olmo_core_utils", "grpo_utils", "data_loader")),
        ("ExperimentConfig", "GRPOExperimentConfig", "StreamingDataLoaderConfig"),
    ),
    "skyrl": (("skyrl/train/config/config.py",), ("SkyRLTrainConfig",)),
    "prime_rl": (
        tuple(f"{_PRIME}/{name}.py" for name in ("shared", "algorithm", "trainer", "orchestrator", "rl")),
        ("RLConfig",),
    ),
}
READ = (  # of the infrastructure, since older releases read them in their method
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor_rollout_ref.actor.ppo_micro_batch_size",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "data.prompt_key",
)  # fmt: skip
VERL_ROOTS = (
    "data",
    "actor_rollout_ref",
    "algorithm",
    "critic",
    "reward",
    "reward_model",
    "custom_reward_function",
    "trainer",
)


# Fields of TrainingArguments that some release's GRPOConfig declares anew: every release has them, so they tell none.
INHERITED = {
    *TRAINING_ARGUMENTS, "bf16", "gradient_checkpointing", "logging_steps", "lr_scheduler_kwargs", "remove_unused_columns",
    "torch_empty_cache_steps", "use_liger_kernel", "trust_remote_code",
}  # fmt: skip


def trl(folder: Path) -> dict[str, dict[str, Any]]:
    """Release (0.14) → defaults, from the oldest wheel of each."""
    wheels = sorted(folder.glob("trl-*.whl"), key=lambda path: _number(path.name.split("-")[1]), reverse=True)
    found = {".".join(path.name.split("-")[1].split(".")[:2]): _fields(path) for path in wheels}
    for name, values in found.items():
        declared = {key: values.pop(key) for key in INHERITED & values.keys() & TRAINING_ARGUMENTS.keys()}
        for key in INHERITED & values.keys():
            del values[key]
        if declared:
            IN_CODE["trl"][name] = IN_CODE["trl"].get(name, {}) | declared
    return {name: found[name] for name in sorted(found, key=_number)}


def _fields(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("trl/trainer/grpo_config.py"))
    names: dict[str, Any] = {}
    for statement in (node for cls in tree.body if isinstance(cls, ast.ClassDef) for node in cls.body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            given = {word.arg: word.value for word in getattr(statement.value, "keywords", [])}
            try:
                names[statement.target.id] = ast.literal_eval(given["default"])
            except (KeyError, ValueError):  # a factory: nothing that changes a method has one
                names[statement.target.id] = None
    return names


def tagged(dialect: str, checkout: Path) -> dict[str, dict[str, Any]]:
    """Release → defaults as dotted keys; what refers to another key, and infrastructure, is left out."""
    found: dict[str, dict[str, Any]] = {}
    over: dict[str, Any] = {}
    for name, tag in TAGS[dialect].items():
        over |= SET_OVER.get(dialect, {}).get(name, {})
        texts = [_show(checkout, tag, file) for file in YAML_FILES.get(dialect, ())]
        text = next(filter(None, texts), None)
        values = yaml.load(text, _Loader) if text else _classes(dialect, checkout, tag)
        found[name] = dict(_flat(values, dialect)) | over
    return found


def _show(checkout: Path, tag: str, file: str) -> str | None:
    call = ["git", "-C", str(checkout), "show", f"{tag}:{file}"]
    done = subprocess.run(call, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def _classes(dialect: str, checkout: Path, tag: str) -> dict[str, Any]:
    """Nested defaults of the classes that are a trainer's configuration; later files shadow the names of earlier ones."""
    files, roots = CLASSES[dialect]
    modules = [
        {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
        for text in (_show(checkout, tag, file) for file in files)
        if text is not None
    ]
    merged: dict[str, Any] = {}
    for root in roots:
        home = next((module for module in reversed(modules) if root in module), None)
        if home is not None:
            merged |= _defaults(root, home, modules)
    return merged


Module = dict[str, ast.ClassDef]


def _defaults(name: str, home: Module, modules: list[Module]) -> dict[str, Any]:
    """Return the defaults of a class, its parents' first; a name is looked up in its own file, then in the others."""
    found: dict[str, Any] = {}
    for base in home[name].bases:
        parent = ast.unparse(base).rpartition(".")[2]
        where = _home(parent, home, modules)
        found |= _defaults(parent, where, modules) if where is not None and parent != name else {}
    for line in home[name].body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            section = ast.unparse(line.annotation)
            where = _home(section, home, modules)
            if line.value is not None:
                found[line.target.id] = _default(line.value, home, modules)
            elif where is not None:
                found[line.target.id] = _defaults(section, where, modules)
    return found


def _home(name: str, home: Module, modules: list[Module]) -> Module | None:
    return next((module for module in (home, *modules) if name in module), None)


def _default(node: ast.expr, home: Module, modules: list[Module]) -> Any:
    """Return what stands behind `=`: a literal, or the defaults of the class that it makes; None for what only running it would tell."""
    if isinstance(node, ast.Lambda):
        return _default(node.body, home, modules)
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
    where = _home(name, home, modules)
    if where is not None:
        given = {word.arg: _default(word.value, home, modules) for word in getattr(node, "keywords", [])}
        return _defaults(name, where, modules) | given
    if isinstance(node, ast.Call):
        named = [word.value for word in node.keywords if word.arg in ("default", "default_factory")]
        inner = [*node.args, *named] if name in ("Field", "field", "deepcopy") else []
        return _default(inner[0], home, modules) if inner else None
    if isinstance(node, ast.Attribute):
        return node.attr  # a member of an enumeration
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


class _Loader(yaml.SafeLoader):
    """YAML 1.1 with 1e-6 as a number."""


_EXPONENT = re.compile(r"^-?\d[\d.]*[eE][-+]?\d+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-0123456789"))


def _flat(values: dict[str, Any], dialect: str, prefix: str = "") -> Any:
    # What is computed where and how (parallelism, memory, profiling, checkpoints) is no method.
    from harness.exchange.dialects._release import infrastructure

    for name, value in values.items():
        key = f"{prefix}{name}"
        refers = isinstance(value, str) and "${" in value
        if isinstance(value, dict) and value:
            yield from _flat(value, dialect, f"{key}.")
        elif (
            (dialect != "verl" or key.split(".")[0] in VERL_ROOTS)
            and not refers
            and (key in READ or not infrastructure(dialect, key))
        ):
            yield key, value


def rows(releases: dict[str, dict[str, Any]], code: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each release as its difference to the one before it."""
    out: dict[str, dict[str, Any]] = {}
    before: dict[str, Any] = {}
    for name, values in releases.items():
        row = {
            "set": {key: value for key, value in values.items() if key not in before or before[key] != value},
            "gone": sorted(before.keys() - values.keys()),
            "code": code.get(name, {}),
        }
        out[name], before = {key: value for key, value in row.items() if value}, values
    return out


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    dialect, source = sys.argv[1], Path(sys.argv[2])
    table = rows(trl(source) if dialect == "trl" else tagged(dialect, source), IN_CODE[dialect])
    text = yaml.safe_dump(table, sort_keys=False, width=130, default_flow_style=None)
    head = f"# Written by tests/benchmarks/release_defaults.py {dialect}; every release as its difference to the one before.\n"
    (DIALECTS / f"{dialect}_releases.yaml").write_text(head + text, encoding="utf-8")
