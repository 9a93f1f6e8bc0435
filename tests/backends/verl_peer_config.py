"""Runs in verl's own environment: composes its `ppo_trainer` with each given list of overrides and says what is wrong with them.

JSON in: a list of lists of overrides. JSON out: a list of lists of complaints (empty: every key exists and has its type).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import verl.trainer
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config
from verl.workers.config.optimizer import build_optimizer

FOLDER = Path(verl.trainer.__file__).parent / "config"
MISSING = object()
# OmegaConf's loader derives from it; libyaml's is faster.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def complaints(overrides, plain):
    try:
        config = compose("ppo_trainer", overrides)
    except Exception as error:
        return [f"does not compose: {str(error).splitlines()[0]}"]
    found = []
    for override in OverridesParser.create().parse_overrides(overrides):
        key, value = override.key_or_group, override.value()
        known = OmegaConf.select(plain, key, default=MISSING, throw_on_missing=False)
        if override.is_add():
            found += [f"{key} is in the schema and needs no plus"] if known is not MISSING else []
        elif not key.startswith("hydra.") and not fits(known, value):
            found.append(f"{key}={value!r} replaces {known!r}")
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
        for section in ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm"):
            omega_conf_to_dataclass(OmegaConf.select(config, section))
        optim = omega_conf_to_dataclass(config.actor_rollout_ref.actor.optim)
        epsilon = build_optimizer([torch.nn.Parameter(torch.zeros(1))], optim).defaults["eps"]
        wanted = (optim.override_optimizer_config or {}).get("eps", 1e-8)
        found += [f"AdamW has eps={epsilon}, not {wanted}"] if epsilon != wanted else []
    except Exception as error:
        found.append(f"verl's own check: {type(error).__name__}: {error}")
    return found


def fits(known, value):
    """Whether a value may stand where the schema has `known` (null and ??? tell no type)."""
    if known is MISSING:
        return False
    if known is None or value is None:
        return True
    if isinstance(known, bool) or isinstance(value, bool):
        return isinstance(known, bool) and isinstance(value, bool)
    if isinstance(known, int | float):
        return isinstance(value, int | float) and (isinstance(known, float) or value == int(value) or known == 0)
    return isinstance(value, list) if OmegaConf.is_list(known) else isinstance(value, str)


with initialize_config_dir(str(FOLDER), version_base=None):
    bare = compose("ppo_trainer", ["actor_rollout_ref.rollout.name=vllm"])
    answers = [complaints(overrides, bare) for overrides in json.load(sys.stdin)]
sys.stdout.write("\nANSWER " + json.dumps(answers) + "\n")
