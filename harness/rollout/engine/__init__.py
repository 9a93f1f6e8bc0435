"""Rollout engines as configuration. A member defines `Config` and `build(config, policy, runtime) -> RolloutEngine`."""
