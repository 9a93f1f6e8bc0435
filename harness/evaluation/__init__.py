"""Evaluation: exact metrics, sampling and grading.

May import: configuration, model, problems, reward, rollout, statistics, store, verify.
"""
