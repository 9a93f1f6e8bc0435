"""Rewards: outcome values and the shaping of overlong responses."""
