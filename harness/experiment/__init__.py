"""The question and what it takes: declaration, designs, plan, checks, refusals, cost, power.

May import: configuration, engagement, evaluation, model, problems, statistics, store.
"""
