"""Evaluation: exact metrics, sampling and grading."""
