"""The choice of prompts that are rolled out, and of their groups that are trained on.

May import: configuration, model, problems, rollout, testbed.
"""
