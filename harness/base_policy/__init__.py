"""Sources of the initial policy. A member defines `Config`, with `lora` and `precision` as `pretrained.Config` has them, and

`prepare(config, task, seed: int, cache: Path, linear_kernel: str) -> Path`: an ordinary `transformers` checkpoint folder (config,
safetensors, tokenizer) of the policy before RL of a training seed, made once and cached by the hash of everything that went into it.
It may define `check(config, task)`, which raises `ConfigError` for what `prepare` would refuse, and reads no weights.

May import: configuration, model, problems, rollout, store, testbed.
"""

FUNCTIONS = ("prepare",)  # of a member
