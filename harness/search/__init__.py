"""Optuna studies that feed ordinary runs. Imports experiment, execution, store."""
