"""Problems to train and evaluate on. A member defines `Config` (with `kind`) and

`load(config) -> Benchmark`: deterministic, the same problems in the same order for the same configuration, on every machine.
"""
