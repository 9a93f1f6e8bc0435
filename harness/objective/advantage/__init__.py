"""Advantage estimators. A member defines `Config` and

`advantages(batch: RolloutBatch, config) -> advantages_N`: float64 [N], one number a response token, constant over a response unless
the estimator is token-level. It must be equivariant to permuting the responses of a group, contain no NaN, and give exactly zero to
a group whose (counted) returns are all equal unless its docstring says why not.
"""
