"""The policy network: a fused decoder for Llama/Qwen shapes, and reading and writing transformers checkpoints.

May import: configuration, store.
"""
