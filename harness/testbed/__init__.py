"""The testbed: its recipe, demonstrator, tokenizer and warm-up.

May import: configuration, model, problems.
"""
