"""What is asked and what it takes: declaration, designs, plan, checks, refusals, cost, power.

Imports configuration, evaluation, model, store.
"""
