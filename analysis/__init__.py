"""Answers from the result store: statistics, tables, figures, report.

May import: evaluation, store, verify. Imports no torch.
"""
