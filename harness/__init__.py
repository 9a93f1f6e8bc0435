"""RLVR ablation benchmark harness: which trick helped, by how much, and how sure are we."""

__version__ = "0.1.0"
