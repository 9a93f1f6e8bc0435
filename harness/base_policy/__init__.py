"""Where the initial policy comes from. A member defines `Config` and

`prepare(config, task, cache: Path, linear_kernel: str) -> Path`: an ordinary `transformers` checkpoint folder (config, safetensors,
tokenizer) of the policy before RL, made once and cached by the hash of everything that went into it.

May import: configuration, model, store, testbed.
"""
