"""Each system's effect on one group of rollouts: advantages, per-token coefficients and gradient shares (`harness explain`).

May import: configuration, objective.
"""
