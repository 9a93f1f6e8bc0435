"""Intervals, tests and attribution over training seeds, the unit of replication."""
