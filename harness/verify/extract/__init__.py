"""Extraction of the answer from a response."""
