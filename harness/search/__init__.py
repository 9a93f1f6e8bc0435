"""Optuna studies that feed ordinary runs.

May import: configuration, execution, experiment, model, store.
"""
