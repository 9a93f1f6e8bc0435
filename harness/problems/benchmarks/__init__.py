"""Problems to train and evaluate on. A member defines `Config` (with `kind`) and

`load(config) -> Benchmark`: deterministic, the same problems in the same order for the same configuration, on every machine.

Optional: `demonstrate(config, count: int, draw: random.Random) -> list[Demonstration]`: distinct solved problems, none of them held out,
for a cold start (`model.cold_start`).
"""

FUNCTIONS = ("load",)  # of a member
