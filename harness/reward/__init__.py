"""Rewards: outcome values and the shaping of overlong responses.

May import: configuration, verify.
"""
