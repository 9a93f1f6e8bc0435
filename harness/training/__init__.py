"""Training: the one reinforcement-learning loop, its updates, ranks and checkpoints.

May import: base_policy, configuration, engagement, evaluation, model, objective, problems, reward, rollout, sampling, store.
"""
