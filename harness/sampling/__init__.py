"""Which prompts are rolled out, and which of their groups are trained on.

May import: configuration, model, problems, rollout, testbed.
"""
