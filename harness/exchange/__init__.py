"""Other trainers: their configurations in our words and ours in theirs (TRL, verl), their logs, tables of scores.

May import: configuration, store.
"""
