"""Other trainers: their configurations in our words and ours in theirs (TRL, verl), their logs.

May import: configuration.
"""
