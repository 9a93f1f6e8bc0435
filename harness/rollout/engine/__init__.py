"""Rollout engines as configuration. A member defines `Config` and the functions

* `build(config, policy, runtime) -> RolloutEngine`: samples from a policy in training;
* `open_folder(config, folder, runtime, device, dtype, linear_kernel) -> RolloutEngine`: samples from a checkpoint, for evaluation;

Optional:

`EXACT_ENTROPY = False` marks one that reports no entropy: minus the log-probability of the sampled token stands for it, good for means.
`PACKAGE = (name, where it comes from)` names a package that only this member needs.
"""

FUNCTIONS = ("build", "open_folder")  # of a member
