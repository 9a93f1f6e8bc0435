"""The testbed: its recipe, demonstrator, tokenizer, warm-up and shipped base policies.

May import: configuration, model, problems, store.
"""
