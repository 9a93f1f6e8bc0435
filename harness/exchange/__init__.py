"""Other trainers: their configurations in our words and ours in theirs (TRL, verl), and their logs as runs of the store.

May import: configuration, store.
"""
