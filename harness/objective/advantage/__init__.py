"""Advantage estimators. A member defines `Config` and

`advantages(batch: RolloutBatch, config) -> advantages_N`: float64 [N], one number a response token, constant over a response unless
the estimator is token-level. It must be equivariant to permuting the responses of a group, contain no NaN, be zero on responses that
are not counted, and give exactly zero to a group whose (counted) returns are all equal unless its module says `DEAD_GROUPS_VANISH = False`
and its docstring why.

Optional: `value_targets(batch, config) -> targets_N`: the estimator has a critic (its Config has a `critic` section); `batch.values_N`
then holds the critic's predictions and `value_targets` what the critic is fitted to. `USES_COMPONENTS = True`: it reads
`batch.components_PGC`. `engagement(old, new)`: as a surrogate's. `NAMES`: as a surrogate's.
"""
