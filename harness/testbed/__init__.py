"""The testbed: its recipe, demonstrator, tokenizer, warm-up and shipped base policies. Imports model and problems."""
