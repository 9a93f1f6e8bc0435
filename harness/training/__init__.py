"""Training: the supervised warm-up and the one reinforcement-learning loop."""
