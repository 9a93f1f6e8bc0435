"""Rollout engines: prompts in, responses with the behaviour policy's log-probabilities out.

May import: configuration, model, problems.
"""
